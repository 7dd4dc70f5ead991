"""The value of one cell while contributions come in: `epic_models.reference.cells.CellValue`, compiled.

A VALUE is the bookkeeping of one cell; its payloads are in row `row` of the group's memory (groups.py). Length 0 stands
for no payload (NULL) everywhere, for a payload of no bytes does not exist on the wire.

Realizes EPIC-E-05, EPIC-E-06, EPIC-E-12, EPIC-E-16 and EPIC-D-01 to EPIC-D-05.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import calls
from epic_host.fast.compiled import Word, compiled, load32, store32, swapped32
from epic_host.fast.frames import Records
from epic_host.fast.lanes import zero
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT
from epic_spec.tables import CONFLICT_RECORD_BYTES, DATATYPE_BYTES, Datatype, Primitive

# `held` and `length` are what the first contribution said, `started` and `sum` whether there is one; `parts` and
# `wide` have a bit for each child whose payload is kept apart, and travels as FP32. The last four: who disagreed.
VALUE: Final = np.dtype(
    [
        ("parts", "u8"), ("wide", "u8"), ("held", "u4"), ("length", "i4"), ("started", "u1"), ("sum", "u1"),
        ("err", "u1"), ("congested", "u1"), ("recorded", "u1"),
        ("record_held", "u4"), ("record_held_length", "u4"), ("record_other", "u4"), ("record_other_length", "u4"),
    ]
)  # fmt: skip

_REDUCE: Final = int(Primitive.REDUCE)
_BROADCAST: Final = int(Primitive.BROADCAST)
_RECORD_BYTES: Final = CONFLICT_RECORD_BYTES
# By the code of a datatype, of which there are 16: bytes of an element, and whether it has 16 bits and is a float.
_BYTES: Final = np.ones(16, np.int64)
_HALF: Final = np.zeros(16, np.uint8)
for _datatype in Datatype:
    _BYTES[_datatype] = DATATYPE_BYTES[_datatype.name]
    _HALF[_datatype] = _datatype in (Datatype.FP16, Datatype.BF16)
_WIDE_BYTES: Final = 4


@compiled
def is_wide(group: Any, imm: Word, between: bool) -> Word:
    """Whether a payload with this descriptor travels as FP32 although its datatype has 16 bits (EPIC-N-06)."""
    return (
        between and group.wide and _HALF[imm >> 8 & 15] and imm >> 14 & 3 != _BROADCAST and not imm & ERR_BIT
    )


@compiled
def whole_elements(group: Any, imm: Word, length: Word, between: bool) -> Word:
    """Whether a payload is a whole number of elements; opaque ones (Broadcast, ERR) always are (EPIC-E-11)."""
    if imm & ERR_BIT or imm >> 14 & 3 == _BROADCAST:
        return True
    if is_wide(group, imm, between):
        return length % _WIDE_BYTES == 0
    return length & (_BYTES[imm >> 8 & 15] - 1) == 0


@compiled
def below(ranks: Records, first: Word, count: Word, rank: Word) -> Word:
    """Whether `rank` is among the `count` sorted ranks from `first` on."""
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if ranks[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low < first + count and ranks[low] == rank


@compiled
def is_for_one(imm: Word) -> Word:
    """Whether a result is a Reduce's with a payload, which only the children above its rank may see (EPIC-E-06)."""
    return imm >> 14 & 3 == _REDUCE and not imm & (NULL_BIT | ERR_BIT)


@compiled
def reset(value: Any) -> None:
    """Make it the value of a cell without contributions."""
    value.parts = value.wide = np.uint64(0)
    value.length = 0
    value.started = value.sum = value.err = value.congested = value.recorded = 0


@compiled
def add(
    group: Any,
    value: Any,
    row: Word,
    child: Word,
    between: bool,
    imm: Word,
    payload: Word,
    length: Word,
    congested: bool,
) -> None:
    """Count the contribution of child number `child`: `length` bytes at the address `payload`.

    `between` tells that the child is an engine. The caller has checked `whole_elements` and that the length is at most
    the group's.
    """
    value.congested |= congested
    descriptor = imm & AGREEMENT_MASK
    if imm & ERR_BIT:
        _agree(value, descriptor, 0)
        value.err = 1
        if group.record and length == _RECORD_BYTES and not value.recorded:
            at = np.uint64(payload)
            value.recorded = 1
            value.record_held = swapped32(load32(at))
            value.record_held_length = swapped32(load32(at + np.uint64(4)))
            value.record_other = swapped32(load32(at + np.uint64(8)))
            value.record_other_length = swapped32(load32(at + np.uint64(12)))
        return
    wide = is_wide(group, imm, between)
    _agree(value, descriptor, length >> 1 if wide else length)
    if length and not value.err:
        _combine(group, value, row, child, descriptor, np.uint64(payload), length, wide)


