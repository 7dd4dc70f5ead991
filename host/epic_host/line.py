"""An agent and its transport: how the cells of operations travel."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from epic_host.driver import Loop
from epic_host.sleeper import Sleeper
from epic_host.transport import Transport
from epic_models.reference.interfaces import Agent, Cell, Event
from epic_models.reference.operation import Operation

if TYPE_CHECKING:
    # They need numba, which the reference data path never imports.
    from epic_host.fast.line import BlockAgent
    from epic_host.fast.udp import FastUdpTransport

OnEvents = Callable[[Sequence[Event]], None]

# Cells taken before the sockets get their turn again.
_BATCH: Final = 64


class Outlet(Protocol):
    """One operation's way into a line and back. A line may change under it (see `EpochLine`)."""

    def pull(self) -> Cell | None:
        """The next cell to contribute, or None as `Operation.pull`; its result is an event."""

    def landed(self, cells: int) -> None:
        """The next `cells` results are in memory, as expected.

        Raises MismatchError where they say that the ranks disagree.
        """

    def deliver(self, payload: bytes | None) -> None:
        """The next result is this one. Raises MismatchError as `Operation.deliver`."""


class Line(Protocol):
    """What a runtime needs of an agent with its transport. Nothing waits; one thread at a time.

    Results come one by one, as events, or in bulk: those that `delivered` counts beyond the events have landed.
    """

    @property
    def batch(self) -> int:
        """Cells to contribute before the sockets get their turn again."""

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order; less, where all of them are events."""

    def room(self) -> int:
        """How many cells may be contributed now."""

    def outlet(self, operation: Operation) -> Outlet:
        """Before the first cell of an operation."""

    def contribute(self, outlet: Outlet, limit: int) -> int:
        """Contribute the next cells of an operation, at most `limit`, which is within `room`.

        How many there were; 0 when there is none yet, or none any more.
        """

    def stream(self, outlet: Outlet, sleeper: Sleeper, until: float) -> bool:
        """Contribute and take results as they come, asleep in `sleeper` between; back in a moment, or when `until` is.

        False: nothing has come lately, or it cannot be done with what the operation has next, or not at all.
        """

    def interrupt(self) -> None:
        """Let `stream` come back soon. From any thread; it does not end a sleep."""

    def submit(self, cells: Sequence[Cell]) -> None:
        """Contribute these cells, within `room`."""

    def flush(self) -> None:
        """Let what was contributed leave."""

    def work(self) -> None:
        """Take what has arrived, run timers that are due, send."""

    def next_deadline(self) -> float | None:
        """When `work` wants to be called next though nothing has arrived, or None."""

    def forget(self) -> None:
        """Write to no array any more."""


class CellOutlet:
    """For lines whose results are all events."""

    def __init__(self, operation: Operation) -> None:
        self.pull = operation.pull
        self.deliver = operation.deliver
        self.landed = operation.accept


class CellLine:
    """Any agent, over any transport: cell by cell, packet by packet."""

    batch: Final = _BATCH

    def __init__(self, agent: Agent, transport: Transport, on_events: OnEvents) -> None:
        self._agent = agent
        self._loop = Loop(agent, transport, on_events)
        self.put = self._loop.put
        self.work = self._loop.work
        self.next_deadline = self._loop.next_deadline
        self.room = agent.room

    @property
    def delivered(self) -> int:
        """Nothing lands: all that is delivered is in events."""
        return 0

    def outlet(self, operation: Operation) -> CellOutlet:
        """Before the first cell of an operation."""
        return CellOutlet(operation)

    def contribute(self, outlet: Outlet, limit: int) -> int:
        """Contribute the next cells of an operation, at most `limit`."""
        cells: list[Cell] = []
        while len(cells) < limit and (cell := outlet.pull()) is not None:
            cells.append(cell)
        if cells:
            self.submit(cells)
        return len(cells)

    def stream(self, outlet: Outlet, sleeper: Sleeper, until: float) -> bool:
        """Cells go out one by one."""
        return False

    def interrupt(self) -> None:
        """Nothing to come back from."""

    def submit(self, cells: Sequence[Cell]) -> None:
        """Contribute these cells."""
        now = time.monotonic()
        self.put(self._agent.submit(cells, now), now)

    def flush(self) -> None:
        """It has left already."""

    def forget(self) -> None:
        """It never writes to arrays."""


def make_line(agent: Agent, transport: Transport, on_events: OnEvents) -> Line:
    """The line of an agent: by blocks and batches where both can, else by cells and packets."""
    if hasattr(agent, "submit_block") and hasattr(transport, "send_batch"):
        from epic_host.fast.line import BlockLine

        block_agent = cast("BlockAgent", agent)
        return BlockLine(
            block_agent, cast("FastUdpTransport", transport), on_events, block_agent.params.byte_order
        )
    return CellLine(agent, transport, on_events)
