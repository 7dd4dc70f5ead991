"""Mode I: packets that no message may have. Each is answered with NAK (invalid request) and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable

from epic_spec.tables import Opcode
from epic_testbed.conformance.bench import Bench, Peer
from epic_testbed.conformance.case import case
from epic_testbed.conformance.cases.m1_messages.cases import install, numbers
from epic_testbed.conformance.rc import INVALID, expect_answers, no_timers, prepare, send_packet

FIRST, MIDDLE, LAST, ONLY = (
    Opcode.SEND_FIRST,
    Opcode.SEND_MIDDLE,
    Opcode.SEND_LAST_IMM,
    Opcode.SEND_ONLY_IMM,
)


def refused(bench: Bench, peer: Peer, opcode: Opcode, number: int, payload: bytes) -> None:
    """The packet is answered with one NAK (invalid request) that names it, and with nothing else."""
    send_packet(bench, peer, opcode, number, payload)
    expect_answers(bench, peer, [(INVALID, number)], newest=number - 1)
    bench.expect_silence()


def then_right(bench: Bench, rest: Callable[[], None], length: int) -> None:
    """The message goes on as it should have; the result is right and nothing was counted twice."""
    rest()
    bench.contribute(1, 0, numbers(length))
    bench.expect_result(0, [2 * v for v in numbers(length)])
    bench.expect_counter({"rx_contribution": 2, "cells_completed": 1, "cells_poisoned": 0})


def _outside(bench: Bench, opcode: Opcode) -> None:
    size = install(bench)
    child = bench.group.children[0]
    refused(bench, child, opcode, 0, bytes(size))
    refused(bench, child, opcode, 0, bytes(size))
    bench.expect_counter({"rx_contribution": 0, "drop_invalid_request": 2})
    then_right(bench, lambda: bench.contribute(0, 0, numbers(size)), size)


def _inside(bench: Bench, opcode: Opcode) -> None:
    size = install(bench)
    child = bench.group.children[0]
    first, middle, last = prepare(bench, child, 0, numbers(3 * size))
    bench.send(child, first)
    refused(bench, child, opcode, 1, bytes(size))
    bench.send(child, middle)
    refused(bench, child, opcode, 2, bytes(size))
    bench.expect_counter({"rx_contribution": 0, "drop_invalid_request": 2})
    then_right(bench, lambda: bench.send(child, last), 3 * size)


@case("EPIC-M1-05", "EPIC-W-21", modes=(1,))
def middle_with_no_message_begun(bench: Bench) -> None:
    """A MIDDLE comes where a message must start, and again: each time it is answered with NAK (invalid request),
    nothing is counted, and the right message is taken afterwards.
    """
    _outside(bench, MIDDLE)


@case("EPIC-M1-05", "EPIC-W-21", modes=(1,))
def last_with_no_message_begun(bench: Bench) -> None:
    """A LAST comes where a message must start, and again: each time it is answered with NAK (invalid request),
    nothing is counted, and the right message is taken afterwards.
    """
    _outside(bench, LAST)


@case("EPIC-M1-05", "EPIC-W-21", modes=(1,))
def first_inside_a_message(bench: Bench) -> None:
    """A FIRST comes behind the FIRST and behind the MIDDLE of a message: NAK (invalid request) each time. The
    message is then ended as it should be, and is right.
    """
    _inside(bench, FIRST)


@case("EPIC-M1-05", "EPIC-W-21", modes=(1,))
def only_inside_a_message(bench: Bench) -> None:
    """An ONLY comes behind the FIRST and behind the MIDDLE of a message: NAK (invalid request) each time. The
    message is then ended as it should be, and is right.
    """
    _inside(bench, ONLY)


@case("EPIC-M1-06", modes=(1,))
def first_that_is_not_a_full_packet(bench: Bench) -> None:
    """A FIRST of P-4, of no and of P+4 bytes is each answered with NAK (invalid request) and not used."""
    size = install(bench)
    child = bench.group.children[0]
    for length in (size - 4, 0, size + 4):
        refused(bench, child, FIRST, 0, bytes(length))
    then_right(bench, lambda: bench.contribute(0, 0, numbers(2 * size)), 2 * size)


@case("EPIC-M1-06", modes=(1,))
def middle_that_is_not_a_full_packet(bench: Bench) -> None:
    """A MIDDLE of P-4, of no and of P+4 bytes is each answered with NAK (invalid request) and not used."""
    size = install(bench)
    child = bench.group.children[0]
    first, middle, last = prepare(bench, child, 0, numbers(3 * size))
    bench.send(child, first)
    for length in (size - 4, 0, size + 4):
        refused(bench, child, MIDDLE, 1, bytes(length))
    bench.send(child, middle)
    then_right(bench, lambda: bench.send(child, last), 3 * size)


@case("EPIC-M1-07", "EPIC-E-10", modes=(1,))
def a_packet_above_payload_bytes(bench: Bench) -> None:
    """An ONLY of P+4 bytes, and a LAST of P+4 bytes behind a FIRST, are answered with NAK (invalid request)."""
    size = install(bench)
    child = bench.group.children[0]
    refused(bench, child, ONLY, 0, bytes(size + 4))
    first, last = prepare(bench, child, 0, numbers(2 * size))
    bench.send(child, first)
    refused(bench, child, LAST, 1, bytes(size + 4))
    bench.expect_counter({"drop_oversize": 2})
    then_right(bench, lambda: bench.send(child, last), 2 * size)


@case("EPIC-M1-07", modes=(1,))
def a_message_above_message_bytes(bench: Bench) -> None:
    """A message of FIRST and MIDDLEs that fill message_bytes goes on with a MIDDLE, then with a LAST of 4 bytes:
    each is answered with NAK (invalid request), nothing is counted.
    """
    size = install(bench)
    child = bench.group.children[0]
    full = bench.group.params.message_bytes // size
    for number in range(full):
        send_packet(bench, child, MIDDLE if number else FIRST, number, bytes(size), ackreq=False)
    expect_answers(bench, child, [], newest=full - 1)
    refused(bench, child, MIDDLE, full, bytes(size))
    refused(bench, child, LAST, full, bytes(4))
    bench.contribute(1, 0, numbers(size))
    bench.expect_silence()
    bench.expect_counter({"rx_contribution": 1, "drop_oversize": 2})


@case("EPIC-M1-07", modes=(1,), needs=(("payload_bytes", 128), ("message_bytes", 192)))
def the_last_packet_makes_a_message_too_long(bench: Bench) -> None:
    """P = 128 and message_bytes = 192. Both children have a message for cells 0 and 1 whole, but for the last
    packet of child 0's first. That comes with 128 bytes, 64 too many: NAK (invalid request). With 64 bytes it is
    taken, and both results are right, so nothing was stored beyond the buffer.
    """
    params = bench.install(payload_bytes=128, message_bytes=192, **no_timers()).params
    size, most = params.payload_bytes, params.message_bytes
    child = bench.group.children[0]
    bench.contribute(1, 0, numbers(most))
    bench.contribute(1, 1, numbers(most, 7))
    first, last = prepare(bench, child, 0, numbers(most))
    bench.send(child, first)
    refused(bench, child, LAST, 1, b"\xff" * size)
    bench.send(child, last)
    bench.expect_result(0, [2 * v for v in numbers(most)])
    bench.contribute(0, 1, numbers(most))
    bench.expect_result(1, [a + b for a, b in zip(numbers(most), numbers(most, 7), strict=True)])


@case("EPIC-M1-19", "EPIC-E-11", modes=(1,))
def a_message_of_broken_elements(bench: Bench) -> None:
    """INT32 messages of 6 bytes in one packet, and of P+2 bytes in two, are answered with NAK (invalid request) at
    their last packet and not counted. With a right last packet the message is taken.
    """
    size = install(bench)
    child = bench.group.children[0]
    refused(bench, child, ONLY, 0, bytes(6))
    first, last = prepare(bench, child, 0, numbers(size + 4))
    bench.send(child, first)
    refused(bench, child, LAST, 1, bytes(2))
    bench.expect_counter({"rx_contribution": 0, "drop_element": 2})
    then_right(bench, lambda: bench.send(child, last), size + 4)


@case("EPIC-M1-05", "EPIC-M1-06", "EPIC-M1-07", modes=(1,))
def broken_results_are_refused_too(bench: Bench) -> None:
    """An inner engine with a complete cell. The parent sends, as the first packet of the result, a MIDDLE, a LAST,
    a FIRST of P-4 bytes and an ONLY of P+4 bytes: NAK (invalid request) each time and nothing to the children. The
    right result of two packets is passed on, with an ONLY between its packets refused.
    """
    size = install(bench, inner=True)
    parent = bench.group.parent
    assert parent is not None
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    for opcode, length in ((MIDDLE, size), (LAST, 4), (FIRST, size - 4), (ONLY, size + 4)):
        refused(bench, parent, opcode, 0, bytes(length))
    first, last = prepare(bench, parent, 0, numbers(2 * size))
    bench.send(parent, first)
    refused(bench, parent, ONLY, 1, bytes(4))
    bench.expect_counter({"rx_result": 0})
    bench.send(parent, last)
    bench.expect_result(0, numbers(2 * size))


@case("EPIC-M1-05", modes=(1,))
def a_refused_message_leaves_other_children_alone(bench: Bench) -> None:
    """Three children. While child 1's message is refused, the others contribute to the same cell: each is counted,
    and after child 1 sends the right message the result is the sum.
    """
    bench.install(3, **no_timers())
    child = bench.group.children[1]
    bench.contribute(0, 0, (1,))
    refused(bench, child, MIDDLE, 0, bytes(bench.group.params.payload_bytes))
    bench.contribute(2, 0, (4,))
    bench.expect_silence()
    bench.contribute(1, 0, (2,))
    bench.expect_result(0, (7,))
