"""Sums, maxima and minima over every fan-in; when they are sent; window after window."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from epic_spec.packets import Descriptor
from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator, Primitive
from epic_testbed.conformance.bench import SUM, Bench, Failure
from epic_testbed.conformance.case import case

Reducer = Callable[[list[int]], int]
REDUCERS: dict[str, Reducer] = {"SUM": sum, "MAX": max, "MIN": min}


def _arithmetic(bench: Bench) -> list[tuple[Operator, Datatype]]:
    """What the group computes: every operator with every datatype."""
    params = bench.group.params
    return [
        (o, d)
        for d in Datatype
        if d.name in params.datatypes
        for o in (Operator.SUM, Operator.MAX, Operator.MIN)
        if o.name in params.operators
    ]


def _contributions(children: int, cell: int, datatype: Datatype) -> list[tuple[int, ...]]:
    """Small whole numbers, exact in every datatype and in every order of addition, each child's its own."""
    count = min(8, 32 // DATATYPE_BYTES[datatype.name])
    rng = random.Random(cell * 1009 + children)
    return [tuple(rng.choice((-1, 0, 1)) for _ in range(count)) for _ in range(children)]


def _reduced(values: list[tuple[int, ...]], operator: Operator) -> tuple[int, ...]:
    return tuple(REDUCERS[operator.name](list(column)) for column in zip(*values, strict=True))


def _run_cell(bench: Bench, cell: int, operator: Operator, datatype: Datatype) -> None:
    """One cell, the last contribution coming from a child that changes with the cell."""
    children = len(bench.group.children)
    what = Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=cell % 64)
    values = _contributions(children, cell, datatype)
    with bench.trying(f"{operator.name} {datatype.name} fan-in {children}"):
        for i in range(children):
            child = (i + cell) % children
            bench.contribute(child, cell, values[child], what)
        _results(bench, cell, _reduced(values, operator), what)


def _results(bench: Bench, cell: int, expected: tuple[int, ...], what: Descriptor = SUM) -> None:
    """At an inner engine the partial, and as result something else, so that a partial is not taken for it."""
    if bench.group.parent is None:
        bench.expect_result(cell, expected, what)
        return
    bench.expect_partial(cell, expected, what)
    result = tuple(1 - v for v in expected)
    bench.result_from_parent(cell, result, what)
    bench.expect_result(cell, result, what)


def _fan_ins(bench: Bench, *, inner: bool) -> Iterator[int]:
    """1 to 5 and the largest: with these every operator and datatype is tried."""
    most = bench.largest_fan_in(inner=inner)
    yield from sorted({*range(1, min(5, most) + 1), most})


def _every_arithmetic(bench: Bench, *, inner: bool) -> None:
    for children in _fan_ins(bench, inner=inner):
        bench.install(children, inner=inner)
        for cell, (operator, datatype) in enumerate(_arithmetic(bench)):
            _run_cell(bench, cell, operator, datatype)
        bench.expect_silence()
        bench.remove()


def _every_fan_in(bench: Bench, *, inner: bool) -> None:
    for children in range(1, bench.largest_fan_in(inner=inner) + 1):
        bench.install(children, inner=inner)
        kinds = _arithmetic(bench)
        for cell in range(2):
            _run_cell(bench, cell, *kinds[(2 * children + cell) % len(kinds)])
        bench.expect_silence()
        bench.remove()


_COMPLETION = ("EPIC-A-02", "EPIC-E-15", "EPIC-M1-14", "EPIC-M2-07", "EPIC-M3-05")


@case(*_COMPLETION, "EPIC-N-01", "EPIC-N-02", "EPIC-N-03", "EPIC-M3-07")
def every_operator_and_datatype_at_a_root(bench: Bench) -> None:
    """Every operator with every datatype, for fan-in 1 to 5 and the largest: each child receives the
    reduction of one contribution of every child, once.
    """
    _every_arithmetic(bench, inner=False)


@case(*_COMPLETION, "EPIC-N-01", "EPIC-N-02", "EPIC-N-03", "EPIC-M3-06", "EPIC-M3-11", "EPIC-M2-08")
def every_operator_and_datatype_at_an_inner_engine(bench: Bench) -> None:
    """As at a root, the reduction going to the parent, once, and the parent's result to every child, once."""
    _every_arithmetic(bench, inner=True)


@case(*_COMPLETION, "EPIC-E-13", "EPIC-M3-07")
def every_fan_in_at_a_root(bench: Bench) -> None:
    """Every fan-in from 1 to the largest, two cells each, operators and datatypes in turn."""
    _every_fan_in(bench, inner=False)


