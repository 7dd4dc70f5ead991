"""Modes I and II: a requester repeats by NAK and RNR NAK, and believes no acknowledgement of what it has not sent."""

from __future__ import annotations

from typing import Any

from epic_models.reference.rc import RNR_TIMERS_MS
from epic_spec.tables import NakCode
from epic_testbed.conformance.bench import Bench, Failure, Peer
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    earliest,
    expect_answers,
    expect_dead,
    expect_failed_edges,
    expect_not_repeated,
    expect_received,
    expect_repeated,
    latest,
    no_timers,
    refuse,
    rnr_nak,
    short_timers,
    timeout,
    timers,
)

RC = (1, 2)
# RNR timer codes: 10.24 ms, 163.84 ms, 327.68 ms and 655.36 ms, well apart from the timers of a group.
RNR_10, RNR_164, RNR_328, RNR_655 = 20, 28, 30, 0


def unacknowledged(bench: Bench, count: int, **params: Any) -> Peer:
    """W = 8. The first `count` cells have their results; child 1, which is returned, has acknowledged none."""
    group = bench.install(window=8, **params)
    slow = group.children[1]
    slow.acknowledge = False
    for cell in range(count):
        bench.contribute_all(cell, [(cell,), (100,)])
        bench.expect_result(cell, (cell + 100,))
    bench.settle()
    return slow


def partials(bench: Bench, count: int, **params: Any) -> Peer:
    """Below a parent, W = 8. The first `count` partials were sent; the parent, which is returned, acknowledged
    none.
    """
    group = bench.install(inner=True, window=8, **params)
    parent = group.parent
    assert parent is not None
    parent.acknowledge = False
    for cell in range(count):
        bench.contribute_all(cell, [(cell,), (100,)])
        bench.expect_partial(cell, (cell + 100,))
    bench.settle()
    return parent


# ------------------------------------------------------------------------------------------------------ NAK


@case("EPIC-M1-09", "EPIC-M2-05", "EPIC-M1-15", "EPIC-M2-09", modes=RC)
def a_nak_repeats_results_from_its_packet_on(bench: Bench) -> None:
    """Child 1 lost result 2 of 0 to 4: its NAK names 2. Results 2, 3 and 4 are sent to it again, each once and as
    they were; nothing is sent to child 0. Its ACK of 4 ends it.
    """
    slow = unacknowledged(bench, 5, **no_timers())
    bench.nak(slow, 2)
    expect_repeated(bench, slow, [2, 3, 4])
    expect_not_repeated(bench, slow)
    bench.acknowledge(slow, 4)
    expect_received(bench, bench.group.children[0], range(5))
    bench.expect_counter({"rx_nak": 1, "tx_retransmission": 3})


@case("EPIC-M1-09", "EPIC-M2-05", "EPIC-M2-12", modes=RC)
def a_nak_repeats_partials_from_its_packet_on(bench: Bench) -> None:
    """The parent lost partial 1 of 0 to 3: its NAK names 1. Partials 1, 2 and 3 are sent again, as they were."""
    parent = partials(bench, 4, **no_timers())
    bench.nak(parent, 1)
    expect_repeated(bench, parent, [1, 2, 3])
    expect_not_repeated(bench, parent)
    bench.acknowledge(parent, 3)


@case("EPIC-M1-09", "EPIC-M2-05", modes=RC)
def a_nak_acknowledges_what_is_before_it(bench: Bench) -> None:
    """Child 1's NAK names result 2 of 0 to 3, which are then repeated from 2 on. When the timer expires, results 2
    and 3 are repeated, and 0 and 1 not.
    """
    slow = unacknowledged(bench, 4, **timers(0.05 if bench.traits.virtual_time else 1.0))
    bench.nak(slow, 2)
    expect_repeated(bench, slow, [2, 3])
    expect_repeated(bench, slow, [2, 3], latest(bench, timeout(bench)))
    bench.acknowledge(slow, 3)


