"""Modes I and II: retransmission timeouts, the retry limit, and edges in error as the control plane sees them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from epic_testbed.conformance.bench import Bench, Failure, Peer
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    arrival_times,
    earliest,
    expect_answers,
    expect_dead,
    expect_failed_edges,
    expect_not_repeated,
    expect_received,
    expect_repeated,
    latest,
    short_timers,
    timeout,
    timers,
)

RC = (1, 2)


def microseconds(bench: Bench, initial: float, least: float, most: float) -> dict[str, Any]:
    """Timer parameters from seconds; a device in virtual time gets a tenth of them."""
    scale = 1e5 if bench.traits.virtual_time else 1e6
    return {
        "rto_initial_us": round(initial * scale),
        "rto_min_us": round(least * scale),
        "rto_max_us": round(most * scale),
    }


def seconds(bench: Bench, name: str) -> float:
    """A timer parameter of the group in use."""
    return float(getattr(bench.group.params, name)) * 1e-6


def check_gaps(bench: Bench, peer: Peer, times: Sequence[float], expected: Sequence[float]) -> None:
    """The times between a packet's arrivals are those of the timeouts: never earlier, and late within bounds."""
    gaps = [b - a for a, b in pairwise(times)]
    for i, (gap, want) in enumerate(zip(gaps, expected, strict=True)):
        if not earliest(bench, want) <= gap <= latest(bench, want):
            raise Failure(
                f"{peer.name}: repeat {i + 1} at the wrong time",
                [f"after {earliest(bench, want):.4f} to {latest(bench, want):.4f} s" for want in expected],
                [f"after {gap:.4f} s" for gap in gaps],
            )


def timeouts(bench: Bench, count: int) -> list[float]:
    """The first timeouts of a packet that is never acknowledged: doubling, within the bounds."""
    first, most = timeout(bench), seconds(bench, "rto_max_us")
    return [min(first * (1 << i), most) for i in range(count)]


def result_of(bench: Bench, cell: int) -> None:
    """A cell is completed and every child gets its result."""
    bench.contribute_all(cell, [(cell,), (100,)])
    bench.expect_result(cell, (cell + 100,))


# ---------------------------------------------------------------------------------------------- the timeout


@case("EPIC-F-01", modes=RC)
def the_timeout_of_a_result_doubles(bench: Bench) -> None:
    """A result is never acknowledged by child 1. It is repeated after rto_initial, twice and four times that, and
    then every rto_max; never earlier.
    """
    group = bench.install(**microseconds(bench, 0.2, 0.1, 0.8))
    slow = group.children[1]
    slow.acknowledge = False
    result_of(bench, 0)
    expected = timeouts(bench, 5)
    times = arrival_times(bench, slow, 0, 6, latest(bench, sum(expected)))
    check_gaps(bench, slow, times, expected)
    bench.acknowledge(slow, 0)


@case("EPIC-F-01", "EPIC-M2-12", modes=RC)
def the_timeout_of_a_partial_doubles(bench: Bench) -> None:
    """A partial is never acknowledged. It is repeated after rto_initial, twice and four times that, and then every
    rto_max; never earlier.
    """
    parent = bench.install(inner=True, **microseconds(bench, 0.2, 0.1, 0.8)).parent
    assert parent is not None
    parent.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    expected = timeouts(bench, 5)
    check_gaps(bench, parent, arrival_times(bench, parent, 0, 6, latest(bench, sum(expected))), expected)
    bench.acknowledge(parent, 0)


@case("EPIC-F-01", modes=RC)
def the_initial_timeout_is_held_within_the_bounds(bench: Bench) -> None:
    """rto_initial is below rto_min: the first repeat comes after rto_min."""
    slow = bench.install(**microseconds(bench, 0.05, 0.4, 0.8)).children[1]
    slow.acknowledge = False
    result_of(bench, 0)
    expected = timeouts(bench, 1)
    check_gaps(bench, slow, arrival_times(bench, slow, 0, 2, latest(bench, expected[0])), expected)
    bench.acknowledge(slow, 0)


@case("EPIC-F-01", modes=RC)
def quick_acknowledgements_shorten_the_timeout(bench: Bench) -> None:
    """rto_initial is 3 s, rto_min 0.3 s (a tenth of both in virtual time). Child 1 acknowledges three results at
    once, then none: the timeout has come down, but not below rto_min.
    """
    slow = bench.install(window=8, **microseconds(bench, 3.0, 0.3, 6.0)).children[1]
    for cell in range(3):
        result_of(bench, cell)
    slow.acknowledge = False
    result_of(bench, 3)
    least, first = seconds(bench, "rto_min_us"), timeout(bench)
    times = arrival_times(bench, slow, 3, 2, max(first / 2, latest(bench, least)))
    gap = times[1] - times[0]
    if not earliest(bench, least) <= gap <= max(first / 2, latest(bench, least)):
        raise Failure(
            "child 1: repeat at the wrong time", [f"{least:g} to {first / 2:g} s"], [f"{gap:.4f} s"]
        )
    bench.acknowledge(slow, 3)


