"""Arithmetic, element by element. Expected values are written down, not computed with the device's own means."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

from epic_spec.packets import Descriptor
from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator, Primitive
from epic_testbed.conformance.bench import Bench
from epic_testbed.conformance.case import Unmet, case

INTEGERS = (Datatype.INT8, Datatype.INT16, Datatype.INT32, Datatype.INT64)
FLOATS = (Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64)
HALVES = (Datatype.FP16, Datatype.BF16)
# Bits of the significand, and the exponents of the largest number's leading bit and of the smallest number.
FORMATS = {
    Datatype.FP16: (11, 15, -24),
    Datatype.BF16: (8, 127, -133),
    Datatype.FP32: (24, 127, -149),
    Datatype.FP64: (53, 1023, -1074),
}

Operands = Sequence[tuple[float, ...]]


def _offered(
    bench: Bench, datatypes: Sequence[Datatype], operator: Operator = Operator.SUM
) -> list[Datatype]:
    """Those of `datatypes` that the device has, with the operator. Raises Unmet when it has none."""
    capabilities = bench.traits.capabilities
    found = [d for d in datatypes if d.name in capabilities.datatypes]
    if not found:
        raise Unmet("datatypes", capabilities.datatypes, " or ".join(d.name for d in datatypes))
    if operator.name not in capabilities.operators:
        raise Unmet("operators", capabilities.operators, operator.name)
    return found


class _Cells:
    """Runs operands through consecutive cells of a root, a few elements a cell."""

    def __init__(self, bench: Bench, children: int = 2, **params: object) -> None:
        self.bench = bench
        self.cell = 0
        bench.install(children, **params)  # type: ignore[arg-type]

    def check(self, operator: Operator, datatype: Datatype, rows: Operands) -> None:
        """Each row is the operands, one a child, then the outcome; every order of the operands gives it."""
        what = Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=self.cell % 64)
        children = len(self.bench.group.children)
        placed = [
            (*order, row[-1]) for row in rows for order in dict.fromkeys(itertools.permutations(row[:-1]))
        ]
        size = self.bench.group.params.payload_bytes // 2 // DATATYPE_BYTES[datatype.name]
        for start in range(0, len(placed), size):
            part = placed[start : start + size]
            with self.bench.trying(f"{operator.name} {datatype.name} of {part}"):
                for child in range(children):
                    self.bench.contribute(child, self.cell, [row[child] for row in part], what)
                self.bench.expect_result(self.cell, [row[-1] for row in part], what)
            self.cell += 1


@case("EPIC-N-01")
def integer_sum_wraps(bench: Bench) -> None:
    """SUM of each integer type at the ends of its range wraps around in two's complement."""
    datatypes = _offered(bench, INTEGERS)
    cells = _Cells(bench)
    for datatype in datatypes:
        high = (1 << 8 * DATATYPE_BYTES[datatype.name] - 1) - 1
        low = -high - 1
        rows = [(high, 1, low), (low, -1, high), (high, high, -2), (low, low, 0), (high, low, -1)]
        rows += [(-1, 1, 0), (-1, -1, -2), (100, 27, 127), (0, low, low), (high // 2 + 1, high // 2 + 1, low)]
        cells.check(Operator.SUM, datatype, rows)


def _integer_extremes(bench: Bench, operator: Operator, pick: int) -> None:
    datatypes = _offered(bench, INTEGERS, operator)
    cells = _Cells(bench)
    for datatype in datatypes:
        high = (1 << 8 * DATATYPE_BYTES[datatype.name] - 1) - 1
        low = -high - 1
        numbers = (low, low + 1, -2, -1, 0, 1, 2, high - 1, high)
        pairs = itertools.combinations(numbers, 2)
        cells.check(operator, datatype, [(a, b, (a, b)[pick]) for a, b in pairs])


@case("EPIC-N-01", needs=(("operators", "MAX"),))
def integer_max_is_signed(bench: Bench) -> None:
    """MAX of each pair of numbers around zero and at the ends of the range of each integer type."""
    _integer_extremes(bench, Operator.MAX, 1)


@case("EPIC-N-01", needs=(("operators", "MIN"),))
def integer_min_is_signed(bench: Bench) -> None:
    """MIN of each pair of numbers around zero and at the ends of the range of each integer type."""
    _integer_extremes(bench, Operator.MIN, 0)


@case("EPIC-N-02", "EPIC-N-04")
def float_sum(bench: Bench) -> None:
    """SUM of pairs of each floating-point type: ties to even both ways, just above and below a tie, overflow
    to infinity and not quite, infinities, NaN in either place, signed zeros, cancellation, subnormals kept
    and made.
    """
    datatypes = _offered(bench, FLOATS)
    cells = _Cells(bench)
    for datatype in datatypes:
        cells.check(Operator.SUM, datatype, _float_sums(datatype))


def _float_sums(datatype: Datatype) -> list[tuple[float, ...]]:
    bits, top, bottom = FORMATS[datatype]
    ulp = 2.0 ** (1 - bits)  # of 1
    tie, most, least = ulp / 2, (2.0 - ulp) * 2.0**top, 2.0**bottom
    half_top = 2.0 ** (top - bits)  # half a last place of the largest number
    rows: list[tuple[float, ...]]
    rows = [(1.0, tie, 1.0), (1.0 + ulp, tie, 1.0 + 2 * ulp), (1.0, tie * (1 + ulp), 1.0 + ulp)]
    rows += [(1.0, tie * (1 - ulp / 2), 1.0), (-1.0, -tie, -1.0), (1.0, ulp, 1.0 + ulp)]
    rows += [(most, half_top, inf), (-most, -half_top, -inf), (most, half_top * (1 - ulp / 2), most)]
    rows += [(most, most, inf), (most, -most, 0.0), (inf, 1.0, inf), (-inf, most, -inf), (inf, inf, inf)]
    rows += [(inf, -inf, nan), (nan, 1.0, nan), (nan, inf, nan), (nan, nan, nan), (nan, -0.0, nan)]
    rows += [(-0.0, -0.0, -0.0), (0.0, -0.0, 0.0), (0.0, 0.0, 0.0), (1.0, -1.0, 0.0), (-0.0, 1.0, 1.0)]
    smallest_normal = least * 2.0 ** (bits - 1)
    rows += [(least, least, 2 * least), (least, -least, 0.0), (-least, -0.0, -least), (least, 0.0, least)]
    rows += [
        (smallest_normal, -least, smallest_normal - least),
        (smallest_normal - least, least, smallest_normal),
    ]
    return rows


@case("EPIC-N-02")
def float_sum_of_negative_zeros(bench: Bench) -> None:
    """Three contributions of -0 make -0: nothing is added to a zero of the engine's own. One +0 among them
    makes +0. With NULL from all but one child -0 stays -0.
    """
    datatypes = _offered(bench, FLOATS)
    children = min(3, bench.largest_fan_in())
    cells = _Cells(bench, children)
    for datatype in datatypes:
        rows = [(*[-0.0] * children, -0.0), (*[-0.0] * (children - 1), 0.0, 0.0)]
        cells.check(Operator.SUM, datatype, rows)
        what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=60)
        bench.contribute_all(cells.cell, [None] * (children - 1) + [(-0.0, 0.0)], what)
        bench.expect_result(cells.cell, (-0.0, 0.0), what)
        cells.cell += 1


def _float_extremes(bench: Bench, operator: Operator, pick: int) -> None:
    datatypes = _offered(bench, FLOATS, operator)
    cells = _Cells(bench)
    for datatype in datatypes:
        bits, top, bottom = FORMATS[datatype]
        most, least = (2.0 - 2.0 ** (1 - bits)) * 2.0**top, 2.0**bottom
        numbers = (-inf, -most, -1.0, -least, -0.0, 0.0, least, 1.0, most, inf)
        rows = [(a, b, (a, b)[pick]) for a, b in itertools.combinations(numbers, 2)]
        rows += [(n, n, n) for n in numbers] + [(nan, n, nan) for n in (*numbers, nan)]
        cells.check(operator, datatype, rows)


@case("EPIC-N-03", needs=(("operators", "MAX"),))
def float_max(bench: Bench) -> None:
    """MAX of each pair of infinities, largest numbers, ones, subnormals, signed zeros and NaN, in both
    places: NaN propagates, -0 is less than +0, subnormals are kept.
    """
    _float_extremes(bench, Operator.MAX, 1)


@case("EPIC-N-03", needs=(("operators", "MIN"),))
def float_min(bench: Bench) -> None:
    """MIN of the same pairs."""
    _float_extremes(bench, Operator.MIN, 0)


@case("EPIC-N-02", "EPIC-N-03")
def every_kind_of_nan(bench: Bench) -> None:
    """Quiet and signalling NaNs of both signs with a number, with each operator: the result is a NaN."""
    datatypes = _offered(bench, FLOATS)
    cells = _Cells(bench)
    order = ">" if bench.group.params.byte_order == "big" else "<"
    patterns = {
        Datatype.FP16: ("H", (0x7C01, 0x7E00, 0xFC01, 0xFFFF), 0x3C00),
        Datatype.BF16: ("H", (0x7F81, 0x7FC0, 0xFF81, 0xFFFF), 0x3F80),
        Datatype.FP32: ("I", (0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF), 0x3F800000),
        Datatype.FP64: ("Q", (0x7FF << 52 | 1, 0x7FF8 << 48, 0xFFF << 52 | 1, (1 << 64) - 1), 0x3FF << 52),
    }
    for datatype in datatypes:
        code, nans, one = patterns[datatype]
        left = struct.pack(f"{order}{len(nans)}{code}", *nans)
        right = struct.pack(f"{order}{len(nans)}{code}", *[one] * len(nans))
        for operator in (Operator.SUM, Operator.MAX, Operator.MIN):
            if operator.name not in bench.group.params.operators:
                continue
            what = Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=7)
            for pair in ([left, right], [right, left]):
                with bench.trying(f"{operator.name} {datatype.name}"):
                    bench.contribute_all(cells.cell, pair, what)
                    bench.expect_result(cells.cell, [nan] * len(nans), what)
                cells.cell += 1


