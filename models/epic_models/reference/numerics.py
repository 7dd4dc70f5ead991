"""Arithmetic on cell payloads: the datatypes and operators of the section "Numerics" (design, 4.5).

A payload is a run of elements in the group's byte order. `load` turns it into an *accumulator*, a native
NumPy array in which engines combine contributions with `reduce_into`, and `store` turns that into a payload:

    datatype         wire element          accumulator
    INT8..INT64      two's complement      the same type; SUM wraps around
    FP32, FP64       IEEE 754 binary32/64  the same type
    FP16, BF16       binary16, bfloat16    FP32; rounded once, by `store`
    the same, wide   binary32              FP32; a partial not rounded (capability partial_format = fp32)

Every NaN that `store` writes is the canonical quiet NaN (positive, top fraction bit set only), because the
NaN that a processor makes differs between processors. No function here loops over elements in Python.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator

Buffer = bytes | bytearray | memoryview
Array = NDArray[Any]

HALVES: Final = frozenset({Datatype.FP16, Datatype.BF16})
FLOATS: Final = frozenset({Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64})

_ORDER = {"big": ">", "little": "<"}
_CODES = {
    Datatype.INT8: "i1",
    Datatype.INT16: "i2",
    Datatype.INT32: "i4",
    Datatype.INT64: "i8",
    Datatype.FP16: "f2",
    Datatype.BF16: "u2",
    Datatype.FP32: "f4",
    Datatype.FP64: "f8",
}
_WIRE = {(t, o): np.dtype(_ORDER[o] + _CODES[t]) for t in Datatype for o in _ORDER}
_WIRE_WIDE = {o: np.dtype(_ORDER[o] + "f4") for o in _ORDER}
_ACCUMULATOR = {t: np.dtype("f4") if t in HALVES else np.dtype(_CODES[t]) for t in Datatype}
_ARRAY = {t: np.dtype(ml_dtypes.bfloat16) if t is Datatype.BF16 else np.dtype(_CODES[t]) for t in Datatype}
_DATATYPE = {dtype: t for t, dtype in _ARRAY.items()}

# Bits of the canonical quiet NaN, by element size; BF16 is the upper half of FP32.
_NAN_BITS = {2: 0x7E00, 4: 0x7FC0_0000, 8: 0x7FF8_0000_0000_0000}
_BF16_NAN = 0x7FC0
_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
_UNSIGNED_WIRE = {(n, o): np.dtype(f"{_ORDER[o]}u{n}") for n in _UNSIGNED for o in _ORDER}


def element_dtype(datatype: Datatype, byte_order: str) -> np.dtype[Any]:
    """The NumPy type of an element on the wire.

    BF16 is given as its bit patterns (unsigned 16-bit); `ml_dtypes.bfloat16` has no byte order.
    """
    return _WIRE[datatype, byte_order]


def array_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The native NumPy type of users' arrays; BF16 is `ml_dtypes.bfloat16`."""
    return _ARRAY[datatype]


def datatype_of(dtype: np.dtype[Any]) -> Datatype | None:
    """The datatype of users' arrays of a NumPy type; None when EPIC has none for it (or it is not native)."""
    return _DATATYPE.get(dtype)


def element_bytes(datatype: Datatype, wide: bool = False) -> int:
    """Bytes of an element on the wire: 4 for a 16-bit float that travels `wide`."""
    return 4 if wide and datatype in HALVES else DATATYPE_BYTES[datatype.name]


def whole_elements(length: int, datatype: Datatype, wide: bool = False) -> bool:
    """Whether a payload of `length` bytes is a whole number of elements."""
    return length % element_bytes(datatype, wide) == 0


def load(payload: Buffer, datatype: Datatype, byte_order: str, *, wide: bool = False) -> Array:
    """The accumulator of a payload: a new, writable, native array.

    With `wide`, a payload of FP16 or BF16 holds FP32 elements; other datatypes have no wide form.
    Raises ValueError when the payload is not a whole number of elements.
    """
    if wide and datatype in HALVES:
        return np.frombuffer(payload, _WIRE_WIDE[byte_order]).astype(np.float32)
    elements = np.frombuffer(payload, _WIRE[datatype, byte_order])
    if datatype is Datatype.BF16:
        bits = elements.astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    if datatype is Datatype.FP16:
        with np.errstate(all="ignore"):  # a signalling NaN is an element like another
            return elements.astype(np.float32)
    return elements.astype(_ACCUMULATOR[datatype])


def store(acc: Array, datatype: Datatype, byte_order: str, *, wide: bool = False) -> bytes:
    """The payload of an accumulator, which is left as it is.

    FP32 accumulators of FP16 and BF16 are rounded to nearest even, unless `wide`. NaNs become canonical.
    """
    if datatype not in FLOATS:
        return acc.astype(_WIRE[datatype, byte_order]).tobytes()
    if datatype is Datatype.BF16 and not wide:
        return _round_bf16(acc).astype(_WIRE[datatype, byte_order]).tobytes()
    dtype = _WIRE_WIDE[byte_order] if wide and datatype in HALVES else _WIRE[datatype, byte_order]
    with np.errstate(all="ignore"):  # overflow to infinity and underflow are results, not errors
        elements = acc.astype(dtype)
    nan = acc != acc
    if nan.any():
        elements.view(_UNSIGNED_WIRE[dtype.itemsize, byte_order])[nan] = _NAN_BITS[dtype.itemsize]
    return elements.tobytes()


