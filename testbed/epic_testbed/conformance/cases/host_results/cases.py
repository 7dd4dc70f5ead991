"""Hosts: results are taken once, in order, as they are; the rest is dropped."""

from __future__ import annotations

import numpy as np

from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier

WHAT = all_reduce()


@case("EPIC-A-03", "EPIC-M3-23", "EPIC-M1-03", "EPIC-M2-02", side="agent")
def a_repeated_result_is_not_delivered_again(bench: HostBench) -> None:
    """Three cells. The result of cell 0 is delivered; a copy of it with other elements comes twice. The result of cell
    1 is still taken as cell 1's, and the array has the first copy's elements.
    """
    bench.join()
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.result(0, cells[0], WHAT)
    for _ in range(2):
        for packet in bench.switch.results[0]:
            bench.send(packet.but(payload=bytes(len(packet.payload) - 4) + b"\x7f\x7f\x7f\x7f"))
    bench.expect_running(handle)
    bench.result(1, cells[1], WHAT)
    bench.result(2, cells[2], WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-A-03", "EPIC-M3-23", side="agent")
def a_late_copy_does_not_end_the_next_collective(bench: HostBench) -> None:
    """A barrier has ended. The next is called; copies of the first one's result do not end it, its own result does."""
    bench.join()
    first = bench.call("barrier")
    bench.exchange(0, [(barrier(0), None, None)])
    bench.expect_outcome(first)
    second = bench.call("barrier")
    bench.expect_contribution(1, None, barrier(1))
    bench.repeat_result(0)
    bench.repeat_result(0)
    bench.expect_running(second)
    bench.result(1, None, barrier(1))
    bench.expect_outcome(second)


@case("EPIC-M1-20", "EPIC-M2-20", "EPIC-M3-23", "EPIC-A-03", side="agent")
def a_result_before_any_contribution_is_dropped(bench: HostBench) -> None:
    """A result of cell 0 comes while the host has contributed nothing: it is neither kept nor acknowledged. Later the
    user calls, and gets the elements of the result that comes then.
    """
    bench.join()
    data = bench.numbers(0.5)
    early = bench.prepare(0, data * 9, WHAT)
    for packet in early:
        bench.send(packet)
    bench.expect_no_ack()
    bench.switch.forget(0)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(WHAT, data, data * 2)])
    bench.expect_outcome(handle, data * 2)


@case("EPIC-M3-22", "EPIC-A-03", modes=(3,), side="agent")
def results_out_of_order_are_kept(bench: HostBench) -> None:
    """W = 4. The results of cells 3, 1 and 2 come before that of 0 and are not sent again: with the result of 0 all
    four are delivered, each to its place.
    """
    bench.join(window=4)
    data = bench.numbers(3.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    for i in (3, 1, 2):
        bench.result(i, cells[i] * (i + 2), WHAT)
    bench.expect_running(handle)
    bench.result(0, cells[0] * 2, WHAT)
    bench.expect_outcome(handle, np.concatenate([c * (i + 2) for i, c in enumerate(cells)]))


@case("EPIC-M3-23", modes=(3,), side="agent")
def a_kept_result_is_not_replaced(bench: HostBench) -> None:
    """The result of cell 1 is kept, that of 0 being late; a second one for cell 1 with other elements is dropped."""
    bench.join()
    data = bench.numbers(1.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    bench.result(1, cells[1], WHAT)
    packet = bench.switch.results[1][0]
    bench.send(packet.but(payload=bytes(len(packet.payload))))
    bench.result(0, cells[0], WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M3-23", modes=(3,), side="agent")
def a_result_beyond_the_window_is_dropped(bench: HostBench) -> None:
    """W = 2. A result for cell 2 comes, which the host has not contributed: it is not kept. Cell 2 is contributed in
    its turn and gets the result that comes then.
    """
    bench.join(window=2)
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells[:2], WHAT)
    stray = bench.prepare(2, cells[2] * 0, WHAT)
    bench.send(stray[0])
    bench.switch.forget(2)
    bench.result(0, cells[0], WHAT)
    bench.result(1, cells[1], WHAT)
    bench.expect_contribution(2, cells[2], WHAT)
    bench.expect_running(handle)
    bench.result(2, cells[2], WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-20", "EPIC-M1-08", "EPIC-M2-04", "EPIC-M2-22", modes=(1, 2), side="agent")
def a_window_of_results_at_once(bench: HostBench) -> None:
    """W = 4, four cells outstanding. All four results are sent back to back, once: the host has room for each,
    acknowledges the last, and needs none again.
    """
    bench.join(window=4)
    data = bench.numbers(3.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    for i, cell in enumerate(cells):
        bench.result(i, cell * 5, WHAT)
    bench.expect_ack(3)
    bench.expect_outcome(handle, data * 5)


@case("EPIC-M1-08", "EPIC-M2-04", "EPIC-W-18", modes=(1, 2), side="agent")
def each_result_is_acknowledged(bench: HostBench) -> None:
    """Results come one at a time: each is acknowledged, by the number of its last packet, and nothing newer is."""
    bench.join()
    data = bench.numbers(2.5)
    handle = bench.call("all_reduce", data)
    for i, cell in enumerate(bench.cut(data)):
        bench.expect_contribution(i, cell, WHAT)
        bench.result(i, cell, WHAT)
        bench.expect_ack(i)
    bench.expect_outcome(handle, data)


@case("EPIC-M3-25", modes=(3,), side="agent")
def no_acknowledgement_without_reflection(bench: HostBench) -> None:
    """Results, copies of results and results out of order come: the host acknowledges none of them in any way."""
    bench.join()
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    for i in (2, 2, 0, 0, 1):
        bench.result(i, cells[i], WHAT)
    bench.expect_no_ack()
    bench.expect_outcome(handle, data)
