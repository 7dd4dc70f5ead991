"""Arithmetic on INT32 for engines that compute nothing else (design, 4.5): pure functions on NumPy arrays.

Three kinds of emulation. What is combined are integers, so no result depends on the order of combining.

* `to_keys`/`from_keys`: INT8, INT16, FP16, BF16, FP32 as INT32 of the same order, for MAX and MIN; INT8 and
  INT16 also for SUM. Exact.
* `split_limbs`/`join_limbs`: INT64 as several INT32 words, for SUM. Exact.
* `FixedPoint`: SUM of FP16, BF16, FP32, FP64 as integers with one exponent a block of `BLOCK` elements. Its
  error is bounded below.

Fixed point
-----------
Phase 1 finds, by INT32 MAX over n ranks, the exponent e of each block: the smallest with |x| < 2^e for every
finite x of every rank in it. In phase 2 each rank sends q = rint(x * 2^(S-e)), the n integers are added, and
the result is sum(q) * 2^(e-S), rounded once to the datatype.

*No overflow.* |x| < 2^e, so |q| <= 2^S. With one word an element, S = s, the largest integer with
n * 2^s <= 2^31 - 1: the sum of any subset of the n contributions stays within INT32. With two words,
q = hi * 2^b + lo with 0 <= lo < 2^b, n * 2^b <= 2^32, and S = s + b: |hi| <= 2^s, so hi cannot overflow,
and the sum of lo stays below 2^32, so it is right when read as unsigned. The joined sum is below 2^63.
Two words are used where one would hold less than the datatype's precision p (24 for FP32: from 128 ranks on;
53 for FP64: always).

*Error.* Each q is off by at most 1/2; with M the largest finite magnitude in the block (2^e <= 2M), u = 2^-p
and h half the smallest positive number of the datatype:

    |result - exact sum| <= E + u * (|exact sum| + E) + h,    E = n * 2^(e-S-1) <= n * M * 2^-S

E is 0 when no rank has a bit below 2^(e-S) in the block. A sum whose magnitude, with the error, exceeds the
largest finite number may become an infinity, as in IEEE 754; sums that are zero are +0.

*Infinities and NaN* are exact and cost nothing when there are none. Phase 1 also tells which blocks have one;
for each element of those blocks a word counts the ranks with +Inf or NaN (low half) and with -Inf or NaN
(high half, n < 2^16), and both kinds make NaN.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_models.reference.numerics import Array, array_dtype
from epic_spec.tables import Datatype, Operator

Int32Array = NDArray[np.int32]

# Elements that share an exponent. Phase 1 adds two words a block: 3 % to FP32.
BLOCK: Final = 64
# Exponent of a block in which a rank has only zeros; below that of the smallest FP64 subnormal (-1073).
ZERO_BLOCK: Final = -(1 << 15)

_PRECISION = {Datatype.FP16: 11, Datatype.BF16: 8, Datatype.FP32: 24, Datatype.FP64: 53}
_MIN_EXPONENT = {Datatype.FP16: -24, Datatype.BF16: -133, Datatype.FP32: -149, Datatype.FP64: -1074}


class _Form(NamedTuple):
    """Bits of a float read as a signed integer: its type, and the parts below the sign."""

    dtype: Any
    magnitude: Any
    infinity: Any
    nan: Any


_FORMS = {
    Datatype.FP16: _Form(np.int16, np.int16(0x7FFF), np.int16(0x7C00), np.int16(0x7E00)),
    Datatype.BF16: _Form(np.int16, np.int16(0x7FFF), np.int16(0x7F80), np.int16(0x7FC0)),
    Datatype.FP32: _Form(np.int32, np.int32(0x7FFF_FFFF), np.int32(0x7F80_0000), np.int32(0x7FC0_0000)),
}
KEYED: Final = frozenset(_FORMS) | {Datatype.INT8, Datatype.INT16}


def to_keys(values: Array, datatype: Datatype, operator: Operator) -> Int32Array:
    """INT32 words whose MAX or MIN (for INT8 and INT16 also SUM) is that of the values.

    The bits of a float, read as sign and magnitude, are in the order of IEEE 754 totalOrder: -0 below +0.
    A NaN becomes the one that wins: above +Inf for MAX, below -Inf for MIN.
    """
    form = _FORMS.get(datatype)
    if form is None:
        return values.astype(np.int32)
    keys = _flip(values.view(form.dtype), form)
    keys[(values.view(form.dtype) & form.magnitude) > form.infinity] = (
        form.nan if operator is Operator.MAX else ~form.nan
    )
    return keys.astype(np.int32)


def from_keys(keys: Int32Array, datatype: Datatype) -> Array:
    """The values of words made by `to_keys` and combined; NaN is canonical, INT8 and INT16 wrap around."""
    form = _FORMS.get(datatype)
    if form is None:
        return keys.astype(array_dtype(datatype))
    bits = _flip(keys.astype(form.dtype), form)
    bits[(bits & form.magnitude) > form.infinity] = form.nan
    return bits.view(array_dtype(datatype))


def _flip(bits: Array, form: _Form) -> Array:
    """Sign and magnitude to two's complement and back: a negative number's bits below the sign invert."""
    negative = bits >> (8 * bits.itemsize - 1)  # all ones or zero
    flipped: Array = bits ^ (negative & form.magnitude)
    return flipped


def limbs(ranks: int) -> tuple[int, int]:
    """How many INT32 words carry an INT64, and how many bits each does.

    A limb of b bits is at most 2^b - 1; n of them stay within 32 unsigned bits when n * (2^b - 1) < 2^32,
    which holds for b = 22 up to n = 1024 and for b = 16 up to n = 65537 (a group has at most 65535 ranks).
    """
    return (3, 22) if ranks <= 1024 else (4, 16)


def split_limbs(values: NDArray[np.int64], ranks: int) -> Int32Array:
    """INT64 values as limbs, least significant first: shape (len(values), words)."""
    words, bits = limbs(ranks)
    shifts = np.arange(words, dtype=np.uint64) * np.uint64(bits)
    parts = (values.view(np.uint64)[:, None] >> shifts) & np.uint64((1 << bits) - 1)
    return parts.astype(np.uint32).view(np.int32)


def join_limbs(words: Int32Array, ranks: int) -> NDArray[np.int64]:
    """The INT64 sums, modulo 2^64, of limbs that were added up; `words` has the shape `split_limbs` gave."""
    count, bits = limbs(ranks)
    shifts = np.arange(count, dtype=np.uint64) * np.uint64(bits)
    total: NDArray[np.uint64] = (words.view(np.uint32).astype(np.uint64) << shifts).sum(
        axis=1, dtype=np.uint64
    )
    return total.view(np.int64)


class FixedPoint:
    """Shared-exponent fixed point of one floating-point datatype for a number of ranks; see the module.

    `words` INT32 words carry an element, `bits` is S.
    """

    def __init__(self, datatype: Datatype, ranks: int) -> None:
        self.datatype = datatype
        self.ranks = ranks
        high_bits = ((2**31 - 1) // ranks).bit_length() - 1
        if high_bits >= _PRECISION[datatype]:
            self.words, self.low_bits = 1, 0
        else:
            self.words, self.low_bits = 2, (2**32 // ranks).bit_length() - 1
        self.bits = high_bits + self.low_bits

    def exponents(self, values: Array) -> Int32Array:
        """Phase 1: for each block of values, the exponent and whether any value is not finite."""
        wide = _widen(values, self.datatype)
        blocks = -(-wide.size // BLOCK)
        padded = np.zeros(blocks * BLOCK)
        padded[: wide.size] = wide
        finite = np.isfinite(padded)
        largest = np.where(finite, np.abs(padded), 0.0).reshape(blocks, BLOCK).max(axis=1, initial=0.0)
        out = np.empty((blocks, 2), np.int32)
        out[:, 0] = np.where(largest > 0, np.frexp(largest)[1], ZERO_BLOCK)
        out[:, 1] = ~finite.reshape(blocks, BLOCK).all(axis=1)
        return out

    def quantize(self, values: Array, exponents: Int32Array) -> Int32Array:
        """Phase 2 words, shape (len(values), words), given each value's exponent; not finite counts as 0."""
        wide = _widen(values, self.datatype)
        wide = np.where(np.isfinite(wide), wide, 0.0)
        q = np.rint(_scale(wide, self.bits - _usable(exponents))).astype(np.int64)
        out = np.empty((q.size, self.words), np.int32)
        out[:, 0] = q >> self.low_bits
        if self.words == 2:
            out[:, 1] = (q & ((1 << self.low_bits) - 1)).astype(np.uint32).view(np.int32)
        return out

    def dequantize(self, words: Int32Array, exponents: Int32Array) -> Array:
        """The values, of `array_dtype(datatype)`, of words that were added up."""
        q = words[:, 0].astype(np.int64) << self.low_bits
        if self.words == 2:
            q += words[:, 1].view(np.uint32)
        with np.errstate(all="ignore"):
            return _narrow(_scale(q.astype(np.float64), _usable(exponents) - self.bits), self.datatype)

    def specials(self, values: Array) -> Int32Array:
        """One word a value: 1 for +Inf, 2^16 for -Inf, both for NaN, 0 for a finite one."""
        wide = _widen(values, self.datatype)
        nan = np.isnan(wide)
        word = ((wide == np.inf) | nan).astype(np.uint32)
        word |= ((wide == -np.inf) | nan).astype(np.uint32) << np.uint32(16)
        out: Int32Array = word.view(np.int32)
        return out

    def error_bound(self, block_max: float | Fraction, exact_sum: float | Fraction) -> Fraction:
        """The bound of the module's docstring, from M and the exact sum; exact itself."""
        precision = _PRECISION[self.datatype]
        quantized = Fraction(block_max) * Fraction(self.ranks, 2**self.bits)
        half = Fraction(1, 2 ** (1 - _MIN_EXPONENT[self.datatype]))
        return quantized + (abs(Fraction(exact_sum)) + quantized) / Fraction(2**precision) + half


