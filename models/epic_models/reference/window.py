"""The window of an agent: the result clock's W, narrowed by congestion marks (EPIC-A-01, EPIC-H-08)."""

from __future__ import annotations


class CongestionWindow:
    """Additive increase by one cell a window of results, halved at most once a window when a result has CE."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = float(limit)
        self._recover = 0

    @property
    def size(self) -> int:
        """Cells that may be outstanding: 1 to W."""
        return int(self._size)

    def delivered(self, cell: int, next_cell: int, *, congested: bool) -> None:
        """The result of `cell` came, with or without CE; `next_cell` is the next that will be contributed."""
        if not congested:
            self._size = min(float(self._limit), self._size + 1.0 / self._size)
        elif cell >= self._recover:
            # One reaction a window: marks on cells sent before the reduction say nothing new.
            self._size = max(1.0, self._size / 2)
            self._recover = next_cell