@case(*_COMPLETION, "EPIC-E-13", "EPIC-M3-06", "EPIC-M3-11")
def every_fan_in_at_an_inner_engine(bench: Bench) -> None:
    """Every fan-in from 1 to the largest, below a parent, two cells each, operators and datatypes in turn."""
    _every_fan_in(bench, inner=True)


@case("EPIC-E-13", "EPIC-E-15", needs=(("reads_status", True),))
def bitmap_has_a_bit_for_each_child(bench: Bench) -> None:
    """Each child in turn is the first to contribute to a cell: the status shows its bit, and its bit alone,
    and then those of all children.
    """
    children = bench.largest_fan_in()
    bench.install(children)
    for cell in range(children):
        bench.contribute(cell, cell, (1,))
        bench.expect_slots({cell: (1 << cell, False)})
        for child in range(children):
            if child != cell:
                bench.contribute(child, cell, (1,))
        bench.expect_result(cell, (children,))
        bench.expect_slots({cell: ((1 << children) - 1, True)})


@case("EPIC-A-04", "EPIC-E-15", "EPIC-M2-07", "EPIC-M1-14", "EPIC-M3-07")
def no_result_before_the_last_contribution(bench: Bench) -> None:
    """Each child in turn is the last to contribute, after a while in which nothing is sent."""
    children = min(4, bench.largest_fan_in())
    bench.install(children)
    for last in range(children):
        values = [(10**child,) for child in range(children)]
        for child in range(children):
            if child != last:
                bench.contribute(child, last, values[child])
        bench.expect_silence()
        bench.contribute(last, last, values[last])
        bench.expect_result(last, (sum(v for (v,) in values),))


@case("EPIC-E-15", "EPIC-A-04", "EPIC-M3-06", "EPIC-M2-07", "EPIC-M1-14")
def no_partial_before_and_no_result_after_the_last_contribution(bench: Bench) -> None:
    """Below a parent: nothing goes up before the last contribution, one partial then, and nothing down before
    the parent's result.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True)
    for last in range(children):
        for child in range(children):
            if child != last:
                bench.contribute(child, last, (child + 1,))
        bench.expect_silence()
        bench.contribute(last, last, (last + 1,))
        total = sum(range(1, children + 1))
        bench.expect_partial(last, (total,))
        bench.expect_silence()
        bench.result_from_parent(last, (-total,))
        bench.expect_result(last, (-total,))


@case("EPIC-E-14", "EPIC-A-02", "EPIC-M3-10")
def repeated_contributions_count_once(bench: Bench) -> None:
    """A child sends its contribution five times before the others send theirs, others three times: each is in
    the sum once. So it is when other children repeat after the last one of them.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True)
    for cell in range(2 * bench.group.params.window):
        for child in range(children):
            bench.contribute(child, cell, (100**child,))
            bench.sync()
            if child < children - 1:
                for _ in range(4):
                    bench.contribute(child, cell, (100**child,))
                    bench.contribute(0, cell, (1,))
                    bench.sync()
                bench.expect_silence()
        _results(bench, cell, (sum(100**c for c in range(children)),))
    bench.expect_counter({"rx_contribution": 2 * bench.group.params.window * children})


@case("EPIC-E-14", "EPIC-A-02", "EPIC-A-04")
def repetition_is_no_substitute_for_another_child(bench: Bench) -> None:
    """Child 0 repeats its contribution as often as there are children: the cell does not complete by it."""
    children = max(2, min(4, bench.largest_fan_in()))
    bench.install(children)
    for cell in range(3):
        for _ in range(children):
            bench.contribute(0, cell, (1,))
            bench.sync()
        bench.expect_silence()
        for child in range(1, children):
            bench.contribute(child, cell, (1,))
        bench.expect_result(cell, (children,))


class _Ranks:
    """Children that contribute at random, each within its window, and count their results."""

    def __init__(self, bench: Bench, cells: int, seed: int) -> None:
        self.bench, self.cells = bench, cells
        self.rng = random.Random(seed)
        self.next = [0] * len(bench.group.children)
        self.delivered = [0] * len(bench.group.children)
        self.answered = 0

    def value(self, child: int, cell: int) -> tuple[int, ...]:
        return (cell * 1000 + child, child - cell, 1 << child)

    def expected(self, cell: int) -> tuple[int, ...]:
        values = [self.value(c, cell) for c in range(len(self.next))]
        return tuple(sum(column) for column in zip(*values, strict=True))

    def run(self) -> None:
        window = self.bench.group.params.window
        while min(self.delivered) < self.cells:
            open_ = [
                c for c in range(len(self.next)) if self.next[c] < min(self.cells, self.delivered[c] + window)
            ]
            if not open_:
                raise Failure(
                    "no child can go on", ["results for the window"], [f"delivered {self.delivered}"]
                )
            child = self.rng.choice(open_)
            cell = self.next[child]
            self.bench.contribute(child, cell, self.value(child, cell))
            self.next[child] += 1
            if min(self.next) > cell:
                self.complete(cell)

    def complete(self, cell: int) -> None:
        _results_same(self.bench, cell, self.expected(cell))
        self.delivered = [cell + 1] * len(self.delivered)


