"""Fixed point over INT32, compiled: what `epic_models.reference.fixedpoint` computes, bit for bit, cell by cell.

A `Fixed` is what compiled code knows of one fixed-point SUM. With it the agent's kernels quantize elements on their way
from the caller's array into the store, and turn sums into elements on their way from the batch that arrived into the
caller's array, one pass each. Exponents must be known for that: they are, for a SUM's second stage begins when every
result of the first is here. Whether an element is infinite or NaN may be known only later than its sum, so that is put
in when results are passed on in order (`Fixed.put_specials`).

Scaling is by one product with a power of two, or two where one might not be a float, as `fixedpoint._scale` has it. A
product with a power of two that does not leave the range of normal numbers is exact, whatever its order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from epic_host.fast import calls
from epic_host.fast.compiled import (
    Word,
    bits_of_double,
    bits_of_float,
    carray,
    compiled,
    double_of,
    float_of,
    load16,
    load32,
    load64,
    pointer_to,
    store16,
    store32,
    store64,
    swapped32,
)
from epic_host.fast.streams import fence
from epic_models.reference.coding import Buffers, Exponents, FixedSum
from epic_models.reference.fixedpoint import BLOCK, ZERO_BLOCK, FixedPoint
from epic_models.reference.group import GroupParams
from epic_spec.tables import Datatype

_FP16, _BF16, _FP32, _FP64 = (int(Datatype[n]) for n in ("FP16", "BF16", "FP32", "FP64"))

# What compiled code knows of a SUM, one word each: S and b of fixedpoint.py, words an element, bytes of an element in
# arrays, the datatype, whether the group's order of bytes is not the machine's, and addresses of the exponents of all
# blocks, of room for the elements of one block as FP32, and of room for the results of a cell.
_BITS, _LOW_BITS, _WORDS, _ITEM, _DATATYPE, _SWAPPED, _EXPONENTS, _SCRATCH, _STAGE = range(9)
_FIELDS: Final = 9

# Magnitudes of infinity and the quiet NaN that NumPy writes, by datatype.
_INFINITY: Final = {_FP16: 0x7C00, _BF16: 0x7F80, _FP32: 0x7F80_0000, _FP64: 0x7FF0_0000_0000_0000}
_NAN: Final = {_FP16: 0x7E00, _BF16: 0x7FC0, _FP32: 0x7FC0_0000, _FP64: 0x7FF8_0000_0000_0000}

# Exponents beyond these scale everything to zero or infinity; no rank's data has them.
_FAR: Final = 2000
_NEAR_32: Final = 126


@compiled
def _power(exponent: Word) -> Any:
    """2^exponent as binary64; exponents of normal numbers only."""
    return double_of(np.uint64(exponent + 1023) << np.uint64(52))


@compiled
def _power_32(exponent: Word) -> Any:
    """2^exponent as binary32; exponents of normal numbers only."""
    return float_of(np.uint32(np.uint32(exponent + 127) << np.uint32(23)))


@compiled
def _usable(exponent: Word) -> Word:
    """As in fixedpoint.py, and within bounds."""
    return 0 if exponent == ZERO_BLOCK else min(max(exponent, -_FAR), _FAR)


@compiled
def _in_order(word: Word, swapped: bool) -> Word:
    return swapped32(word) if swapped else word


# ---------------------------------------------------------------------- out: one word an element


@compiled
def _quantize_near(target: Word, source: Word, n: Word, exponent: Word, swapped: bool) -> None:
    """FP32 elements times a power of two that is an FP32 itself.

    The product is below 2^31, and exact unless it is below 2^-126, where it becomes 0 like what it stands for.
    """
    to = carray(pointer_to(target, np.uint32), n)
    values, bits = carray(pointer_to(source, np.float32), n), carray(pointer_to(source, np.uint32), n)
    factor, infinity = _power_32(exponent), np.uint32(0x7F80_0000)
    for i in range(n):
        value = values[i] if bits[i] & infinity != infinity else np.float32(0)
        to[i] = _in_order(np.uint32(np.int32(np.rint(value * factor))), swapped)


@compiled
def _quantize_far(target: Word, source: Word, n: Word, exponent: Word, swapped: bool) -> None:
    """The same for any power: FP32's largest and smallest are well within FP64."""
    to = carray(pointer_to(target, np.uint32), n)
    values, bits = carray(pointer_to(source, np.float32), n), carray(pointer_to(source, np.uint32), n)
    factor, infinity = _power(min(max(exponent, -1000), 1000)), np.uint32(0x7F80_0000)
    for i in range(n):
        value = values[i] if bits[i] & infinity != infinity else np.float32(0)
        to[i] = _in_order(np.uint32(np.int32(np.rint(np.float64(value) * factor))), swapped)