def special_class(counts: Int32Array) -> NDArray[np.uint8]:
    """Of added `specials` words: 0 finite, 1 +Inf, 2 -Inf, 3 NaN."""
    unsigned = counts.view(np.uint32)
    positive = ((unsigned & np.uint32(0xFFFF)) != 0).astype(np.uint8)
    negative = ((unsigned >> np.uint32(16)) != 0).astype(np.uint8)
    classes: NDArray[np.uint8] = positive + negative * np.uint8(2)
    return classes


def apply_specials(values: Array, classes: NDArray[np.uint8]) -> None:
    """Overwrite, in place, the values whose class is not 0."""
    values[classes == 1] = np.inf
    values[classes == 2] = -np.inf
    values[classes == 3] = np.nan


def _usable(exponents: Int32Array) -> Int32Array:
    """Exponents with that of an all-zero block replaced by one that scales 0 to 0 without overflow."""
    return np.where(exponents == ZERO_BLOCK, 0, exponents)


def _scale(values: NDArray[np.float64], exponents: Int32Array) -> NDArray[np.float64]:
    """values * 2^exponents in two steps, since 2^exponents itself may be out of range.

    Going up both steps are exact. Going down only the second can be inexact, save in `quantize`, where the
    result is then far below 1/2 and becomes 0 in any case.
    """
    half = exponents >> 1
    scaled: NDArray[np.float64] = np.ldexp(values, half)
    return np.ldexp(scaled, exponents - half)


def _widen(values: Array, datatype: Datatype) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like another
        return values.astype(np.float64)


def _narrow(values: NDArray[np.float64], datatype: Datatype) -> Array:
    """FP64 values rounded once, to nearest even. BF16 has its own grid: by way of FP32 would round twice."""
    if datatype is not Datatype.BF16:
        return values.astype(array_dtype(datatype))
    exponent: NDArray[Any] = np.frexp(values)[1]
    grid = np.maximum(exponent - _PRECISION[datatype], _MIN_EXPONENT[datatype])
    exact = np.ldexp(np.rint(np.ldexp(values, -grid)), grid).astype(np.float32)
    rounded: Array = exact.astype(array_dtype(datatype))
    return rounded