@case("EPIC-M1-09", "EPIC-M2-05", modes=RC)
def a_nak_is_answered_once(bench: Bench) -> None:
    """Child 1's NAK of result 1 arrives three times: results 1 to 3 are repeated once. A NAK of result 0, which was
    sent before and overtaken, is not answered either; one of result 2 is. The timer expires: results 2 and 3 are
    repeated, and now a NAK of result 2 is answered again.
    """
    slow = unacknowledged(bench, 4, **timers(0.05 if bench.traits.virtual_time else 1.5))
    bench.nak(slow, 1)
    expect_repeated(bench, slow, [1, 2, 3])
    for number in (1, 1, 0):
        bench.nak(slow, number)
    expect_not_repeated(bench, slow)
    bench.nak(slow, 2)
    expect_repeated(bench, slow, [2, 3])
    bench.nak(slow, 2)
    expect_not_repeated(bench, slow)
    expect_repeated(bench, slow, [2, 3], latest(bench, timeout(bench)))
    bench.nak(slow, 2)
    expect_repeated(bench, slow, [2, 3])
    bench.acknowledge(slow, 3)
    bench.expect_counter({"edge_errors": 0})


# -------------------------------------------------------------------------------------------------- RNR NAK


@case("EPIC-M1-10", "EPIC-M2-15", modes=RC)
def an_rnr_nak_is_waited_for(bench: Bench) -> None:
    """The timer is far off. Child 1 answers result 1 of 0 to 2 with an RNR NAK of 163.84 ms: after that time, and
    not before, results 1 and 2 are sent again; result 0 counts as acknowledged.
    """
    slow = unacknowledged(bench, 3, **timers(5.0))
    wait = RNR_TIMERS_MS[RNR_164] / 1000
    start = bench.dut.clock()
    rnr_nak(bench, slow, 1, RNR_164)
    got = expect_repeated(bench, slow, [1, 2], latest(bench, wait))
    check_wait(bench, got[0].time - start, wait)
    bench.acknowledge(slow, 2)
    bench.expect_counter({"rx_rnr_nak": 1})


@case("EPIC-M1-10", "EPIC-M2-15", modes=RC)
def the_timer_rests_during_a_pause(bench: Bench) -> None:
    """The timer is short. Child 1 answers result 0 with an RNR NAK of 655.36 ms: nothing is sent to it until that
    is over, though the timer would have expired; results of further cells are kept back for it too, while child 0
    gets them. Then all are sent.
    """
    slow = unacknowledged(bench, 1, **short_timers(bench))
    wait = RNR_TIMERS_MS[RNR_655] / 1000
    start = bench.dut.clock()
    rnr_nak(bench, slow, 0, RNR_655)
    for cell in (1, 2):
        bench.contribute_all(cell, [(cell,), (100,)])
        bench.expect_result(cell, (cell + 100,), children=[0])
    expect_received(bench, slow, [0])
    got = expect_repeated(bench, slow, [0, 1, 2], latest(bench, wait))
    check_wait(bench, got[0].time - start, wait)
    bench.acknowledge(slow, 2)
    for cell in (1, 2):
        bench.expect_result(cell, (cell + 100,), children=[1])


def check_wait(bench: Bench, got: float, wait: float) -> None:
    """The time between an RNR NAK and the repeats is at least the time of its code."""
    if got < earliest(bench, wait):
        raise Failure("an RNR NAK was not waited for", [f"at least {wait:g} s"], [f"{got:.6f} s"])


@case("EPIC-M1-10", "EPIC-M2-15", modes=RC)
def a_partial_that_meets_no_buffer(bench: Bench) -> None:
    """The parent answers partial 0 of 0 and 1 with an RNR NAK of 327.68 ms: both are sent again after that time."""
    parent = partials(bench, 2, **timers(5.0))
    wait = RNR_TIMERS_MS[RNR_328] / 1000
    start = bench.dut.clock()
    rnr_nak(bench, parent, 0, RNR_328)
    got = expect_repeated(bench, parent, [0, 1], latest(bench, wait))
    check_wait(bench, got[0].time - start, wait)
    bench.acknowledge(parent, 1)


@case("EPIC-M1-10", "EPIC-M2-15", "EPIC-F-02", modes=RC)
def rnr_naks_are_no_timeouts(bench: Bench) -> None:
    """retry_limit = 1. Child 1 answers a result with an RNR NAK five times in a row: it is sent again each time,
    and the edge is not in error.
    """
    slow = unacknowledged(bench, 1, retry_limit=1, **no_timers())
    for _ in range(5):
        rnr_nak(bench, slow, 0, RNR_10)
        expect_repeated(bench, slow, [0], latest(bench, RNR_TIMERS_MS[RNR_10] / 1000))
    bench.acknowledge(slow, 0)
    expect_failed_edges(bench)


