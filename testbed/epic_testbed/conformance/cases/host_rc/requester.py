"""Hosts as requesters, Modes I and II: what is repeated after ACK, NAK, RNR NAK and silence."""

from __future__ import annotations

from epic_models.reference.rc import RNR_TIMERS_MS
from epic_spec.errors import PeerLostError
from epic_spec.tables import NakCode
from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier
from epic_testbed.conformance.record import Failure

WHAT = all_reduce()


@case("EPIC-M1-09", "EPIC-M2-05", modes=(1, 2), side="agent")
def a_nak_repeats_from_its_packet_on(bench: HostBench) -> None:
    """Four cells, none acknowledged. A NAK names cell 1: cells 1 to 3 are repeated at once, in order, and cell 0, which
    the NAK acknowledges, is not. The same NAK again causes nothing.
    """
    bench.join(rto_initial_us=2_000_000, rto_min_us=2_000_000, rto_max_us=4_000_000)
    bench.switch.acknowledge = False
    data = bench.numbers(3.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.nak(1)
    bench.expect_repeat(1)
    bench.settle()
    bench.expect_repeated_cells("repeated behind cell 1", [1, 2, 3], 1)
    bench.nak(1)
    bench.expect_silence()
    for i, cell in enumerate(cells):
        bench.result(i, cell, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-09", "EPIC-M2-05", modes=(1, 2), side="agent")
def a_nak_acknowledges_what_is_before_it(bench: HostBench) -> None:
    """Three cells, none acknowledged, then a NAK of cell 2. From then on cell 2 alone is repeated, by the NAK and by
    the timer.
    """
    bench.join(rto_initial_us=300_000, rto_min_us=300_000)
    bench.switch.acknowledge = False
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.nak(2)
    bench.expect_repeat(2)
    bench.settle()
    bench.repeated_cells()
    bench.advance(0.3 + bench.late)
    bench.expect_repeated_cells("repeated by the timer", [2])
    for i, cell in enumerate(cells):
        bench.result(i, cell, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-09", "EPIC-M2-05", modes=(1, 2), side="agent")
def a_nak_is_answered_again_after_a_timeout(bench: HostBench) -> None:
    """A NAK of cell 0 is answered; then the timer expires, and the answer to that is lost too. The next NAK of cell 0
    is answered at once.
    """
    bench.join(rto_initial_us=300_000, rto_min_us=300_000, rto_max_us=2_000_000)
    bench.switch.acknowledge = False
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.nak(0)
    bench.expect_repeat(0)
    bench.expect_repeat(0, within=0.3 + bench.late)
    bench.nak(0)
    bench.expect_repeat(0, within=min(0.25, max(bench.response, 0.01)))
    bench.result(0, None, barrier())
    bench.expect_outcome(handle)


@case("EPIC-M1-10", "EPIC-M2-15", modes=(1, 2), side="agent")
def an_rnr_nak_is_waited_for(bench: HostBench) -> None:
    """Two cells, an RNR NAK of cell 0 with a time of 122.88 ms. Nothing is sent for that long; then both cells are
    repeated. The timer, at 2 s, has no part in it.
    """
    bench.join(rto_initial_us=2_000_000, rto_min_us=2_000_000, rto_max_us=4_000_000)
    bench.switch.acknowledge = False
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    code = 27
    seconds = RNR_TIMERS_MS[code] / 1000
    begin = bench.now
    bench.rnr(0, code)
    at = bench.expect_repeat(0, within=seconds + bench.late)
    if at - begin < seconds - 0.001:
        raise Failure("repeated before the RNR time", [f"{seconds:g} s"], [f"{at - begin:.4f} s"])
    bench.advance(0.01)
    bench.expect_repeated_cells("repeated with cell 0", [0, 1], 0)
    for i, cell in enumerate(cells):
        bench.result(i, cell, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-10", "EPIC-M2-15", modes=(1, 2), side="agent")
def an_rnr_nak_acknowledges_what_is_before_it(bench: HostBench) -> None:
    """Two cells, an RNR NAK of cell 1 with a time of 20.48 ms: cell 1 is repeated after it, and cell 0 is not."""
    bench.join(rto_initial_us=2_000_000, rto_min_us=2_000_000, rto_max_us=4_000_000)
    bench.switch.acknowledge = False
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.rnr(1, 22)
    bench.expect_repeat(1, within=0.021 + bench.late)
    bench.settle()
    bench.expect_repeated_cells("repeated", [1], 1)
    for i, cell in enumerate(cells):
        bench.result(i, cell, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-10", "EPIC-M2-15", "EPIC-F-02", modes=(1, 2), side="agent")
def rnr_naks_are_not_counted_as_retries(bench: HostBench) -> None:
    """retry_limit is 1. The engine answers six times that it is not ready: the host goes on trying."""
    bench.join(retry_limit=1, rto_initial_us=1_000_000, rto_min_us=1_000_000)
    bench.switch.acknowledge = False
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    for _ in range(6):
        bench.rnr(0, 20)
        bench.expect_repeat(0, within=0.0103 + bench.late)
    bench.expect_running(handle)
    bench.result(0, None, barrier())
    bench.expect_outcome(handle)


@case("EPIC-M1-11", "EPIC-M2-16", modes=(1, 2), side="agent")
def another_nak_ends_the_edge(bench: HostBench) -> None:
    """A NAK (invalid request) of cell 0: the edge is in error. The collective ends with a PeerLostError that names the
    edge, before any timer; nothing is repeated, and a result that comes is not taken or acknowledged.
    """
    bench.join(rto_initial_us=200_000, rto_min_us=200_000)
    bench.switch.acknowledge = False
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.nak(0, NakCode.INVALID_REQUEST)
    bench.expect_error(handle, PeerLostError, bench.switch.edge.name)
    bench.repeated_cells()
    bench.result(0, None, barrier())
    bench.advance(0.5)
    bench.expect_silence()
    bench.expect_error(handle, PeerLostError)


@case("EPIC-M1-12", "EPIC-M2-14", modes=(1, 2), side="agent")
def an_ack_of_what_was_not_sent_is_dropped(bench: HostBench) -> None:
    """Cell 0 is outstanding. An ACK comes that names a packet far beyond it: it acknowledges nothing, so cell 0 is
    still repeated by the timer; it is counted as unexpected.
    """
    bench.join(rto_initial_us=100_000, rto_min_us=100_000)
    bench.switch.acknowledge = False
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.switch.ack(1)
    bench.switch.ack(5)
    bench.expect_counter({"drop_unexpected": 2})
    bench.expect_repeat(0, within=0.1 + bench.late)
    bench.result(0, None, barrier())
    bench.expect_outcome(handle)


@case("EPIC-M1-01", "EPIC-M1-20", "EPIC-M2-01", "EPIC-M2-20", modes=(1, 2), side="agent")
def an_acknowledged_contribution_is_not_repeated(bench: HostBench) -> None:
    """Two cells, the second of which is acknowledged, and with it the first. However late the results are, nothing is
    repeated.
    """
    bench.join(rto_initial_us=100_000, rto_min_us=100_000)
    bench.switch.acknowledge = False
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.ack(1)
    bench.settle()
    bench.repeated_cells()
    bench.advance(0.6)
    bench.expect_repeated_cells("repeated though acknowledged", [])
    for i, cell in enumerate(cells):
        bench.result(i, cell, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-17", "EPIC-M2-21", modes=(1, 2), side="agent")
def a_result_acknowledges_the_contributions_before_it(bench: HostBench) -> None:
    """Three cells and no ACK. The results of cells 0 and 1 come: the timer repeats cell 2 alone."""
    bench.join(rto_initial_us=200_000, rto_min_us=200_000)
    bench.switch.acknowledge = False
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.result(0, cells[0], WHAT)
    bench.result(1, cells[1], WHAT)
    bench.settle()
    bench.repeated_cells()
    bench.advance(0.2 + bench.late)
    bench.expect_repeated_cells("repeated by the timer", [2])
    bench.result(2, cells[2], WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-F-02", modes=(1, 2), side="agent")
def the_retry_limit(bench: HostBench) -> None:
    """retry_limit is 2 and nothing answers: the contribution is sent three times in all. After one more timeout the
    edge is in error: a PeerLostError names it, nothing more is sent, and a result that comes is not acknowledged.
    """
    bench.join(retry_limit=2, rto_initial_us=100_000, rto_min_us=100_000, rto_max_us=100_000)
    bench.switch.acknowledge = False
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    for _ in range(2):
        bench.expect_repeat(0, within=0.1 + bench.late)
    bench.expect_running(handle)
    bench.expect_error(handle, PeerLostError, bench.switch.edge.name, within=0.1 + bench.late)
    bench.result(0, None, barrier())
    bench.advance(0.3)
    bench.expect_silence()


@case("EPIC-F-02", modes=(1, 2), side="agent")
def progress_forgives_retries(bench: HostBench) -> None:
    """retry_limit is 2. Four barriers in turn are each acknowledged only after the second repetition: no error."""
    bench.join(retry_limit=2, rto_initial_us=60_000, rto_min_us=60_000, rto_max_us=60_000)
    bench.switch.acknowledge = False
    for i in range(4):
        handle = bench.call("barrier")
        bench.expect_contribution(i, None, barrier(i))
        bench.expect_repeat(i, within=0.06 + bench.late)
        bench.expect_repeat(i, within=0.06 + bench.late)
        bench.ack(i)
        bench.expect_running(handle)
        bench.result(i, None, barrier(i))
        bench.expect_outcome(handle)
