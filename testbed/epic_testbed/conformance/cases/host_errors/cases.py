"""Hosts: disagreement, death, abort: every collective ends, with an error that says why."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from epic_spec.errors import AbortedError, MismatchError, PeerLostError
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator
from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, Values, all_reduce, barrier, broadcast, reduce
from epic_testbed.conformance.record import Failure

WHAT = all_reduce()


def _record(held: Descriptor, held_length: int, other: Descriptor, other_length: int) -> bytes:
    """A conflict record (section 5.2 of the specification)."""
    return struct.pack(">4I", held.pack(), held_length, other.pack(), other_length)


@case("EPIC-D-07", side="agent")
def an_err_result_with_a_conflict_record(bench: HostBench) -> None:
    """This rank calls a SUM; the result has ERR and a record: one side sent SUM with 32 bytes, another MAX with 16. The
    collective ends with a MismatchError that names both operators and both lengths.
    """
    bench.join()
    data = np.arange(8, dtype=np.int32)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    bench.result(0, _record(WHAT, 32, all_reduce(operator=Operator.MAX), 16), WHAT, err=True)
    bench.expect_error(handle, MismatchError, "SUM", "MAX", "32", "16")


@case("EPIC-D-07", side="agent")
def an_err_result_without_a_record(bench: HostBench) -> None:
    """The result has ERR and NULL and nothing more, for the cell of another descriptor: the error says what this rank
    sent and what the result says.
    """
    bench.join()
    handle = bench.call("all_reduce", np.arange(8, dtype=np.int32))
    bench.next_contribution(0)
    bench.result(0, None, all_reduce(operator=Operator.MIN), err=True)
    bench.expect_error(handle, MismatchError, "SUM", "MIN")


@case("EPIC-D-07", side="agent")
def an_err_result_in_a_later_cell(bench: HostBench) -> None:
    """The first two of three cells are sound; the third has ERR: the collective ends with a MismatchError."""
    bench.join()
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(WHAT, cell, cell) for cell in cells[:2]])
    bench.expect_contribution(2, cells[2], WHAT)
    bench.expect_running(handle)
    bench.result(2, None, WHAT, err=True)
    bench.expect_error(handle, MismatchError, "SUM")


@case("EPIC-D-07", side="agent")
def an_err_result_of_a_barrier(bench: HostBench) -> None:
    """A barrier's result has ERR and a conflict record: somebody reduced instead."""
    bench.join()
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.result(0, _record(barrier(), 0, WHAT, 64), barrier(), err=True)
    bench.expect_error(handle, MismatchError, "barrier", "SUM")


