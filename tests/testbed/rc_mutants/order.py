"""Faults of the responder: order, acknowledgements, NAKs."""

from __future__ import annotations

from typing import Any

from epic_models.reference import rc
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Arrival
from epic_spec.tables import NakCode
from testbed.rc_mutants.table import attribute, both, mutant

_CLASSIFY = rc.Responder.classify
_OUT_OF_ORDER = rc.Responder.out_of_order
_ACCEPT = rc.Responder.accept
_ACKNOWLEDGE = rc.Responder.acknowledge


def _early_taken(self: Any, packet: Any) -> Arrival:
    arrival = _CLASSIFY(self, packet)
    return Arrival.EXPECTED if arrival is Arrival.GAP else arrival


def _older_unanswered(self: Any, arrival: Arrival) -> Output:
    return Output() if arrival is Arrival.DUPLICATE else _OUT_OF_ORDER(self, arrival)


def _older_taken_for_a_gap(self: Any, arrival: Arrival) -> Output:
    if arrival is Arrival.DUPLICATE:
        refusal: Output = self.refuse(NakCode.PSN_SEQUENCE_ERROR)
        return refusal
    return _OUT_OF_ORDER(self, arrival)


def _older_ends_the_gap(self: Any, arrival: Arrival) -> Output:
    output = _OUT_OF_ORDER(self, arrival)
    if arrival is Arrival.DUPLICATE:
        self._nak_sent = False
    return output


def _nak_every_gap(self: Any, arrival: Arrival) -> Output:
    self._nak_sent = False
    return _OUT_OF_ORDER(self, arrival)


def _gaps_unanswered(self: Any, arrival: Arrival) -> Output:
    return Output() if arrival is Arrival.GAP else _OUT_OF_ORDER(self, arrival)


def _nak_once_for_ever(self: Any, *, completes: bool, ackreq: bool) -> Output:
    sent = self._nak_sent
    output = _ACCEPT(self, completes=completes, ackreq=ackreq)
    self._nak_sent = sent
    return output


def _one_too_few(self: Any) -> Output:
    self.expected -= 1
    try:
        return _ACKNOWLEDGE(self)
    finally:
        self.expected += 1


def acknowledge_the_refused(self: Any) -> Output:
    self.expected += 1
    try:
        return _ACKNOWLEDGE(self)
    finally:
        self.expected -= 1


both(
    "early packets taken",
    ("EPIC-M1-01", "EPIC-M2-01"),
    "rc_order/an-early-contribution-is-not-taken",
    attribute(rc.Responder, "classify", _early_taken),
)
both(
    "older packets not answered",
    ("EPIC-M1-03", "EPIC-M2-02"),
    "rc_order/an-older-contribution-is-acknowledged-again",
    attribute(rc.Responder, "out_of_order", _older_unanswered),
)
both(
    "older packets answered with a NAK",
    ("EPIC-M1-03", "EPIC-M2-02"),
    "rc_order/an-older-contribution-is-acknowledged-again",
    attribute(rc.Responder, "out_of_order", _older_taken_for_a_gap),
)
both(
    "an older packet ends a gap",
    ("EPIC-M1-04", "EPIC-M2-03"),
    "rc_order/an-older-packet-within-a-gap",
    attribute(rc.Responder, "out_of_order", _older_ends_the_gap),
)
both(
    "a NAK for every early packet",
    ("EPIC-M1-04", "EPIC-M2-03"),
    "rc_order/one-nak-a-gap",
    attribute(rc.Responder, "out_of_order", _nak_every_gap),
)
both(
    "no NAK",
    ("EPIC-M1-04", "EPIC-M2-03"),
    "rc_order/one-nak-a-gap",
    attribute(rc.Responder, "out_of_order", _gaps_unanswered),
)
both(
    "one NAK and never another",
    ("EPIC-M1-04", "EPIC-M2-03"),
    "rc_order/one-nak-a-gap",
    attribute(rc.Responder, "accept", _nak_once_for_ever),
)
both(
    "accepted packets not acknowledged",
    ("EPIC-M1-08", "EPIC-M2-04"),
    "rc_order/every-accepted-contribution-is-acknowledged",
    attribute(rc.Responder, "accept", lambda self, **how: _ACCEPT(self, **(how | {"ackreq": False}))),
)
both(
    "the ACK names the packet before",
    ("EPIC-M1-03", "EPIC-M2-02"),
    "rc_order/a-packet-from-before-the-base",
    attribute(rc.Responder, "acknowledge", _one_too_few),
)
mutant(
    "ACK in place of an RNR NAK",
    "EPIC-M1-08",
    1,
    "m1_buffers/a-message-without-a-buffer",
    attribute(rc.Responder, "not_ready", acknowledge_the_refused),
)
mutant(
    "no answer in place of an RNR NAK",
    "EPIC-M1-13",
    1,
    "m1_buffers/a-message-without-a-buffer",
    attribute(rc.Responder, "not_ready", lambda self: Output()),
)
mutant(
    "NAK in place of an RNR NAK",
    "EPIC-M1-13",
    1,
    "m1_buffers/the-first-packet-is-refused-and-no-other-named",
    attribute(rc.Responder, "not_ready", lambda self: self.refuse(NakCode.PSN_SEQUENCE_ERROR)),
)
mutant(
    "RNR timer too short",
    "EPIC-M1-13",
    1,
    "m1_buffers/a-message-without-a-buffer",
    attribute(rc, "rnr_code", lambda microseconds: 1),
)