@case("EPIC-F-01", modes=RC)
def slow_acknowledgements_lengthen_the_timeout(bench: Bench) -> None:
    """The first result is acknowledged after two thirds of rto_initial, R: by RFC 6298 the timeout is then R + 4
    R/2. The next result, which is not acknowledged, is repeated after that.
    """
    slow = bench.install(**microseconds(bench, 0.8, 0.1, 8.0)).children[1]
    slow.acknowledge = False
    result_of(bench, 0)
    wait = timeout(bench) * 2 / 3
    bench.watch(wait)
    bench.acknowledge(slow, 0)
    bench.settle()
    result_of(bench, 1)
    expected = [3 * wait]
    check_gaps(bench, slow, arrival_times(bench, slow, 1, 2, latest(bench, 3 * wait)), expected)
    expect_received(bench, slow, [0, 1, 1])
    bench.acknowledge(slow, 1)


@case("EPIC-F-01", modes=RC)
def repeated_packets_give_no_sample(bench: Bench) -> None:
    """A result is acknowledged after it was repeated twice: nothing can be learnt from it (Karn), but it is
    progress. The next result is repeated after rto_initial: neither doubled, nor shortened or lengthened by the
    time of the ACK.
    """
    slow = bench.install(**microseconds(bench, 0.4, 0.1, 5.0)).children[1]
    slow.acknowledge = False
    result_of(bench, 0)
    first = timeout(bench)
    arrival_times(bench, slow, 0, 3, latest(bench, 3 * first))
    bench.acknowledge(slow, 0)
    bench.settle()
    result_of(bench, 1)
    check_gaps(bench, slow, arrival_times(bench, slow, 1, 2, latest(bench, first)), [first])
    bench.acknowledge(slow, 1)


@case("EPIC-F-01", modes=RC)
def a_timer_stops_when_all_is_acknowledged(bench: Bench) -> None:
    """Results 0 to 2 are outstanding and acknowledged before the timer: nothing is repeated, then or later."""
    slow = bench.install(window=4, **short_timers(bench)).children[1]
    slow.acknowledge = False
    for cell in range(3):
        result_of(bench, cell)
    bench.acknowledge(slow, 2)
    expect_not_repeated(bench, slow, 2 * latest(bench, timeout(bench)))
    bench.expect_counter({"tx_retransmission": 0})


@case("EPIC-F-01", "EPIC-M2-12", modes=RC)
def each_edge_has_a_timer_of_its_own(bench: Bench) -> None:
    """Three children. Child 1 acknowledges nothing, child 2 acknowledges result 0 late, child 0 at once. The timer
    repeats result 0 to children 1 and 2 alone; after child 2's ACK to child 1 alone, at its own doubled timeout.
    """
    group = bench.install(3, **microseconds(bench, 0.4, 0.4, 3.2))
    quick, silent, late = group.children
    silent.acknowledge = late.acknowledge = False
    bench.contribute_all(0, [(1,), (2,), (3,)])
    bench.expect_result(0, (6,))
    expected = timeouts(bench, 2)
    arrival_times(bench, late, 0, 2, latest(bench, expected[0]))
    bench.acknowledge(late, 0)
    times = arrival_times(bench, silent, 0, 3, latest(bench, sum(expected)))
    check_gaps(bench, silent, times, expected)
    expect_received(bench, quick, [0])
    expect_received(bench, late, [0, 0])
    bench.acknowledge(silent, 0)


# ------------------------------------------------------------------------------------------- the retry limit


def give_up_time(bench: Bench) -> float:
    """How long an edge that nobody answers may take to be in error."""
    return sum(latest(bench, t) for t in timeouts(bench, bench.group.params.retry_limit + 1))


@case("EPIC-F-02", "EPIC-F-04", "EPIC-E-09", modes=RC)
def the_retry_limit_of_a_child(bench: Bench) -> None:
    """retry_limit = 2; W = 4. Child 1 has contributed cells 0 and 1 and acknowledges nothing: result 0 is repeated
    twice, then no more, and the edge is reported in error. Its next contribution and its late ACK are dropped
    without an answer. Child 0 contributes to cell 1 and gets the result, child 1 nothing.
    """
    group = bench.install(window=4, retry_limit=2, **short_timers(bench))
    quick, dead = group.children
    dead.acknowledge = False
    bench.contribute(1, 0, (1,))
    bench.contribute(1, 1, (10,))
    bench.contribute(0, 0, (2,))
    bench.expect_result(0, (3,))
    bench.expect_ack(dead, 1)
    bench.watch(give_up_time(bench))
    expect_received(bench, dead, [0, 0, 0])
    expect_failed_edges(bench, dead)
    bench.contribute(1, 2, (100,))
    bench.acknowledge(dead, 0)
    expect_dead(bench, dead, 2 * latest(bench, timeout(bench)))
    bench.contribute(0, 1, (20,))
    bench.expect_result(1, (30,), children=[0])
    expect_dead(bench, dead)
    expect_received(bench, quick, [0, 1])
    bench.expect_counter({"rx_contribution": 4, "drop_edge_error": 2, "tx_retransmission": 2})


