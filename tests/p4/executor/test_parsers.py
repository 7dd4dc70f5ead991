"""Parsers: extraction, select, stacks, errors, and loops that do not end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.errors import UnsupportedError
from epic_p4.runtime.errors import ExecutionError
from p4.executor.programs import later, only, switch, v1model

ODD = """
header odd_t { bit<4> version; bit<4> length; bit<3> flags; bit<13> offset; bit<24> vni; bit<48> mac; int<8> level;
               bit<1> on; bit<7> rest; bit<128> address; bit<20> label; bit<12> tail; bit<40> five; bit<56> seven; }
"""
ODD_BYTES = 1 + 2 + 3 + 6 + 1 + 1 + 16 + 4 + 5 + 7


@given(st.binary(min_size=ODD_BYTES, max_size=ODD_BYTES + 20))
def test_a_header_of_odd_fields_comes_out_as_it_came_in(frame: bytes) -> None:
    assert only(ODD_SWITCH().process(3, frame)) == frame


ODD_SWITCH = later(
    v1model(top=ODD, headers="odd_t o;", states="state start { pkt.extract(hdr.o); transition accept; }")
)


@given(st.binary(min_size=ODD_BYTES, max_size=ODD_BYTES))
def test_each_odd_field_has_its_own_bits(frame: bytes) -> None:
    out = only(FIELDS_SWITCH().process(0, frame))
    bits = f"{int.from_bytes(frame, 'big'):0{ODD_BYTES * 8}b}"
    level = int(bits[96:104], 2)
    expected = (
        int(bits[11:24], 2),
        int(bits[24:48], 2) & 0xFFFF,
        int(bits[48:96], 2) & 0xFFFF,
        int(level >= 128),
    )
    expected += (int(bits[104], 2), int(bits[112:240], 2) & 0xFFFF, int(bits[240:260], 2) & 0xFFFF)
    assert [int.from_bytes(out[at : at + 2], "big") for at in range(0, 14, 2)] == list(expected)


FIELDS_SWITCH = later(
    v1model(
        top=ODD
        + "header seen_t { bit<16> a; bit<16> b; bit<16> c; bit<16> d; bit<16> e; bit<16> f; bit<16> g; }",
        headers="seen_t s; odd_t o;",
        states="state start { pkt.extract(hdr.o); transition accept; }",
        ingress="""
        hdr.s.setValid();
        hdr.s.a = (bit<16>)hdr.o.offset; hdr.s.b = (bit<16>)hdr.o.vni; hdr.s.c = (bit<16>)hdr.o.mac;
        hdr.s.d = hdr.o.level < 0 ? 16w1 : 16w0; hdr.s.e = (bit<16>)hdr.o.on; hdr.s.f = (bit<16>)hdr.o.address;
        hdr.s.g = (bit<16>)hdr.o.label;
        """,
    )
)

ERROR_OUT = """
hdr.h.setValid(); hdr.h.c = 0;
if (std.parser_error == error.PacketTooShort) { hdr.h.c = 1; }
if (std.parser_error == error.NoMatch) { hdr.h.c = 2; }
if (std.parser_error == error.StackOutOfBounds) { hdr.h.c = 3; }
if (std.parser_error == error.HeaderTooShort) { hdr.h.c = 4; }
if (std.parser_error == error.ParserInvalidArgument) { hdr.h.c = 5; }
if (std.parser_error == error.Mine) { hdr.h.c = 6; }
"""


def parser_error(states: str, frame: bytes, **parts: str) -> int:
    """The number of the error that ingress sees, by ERROR_OUT."""
    top = "error { Mine } header b_t { bit<8> v; }" + parts.pop("top", "")
    program = v1model(states=states, ingress=ERROR_OUT, deparser="pkt.emit(hdr.h);", top=top, **parts)
    out = only(switch(program).process(0, frame))
    return int.from_bytes(out[2:4], "big")


@pytest.mark.parametrize(
    ("states", "frame", "expected"),
    [
        ("state start { pkt.extract(hdr.h); transition accept; }", b"\0\0\0\0", 0),
        ("state start { pkt.extract(hdr.h); transition accept; }", b"\0\0\0", 1),
        ("state start { pkt.advance(16); transition accept; }", b"\0", 1),
        (
            "state start { transition select(pkt.lookahead<bit<12>>()) { 12w1: accept; default: accept; } }",
            b"\0",
            1,
        ),
        ("state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: accept; } }", b"\0\0\0\0", 2),
        ("state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: accept; } }", b"\1\0\0\0", 0),
        ("state start { pkt.extract(hdr.s.next); transition start; }", b"\0\0\0", 3),
        ("state start { pkt.extract(hdr.s.next); transition start; }", b"\0", 1),
        (
            "state start { pkt.extract(hdr.h); verify(hdr.h.a == 0, error.Mine); transition accept; }",
            b"\1\0\0\0",
            6,
        ),
        (
            "state start { pkt.extract(hdr.h); verify(hdr.h.a == 0, error.Mine); transition accept; }",
            b"\0\0\0\0",
            0,
        ),
        ("state start { transition reject; }", b"", 0),
        (
            "state start { pkt.extract(hdr.h); pkt.advance((bit<32>)hdr.h.a); transition accept; }",
            b"\4\0\0\0",
            5,
        ),
        (
            "state start { pkt.extract(hdr.h); pkt.advance((bit<32>)hdr.h.a); transition accept; }",
            b"\x08\0\0\0",
            1,
        ),
    ],
)
def test_a_parser_reports_what_went_wrong(states: str, frame: bytes, expected: int) -> None:
    assert parser_error(states, frame, headers="h_t h; b_t[2] s;") == expected


def test_headers_before_an_error_are_kept() -> None:
    program = v1model(
        headers="h_t h; h_t second;",
        states="state start { pkt.extract(hdr.h); pkt.extract(hdr.second); transition accept; }",
        ingress="if (!hdr.second.isValid()) { hdr.h.a = 0x77; }",
    )
    assert only(switch(program).process(0, b"abcdefg")) == b"\x77bcdefg"


@given(st.lists(st.integers(0, 127), max_size=6), st.binary(max_size=5))
def test_a_loop_fills_a_stack_until_the_last_element(values: list[int], payload: bytes) -> None:
    frame = bytes([value | 0x80 for value in values]) + b"\x05" + payload
    out = only(STACK_SWITCH().process(0, frame))
    assert out[:2] == bytes([len(values), values[-1] if values else 5])
    assert out[4:] == frame


STACK_SWITCH = later(
    v1model(
        top="header item_t { bit<1> more; bit<7> v; }",
        headers="h_t h; item_t[7] s;",
        states="""
        state start { pkt.extract(hdr.s.next); transition select(hdr.s.last.more) { 1: start; 0: accept; } }
        """,
        ingress="""
        hdr.h.setValid(); hdr.h.c = 0;
        if (hdr.s[1].isValid()) { hdr.h.a = 1; hdr.h.b = (bit<8>)hdr.s[0].v; }
        if (hdr.s[2].isValid()) { hdr.h.a = 2; hdr.h.b = (bit<8>)hdr.s[1].v; }
        if (hdr.s[3].isValid()) { hdr.h.a = 3; hdr.h.b = (bit<8>)hdr.s[2].v; }
        if (hdr.s[4].isValid()) { hdr.h.a = 4; hdr.h.b = (bit<8>)hdr.s[3].v; }
        if (hdr.s[5].isValid()) { hdr.h.a = 5; hdr.h.b = (bit<8>)hdr.s[4].v; }
        if (hdr.s[6].isValid()) { hdr.h.a = 6; hdr.h.b = (bit<8>)hdr.s[5].v; }
        if (!hdr.s[1].isValid()) { hdr.h.a = 0; hdr.h.b = (bit<8>)hdr.s[0].v; }
        """,
    )
)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(1, 9, 1), (2, 3, 2), (0x35, 0, 3), (20, 0, 4), (30, 0, 4), (31, 0, 5), (19, 255, 5)],
)
def test_select_takes_the_first_case_that_fits(a: int, b: int, expected: int) -> None:
    program = v1model(
        metadata="bit<8> way;",
        states="""
        state start {
            pkt.extract(hdr.h);
            transition select(hdr.h.a, hdr.h.b) {
                (1, _): one; (2, 3): two; (0x30 &&& 0xF0, 0): three; (20 .. 30, _): four; default: five;
            }
        }
        state one { meta.way = 1; transition accept; }
        state two { meta.way = 2; transition accept; }
        state three { meta.way = 3; transition accept; }
        state four { meta.way = 4; transition accept; }
        state five { meta.way = 5; transition accept; }
        """,
        ingress="hdr.h.c = (bit<16>)meta.way;",
    )
    assert only(switch(program).process(0, bytes([a, b, 0, 0])))[3] == expected


def test_a_look_ahead_takes_nothing() -> None:
    program = v1model(
        top="struct peek_t { bit<4> x; int<6> y; bool z; bit<5> w; } header tiny_t { bit<8> v; }",
        metadata="peek_t peek; bit<12> twelve; bit<8> byte;",
        states="""
        state start {
            meta.peek = pkt.lookahead<peek_t>(); meta.twelve = pkt.lookahead<bit<12>>();
            meta.byte = pkt.lookahead<tiny_t>().v; pkt.extract(hdr.h); transition accept;
        }
        """,
        ingress="""
        hdr.h.a = (meta.peek.x ++ (meta.peek.z ? 4w1 : 4w0));
        hdr.h.b = meta.peek.y < 0 ? 8w1 : 8w2; hdr.h.c = (bit<16>)(meta.twelve[7:0] ^ meta.byte);
        """,
    )
    running = switch(program)
    # 1010 111111 1 00000, then the same with y positive and z false.
    assert only(running.process(0, b"\xaf\xe0\0\0")) == bytes([0xA1, 1, 0, 0xFE ^ 0xAF])
    assert only(running.process(0, b"\xa4\x40\0\0")) == bytes([0xA0, 2, 0, 0x44 ^ 0xA4])


def test_a_state_reached_by_several_ways_runs_once() -> None:
    program = v1model(
        metadata="bit<8> n;",
        states="""
        state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: left; 2: right; default: both; } }
        state left { meta.n = meta.n + 10; transition both; }
        state right { meta.n = meta.n + 20; transition both; }
        state both { meta.n = meta.n + 1; transition accept; }
        """,
        ingress="hdr.h.b = meta.n;",
    )
    running = switch(program)
    assert [only(running.process(0, bytes([a, 0, 0, 0])))[1] for a in (0, 1, 2)] == [1, 11, 21]


def test_a_deep_tree_of_selects_is_no_problem() -> None:
    states = "state start { pkt.extract(hdr.h); transition s0; }"
    for number in range(120):
        states += f"state s{number} {{ transition select(hdr.h.a) {{ {number}: accept; default: s{number + 1}; }} }}"
    states += "state s120 { meta.n = 1; transition accept; }"
    running = switch(v1model(metadata="bit<8> n;", states=states, ingress="hdr.h.b = meta.n;"))
    assert only(running.process(0, b"\x77\0\0\0"))[1] == 0
    assert only(running.process(0, b"\xff\0\0\0"))[1] == 1


def test_a_parser_that_takes_nothing_is_stopped() -> None:
    program = v1model(
        states="state start { transition select(pkt.lookahead<bit<8>>()) { 0: start; default: accept; } }"
    )
    running = switch(program)
    with pytest.raises(ExecutionError, match=r"test\.p4:\d+:\d+: parser .*loops without taking a byte"):
        running.process(0, b"\0")
    assert only(running.process(0, b"\1")) == b"\1"


def test_a_counting_loop_that_takes_nothing_may_end() -> None:
    program = v1model(
        metadata="bit<8> n;",
        states="""
        state start { pkt.extract(hdr.h); transition loop; }
        state loop { meta.n = meta.n + 1; transition select(meta.n) { 200: accept; default: loop; } }
        """,
        ingress="hdr.h.b = meta.n;",
    )
    assert only(switch(program).process(0, bytes(4)))[1] == 200


def test_a_parser_inside_a_parser_goes_on_where_the_outer_one_is() -> None:
    program = v1model(
        headers="h_t h; h_t inner; h_t last;",
        top="""
        parser Inner(packet_in pkt, out h_t h, inout bit<8> n) {
            state start { pkt.extract(h); n = n + h.a; transition select(h.b) { 0: accept; } }
        }
        """,
        metadata="bit<8> n;",
        parser_locals="Inner() inner;",
        states="""
        state start {
            pkt.extract(hdr.h); meta.n = 5; inner.apply(pkt, hdr.inner, meta.n); pkt.extract(hdr.last);
            transition accept;
        }
        """,
        ingress="hdr.h.c = (bit<16>)meta.n; if (std.parser_error == error.NoMatch) { hdr.h.a = 0xEE; }",
    )
    running = switch(program)
    assert only(running.process(0, bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])))[:8] == bytes(
        [1, 0, 0, 7, 2, 0, 0, 0]
    )
    out = only(running.process(0, bytes([1, 0, 0, 0, 2, 9, 0, 0, 3, 0, 0, 0])))
    assert out == bytes([0xEE, 0, 0, 7, 2, 9, 0, 0, 3, 0, 0, 0])


def test_a_header_that_is_not_whole_bytes_is_refused_by_name() -> None:
    program = v1model(
        top="header n_t { bit<12> x; }",
        headers="h_t h; n_t n;",
        states="state start { pkt.extract(hdr.n); transition accept; }",
        deparser="pkt.emit(hdr.h);",
    )
    with pytest.raises(UnsupportedError, match="header n_t of 12 bits"):
        switch(program)
