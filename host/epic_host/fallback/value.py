"""A cell on its way from rank to rank: agreement, arithmetic, poison. What an engine's slot does, between hosts.

The rules are those of engines (epic.md, sections 4.3, 5 and 6): EPIC-D-01 to EPIC-D-06, EPIC-E-05, EPIC-E-12,
EPIC-E-16, EPIC-N-01 to EPIC-N-06. The difference is that agreement and data may travel apart: a partial says which
descriptor and length it has met although its payload joins later, so that no payload takes a way it need not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from epic_models.reference import numerics
from epic_models.reference.cells import is_wide, primitive, unpack_record
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell, ConflictRecord
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT
from epic_spec.tables import Datatype, Operator, Primitive


@dataclass(frozen=True, slots=True)
class Partial:
    """What some ranks contributed to a cell.

    `held` is the descriptor's agreement part. `length`: bytes of each of their payloads, in the datatype's own size; 0
    when none has one. `payload` is what has been combined of them, in the form of a partial (`widened`), or None.
    """

    held: int
    length: int = 0
    payload: bytes | None = None
    err: bool = False
    record: ConflictRecord | None = None
    congested: bool = False

    def without_payload(self) -> Partial:
        """The agreement alone."""
        return self if self.payload is None else replace(self, payload=None)


def rank_of(held: int) -> int:
    """The rank field: destination of a Reduce, source of a Broadcast, 0xFFFF for none."""
    return held >> 16


def is_wide_partial(params: GroupParams, held: int) -> bool:
    """Whether partials of this descriptor have 4-byte elements for a 16-bit datatype (EPIC-N-06)."""
    return is_wide(params, held, between_engines=True)


def contribution(params: GroupParams, rank: int, cell: Cell) -> Partial:
    """A rank's own contribution.

    It is poisoned when it has ERR, needs a datatype or operator that the group lacks (EPIC-E-12), is not a whole number
    of elements, is longer than a cell may be (EPIC-H-09), or has data in another rank's Broadcast (EPIC-H-03);
    of zeros only the length counts (EPIC-D-08).
    """
    held, payload = cell.imm & AGREEMENT_MASK, cell.payload or None
    if cell.imm & ERR_BIT:
        return Partial(held, err=True, record=unpack_record(cell.imm, payload, params))
    if payload is None:
        return Partial(held)
    length = len(payload)
    if length * (2 if is_wide_partial(params, held) else 1) > params.cell_bytes:
        return Partial(held, length, err=True)
    if primitive(held) == Primitive.BROADCAST:
        if rank == rank_of(held):
            return Partial(held, length, payload)
        return Partial(held, length, err=any(payload))
    datatype, operator = Datatype(held >> 8 & 15), Operator(held >> 12 & 3)
    computed = datatype.name in params.datatypes and operator.name in params.operators
    if not computed or not numerics.whole_elements(length, datatype):
        return Partial(held, length, err=True)
    return Partial(held, length, _converted(params, held, payload, False, is_wide_partial(params, held)))


def merge(params: GroupParams, first: Partial, second: Partial) -> Partial:
    """Both together. `first` is what is held, so it counts as having come first where they disagree (EPIC-D-02)."""
    err, record = first.err or second.err, first.record
    if first.held != second.held or 0 != first.length != second.length != 0:
        err = True
        record = record or ConflictRecord(first.held, first.length, second.held, second.length)
    record = record or second.record
    payload = None if err else _combined(params, first, second)
    congested = first.congested or second.congested
    return Partial(first.held, first.length or second.length, payload, err, record, congested)


def result_payload(params: GroupParams, partial: Partial) -> bytes | None:
    """The payload as a result has it: 16-bit floats rounded, once (EPIC-N-04)."""
    if partial.payload is None or not is_wide_partial(params, partial.held):
        return partial.payload
    return _converted(params, partial.held, partial.payload, True, False)


def _combined(params: GroupParams, first: Partial, second: Partial) -> bytes | None:
    if first.payload is None or second.payload is None:
        return second.payload if first.payload is None else first.payload
    if primitive(first.held) == Primitive.BROADCAST:
        both = bytearray(first.payload)
        numerics.or_into(both, second.payload)
        return bytes(both)
    datatype, order = Datatype(first.held >> 8 & 15), params.byte_order
    wide = is_wide_partial(params, first.held)
    total = numerics.load(first.payload, datatype, order, wide=wide)
    other = numerics.load(second.payload, datatype, order, wide=wide)
    numerics.reduce_into(total, other, Operator(first.held >> 12 & 3))
    return numerics.store(total, datatype, order, wide=wide)


def _converted(params: GroupParams, held: int, payload: bytes, wide: bool, to_wide: bool) -> bytes:
    if wide == to_wide:
        return payload
    datatype, order = Datatype(held >> 8 & 15), params.byte_order
    return numerics.store(numerics.load(payload, datatype, order, wide=wide), datatype, order, wide=to_wide)