def _half_rows(datatype: Datatype) -> list[tuple[float, ...]]:
    """Triples that a 16-bit accumulator gets wrong in whatever order it adds: each is tried in all places."""
    bits, top, _ = FORMATS[datatype]
    tie = 2.0**-bits
    most = (2.0 - 2.0 ** (1 - bits)) * 2.0**top
    rows: list[tuple[float, ...]]
    rows = [(1.0, tie, tie, 1.0 + 2 * tie), (-1.0, -tie, -tie, -1.0 - 2 * tie)]
    rows += [(1.0, tie, tie * 2.0**-4, 1.0 + 2 * tie), (1.0 + 2 * tie, tie, -tie * 2.0**-4, 1.0 + 2 * tie)]
    # The sum of the first two overflows 16 bits of FP16; FP32 has room for it.
    return [*rows, (most, most, -most, most)] if datatype is Datatype.FP16 else rows


@case("EPIC-N-04", needs=(("children", 3), ("ports", 3)))
def half_precision_is_accumulated_in_fp32(bench: Bench) -> None:
    """Sums of three FP16 and BF16 operands that come out right only when nothing is rounded to 16 bits, and
    nothing overflows them, before the end; the operands stand in every order. One rounding, to nearest even.
    """
    datatypes = _offered(bench, HALVES)
    cells = _Cells(bench, 3, **_input_format(bench))
    for datatype in datatypes:
        cells.check(Operator.SUM, datatype, _half_rows(datatype))


