"""Mode III: repeated contributions, replay, resend, and results from the parent."""

from __future__ import annotations

from epic_testbed.conformance.bench import Bench
from epic_testbed.conformance.case import case
from epic_testbed.conformance.cases.m3_slots.steps import frame_of, parent_of, run_cell


@case("EPIC-M3-10", "EPIC-M3-05", "EPIC-E-14", modes=(3,))
def duplicate_before_completion(bench: Bench) -> None:
    """Each child but the last contributes and repeats, child 0 too: nothing is sent, at a root and below a
    parent, and each counts once.
    """
    for number, inner in ((1, False), (2, True)):
        children = min(3, bench.largest_fan_in(inner=inner))
        bench.install(children, inner=inner, number=number)
        for child in range(children - 1):
            bench.contribute(child, 0, (1 << child,))
            bench.sync()
            repeated = [frame_of(bench, bench.group.children[c], 0) for c in range(child + 1)]
            bench.reject(repeated, "rx_duplicate")
        bench.contribute(children - 1, 0, (1 << children - 1,))
        total = ((1 << children) - 1,)
        if inner:
            bench.expect_partial(0, total)
            bench.result_from_parent(0, total)
        bench.expect_result(0, total)
        bench.expect_counter({"rx_contribution": children})


@case("EPIC-M3-08", "EPIC-M3-14", modes=(3,))
def replay_to_the_child_that_repeats(bench: Bench) -> None:
    """A cell is completed. Child 1 repeats its contribution, as it would when the result was lost: the result
    is sent again to child 1 alone. The other child has gone on by a window, and the slot still answers.
    """
    bench.install(window=1, slots=2)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    bench.contribute(0, 1, (5,))
    bench.contribute(1, 0, (2,))
    bench.expect_result(0, (3,), children=[1])
    bench.expect_silence()
    bench.expect_counter({"tx_replay": 1, "rx_duplicate": 1})


@case("EPIC-M3-08", "EPIC-M3-14", "EPIC-E-14", modes=(3,))
def replay_is_the_result_whatever_is_repeated(bench: Bench) -> None:
    """Each child asks five times, also with a payload and descriptor that differ from its contribution: each
    time it receives the result, unchanged, alone.
    """
    children = min(3, bench.largest_fan_in())
    bench.install(children)
    bench.contribute_all(0, [(1 << c,) for c in range(children)])
    total = ((1 << children) - 1,)
    bench.expect_result(0, total)
    for i in range(5):
        for child in range(children):
            name, port, frame = frame_of(bench, bench.group.children[child], 0, 1000 + i)
            bench.send_frame(port, frame, text=name)
            bench.expect_result(0, total, children=[child])
    bench.expect_silence()
    bench.expect_counter({"tx_replay": 5 * children, "rx_duplicate": 5 * children, "tx_result": children})


@case("EPIC-M3-09", "EPIC-M3-06", modes=(3,))
def resend_for_the_lowest_child_only(bench: Bench) -> None:
    """Below a parent a cell is complete and not done. Child 0 repeats: the partial goes up again, unchanged.
    The other children repeat: nothing is sent, nor is anything to the children.
    """
    children = min(4, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True)
    bench.contribute_all(0, [(1 << c,) for c in range(children)])
    total = ((1 << children) - 1,)
    bench.expect_partial(0, total)
    others = [frame_of(bench, bench.group.children[c], 0) for c in range(1, children)]
    for _ in range(3):
        if others:
            bench.reject(others, "rx_duplicate")
        name, port, frame = frame_of(bench, bench.group.children[0], 0)
        bench.send_frame(port, frame, text=name)
        bench.expect_partial(0, total)
        bench.expect_silence()
    bench.expect_counter({"tx_resend": 3, "tx_partial": 1, "rx_duplicate": 3 * children})
    bench.result_from_parent(0, (9,))
    bench.expect_result(0, (9,))