def _round_bf16(acc: Array) -> Array:
    """Bit patterns of the BF16 values nearest to FP32 values, ties to even, NaN canonical.

    Adding just under half of the last place kept, plus one where that place is odd, carries exactly when
    rounding goes up; a carry out of the fraction raises the exponent, at the end to infinity, as it should.
    """
    bits = acc.view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    rounded >>= 16
    nan = acc != acc
    if nan.any():
        rounded[nan] = _BF16_NAN
    return rounded


def reduce_into(acc: Array, other: Array, operator: Operator) -> None:
    """Combine `other` into `acc`, in place; both are accumulators of the same type and length.

    SUM: integers wrap around; floating point is IEEE 754 addition. MAX, MIN: signed; in floating point IEEE
    754-2019 maximum and minimum, which give NaN when either is NaN and order -0 below +0.
    Raises ValueError when type or length differ or the operator is NONE.
    """
    if acc.dtype != other.dtype or acc.shape != other.shape:
        raise ValueError(f"accumulators differ: {acc.dtype}{acc.shape} and {other.dtype}{other.shape}")
    if acc.dtype.kind == "f":
        _reduce_float(acc, other, operator)
    elif operator is Operator.SUM:
        np.add(acc, other, out=acc)
    elif operator is Operator.MAX:
        np.maximum(acc, other, out=acc)
    elif operator is Operator.MIN:
        np.minimum(acc, other, out=acc)
    else:
        raise ValueError(f"operator {operator.name} combines no payloads, expected SUM, MAX or MIN")


def _reduce_float(acc: Array, other: Array, operator: Operator) -> None:
    """`reduce_into` for floating point.

    Values that compare equal have equal bits except for the two zeros, so AND of the bits gives their maximum
    (+0 as soon as one is +0) and OR their minimum. NumPy's own maximum leaves the sign of a zero open.
    """
    with np.errstate(all="ignore"):
        if operator is Operator.SUM:
            np.add(acc, other, out=acc)
            return
        if operator not in (Operator.MAX, Operator.MIN):
            raise ValueError(f"operator {operator.name} combines no payloads, expected SUM, MAX or MIN")
        unsigned = _UNSIGNED[acc.dtype.itemsize]
        acc_bits = acc.view(unsigned)
        equal = acc == other
        if operator is Operator.MAX:
            of_equals = acc_bits & other.view(unsigned)
            np.maximum(acc, other, out=acc)
        else:
            of_equals = acc_bits | other.view(unsigned)
            np.minimum(acc, other, out=acc)
        np.copyto(acc_bits, of_equals, where=equal)


def or_into(acc: bytearray | NDArray[np.uint8], payload: Buffer) -> None:
    """Combine a Broadcast payload into `acc` bytewise, in place.

    At most one contribution of a Broadcast cell is not all zero, so OR equals wrap-around SUM in every
    datatype and leaves the source's bytes as they are (NaN payloads and signed zeros included).
    Raises ValueError when the lengths differ.
    """
    held = np.frombuffer(acc, np.uint8) if isinstance(acc, bytearray) else acc
    other = np.frombuffer(payload, np.uint8)
    if held.shape != other.shape:
        raise ValueError(f"Broadcast payloads differ in length: {held.size} and {other.size} bytes")
    np.bitwise_or(held, other, out=held)


def to_wire(values: Array, datatype: Datatype, byte_order: str) -> bytes:
    """The payload of a user's contiguous array (native, of `array_dtype(datatype)`), bit for bit."""
    if datatype is Datatype.BF16:
        values = values.view(np.uint16)
    dtype = _WIRE[datatype, byte_order]
    if dtype == values.dtype:
        return values.tobytes()
    # Bytes are moved as integers: a conversion between floats may quieten a signalling NaN.
    unsigned = _UNSIGNED[dtype.itemsize]
    return values.view(unsigned).byteswap().tobytes()


def from_wire(payload: Buffer, datatype: Datatype, byte_order: str, out: Array) -> None:
    """Write a payload into a user's contiguous array of as many elements, bit for bit.

    Raises ValueError when the payload does not hold exactly `out.size` elements.
    """
    dtype = _WIRE[datatype, byte_order]
    if len(payload) != out.size * dtype.itemsize:
        raise ValueError(f"payload of {len(payload)} bytes, expected {out.size * dtype.itemsize}")
    size = dtype.itemsize
    words = np.frombuffer(payload, _UNSIGNED_WIRE[size, byte_order])
    out.view(_UNSIGNED[size])[...] = words.reshape(out.shape)
