"""Arithmetic on payloads in memory, compiled: what `epic_models.reference.numerics` says, bit for bit.

Addresses in, so that a payload may be in a batch that arrived, in a slot or in a user's array. An *accumulator* holds
elements in native order: of the wire's type, or FP32 for 16-bit floats and where they travel wide. `scratch` is memory
for one accumulator, needed where a payload is not combined in one pass.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast.compiled import (
    Word,
    carray,
    compiled,
    float_of,
    load8,
    pointer_to,
    store8,
    swapped16,
    swapped32,
    swapped64,
)
from epic_models.reference.numerics import HALVES
from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator

_SUM, _MAX, _MIN = int(Operator.SUM), int(Operator.MAX), int(Operator.MIN)
_INT8, _INT16, _INT32, _INT64 = (int(Datatype[f"INT{n}"]) for n in (8, 16, 32, 64))
_FP16, _BF16, _FP32, _FP64 = (int(Datatype[n]) for n in ("FP16", "BF16", "FP32", "FP64"))
_SIZES: Final = np.ones(16, np.int64)
for _datatype in Datatype:
    _SIZES[int(_datatype)] = DATATYPE_BYTES[_datatype.name]
_ACCUMULATOR: Final = _SIZES.copy()
for _datatype in HALVES:
    _ACCUMULATOR[int(_datatype)] = 4

# Canonical quiet NaNs.
_NAN_32, _NAN_64, _NAN_FP16, _NAN_BF16 = 0x7FC0_0000, 0x7FF8_0000_0000_0000, 0x7E00, 0x7FC0


@compiled
def element_bytes(datatype: Word, wide: bool) -> Word:
    """Bytes of an element on the wire."""
    return 4 if wide and (datatype in (_FP16, _BF16)) else _SIZES[datatype]


@compiled
def accumulator_bytes(datatype: Word) -> Word:
    """Bytes of an element in an accumulator."""
    return _ACCUMULATOR[datatype]


# Everything but the sign, and the magnitude of infinity: what is above it is NaN.
_MAGNITUDE_32, _INFINITY_32 = 0x7FFF_FFFF, 0x7F80_0000
_MAGNITUDE_64, _INFINITY_64 = 0x7FFF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000

# ---------------------------------------------------------------------- moving


@compiled
def copy(target: Word, source: Word, count: Word) -> None:
    """`count` bytes from `source` to `target`; they do not overlap."""
    words = count >> 3
    to, from_ = carray(pointer_to(target, np.uint64), words), carray(pointer_to(source, np.uint64), words)
    for i in range(words):
        to[i] = from_[i]
    for i in range(words << 3, count):
        store8(np.uint64(target) + np.uint64(i), load8(np.uint64(source) + np.uint64(i)))


@compiled
def _swap16(target: Word, source: Word, n: Word) -> None:
    to, from_ = carray(pointer_to(target, np.uint16), n), carray(pointer_to(source, np.uint16), n)
    for i in range(n):
        to[i] = swapped16(from_[i])


@compiled
def _swap32(target: Word, source: Word, n: Word) -> None:
    to, from_ = carray(pointer_to(target, np.uint32), n), carray(pointer_to(source, np.uint32), n)
    for i in range(n):
        to[i] = swapped32(from_[i])


@compiled
def _swap64(target: Word, source: Word, n: Word) -> None:
    to, from_ = carray(pointer_to(target, np.uint64), n), carray(pointer_to(source, np.uint64), n)
    for i in range(n):
        to[i] = swapped64(from_[i])


@compiled
def swap_copy(target: Word, source: Word, n: Word, size: Word) -> None:
    """`n` elements of `size` bytes from `source` to `target`, the bytes of each in the other order."""
    if size == 2:
        _swap16(target, source, n)
    elif size == 4:
        _swap32(target, source, n)
    elif size == 8:
        _swap64(target, source, n)
    else:
        copy(target, source, n)


@compiled
def zero(target: Word, count: Word) -> None:
    """`count` bytes of zeros."""
    for i in range(count):
        store8(np.uint64(target) + np.uint64(i), np.uint8(0))


@compiled
def or_into(target: Word, source: Word, count: Word) -> None:
    """`count` bytes at `source` into those at `target`, by OR (Broadcast)."""
    words = count >> 3
    to, from_ = carray(pointer_to(target, np.uint64), words), carray(pointer_to(source, np.uint64), words)
    for i in range(words):
        to[i] |= from_[i]
    for i in range(words << 3, count):
        at = np.uint64(target) + np.uint64(i)
        store8(at, load8(at) | load8(np.uint64(source) + np.uint64(i)))


# ---------------------------------------------------------------------- 16-bit floats


@compiled
def _widen_bf16(target: Word, source: Word, n: Word, big: bool) -> None:
    to, from_ = carray(pointer_to(target, np.uint32), n), carray(pointer_to(source, np.uint16), n)
    if big:
        for i in range(n):
            to[i] = np.uint32(swapped16(from_[i])) << np.uint32(16)
    else:
        for i in range(n):
            to[i] = np.uint32(from_[i]) << np.uint32(16)


# 2^112: what the exponents of FP16 (bias 15) and FP32 (bias 127) differ by.
_TWO_112 = np.float32(2.0**112)


@compiled
def _widen_fp16(target: Word, source: Word, n: Word, big: bool) -> None:
    """The 15 bits of the magnitude, put into the place of FP32's, are 2^112 times too small, subnormals included."""
    to, scaled = carray(pointer_to(target, np.uint32), n), carray(pointer_to(target, np.float32), n)
    from_ = carray(pointer_to(source, np.uint16), n)
    for i in range(n):
        to[i] = np.uint32(from_[i] & np.uint16(0xFF7F if big else 0x7FFF))
    if big:
        for i in range(n):
            to[i] = np.uint32(swapped16(np.uint16(to[i])))
    for i in range(n):
        to[i] = to[i] << np.uint32(13)
    for i in range(n):
        scaled[i] = scaled[i] * _TWO_112
    for i in range(n):
        half = np.uint32(swapped16(from_[i]) if big else from_[i])
        # Infinity and NaN have become 2^16 and more: their exponent is FP32's largest.
        special = np.uint32(0x7F800000) if half & np.uint32(0x7C00) == np.uint32(0x7C00) else np.uint32(0)
        to[i] = to[i] | special | (half & np.uint32(0x8000)) << np.uint32(16)


