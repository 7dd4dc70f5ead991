"""Hosts as responders, Modes I and II: what is acknowledged, and what is refused."""

from __future__ import annotations

from epic_spec.tables import NakCode, Opcode
from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier

WHAT = all_reduce()


@case("EPIC-M1-03", "EPIC-M2-02", modes=(1, 2), side="agent")
def an_older_result_is_acknowledged_again(bench: HostBench) -> None:
    """The results of two barriers are acknowledged. The first is repeated: it is answered with an ACK of the second."""
    bench.join()
    for i in range(2):
        handle = bench.call("barrier")
        bench.exchange(i, [(barrier(i), None, None)])
        bench.expect_ack(i)
        bench.expect_outcome(handle)
    bench.repeat_result(0)
    bench.expect_ack(1)


@case("EPIC-M1-04", "EPIC-M2-03", modes=(1, 2), side="agent")
def one_nak_a_gap(bench: HostBench) -> None:
    """The result of cell 0 is lost, those of cells 1 and 2 come twice: one NAK, which names cell 0's first packet. The
    results then come from there on; a later gap gets a NAK of its own.
    """
    bench.join()
    data = bench.numbers(3.5)
    cells = bench.cut(data)
    handle = bench.call("all_reduce", data)
    bench.expect_contributions(0, cells, WHAT)
    for i, cell in enumerate(cells):
        bench.prepare(i, cell, WHAT)
    for i in (1, 2):
        bench.repeat_result(i)
    bench.expect_nak(0)
    for i in (1, 2):
        bench.repeat_result(i)
    bench.expect_no_ack()
    bench.repeat_result(0)
    bench.repeat_result(1)
    bench.expect_ack(1)
    bench.repeat_result(3)
    bench.expect_nak(_first(bench, 2))
    bench.repeat_result(2)
    bench.repeat_result(3)
    bench.expect_outcome(handle, data)


def _first(bench: HostBench, cell: int) -> int:
    return bench.switch.result_numbers(cell)[0]


def _refused(bench: HostBench, opcode: Opcode, number: int, payload: bytes, reason: str) -> None:
    """A packet is answered with NAK (invalid request), and dropped for one reason."""
    imm = WHAT.pack() if opcode in (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM) else None
    bench.switch.put(bench.switch.data(opcode, number, imm, payload))
    bench.expect_nak(number, NakCode.INVALID_REQUEST)
    bench.expect_counter({f"drop_{reason}": 1})


@case("EPIC-M1-05", "EPIC-M1-20", modes=(1,), side="agent")
def a_message_that_goes_on_without_a_beginning(bench: HostBench) -> None:
    """A MIDDLE comes where a message must begin: NAK (invalid request). The right message is then taken."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    _refused(bench, Opcode.SEND_MIDDLE, 0, bytes(64), "invalid_request")
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-05", "EPIC-M1-20", modes=(1,), side="agent")
def a_message_that_begins_inside_another(bench: HostBench) -> None:
    """A FIRST is taken, then an ONLY comes: NAK (invalid request) that names it. The message's own LAST is then taken,
    and its payload is whole.
    """
    bench.join()
    data = bench.numbers(1)[:-2]
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    first, last = bench.prepare(0, data, WHAT)
    bench.switch.put(first)
    _refused(bench, Opcode.SEND_ONLY_IMM, 1, bytes(64), "invalid_request")
    bench.switch.put(last)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-06", "EPIC-M1-20", modes=(1,), side="agent")
def a_first_that_is_not_full(bench: HostBench) -> None:
    """A FIRST of 60 of 64 bytes: NAK (invalid request)."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    _refused(bench, Opcode.SEND_FIRST, 0, bytes(60), "invalid_request")
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-M1-07", "EPIC-M1-20", modes=(1,), side="agent")
def a_message_that_is_too_long(bench: HostBench) -> None:
    """message_bytes is 128. A FIRST and a MIDDLE fill it; a LAST of 4 bytes more gets NAK (invalid request)."""
    bench.join()
    data = bench.numbers(1)
    bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    bench.settle()
    bench.switch.put(bench.switch.data(Opcode.SEND_FIRST, 0, None, bytes(64)))
    bench.switch.put(bench.switch.data(Opcode.SEND_MIDDLE, 1, None, bytes(64)))
    _refused(bench, Opcode.SEND_LAST_IMM, 2, bytes(4), "oversize")


@case("EPIC-M2-20", modes=(2,), side="agent")
def a_result_above_payload_bytes(bench: HostBench) -> None:
    """A result of 68 bytes where payload_bytes is 64: NAK (invalid request); the right one is then taken."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    _refused(bench, Opcode.SEND_ONLY_IMM, 0, bytes(68), "oversize")
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)
