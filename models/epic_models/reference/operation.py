"""One collective in progress on one rank: cells out, results in. `collectives.plan` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from epic_models.reference.coding import Coding
from epic_models.reference.interfaces import Cell
from epic_spec.errors import MismatchError
from epic_spec.packets import ERR_BIT, NULL_BIT


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive cells that share a descriptor. Without a coding it is one NULL cell with a NULL result.

    `sends`: this rank's contributions carry data; `receives`: its results do; `identity`: a rank that sends
    no data sends zeros in the last cell.
    """

    imm: int
    coding: Coding | None = None
    start: int = 0
    stop: int = 0
    sends: bool = False
    receives: bool = False
    identity: bool = False

    def cell_count(self) -> int:
        """How many cells the run has."""
        return 1 if self.coding is None else -(-(self.stop - self.start) // self.coding.cell_elements)

    def cells(self) -> Iterator[tuple[Run, int, int]]:
        """(run, first element, end) of each cell."""
        if self.coding is None:
            yield self, self.start, self.stop
            return
        for start in range(self.start, self.stop, self.coding.cell_elements):
            yield self, start, min(start + self.coding.cell_elements, self.stop)


class Operation:
    """One collective in progress on one rank: cells out, results in.

    `primitive` is the public name, `description` words the call. `total_cells` is final once the first stage
    is done: infinities and NaNs in a fixed-point SUM add cells. `error` is the MismatchError that ended it.
    """

    def __init__(
        self,
        primitive: str,
        description: str,
        runs: Sequence[Run],
        later: Sequence[Run] = (),
        between: Callable[[], Sequence[Run]] = lambda: (),
    ) -> None:
        self.primitive = primitive
        self.description = description
        self.error: MismatchError | None = None
        self.cells_pulled = 0
        self.cells_delivered = 0
        self.total_cells = sum(r.cell_count() for r in (*runs, *later))
        self._later = tuple(later)
        self._between = between
        self._stage_end = 0
        self._begin(runs)

    def _begin(self, runs: Sequence[Run]) -> None:
        self._stage_end += sum(r.cell_count() for r in runs)
        self._outgoing = (cell for run in runs for cell in run.cells())
        self._incoming = (cell for run in runs for cell in run.cells())

    @property
    def pulled_all(self) -> bool:
        """Whether no further cell will come."""
        return self.cells_pulled == self.total_cells and not self._later

    @property
    def finished(self) -> bool:
        """Whether every result has been delivered."""
        return self.cells_delivered == self.total_cells and not self._later

    def pull(self) -> Cell | None:
        """The next cell to contribute, or None: all pulled, results to be waited for, or failed."""
        step = next(self._outgoing, None) if self.error is None else None
        if step is None:
            return None
        self.cells_pulled += 1
        run, start, stop = step
        if run.coding is not None:
            if run.sends:
                return Cell(run.imm, run.coding.encode(start, stop))
            if run.identity and stop == run.stop:
                return Cell(run.imm, bytes((stop - start) * run.coding.element_bytes))
        return Cell(run.imm | NULL_BIT, None)

    def deliver(self, payload: bytes | None) -> None:
        """The result of this operation's next cell.

        Raises MismatchError when it is not of the length that this rank expects: the ranks disagree in a way
        that the engines could not see. Raises ValueError when no cell is outstanding.
        """
        if self.error is not None:
            raise self.error
        if self.cells_delivered == self.cells_pulled:
            raise ValueError(f"result without a cell outstanding in {self.description}")
        run, start, stop = next(self._incoming)
        coding = run.coding if run.receives else None
        expected = None if coding is None else (stop - start) * coding.element_bytes
        got = None if payload is None else len(payload)
        try:
            if got != expected:
                raise MismatchError(
                    f"ranks disagree: this rank called {self.description}, the result of its cell "
                    f"{self.cells_delivered} is {_length(got)}, expected {_length(expected)}"
                )
            if coding is not None and payload is not None:
                coding.decode(payload, start, stop)
        except MismatchError as error:
            self.error = error
            raise
        self.cells_delivered += 1
        if self.cells_delivered == self._stage_end and self._later:
            extra = tuple(self._between())
            runs, self._later = (*extra, *self._later), ()
            self.total_cells += sum(r.cell_count() for r in extra)
            self._begin(runs)

    def poison(self) -> Cell | None:
        """Fail this operation and give a cell with ERR to contribute in place of its next one.

        With it every other rank fails at once, with MismatchError, instead of waiting for this one. None when
        all cells have been pulled.
        """
        step = next(self._outgoing, None)
        run = step[0] if step is not None else next(iter(self._later), None)
        if self.error is None:
            self.error = MismatchError(f"{self.description} was given up by this rank")
        return None if run is None else Cell(run.imm | NULL_BIT | ERR_BIT, None)


def _length(length: int | None) -> str:
    return "NULL" if length is None else f"{length} bytes"