@compiled
def _narrow_bf16(target: Word, source: Word, n: Word, big: bool) -> None:
    """To nearest even, NaN canonical: numerics._round_bf16."""
    to, from_ = carray(pointer_to(target, np.uint16), n), carray(pointer_to(source, np.uint32), n)
    for i in range(n):
        bits = from_[i]
        rounded = np.uint16(
            (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        )
        nan = bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
        to[i] = np.uint16(_NAN_BF16) if nan else rounded
    if big:
        _swap16(target, target, n)


# Adding and taking away 2^23 leaves a whole number, rounded to nearest even; 2^24 is FP16's last place, inverted.
_TWO_23, _TWO_24 = np.float32(2.0**23), np.float32(2.0**24)


@compiled
def _narrow_fp16(target: Word, source: Word, n: Word, big: bool) -> None:
    """To nearest even, NaN canonical."""
    to, from_ = carray(pointer_to(target, np.uint16), n), carray(pointer_to(source, np.uint32), n)
    values = carray(pointer_to(source, np.float32), n)
    for i in range(n):
        bits = from_[i]
        magnitude = bits & np.uint32(0x7FFFFFFF)
        half = bits >> np.uint32(16) & np.uint32(0x8000)
        if magnitude > np.uint32(0x7F800000):
            half = np.uint32(_NAN_FP16)
        elif magnitude >= np.uint32(0x477FF000):
            # 65,520 and more rounds to infinity.
            half |= np.uint32(0x7C00)
        elif magnitude < np.uint32(0x38800000):
            # Subnormal in FP16, below 2^-14.
            half |= np.uint32((abs(values[i]) * _TWO_24 + _TWO_23) - _TWO_23)
        else:
            # The exponent gets the other bias, 13 bits are rounded away; a carry out of the fraction is right.
            odd = magnitude >> np.uint32(13) & np.uint32(1)
            half |= (magnitude - np.uint32(0x38000000) + np.uint32(0x0FFF) + odd) >> np.uint32(13)
        to[i] = np.uint16(half)
    if big:
        _swap16(target, target, n)


# ---------------------------------------------------------------------- combining


@compiled
def _add(acc: Word, other: Word, n: Word, kind: Any) -> None:
    to, from_ = carray(pointer_to(acc, kind), n), carray(pointer_to(other, kind), n)
    for i in range(n):
        to[i] += from_[i]


@compiled
def _whole_maximum(acc: Word, other: Word, n: Word, kind: Any) -> None:
    to, from_ = carray(pointer_to(acc, kind), n), carray(pointer_to(other, kind), n)
    for i in range(n):
        to[i] = max(to[i], from_[i])


@compiled
def _whole_minimum(acc: Word, other: Word, n: Word, kind: Any) -> None:
    to, from_ = carray(pointer_to(acc, kind), n), carray(pointer_to(other, kind), n)
    for i in range(n):
        to[i] = min(to[i], from_[i])


@compiled
def _float_maximum(acc: Word, other: Word, n: Word, kind: Any) -> None:
    """IEEE 754-2019 maximum of floats given as signed words of their size (`kind`): NaN when either is.

    With its magnitude inverted where the sign is set, a float's bits as a whole number are in the floats' order, -0
    just below +0. Whole numbers, for the comparison of floats keeps the loop from being done on vectors.
    """
    to, from_ = carray(pointer_to(acc, kind), n), carray(pointer_to(other, kind), n)
    magnitude = kind(_MAGNITUDE_64 if kind is np.int64 else _MAGNITUDE_32)
    infinity = kind(_INFINITY_64 if kind is np.int64 else _INFINITY_32)
    sign = kind(63 if kind is np.int64 else 31)
    for i in range(n):
        a, b = to[i], from_[i]
        order_a, order_b = a ^ (a >> sign & magnitude), b ^ (b >> sign & magnitude)
        larger = a if order_a > order_b else b
        larger = b if b & magnitude > infinity else larger
        to[i] = a if a & magnitude > infinity else larger


@compiled
def _float_minimum(acc: Word, other: Word, n: Word, kind: Any) -> None:
    to, from_ = carray(pointer_to(acc, kind), n), carray(pointer_to(other, kind), n)
    magnitude = kind(_MAGNITUDE_64 if kind is np.int64 else _MAGNITUDE_32)
    infinity = kind(_INFINITY_64 if kind is np.int64 else _INFINITY_32)
    sign = kind(63 if kind is np.int64 else 31)
    for i in range(n):
        a, b = to[i], from_[i]
        order_a, order_b = a ^ (a >> sign & magnitude), b ^ (b >> sign & magnitude)
        smaller = a if order_a < order_b else b
        smaller = b if b & magnitude > infinity else smaller
        to[i] = a if a & magnitude > infinity else smaller


@compiled
def _add_swapped_int32(acc: Word, payload: Word, n: Word) -> None:
    to, from_ = carray(pointer_to(acc, np.uint32), n), carray(pointer_to(payload, np.uint32), n)
    for i in range(n):
        to[i] += swapped32(from_[i])


@compiled
def _add_swapped_fp32(acc: Word, payload: Word, n: Word) -> None:
    to, from_ = carray(pointer_to(acc, np.float32), n), carray(pointer_to(payload, np.uint32), n)
    for i in range(n):
        to[i] += float_of(swapped32(from_[i]))


@compiled
def _combine_whole(acc: Word, other: Word, n: Word, operator: Word, kind: Any) -> None:
    if operator == _SUM:
        _add(acc, other, n, kind)
    elif operator == _MAX:
        _whole_maximum(acc, other, n, kind)
    else:
        _whole_minimum(acc, other, n, kind)


@compiled
def _combine_float(acc: Word, other: Word, n: Word, operator: Word, kind: Any, bits: Any) -> None:
    """`bits`: the type of signed words of the size."""
    if operator == _SUM:
        _add(acc, other, n, kind)
    elif operator == _MAX:
        _float_maximum(acc, other, n, bits)
    else:
        _float_minimum(acc, other, n, bits)


@compiled
def combine_accumulators(acc: Word, other: Word, n: Word, datatype: Word, operator: Word) -> None:
    """`n` elements of the accumulator at `other` into the one at `acc` (numerics.reduce_into)."""
    if datatype == _INT32:
        _combine_whole(acc, other, n, operator, np.int32)
    elif datatype in (_FP32, _FP16, _BF16):
        _combine_float(acc, other, n, operator, np.float32, np.int32)
    elif datatype == _FP64:
        _combine_float(acc, other, n, operator, np.float64, np.int64)
    elif datatype == _INT8:
        _combine_whole(acc, other, n, operator, np.int8)
    elif datatype == _INT16:
        _combine_whole(acc, other, n, operator, np.int16)
    else:
        _combine_whole(acc, other, n, operator, np.int64)


# ---------------------------------------------------------------------- payloads and accumulators


@compiled
def load(acc: Word, payload: Word, n: Word, datatype: Word, big: bool, wide: bool) -> None:
    """The `n` elements of a payload as an accumulator (numerics.load)."""
    half = datatype in (_FP16, _BF16)
    if half and not wide:
        if datatype == _BF16:
            _widen_bf16(acc, payload, n, big)
        else:
            _widen_fp16(acc, payload, n, big)
        return
    size = element_bytes(datatype, wide)
    if big:
        swap_copy(acc, payload, n, size)
    else:
        copy(acc, payload, n * size)


@compiled
def combine(
    acc: Word, payload: Word, n: Word, datatype: Word, operator: Word, big: bool, wide: bool, scratch: Word
) -> None:
    """The `n` elements of a payload into an accumulator: SUM, MAX or MIN."""
    if big and operator == _SUM and datatype == _INT32:
        _add_swapped_int32(acc, payload, n)
    elif big and operator == _SUM and datatype == _FP32:
        _add_swapped_fp32(acc, payload, n)
    elif (big and datatype != _INT8) or ((datatype in (_FP16, _BF16)) and not wide):
        load(scratch, payload, n, datatype, big, wide)
        combine_accumulators(acc, scratch, n, datatype, operator)
    else:
        combine_accumulators(acc, payload, n, datatype, operator)


@compiled
def _canonical_32(target: Word, source: Word, n: Word, big: bool) -> None:
    to, from_ = carray(pointer_to(target, np.uint32), n), carray(pointer_to(source, np.uint32), n)
    if big:
        for i in range(n):
            bits = from_[i]
            nan = bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
            to[i] = swapped32(np.uint32(_NAN_32) if nan else bits)
    else:
        for i in range(n):
            bits = from_[i]
            nan = bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
            to[i] = np.uint32(_NAN_32) if nan else bits


@compiled
def _canonical_64(target: Word, source: Word, n: Word, big: bool) -> None:
    to, from_ = carray(pointer_to(target, np.uint64), n), carray(pointer_to(source, np.uint64), n)
    for i in range(n):
        bits = from_[i]
        nan = bits & np.uint64(0x7FFFFFFFFFFFFFFF) > np.uint64(0x7FF0000000000000)
        bits = np.uint64(_NAN_64) if nan else bits
        to[i] = swapped64(bits) if big else bits


@compiled
def store(target: Word, acc: Word, n: Word, datatype: Word, big: bool, wide: bool) -> None:
    """The payload of an accumulator of `n` elements, rounded, NaN canonical (numerics.store); they do not overlap."""
    if datatype == _FP32 or (wide and (datatype in (_FP16, _BF16))):
        _canonical_32(target, acc, n, big)
    elif datatype == _BF16:
        _narrow_bf16(target, acc, n, big)
    elif datatype == _FP16:
        _narrow_fp16(target, acc, n, big)
    elif datatype == _FP64:
        _canonical_64(target, acc, n, big)
    elif big:
        swap_copy(target, acc, n, _SIZES[datatype])
    else:
        copy(target, acc, n * _SIZES[datatype])
