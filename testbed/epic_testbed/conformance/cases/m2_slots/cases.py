"""Mode II: agg and bcast slots, what fills and what frees them, and what is repeated from them."""

from __future__ import annotations

from epic_testbed.conformance.bench import Bench
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    expect_acknowledged,
    expect_answers,
    expect_not_repeated,
    expect_received,
    expect_repeated,
    latest,
    no_timers,
    prepare,
    short_timers,
    timeout,
)

# ------------------------------------------------------------------------------------------------- agg slots


@case("EPIC-M2-06", "EPIC-M2-04", modes=(2,))
def a_child_that_overruns_its_window(bench: Bench) -> None:
    """W = 2. Child 0 contributes cells 0 and 1, and 2 while cell 0 has no result: it is dropped without an
    acknowledgement, again and again. Child 1 contributes cell 0: its result is the sum of the contributions to cell
    0. Now contribution 2 is taken, and cell 3 not.
    """
    group = bench.install(window=2, **no_timers())
    child, window = group.children[0], group.params.window
    packets = [prepare(bench, child, cell, (1 << cell,))[0] for cell in range(window + 2)]
    for packet in packets[:window]:
        bench.send(child, packet)
    expect_acknowledged(bench, child, window - 1)
    for _ in range(2):
        bench.send(child, packets[window])
        expect_answers(bench, child, [], newest=window - 1)
    bench.expect_counter({"rx_contribution": window, "drop_window": 2})
    bench.contribute(1, 0, (1000,))
    bench.expect_result(0, (1001,))
    bench.send(child, packets[window])
    expect_acknowledged(bench, child, window)
    bench.send(child, packets[window + 1])
    expect_answers(bench, child, [], newest=window)
    for cell in range(1, window + 1):
        bench.contribute(1, cell, (1000,))
        bench.expect_result(cell, ((1 << cell) + 1000,))


@case("EPIC-M2-06", "EPIC-M2-04", modes=(2,))
def an_inner_slot_is_free_when_its_result_has_passed(bench: Bench) -> None:
    """Below a parent, W = 2. Cells 0 and 1 are complete and their partials acknowledged, but no result has come:
    cell 2 of child 0 is dropped without an acknowledgement. Result 0 comes: cell 2 is taken.
    """
    group = bench.install(inner=True, window=2, **no_timers())
    child, window = group.children[0], group.params.window
    for cell in range(window):
        bench.contribute_all(cell, [(cell,), (5,)])
        bench.expect_partial(cell, (cell + 5,))
    expect_acknowledged(bench, child, window - 1)
    bench.contribute(0, window, (7,))
    expect_answers(bench, child, [], newest=window - 1)
    bench.result_from_parent(0, (50,))
    bench.expect_result(0, (50,))
    bench.contribute(0, window, (7,))
    expect_acknowledged(bench, child, window)
    bench.contribute(1, window, (8,))
    bench.expect_partial(window, (15,))


@case("EPIC-M2-06", "EPIC-M2-07", "EPIC-E-14", modes=(2,))
def slots_are_reused_over_several_windows(bench: Bench) -> None:
    """W = 4, five windows. Child 0 is always a whole window ahead of child 1, and repeats its oldest contribution
    when its slot serves the newest: each result is the sum of its own cell's contributions.
    """
    group = bench.install(window=4, **no_timers())
    window = group.params.window
    cells = 5 * window
    for cell in range(window):
        bench.contribute(0, cell, (3 * cell,))
    for cell in range(cells):
        bench.contribute(1, cell, (-cell * cell,))
        bench.expect_result(cell, (3 * cell - cell * cell,))
        bench.contribute(0, cell + window, (3 * (cell + window),))
        bench.contribute(0, cell, (3 * cell,))
        expect_acknowledged(bench, group.children[0], cell + window)
    bench.expect_counter(
        {"rx_contribution": 2 * cells + window, "cells_completed": cells, "rx_duplicate": cells}
    )