# ---------------------------------------------------------------------- out: two words an element


@compiled
def _quantize_pairs(
    target: Word, values: Any, n: Word, exponent: Word, low_bits: Word, swapped: bool
) -> None:
    """q = hi * 2^low_bits + lo, both as words."""
    to = carray(pointer_to(target, np.uint32), 2 * n)
    half = exponent >> 1
    first, second = _power(half), _power(exponent - half)
    mask = (np.int64(1) << np.int64(low_bits)) - np.int64(1)
    for i in range(n):
        value = np.float64(values[i])
        value = value if np.isfinite(value) else np.float64(0)
        q = np.int64(np.rint(value * first * second))
        to[2 * i] = _in_order(np.uint32(q >> np.int64(low_bits)), swapped)
        to[2 * i + 1] = _in_order(np.uint32(q & mask), swapped)


def _quantize(coding, element, source, target, count):  # type: ignore[no-untyped-def]
    """`FixedPoint.quantize`: `count` elements at `source`, of which the first is number `element` of the data."""
    w = carray(pointer_to(coding, np.int64), _FIELDS)
    exponents = carray(pointer_to(np.uint64(w[_EXPONENTS]), np.int32), (element + count - 1) // BLOCK + 1)
    datatype, item, swapped = w[_DATATYPE], w[_ITEM], w[_SWAPPED] != 0
    wire = 4 * w[_WORDS]
    i = np.int64(0)
    while i < count:
        block = (element + i) // BLOCK
        n = min(count, (block + 1) * BLOCK - element) - i
        exponent = w[_BITS] - _usable(np.int64(exponents[block]))
        from_, to = source + np.uint64(i * item), target + np.uint64(i * wire)
        if item == 2:
            calls.load(np.uint64(w[_SCRATCH]), from_, n, datatype, False, False)
            from_ = np.uint64(w[_SCRATCH])
        if w[_WORDS] == 1:
            if -_NEAR_32 <= exponent <= _NEAR_32:
                if swapped:
                    _quantize_near(to, from_, n, exponent, True)
                else:
                    _quantize_near(to, from_, n, exponent, False)
            else:
                _quantize_far(to, from_, n, exponent, swapped)
        elif item == 8:
            values = carray(pointer_to(from_, np.float64), n)
            _quantize_pairs(to, values, n, exponent, w[_LOW_BITS], swapped)
        else:
            floats = carray(pointer_to(from_, np.float32), n)
            _quantize_pairs(to, floats, n, exponent, w[_LOW_BITS], swapped)
        i += n


# ---------------------------------------------------------------------- back


@compiled
def _dequantize_near(target: Word, source: Word, n: Word, exponent: Word, swapped: bool) -> None:
    """Sums times a power of two, to FP32. Rounding a sum to FP32's 24 bits first is the only rounding there is as long
    as no result is subnormal: for exponents of -126 and more."""
    to, from_ = carray(pointer_to(target, np.float32), n), carray(pointer_to(source, np.uint32), n)
    factor = _power_32(exponent)
    for i in range(n):
        to[i] = np.float32(np.int32(_in_order(from_[i], swapped))) * factor


@compiled
def _dequantize_far(target: Word, source: Word, n: Word, exponent: Word, swapped: bool) -> None:
    """The same for any power."""
    to, from_ = carray(pointer_to(target, np.float32), n), carray(pointer_to(source, np.uint32), n)
    factor = _power(min(max(exponent, -1000), 1000))
    for i in range(n):
        to[i] = np.float32(np.float64(np.int32(_in_order(from_[i], swapped))) * factor)


@compiled
def _dequantize_odd(target: Word, source: Word, n: Word, exponent: Word, swapped: bool) -> None:
    """To FP32 on the way to 16 bits: rounded to the neighbour whose last bit is 1 where it is not exact.

    Rounding that to nearest with two bits less, or more, gives what rounding the sum itself does (S. Boldo and G.
    Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    to, from_ = carray(pointer_to(target, np.uint32), n), carray(pointer_to(source, np.uint32), n)
    factor = _power(min(max(exponent, -1000), 1000))
    for i in range(n):
        value = np.float64(np.int32(_in_order(from_[i], swapped))) * factor
        nearest = np.float32(value)
        bits = bits_of_float(nearest)
        back = np.float64(nearest)
        if back != value and bits & np.uint32(1) == np.uint32(0):
            bits = bits - np.uint32(1) if abs(back) > abs(value) else bits + np.uint32(1)
        to[i] = bits


@compiled
def _dequantize_pairs(
    to: Any, source: Word, n: Word, exponent: Word, low_bits: Word, swapped: bool, kind: Any
) -> None:
    from_ = carray(pointer_to(source, np.uint32), 2 * n)
    half = exponent >> 1
    first, second = _power(half), _power(exponent - half)
    for i in range(n):
        high = np.int64(np.int32(_in_order(from_[2 * i], swapped)))
        low = np.int64(_in_order(from_[2 * i + 1], swapped))
        to[i] = kind(np.float64((high << np.int64(low_bits)) + low) * first * second)


def _dequantize(coding, element, source, sink, count, streams):  # type: ignore[no-untyped-def]
    """`FixedPoint.dequantize`: the words at `source` as `count` elements at `sink`, the first number `element`.

    `streams`: past the cache, for cells of no more elements than a `Fixed` was made for; `fence` is the caller's.
    """
    w = carray(pointer_to(coding, np.int64), _FIELDS)
    target = np.uint64(w[_STAGE]) if streams else sink
    exponents = carray(pointer_to(np.uint64(w[_EXPONENTS]), np.int32), (element + count - 1) // BLOCK + 1)
    datatype, item, swapped = w[_DATATYPE], w[_ITEM], w[_SWAPPED] != 0
    wire = 4 * w[_WORDS]
    i = np.int64(0)
    while i < count:
        block = (element + i) // BLOCK
        n = min(count, (block + 1) * BLOCK - element) - i
        exponent = _usable(np.int64(exponents[block])) - w[_BITS]
        from_, to = source + np.uint64(i * wire), target + np.uint64(i * item)
        if item == 2:
            _dequantize_odd(np.uint64(w[_SCRATCH]), from_, n, exponent, swapped)
            calls.store(to, np.uint64(w[_SCRATCH]), n, datatype, False, False)
        elif w[_WORDS] == 1:
            if -_NEAR_32 <= exponent <= _NEAR_32:
                if swapped:
                    _dequantize_near(to, from_, n, exponent, True)
                else:
                    _dequantize_near(to, from_, n, exponent, False)
            else:
                _dequantize_far(to, from_, n, exponent, swapped)
        elif item == 8:
            values = carray(pointer_to(to, np.float64), n)
            _dequantize_pairs(values, from_, n, exponent, w[_LOW_BITS], swapped, np.float64)
        else:
            floats = carray(pointer_to(to, np.float32), n)
            _dequantize_pairs(floats, from_, n, exponent, w[_LOW_BITS], swapped, np.float32)
        i += n
    if streams:
        calls.stream(sink, target, count * item, 1)


# ---------------------------------------------------------------------- exponents


@compiled
def _exponent_32(source: Word, n: Word) -> Any:
    """Of FP32 elements: the exponent of the largest finite one as `frexp` has it, and 1 where one is not finite."""
    bits = carray(pointer_to(source, np.uint32), n)
    largest, special = np.int32(0), np.int32(0)
    for i in range(n):
        magnitude = np.int32(bits[i] & np.uint32(0x7FFF_FFFF))
        finite = magnitude < np.int32(0x7F80_0000)
        largest = max(largest, magnitude if finite else np.int32(0))
        special |= np.int32(0) if finite else np.int32(1)
    # As FP64 it is a normal number.
    wide = bits_of_double(np.float64(float_of(np.uint32(largest))))
    exponent = np.int64(wide >> np.uint64(52)) - 1022
    return np.int32(exponent if largest > 0 else ZERO_BLOCK), special


@compiled
def _exponent_64(source: Word, n: Word) -> Any:
    bits = carray(pointer_to(source, np.uint64), n)
    largest, special = np.int64(0), np.int32(0)
    for i in range(n):
        magnitude = np.int64(bits[i] & np.uint64(0x7FFF_FFFF_FFFF_FFFF))
        finite = magnitude < np.int64(0x7FF0_0000_0000_0000)
        largest = max(largest, magnitude if finite else np.int64(0))
        special |= np.int32(0) if finite else np.int32(1)
    exponent = np.int64(largest >> np.int64(52)) - 1022
    if exponent == -1022:
        # Subnormal: `largest` is a whole number below 2^52, so exact as FP64, in units of 2^-1074.
        whole = bits_of_double(np.float64(largest))
        exponent = np.int64(whole >> np.uint64(52)) - 1022 - 1074
    return np.int32(exponent if largest > 0 else ZERO_BLOCK), special


def _exponents(coding, source, target, count):  # type: ignore[no-untyped-def]
    """`FixedPoint.exponents` as a payload: two words a block of the `count` elements at `source`."""
    w = carray(pointer_to(coding, np.int64), _FIELDS)
    datatype, item, swapped = w[_DATATYPE], w[_ITEM], w[_SWAPPED] != 0
    blocks = (count + BLOCK - 1) // BLOCK
    to = carray(pointer_to(target, np.uint32), 2 * blocks)
    for block in range(blocks):
        n = min(np.int64(BLOCK), count - block * BLOCK)
        from_ = source + np.uint64(block * BLOCK * item)
        if item == 8:
            exponent, special = _exponent_64(from_, n)
        else:
            if item == 2:
                calls.load(np.uint64(w[_SCRATCH]), from_, n, datatype, False, False)
                from_ = np.uint64(w[_SCRATCH])
            exponent, special = _exponent_32(from_, n)
        to[2 * block] = _in_order(np.uint32(exponent), swapped)
        to[2 * block + 1] = _in_order(np.uint32(special), swapped)


# ---------------------------------------------------------------------- infinities and NaN


@compiled
def _specials(
    source: Word, item: Word, infinity: Word, where: NDArray[np.int64], start: Word, stop: Word, target: Word
) -> None:
    """`FixedPoint.specials` of the `start`-th to `stop`-th elements of special blocks, words in native order."""
    to = carray(pointer_to(target, np.uint32), stop - start)
    sign = np.uint64(8 * item - 1)
    for i in range(start, stop):
        at = np.uint64(source) + np.uint64((where[i // BLOCK] * BLOCK + i % BLOCK) * item)
        bits = np.uint64(load16(at)) if item == 2 else np.uint64(load32(at)) if item == 4 else load64(at)
        negative = bits >> sign
        magnitude = bits & ~(np.uint64(1) << sign)
        word = np.uint32(0)
        if magnitude > np.uint64(infinity):
            word = np.uint32(0x1_0001)
        elif magnitude == np.uint64(infinity):
            word = np.uint32(0x1_0000) if negative else np.uint32(1)
        to[i - start] = word


@compiled
def _put_specials(
    target: Word,
    item: Word,
    infinity: Word,
    nan: Word,
    special: NDArray[np.bool_],
    order: NDArray[np.int64],
    classes: NDArray[np.uint8],
    start: Word,
    stop: Word,
) -> None:
    """`FixedSum.apply_classes` on elements `start` to `stop` of the data, of which the first is at `target`."""
    sign = np.uint64(1) << np.uint64(8 * item - 1)
    for i in range(start, stop):
        block = i // BLOCK
        if not special[block]:
            continue
        kind = classes[order[block] * BLOCK + i % BLOCK]
        if kind:
            bits = np.uint64(infinity) if kind < 3 else np.uint64(nan)
            bits |= sign if kind == 2 else np.uint64(0)
            at = np.uint64(target) + np.uint64((i - start) * item)
            if item == 2:
                store16(at, np.uint16(bits))
            elif item == 4:
                store32(at, np.uint32(bits))
            else:
                store64(at, bits)


# ---------------------------------------------------------------------- for kernels, and for Python

_ADDRESS, _INT = types.uint64, types.int64
quantize: Final = calls.link(_quantize, types.void, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT)
dequantize: Final = calls.link(
    _dequantize, types.void, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, types.boolean
)
_find_exponents: Final = calls.link(_exponents, types.void, _ADDRESS, _ADDRESS, _ADDRESS, _INT)


@compiled
def quantize_at(coding: Word, element: Word, source: Word, target: Word, count: Word) -> None:
    """`quantize` for Python."""
    quantize(np.uint64(coding), element, np.uint64(source), np.uint64(target), count)


@compiled
def dequantize_at(
    coding: Word, element: Word, source: Word, target: Word, count: Word, streams: bool
) -> None:
    """`dequantize` for Python."""
    dequantize(np.uint64(coding), element, np.uint64(source), np.uint64(target), count, streams)
    fence()


@compiled
def _find_exponents_at(coding: Word, source: Word, target: Word, count: Word) -> None:
    _find_exponents(np.uint64(coding), np.uint64(source), np.uint64(target), count)


def load() -> None:
    """Load what is compiled here, or compile it."""
    values, params = np.zeros(1, np.float32), GroupParams(group=1, mode=3, world_size=1)
    shared = FixedSum(FixedPoint(Datatype.FP32, 1), Buffers(values, values), 1, (0, 1), "")
    fixed, exponents = Fixed(shared, swapped=True, cell_elements=1), Exponents(shared, params)
    fixed.exponents(exponents, 0, exponents.size)
    shared.special[:] = True
    fixed.specials(0, shared.find_specials())
    fixed.put_specials(0, 1)


class Fixed:
    """A fixed-point SUM as compiled code sees it, by `address`; `swapped`: payloads are not in the machine's order.

    Results of cells of up to `cell_elements` may be streamed.

    An element is `item` bytes in arrays and `wire` bytes of a payload.
    """

    def __init__(self, shared: FixedSum, swapped: bool, cell_elements: int) -> None:
        fixed = shared.fixed
        self.shared = shared
        self.datatype = int(fixed.datatype)
        self.wire = 4 * fixed.words
        arrays = shared.buffers
        some = arrays.send if arrays.send is not None else arrays.recv
        assert some is not None
        self.item = some.itemsize
        self._scratch = np.empty(BLOCK, np.float32)
        self._stage = np.empty(cell_elements * self.item, np.uint8)
        self._swapped = swapped
        self._words = np.array(
            [
                fixed.bits, fixed.low_bits, fixed.words, self.item, self.datatype, swapped,
                _address(shared.exponents), _address(self._scratch), _address(self._stage),
            ],
            np.int64,
        )  # fmt: skip
        self.address = _address(self._words)

    def exponents(self, coding: Exponents, start: int, stop: int) -> NDArray[np.uint8]:
        """`coding.encode`."""
        out = np.empty(8 * (stop - start), np.uint8)
        head = max(0, min(stop, coding.SIGNATURE_PAIRS) - start)
        if head:
            out[: 8 * head] = np.frombuffer(coding.encode(start, start + head), np.uint8)
        if start + head < stop:
            first = (start + head - coding.SIGNATURE_PAIRS) * BLOCK
            last = min((stop - coding.SIGNATURE_PAIRS) * BLOCK, self.shared.count)
            source, target = self._source(first), _address(out) + 8 * head
            _find_exponents_at(self.address, source, target, last - first)
        return out

    def specials(self, start: int, stop: int) -> NDArray[np.uint8]:
        """`Specials.encode`."""
        out = np.empty(stop - start, np.uint32)
        infinity = _INFINITY[self.datatype]
        _specials(
            self._source(0), self.item, infinity, self.shared.special_blocks, start, stop, _address(out)
        )
        return (out.byteswap() if self._swapped else out).view(np.uint8)

    def put_specials(self, start: int, stop: int) -> None:
        """Put infinities and NaNs into the results of elements `start` to `stop`, which are in their array."""
        shared = self.shared
        target = shared.buffers.target(start, stop)
        if target is not None and shared.special[start // BLOCK : -(-stop // BLOCK)].any():
            _put_specials(
                _address(target), self.item, _INFINITY[self.datatype], _NAN[self.datatype],
                shared.special, shared.special_order, shared.classes, start, stop,
            )  # fmt: skip

    def _source(self, element: int) -> int:
        """Where an element of this rank's data is, or would be."""
        arrays: Buffers = self.shared.buffers
        assert arrays.send is not None
        return _address(arrays.send) + (element - arrays.send_base) * self.item


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
