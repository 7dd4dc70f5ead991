"""Named deadlines in order of time; setting one again moves it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

Name = tuple[Any, ...]


class Timers:
    """A heap of (time, name); what was moved or cleared is skipped when it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Name]] = []
        self._at: dict[Name, tuple[float, int]] = {}
        self._order = itertools.count()

    def set(self, name: Name, at: float) -> None:
        """Ring at `at`, and not when it was set to before."""
        order = next(self._order)
        self._at[name] = at, order
        heapq.heappush(self._heap, (at, order, name))

    def sooner(self, name: Name, at: float) -> None:
        """Ring at `at` or when it was set to before, whichever is earlier."""
        if name not in self._at or at < self._at[name][0]:
            self.set(name, at)

    def clear(self, name: Name) -> None:
        """Do not ring."""
        self._at.pop(name, None)

    def delay(self, kinds: frozenset[str], by: float) -> None:
        """Ring later: all whose name begins with one of these."""
        for name, (at, _) in list(self._at.items()):
            if name[0] in kinds:
                self.set(name, at + by)

    def __contains__(self, name: Name) -> bool:
        return name in self._at

    def __len__(self) -> int:
        return len(self._at)

    def due(self, now: float) -> Iterator[Name]:
        """Names whose time has come, earliest first, each taken out before it is given.

        One that is set again to `now` or before while they are gone through waits for the next call.
        """
        last = next(self._order)
        later = []
        while (head := self._head()) is not None and head[0] <= now:
            entry = heapq.heappop(self._heap)
            if entry[1] > last:
                later.append(entry)
                continue
            del self._at[entry[2]]
            yield entry[2]
        for entry in later:
            heapq.heappush(self._heap, entry)

    def next(self) -> float | None:
        """When the first one rings."""
        head = self._head()
        return None if head is None else head[0]

    def _head(self) -> tuple[float, int, Name] | None:
        while self._heap:
            at, order, name = self._heap[0]
            if self._at.get(name) == (at, order):
                return self._heap[0]
            heapq.heappop(self._heap)
        return None