def _input_format(bench: Bench) -> dict[str, object]:
    """partial_format = input where the device has it; at a root the results are the same with fp32."""
    return {"partial_format": "input" if "input" in bench.traits.capabilities.partial_format else "fp32"}


@case("EPIC-N-04", needs=(("partial_format", "input"), ("ports", 4), ("children", 3)))
def half_precision_partials_are_rounded_to_16_bits(bench: Bench) -> None:
    """With partial_format = input partials of FP16 and BF16 have 2 bytes an element, rounded once to nearest
    even.
    """
    datatypes = _offered(bench, HALVES)
    bench.install(3, inner=True, partial_format="input")
    for cell, datatype in enumerate(datatypes):
        what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=8)
        rows = [(*o, r[-1]) for r in _half_rows(datatype)[:3] for o in itertools.permutations(r[:-1])][:16]
        for child in range(3):
            bench.contribute(child, cell, [row[child] for row in rows], what)
        bench.expect_partial(cell, [row[-1] for row in rows], what)
        bench.result_from_parent(cell, [row[0] for row in rows], what)
        bench.expect_result(cell, [row[0] for row in rows], what)


@case("EPIC-N-06", needs=(("partial_format", "fp32"), ("ports", 3)))
def wide_partials(bench: Bench) -> None:
    """With partial_format = fp32 hosts contribute FP16 and BF16 in 2 bytes an element; the partial of an
    inner engine is FP32, 4 bytes an element, not rounded; the result from the parent has 2 bytes and is
    passed on as it is. Broadcast payloads are not widened.
    """
    datatypes = _offered(bench, HALVES)
    bench.install(2, inner=True, partial_format="fp32")
    cell = 0
    for datatype in datatypes:
        tie = 2.0 ** -FORMATS[datatype][0]
        what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=8)
        with bench.trying(datatype.name):
            bench.contribute_all(cell, [(1.0, 1.0, -0.0, inf), (tie, 2.0, -0.0, 1.0)], what)
            bench.expect_partial(cell, (1.0 + tie, 3.0, -0.0, inf), what)
            bench.result_from_parent(cell, (1.0, 3.0, -0.0, inf), what)
            bench.expect_result(cell, (1.0, 3.0, -0.0, inf), what)
            cell += 1
            what = Descriptor(Primitive.BROADCAST, Operator.SUM, datatype, rank=0, tag=9)
            bench.contribute_all(cell, [b"\x7c\x01\x80\x00", None], what)
            bench.expect_partial(cell, b"\x7c\x01\x80\x00", what)
            bench.result_from_parent(cell, b"\x7c\x01\x80\x00", what)
            bench.expect_result(cell, b"\x7c\x01\x80\x00", what)
            cell += 1