@case("EPIC-M1-10", "EPIC-M2-15", modes=RC)
def a_late_rnr_nak_pauses_nothing(bench: Bench) -> None:
    """Child 1 has acknowledged result 1. An RNR NAK of result 0, overtaken by the ACK, has no effect: result 2 is
    sent to child 1 at once.
    """
    slow = unacknowledged(bench, 2, **no_timers())
    bench.acknowledge(slow, 1)
    rnr_nak(bench, slow, 0, RNR_655)
    bench.settle()
    bench.contribute_all(2, [(5,), (6,)])
    mark = len(slow.arrivals)
    bench.watch(min(bench.response, 0.3), lambda: len(slow.arrivals) > mark)
    if len(slow.arrivals) == mark:
        raise Failure("child 1: result 2 is held back", ["#2 at once"], ["nothing"])
    bench.expect_result(2, (11,))
    bench.acknowledge(slow, 2)


# ------------------------------------------------------------------------------------- acknowledgements to doubt


def _believe_nothing(bench: Bench, answer: NakCode | None) -> None:
    """Child 1 answers packet 3, which was not sent, when 0 and 1 were: the timer repeats both."""
    slow = unacknowledged(bench, 2, **short_timers(bench))
    if answer is None:
        bench.acknowledge(slow, 3)
    else:
        refuse(bench, slow, 3, answer)
    expect_repeated(bench, slow, [0, 1], latest(bench, timeout(bench)))
    bench.acknowledge(slow, 1)
    bench.contribute_all(2, [(1,), (2,)])
    bench.expect_result(2, (3,))
    bench.acknowledge(slow, 2)
    bench.expect_counter({"edge_errors": 0, "drop_unexpected": 1})


@case("EPIC-M1-12", "EPIC-M2-14", modes=RC)
def an_ack_of_a_packet_not_sent(bench: Bench) -> None:
    """Results 0 and 1 were sent; child 1 acknowledges packet 3. It is dropped: the timer repeats 0 and 1."""
    _believe_nothing(bench, None)


@case("EPIC-M1-12", "EPIC-M2-14", modes=RC)
def a_nak_of_a_packet_not_sent(bench: Bench) -> None:
    """Results 0 and 1 were sent; child 1's NAK (sequence error) names packet 3. It is dropped: the timer repeats
    both.
    """
    _believe_nothing(bench, NakCode.PSN_SEQUENCE_ERROR)


@case("EPIC-M1-12", "EPIC-M2-14", modes=RC)
def a_refusal_of_a_packet_not_sent(bench: Bench) -> None:
    """Results 0 and 1 were sent; child 1's NAK (invalid request) names packet 3. It is dropped, and the edge is not
    in error.
    """
    _believe_nothing(bench, NakCode.INVALID_REQUEST)


@case("EPIC-M1-12", "EPIC-M2-14", modes=RC)
def an_ack_before_anything_was_sent(bench: Bench) -> None:
    """Child 1 and the parent acknowledge packet 0 before there is one. Partial 0 and result 0 are then sent, and
    the timer repeats them, for nobody has acknowledged them.
    """
    group = bench.install(inner=True, **short_timers(bench))
    slow, parent = group.children[1], group.parent
    assert parent is not None
    for peer in (slow, parent):
        bench.acknowledge(peer, 0)
        peer.acknowledge = False
    bench.settle()
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    expect_repeated(bench, parent, [0], latest(bench, timeout(bench)))
    bench.result_from_parent(0, (4,))
    bench.expect_result(0, (4,))
    expect_repeated(bench, slow, [0], latest(bench, timeout(bench)))
    bench.acknowledge(slow, 0)


@case("EPIC-W-15", "EPIC-M1-12", "EPIC-M2-14", modes=RC)
def a_late_ack_acknowledges_nothing(bench: Bench) -> None:
    """Child 1 acknowledges result 1 of 0 to 2. Copies of its ACK of 0 and one of base - 1 arrive late: result 2 is
    still repeated by the timer, alone.
    """
    slow = unacknowledged(bench, 3, **short_timers(bench))
    for number in (1, 0, -1):
        bench.acknowledge(slow, number)
    expect_repeated(bench, slow, [2], latest(bench, timeout(bench)))
    bench.acknowledge(slow, 2)