@case("EPIC-M2-07", "EPIC-E-15", modes=(2,))
def the_last_contribution_sends_the_partial(bench: Bench) -> None:
    """Below a parent, four children, W = 4. Cells 0 to 2 get their contributions child by child: no partial is sent
    before child 3's, which sends the partial of its cell at once, and no result before the parent's.
    """
    group = bench.install(4, inner=True, window=4, **no_timers())
    parent = group.parent
    assert parent is not None
    for child in range(3):
        for cell in range(3):
            bench.contribute(child, cell, (10**child * (cell + 1),))
    bench.expect_silence()
    for cell in range(3):
        bench.contribute(3, cell, (1000 * (cell + 1),))
        bench.expect_partial(cell, (1111 * (cell + 1),))
        bench.expect_silence()
    expect_received(bench, parent, [0, 1, 2])


@case("EPIC-M2-07", "EPIC-E-15", modes=(2,))
def the_root_takes_the_sum_as_the_result(bench: Bench) -> None:
    """A root with three children. The contribution that completes the cell, of whichever child, makes the result."""
    bench.install(3, **no_timers())
    for cell, order in enumerate(((0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1))):
        for child in order[:2]:
            bench.contribute(child, cell, (10**child,))
        bench.expect_silence()
        bench.contribute(order[2], cell, (10 ** order[2],))
        bench.expect_result(cell, (111,))


@case("EPIC-M2-12", "EPIC-M2-09", modes=(2,))
def a_lost_last_partial_is_repeated_from_agg(bench: Bench) -> None:
    """Below a parent, W = 4. Partials 0 to 2 were sent and 2, the last, is lost: the parent acknowledges 1. The
    timer repeats partial 2 with the same content, also after child 0 has contributed cell 3, until the parent
    acknowledges.
    """
    group = bench.install(inner=True, window=4, **short_timers(bench))
    parent = group.parent
    assert parent is not None
    parent.acknowledge = False
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (7,)])
        bench.expect_partial(cell, (cell + 7,))
    bench.acknowledge(parent, 1)
    bench.contribute(0, 3, (-1,))
    wait = latest(bench, timeout(bench))
    for _ in range(2):
        expect_repeated(bench, parent, [2], wait)
    bench.acknowledge(parent, 2)
    expect_not_repeated(bench, parent, wait)


@case("EPIC-M2-11", modes=(2,))
def a_result_acknowledges_partials(bench: Bench) -> None:
    """Below a parent that acknowledges nothing, W = 4. Partials 0 to 2 are out; result 0 comes: the timer repeats 1
    and 2 and no longer 0. Results 1 and 2 come: nothing is repeated.
    """
    group = bench.install(inner=True, window=4, **short_timers(bench))
    parent = group.parent
    assert parent is not None
    parent.acknowledge = False
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (7,)])
        bench.expect_partial(cell, (cell + 7,))
    wait = latest(bench, timeout(bench))
    bench.result_from_parent(0, (1,))
    bench.expect_result(0, (1,))
    expect_repeated(bench, parent, [1, 2], wait)
    for cell in (1, 2):
        bench.result_from_parent(cell, (1,))
        bench.expect_result(cell, (1,))
    expect_not_repeated(bench, parent, wait)


# ----------------------------------------------------------------------------------------------- bcast slots


@case("EPIC-M2-08", modes=(2,))
def a_result_goes_to_every_child(bench: Bench) -> None:
    """Below a parent, three children, three windows. Each result of the parent, another value than the partial,
    reaches every child as it is, once, numbered by its cell; and is acknowledged.
    """
    group = bench.install(3, inner=True, window=2, **no_timers())
    assert group.parent is not None
    cells = 3 * group.params.window
    for cell in range(cells):
        bench.contribute_all(cell, [(1,), (2,), (3,)])
        bench.expect_partial(cell, (6,))
        bench.result_from_parent(cell, (1000 + cell, cell))
        bench.expect_result(cell, (1000 + cell, cell))
        expect_acknowledged(bench, group.parent, cell)
    for child in group.children:
        expect_received(bench, child, range(cells))


