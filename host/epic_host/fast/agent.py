"""What the fast agents of all modes share: `epic_models.reference.agent.AgentBase` over arrays, and blocks.

Realizes EPIC-A-01, EPIC-A-03, EPIC-H-01 to EPIC-H-08 and EPIC-F-03.
"""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from collections.abc import Sequence
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast import landing, rto, window
from epic_host.fast.blocks import Block
from epic_host.fast.frames import PARENT, RIGHT, Arrivals, Departures
from epic_host.fast.groups import memory
from epic_host.fast.landing import AGENT, CELL, DELIVER, EVENT, KEEP, NONE, SUPPLY
from epic_host.fast.node import FastNode
from epic_host.fast.pump import DUE_AT, FEED, Kernels
from epic_host.fast.world import World
from epic_models.reference.agent import STALL_FRACTION
from epic_models.reference.cells import unpack_record
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Output, Stalled
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT

# Departures that an arrival may cause beside what is outstanding: an acknowledgement.
_ANSWERS: Final = 1


class FastAgent(FastNode):
    """One rank's end of one tree, for blocks and batches and for cells and packets.

    A mode adds its kernels. Memory is taken here, once: 2W cells of payload (P5).
    """

    def __init__(self, group: RankGroup) -> None:
        super().__init__()
        self.group = group
        self.params = params = group.params
        self._stall = params.deadline_us * 1e-6 * STALL_FRACTION
        rows = 2 * params.window
        self._agent = np.zeros(1, AGENT)
        self._agent["edge"] = self.edges.add(group.edge, params, 0, PARENT)
        self._agent["newest"], self._agent["timer"], self._agent["mask"] = -1, inf, rows - 1
        window.reset(self._agent, params.window)
        rto.reset(self._agent, params)
        # Views of single fields: they are asked for several times a collective.
        self._next, self._delivered = self._agent["next"], self._agent["delivered"]
        self._size, self._timer, self._progress = (self._agent[n] for n in ("size", "timer", "progress"))
        self._ring = np.zeros(rows, CELL)
        self._supply = np.zeros(1, SUPPLY)
        self._store, address = memory(rows * params.payload_bytes)
        self._bodies = address + np.arange(rows, dtype=np.uint64) * np.uint64(params.payload_bytes)
        self._ring["body"] = self._bodies
        # Payloads of cells that are longer than the store's rows, by row: no plan makes them.
        self._long: dict[int, NDArray[np.uint8]] = {}
        self._event_records = np.zeros(params.window + 1, EVENT)
        self._event_count = np.zeros(1, np.int64)
        # Payloads of results that came before their turn and did not land, by cell.
        self._early: dict[int, bytes | None] = {}

    # ------------------------------------------------------------------------------------------- what a mode adds

    @abstractmethod
    def _start(self, world: World, count: int, now: float) -> None:
        """Send the next `count` cells, which are in the ring, for the first time."""

    @abstractmethod
    def _handle(self, world: World, arena: int, first: int, stop: int, now: float) -> int:
        """Handle admitted frames, as `_work`, until departures or events have no room for what one more may cause."""

    @abstractmethod
    def _expire(self, world: World, now: float) -> bool:
        """The timer is due. False when the departures have to be sent first."""

    # ------------------------------------------------------------------------------------------- window

    @property
    def burst(self) -> int:
        """Departures that one frame or one timer may cause: all that is outstanding."""
        return self.params.window + _ANSWERS

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""
        return int(self._delivered.item())

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""
        return int(self._next.item() - self._delivered.item())

    def room(self) -> int:
        """How many cells can be submitted now: the result clock (EPIC-A-01) and the congestion window."""
        return max(0, int(self._size.item()) - self.outstanding)

    # ------------------------------------------------------------------------------------------- out

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`."""
        _, departures = self._single()
        self.submit_cells(cells, departures, now)
        output = Output()
        self._collect(departures, output)
        return output

    def submit_cells(self, cells: Sequence[Cell], departures: Departures, now: float) -> None:
        """Contribute the next cells; their results are events with payloads.

        Raises ValueError for more than `room()`, or than `departures` have room for.
        """
        self._check_room(len(cells), departures)
        self._begin(departures)
        first = self._next.item()
        for number, cell in enumerate(cells, first):
            self._place(number, len(cell.payload or b""))
        lengths = np.array([NONE if c.payload is None else len(c.payload) for c in cells], np.int64)
        imms = np.array([c.imm for c in cells], np.uint32)
        payloads = b"".join(c.payload for c in cells if c.payload is not None)
        source = np.frombuffer(payloads, np.uint8)
        world = self._world(departures)
        landing.enter_cells(world.address, imms, lengths, source.ctypes.data)
        self._start(world, len(cells), now)

    def submit_block(self, block: Block, departures: Departures, now: float) -> None:
        """Contribute the cells of a block, whose source may change afterwards.

        Results that are as the block expects land in its sink, in any order, and are no events. Any other is, in its
        turn: CellFailed as always, or CellDelivered with a payload of a length that was not expected.

        Raises ValueError for more than `room()` cells or than `departures` have room for, for longer ones than the
        group's, and for a block that makes no sense.
        """
        self._check_room(block.cells, departures)
        if block.cell_bytes > self.params.payload_bytes:
            raise ValueError(
                f"block with cells of {block.cell_bytes} bytes, expected at most {self.params.payload_bytes}"
            )
        self._begin(departures)
        if self._long:
            first = self._next.item()
            for number in range(first, first + block.cells):
                self._place(number, block.cell_bytes)
        world = self._world(departures)
        self._offer(world, block)
        entered = landing.feed(world.address, block.cells)
        assert entered == block.cells
        self._supply["cells"] = 0
        self._start(world, entered, now)

    def supply(self, block: Block, departures: Departures) -> bool:
        """Let whoever runs the agent's `kernels` contribute the cells of a block as the window takes them.

        Until `supplied` nothing else may be contributed, and the source stays as it is. False: the block has to be
        submitted by parts. Raises ValueError as `submit_block`.
        """
        if self._long or block.cell_bytes > self.params.payload_bytes:
            return False
        self._offer(self._world(departures), block)
        return True

    def supplied(self) -> int:
        """How many cells of the last `supply` were contributed; there will be no more of them."""
        count = int(self._supply["taken"][0])
        self._supply["cells"] = self._supply["taken"] = 0
        return count

    def _offer(self, world: World, block: Block) -> None:
        """Make a block the supply. Raises ValueError for one that makes no sense."""
        coding = block.coding
        if coding is not None:
            block.check()
        self._supply[0] = (
            block.source, block.sink, 0 if coding is None else coding.address, block.element, block.cells, 0,
            block.cell_bytes, block.last_bytes, block.swap, block.sink_swap,
            1 if coding is None else coding.item, 1 if coding is None else coding.wire,
            block.imm, block.expect, block.streams,
        )  # fmt: skip
        if not landing.sensible(world.address):
            self._supply["cells"] = 0
            block.check()

    def _check_room(self, cells: int, departures: Departures) -> None:
        if cells > self.room():
            raise ValueError(f"submit: {cells} cells, expected at most {self.room()}")
        free = len(departures.body) - int(departures.count[0])
        if cells > free:
            raise ValueError(
                f"submit: {cells} cells, expected at most {free}, for departures have no more room"
            )

    def _place(self, number: int, length: int) -> None:
        """Where the payload of a cell is kept: in its row of the store, or by itself when it is longer."""
        row = number & len(self._ring) - 1
        if length > self.params.payload_bytes:
            self._long[row], self._ring["body"][row] = memory(length + 3)
        elif self._long.pop(row, None) is not None:
            self._ring["body"][row] = self._bodies[row]

    def kept(self) -> list[Cell]:
        """The contributions that are kept (EPIC-H-04), the newest last: the last W delivered, and all outstanding."""
        first = max(0, self.delivered - self.params.window)
        rows = [self._ring[n & len(self._ring) - 1] for n in range(first, self.delivered + self.outstanding)]
        return [Cell(int(c["imm"]), _payload(int(c["body"]), int(c["length"]))) for c in rows]

    def forget(self) -> None:
        """Never write to a sink again; results of blocks that are outstanding land nowhere. A supply ends."""
        self._ring["sink"] = 0
        self._supply["cells"] = self._supply["taken"]

    # ------------------------------------------------------------------------------------------- in

    def _admit(self, arrivals: Arrivals, first: int) -> None:
        if self.params.icrc == "none":
            # An agent has one group, so nobody's frames are looked at either.
            arrivals.records["icrc"][first : arrivals.count] = RIGHT
        super()._admit(arrivals, first)

    def _kernels(self, work: int, start: int, address: int, cells: int) -> Kernels:
        """Those of a mode, which work on the world at an `address`, with what all agents have; `cells` is `_world`."""
        return Kernels(
            work,
            address,
            due=DUE_AT.address(landing.due),
            cells=cells,
            feed=FEED.address(landing.feed),
            start=start,
            attention=self._event_count.ctypes.data,
            trusted=self.params.icrc == "none",
        )

    def _work(self, arena: int, first: int, stop: int, departures: Departures, now: float) -> int:
        world = self._world(departures)
        while True:
            reached = self._handle(world, arena, first, stop, now)
            self.settle()
            if reached in (first, stop):
                return reached
            # It may have been the events that had no room; now they have.
            first = reached

    def _make_world(self, departures: World) -> World:
        return landing.WORLD.make(
            agent=self._agent,
            ring=self._ring,
            supply=self._supply,
            events=self._event_records,
            event_count=self._event_count,
            edges=self.edges.rows,
            frames=self._frames,
            counters=self._counters,
            generation=self._generation,
            departures=departures,
        )

    def settle(self) -> None:
        """Turn what a kernel reported into events, while the memory of the arrivals is still theirs."""
        if not self._event_count[0]:
            return
        for event in self._event_records[: self._event_count[0]]:
            cell = int(event["cell"])
            if event["kind"] == KEEP:
                self._early[cell] = self._came(event)
            else:
                payload = self._came(event) if event["kind"] == DELIVER else self._early.pop(cell)
                self._events.append(self._event(cell, int(event["sent"]), int(event["imm"]), payload))
        self._event_count[0] = 0

    @staticmethod
    def _came(event: Any) -> bytes | None:
        return _payload(int(event["address"]), int(event["length"])) or None

    def _event(self, cell: int, sent: int, imm: int, payload: bytes | None) -> CellDelivered | CellFailed:
        if imm & ERR_BIT or imm & AGREEMENT_MASK != sent & AGREEMENT_MASK:
            return CellFailed(cell, sent, imm & AGREEMENT_MASK, unpack_record(imm, payload, self.params))
        return CellDelivered(cell, imm, None if imm & NULL_BIT else payload)

    # ------------------------------------------------------------------------------------------- time

    def poll_batch(self, departures: Departures, now: float) -> None:
        """Run the timers that are due, the stall clock included."""
        self._begin(departures)
        if self._timer.item() <= now and not self._expire(self._world(departures), now):
            return
        # As in `next_deadline`: rounding must not make the two differ.
        progress = self._progress.item()
        if self.outstanding and progress + self._stall <= now:
            self._events.append(Stalled(self.delivered, now - progress))
            self._progress[0] = now

    def next_deadline(self) -> float | None:
        """When `poll` or `poll_batch` wants to be called next, or None."""
        deadline: float = self._timer.item()
        if self.outstanding:
            deadline = min(deadline, self._progress.item() + self._stall)
        return None if deadline == inf else deadline


def _payload(address: int, length: int) -> bytes | None:
    """A payload in memory; None for NONE bytes."""
    return None if length == NONE else ctypes.string_at(address, length) if length else b""