@case("EPIC-W-18", modes=RC)
def acknowledgements_count_their_own_direction(bench: Bench) -> None:
    """W = 8. Child 1 has contributed cells 0 to 5 and has got results 0 to 2. Its ACK of result 2 says nothing of
    its contributions, nor the engine's ACKs of those anything of results: contributions go on, and nothing is
    repeated.
    """
    slow = unacknowledged(bench, 3, **no_timers())
    for cell in range(3, 6):
        bench.contribute(1, cell, (cell,))
    bench.expect_ack(slow, 5)
    bench.acknowledge(slow, 2)
    expect_answers(bench, slow, [], newest=5)
    slow.acknowledge = True
    for cell in range(3, 6):
        bench.contribute(0, cell, (1,))
        bench.expect_result(cell, (cell + 1,))
    expect_received(bench, slow, range(6))


# ------------------------------------------------------------------------------------------------ edge in error


def _refused(bench: Bench, code: NakCode) -> None:
    """Child 1 refuses result 1 of 0 and 1 for good."""
    slow = unacknowledged(bench, 2, **short_timers(bench))
    bench.contribute(1, 2, (20,))
    bench.expect_ack(slow, 2)
    refuse(bench, slow, 1, code)
    expect_dead(bench, slow, 2 * timeout(bench))
    expect_failed_edges(bench, slow)
    bench.contribute(1, 3, (30,))
    expect_dead(bench, slow)
    bench.contribute(0, 2, (2,))
    bench.expect_result(2, (22,), children=[0])
    expect_dead(bench, slow)
    bench.contribute(0, 3, (3,))
    bench.expect_ack(bench.group.children[0], 3)
    bench.expect_silence()
    bench.expect_counter({"rx_contribution": 7, "drop_edge_error": 1})


@case("EPIC-M1-11", "EPIC-M2-16", "EPIC-F-02", modes=RC)
def refused_as_an_invalid_request(bench: Bench) -> None:
    """Child 1, which has contributed cell 2, answers result 1 with NAK (invalid request): its edge is in error. It
    is reported; nothing is repeated; its contribution to cell 3 is neither acknowledged nor counted. Child 0
    contributes to cell 2 and gets its result, for child 1's contribution had come before; child 1 gets nothing.
    """
    _refused(bench, NakCode.INVALID_REQUEST)


@case("EPIC-M1-11", "EPIC-M2-16", "EPIC-F-02", modes=RC)
def refused_with_remote_access_error(bench: Bench) -> None:
    """The same with NAK (remote access)."""
    _refused(bench, NakCode.REMOTE_ACCESS)


@case("EPIC-M1-11", "EPIC-M2-16", "EPIC-F-02", modes=RC)
def refused_with_remote_operational_error(bench: Bench) -> None:
    """The same with NAK (remote operational)."""
    _refused(bench, NakCode.REMOTE_OPERATIONAL)


@case("EPIC-M1-11", "EPIC-M2-16", "EPIC-F-02", modes=RC)
def a_partial_is_refused(bench: Bench) -> None:
    """The parent answers partial 0 with NAK (invalid request): that edge is in error. No partial is sent any more,
    and the parent's result is neither taken nor acknowledged; the children's contributions are still acknowledged.
    """
    parent = partials(bench, 1, **short_timers(bench))
    refuse(bench, parent, 0, NakCode.INVALID_REQUEST)
    expect_dead(bench, parent, 2 * timeout(bench))
    expect_failed_edges(bench, parent)
    bench.contribute_all(1, [(1,), (2,)])
    for child in bench.group.children:
        bench.expect_ack(child, 1)
    bench.result_from_parent(0, (100,))
    expect_dead(bench, parent)
    bench.expect_silence()
    bench.expect_counter({"rx_result": 0, "drop_edge_error": 1})


@case("EPIC-M1-11", "EPIC-M2-16", "EPIC-E-02", modes=RC)
def an_edge_in_error_harms_no_other_group(bench: Bench) -> None:
    """Two groups on one engine. A child of the first refuses a result; the cells of the second go on, to all
    children.
    """
    first = bench.install(number=1, **no_timers())
    second = bench.install(number=2, **no_timers())
    bench.group = first
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    refuse(bench, first.children[1], 0, NakCode.INVALID_REQUEST)
    bench.settle()
    bench.group = second
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (5,)])
        bench.expect_result(cell, (cell + 5,))
    expect_received(bench, first.children[1], [0])
