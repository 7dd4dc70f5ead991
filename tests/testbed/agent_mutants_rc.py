"""Broken hosts of reliable connections: Modes I and II, and Mode III with ACK reflection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from epic_models.reference import rc, rc_agent
from epic_models.reference.endpoint import ack_aeth
from epic_models.reference.interfaces import Output
from epic_spec import psn
from epic_spec.tables import NakCode, Opcode
from testbed.agent_mutants import attribute, mutant, wrapped


def _no_answer_to_older(original: Any, self: Any, arrival: Any) -> Output:
    return Output() if arrival is rc.Arrival.DUPLICATE else original(self, arrival)


def _nak_every_packet(original: Any, self: Any, arrival: Any) -> Output:
    self._nak_sent = False
    output: Output = original(self, arrival)
    return output


def _repeat_for_every_nak(original: Any, self: Any, packet: Any, now: float) -> Output:
    self._nak_served = -1
    output: Output = original(self, packet, now)
    return output


def _any_nak_is_a_gap(original: Any, self: Any, packet: Any, now: float) -> Output:
    aeth = packet.aeth
    if aeth.syndrome >> 5 == 3:
        packet = packet.but(aeth=replace(aeth, syndrome=0x60 | NakCode.PSN_SEQUENCE_ERROR))
    output: Output = original(self, packet, now)
    return output


def _any_ack_counts(original: Any, self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_tx), self._next)
    if number >= self._next:
        self._pending.clear()
        self._deadline = None
    output: Output = original(self, packet, now)
    return output


def _still_answering(original: Any, self: Any, packet: Any, now: float) -> Output:
    failed, self._requester.failed = self._requester.failed, False
    output: Output = original(self, packet, now)
    self._requester.failed = failed or self._requester.failed
    return output


def _patient(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **(kwargs | {"patient": True}))


def _impatient(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **(kwargs | {"patient": False}))


def _without(*excused: str) -> Callable[..., Any]:
    def fault(original: Any, self: Any, packet: Any) -> Any:
        found = original(self, packet)
        return None if found in excused else found

    return fault


def _any_first(original: Any, self: Any, packet: Any) -> Any:
    return None if packet.opcode is Opcode.SEND_FIRST else original(self, packet)


def _ack_the_expected(self: Any) -> Output:
    return Output([self._end.ack(self.expected, ack_aeth(self.messages))])


mutant(
    "older results not acknowledged (I)",
    "EPIC-M1-03",
    1,
    "host_rc/an-older-result-is-acknowledged-again",
    wrapped(rc.Responder, "out_of_order", _no_answer_to_older),
)
mutant(
    "older results not acknowledged (II)",
    "EPIC-M2-02",
    2,
    "host_rc/an-older-result-is-acknowledged-again",
    wrapped(rc.Responder, "out_of_order", _no_answer_to_older),
)
mutant(
    "a NAK for every packet (I)",
    "EPIC-M1-04",
    1,
    "host_rc/one-nak-a-gap",
    wrapped(rc.Responder, "out_of_order", _nak_every_packet),
)
mutant(
    "a NAK for every packet (II)",
    "EPIC-M2-03",
    2,
    "host_rc/one-nak-a-gap",
    wrapped(rc.Responder, "out_of_order", _nak_every_packet),
)
mutant(
    "results not acknowledged",
    "EPIC-M2-04",
    2,
    "host_results/each-result-is-acknowledged",
    attribute(rc.Responder, "acknowledge", lambda self: Output()),
)
mutant(
    "a packet too many acknowledged",
    "EPIC-W-18",
    1,
    "host_results/each-result-is-acknowledged",
    attribute(rc.Responder, "acknowledge", _ack_the_expected),
)
mutant(
    "every NAK answered",
    "EPIC-M1-09",
    1,
    "host_rc/a-nak-repeats-from-its-packet-on",
    wrapped(rc.Requester, "on_ack", _repeat_for_every_nak),
)
mutant(
    "NAKs ignored",
    "EPIC-M2-05",
    2,
    "host_rc/a-nak-repeats-from-its-packet-on",
    attribute(rc.Requester, "_go_back", lambda self, now: Output()),
)
mutant(
    "RNR not waited for (I)",
    "EPIC-M1-10",
    1,
    "host_rc/an-rnr-nak-is-waited-for",
    attribute(rc.Requester, "_not_ready", lambda self, aeth, number, now: self._go_back(now)),
)
mutant(
    "RNR not waited for (II)",
    "EPIC-M2-15",
    2,
    "host_rc/an-rnr-nak-is-waited-for",
    attribute(rc.Requester, "_not_ready", lambda self, aeth, number, now: self._go_back(now)),
)
mutant(
    "fatal NAKs taken for gaps (I)",
    "EPIC-M1-11",
    1,
    "host_rc/another-nak-ends-the-edge",
    wrapped(rc.Requester, "on_ack", _any_nak_is_a_gap),
)
mutant(
    "fatal NAKs taken for gaps (II)",
    "EPIC-M2-16",
    2,
    "host_rc/another-nak-ends-the-edge",
    wrapped(rc.Requester, "on_ack", _any_nak_is_a_gap),
)
mutant(
    "ACKs of the future taken (I)",
    "EPIC-M1-12",
    1,
    "host_rc/an-ack-of-what-was-not-sent-is-dropped",
    wrapped(rc.Requester, "on_ack", _any_ack_counts),
)
mutant(
    "ACKs of the future taken (II)",
    "EPIC-M2-14",
    2,
    "host_rc/an-ack-of-what-was-not-sent-is-dropped",
    wrapped(rc.Requester, "on_ack", _any_ack_counts),
)
mutant(
    "results acknowledge nothing (I)",
    "EPIC-M1-17",
    1,
    "host_rc/a-result-acknowledges-the-contributions-before-it",
    attribute(rc.Requester, "acknowledge_messages", lambda self, count, now: None),
)
mutant(
    "results acknowledge nothing (II)",
    "EPIC-M2-21",
    2,
    "host_rc/a-result-acknowledges-the-contributions-before-it",
    attribute(rc.Requester, "acknowledge_messages", lambda self, count, now: None),
)
mutant(
    "no retry limit",
    "EPIC-F-02",
    2,
    "host_rc/the-retry-limit",
    wrapped(rc.Requester, "__init__", _patient),
)
mutant(
    "answers over an edge in error",
    "EPIC-F-02",
    1,
    "host_rc/the-retry-limit",
    wrapped(rc_agent.RcAgent, "_admitted", _still_answering),
)
mutant(
    "messages that begin inside others",
    "EPIC-M1-05",
    1,
    "host_rc/a-message-that-begins-inside-another",
    wrapped(rc.Reassembly, "fault", _without("invalid_request")),
)
mutant(
    "short FIRST taken",
    "EPIC-M1-06",
    1,
    "host_rc/a-first-that-is-not-full",
    wrapped(rc.Reassembly, "fault", _any_first),
)
mutant(
    "messages beyond their buffer",
    "EPIC-M1-07",
    1,
    "host_rc/a-message-that-is-too-long",
    wrapped(rc.Reassembly, "fault", _without("oversize")),
)
mutant(
    "retries run out with reflection",
    "EPIC-M3-26",
    3,
    "host_rc/retries-do-not-run-out",
    wrapped(rc.Requester, "__init__", _impatient),
)