@case("EPIC-N-06", "EPIC-E-11", needs=(("partial_format", "fp32"), ("ports", 3), ("children", 2)))
def wide_partials_from_below(bench: Bench) -> None:
    """Child 0 is an engine, whose contributions of FP16 and BF16 have 4 bytes an element, child 1 a host. At
    a root the sum is rounded once, to 2 bytes; below a parent it goes up in 4. Six bytes from the engine are
    no whole elements.
    """
    datatypes = _offered(bench, HALVES)
    for number, inner in ((1, False), (2, True)):
        bench.install(inner=inner, number=number, ranks_below=(2, 1), partial_format="fp32")
        for cell, datatype in enumerate(datatypes):
            tie = 2.0 ** -FORMATS[datatype][0]
            what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=8)
            with bench.trying(f"{datatype.name} {'inner' if inner else 'root'}"):
                bench.contribute(1, cell, (tie, 0.5), what)
                bench.contribute(0, cell, (1.0 + tie, 0.25), what)
                if inner:
                    bench.expect_partial(cell, (1.0 + 2 * tie, 0.75), what)
                    bench.result_from_parent(cell, (1.0 + 2 * tie, 0.75), what)
                bench.expect_result(cell, (1.0 + 2 * tie, 0.75), what)
        bench.expect_silence()
        bench.remove(number)


