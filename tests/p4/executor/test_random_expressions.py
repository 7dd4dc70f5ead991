"""Random expressions against an evaluation that works on the tree, bit by bit where that is plainest."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from p4.executor.programs import only, switch, v1model

EXPRESSIONS = 60
INPUTS = 25
WIDTHS = (1, 7, 8, 13, 32, 70)


@dataclass(frozen=True)
class Made:
    """P4 text of type bit<width> or int<width>, and its value for given a, b, c."""

    text: str
    width: int
    signed: bool
    value: Callable[[dict[str, int]], int]


def fold(value: int, width: int, signed: bool) -> int:
    value %= 2**width
    return value - 2**width if signed and value >= 2 ** (width - 1) else value


class Maker:
    """Makes expressions of a given type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, width: int, signed: bool, depth: int) -> Made:
        if depth == 0:
            return self.leaf(width, signed)
        kinds = [self.binary, self.binary, self.unary, self.ternary, self.shift, self.cast, self.saturate]
        if not signed:
            kinds += [self.slice, self.concatenate, self.call]
        return self.random.choice(kinds)(width, signed, depth - 1)

    def leaf(self, width: int, signed: bool) -> Made:
        if self.random.random() < 0.3:
            value = fold(self.random.getrandbits(width), width, False)
            text = f"(int<{width}>){width}w{value}" if signed else f"{width}w{value}"
            return Made(f"({text})", width, signed, lambda env: fold(value, width, signed))
        name = self.random.choice("abc")
        text = f"(bit<{width}>){name}"
        text = f"((int<{width}>)({text}))" if signed else f"({text})"
        return Made(text, width, signed, lambda env: fold(env[name], width, signed))

    def binary(self, width: int, signed: bool, depth: int) -> Made:
        left, right = self.number(width, signed, depth), self.number(width, signed, depth)
        op = self.random.choice("+-*&|^")
        run: dict[str, Callable[[int, int], int]] = {
            "+": lambda x, y: x + y,
            "-": lambda x, y: x - y,
            "*": lambda x, y: x * y,
            "&": lambda x, y: x & y,
            "|": lambda x, y: x | y,
            "^": lambda x, y: x ^ y,
        }
        value = run[op]
        return Made(
            f"({left.text} {op} {right.text})",
            width,
            signed,
            lambda env: fold(value(left.value(env), right.value(env)), width, signed),
        )

    def unary(self, width: int, signed: bool, depth: int) -> Made:
        one, op = self.number(width, signed, depth), self.random.choice("-~")
        return Made(
            f"({op}{one.text})",
            width,
            signed,
            lambda env: fold(-one.value(env) - (1 if op == "~" else 0), width, signed),
        )

    def ternary(self, width: int, signed: bool, depth: int) -> Made:
        yes, no = self.number(width, signed, depth), self.number(width, signed, depth)
        text, test = self.condition(depth)
        return Made(
            f"({text} ? {yes.text} : {no.text})",
            width,
            signed,
            lambda env: yes.value(env) if test(env) else no.value(env),
        )

    def condition(self, depth: int) -> tuple[str, Callable[[dict[str, int]], bool]]:
        if depth and self.random.random() < 0.4:
            (first, left), (second, right) = self.condition(depth - 1), self.condition(depth - 1)
            if self.random.random() < 0.5:
                return f"({first} && {second})", lambda env: left(env) and right(env)
            return f"(!{first} || {second})", lambda env: not left(env) or right(env)
        width, signed = self.random.choice(WIDTHS), self.random.random() < 0.4
        one, two = self.number(width, signed, depth), self.number(width, signed, depth)
        op = self.random.choice(["<", ">", "<=", ">=", "==", "!="])
        tests: dict[str, Callable[[int, int], bool]] = {
            "<": lambda x, y: x < y,
            ">": lambda x, y: x > y,
            "<=": lambda x, y: x <= y,
            ">=": lambda x, y: x >= y,
            "==": lambda x, y: x == y,
            "!=": lambda x, y: x != y,
        }
        test = tests[op]
        return f"({one.text} {op} {two.text})", lambda env: test(one.value(env), two.value(env))

    def shift(self, width: int, signed: bool, depth: int) -> Made:
        one, op = self.number(width, signed, depth), self.random.choice(["<<", ">>"])
        by = self.leaf(8, False) if self.random.random() < 0.5 else None
        count = self.random.randrange(width + 3)

        def value(env: dict[str, int]) -> int:
            many = count if by is None else by.value(env)
            shifted = one.value(env) * 2**many if op == "<<" else one.value(env) // 2**many
            return fold(shifted, width, signed)

        return Made(f"({one.text} {op} {count if by is None else by.text})", width, signed, value)

    def cast(self, width: int, signed: bool, depth: int) -> Made:
        """To another width of the same sign, or to the other sign of the same width."""
        if self.random.random() < 0.5:
            one = self.number(self.random.choice(WIDTHS), signed, depth)
        else:
            one = self.number(width, not signed, depth)
        target = f"{'int' if signed else 'bit'}<{width}>"
        return Made(f"(({target}){one.text})", width, signed, lambda env: fold(one.value(env), width, signed))

    def saturate(self, width: int, signed: bool, depth: int) -> Made:
        left, right = self.number(width, signed, depth), self.number(width, signed, depth)
        sign = self.random.choice([1, -1])
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
        return Made(
            f"({left.text} {'|+|' if sign > 0 else '|-|'} {right.text})",
            width,
            signed,
            lambda env: max(low, min(high, left.value(env) + sign * right.value(env))),
        )

    def slice(self, width: int, signed: bool, depth: int) -> Made:
        low = self.random.randrange(5)
        one = self.number(width + low + self.random.randrange(4), False, depth)
        return Made(
            f"({one.text}[{low + width - 1}:{low}])",
            width,
            False,
            lambda env: one.value(env) // 2**low % 2**width,
        )

    def concatenate(self, width: int, signed: bool, depth: int) -> Made:
        if width == 1:
            return self.leaf(width, signed)
        right_width = self.random.randrange(1, width)
        left = self.number(width - right_width, False, depth)
        right = self.number(right_width, False, depth)
        return Made(
            f"({left.text} ++ {right.text})",
            width,
            False,
            lambda env: left.value(env) * 2**right_width + right.value(env),
        )

    def call(self, width: int, signed: bool, depth: int) -> Made:
        """A function that also changes `n`, so that something must be written as statements."""
        one = self.number(8, False, depth)
        return Made(
            f"((bit<{width}>)twice(n, {one.text}))",
            width,
            False,
            lambda env: one.value(env) * 2 % 256 % 2**width,
        )


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_have_the_value_of_their_tree(seed: int) -> None:
    maker = Maker(seed)
    made = [maker.number(72, False, 1 + number % 5) for number in range(EXPRESSIONS)]
    chain = " else ".join(f"if (hdr.h.c == {n}) {{ hdr.o.r = {one.text}; }}" for n, one in enumerate(made))
    running = switch(
        v1model(
            top="""
            header in_t { bit<72> a; bit<72> b; bit<72> c; } header out_t { bit<72> r; }
            bit<8> twice(inout bit<8> n, in bit<8> x) { n = n + 1; if (n == 0) { return x + x; } return x << 1; }
            """,
            headers="h_t h; in_t i; out_t o;",
            states="state start { pkt.extract(hdr.h); pkt.extract(hdr.i); transition accept; }",
            locals="bit<72> a; bit<72> b; bit<72> c; bit<8> n;",
            ingress=f"n = 0; a = hdr.i.a; b = hdr.i.b; c = hdr.i.c; hdr.o.setValid(); {chain}",
        )
    )
    numbers = random.Random(seed)
    special = [0, 1, 2**72 - 1, 2**71, 127, 128, 255, 2**32 - 1]
    for number, one in enumerate(made):
        for _ in range(INPUTS):
            env = {
                name: numbers.choice([*special, numbers.getrandbits(72), numbers.getrandbits(9)])
                for name in "abc"
            }
            packed = b"".join(env[name].to_bytes(9, "big") for name in "abc")
            out = only(running.process(0, b"\0\0" + number.to_bytes(2, "big") + packed))
            assert int.from_bytes(out[-9:], "big") == one.value(env), (seed, one.text, env)


def test_an_expression_of_many_terms_is_no_problem() -> None:
    sums = " + ".join(f"(hdr.h.c ^ {number})" for number in range(300))
    nested = "hdr.h.c"
    for number in range(60):
        nested = f"({number} - {nested})"
    bits = " ++ ".join(["hdr.h.a"] * 150)
    running = switch(v1model(ingress=f"hdr.h.c = ({sums}) ^ ({nested}) ^ ({bits})[15:0];"))
    out = only(running.process(0, b"\x5a\0\0\x09"))
    expected = sum(9 ^ number for number in range(300)) & 0xFFFF
    inner = 9
    for number in range(60):
        inner = number - inner
    assert int.from_bytes(out[2:], "big") == expected ^ (inner & 0xFFFF) ^ 0x5A5A
