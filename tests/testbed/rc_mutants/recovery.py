"""Faults of the requester: NAKs, RNR NAKs, refusals, acknowledgements to doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from epic_models.reference import rc
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Message
from epic_spec import psn
from epic_spec.tables import NakCode, Syndrome
from testbed.rc_mutants.table import attribute, both

_ON_ACK = rc.Requester.on_ack
_GO_BACK = rc.Requester._go_back
_NOT_READY = rc.Requester._not_ready
_POLL = rc.Requester.poll
_SEND = rc.Requester.send
_TRANSMIT = rc.Requester._transmit


def _is_nak(packet: Any, *codes: int) -> bool:
    syndrome = packet.aeth.syndrome
    return syndrome >= Syndrome.NAK and syndrome & 0x1F in codes


def _one_packet_back(self: Any, packet: Any, now: float) -> Output:
    with mock.patch.object(rc.Requester, "_transmit", lambda me, all_: _TRANSMIT(me, list(all_)[:1])):
        return _ON_ACK(self, packet, now)


def _all_again(self: Any, packet: Any, now: float) -> Output:
    """A NAK acknowledges nothing: all that is pending is repeated."""
    if not _is_nak(packet, NakCode.PSN_SEQUENCE_ERROR):
        return _ON_ACK(self, packet, now)
    with mock.patch.object(rc.Requester, "_acknowledge", lambda me, before, at: None):
        return _ON_ACK(self, packet, now)


def _answer_every_nak(self: Any, packet: Any, now: float) -> Output:
    self._nak_served = -1
    return _ON_ACK(self, packet, now)


def _never_twice(self: Any, now: float) -> Output:
    served = self._nak_served
    output = _POLL(self, now)
    self._nak_served = served
    return output


def _naks_left_to_the_timer(self: Any, packet: Any, now: float) -> Output:
    return Output() if _is_nak(packet, NakCode.PSN_SEQUENCE_ERROR) else _ON_ACK(self, packet, now)


def _no_pause(self: Any, aeth: Any, number: int, now: float) -> Output:
    return _GO_BACK(self, now)


def _pause_for_ever(self: Any, aeth: Any, number: int, now: float) -> Output:
    _NOT_READY(self, aeth, number, now)
    if self._not_ready_until is not None:
        self._not_ready_until = now + 3600.0
    return Output()


def _short_pause(self: Any, aeth: Any, number: int, now: float) -> Output:
    _NOT_READY(self, aeth, number, now)
    if self._not_ready_until is not None:
        self._not_ready_until = min(self._not_ready_until, self._deadline)
    return Output()


def _pause_of_the_past(self: Any, aeth: Any, number: int, now: float) -> Output:
    self._not_ready_until = now + rc.RNR_TIMERS_MS[aeth.syndrome & 0x1F] / 1000
    return Output()


def _send_in_the_pause(self: Any, message: Message, now: float) -> Output:
    pause, self._not_ready_until = self._not_ready_until, None
    output = _SEND(self, message, now)
    self._not_ready_until = pause
    return output


def _rnr_counts(self: Any, aeth: Any, number: int, now: float) -> Output:
    retries = self._retries + 1
    if retries > self._params.retry_limit:
        failed: Output = self._fail("receiver not ready too often")
        return failed
    output = _NOT_READY(self, aeth, number, now)
    self._retries = retries
    return output


def _refusal_as_sequence_error(self: Any, packet: Any, now: float) -> Output:
    if _is_nak(packet, 1, 2, 3):
        packet = packet.but(aeth=replace(packet.aeth, syndrome=int(Syndrome.NAK)))
    return _ON_ACK(self, packet, now)


def _only_invalid_request(self: Any, packet: Any, now: float) -> Output:
    return Output() if _is_nak(packet, 2, 3) else _ON_ACK(self, packet, now)


def _believe_all(self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_tx), self._next)
    if number < self._next:
        return _ON_ACK(self, packet, now)
    if _is_nak(packet, 1, 2, 3):
        return _ON_ACK(self, packet.but(psn=psn.add(self._end.edge.psn_tx, self._next - 1)), now)
    self._count.drop("unexpected")
    self._acknowledge(number + 1, now)
    return Output()


both(
    "only the packet named is repeated",
    ("EPIC-M1-09", "EPIC-M2-05"),
    "rc_recovery/a-nak-repeats-results-from-its-packet-on",
    attribute(rc.Requester, "on_ack", _one_packet_back),
)
both(
    "all that is outstanding is repeated",
    ("EPIC-M1-09", "EPIC-M2-05"),
    "rc_recovery/a-nak-repeats-partials-from-its-packet-on",
    attribute(rc.Requester, "on_ack", _all_again),
)
both(
    "every copy of a NAK answered",
    ("EPIC-M1-09", "EPIC-M2-05"),
    "rc_recovery/a-nak-is-answered-once",
    attribute(rc.Requester, "on_ack", _answer_every_nak),
)
both(
    "a NAK answered once for ever",
    ("EPIC-M1-09", "EPIC-M2-05"),
    "rc_recovery/a-nak-is-answered-once",
    attribute(rc.Requester, "poll", _never_twice),
)
both(
    "NAKs ignored",
    ("EPIC-M1-09", "EPIC-M2-05"),
    "rc_recovery/a-nak-repeats-results-from-its-packet-on",
    attribute(rc.Requester, "on_ack", _naks_left_to_the_timer),
)
both(
    "no wait for an RNR NAK",
    ("EPIC-M1-10", "EPIC-M2-15"),
    "rc_recovery/an-rnr-nak-is-waited-for",
    attribute(rc.Requester, "_not_ready", _no_pause),
)
both(
    "no end of the wait",
    ("EPIC-M1-10", "EPIC-M2-15"),
    "rc_recovery/an-rnr-nak-is-waited-for",
    attribute(rc.Requester, "_not_ready", _pause_for_ever),
)
both(
    "the timer runs on in the wait",
    ("EPIC-M1-10", "EPIC-M2-15"),
    "rc_recovery/the-timer-rests-during-a-pause",
    attribute(rc.Requester, "_not_ready", _short_pause),
)
both(
    "results sent in the wait",
    ("EPIC-M1-10", "EPIC-M2-15"),
    "rc_recovery/the-timer-rests-during-a-pause",
    attribute(rc.Requester, "send", _send_in_the_pause),
)
both(
    "a late RNR NAK waited for",
    ("EPIC-M1-10", "EPIC-M2-15"),
    "rc_recovery/a-late-rnr-nak-pauses-nothing",
    attribute(rc.Requester, "_not_ready", _pause_of_the_past),
)
both(
    "RNR NAKs counted as timeouts",
    ("EPIC-F-02", "EPIC-F-02"),
    "rc_recovery/rnr-naks-are-no-timeouts",
    attribute(rc.Requester, "_not_ready", _rnr_counts),
)
both(
    "refusals taken for sequence errors",
    ("EPIC-M1-11", "EPIC-M2-16"),
    "rc_recovery/refused-as-an-invalid-request",
    attribute(rc.Requester, "on_ack", _refusal_as_sequence_error),
)
both(
    "only an invalid request is a refusal",
    ("EPIC-M1-11", "EPIC-M2-16"),
    "rc_recovery/refused-with-remote-operational-error",
    attribute(rc.Requester, "on_ack", _only_invalid_request),
)
both(
    "ACKs of packets not sent believed",
    ("EPIC-M1-12", "EPIC-M2-14"),
    "rc_recovery/an-ack-of-a-packet-not-sent",
    attribute(rc.Requester, "on_ack", _believe_all),
)
both(
    "NAKs of packets not sent believed",
    ("EPIC-M1-12", "EPIC-M2-14"),
    "rc_recovery/a-refusal-of-a-packet-not-sent",
    attribute(rc.Requester, "on_ack", _believe_all),
)
