"""The rank that is an RC endpoint, in batches: hosts of Mode II, and of Mode III with ACK reflection.

Its rules: rc_agent_kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_host.fast import rc
from epic_host.fast.agent import FastAgent
from epic_host.fast.frames import Departures
from epic_host.fast.pump import START, WORK, Kernels
from epic_host.fast.rc_agent_kernels import WORLD, expire, start, work
from epic_host.fast.world import World
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import Cell, EdgeFailed


class FastRcAgent(FastAgent):
    """Contributions go out through a requester, results come in through a responder. A cell is one packet."""

    def __init__(self, group: RankGroup) -> None:
        super().__init__(group)
        rows = len(self._ring)
        self._ends = np.zeros(1, rc.END)
        self._flights = np.zeros(rows, rc.FLIGHT)
        self._messages = np.zeros(rows, rc.MESSAGE)
        self._messages["rank"] = -1
        self._ranks = np.zeros(1, np.int32)
        self._end = self._ends[0]
        rc.reset(
            self._end,
            group.params,
            edge=int(self._agent["edge"][0]),
            group=0,
            child=-1,
            first_time="tx_contribution",
            patient=group.params.ack_reflection,
        )
        self._end["mask"] = rows - 1
        self._told = False
        self._rc_world: World | None = None

    def submit_cells(self, cells: Sequence[Cell], departures: Departures, now: float) -> None:
        """Contribute the next cells; their results are events with payloads.

        Raises ValueError for more than `room()`, or than `departures` have room for, and for a payload that is longer
        than a packet's.
        """
        for cell in cells:
            size = len(cell.payload or b"")
            if size > self.params.payload_bytes:
                raise ValueError(f"cell of {size} bytes, expected at most {self.params.payload_bytes}")
        super().submit_cells(cells, departures, now)

    def _make_world(self, departures: World) -> World:
        cells = super()._make_world(departures)
        self._rc_world = WORLD.make(
            cells=cells,
            ends=self._ends,
            flights=self._flights,
            messages=self._messages,
            ranks=self._ranks,
            generation=self._generation,
            edges=self.edges.rows,
            counters=self._counters,
            departures=departures,
        )
        return cells

    @property
    def _address(self) -> int:
        assert self._rc_world is not None
        return self._rc_world.address

    def kernels(self, departures: Departures) -> Kernels:
        """What a Pump calls."""
        cells = self._world(departures).address
        return self._kernels(WORK.address(work), START.address(start), self._address, cells)

    def _start(self, world: World, count: int, now: float) -> None:
        start(self._address, count, now)

    def _handle(self, world: World, arena: int, first: int, stop: int, now: float) -> int:
        return int(work(self._address, arena, first, stop, now))

    def settle(self) -> None:
        super().settle()
        # What arrives over an edge in error is dropped, so its failure comes after all that was delivered.
        self._tell()

    def _expire(self, world: World, now: float) -> bool:
        done = bool(expire(self._address, now))
        self._tell()
        return done

    def _tell(self) -> None:
        """Make an event of the edge's failure, once."""
        if self._end["failed"] and not self._told:
            self._told = True
            reason = rc.failure(self._end, self.params)
            self._events.append(EdgeFailed(self.params.group, self.group.edge.name, reason))
