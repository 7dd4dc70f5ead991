"""Arithmetic, slices, casts and conversions, each against Python's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.switch import P4Switch
from p4.executor.programs import only, switch, v1model

TOP = "header w_t { bit<8> a; bit<8> b; bit<16> r; }"


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


CASES: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("(bit<16>)(a + b)", lambda a, b: (a + b) & 0xFF),
    "subtract": ("(bit<16>)(a - b)", lambda a, b: (a - b) & 0xFF),
    "multiply": ("(bit<16>)(a * b)", lambda a, b: (a * b) & 0xFF),
    "negate": ("(bit<16>)(-a)", lambda a, b: -a & 0xFF),
    "invert": ("(bit<16>)(~a)", lambda a, b: ~a & 0xFF),
    "saturating add": ("(bit<16>)(a |+| b)", lambda a, b: min(a + b, 0xFF)),
    "saturating subtract": ("(bit<16>)(a |-| b)", lambda a, b: max(a - b, 0)),
    "and of sums": ("(bit<16>)((a + b) & (a - b))", lambda a, b: (a + b) & (a - b) & 0xFF),
    "or": ("(bit<16>)((a + 1) | b)", lambda a, b: ((a + 1) | b) & 0xFF),
    "xor": ("(bit<16>)((a + 1) ^ b)", lambda a, b: ((a + 1) ^ b) & 0xFF),
    "shift left": ("(bit<16>)(a << 3)", lambda a, b: a << 3 & 0xFF),
    "shift left far": ("(bit<16>)(a << 9)", lambda a, b: 0),
    "shift right": ("(bit<16>)((a + b) >> 3)", lambda a, b: ((a + b) & 0xFF) >> 3),
    "shift by variable": ("(bit<16>)(a << b)", lambda a, b: (a << b) & 0xFF if b < 8 else 0),
    "shift right by variable": ("(bit<16>)(a >> b)", lambda a, b: a >> b),
    "concatenate": ("a ++ b", lambda a, b: a << 8 | b),
    "slice": ("(bit<16>)(a ++ b)[11:4]", lambda a, b: (a << 8 | b) >> 4 & 0xFF),
    "slice of a sum": ("(bit<16>)(a + b)[7:4]", lambda a, b: ((a + b) & 0xFF) >> 4),
    "compare sums": ("a + b > a ? 16w1 : 16w0", lambda a, b: int((a + b) & 0xFF > a)),
    "compare signed": ("sa < sb ? 16w1 : 16w0", lambda a, b: int(signed(a, 8) < signed(b, 8))),
    "signed add": ("(bit<16>)(bit<8>)(sa + sb)", lambda a, b: (a + b) & 0xFF),
    "signed widened": ("(bit<16>)((int<16>)(sa - sb))", lambda a, b: signed((a - b) & 0xFF, 8) & 0xFFFF),
    "signed shift right": ("(bit<16>)(bit<8>)(sa >> 2)", lambda a, b: signed(a, 8) >> 2 & 0xFF),
    "signed saturating add": (
        "(bit<16>)(bit<8>)(sa |+| sb)",
        lambda a, b: clamp(signed(a, 8) + signed(b, 8), -128, 127) & 0xFF,
    ),
    "signed saturating subtract": (
        "(bit<16>)(bit<8>)(sa |-| sb)",
        lambda a, b: clamp(signed(a, 8) - signed(b, 8), -128, 127) & 0xFF,
    ),
    "signed narrowed": ("(bit<16>)(bit<4>)(int<4>)(sa * sb)", lambda a, b: a * b & 0xF),
    "signed invert": ("(bit<16>)(bit<8>)(~sa)", lambda a, b: ~a & 0xFF),
    "signed negate": ("(bit<16>)(bit<8>)(-sa)", lambda a, b: -a & 0xFF),
    "bool to bit": ("(bit<16>)(bit<1>)(a == b)", lambda a, b: int(a == b)),
    "not": (
        "!(a == b) && a > 3 || b == 9 ? 16w5 : 16w6",
        lambda a, b: 5 if (a != b and a > 3) or b == 9 else 6,
    ),
    "widen a sum": ("(bit<16>)(a + b) + (bit<16>)a", lambda a, b: ((a + b) & 0xFF) + a),
    "wide": (
        "((bit<200>)a << 190 >> 190)[15:0]",
        lambda a, b: ((a << 190) & ((1 << 200) - 1)) >> 190,
    ),
}


@pytest.fixture(scope="module")
def calculator() -> P4Switch:
    """One switch with a table entry for each case: `c` chooses, the answer goes into `r`."""
    texts = "".join(
        f"{'else ' if number else ''}if (hdr.h.c == {number}) {{ hdr.w.r = {code}; }}\n"
        for number, (code, _) in enumerate(CASES.values())
    )
    return switch(
        v1model(
            top=TOP,
            headers="h_t h; w_t w;",
            locals="bit<8> a; bit<8> b; int<8> sa; int<8> sb;",
            ingress=f"a = hdr.h.a; b = hdr.h.b; sa = (int<8>)a; sb = (int<8>)b; hdr.w.setValid(); {texts}",
        )
    )


@pytest.mark.parametrize("case", CASES)
@given(a=st.integers(0, 255), b=st.integers(0, 255))
def test_an_expression_has_the_value_of_the_language(calculator: P4Switch, case: str, a: int, b: int) -> None:
    frame = bytes([a, b]) + list(CASES).index(case).to_bytes(2, "big")
    answer = only(calculator.process(0, frame))[6:8]
    assert int.from_bytes(answer, "big") == CASES[case][1](a, b)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF))
def test_a_slice_is_written_without_its_neighbours(sliced: P4Switch, c: int, a: int) -> None:
    out = only(sliced.process(0, bytes([a, 0]) + c.to_bytes(2, "big")))
    assert int.from_bytes(out[2:], "big") == (c & 0xF00F) | (a << 4)
    assert out[1] == 0b0101_0000


@pytest.fixture(scope="module")
def sliced() -> P4Switch:
    return switch(
        v1model(
            ingress="hdr.h.c[11:4] = hdr.h.a; hdr.h.b[7:4] = 4w15; hdr.h.b[7:4][3:3] = 0; hdr.h.b[5:5] = 0;"
        )
    )


def test_operands_are_evaluated_from_left_to_right() -> None:
    program = v1model(
        locals="""
        bit<8> n = 0;
        action next(out bit<8> r) { n = n + 1; r = n; }
        bit<8> x; bit<8> y;
        """,
        ingress="next(x); hdr.h.a = x; next(y); hdr.h.b = x + y * 10; hdr.h.c = (bit<16>)n;",
    )
    assert only(switch(program).process(0, bytes(4))) == bytes([1, 21, 0, 2])


def test_a_function_that_changes_its_argument_does_not_change_what_was_read_before() -> None:
    program = v1model(
        top="bit<8> bump(inout bit<8> x) { x = x + 1; return x; }",
        ingress="hdr.h.b = hdr.h.a + bump(hdr.h.a); hdr.h.c = (hdr.h.a == 0 && bump(hdr.h.a) == 9) ? 16w1 : 16w2;",
    )
    # 4 + 5; then the right side of && is not evaluated.
    assert only(switch(program).process(0, b"\x04\0\0\0")) == bytes([5, 9, 0, 2])


def test_the_untaken_side_of_a_conditional_has_no_effect() -> None:
    program = v1model(
        top="bit<8> bump(inout bit<8> x) { x = x + 1; return x; }",
        ingress="hdr.h.b = hdr.h.c == 0 ? bump(hdr.h.a) : 8w7;",
    )
    running = switch(program)
    assert only(running.process(0, b"\x04\0\0\0"))[:2] == bytes([5, 5])
    assert only(running.process(0, b"\x04\0\0\1"))[:2] == bytes([4, 7])


def test_what_the_constructor_makes_known_may_be_divided() -> None:
    program = v1model(
        top="control C(inout bit<8> n)(bit<8> k) { apply { n = n + k / 3 + k % 4; } }",
        locals="C(20) c;",
        ingress="c.apply(hdr.h.a);",
    )
    assert only(switch(program).process(0, bytes([1, 0, 0, 0])))[0] == 1 + 6 + 0


def test_dots_are_the_defaults_of_what_is_left() -> None:
    program = v1model(
        top="struct pair_t { bit<8> x; bit<8> y; } enum Kind { first, second }",
        headers="h_t h; h_t other;",
        metadata="pair_t pair; Kind kind; bool flag; h_t inner;",
        ingress="""
            pair_t pair = {y = hdr.h.a, ...};
            hdr.other = {a = 9, ...};
            meta.pair = {5, ...};
            pair.x = pair.x + meta.pair.x + meta.pair.y;
            meta.kind = Kind.second;
            meta.inner.setValid();
            meta = {pair = pair, flag = true, ...};
            hdr.h.b = (meta.kind == Kind.first && meta.flag && !meta.inner.isValid()) ? 8w1 : 8w2;
            hdr.h.c = meta.pair.x ++ meta.pair.y;
            meta = {...};
            hdr.h.a = meta.pair.y;
            if (meta.flag) { hdr.h = {...}; }
        """,
    )
    assert only(switch(program).process(0, bytes([3, 0, 0, 0]))) == bytes([0, 1, 5, 3, 9, 0, 0, 0])


def test_a_header_given_dots_alone_is_invalid() -> None:
    program = v1model(
        headers="h_t h; h_t other;", ingress="hdr.other = {1, 2, 3}; if (hdr.h.a == 1) { hdr.other = {...}; }"
    )
    device = switch(program)
    assert only(device.process(0, bytes([0, 0, 0, 0]))) == bytes([0, 0, 0, 0, 1, 2, 0, 3])
    assert only(device.process(0, bytes([1, 0, 0, 0]))) == bytes([1, 0, 0, 0])
