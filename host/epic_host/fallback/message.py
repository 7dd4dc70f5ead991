"""What two ranks send each other: one message a cell and step, a header of 12 bytes before the payload.

    bytes 0-3    descriptor of the cell, ERR and NULL as in a cell
    byte  4      step: what the algorithm does with it
    bytes 5-7    number of the cell in this epoch, modulo 2^24
    bytes 8-11   length in bytes of the contributions' payloads as far as it is known, 0 for none
    from 12      payload, or none; of an ERR message the conflict record (EPIC-D-06)

Numbers are big-endian, payload elements in the group's byte order. The immediate data of the message is one constant
descriptor, opaque bytes, because a descriptor says of its own payload what does not hold of the header: a NULL cell
has a message too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from epic_host.fallback.value import Partial, is_wide_partial
from epic_models.reference import numerics
from epic_models.reference.cells import pack_record, primitive, unpack_record
from epic_models.reference.group import GroupParams
from epic_models.reference.rc import Message
from epic_spec import psn
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import CONFLICT_RECORD_BYTES, DATATYPE_BYTES, Datatype, Operator, Primitive

_HEADER: Final = struct.Struct(">III")
HEADER_BYTES: Final = _HEADER.size
# The immediate of every message.
OPAQUE: Final = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32).pack()
# The step of a note about who is missing; algorithms number theirs from 0.
NOTE: Final = 0xFF
_RANK: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that has come. `cell` is modulo 2^24. `body` is what follows the header."""

    step: int
    cell: int
    imm: int
    length: int
    body: bytes
    congested: bool

    def note(self) -> frozenset[int]:
        """The ranks that a note names. Raises ValueError when it is none."""
        if self.step != NOTE or len(self.body) % _RANK.size:
            raise ValueError(f"step {self.step} with {len(self.body)} bytes, expected a list of ranks")
        return frozenset(rank for (rank,) in _RANK.iter_unpack(self.body))

    def partial(self, params: GroupParams, *, result: bool) -> Partial:
        """The partial that it carries, or with `result` the result: they differ in the size of elements.

        Raises ValueError when the payload is not what descriptor and length say.
        """
        held, err = self.imm & AGREEMENT_MASK, bool(self.imm & ERR_BIT)
        if err:
            if self.body and len(self.body) != CONFLICT_RECORD_BYTES:
                raise ValueError(f"ERR with {len(self.body)} bytes, expected a conflict record or none")
            record = unpack_record(self.imm, self.body, params)
            return Partial(held, self.length, None, True, record, self.congested)
        wide = not result and is_wide_partial(params, held)
        expected = self.length * (2 if wide else 1)
        if bool(self.imm & NULL_BIT) == bool(self.body) or (self.body and len(self.body) != expected):
            raise ValueError(f"payload of {len(self.body)} bytes, expected {expected}, or none with NULL")
        if self.body and primitive(held) != Primitive.BROADCAST:
            datatype, operator = held >> 8 & 15, held >> 12 & 3
            if datatype >= len(DATATYPE_BYTES) or operator == Operator.NONE:
                raise ValueError(
                    f"descriptor {held:#010x} with a payload, expected a datatype and an operator"
                )
            if not numerics.whole_elements(len(self.body), Datatype(datatype), wide):
                raise ValueError(f"payload of {len(self.body)} bytes, expected whole elements")
        return Partial(held, self.length, self.body or None, False, None, self.congested)


def pack(params: GroupParams, cell: int, step: int, partial: Partial) -> Message:
    """The message of a partial or result."""
    imm, body = partial.held, partial.payload or b""
    if partial.err:
        imm |= ERR_BIT
        body = pack_record(partial.record) if partial.record is not None and params.conflict_record else b""
    if not body:
        imm |= NULL_BIT
    return Message(OPAQUE, _header(cell, step, imm, partial.length) + body, partial.congested)


def pack_note(cell: int, held: int, ranks: frozenset[int]) -> Message:
    """The message that says for which ranks its sender waits at a cell whose descriptor is `held`."""
    body = b"".join(map(_RANK.pack, sorted(ranks)))
    return Message(OPAQUE, _header(cell, NOTE, held | NULL_BIT, 0) + body)


def unpack(message: Message) -> Arrived:
    """The header and what follows. Raises ValueError when it is no message of this kind."""
    payload = message.payload or b""
    if message.imm != OPAQUE or len(payload) < HEADER_BYTES:
        raise ValueError(
            f"{message.imm:#010x} with {len(payload)} bytes, expected a header of {HEADER_BYTES}"
        )
    imm, step_cell, length = _HEADER.unpack_from(payload)
    body = payload[HEADER_BYTES:]
    return Arrived(step_cell >> 24, step_cell & psn.MASK, imm, length, body, message.congested)


def _header(cell: int, step: int, imm: int, length: int) -> bytes:
    return _HEADER.pack(imm, step << 24 | cell & psn.MASK, length)
