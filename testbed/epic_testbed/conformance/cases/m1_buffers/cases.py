"""Mode I: message buffers, fewer than the window, and what frees them."""

from __future__ import annotations

from typing import Any

from epic_testbed.conformance.bench import Bench, Group
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    RNR,
    check_rnr_time,
    expect_answers,
    expect_failed_edges,
    expect_not_repeated,
    expect_received,
    expect_repeated,
    latest,
    no_timers,
    prepare,
    send_all,
    short_timers,
    timeout,
)


def install(bench: Bench, children: int = 2, *, inner: bool = False, **params: Any) -> Group:
    """A group with window 4 and one buffer, unless said otherwise."""
    values: dict[str, Any] = {"window": 4, "message_buffers": 1, **no_timers(), **params}
    return bench.install(children, inner=inner, **values)


@case("EPIC-M1-13", "EPIC-M1-08", modes=(1,))
def a_message_without_a_buffer(bench: Bench) -> None:
    """W = 4, B = 1. Child 0 sends message 0, then message 1 of one packet: it is answered with an RNR NAK that
    names it, of a time not below rnr_timer_us, each time that it comes, and is neither acknowledged nor counted.
    Child 1's message 0 completes the cell; now message 1 is taken, and its result is right.
    """
    group = install(bench)
    child, buffers = group.children[0], group.params.message_buffers
    for cell in range(buffers):
        bench.contribute(0, cell, (cell + 1,))
    bench.expect_ack(child, buffers - 1)
    for _ in range(2):
        bench.contribute(0, buffers, (50,))
        (answer,) = expect_answers(bench, child, [(RNR, buffers)], newest=buffers - 1)
        check_rnr_time(bench, answer)
    bench.expect_counter({"rx_contribution": buffers, "drop_no_buffer": 2, "tx_rnr_nak": 2})
    for cell in range(buffers):
        bench.contribute(1, cell, (10,))
        bench.expect_result(cell, (cell + 11,))
    bench.contribute(0, buffers, (50,))
    bench.expect_ack(child, buffers)
    bench.contribute(1, buffers, (7,))
    bench.expect_result(buffers, (57,))


