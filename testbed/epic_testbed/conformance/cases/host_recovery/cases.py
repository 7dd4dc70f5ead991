"""Hosts: what is lost is repeated, unchanged, when the timer of RFC 6298 says so."""

from __future__ import annotations

import random

from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier
from epic_testbed.conformance.record import Failure

WHAT = all_reduce()
# What the steps of a clock may take off a time, in seconds.
EARLY = 0.002


def _expect_time(bench: HostBench, since: float, at: float, low: float, high: float | None = None) -> None:
    """`at` is not before `low` seconds since a call, nor long after `high`.

    The time runs from before the call, so that a suite that is late to look can only find it too long.
    """
    high = (low if high is None else high) + bench.late
    if not low - EARLY <= at - since <= high:
        raise Failure(
            "time from the call until the contribution is repeated",
            [f"{low:g} to {high:g} s"],
            [f"{at - since:.4f} s"],
        )


@case("EPIC-H-04", "EPIC-M3-20", "EPIC-M1-20", "EPIC-M2-20", side="agent")
def a_lost_contribution_is_repeated_unchanged(bench: HostBench) -> None:
    """Three cells, in place; everything the host sends is lost once. It repeats all of it by its timer, byte for byte,
    and the results end the collective.
    """
    bench.join(rto_initial_us=300_000, rto_min_us=300_000)
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    bench.lose(sum(-(-c.nbytes // bench.params.payload_bytes) for c in cells))
    handle = bench.call("all_reduce", data)
    bench.expect_no_new()
    bench.expect_repeat(0, within=0.3 + bench.late)
    for i, cell in enumerate(cells):
        bench.expect_contribution(i, cell, WHAT)
    for i, cell in enumerate(cells):
        bench.result(i, cell * 2, WHAT)
    bench.expect_outcome(handle, data * 2)


@case("EPIC-M3-20", "EPIC-H-04", "EPIC-M1-17", "EPIC-M2-21", side="agent")
def what_has_its_result_is_not_repeated(bench: HostBench) -> None:
    """Two cells; the engine acknowledges nothing, but sends the result of cell 0. When the timer expires cell 1 is
    repeated and cell 0 is not; after the result of cell 1 nothing is.
    """
    bench.join(rto_initial_us=100_000, rto_min_us=100_000)
    bench.switch.acknowledge = False
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.result(0, cells[0], WHAT)
    bench.expect_running(handle)
    bench.repeated_cells()
    bench.advance(0.1 + bench.late)
    bench.expect_repeated_cells("repeated by the timer", [1])
    bench.result(1, cells[1], WHAT)
    bench.expect_outcome(handle, data)
    bench.repeated_cells()
    bench.advance(0.5)
    bench.expect_repeated_cells("repeated though its result is there", [])


@case("EPIC-F-01", "EPIC-F-06", side="agent")
def the_timeout_doubles(bench: HostBench) -> None:
    """Nothing answers. The contribution is repeated after rto_initial, then after twice that, four times, and at most
    after rto_max.
    """
    bench.join(rto_initial_us=100_000, rto_min_us=50_000, rto_max_us=400_000)
    bench.switch.acknowledge = False
    since = bench.now
    bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    total = 0.0
    for timeout in (0.1, 0.2, 0.4, 0.4):
        total += timeout
        at = bench.expect_repeat(0, within=max(since + total - bench.now, 0.0) + bench.late)
        _expect_time(bench, since, at, total)
    bench.result(0, None, barrier())


@case("EPIC-F-01", "EPIC-F-06", side="agent")
def the_timeout_follows_the_round_trip(bench: HostBench) -> None:
    """rto_initial is 4 s. The first result takes 100 ms, and nothing else is acknowledged: so SRTT is 100 ms, RTTVAR
    half of it, and the next cell is repeated after about 300 ms.
    """
    bench.join(rto_initial_us=4_000_000, rto_min_us=10_000, rto_max_us=8_000_000)
    bench.switch.acknowledge = False
    bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.advance(0.1)
    bench.result(0, None, barrier())
    since = bench.now
    bench.call("barrier")
    bench.expect_contribution(1, None, barrier(1))
    at = bench.expect_repeat(1, within=0.3 + 3 * bench.late)
    _expect_time(bench, since, at, 0.3, 0.3 + 2 * bench.late)
    bench.result(1, None, barrier(1))


@case("EPIC-F-01", "EPIC-F-06", side="agent")
def the_timeout_is_never_below_rto_min(bench: HostBench) -> None:
    """Three results come at once, so the round trip is next to nothing. The next cell is repeated after rto_min and
    not before.
    """
    bench.join(rto_initial_us=400_000, rto_min_us=200_000)
    bench.switch.acknowledge = False
    for i in range(3):
        bench.call("barrier")
        bench.exchange(i, [(barrier(i), None, None)])
    since = bench.now
    bench.call("barrier")
    bench.expect_contribution(3, None, barrier(3))
    at = bench.expect_repeat(3, within=0.2 + bench.late)
    _expect_time(bench, since, at, 0.2)
    bench.result(3, None, barrier(3))


@case("EPIC-F-01", "EPIC-F-06", side="agent")
def repeated_contributions_give_no_sample(bench: HostBench) -> None:
    """A cell is repeated after rto_initial and its result comes at once. That time is no sample (Karn's rule), and
    backing off has ended: the next cell is repeated after rto_initial again, neither sooner nor much later.
    """
    bench.join(rto_initial_us=300_000, rto_min_us=10_000, rto_max_us=4_000_000)
    bench.switch.acknowledge = False
    bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.expect_repeat(0, within=0.3 + bench.late)
    bench.result(0, None, barrier())
    since = bench.now
    bench.call("barrier")
    bench.expect_contribution(1, None, barrier(1))
    at = bench.expect_repeat(1, within=0.3 + bench.late)
    _expect_time(bench, since, at, 0.3)
    bench.result(1, None, barrier(1))


@case("EPIC-M3-21", modes=(3,), side="agent")
def an_overtaken_contribution_is_repeated_at_once(bench: HostBench) -> None:
    """W = 4. Results of cells 1, 2 and 3 come and that of 0 does not: at the third the host contributes cell 0 again,
    long before its timer, and once only.
    """
    bench.join(window=4, rto_initial_us=2_000_000, rto_min_us=2_000_000, rto_max_us=4_000_000)
    data = bench.numbers(3.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.prepare(0, cells[0], WHAT)
    for i in (1, 2, 3):
        bench.result(i, cells[i], WHAT)
    bench.expect_repeat(0)
    bench.repeat_result(3)
    bench.expect_silence()
    bench.repeat_result(0)
    bench.expect_outcome(handle, data)


@case("EPIC-M3-24", "EPIC-M3-20", modes=(3,), side="agent")
def silence_is_no_error_before_the_deadline(bench: HostBench) -> None:
    """retry_limit is 1 and another rank is slow. The host repeats its contribution five times and more and reports
    nothing; the result, at three quarters of the deadline, ends the collective well.
    """
    bench.join(
        retry_limit=1, rto_initial_us=50_000, rto_min_us=50_000, rto_max_us=100_000, deadline_us=1_500_000
    )
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    begin = bench.now
    for _ in range(5):
        bench.expect_repeat(0, within=0.1 + bench.late)
    bench.advance(max(0.0, begin + 1.1 - bench.now))
    bench.expect_running(handle)
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-A-05", "EPIC-A-02", "EPIC-A-03", "EPIC-H-04", side="agent")
def an_edge_that_loses_a_third(bench: HostBench) -> None:
    """Twenty cells over an edge that loses a third of the packets in both directions and doubles a tenth, by the case's
    seed: the host repeats what is needed, the collective ends with every element right.
    """
    bench.join(rto_initial_us=20_000, rto_min_us=20_000, rto_max_us=40_000, retry_limit=60)
    rng = random.Random(bench.seed)
    data = bench.numbers(19.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    for i, cell in enumerate(cells):
        bench.prepare(i, cell * 2, WHAT)
    bench.switch.loses = lambda: rng.random() < 1 / 3
    for _ in range(500):
        bench.advance(0.01)
        if bench.dut.outcome(handle) is not None:
            break
        contributed = [c.cell for c in bench.switch.waiting]
        done, again = bench.switch.results_sent, bench.repeated_cells()
        # The host has at most W results fewer than were sent; in Mode III it asks for those that it lacks.
        late = range(max(0, done - 4), done) if bench.switch.reliable else again
        for cell in sorted({*late, *(c for c in contributed if c >= done)}):
            if cell in contributed and rng.random() < 2 / 3:
                bench.repeat_result(cell)
                if rng.random() < 1 / 10:
                    bench.repeat_result(cell)
    bench.switch.waiting.clear()
    bench.expect_outcome(handle, data * 2)
