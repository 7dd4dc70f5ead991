"""The value of one cell while contributions come in: agreement, arithmetic, poison. Shared by every mode.

Realizes EPIC-E-05, EPIC-E-06, EPIC-E-12, EPIC-E-16 and EPIC-D-01 to EPIC-D-05.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from epic_models.reference import numerics
from epic_models.reference.group import Edge, GroupParams
from epic_models.reference.interfaces import ConflictRecord
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT
from epic_spec.tables import CONFLICT_RECORD_BYTES, Datatype, Operator, Primitive

_RECORD = struct.Struct(">IIII")
_SIXTEEN_BIT = (Datatype.FP16, Datatype.BF16)


def pack_record(record: ConflictRecord) -> bytes:
    """The 16-byte payload of an ERR cell."""
    return _RECORD.pack(record.held, record.held_length, record.other, record.other_length)


def unpack_record(imm: int, payload: bytes | None, params: GroupParams) -> ConflictRecord | None:
    """The conflict record of an ERR cell, or None where there is none (capability `conflict_record`)."""
    if not (params.conflict_record and imm & ERR_BIT and payload and len(payload) == CONFLICT_RECORD_BYTES):
        return None
    return ConflictRecord(*_RECORD.unpack(payload))


def primitive(imm: int) -> int:
    """The primitive's code in a descriptor."""
    return imm >> 14 & 3


def is_wide(params: GroupParams, imm: int, *, between_engines: bool) -> bool:
    """Whether a partial with this descriptor travels as FP32 although its datatype has 16 bits (EPIC-N-06)."""
    return (
        between_engines
        and params.partial_format == "fp32"
        and imm >> 8 & 15 in _SIXTEEN_BIT
        and primitive(imm) != Primitive.BROADCAST
        and not imm & ERR_BIT
    )


def whole_elements(params: GroupParams, imm: int, length: int, *, between_engines: bool) -> bool:
    """Whether a payload is a whole number of elements; opaque payloads (Broadcast, ERR) always are (EPIC-E-11)."""
    if imm & ERR_BIT or primitive(imm) == Primitive.BROADCAST:
        return True
    wide = is_wide(params, imm, between_engines=between_engines)
    return numerics.whole_elements(length, Datatype(imm >> 8 & 15), wide)


def for_child(edge: Edge, imm: int, payload: bytes | None) -> tuple[int, bytes | None]:
    """The result as the ranks below `edge` may see it: NULL where a Reduce's destination is elsewhere (EPIC-E-06)."""
    if primitive(imm) == Primitive.REDUCE and not imm & (NULL_BIT | ERR_BIT) and imm >> 16 not in edge.ranks:
        return imm | NULL_BIT, None
    return imm, payload


class CellValue:
    """One cell's accumulator. `add` each contribution once; then `partial` or `result` gives what is sent on."""

    def __init__(self, params: GroupParams) -> None:
        self._params = params
        self._held: int | None = None
        self._length: int | None = None
        self._record: ConflictRecord | None = None
        self._sum: NDArray[np.generic] | bytearray | None = None
        self._parts: dict[int, NDArray[np.generic]] = {}
        self.err = False
        self.congested = False

    def add(
        self, child: int, edge: Edge, imm: int, payload: bytes | None, *, congested: bool = False
    ) -> None:
        """Count the contribution of child number `child`, which came over `edge`."""
        self.congested |= congested
        wide = is_wide(self._params, imm, between_engines=edge.peer_is_engine)
        length = len(payload) // (2 if wide else 1) if payload is not None else None
        self._agree(imm & AGREEMENT_MASK, None if imm & ERR_BIT else length)
        if imm & ERR_BIT:
            self.err = True
            self._record = self._record or unpack_record(imm, payload, self._params)
        elif payload is not None and not self.err:
            self._combine(child, imm, payload, wide)

    def _agree(self, descriptor: int, length: int | None) -> None:
        if self._held is None:
            self._held = descriptor
        held_length = self._length or 0
        if self._length is None:
            self._length = length
        if descriptor != self._held or (length is not None and length != self._length):
            self.err = True
            if self._record is None:
                self._record = ConflictRecord(self._held, held_length, descriptor, length or 0)

    def _combine(self, child: int, imm: int, payload: bytes, wide: bool) -> None:
        if primitive(imm) == Primitive.BROADCAST:
            if self._sum is None:
                self._sum = bytearray(payload)
            else:
                assert isinstance(self._sum, bytearray)
                numerics.or_into(self._sum, payload)
            return
        datatype, operator = Datatype(imm >> 8 & 15), Operator(imm >> 12 & 3)
        if datatype.name not in self._params.datatypes or operator.name not in self._params.operators:
            self.err = True
            return
        values = numerics.load(payload, datatype, self._params.byte_order, wide=wide)
        if self._params.ordered:
            self._parts[child] = values
        elif self._sum is None:
            self._sum = values
        else:
            assert not isinstance(self._sum, bytearray)
            numerics.reduce_into(self._sum, values, operator)

    def partial(self) -> tuple[int, bytes | None]:
        """Descriptor and payload of the partial for the parent, which is an engine."""
        return self._output(between_engines=True)

    def result(self) -> tuple[int, bytes | None]:
        """Descriptor and payload of the result, at the root."""
        return self._output(between_engines=False)

    def _output(self, *, between_engines: bool) -> tuple[int, bytes | None]:
        assert self._held is not None
        if self.err:
            if self._record is not None and self._params.conflict_record:
                return self._held | ERR_BIT, pack_record(self._record)
            return self._held | ERR_BIT | NULL_BIT, None
        self._fold()
        if self._sum is None:
            return self._held | NULL_BIT, None
        if isinstance(self._sum, bytearray):
            return self._held, bytes(self._sum)
        wide = is_wide(self._params, self._held, between_engines=between_engines)
        datatype = Datatype(self._held >> 8 & 15)
        return self._held, numerics.store(self._sum, datatype, self._params.byte_order, wide=wide)

    def _fold(self) -> None:
        """Add what was kept apart, in child order, so that the sum does not depend on arrival (EPIC-N-05)."""
        assert self._held is not None
        for child in sorted(self._parts):
            values = self._parts.pop(child)
            if self._sum is None:
                self._sum = values
            else:
                assert not isinstance(self._sum, bytearray)
                numerics.reduce_into(self._sum, values, Operator(self._held >> 12 & 3))