@case("EPIC-M2-09", modes=(2,))
def a_lost_last_result_is_repeated_by_the_timer(bench: Bench) -> None:
    """W = 4. Results 0 to 2 are sent; child 1 lost the last and acknowledges 1. Nothing else goes on, so no gap
    tells: the timer repeats result 2 to child 1, and child 0 gets nothing again, until child 1 acknowledges.
    """
    group = bench.install(window=4, **short_timers(bench))
    slow = group.children[1]
    slow.acknowledge = False
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (7,)])
        bench.expect_result(cell, (cell + 7,))
    bench.acknowledge(slow, 1)
    wait = latest(bench, timeout(bench))
    for _ in range(2):
        expect_repeated(bench, slow, [2], wait)
    bench.acknowledge(slow, 2)
    expect_not_repeated(bench, slow, wait)
    expect_received(bench, group.children[0], range(3))


@case("EPIC-M2-09", modes=(2,))
def results_are_kept_while_others_go_on(bench: Bench) -> None:
    """W = 4. Child 1 has acknowledged nothing of a window of results, while child 0 contributes the whole next
    window, in the same agg slots: the timer and a NAK still repeat the results of the first window as they were.
    """
    group = bench.install(window=4, **short_timers(bench))
    slow, window = group.children[1], group.params.window
    slow.acknowledge = False
    for cell in range(window):
        bench.contribute_all(cell, [(cell,), (7,)])
        bench.expect_result(cell, (cell + 7,))
    for cell in range(window, 2 * window):
        bench.contribute(0, cell, (-999,))
    expect_repeated(bench, slow, range(window), latest(bench, timeout(bench)))
    bench.nak(slow, 1)
    expect_repeated(bench, slow, range(1, window))
    bench.acknowledge(slow, window - 1)


@case("EPIC-M2-09", modes=(2,))
def an_acknowledged_result_is_not_repeated(bench: Bench) -> None:
    """A lost ACK: child 1's ACK of result 0 does not arrive, the timer repeats result 0, the next ACK arrives.
    Result 0 is not repeated again, and result 1 not at all.
    """
    group = bench.install(**short_timers(bench))
    slow = group.children[1]
    slow.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    wait = latest(bench, timeout(bench))
    expect_repeated(bench, slow, [0], wait)
    slow.acknowledge = True
    bench.acknowledge(slow, 0)
    bench.contribute_all(1, [(4,), (5,)])
    bench.expect_result(1, (9,))
    expect_not_repeated(bench, slow, wait)


@case("EPIC-M2-10", modes=(2,))
def a_contribution_acknowledges_results(bench: Bench) -> None:
    """W = 4. Child 1 acknowledges nothing. Results 0 to 3 are out. Its contribution 4 says that it has result 0,
    and 5 result 1: the timer repeats 2 and 3 to it, and when it has contributed 6 and 7, nothing.
    """
    group = bench.install(window=4, **short_timers(bench))
    quiet, window = group.children[1], group.params.window
    quiet.acknowledge = False
    for cell in range(window):
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_result(cell, (3,))
    wait = latest(bench, timeout(bench))
    for cell in (window, window + 1):
        bench.contribute(1, cell, (cell,))
    expect_repeated(bench, quiet, range(2, window), wait)
    for cell in range(window + 2, 2 * window):
        bench.contribute(1, cell, (cell,))
    expect_not_repeated(bench, quiet, wait)


@case("EPIC-M2-10", "EPIC-M2-06", "EPIC-A-05", modes=(2,))
def lost_acknowledgements_block_nothing(bench: Bench) -> None:
    """W = 2, timers too slow to help. Neither the children nor the parent ever acknowledge: five windows of cells
    go up and down, for contributions and results acknowledge what the slots need.
    """
    group = bench.install(inner=True, window=2, **no_timers())
    for peer in group.peers():
        peer.acknowledge = False
    for cell in range(5 * group.params.window):
        bench.contribute_all(cell, [(cell,), (3,)])
        bench.expect_partial(cell, (cell + 3,))
        bench.result_from_parent(cell, (-cell,))
        bench.expect_result(cell, (-cell,))