@case("EPIC-M3-08", "EPIC-M3-09", "EPIC-M3-11", "EPIC-M3-14", modes=(3,))
def done_inner_slot_replays_the_parents_result(bench: Bench) -> None:
    """The parent's result differs from the partial. Once it is here every child that repeats, child 0 too,
    receives the parent's result, and no partial goes up.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True)
    bench.contribute_all(0, [(1,)] * children)
    bench.expect_partial(0, (children,))
    bench.result_from_parent(0, (-7, 12))
    bench.expect_result(0, (-7, 12))
    for child in (0, children - 1, 0):
        bench.contribute(child, 0, (1,))
        bench.expect_result(0, (-7, 12), children=[child])
        bench.expect_silence()
    bench.expect_counter({"tx_replay": 3, "tx_resend": 0})


@case("EPIC-M3-09", modes=(3,))
def root_never_resends(bench: Bench) -> None:
    """A root with a cell that lacks a child: child 0 repeats a hundred times, and nothing is sent."""
    bench.install()
    bench.contribute(0, 0, (1,))
    bench.sync()
    bench.reject([frame_of(bench, bench.group.children[0], 0)] * 100, "rx_duplicate")
    bench.contribute(1, 0, (2,))
    bench.expect_result(0, (3,))


@case("EPIC-M3-11", "EPIC-M3-12", modes=(3,))
def result_is_accepted_once(bench: Bench) -> None:
    """The result of a cell comes again, the same and with another value: nothing is sent, and replays give
    the first.
    """
    bench.install(inner=True)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    bench.result_from_parent(0, (3,))
    bench.expect_result(0, (3,))
    parent = parent_of(bench.group)
    bench.reject([frame_of(bench, parent, 0, 3), frame_of(bench, parent, 0, 55)], "rx_duplicate")
    bench.contribute(1, 0, (2,))
    bench.expect_result(0, (3,), children=[1])
    bench.expect_counter({"rx_result": 1, "tx_result": 2})


@case("EPIC-M3-11", "EPIC-M3-12", "EPIC-E-15", "EPIC-A-04", modes=(3,))
def result_before_completion(bench: Bench) -> None:
    """A result comes for a cell without any contribution, and for one that lacks a child: dropped. The cell
    completes later, its partial goes up, and it waits for its result.
    """
    bench.install(inner=True)
    parent = parent_of(bench.group)
    for cell in range(3):
        bench.reject([frame_of(bench, parent, cell)], "unexpected")
        bench.contribute(cell % 2, cell, (5,))
        bench.sync()
        bench.reject([frame_of(bench, parent, cell)], "unexpected")
        bench.contribute(1 - cell % 2, cell, (6,))
        bench.expect_partial(cell, (11,))
        bench.expect_silence()
        bench.result_from_parent(cell, (11,))
        bench.expect_result(cell, (11,))


@case("EPIC-M3-12", "EPIC-M3-11", modes=(3,))
def results_of_other_cells(bench: Bench) -> None:
    """Cell N is complete and waits. Results of cell 0 (stale), of cells N + 1 to N + 3 (not complete), and of
    2N, 3N and 2^22 (newer than the slot's) are dropped and initialise nothing: done cells are still replayed,
    and that of cell N is accepted.
    """
    bench.install(inner=True)
    slots = bench.group.params.slots
    parent = parent_of(bench.group)
    for cell in range(slots):
        run_cell(bench, cell, (cell, 1))
    bench.contribute_all(slots, [(5,), (6,)])
    bench.expect_partial(slots, (11,))
    bench.reject([frame_of(bench, parent, 0)], "rx_stale")
    newer = (slots + 1, 2 * slots - 1, 2 * slots, 3 * slots, 1 << 22)
    bench.reject([frame_of(bench, parent, cell) for cell in newer], "unexpected")
    for cell in (1, slots - 1):
        bench.contribute(1, cell, (1,))
        bench.expect_result(cell, (cell + 1,), children=[1])
    bench.contribute(0, slots, (5,))
    bench.expect_partial(slots, (11,))
    bench.result_from_parent(slots, (11,))
    bench.expect_result(slots, (11,))
    for cell in range(slots + 1, 2 * slots + 1):
        run_cell(bench, cell, (cell, 1))


@case("EPIC-M3-11", "EPIC-M3-12", modes=(3,))
def results_out_of_order(bench: Bench) -> None:
    """Both cells of a window are complete; the results come in the other order, each is passed on as it
    comes.
    """
    bench.install(inner=True, window=2)
    for first in range(0, 8, 2):
        for cell in (first, first + 1):
            bench.contribute_all(cell, [(cell,), (1,)])
            bench.expect_partial(cell, (cell + 1,))
        for cell in (first + 1, first):
            bench.result_from_parent(cell, (cell + 1,))
            bench.expect_result(cell, (cell + 1,))