@case("EPIC-F-02", "EPIC-F-04", modes=RC)
def the_retry_limit_of_the_parent(bench: Bench) -> None:
    """retry_limit = 1; below a parent that answers nothing. Partial 0 is repeated once, then the edge is reported
    in error and silent; the parent's result is dropped without an answer. Contributions are still acknowledged.
    """
    group = bench.install(inner=True, window=4, retry_limit=1, **short_timers(bench))
    parent = group.parent
    assert parent is not None
    parent.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    bench.watch(give_up_time(bench))
    expect_received(bench, parent, [0, 0])
    expect_failed_edges(bench, parent)
    bench.contribute_all(1, [(1,), (2,)])
    for child in group.children:
        bench.expect_ack(child, 1)
    bench.result_from_parent(0, (3,))
    expect_dead(bench, parent, 2 * latest(bench, timeout(bench)))
    bench.expect_silence()
    bench.expect_counter({"rx_result": 0, "drop_edge_error": 1})


@case("EPIC-F-02", modes=RC)
def a_retry_limit_of_none(bench: Bench) -> None:
    """retry_limit = 0: nothing is repeated by a timer, and the edge is in error when it first expires."""
    group = bench.install(retry_limit=0, **short_timers(bench))
    dead = group.children[1]
    dead.acknowledge = False
    result_of(bench, 0)
    bench.watch(give_up_time(bench))
    expect_received(bench, dead, [0])
    expect_failed_edges(bench, dead)


@case("EPIC-F-02", modes=RC)
def progress_starts_the_count_anew(bench: Bench) -> None:
    """retry_limit = 1. Child 1 acknowledges each of four results after its first repeat: that is progress each
    time, and the edge is not in error.
    """
    slow = bench.install(retry_limit=1, **short_timers(bench)).children[1]
    slow.acknowledge = False
    for cell in range(4):
        result_of(bench, cell)
        expect_repeated(bench, slow, [cell], latest(bench, timeout(bench)))
        bench.acknowledge(slow, cell)
        bench.settle()
    expect_failed_edges(bench)


@case("EPIC-F-02", "EPIC-E-02", modes=RC)
def other_edges_go_on(bench: Bench) -> None:
    """Three children, retry_limit = 1. Child 2 is in error. Child 1's ACK of result 0 is lost: it is still repeated
    to child 1, child 1's repeated contribution is still acknowledged, and its NAK answered.
    """
    group = bench.install(3, window=4, retry_limit=1, **timers(0.05 if bench.traits.virtual_time else 0.4))
    slow, dead = group.children[1:]
    dead.acknowledge = False
    bench.contribute_all(0, [(1,), (2,), (3,)])
    bench.contribute(2, 1, (30,))
    bench.expect_result(0, (6,))
    bench.watch(give_up_time(bench))
    expect_failed_edges(bench, dead)
    slow.acknowledge = False
    slow.acks.clear()
    bench.contribute(1, 0, (2,))
    bench.expect_ack(slow, 0)
    for child, value in ((0, 10), (1, 20)):
        bench.contribute(child, 1, (value,))
    bench.expect_result(1, (60,), children=[0, 1])
    expect_repeated(bench, slow, [1], latest(bench, timeout(bench)))
    bench.acknowledge(slow, 1)
    expect_answers(bench, slow, [], newest=1)
    expect_failed_edges(bench, dead)


# -------------------------------------------------------------------------------------------------- observation


@case("EPIC-F-04", modes=RC, needs=(("reads_status", True),))
def live_slots_can_be_read(bench: Bench) -> None:
    """W = 4, three children. Child 1 contributes cell 0, then child 0 and 2, then child 2 contributes cell 1: after
    each step the control plane shows the live slots with cell number, bitmap and whether the result has passed.
    """
    group = bench.install(3, window=4)

    bench.contribute(1, 0, (1,))
    bench.expect_ack(group.children[1], 0)
    bench.expect_slots({0: (0b010, False)})
    bench.contribute(0, 0, (1,))
    bench.contribute(2, 0, (1,))
    bench.expect_result(0, (3,))
    bench.expect_slots({0: (0b111, True)})
    bench.contribute(2, 1, (1,))
    bench.expect_ack(group.children[2], 1)
    bench.expect_slots({0: (0b111, True), 1: (0b100, False)})
