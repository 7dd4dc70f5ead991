"""Constants are what Python says they are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4 import ast
from epic_p4.frontend import compile_text


def value(type_: str, text: str) -> object:
    """The value that `const type_ X = text;` has."""
    program = compile_text(f"const {type_} X = {text};", need_main=False)
    declaration = program.declaration("X")
    assert isinstance(declaration, ast.ConstDecl)
    return declaration.value.const


@dataclass(frozen=True)
class Known:
    """An expression as P4 text, with its type (`signed` None: int without width) and its value."""

    text: str
    signed: bool | None
    width: int
    number: int

    @property
    def type(self) -> str:
        return "int" if self.signed is None else f"{'int' if self.signed else 'bit'}<{self.width}>"


def fit(number: int, signed: bool, width: int) -> int:
    number %= 2**width
    return number - 2**width if signed and number >= 2 ** (width - 1) else number


@st.composite
def sized(draw: st.DrawFn, signed: bool, width: int, depth: int) -> Known:
    """An expression of one type."""
    if depth == 0:
        number = draw(
            st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else st.integers(0, 2**width - 1)
        )
        text = f"{width}{'s' if signed else 'w'}{abs(number)}"
        return Known(f"(-{text})" if number < 0 else text, signed, width, number)
    one = draw(sized(signed, width, depth - 1))
    kind = draw(
        st.sampled_from(["+", "-", "*", "&", "|", "^", "|+|", "|-|", "<<", ">>", "neg", "not", "?:", "slice"])
    )
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    if kind in {"neg", "not"}:
        number = -one.number if kind == "neg" else ~one.number
        return Known(
            f"({'-' if kind == 'neg' else '~'}{one.text})", signed, width, fit(number, signed, width)
        )
    if kind in {"<<", ">>"}:
        amount = draw(st.integers(0, width + 3))
        number = one.number * 2**amount if kind == "<<" else one.number // 2**amount
        return Known(f"({one.text} {kind} {amount})", signed, width, fit(number, signed, width))
    if kind == "slice":
        cast = f"bit<{width}>" if not signed else f"(int<{width}>)(bit<{width}>"
        bits = one.number % 2**width
        text = (
            f"(({cast}) {one.text}[{width - 1}:0])" if not signed else f"({cast}) {one.text}[{width - 1}:0])"
        )
        return Known(text, signed, width, fit(bits, signed, width))
    other = draw(sized(signed, width, depth - 1))
    if kind == "?:":
        order = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        a, b = one.number, other.number
        holds = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[order]
        text = f"({one.text} {order} {other.text} ? {one.text} : {other.text})"
        return Known(text, signed, width, a if holds else b)
    a, b = one.number, other.number
    number = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "&": a & b,
        "|": a | b,
        "^": a ^ b,
        "|+|": a + b,
        "|-|": a - b,
    }[kind]
    number = min(max(number, low), high) if kind in {"|+|", "|-|"} else fit(number, signed, width)
    return Known(f"({one.text} {kind} {other.text})", signed, width, number)


@given(st.data(), st.booleans(), st.sampled_from([1, 2, 7, 8, 9, 31, 32, 33, 64, 128]))
def test_expressions_of_a_width(data: st.DataObject, signed: bool, width: int) -> None:
    if signed and width == 1:
        width = 2
    known = data.draw(sized(signed, width, data.draw(st.integers(0, 3))))
    assert value(known.type, known.text) == known.number


@given(
    st.integers(-(10**30), 10**30),
    st.integers(-(10**30), 10**30),
    st.sampled_from(["+", "-", "*", "&", "|", "^"]),
)
def test_numbers_without_width_have_no_limit(a: int, b: int, op: str) -> None:
    expected = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op]
    assert value("int", f"({a}) {op} ({b})") == expected


@given(st.integers(0, 10**20), st.integers(1, 10**10))
def test_division_of_numbers_without_width(a: int, b: int) -> None:
    assert value("int", f"{a} / {b}") == a // b
    assert value("int", f"{a} % {b}") == a % b


@given(st.integers(0, 2**40 - 1), st.integers(0, 39), st.integers(0, 39))
def test_slices(number: int, one: int, other: int) -> None:
    low, high = sorted((one, other))
    expected = (number >> low) % 2 ** (high - low + 1)
    assert value(f"bit<{high - low + 1}>", f"40w{number}[{high}:{low}]") == expected


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_concatenation(left: int, right: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, 2**left - 1))
    b = data.draw(st.integers(0, 2**right - 1))
    assert value(f"bit<{left + right}>", f"{left}w{a} ++ {right}w{b}") == a * 2**right + b


@given(st.integers(0, 2**16 - 1), st.integers(1, 24))
def test_casts_cut_or_fill(number: int, width: int) -> None:
    assert value(f"bit<{width}>", f"(bit<{width}>) 16w{number}") == number % 2**width
    assert value("int<16>", f"(int<16>) 16w{number}") == fit(number, True, 16)


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("bit<8>", "0xFF", 255),
        ("bit<8>", "0b1010_1010", 170),
        ("bit<8>", "0o17", 15),
        ("bit<8>", "0d99", 99),
        ("bit<8>", "8w0x0F", 15),
        ("int<8>", "-8s128", -128),
        ("int<8>", "-8s1", -1),
        ("bit<8>", "-1", 255),
        ("bit<8>", "-8w1", 255),
        ("int<8>", "+5", 5),
        ("bit<8>", "1 + 2 * 3", 7),
        ("bit<8>", "1 << 2 + 1", 8),
        ("bit<8>", "8w1 ++ 8w2 == 16w258 ? 1 : 2", 1),
        ("bool", "1 + 1 == 2 && !(3 < 2)", True),
        ("bool", "5 & 4 == 4", True),  # & binds tighter than ==
        ("bool", "true || 8w1 > 2", True),
        ("bool", "(bool) 1w1", True),
        ("bit<1>", "(bit<1>) true", 1),
        ("bit<8>", "(bit<8>) (int<8>) -1", 255),
        ("bit<4>", "8w0xAB[7:4]", 10),
        ("bit<32>", "32w1 << 31 >> 31", 1),
        ("int<8>", "-8s128 >> 7", -1),
        ("bit<8>", "250 |+| 8w10", 255),
        ("int<8>", "-8s100 |-| 8s100", -128),
        ("bool", "error.NoError == error.NoError", True),
    ],
)
def test_examples(type_: str, text: str, expected: object) -> None:
    program = compile_text(f"#include <core.p4>\nconst {type_} X = {text};", need_main=False)
    declaration = program.declaration("X")
    assert isinstance(declaration, ast.ConstDecl)
    assert declaration.value.const == expected
    assert type(declaration.value.const) is type(expected)
