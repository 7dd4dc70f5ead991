"""Hosts as RC endpoints in Mode III, with ACK reflection."""

from __future__ import annotations

from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier

WHAT = all_reduce()


REFLECTION = (("ack_reflection", True),)


@case("EPIC-M3-26", "EPIC-W-18", modes=(3,), side="agent", needs=REFLECTION)
def reflected_acks_end_repetitions(bench: HostBench) -> None:
    """The host acknowledges each result, and its ACKs come back as those of its contributions: nothing is repeated."""
    bench.join(ack_reflection=True, rto_initial_us=100_000, rto_min_us=100_000)
    data = bench.numbers(2.5)
    handle = bench.call("all_reduce", data)
    for i, cell in enumerate(bench.cut(data)):
        bench.expect_contribution(i, cell, WHAT)
        bench.result(i, cell, WHAT)
        bench.expect_ack(i)
    bench.expect_outcome(handle, data)
    bench.repeated_cells()
    bench.advance(0.4)
    bench.expect_repeated_cells("repeated though acknowledged", [])


@case("EPIC-M3-26", modes=(3,), side="agent", needs=REFLECTION)
def a_gap_in_results_repeats_contributions(bench: HostBench) -> None:
    """The result of cell 0 is lost, that of cell 1 comes: the host sends one NAK of cell 0, which comes back, and it
    repeats its contributions from cell 0 on. The results then come in order.
    """
    bench.join(ack_reflection=True, rto_initial_us=2_000_000, rto_min_us=2_000_000, rto_max_us=4_000_000)
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.prepare(0, cells[0], WHAT)
    bench.result(1, cells[1], WHAT)
    bench.expect_nak(0)
    bench.expect_repeat(0)
    bench.repeat_result(1)
    bench.expect_no_ack()
    bench.repeat_result(0)
    bench.repeat_result(1)
    bench.expect_ack(1)
    bench.expect_outcome(handle, data)


@case("EPIC-M3-26", "EPIC-M3-24", modes=(3,), side="agent", needs=REFLECTION)
def retries_do_not_run_out(bench: HostBench) -> None:
    """retry_limit is 1 and another rank is slow: the contribution is repeated four times and more, and its result, at
    half of the deadline, ends the collective well. A copy of it is acknowledged again.
    """
    bench.join(
        ack_reflection=True,
        retry_limit=1,
        rto_initial_us=50_000,
        rto_min_us=50_000,
        rto_max_us=100_000,
        deadline_us=2_000_000,
    )
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    begin = bench.now
    for _ in range(4):
        bench.expect_repeat(0, within=0.1 + bench.late)
    bench.advance(max(0.0, begin + 1.0 - bench.now))
    bench.expect_running(handle)
    bench.result(0, None, barrier())
    bench.expect_ack(0)
    bench.expect_outcome(handle)
    bench.repeat_result(0)
    bench.expect_ack(0)
