"""Serial arithmetic modulo 2^24 (the idea of RFC 1982) for PSNs and cell numbers: EPIC-W-15, EPIC-W-16."""

from __future__ import annotations

MODULUS = 1 << 24
MASK = MODULUS - 1
HALF = MODULUS >> 1


def add(psn: int, n: int) -> int:
    """`psn` advanced by `n` (which may be negative), modulo 2^24."""
    return (psn + n) & MASK


def diff(a: int, b: int) -> int:
    """Signed distance from `b` to `a`, in [-2^23, 2^23): positive when `a` is newer."""
    return ((a - b + HALF) & MASK) - HALF


def nearest(value: int, around: int) -> int:
    """The unbounded number congruent to `value` modulo 2^24 that is nearest to the unbounded `around`."""
    return around + diff(value, around & MASK)
