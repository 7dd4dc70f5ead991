"""One collective in progress on one rank: cells out, results in. `collectives.plan` makes it.

Cells go out one at a time (`pull`, `deliver`), or by parts: `take` gives the place of many in the data, which a caller
that works on the arrays itself contributes, and `accept` takes results in bulk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from epic_models.reference.coding import Coding
from epic_models.reference.interfaces import Cell
from epic_models.reference.numerics import Buffer
from epic_spec.errors import MismatchError
from epic_spec.packets import ERR_BIT, NULL_BIT


class Run(NamedTuple):
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


class Part(NamedTuple):
    """`cells` consecutive cells of a run, which are its elements `start` to `stop`.

    Either all of them carry data, or none does, or it is one cell of zeros.
    """

    run: Run
    start: int
    stop: int
    cells: int

    @property
    def zeros(self) -> bool:
        """Whether it is the last cell of a run to which this rank contributes zeros."""
        return self.run.identity and not self.run.sends and self.stop == self.run.stop

    @property
    def imm(self) -> int:
        """The descriptor as it is sent, NULL set where no data is."""
        run = self.run
        return run.imm if run.sends or self.zeros else run.imm | NULL_BIT

    @property
    def length(self) -> int:
        """Bytes of the data of all its cells, one after the other, sent or not."""
        coding = self.run.coding
        return 0 if coding is None else (self.stop - self.start) * coding.element_bytes

    def payloads(self) -> bytes | None:
        """What its cells send, one after the other; None: all are NULL."""
        if self.run.coding is not None and self.run.sends:
            return self.run.coding.encode(self.start, self.stop)
        return bytes(self.length) if self.zeros else None


class _Place:
    """How far one has come in a sequence of runs, each of a cell or more."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._index = 0
        self._start = self._runs[0].start if self._runs else 0

    def take(self, limit: int) -> Part | None:
        """The next part, of at most `limit` cells (1 or more); None at the end."""
        part = self.ahead(limit)
        if part is None:
            return None
        self._start = part.stop
        if part.stop == part.run.stop:
            self._index += 1
            if self._index < len(self._runs):
                self._start = self._runs[self._index].start
        return part

    def ahead(self, limit: int) -> Part | None:
        """What `take` will give."""
        if self._index == len(self._runs):
            return None
        run, start, cells = self._runs[self._index], self._start, 1
        stop = run.stop
        if run.coding is not None:
            each = run.coding.cell_elements
            cells = -(-(stop - start) // each)
            # Zeros are a part of their own.
            apart = run.identity and not run.sends and cells > 1
            if cells > limit or apart:
                cells = min(limit, cells - apart)
                stop = start + cells * each
        return Part(run, start, stop, cells)


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
        self._later = tuple(later)
        self._between = between
        self._stage_end = 0
        self._begin(runs)
        self.total_cells = self._stage_end + sum([run.cell_count() for run in later])

    def _begin(self, runs: Sequence[Run]) -> None:
        some = []
        for run in runs:
            cells = run.cell_count()
            if cells:
                some.append(run)
                self._stage_end += cells
        self._outgoing = _Place(some)
        self._incoming = _Place(some)

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
        part = self.take(1)
        return None if part is None else Cell(part.imm, part.payloads())

    def take(self, limit: int) -> Part | None:
        """The next cells to contribute, at most `limit` (1 or more), or None as `pull`."""
        part = self._outgoing.take(limit) if self.error is None else None
        if part is not None:
            self.cells_pulled += part.cells
        return part

    def ahead(self) -> Part | None:
        """All that `take` can give next, without taking it; None as `pull`."""
        return self._outgoing.ahead(self.total_cells) if self.error is None else None

    def deliver(self, payload: Buffer | None) -> None:
        """The result of this operation's next cell.

        Raises MismatchError when it is not of the length that this rank expects: the ranks disagree in a way
        that the engines could not see. Raises ValueError when no cell is outstanding.
        """
        part = self._next_result(1)
        expected = part.length if part.run.receives else None
        got = None if payload is None else len(payload)
        if got != expected:
            self.error = MismatchError(
                f"ranks disagree: this rank called {self.description}, the result of its cell "
                f"{self.cells_delivered} is {_length(got)}, expected {_length(expected)}"
            )
            raise self.error
        self._accept(part, payload)

    def accept(self, cells: int, payloads: Buffer | None = None) -> None:
        """The results of the next `cells` cells are here, each of the length that this rank expects.

        `payloads` has those that carry data, one after the other; None: where they belong in `coding.arrays`, they are
        already. Raises MismatchError as `deliver`, ValueError when so many are not outstanding.
        """
        at = 0
        while cells:
            part = self._next_result(cells)
            length = part.length if part.run.receives else 0
            self._accept(part, None if payloads is None else memoryview(payloads)[at : at + length])
            at += length
            cells -= part.cells

    def _next_result(self, limit: int) -> Part:
        """The place of the next results, at most `limit`."""
        if self.error is not None:
            raise self.error
        part = None
        if self.cells_delivered < self.cells_pulled:
            part = self._incoming.take(min(limit, self.cells_pulled - self.cells_delivered))
        if part is None:
            raise ValueError(f"result without a cell outstanding in {self.description}")
        return part

    def _accept(self, part: Part, payloads: Buffer | None) -> None:
        run = part.run
        if run.receives and run.coding is not None and payloads is not None:
            try:
                run.coding.decode(payloads, part.start, part.stop)
            except MismatchError as error:
                self.error = error
                raise
        self.cells_delivered += part.cells
        if self.cells_delivered == self._stage_end and self._later:
            extra = tuple(self._between())
            runs, self._later = (*extra, *self._later), ()
            self.total_cells += sum([r.cell_count() for r in extra])
            self._begin(runs)

    def poison(self) -> Cell | None:
        """Fail this operation and give a cell with ERR to contribute in place of its next one.

        With it every other rank fails at once, with MismatchError, instead of waiting for this one. None when
        all cells have been pulled.
        """
        part = self._outgoing.take(1)
        run = part.run if part is not None else next(iter(self._later), None)
        if self.error is None:
            self.error = MismatchError(f"{self.description} was given up by this rank")
        return None if run is None else Cell(run.imm | NULL_BIT | ERR_BIT, None)


def _length(length: int | None) -> str:
    return "NULL" if length is None else f"{length} bytes"