def _results_same(bench: Bench, cell: int, expected: tuple[int, ...]) -> None:
    if bench.group.parent is not None:
        bench.expect_partial(cell, expected)
        bench.result_from_parent(cell, expected)
    bench.expect_result(cell, expected)


def _windows(bench: Bench, *, inner: bool) -> None:
    children = min(4, bench.largest_fan_in(inner=inner))
    for number, window in ((1, 1), (2, 4), (3, 8)):
        if window > bench.largest_window():
            continue
        with bench.trying(f"W = {window}"):
            bench.install(children, inner=inner, number=number, window=window)
            _Ranks(bench, 12 * window, bench.seed + number).run()
            bench.expect_silence()
            bench.remove(number)


@case("EPIC-A-02", "EPIC-W-16", "EPIC-E-14", "EPIC-M3-03", "EPIC-M2-06", "EPIC-M1-13")
def many_windows_at_a_root(bench: Bench) -> None:
    """W = 1, 4 and 8: children contribute in random order, as far ahead as their windows let them, for twelve
    windows.
    """
    _windows(bench, inner=False)


@case("EPIC-A-02", "EPIC-W-16", "EPIC-E-14", "EPIC-M3-03", "EPIC-M2-08", "EPIC-M1-15")
def many_windows_at_an_inner_engine(bench: Bench) -> None:
    """The same below a parent, which answers each partial."""
    _windows(bench, inner=True)


@case("EPIC-A-02", "EPIC-W-16")
def a_whole_window_ahead(bench: Bench) -> None:
    """Child 0 contributes a window of cells before any other; then child 1 does, from the oldest on. Each
    cell completes as child 1 comes to it.
    """
    bench.install(2, window=min(8, bench.largest_window()))
    window = bench.group.params.window
    for start in range(0, 3 * window, window):
        for cell in range(start, start + window):
            bench.contribute(0, cell, (cell, 1))
        bench.expect_silence()
        for cell in range(start, start + window):
            bench.contribute(1, cell, (1, cell))
            bench.expect_result(cell, (cell + 1, cell + 1))


@case("EPIC-A-02", "EPIC-M1-02", "EPIC-M1-14", modes=(1,))
def messages_of_several_packets(bench: Bench) -> None:
    """Messages of 1 to 5 packets, the last of them full and not: packets of both children alternate."""
    size = min(64, bench.traits.capabilities.payload_bytes)
    longest = min(5 * size, bench.traits.capabilities.message_bytes)
    bench.install(2, inner=True, payload_bytes=size, message_bytes=longest)
    size = bench.group.params.payload_bytes
    longest = bench.group.params.message_bytes
    for cell, length in enumerate(range(size // 2, longest + 1, size // 2)):
        with bench.trying(f"{length} bytes"):
            mine = [(7 * i + cell) % 1000 for i in range(length // 4)]
            other = [i - 500 for i in range(length // 4)]
            bench.contribute_all(cell, [mine, other])
            _results_same(bench, cell, tuple(a + b for a, b in zip(mine, other, strict=True)))


@case("EPIC-A-02")
def full_payload(bench: Bench) -> None:
    """Cells of exactly payload_bytes, at the smallest payload_bytes and, as far as the device goes, at larger
    ones.
    """
    most = bench.traits.capabilities.payload_bytes
    for number, size in enumerate(sorted({64, min(1024, most), most} & set(range(64, most + 1))), start=1):
        with bench.trying(f"payload_bytes = {size}"):
            changes: dict[str, Any] = {"message_bytes": size} if bench.mode == 1 else {}
            bench.install(2, number=number, payload_bytes=size, **changes)
            length = bench.group.params.payload_bytes // 4
            for cell in range(2):
                mine = [i * 3 + cell for i in range(length)]
                other = [-i for i in range(length)]
                bench.contribute_all(cell, [mine, other])
                bench.expect_result(cell, [a + b for a, b in zip(mine, other, strict=True)])
            bench.remove(number)