@case("EPIC-M1-13", "EPIC-M1-04", modes=(1,))
def the_first_packet_is_refused_and_no_other_named(bench: Bench) -> None:
    """W = 4, B = 1. Child 0's message 1 has three packets, all sent while its buffer is not free: one RNR NAK names
    the first packet, and no NAK the others. When the buffer is free the message is sent again and taken.
    """
    size = bench.parameters(1, 2, {}).payload_bytes
    group = install(bench, message_bytes=4 * size)
    child, buffers = group.children[0], group.params.message_buffers
    values = [3 * i for i in range(3 * group.params.payload_bytes // 4)]
    for cell in range(buffers):
        bench.contribute(0, cell, (1,))
    packets = prepare(bench, child, buffers, values)
    send_all(bench, child, packets)
    expect_answers(bench, child, [(RNR, buffers)], newest=buffers - 1)
    for cell in range(buffers):
        bench.contribute(1, cell, (2,))
        bench.expect_result(cell, (3,))
    send_all(bench, child, packets)
    bench.contribute(1, buffers, values)
    bench.expect_result(buffers, [2 * v for v in values])


@case("EPIC-M1-13", "EPIC-E-14", modes=(1,))
def buffers_serve_cells_in_turn(bench: Bench) -> None:
    """W = 4, B = 2. Over four windows child 0 is always B messages ahead of child 1, and one more is refused with
    an RNR NAK: every cell has the sum of its own contributions.
    """
    group = install(bench, message_buffers=2)
    ahead, last = group.params.message_buffers, 4 * group.params.window
    child = group.children[0]
    for cell in range(ahead):
        bench.contribute(0, cell, (1 << cell % 20,))
    for cell in range(last):
        bench.contribute(0, cell + ahead, (1 << (cell + ahead) % 20,))
        expect_answers(bench, child, [(RNR, cell + ahead)], newest=cell + ahead - 1)
        bench.contribute(1, cell, (1 << 21,))
        bench.expect_result(cell, ((1 << cell % 20) + (1 << 21),))
        bench.contribute(0, cell + ahead, (1 << (cell + ahead) % 20,))
        bench.expect_ack(child, cell + ahead)
    bench.expect_counter({"rx_contribution": 2 * last + ahead})


@case("EPIC-M1-13", modes=(1,))
def as_many_buffers_as_cells_refuse_nothing(bench: Bench) -> None:
    """B = W. Child 0 sends a whole window of messages before child 1 sends its first: all are acknowledged, none is
    answered with an RNR NAK. Child 1 sends its window; the results come in order.
    """
    group = bench.install(window=4, message_buffers=4, **no_timers())
    window = group.params.window
    for cell in range(window):
        bench.contribute(0, cell, (cell,))
    bench.expect_ack(group.children[0], window - 1)
    expect_answers(bench, group.children[0], [], newest=window - 1)
    for cell in range(window):
        bench.contribute(1, cell, (100,))
        bench.expect_result(cell, (cell + 100,))


@case("EPIC-M1-16", modes=(1,))
def a_root_holds_a_result_back(bench: Bench) -> None:
    """W = 4, B = 1. Child 1 does not acknowledge result 0. Both contribute message 1: no child gets result 1,
    though child 0 has acknowledged result 0. Child 1 acknowledges it: both get result 1.
    """
    group = install(bench)
    slow, buffers = group.children[1], group.params.message_buffers
    slow.acknowledge = False
    for cell in range(buffers):
        bench.contribute_all(cell, [(1,), (cell,)])
        bench.expect_result(cell, (1 + cell,))
    bench.contribute_all(buffers, [(10,), (20,)])
    bench.expect_silence()
    bench.acknowledge(slow, 0)
    bench.expect_result(buffers, (30,))


@case("EPIC-M1-16", modes=(1,))
def held_results_pass_in_order(bench: Bench) -> None:
    """W = 4, B = 2. Child 1 acknowledges neither result 0 nor 1; messages 2 and 3 are complete and their results
    held back. An ACK of result 0 lets result 2 pass and no other, an ACK of result 1 then result 3.
    """
    group = install(bench, message_buffers=2)
    slow, buffers = group.children[1], group.params.message_buffers
    slow.acknowledge = False
    for cell in range(2 * buffers):
        bench.contribute_all(cell, [(1,), (cell,)])
        if cell < buffers:
            bench.expect_result(cell, (1 + cell,))
    bench.expect_silence()
    for cell in range(buffers):
        bench.acknowledge(slow, cell)
        bench.expect_result(cell + buffers, (1 + cell + buffers,))
        bench.expect_silence()


@case("EPIC-M1-16", modes=(1,))
def an_inner_engine_answers_the_parent_rnr_nak(bench: Bench) -> None:
    """Below a parent, W = 4, B = 1. Child 1 does not acknowledge result 0; the parent sends result 1, of two
    packets: its first packet is answered with an RNR NAK, nothing goes to the children. After child 1's ACK the
    parent sends it again: it is taken, acknowledged and passed on.
    """
    size = bench.parameters(1, 2, {}).payload_bytes
    group = install(bench, inner=True, message_bytes=2 * size)
    assert group.parent is not None
    slow, buffers = group.children[1], group.params.message_buffers
    slow.acknowledge = False
    for cell in range(buffers + 1):
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_partial(cell, (3,))
        if cell < buffers:
            bench.result_from_parent(cell, (cell,))
            bench.expect_result(cell, (cell,))
    bench.expect_ack(group.parent, buffers - 1)
    values = list(range(size // 4 + 1))
    bench.result_from_parent(buffers, values)
    (answer,) = expect_answers(bench, group.parent, [(RNR, buffers)], newest=buffers - 1)
    check_rnr_time(bench, answer)
    bench.expect_silence()
    bench.acknowledge(slow, 0)
    bench.settle()
    bench.result_from_parent(buffers, values)
    bench.expect_result(buffers, values)
    bench.expect_ack(group.parent, buffers + 1)


@case("EPIC-M1-16", "EPIC-F-02", modes=(1,))
def a_child_in_error_holds_nothing_back(bench: Bench) -> None:
    """W = 4, B = 1, retry_limit 1. Child 1 stops after message 1 and acknowledges nothing; result 1 is held back
    until child 1's edge is in error, then child 0 gets it, and child 1 nothing.
    """
    group = install(bench, retry_limit=1, **short_timers(bench))
    dead, buffers = group.children[1], group.params.message_buffers
    dead.acknowledge = False
    for cell in range(buffers):
        bench.contribute_all(cell, [(1,), (cell,)])
        bench.expect_result(cell, (1 + cell,))
    bench.contribute_all(buffers, [(10,), (20,)])
    bench.watch(2 * latest(bench, timeout(bench)), lambda: bool(group.children[0].data))
    bench.expect_result(buffers, (30,), children=[0])
    bench.expect_silence()
    expect_failed_edges(bench, dead)


@case("EPIC-M1-15", modes=(1,))
def a_result_is_kept_until_acknowledged(bench: Bench) -> None:
    """A result of three packets. Child 1 acknowledges nothing: the timer repeats all three. It acknowledges the
    first: the timer repeats the other two. It acknowledges the last: nothing is repeated any more. Child 0 is sent
    nothing twice.
    """
    size = bench.parameters(1, 2, {}).payload_bytes
    group = bench.install(message_bytes=4 * size, **short_timers(bench))
    quick, slow = group.children
    slow.acknowledge = False
    values = [5 * i for i in range(3 * group.params.payload_bytes // 4)]
    bench.contribute_all(0, [values, values])
    bench.expect_result(0, [2 * v for v in values])
    wait = latest(bench, timeout(bench))
    expect_repeated(bench, slow, [0, 1, 2], wait)
    bench.acknowledge(slow, 0)
    expect_repeated(bench, slow, [1, 2], wait)
    bench.acknowledge(slow, 2)
    expect_not_repeated(bench, slow, wait)
    expect_received(bench, quick, [0, 1, 2])


@case("EPIC-M1-15", modes=(1,))
def a_kept_result_outlives_its_aggregation_buffer(bench: Bench) -> None:
    """B = W = 2. Child 1 acknowledges neither result 0 nor 1. Child 0 goes on with messages 2 and 3, in the buffers
    of 0 and 1: what the timer repeats to child 1 is still results 0 and 1.
    """
    group = bench.install(window=2, message_buffers=2, **short_timers(bench))
    slow, window = group.children[1], group.params.window
    slow.acknowledge = False
    for cell in range(window):
        bench.contribute_all(cell, [(1,), (cell,)])
        bench.expect_result(cell, (1 + cell,))
    for cell in range(window, 2 * window):
        bench.contribute(0, cell, (-999,))
    bench.expect_ack(group.children[0], 2 * window - 1)
    expect_repeated(bench, slow, list(range(window)), latest(bench, timeout(bench)))
    bench.acknowledge(slow, window - 1)


@case("EPIC-M1-17", modes=(1,))
def a_message_acknowledges_results(bench: Bench) -> None:
    """B = W = 2. Child 1 acknowledges nothing. Its message 2 says that it has result 0: from then on the timer
    repeats result 1 to it and no longer result 0. Message 3 says the same of result 1.
    """
    group = bench.install(window=2, message_buffers=2, **short_timers(bench))
    quiet, window = group.children[1], group.params.window
    quiet.acknowledge = False
    for cell in range(window):
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_result(cell, (3,))
    wait = latest(bench, timeout(bench))
    bench.contribute(1, window, (4,))
    expect_repeated(bench, quiet, list(range(1, window)), wait)
    for cell in range(window + 1, 2 * window):
        bench.contribute(1, cell, (5,))
    expect_not_repeated(bench, quiet, wait)


@case("EPIC-M1-17", "EPIC-M1-16", modes=(1,))
def lost_acknowledgements_block_nothing(bench: Bench) -> None:
    """B = W = 2, timers too slow to help. No child ever acknowledges a result: four windows of messages go through,
    for each message acknowledges what its buffers need.
    """
    group = bench.install(window=2, message_buffers=2, **no_timers())
    for peer in group.children:
        peer.acknowledge = False
    for cell in range(4 * group.params.window):
        bench.contribute_all(cell, [(cell,), (3,)])
        bench.expect_result(cell, (cell + 3,))


@case("EPIC-M1-17", modes=(1,))
def a_result_acknowledges_partials(bench: Bench) -> None:
    """Below a parent that acknowledges nothing. Partials 0 and 1 are sent; result 0 comes: the timer repeats
    partial 1 and not partial 0. Result 1 comes: nothing is repeated.
    """
    group = bench.install(inner=True, window=2, message_buffers=2, **short_timers(bench))
    parent = group.parent
    assert parent is not None
    parent.acknowledge = False
    for cell in range(2):
        bench.contribute_all(cell, [(cell,), (2,)])
        bench.expect_partial(cell, (cell + 2,))
    wait = latest(bench, timeout(bench))
    bench.result_from_parent(0, (7,))
    bench.expect_result(0, (7,))
    expect_repeated(bench, parent, [1], wait)
    bench.result_from_parent(1, (8,))
    bench.expect_result(1, (8,))
    expect_not_repeated(bench, parent, wait)


@case("EPIC-M1-17", modes=(1,))
def an_incomplete_message_acknowledges_nothing(bench: Bench) -> None:
    """B = W = 2. Child 1 acknowledges nothing. Of its message 2, of two packets, only the first arrives: the timer
    still repeats results 0 and 1. Its second packet arrives: result 0 is repeated no more.
    """
    size = bench.parameters(1, 2, {}).payload_bytes
    group = bench.install(window=2, message_buffers=2, message_bytes=2 * size, **short_timers(bench))
    quiet, window = group.children[1], group.params.window
    quiet.acknowledge = False
    for cell in range(window):
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_result(cell, (3,))
    first, last = prepare(bench, quiet, window, list(range(group.params.payload_bytes // 4 + 1)))
    wait = latest(bench, timeout(bench))
    bench.send(quiet, first)
    expect_repeated(bench, quiet, list(range(window)), wait)
    bench.send(quiet, last)
    expect_repeated(bench, quiet, list(range(1, window)), wait)
    bench.acknowledge(quiet, window - 1)


@case("EPIC-M1-18", "EPIC-A-04", modes=(1,))
def a_result_before_its_cell_is_complete(bench: Bench) -> None:
    """Below a parent. Child 0 has contributed, child 1 not; the parent sends a result: it is dropped, with no
    answer of any kind. Child 1 contributes: the partial goes up, and the parent's result, sent again, is passed on.
    """
    group = bench.install(inner=True, **no_timers())
    assert group.parent is not None
    bench.contribute(0, 0, (1,))
    bench.settle()
    bench.result_from_parent(0, (77,))
    expect_answers(bench, group.parent, [], newest=-1)
    bench.expect_silence()
    bench.expect_counter({"rx_result": 0, "drop_unexpected": 1})
    bench.contribute(1, 0, (2,))
    bench.expect_partial(0, (3,))
    bench.result_from_parent(0, (77,))
    bench.expect_result(0, (77,))
    bench.expect_ack(group.parent, 0)


@case("EPIC-M1-15", "EPIC-A-05", modes=(1,))
def few_buffers_make_progress_without_acknowledgements(bench: Bench) -> None:
    """W = 4, B = 1. Every first ACK of child 1 is lost, so each message but the first is complete while its result
    must wait. The timer repeats the result before it, the ACK of that arrives, and the waiting result passes.
    """
    group = install(bench, **short_timers(bench))
    slow, buffers = group.children[1], group.params.message_buffers
    slow.acknowledge = False
    for cell in range(buffers):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
    for cell in range(buffers, buffers + 4):
        bench.contribute_all(cell, [(cell,), (1,)])
        expect_repeated(bench, slow, list(range(cell - buffers, cell)), latest(bench, timeout(bench)))
        bench.acknowledge(slow, cell - buffers)
        bench.expect_result(cell, (cell + 1,))
