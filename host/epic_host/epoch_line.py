"""The line of a rank whose agent changes: by blocks while its path has a fast agent, else cell by cell.

An operation may have begun in one way and go on in the other, in the middle of a block: what was contributed is
repeated cell by cell in any case, and the results of that come as events.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from epic_host.epoch_agent import EpochAgent
from epic_host.line import CellLine, CellOutlet, Line, OnEvents, Outlet
from epic_host.sleeper import Sleeper
from epic_host.transport import Transport
from epic_models.reference.interfaces import Agent, Cell
from epic_models.reference.operation import Operation

if TYPE_CHECKING:
    from epic_host.fast.line import BlockLine


class EpochLine:
    """The line of an EpochAgent. `transport` decides whether a fast agent works in blocks here."""

    def __init__(self, epochs: EpochAgent, transport: Transport, on_events: OnEvents) -> None:
        self._epochs = epochs
        self._transport: Any = transport
        self._on_events = on_events
        self._batches = hasattr(transport, "send_batch")
        self._byte_order = ""
        self._cells = CellLine(epochs, transport, on_events)
        self._blocks: BlockLine | None = None

    @property
    def _line(self) -> Line:
        return self._blocks or self._cells

    @property
    def batch(self) -> int:
        """Cells to contribute before the sockets get their turn again."""
        return self._line.batch

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order, over all epochs."""
        return self._epochs.delivered

    def leave(self) -> None:
        """The path is gone."""
        self._blocks = None

    def resume(self, epoch: int, agent: Agent, base: int, window: int) -> None:
        """Go on through `agent`, as `EpochAgent.resume`. Raises EpicError."""
        now = time.monotonic()
        self._byte_order = getattr(agent, "params").byte_order  # noqa: B009 - not of every Agent, but of those granted
        batches = self._batches and hasattr(agent, "submit_block")
        output = self._epochs.resume(epoch, agent, base, window, now, batches)
        if batches:
            from epic_host.fast.line import BlockLine

            self._blocks = BlockLine(
                cast("Any", self._epochs), self._transport, self._on_events, self._byte_order
            )
            self._repeat()
        else:
            self._cells.put(output, now)

    def _repeat(self) -> None:
        """Contribute again what the window lets through."""
        line = self._blocks
        while line is not None and self._epochs.repeat(line.departures, time.monotonic()):
            line.flush()

    def room(self) -> int:
        """How many cells may be contributed now."""
        return self._epochs.room()

    def outlet(self, operation: Operation) -> Outlet:
        """Before the first cell of an operation."""
        if not self._batches:
            return CellOutlet(operation)
        from epic_host.fast.outlet import Outlet as BlockOutlet

        return BlockOutlet(operation, self._byte_order)

    def contribute(self, outlet: Outlet, limit: int) -> int:
        """Contribute the next cells of an operation, at most `limit`."""
        return self._line.contribute(outlet, limit)

    def stream(self, outlet: Outlet, sleeper: Sleeper, until: float) -> bool:
        """As BlockLine, while the path has a fast agent; what is to be repeated goes before."""
        line = self._blocks
        return line is not None and not self._epochs.repeats and line.stream(outlet, sleeper, until)

    def interrupt(self) -> None:
        """Let `stream` come back soon."""
        if (line := self._blocks) is not None:
            line.interrupt()

    def submit(self, cells: Sequence[Cell]) -> None:
        """Contribute these cells."""
        self._line.submit(cells)

    def flush(self) -> None:
        """Let what was contributed leave."""
        self._line.flush()

    def work(self) -> None:
        """Take what has arrived, run timers that are due, send, and repeat what was contributed before."""
        self._line.work()
        self._repeat()

    def next_deadline(self) -> float | None:
        """When `work` wants to be called next though nothing has arrived, or None."""
        return self._line.next_deadline()

    def forget(self) -> None:
        """Write to no array any more."""
        self._epochs.forget()