@case("EPIC-M2-13", "EPIC-A-04", modes=(2,))
def a_result_before_its_cell_is_complete(bench: Bench) -> None:
    """Below a parent. Child 0 has contributed, child 1 not; the parent sends a result: it is dropped without an
    acknowledgement, also when it comes again. Child 1 contributes: the partial goes up, and the result, sent once
    more, is passed on and acknowledged.
    """
    group = bench.install(inner=True, **no_timers())
    assert group.parent is not None
    bench.contribute(0, 0, (1,))
    bench.settle()
    for _ in range(2):
        bench.result_from_parent(0, (77,))
        expect_answers(bench, group.parent, [], newest=-1)
        bench.expect_silence()
    bench.expect_counter({"rx_result": 0, "drop_unexpected": 2})
    bench.contribute(1, 0, (2,))
    bench.expect_partial(0, (3,))
    bench.result_from_parent(0, (77,))
    bench.expect_result(0, (77,))
    expect_acknowledged(bench, group.parent, 0)


@case("EPIC-M2-13", modes=(2,))
def a_result_of_a_cell_that_nobody_contributed(bench: Bench) -> None:
    """Below a parent, W = 2. Cell 0 has passed; a result of cell 1, to which no child has contributed, is dropped
    without an acknowledgement. So it is when cell 1's slot still holds a complete cell of the window before.
    """
    group = bench.install(inner=True, window=2, **no_timers())
    assert group.parent is not None
    window = group.params.window
    for cell in range(window):
        bench.contribute_all(cell, [(cell,), (2,)])
        bench.expect_partial(cell, (cell + 2,))
        bench.result_from_parent(cell, (9,))
        bench.expect_result(cell, (9,))
    expect_acknowledged(bench, group.parent, window - 1)
    bench.result_from_parent(window, (5,))
    expect_answers(bench, group.parent, [], newest=window - 1)
    bench.expect_silence()
    bench.expect_counter({"rx_result": window, "drop_unexpected": 1})


# ----------------------------------------------------------------------------------------- loss, one at a time


@case("EPIC-A-05", "EPIC-M2-02", "EPIC-M2-03", "EPIC-M2-05", modes=(2,))
def each_kind_of_frame_is_lost_once(bench: Bench) -> None:
    """Below a parent, W = 4. Lost in turn, and repaired by its sender as the protocol has it: contribution 0 (NAK
    after 1), the ACK of contribution 1 (an older packet is acknowledged again), partial 1 (the parent's NAK),
    result 1 from the parent (NAK after 2), result 2 to child 1 (its NAK), and the last contribution (sent again).
    Every sum is exact.
    """
    group = bench.install(inner=True, window=4, **no_timers())
    parent, (one, two) = group.parent, group.children
    assert parent is not None
    packets = [prepare(bench, one, cell, (cell + 1,))[0] for cell in range(4)]
    bench.send(one, packets[1])
    bench.expect_nak(one, 0)
    for number in (0, 1, 1):
        bench.send(one, packets[number])
    expect_acknowledged(bench, one, 1)
    parent.acknowledge = False
    for cell in range(3):
        bench.contribute(1, cell, (10,))
    bench.send(one, packets[2])
    for cell in range(3):
        bench.expect_partial(cell, (cell + 11,))
    bench.nak(parent, 1)
    expect_repeated(bench, parent, [1, 2])
    bench.acknowledge(parent, 2)
    results = [prepare(bench, parent, cell, (100 + cell,))[0] for cell in range(4)]
    two.acknowledge = False
    for number in (0, 2):
        bench.send(parent, results[number])
    bench.expect_nak(parent, 1)
    for number in (1, 2):
        bench.send(parent, results[number])
    for cell in range(3):
        bench.expect_result(cell, (100 + cell,))
    bench.nak(two, 2)
    expect_repeated(bench, two, [2])
    bench.acknowledge(two, 2)
    two.acknowledge = parent.acknowledge = True
    bench.contribute(1, 3, (10,))
    bench.expect_silence()
    bench.send(one, packets[3])
    bench.expect_partial(3, (14,))
    bench.send(parent, results[3])
    bench.expect_result(3, (103,))
