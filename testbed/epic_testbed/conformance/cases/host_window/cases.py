"""Hosts: the result clock, the reaction to congestion, numbers that wrap around."""

from __future__ import annotations

from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier
from epic_testbed.conformance.record import Failure

WHAT = all_reduce()


@case("EPIC-A-01", side="agent")
def no_more_than_a_window_without_results(bench: HostBench) -> None:
    """W = 4. The user reduces ten cells and a half. Four are contributed and no more; each result that is sent lets
    one more follow. The results come back as the array.
    """
    bench.join(window=4)
    data = bench.numbers(10.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells[:4], WHAT)
    bench.expect_no_new()
    for i, cell in enumerate(cells):
        bench.result(i, cell * 3, WHAT)
        if i + 4 < len(cells):
            bench.expect_contribution(i + 4, cells[i + 4], WHAT)
        bench.expect_no_new()
    bench.expect_outcome(handle, data * 3)


@case("EPIC-A-01", "EPIC-M3-22", modes=(3,), side="agent")
def results_out_of_order_do_not_open_the_window(bench: HostBench) -> None:
    """W = 2. Of cells 0 and 1 the result of 1 comes first: it is not received in order, so cell 2 must wait for the
    result of 0, which then opens the window by two.
    """
    bench.join(window=2)
    data = bench.numbers(4.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells[:2], WHAT)
    bench.prepare(0, cells[0], WHAT)
    bench.result(1, cells[1], WHAT)
    bench.expect_no_new()
    bench.result(0, cells[0], WHAT)
    bench.expect_contributions(2, cells[2:4], WHAT)
    bench.result(2, cells[2], WHAT)
    bench.expect_contribution(4, cells[4], WHAT)
    bench.result(3, cells[3], WHAT)
    bench.result(4, cells[4], WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-A-01", "EPIC-H-04", side="agent")
def a_window_of_one(bench: HostBench) -> None:
    """W = 1: cells go one by one, and in place, so each result overwrites what was sent."""
    bench.join(window=1)
    data = bench.numbers(3.5)
    handle = bench.call("all_reduce", data)
    for i, cell in enumerate(bench.cut(data)):
        bench.expect_contribution(i, cell, WHAT)
        bench.expect_no_new()
        bench.result(i, cell + 7, WHAT)
    bench.expect_outcome(handle, data + 7)


@case("EPIC-A-01", "EPIC-A-06", side="agent")
def the_window_spans_collectives(bench: HostBench) -> None:
    """W = 4. Six barriers are called at once. Four cells are contributed, in the order of the calls, and one more with
    each result.
    """
    bench.join(window=4)
    handles = [bench.call("barrier") for _ in range(6)]
    for i in range(4):
        bench.expect_contribution(i, None, barrier(i))
    bench.expect_no_new()
    for i in range(6):
        bench.result(i, None, barrier(i))
        bench.expect_outcome(handles[i])
        if i + 4 < 6:
            bench.expect_contribution(i + 4, None, barrier(i + 4))
        bench.expect_no_new()


@case("EPIC-A-04", "EPIC-A-06", side="agent")
def nothing_is_contributed_before_the_call(bench: HostBench) -> None:
    """The window is open, but the user calls nothing: the host sends nothing, as no cell of a rank may be contributed
    before the rank calls it. Between two collectives it is the same.
    """
    bench.join()
    bench.expect_silence()
    for i in range(2):
        handle = bench.call("barrier")
        bench.exchange(i, [(barrier(i), None, None)])
        bench.expect_outcome(handle)
        bench.expect_no_new()


@case("EPIC-W-15", "EPIC-W-16", side="agent")
def numbers_wrap_around_in_both_directions(bench: HostBench) -> None:
    """The PSN bases are three packets below 2^24 upwards and one below downwards: numbers go on from 0, and the
    results are taken.
    """
    bench.join(window=4, psn_up=0xFFFFFD, psn_down=0xFFFFFF)
    data = bench.numbers(6.5)
    handle = bench.call("all_reduce", data)
    cells = bench.cut(data)
    bench.expect_contributions(0, cells[:4], WHAT)
    for i, cell in enumerate(cells):
        bench.result(i, cell * 2, WHAT)
        if i + 4 < len(cells):
            bench.expect_contribution(i + 4, cells[i + 4], WHAT)
    bench.expect_outcome(handle, data * 2)


@case("EPIC-H-08", side="agent", needs=(("ecn", True),))
def congestion_halves_the_window(bench: HostBench) -> None:
    """W = 8. The result of cell 0 has congestion experienced: from then on at most 4 cells are outstanding, and the
    window widens by one cell a window of results at most. The collective ends all the same.
    """
    bench.join(window=8, ecn=True)
    size = 8.0
    data = bench.numbers(24.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    sent = 0
    for i, cell in enumerate(cells):
        before, sent = sent, bench.settle()
        if sent > before and sent - i > int(size):
            raise Failure(
                f"with {i} results received more cells are outstanding than the narrowed window",
                [f"at most {int(size)}"],
                [f"{sent - i}"],
            )
        size = max(1.0, size / 2) if i == 0 else min(8.0, size + 1 / size)
        bench.result(i, cell, WHAT, congested=i == 0)
    bench.expect_outcome(handle, data)


@case("EPIC-H-08", "EPIC-A-05", side="agent", needs=(("ecn", True),))
def congestion_never_closes_the_window(bench: HostBench) -> None:
    """Every result of ten cells has congestion experienced: the window shrinks, but to one cell at least, so each cell
    is contributed and the collective ends.
    """
    bench.join(window=4, ecn=True)
    data = bench.numbers(9.5)
    handle = bench.call("all_reduce", data)
    for i, cell in enumerate(bench.cut(data)):
        bench.expect_contribution(i, cell, WHAT)
        bench.result(i, cell, WHAT, congested=True)
    bench.expect_outcome(handle, data)