@compiled
def _agree(value: Any, descriptor: Word, length: Word) -> None:
    if not value.started:
        value.started, value.held = 1, descriptor
    held_length = value.length
    if not held_length:
        value.length = length
    if descriptor != value.held or (length and length != value.length):
        value.err = 1
        if not value.recorded:
            value.recorded = 1
            value.record_held, value.record_held_length = value.held, held_length
            value.record_other, value.record_other_length = descriptor, length


@compiled
def _combine(
    group: Any, value: Any, row: Word, child: Word, imm: Word, payload: Word, length: Word, wide: bool
) -> None:
    total = group.values + np.uint64(row * group.value_bytes)
    if imm >> 14 & 3 == _BROADCAST:
        if value.sum:
            calls.or_into(total, payload, length)
        else:
            calls.copy(total, payload, length)
            value.sum = 1
        return
    datatype, operator = imm >> 8 & 15, imm >> 12 & 3
    if not (group.datatypes >> datatype & 1 and group.operators >> operator & 1):
        value.err = 1
        return
    if group.ordered:
        calls.copy(_part(group, row, child), payload, length)
        value.parts |= np.uint64(1) << np.uint64(child)
        value.wide |= np.uint64(wide) << np.uint64(child)
        return
    _into_sum(group, value, total, payload, length, datatype, operator, wide)


@compiled
def _into_sum(
    group: Any,
    value: Any,
    total: Word,
    payload: Word,
    length: Word,
    datatype: Word,
    operator: Word,
    wide: bool,
) -> None:
    n = length // _WIDE_BYTES if wide else length // _BYTES[datatype]
    if value.sum:
        calls.combine(total, payload, n, datatype, operator, group.big, wide, group.scratch)
    else:
        calls.load(total, payload, n, datatype, group.big, wide)
        value.sum = 1


@compiled
def _part(group: Any, row: Word, child: Word) -> Word:
    return group.parts + np.uint64((row * group.fan_in + child) * group.part_bytes)


@compiled
def output(group: Any, value: Any, row: Word, between: bool) -> tuple[Word, Word]:
    """Descriptor and length of what is sent on, its payload in row `row` of `outputs`, padded with zeros to words.

    `between`: a partial for the parent, which is an engine; else the result, at the root.
    """
    out = group.outputs + np.uint64(row * group.output_bytes)
    if value.err:
        if not (value.recorded and group.record):
            return value.held | np.uint32(ERR_BIT | NULL_BIT), 0
        store32(out, swapped32(value.record_held))
        store32(out + np.uint64(4), swapped32(value.record_held_length))
        store32(out + np.uint64(8), swapped32(value.record_other))
        store32(out + np.uint64(12), swapped32(value.record_other_length))
        return value.held | np.uint32(ERR_BIT), _RECORD_BYTES
    total = group.values + np.uint64(row * group.value_bytes)
    if value.parts:
        _fold(group, value, row, total)
    if not value.sum:
        return value.held | np.uint32(NULL_BIT), 0
    length = int(value.length)
    if value.held >> 14 & 3 == _BROADCAST:
        calls.copy(out, total, length)
    else:
        datatype = value.held >> 8 & 15
        n = length // _BYTES[datatype]
        wide = is_wide(group, value.held, between)
        length = n * _WIDE_BYTES if wide else length
        calls.store(out, total, n, datatype, group.big, wide)
    pad(out, length)
    return value.held, length


@compiled
def _fold(group: Any, value: Any, row: Word, total: Word) -> None:
    """Add what was kept apart, in child order, so that the sum does not depend on arrival (EPIC-N-05)."""
    datatype, operator = value.held >> 8 & 15, value.held >> 12 & 3
    for child in range(group.fan_in):
        bit = np.uint64(1) << np.uint64(child)
        if value.parts & bit:
            wide = value.wide & bit != 0
            length = value.length * 2 if wide else value.length
            _into_sum(group, value, total, _part(group, row, child), length, datatype, operator, wide)
    value.parts = np.uint64(0)


@compiled
def pad(address: Word, length: Word) -> None:
    """Zeros behind `length` bytes at an address, to the next whole word."""
    zero(address + np.uint64(length), -length & 3)
