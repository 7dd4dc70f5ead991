"""Randomness that does not hang on the order of events: each draw is a function of seed, job and count."""

from __future__ import annotations

import math
from typing import Final

KINDS: Final = ("exponential", "uniform", "pareto")
# Shape of the Pareto distribution (of the second kind): heavy, with a finite variance.
_SHAPE: Final = 2.5
_MASK: Final = (1 << 64) - 1


def uniform(seed: int, *parts: int) -> float:
    """A number in (0, 1) that the numbers give: splitmix64 (Steele, Lea, Flood: Fast splittable generators, 2014)."""
    x = seed & _MASK
    for part in parts:
        x = ((x ^ part) + 0x9E3779B97F4A7C15) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        x ^= x >> 31
    return ((x >> 11) + 0.5) / (1 << 53)


def slowest(kind: str, mean: float, ranks: int, u: float) -> float:
    """The largest of `ranks` independent delays of a kind with this mean, from one uniform draw.

    With F the distribution of one, F^n is that of the largest, so u^(1/n) is put into F's inverse.
    """
    # 1 - u^(1/n), which would lose its digits for many ranks.
    above = -math.expm1(math.log(u) / ranks)
    if kind == "exponential":
        return -mean * math.log(above)
    if kind == "uniform":
        return 2.0 * mean * (1.0 - above)
    return mean * (_SHAPE - 1.0) * math.expm1(-math.log(above) / _SHAPE)
