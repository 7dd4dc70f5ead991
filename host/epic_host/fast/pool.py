"""Rows of one array for many owners: each takes a range and gives it back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LEAST: Final = 8


class Pool:
    """An array of records that grows. `records` is replaced when it does; ranges stay where they are."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.records: NDArray[Any] = np.zeros(_LEAST, dtype)
        # Free ranges (first, count) in order, no two of them adjacent.
        self._free: list[tuple[int, int]] = [(0, _LEAST)]

    @property
    def free(self) -> int:
        """Rows that nobody has."""
        return sum(count for _, count in self._free)

    def take(self, count: int) -> int:
        """The first of `count` rows of zeros, the caller's from now on; any number for none."""
        if not count:
            return 0
        for i, (first, size) in enumerate(self._free):
            if size >= count:
                self._free[i : i + 1] = [(first + count, size - count)] if size > count else []
                self.records[first : first + count] = 0
                return first
        self._grow(count)
        return self.take(count)

    def give(self, first: int, count: int) -> None:
        """Give rows back, all of a range that was taken."""
        if not count:
            return
        merged: list[tuple[int, int]] = []
        for start, size in sorted([*self._free, (first, count)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((start, size))
        self._free = merged

    def _grow(self, count: int) -> None:
        old = len(self.records)
        more = max(old, count)
        self.records = np.concatenate([self.records, np.zeros(more, self.records.dtype)])
        self.give(old, more)
