"""Mode III: the epoch tag, reuse of slots, the window guard."""

from __future__ import annotations

from epic_testbed.conformance.bench import SUM, Bench
from epic_testbed.conformance.case import case
from epic_testbed.conformance.cases.m3_slots.steps import frame_of, run_cell

GUARD = (("window_guard", True),)


@case("EPIC-M3-02", "EPIC-M3-01", modes=(3,))
def late_duplicate_of_an_older_cell(bench: Bench) -> None:
    """Every slot has been used. Child 1 contributes cell N, so slot 0 serves it. A delayed copy of child 0's
    contribution to cell 0 arrives. It must be dropped: the result of cell N is the sum of the two
    contributions to it.
    """
    bench.install(window=1, slots=2)
    slots = bench.group.params.slots
    for cell in range(slots):
        run_cell(bench, cell, (1000, cell))
    bench.contribute(1, slots, (30,))
    bench.sync()
    bench.contribute(0, 0, (1000,))
    bench.expect_silence()
    bench.contribute(0, slots, (3,))
    bench.expect_result(slots, (33,))
    bench.expect_counter({"rx_stale": 1, "rx_contribution": 2 * slots + 2})


@case("EPIC-M3-02", "EPIC-W-15", modes=(3,))
def stale_contributions_of_any_age(bench: Bench) -> None:
    """After three rounds of the slots: contributions to all earlier rounds, and of cells before the first,
    are dropped, from both children, and answered with nothing.
    """
    bench.install()
    slots = bench.group.params.slots
    for cell in range(3 * slots):
        run_cell(bench, cell, (cell, 1))
    frames = [
        frame_of(bench, child, cell)
        for child in bench.group.children
        for cell in (*range(2 * slots), -1, -2, -slots, -(1 << 22))
    ]
    bench.reject(frames, "rx_stale")
    run_cell(bench, 3 * slots, (7, 8))


@case("EPIC-M3-03", "EPIC-M3-14", modes=(3,))
def reused_slot_has_nothing_of_the_older_cell(bench: Bench) -> None:
    """A slot served an AllReduce; it then serves a cell with NULL from all but one child, another length, and
    another descriptor: nothing of value, bitmap, congestion or poison is left. Each child in turn is the
    first of the new cell.
    """
    bench.install(3 if bench.largest_fan_in() >= 3 else 2)
    slots, children = bench.group.params.slots, len(bench.group.children)
    for round_ in range(4):
        for cell in range(round_ * slots, (round_ + 1) * slots):
            first = (round_ + cell) % children
            kind = (round_ + cell) % 4
            order = [(first + i) % children for i in range(children)]
            for child in order:
                payload: tuple[int, ...] | None = None
                if kind == 0:
                    payload = (1 << 20, child, 7)
                elif kind == 1 or child == first:
                    payload = (1, 2) if kind == 3 else (child + 1,)
                ecn = 3 if kind == 3 else 2
                bench.contribute(child, cell, payload, ecn=ecn)
                if child != order[-1]:
                    bench.sync()
            expected: tuple[int, ...]
            if kind == 0:
                expected = (children << 20, sum(range(children)), 7 * children)
            elif kind == 1:
                expected = (sum(range(1, children + 1)),)
            else:
                expected = (1, 2) if kind == 3 else (first + 1,)
            congested = kind == 3 and bench.group.params.ecn
            bench.expect_result(cell, expected, congested=congested)


@case("EPIC-M3-03", "EPIC-M3-05", "EPIC-D-03", modes=(3,))
def reused_slot_is_not_poisoned(bench: Bench) -> None:
    """Every slot served a poisoned cell; the next cells of the same slots are sound."""
    bench.install()
    slots = bench.group.params.slots
    for cell in range(2 * slots):
        if cell < slots:
            bench.contribute(0, cell, (1,))
            bench.sync()
            bench.contribute(1, cell, (1, 2))
            bench.expect_result(cell, None, SUM, err=True)
        else:
            run_cell(bench, cell, (cell, 1))