def _in_order(bench: Bench, byte_order: str) -> None:
    """Elements whose sums carry from byte to byte, given as bytes; a float; and a conflict record."""
    datatypes = [d for d in Datatype if d.name in bench.traits.capabilities.datatypes]
    bench.install(2, byte_order=byte_order)
    signs = {
        Datatype.FP16: 0x3C00,
        Datatype.BF16: 0x3F80,
        Datatype.FP32: 0x3F800000,
        Datatype.FP64: 0x3FF << 52,
    }
    two = {Datatype.FP16: 0x4000, Datatype.BF16: 0x4000, Datatype.FP32: 0x40000000, Datatype.FP64: 1 << 62}
    cell = 0
    for datatype in datatypes:
        size = DATATYPE_BYTES[datatype.name]
        what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=1)
        if datatype in signs:
            operands, total = [signs[datatype], signs[datatype]], two[datatype]
        else:
            operands, total = (
                [0x7F80 >> 8 * (size == 1), 0x0101 >> 8 * (size == 1)],
                0x8081 >> 8 * (size == 1),
            )
        words = [n.to_bytes(size, "big" if byte_order == "big" else "little") for n in (*operands, total)]
        with bench.trying(f"{datatype.name} {byte_order}"):
            bench.contribute_all(cell, [words[0] * 2, words[1] * 2], what)
            bench.expect_result(cell, words[2] * 2, what)
        cell += 1
    if not bench.group.params.conflict_record:
        return
    held = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1)
    other = replace(held, tag=2)
    bench.contribute(0, cell, (1,), held)
    bench.sync()
    bench.contribute(1, cell, (1, 2), other)
    record = struct.pack(">IIII", held.pack(), 4, other.pack(), 8)
    bench.expect_result(cell, record, held, err=True)


@case("EPIC-N-07", needs=(("byte_order", "big"),))
def big_endian_elements(bench: Bench) -> None:
    """A group with byte_order = big: elements of each datatype are read and written most significant byte
    first.
    """
    _in_order(bench, "big")


@case("EPIC-N-07", needs=(("byte_order", "little"),))
def little_endian_elements(bench: Bench) -> None:
    """A group with byte_order = little: elements are least significant byte first, a conflict record is not."""
    _in_order(bench, "little")


@case(
    "EPIC-N-05", modes=(1,), needs=(("ordered", True), ("datatypes", "FP32"), ("children", 3), ("ports", 3))
)
def ordered_sum(bench: Bench) -> None:
    """With `ordered` three or more children contribute in every order, to a root and below a parent: the sum
    is that of child order, from left to right; NULL of one of them is left out.
    """
    what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP32, tag=1)
    values = [(1e8, 1.0, 0.1), (1.0, 1e8, 2.0**25), (-1e8, -1e8, -(2.0**25))]
    sums = [_left_to_right(column) for column in zip(*values, strict=True)]
    cell = 0
    for number, inner in ((1, False), (2, True)):
        if inner and bench.traits.ports < 4:
            continue
        bench.install(3, inner=inner, number=number, ordered=True)
        for cell, order in enumerate(itertools.permutations(range(3))):
            with bench.trying(f"order of arrival {order}"):
                for child in order:
                    bench.contribute(child, cell, values[child], what)
                    bench.sync()
                if inner:
                    bench.expect_partial(cell, sums, what)
                    bench.result_from_parent(cell, sums, what)
                bench.expect_result(cell, sums, what)
        cell += 1
        for child, value in ((2, values[2]), (0, values[0]), (1, None)):
            bench.contribute(child, cell, value, what)
        without = [_left_to_right(column) for column in zip(values[0], values[2], strict=True)]
        if inner:
            bench.expect_partial(cell, without, what)
            bench.result_from_parent(cell, without, what)
        bench.expect_result(cell, without, what)
        bench.remove(number)


def _left_to_right(column: Sequence[float]) -> float:
    """FP32 sum, each step rounded."""
    total = _fp32(column[0])
    for value in column[1:]:
        total = _fp32(total + _fp32(value))
    return total


def _fp32(value: float) -> float:
    return float(struct.unpack(">f", struct.pack(">f", value))[0])
