"""Faults of segmentation and reassembly (Mode I)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from epic_models.reference import mode1, rc
from epic_models.reference.rc import Message
from epic_spec.tables import Opcode
from testbed.rc_mutants.table import attribute, attributes, mutant

_FAULT = rc.Reassembly.fault
_PUSH = rc.Reassembly.push
_REASSEMBLY = rc.Reassembly.__init__
_SEGMENTS = rc.segments


def _goes_on_from_nothing(self: Any, packet: Any) -> str | None:
    if self.between_messages and packet.opcode in (Opcode.SEND_MIDDLE, Opcode.SEND_LAST_IMM):
        return None
    return _FAULT(self, packet)


def _starts_anew(self: Any, packet: Any) -> str | None:
    if packet.opcode in (Opcode.SEND_FIRST, Opcode.SEND_ONLY_IMM) and not self.between_messages:
        self._parts, self._size = [], 0
    return _FAULT(self, packet)


def _any_length(opcode: Opcode) -> Callable[[Any, Any], str | None]:
    def fault(self: Any, packet: Any) -> str | None:
        if packet.opcode is opcode and len(packet.payload) < self._mtu:
            return None
        return _FAULT(self, packet)

    return fault


def _endless(self: Any, mtu: int, limit: int) -> None:
    _REASSEMBLY(self, mtu, 1 << 30)


def _wide_packets(self: Any, packet: Any) -> str | None:
    if packet.opcode in (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM) and len(packet.payload) > self._mtu:
        return None
    return _FAULT(self, packet)


def _cut_to_elements(self: Any, packet: Any) -> Message | None:
    """What is not a whole INT32 is lost."""
    message = _PUSH(self, packet)
    if message is None or message.payload is None:
        return message
    return replace(message, payload=message.payload[: len(message.payload) & ~3] or None)


def _empty_last(message: Message, mtu: int) -> Any:
    payload = message.payload
    if payload is None or len(payload) % mtu:
        return _SEGMENTS(message, mtu)
    *most, (opcode, imm, chunk) = _SEGMENTS(message, mtu)
    full = Opcode.SEND_FIRST if opcode is Opcode.SEND_ONLY_IMM else Opcode.SEND_MIDDLE
    return [*most, (full, None, chunk), (Opcode.SEND_LAST_IMM, imm, b"")]


def _one_huge_packet(message: Message, mtu: int) -> Any:
    return [(Opcode.SEND_ONLY_IMM, message.imm, message.payload)]


def _half_packets(message: Message, mtu: int) -> Any:
    short = message.payload is None or len(message.payload) <= mtu
    return _SEGMENTS(message, mtu if short else mtu // 2)


mutant(
    "MIDDLE and LAST begin messages",
    "EPIC-M1-05",
    1,
    "m1_messages/middle-with-no-message-begun",
    attribute(rc.Reassembly, "fault", _goes_on_from_nothing),
)
mutant(
    "a LAST alone is a message",
    "EPIC-M1-05",
    1,
    "m1_messages/last-with-no-message-begun",
    attribute(rc.Reassembly, "fault", _goes_on_from_nothing),
)
mutant(
    "FIRST inside a message starts anew",
    "EPIC-M1-05",
    1,
    "m1_messages/first-inside-a-message",
    attribute(rc.Reassembly, "fault", _starts_anew),
)
mutant(
    "ONLY inside a message starts anew",
    "EPIC-M1-05",
    1,
    "m1_messages/only-inside-a-message",
    attribute(rc.Reassembly, "fault", _starts_anew),
)
mutant(
    "short FIRST taken",
    "EPIC-M1-06",
    1,
    "m1_messages/first-that-is-not-a-full-packet",
    attribute(rc.Reassembly, "fault", _any_length(Opcode.SEND_FIRST)),
)
mutant(
    "short MIDDLE taken",
    "EPIC-M1-06",
    1,
    "m1_messages/middle-that-is-not-a-full-packet",
    attribute(rc.Reassembly, "fault", _any_length(Opcode.SEND_MIDDLE)),
)
mutant(
    "messages without a limit",
    "EPIC-M1-07",
    1,
    "m1_messages/a-message-above-message-bytes",
    attribute(rc.Reassembly, "__init__", _endless),
)
mutant(
    "a LAST beyond the limit",
    "EPIC-M1-07",
    1,
    "m1_messages/the-last-packet-makes-a-message-too-long",
    attribute(rc.Reassembly, "__init__", _endless),
)
mutant(
    "packets above payload_bytes taken",
    "EPIC-M1-07",
    1,
    "m1_messages/a-packet-above-payload-bytes",
    attribute(rc.Reassembly, "fault", _wide_packets),
)
mutant(
    "elements not looked at",
    "EPIC-M1-19",
    1,
    "m1_messages/a-message-of-broken-elements",
    attributes(
        (mode1, "whole_elements", lambda *args, **more: True), (rc.Reassembly, "push", _cut_to_elements)
    ),
)
mutant(
    "an empty LAST behind full packets",
    "EPIC-M1-02",
    1,
    "m1_messages/sizes-of-messages-both-ways",
    attribute(rc, "segments", _empty_last),
)
mutant(
    "messages of one huge packet",
    "EPIC-M1-02",
    1,
    "m1_messages/sizes-of-messages-both-ways",
    attribute(rc, "segments", _one_huge_packet),
)
mutant(
    "messages of half packets",
    "EPIC-M1-02",
    1,
    "m1_messages/sizes-of-messages-both-ways",
    attribute(rc, "segments", _half_packets),
)