@case("EPIC-M3-01", "EPIC-M3-14", "EPIC-M3-08", modes=(3,))
def n_slots_hold_n_cells(bench: Bench) -> None:
    """N cells are completed. Each of them is still answered with a replay, as no slot serves a newer cell
    yet: a group really has N slots, not W. After cell N, cell 0 is gone and cells 1 to N - 1 are still there.
    """
    bench.install(window=2, slots=8)
    slots = bench.group.params.slots
    for cell in range(slots):
        run_cell(bench, cell, (cell, 100))
    for cell in range(slots):
        bench.contribute(1, cell, (100,))
        bench.expect_result(cell, (cell + 100,), children=[1])
    run_cell(bench, slots, (1, 1))
    for cell in range(1, slots):
        bench.contribute(0, cell, (cell,))
        bench.expect_result(cell, (cell + 100,), children=[0])
    bench.reject([frame_of(bench, bench.group.children[0], 0)], "rx_stale")


@case("EPIC-M3-01", "EPIC-A-05", "EPIC-M3-08", modes=(3,))
def slow_child_gets_its_result_by_replay(bench: Bench) -> None:
    """W cells are complete; child 1 lost every result of them. Child 0 has its results and goes on, by a
    whole window. Child 1 repeats: each of its W results is replayed, though child 0 has contributed W cells
    more.
    """
    bench.install(window=2, slots=4)
    window = bench.group.params.window
    for cell in range(window):
        run_cell(bench, cell, (cell, 10))
    for cell in range(window, 2 * window):
        bench.contribute(0, cell, (cell,))
    for cell in range(window):
        bench.contribute(1, cell, (10,))
        bench.expect_result(cell, (cell + 10,), children=[1])
    for cell in range(window, 2 * window):
        bench.contribute(1, cell, (10,))
        bench.expect_result(cell, (cell + 10,))


@case("EPIC-M3-04", modes=(3,), needs=GUARD)
def overrun_of_an_open_cell(bench: Bench) -> None:
    """Child 0 contributed cell 0 and then, without a result, cells N, 2N and 3N, which use the same slot.
    They are dropped; child 1 then completes cell 0 with the right sum, and cell N runs after it.
    """
    bench.install(window_guard=True)
    slots = bench.group.params.slots
    bench.contribute(0, 0, (5,))
    bench.sync()
    child = bench.group.children[0]
    bench.reject([frame_of(bench, child, n * slots) for n in (1, 2, 3)], "window")
    bench.contribute(1, 0, (6,))
    bench.expect_result(0, (11,))
    for cell in range(1, slots + 1):
        run_cell(bench, cell, (cell, 2))


@case("EPIC-M3-04", modes=(3,), needs=GUARD)
def overrun_of_a_complete_cell(bench: Bench) -> None:
    """Below a parent cell 0 is complete and not done. Both children overrun it with cell N: dropped; the
    partial can be had again, and the parent's result reaches both children.
    """
    bench.install(inner=True, window_guard=True)
    slots = bench.group.params.slots
    bench.contribute_all(0, [(5,), (6,)])
    bench.expect_partial(0, (11,))
    bench.reject([frame_of(bench, child, slots) for child in bench.group.children], "window")
    bench.contribute(0, 0, (5,))
    bench.expect_partial(0, (11,))
    bench.result_from_parent(0, (11,))
    bench.expect_result(0, (11,))
    for cell in range(1, slots + 1):
        run_cell(bench, cell, (cell, 2))


@case("EPIC-M3-04", "EPIC-M3-01", modes=(3,), needs=GUARD)
def cell_that_skips_a_round(bench: Bench) -> None:
    """A new slot takes the first cell of its index and no later one; a done slot takes the cell N after its
    own, and not 2N or more after it, whichever child asks.
    """
    bench.install(window_guard=True)
    slots = bench.group.params.slots
    children = bench.group.children
    fresh = [
        frame_of(bench, c, cell)
        for c in children
        for cell in (slots, slots + 1, 2 * slots, 64 * slots, 1 << 22)
    ]
    bench.reject(fresh, "window")
    for cell in range(slots):
        run_cell(bench, cell, (cell, 1))
    done = [frame_of(bench, c, n * slots + i) for c in children for n in (2, 3, 100) for i in range(slots)]
    bench.reject(done, "window")
    for cell in range(slots):
        bench.contribute(0, cell, (cell,))
        bench.expect_result(cell, (cell + 1,), children=[0])
    for cell in range(slots, 2 * slots):
        run_cell(bench, cell, (cell, 1))
