"""The contributions that a rank keeps to go on in another epoch (epic.md, section 10.5; clause EPIC-H-04).

A rank that has delivered a cell must contribute it again when another rank lacks it. Its user's array may hold the
result by then, so what was contributed is kept: all that is outstanding, and the last W before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from epic_models.reference.interfaces import Cell


class History:
    """Contributions by cell number, counted over all epochs.

    `keep`: how many are kept of those delivered, the window of the epoch. That is enough also where the one before had
    a larger one: whoever delivers a cell that it did not have knows that every rank contributed it in this epoch.
    """

    def __init__(self, keep: int = 0) -> None:
        self.keep = keep
        self._cells: deque[Cell] = deque()
        self._first = 0

    @property
    def first(self) -> int:
        """Number of the oldest contribution that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """How many contributions there have been."""
        return self._first + len(self._cells)

    def restart(self, first: int, cells: Sequence[Cell]) -> None:
        """These are the contributions from number `first` on, and there are no more."""
        self._first = first
        self._cells = deque(cells)

    def append(self, cell: Cell) -> None:
        """The next contribution. A payload is copied unless it can never change."""
        if cell.payload is not None and type(cell.payload) is not bytes:
            cell = Cell(cell.imm, bytes(cell.payload))
        self._cells.append(cell)

    def delivered(self, count: int) -> None:
        """`count` results are delivered: let go of what is not needed any more."""
        cells = self._cells
        while cells and self._first < count - self.keep:
            cells.popleft()
            self._first += 1

    def __getitem__(self, number: int) -> Cell:
        """Contribution `number`. Raises LookupError for one that is not kept."""
        if not self._first <= number < self.end:
            raise LookupError(f"contribution {number}, kept are {self._first} to {self.end - 1}")
        return self._cells[number - self._first]
