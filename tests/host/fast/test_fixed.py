"""Compiled fixed point against the reference's: the same words, exponents and results, bit for bit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from epic_host.fast import fixed as module
from epic_host.fast.fixed import Fixed
from epic_models.reference.coding import Buffers, Exponents, FixedSum, Quantized, Specials
from epic_models.reference.fixedpoint import BLOCK, FixedPoint
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import array_dtype
from epic_spec.tables import Datatype
from host.fast.batches import SCALE

FLOATS = (Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64)
# The largest exponent of a block.
LARGEST = {Datatype.FP16: 16, Datatype.BF16: 128, Datatype.FP32: 128, Datatype.FP64: 1024}
# Where the exponent begins in a float's bits.
FRACTION = {Datatype.FP16: 10, Datatype.BF16: 7, Datatype.FP32: 23, Datatype.FP64: 52}


def floats(datatype: Datatype, count: int, rng: np.random.Generator, special: float = 0.02) -> Any:
    """Values of every kind: of like size, of any size, subnormal, zeros of both signs, and some that are not finite."""
    dtype = array_dtype(datatype)
    bits = np.dtype(f"u{dtype.itemsize}")
    size = 8 * dtype.itemsize
    values = rng.integers(0, 1 << (size - 1), count, dtype=np.uint64) << np.uint64(1)
    values |= rng.integers(0, 2, count, dtype=np.uint64)
    fraction = np.uint64((1 << FRACTION[datatype]) - 1)
    sign = np.uint64(1 << (size - 1))
    exponent = np.uint64((1 << (size - 1)) - 1) ^ fraction
    # Blocks of one kind each.
    kind = np.repeat(rng.integers(0, 5, -(-count // BLOCK)), BLOCK)[:count]
    like = rng.integers(1, int(exponent >> np.uint64(FRACTION[datatype])), count, dtype=np.uint64)
    like = np.repeat(like[::BLOCK], BLOCK)[:count] << np.uint64(FRACTION[datatype])
    values = np.where(kind == 1, (values & (fraction | sign)) | like, values)
    values = np.where(kind == 2, values & (fraction | sign), values)
    values = np.where(kind == 3, values & sign, values)
    infinite = (values & exponent) == exponent
    values = np.where(
        infinite & (rng.random(count) > special),
        values ^ (np.uint64(1) << np.uint64(FRACTION[datatype])),
        values,
    )
    chosen = rng.random(count) < special / 4
    values = np.where(chosen & (kind == 1), exponent | (values & sign), values)
    return values.astype(bits).view(dtype)


@dataclass
class Both:
    """One rank's part of a SUM: the reference's codings, and what is compiled for them."""

    datatype: Datatype
    shared: FixedSum
    params: GroupParams
    fixed: Fixed
    exponents: Exponents
    specials: Specials
    quantized: Quantized

    @classmethod
    def of(cls, datatype: Datatype, values: Any, ranks: int, order: str, target: Any = None) -> Both:
        params = GroupParams(group=1, mode=3, world_size=2, byte_order=order, datatypes=("INT32",))
        buffers = Buffers(values, values if target is None else target)
        shared = FixedSum(FixedPoint(datatype, ranks), buffers, values.size, (3, values.size), "a call")
        fixed = Fixed(shared, order == "big", values.size)
        codings = Exponents(shared, params), Specials(shared, params), Quantized(shared, params)
        return cls(datatype, shared, params, fixed, *codings)

    def know(self, rng: np.random.Generator) -> None:
        """The exponents as they are after phase 1, other ranks having larger values in some blocks."""
        self.exponents.decode(self.exponents.encode(0, self.exponents.size), 0, self.exponents.size)
        some = self.shared.exponents
        zero = some == module.ZERO_BLOCK
        more = rng.integers(0, 3, some.size) * (rng.random(some.size) < 0.4)
        highest = {Datatype.FP16: 16, Datatype.BF16: 128, Datatype.FP32: 128, Datatype.FP64: 1024}
        some[...] = np.where(
            zero & (more == 0), some, np.minimum(np.where(zero, 0, some) + more, highest[self.datatype])
        )

    def quantize(self, start: int, stop: int) -> bytes:
        out = np.empty((stop - start) * self.fixed.wire, np.uint8)
        values = self.shared.buffers.source(start, stop)
        module.quantize_at(self.fixed.address, start, values.ctypes.data, out.ctypes.data, stop - start)
        return out.tobytes()

    def dequantize(self, payload: bytes, start: int, stop: int) -> None:
        words = np.frombuffer(payload, np.uint8)
        target = self.shared.buffers.target(start, stop)
        assert target is not None
        module.dequantize_at(
            self.fixed.address, start, words.ctypes.data, target.ctypes.data, stop - start, stop % 2 == 0
        )


def spans(rng: random.Random, size: int) -> list[tuple[int, int]]:
    """Ranges of elements that begin and end anywhere."""
    cuts = sorted({0, size, *(rng.randrange(size + 1) for _ in range(3))})
    return list(pairwise(cuts))


def sums(both: Both, rng: np.random.Generator, start: int, stop: int) -> Any:
    """Words as they come back: of a few contributions, or as large as words can be, or small, or between two values.

    The last are a whole number and a half of the datatype's last place, and next to that by less than FP32 can tell.
    """
    n = stop - start
    own = np.frombuffer(
        both.quantized.encode(start, stop), ">i4" if both.params.byte_order == "big" else "<i4"
    )
    kind = rng.integers(0, 5, n)[:, None]
    words = own.reshape(n, -1).astype(np.int64)
    most = (1 << 31) - 1
    any_word = rng.integers(-most, most, words.shape)
    digits = min(FRACTION[both.datatype] + 1, 24)
    places = 31 - digits
    between = rng.integers(1 << (digits - 1), 1 << digits, words.shape) << places
    between += (1 << (places - 1)) + rng.integers(-1, 2, words.shape)
    return np.choose(kind, [words, any_word, any_word >> 20, np.zeros_like(words), between]).astype(np.int32)


def check(datatype: Datatype, seed: int) -> None:
    """One random sum: phase 1, quantizing, results and specials."""
    rng, choice = np.random.default_rng([int(datatype), seed]), random.Random(seed)
    order = choice.choice(["big", "little"])
    ranks = choice.choice([1, 2, 3, 4, 7, 100, 127, 128, 1000, 65535])
    size = choice.choice([1, 63, 64, 65, 300, 1000])
    values = floats(datatype, size, rng, choice.choice([0.0, 0.02, 0.5]))
    ours, theirs = np.zeros_like(values), np.zeros_like(values)
    one = Both.of(datatype, values, ranks, order, ours)
    other = Both.of(datatype, values, ranks, order, theirs)

    for start, stop in spans(choice, one.exponents.size):
        assert one.fixed.exponents(one.exponents, start, stop).tobytes() == one.exponents.encode(start, stop)
    for both in (one, other):
        both.know(np.random.default_rng(seed))
        total = both.shared.find_specials()
    for start, stop in spans(choice, total):
        assert one.fixed.specials(start, stop).tobytes() == one.specials.encode(start, stop)
    classes = rng.integers(0, 4, total).astype(np.uint8)
    one.shared.classes[...] = other.shared.classes[...] = classes

    for start, stop in spans(choice, size):
        assert one.quantize(start, stop) == one.quantized.encode(start, stop)
        words = sums(one, rng, start, stop)
        payload = (words.byteswap() if order == "big" else words).tobytes()
        one.dequantize(payload, start, stop)
        one.fixed.put_specials(start, stop)
        other.quantized.decode(payload, start, stop)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("datatype", FLOATS, ids=lambda d: d.name)
def test_all_of_it_is_the_references(datatype: Datatype) -> None:
    for seed in range(60 * SCALE):
        check(datatype, seed)