def _differing(bench: HostBench, what: Descriptor, *words: str) -> None:
    """A result without ERR whose descriptor is `what` ends a SUM with a MismatchError."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    bench.result(0, data, what)
    bench.expect_error(handle, MismatchError, "SUM", *words)


@case("EPIC-D-07", side="agent")
def a_result_of_another_operator(bench: HostBench) -> None:
    """The result of a SUM says MAX, without ERR."""
    _differing(bench, all_reduce(operator=Operator.MAX), "MAX")


@case("EPIC-D-07", side="agent")
def a_result_of_another_datatype(bench: HostBench) -> None:
    """The result of an INT32 says FP32, without ERR."""
    _differing(bench, all_reduce(datatype=Datatype.FP32), "INT32", "FP32")


@case("EPIC-D-07", side="agent")
def a_result_of_another_primitive(bench: HostBench) -> None:
    """The result of an AllReduce says Reduce, without ERR."""
    _differing(bench, replace(reduce(0), rank=0xFFFF), "REDUCE")


@case("EPIC-D-07", side="agent")
def a_result_of_another_rank(bench: HostBench) -> None:
    """The result of a Broadcast from rank 1 says rank 0, without ERR."""
    bench.join(rank=1)
    data = bench.numbers(0.5)
    handle = bench.call("broadcast", data, root=1)
    bench.expect_contribution(0, data, broadcast(1))
    bench.settle()
    bench.result(0, data, broadcast(0))
    bench.expect_error(handle, MismatchError, "rank")


@case("EPIC-D-07", side="agent")
def a_result_of_another_tag(bench: HostBench) -> None:
    """The result of the first collective has the tag of the second, without ERR."""
    _differing(bench, all_reduce(tag=1), "tag")


def _wrong_length(bench: HostBench, values: Values, *words: str) -> None:
    """The only cell of a SUM of 8 elements gets a result of another length."""
    bench.join()
    data = np.arange(8, dtype=np.int32)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    bench.result(0, values, WHAT)
    bench.expect_error(handle, MismatchError, "32", *words)


@case("EPIC-D-07", side="agent")
def a_result_that_is_shorter(bench: HostBench) -> None:
    """8 elements were sent and 7 come back."""
    _wrong_length(bench, np.arange(7, dtype=np.int32), "28")


@case("EPIC-D-07", side="agent")
def a_result_that_is_longer(bench: HostBench) -> None:
    """8 elements were sent and 9 come back."""
    _wrong_length(bench, np.arange(9, dtype=np.int32), "36")


@case("EPIC-D-07", side="agent")
def a_null_result_where_a_payload_is_expected(bench: HostBench) -> None:
    """8 elements were sent and NULL comes back."""
    _wrong_length(bench, None)


@case("EPIC-D-07", side="agent")
def a_payload_where_null_is_expected(bench: HostBench) -> None:
    """A rank that is not the root of a Reduce gets a payload in place of its completion."""
    bench.join(rank=1)
    data = bench.numbers(0.5)
    handle = bench.call("reduce", data, root=0)
    bench.expect_contribution(0, data, reduce(0))
    bench.settle()
    bench.result(0, data, reduce(0))
    bench.expect_error(handle, MismatchError, "NULL")


@case("EPIC-H-05", side="agent")
def an_error_ends_what_follows(bench: HostBench) -> None:
    """Three barriers are called and the first fails. The others end with the same error, and so does one that is called
    later; nothing new is contributed for any.
    """
    bench.join(window=2)
    handles = [bench.call("barrier") for _ in range(3)]
    bench.settle()
    bench.result(0, None, barrier(), err=True)
    errors = [str(bench.expect_error(handle, MismatchError)) for handle in handles]
    bench.expect_no_new()
    errors.append(str(bench.expect_error(bench.call("barrier"), MismatchError)))
    errors.append(str(bench.expect_error(bench.call("all_reduce", bench.numbers(1)), MismatchError)))
    bench.expect_no_new()
    if len(set(errors)) > 1:
        raise Failure("later collectives end with another error", errors[:1], sorted(set(errors)))


@case("EPIC-H-06", "EPIC-H-05", side="agent")
def abort_is_immediate_and_silent(bench: HostBench) -> None:
    """The user aborts while two collectives run. Both end with AbortedError at once; nothing is sent for it. Results
    that come later change nothing, and what is called later ends so too.
    """
    bench.join(window=1, rto_initial_us=1_000_000, rto_min_us=1_000_000)
    handles = [bench.call("all_reduce", bench.numbers(2.5)), bench.call("barrier")]
    cell = bench.next_contribution(0)
    bench.settle()
    bench.abort()
    for handle in handles:
        outcome = bench.dut.outcome(handle)
        if outcome is None:
            raise Failure("abort is not immediate", ["ended when abort returns"], ["it goes on"])
        bench.expect_error(handle, AbortedError)
    bench.expect_silence()
    bench.result(0, cell.payload, WHAT)
    bench.expect_no_new()
    for handle in (*handles, bench.call("barrier")):
        bench.expect_error(handle, AbortedError)
    bench.expect_no_new()


@case("EPIC-F-03", "EPIC-H-07", side="agent")
def no_result_until_the_deadline(bench: HostBench) -> None:
    """deadline is 1 s; contributions are acknowledged where the mode does, but no result comes. The collective, and one
    that waits behind it, end with a PeerLostError when the second is over, and not before three quarters of it.
    """
    bench.join(window=1, deadline_us=1_000_000, rto_initial_us=100_000, rto_min_us=100_000)
    handles = [bench.call("barrier"), bench.call("barrier")]
    bench.expect_contribution(0, None, barrier())
    begin = bench.now
    bench.advance(0.75)
    bench.expect_running(*handles)
    for handle in handles:
        bench.expect_error(handle, PeerLostError, within=max(begin + 1.0 + bench.late - bench.now, 0.01))
    bench.expect_no_new()
    bench.expect_error(bench.call("barrier"), PeerLostError)


@case("EPIC-F-03", side="agent")
def a_delivery_starts_the_deadline_anew(bench: HostBench) -> None:
    """deadline is 1 s. Three cells are outstanding; their results come after 0.6, 1.2 and 1.8 s: no error. Then two
    seconds pass without a call, and another collective works.
    """
    bench.join(deadline_us=1_000_000, rto_initial_us=100_000, rto_min_us=100_000)
    handles = [bench.call("barrier") for _ in range(3)]
    for i, handle in enumerate(handles):
        bench.expect_contribution(i, None, barrier(i))
        bench.advance(0.6)
        bench.result(i, None, barrier(i))
        bench.expect_outcome(handle)
    bench.advance(2.0)
    last = bench.call("barrier")
    bench.exchange(3, [(barrier(3), None, None)])
    bench.expect_outcome(last)


@case("EPIC-F-03", side="agent", needs=(("asks_engines", True),))
def the_error_names_the_missing_ranks(bench: HostBench) -> None:
    """Four ranks, this one is rank 1. Cell 0 has its result; about cell 1 the engine says that ranks 1 and 3 have
    contributed. The error at the deadline names ranks 0 and 2 and no other.
    """
    bench.join(world_size=4, rank=1, deadline_us=1_000_000, rto_initial_us=100_000, rto_min_us=100_000)
    bench.engine_says((0, 0b1111), (1, 0b1010))
    bench.call("barrier")
    bench.exchange(0, [(barrier(), None, None)])
    handle = bench.call("barrier")
    bench.expect_contribution(1, None, barrier(1))
    error = bench.expect_error(handle, PeerLostError, "0", "2", within=1.0 + bench.late)
    named = tuple(getattr(error, "ranks", ()))
    if named != (0, 2):
        raise Failure("the missing ranks", ["ranks (0, 2)"], [f"ranks {named}"])


@case("EPIC-F-03", side="agent", needs=(("asks_engines", True),))
def the_error_names_an_engine_that_does_not_answer(bench: HostBench) -> None:
    """Neither a result nor an answer comes from the engine: the error at the deadline names it."""
    bench.join(deadline_us=1_000_000, rto_initial_us=100_000, rto_min_us=100_000)
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.expect_error(handle, PeerLostError, bench.plan.root, within=1.0 + bench.late)
