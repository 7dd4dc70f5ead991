"""A fast agent and its transport: cells travel in blocks of users' memory, frames in batches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Protocol

from epic_host.fast.blocks import Block
from epic_host.fast.driver import BatchLoop, BatchNode
from epic_host.fast.frames import Departures
from epic_host.fast.outlet import Outlet
from epic_host.fast.udp import FastUdpTransport
from epic_host.line import OnEvents
from epic_host.line import Outlet as AnyOutlet
from epic_host.sleeper import Sleeper
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell
from epic_models.reference.operation import Operation

# Cells taken before the sockets get their turn again.
_BATCH: Final = 256


class BlockAgent(BatchNode, Protocol):
    """A fast agent. `EpochAgent` is one too, while its path has one."""

    params: GroupParams

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""

    def room(self) -> int:
        """How many cells may be contributed now."""

    def submit_block(self, block: Block, departures: Departures, now: float) -> None:
        """Contribute the next cells from memory. Raises ValueError for more than `room()` or room in `departures`."""

    def submit_cells(self, cells: Sequence[Cell], departures: Departures, now: float) -> None:
        """Contribute the next cells; their results are events. Raises ValueError as `submit_block`."""

    def supply(self, block: Block, departures: Departures) -> bool:
        """Contribute a block's cells as the window takes them, until `supplied`. False: only by parts."""

    def supplied(self) -> int:
        """How many cells of the last `supply` were contributed; there will be no more of them."""

    def forget(self) -> None:
        """Write to no sink any more."""


class BlockLine:
    """The line of a fast agent; `byte_order` is the group's."""

    batch: Final = _BATCH

    def __init__(
        self, agent: BlockAgent, transport: FastUdpTransport, on_events: OnEvents, byte_order: str
    ) -> None:
        self._agent = agent
        self._byte_order = byte_order
        self._loop = BatchLoop(agent, transport, on_events)
        self.work = self._loop.work
        self.next_deadline = self._loop.next_deadline
        self.room = agent.room
        self.forget = agent.forget
        self.interrupt = self._loop.interrupt

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""
        return self._agent.delivered

    @property
    def departures(self) -> Departures:
        """What `flush` sends; who queues something there sees to the room."""
        return self._loop.departures

    def outlet(self, operation: Operation) -> Outlet:
        """Before the first cell of an operation."""
        return Outlet(operation, self._byte_order)

    def contribute(self, outlet: AnyOutlet, limit: int) -> int:
        """Contribute the next cells of an operation, at most `limit`."""
        assert isinstance(outlet, Outlet)
        queue = self._loop.departures
        free = len(queue.body) - int(queue.count[0])
        if free < limit:
            self.flush()
        block = outlet.next(limit)
        if block is None:
            return 0
        self._agent.submit_block(block, queue, time.monotonic())
        return block.cells

    def stream(self, outlet: AnyOutlet, sleeper: Sleeper, until: float) -> bool:
        """Contribute and take results as they come, asleep in `sleeper` between; back in a moment, or when `until` is.

        False: nothing has come lately, or it cannot be done with what the operation has next.
        """
        assert isinstance(outlet, Outlet)
        loop, agent = self._loop, self._agent
        block = outlet.ahead() if loop.pumps else None
        if block is None or not agent.supply(block, loop.departures):
            return False
        came = loop.stream(until, sleeper.fileno(), sleeper.wake_fd, lambda: outlet.advance(agent.supplied()))
        loop.run_due()
        return came

    def submit(self, cells: Sequence[Cell]) -> None:
        """Contribute these cells."""
        self._agent.submit_cells(cells, self._loop.departures, time.monotonic())
        self.flush()

    def flush(self) -> None:
        """Let what was contributed leave."""
        self._loop.flush(time.monotonic())
