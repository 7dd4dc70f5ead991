"""Operands for the floating-point units: tables of special values, and random pairs where rounding goes wrong."""

from __future__ import annotations

import numpy as np

# Every kind of binary32, the two ends of every range, and values whose sums are halfway between two others.
SPECIAL = np.array(
    [
        0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x000FFFFF, 0x00400000, 0x007FFFFE, 0x007FFFFF,  # subnormal
        0x00800000, 0x00800001, 0x00800002, 0x00FFFFFF, 0x01000000, 0x01000001, 0x017FFFFF, 0x01800000,  # just normal
        0x32FFFFFF, 0x33000000, 0x33000001, 0x337FFFFF, 0x33800000, 0x33800001, 0x33FFFFFF, 0x34000000,  # 2^-25, 2^-24
        0x3F000000, 0x3F7FFFFE, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F800002, 0x3FFFFFFF, 0x40000000,  # about 1
        0x4AFFFFFF, 0x4B000000, 0x4B000001, 0x4B7FFFFF, 0x4B800000, 0x4B800001, 0x4BFFFFFF, 0x4C000000,  # 2^23, 2^24
        0x72FFFFFF, 0x73000000, 0x73000001, 0x737FFFFF, 0x73800000, 0x73800001,  # half an ulp of the greatest number
        0x7E800000, 0x7EFFFFFF, 0x7F000000, 0x7F000001, 0x7F7FFFFE, 0x7F7FFFFF,  # the greatest numbers
        0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF,  # infinity, NaN signalling and quiet
        # what binary16 and bfloat16 round at: halfway cases, greatest, least
        0x3F808000, 0x3F808001, 0x3F807FFF, 0x3F818000, 0x3F801000, 0x3F803000, 0x3F801001, 0x477FE000, 0x477FEFFF,
        0x477FF000, 0x477FF001, 0x47800000, 0x7F7F7FFF, 0x7F7F8000, 0x38800000, 0x387FE000, 0x387FF000, 0x387FEFFF,
        0x33000001, 0x32FFFFFF, 0x33C00000, 0x33BFFFFF, 0x33C00001, 0x34200000, 0x00008000, 0x00008001, 0x00018000,
    ],
    np.uint32,
)  # fmt: skip


def special() -> np.ndarray:
    """The table with both signs."""
    return np.concatenate([SPECIAL, SPECIAL | np.uint32(0x80000000)])


def special_pairs() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(special(), special())
    return a.ravel(), b.ravel()


def random_words(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 1 << 32, n, dtype=np.uint32)


def near_pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponents at most 30 apart, at all heights: what uniform words give in a few of a hundred pairs only."""
    exponent = rng.integers(0, 255, n)
    other = np.clip(exponent + rng.integers(-30, 31, n), 0, 254)
    a, b = random_words(rng, n), random_words(rng, n)
    return _with_exponent(a, exponent), _with_exponent(b, other)


def cancelling_pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """b is -a but for a few last places, or a's neighbour one exponent away: long normalizing shifts."""
    a = _with_exponent(random_words(rng, n), rng.integers(0, 255, n))
    step = rng.integers(-8, 9, n) << rng.integers(0, 21, n)
    b = (a ^ np.uint32(0x80000000)).astype(np.int64) + step
    return a, (b & 0xFFFFFFFF).astype(np.uint32)


def halfway_pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The smaller operand is a power of two or a neighbour of one, near half an ulp of the greater."""
    exponent = rng.integers(0, 255, n)
    a = _with_exponent(random_words(rng, n), exponent)
    below = np.clip(exponent - rng.integers(20, 28, n), 0, 254)
    fraction = np.array([0, 0, 0, 1, 0x7FFFFF, 0x400000, 0x3FFFFF, 0x400001])[rng.integers(0, 8, n)]
    b = (rng.integers(0, 2, n) << 31 | below << 23 | fraction).astype(np.uint32)
    return a, b


def sparse_pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Fractions of runs of zeros and ones: long carries, and ties after alignment."""
    a, b = near_pairs(rng, n)
    for words in (a, b):
        run = np.left_shift(0x7FFFFF, rng.integers(0, 24, n)) & 0x7FFFFF
        run = np.where(rng.integers(0, 2, n) == 1, run, run ^ 0x7FFFFF).astype(np.uint32)
        words[:] = (words & np.uint32(0xFF800000)) | run
    return a, b


def pairs(seed: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """All of the above: `each` pairs of each of five random kinds behind the table of special values."""
    rng = np.random.default_rng(seed)
    kinds = [
        special_pairs(),
        (random_words(rng, each), random_words(rng, each)),
        near_pairs(rng, each),
        cancelling_pairs(rng, each),
        halfway_pairs(rng, each),
        sparse_pairs(rng, each),
    ]
    return np.concatenate([k[0] for k in kinds]), np.concatenate([k[1] for k in kinds])


def _with_exponent(words: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    return ((words & np.uint32(0x807FFFFF)) | (exponent.astype(np.uint32) << np.uint32(23))).astype(np.uint32)
