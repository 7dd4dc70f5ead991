"""The fast engine of Mode II: what `mode2_kernels` work on, and how it is installed."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast import mode2_kernels as kernels
from epic_host.fast import rc
from epic_host.fast.engine import FastEngine
from epic_host.fast.frames import Departures
from epic_host.fast.groups import Installed
from epic_host.fast.pool import Pool
from epic_host.fast.pump import DUE_AT, WORK, Kernels
from epic_host.fast.world import World
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import EdgeFailed, SlotStatus
from epic_spec.psn import MASK

# Departures that one frame may cause beside what a requester repeats or the children get: an acknowledgement.
_ANSWERS: Final = 1


class FastMode2Engine(FastEngine):
    """The engine of Mode II, in batches. Memory of a group is taken when it is installed (P5)."""

    MODE = 2

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        super().__init__(capabilities)
        self._trees = Pool(kernels.TREE)
        self._ends = Pool(rc.END)
        self._flights = Pool(rc.FLIGHT)
        self._messages = Pool(rc.MESSAGE)
        self._cells = Pool(kernels.SLOT)
        self._installations: dict[int, Installed] = {}
        self._order: NDArray[np.int32] = np.zeros(0, np.int32)
        self._failures: NDArray[np.int32] = np.zeros(1, np.int32)

    @property
    def burst(self) -> int:
        """Departures that one frame or one timer may cause: a result to every child, or a window that is repeated."""
        return max(self.capabilities.window, self.capabilities.children) + _ANSWERS

    # ------------------------------------------------------------------------------------------- control plane

    def _rows(self, entry: EngineGroup) -> int:
        return entry.params.window

    def _installed(self, installed: Installed) -> None:
        entry, record = installed.entry, installed.record
        window = entry.params.window
        edges = [*installed.edge_rows, *([installed.parent] if installed.parent >= 0 else [])]
        tree = record["first"] = self._trees.take(1)
        ends, flights = self._ends.take(len(edges)), self._flights.take(len(edges) * window)
        rows = self._cells.take(window)
        # The two pools are asked for the same ranges in the same order, so a cell has one row in both.
        assert self._messages.take(window) == rows
        self._trees.records[tree] = (0, ends, rows)
        step = np.arange(window, dtype=np.uint64) * np.uint64(record["output_bytes"])
        self._messages.records["body"][rows : rows + window] = np.uint64(record["outputs"]) + step
        for i, edge in enumerate(edges):
            end = self._ends.records[ends + i]
            down = i < len(entry.children)
            rc.reset(
                end,
                entry.params,
                edge=edge,
                group=installed.index,
                child=i if down else -1,
                first_time="tx_result" if down else "tx_partial",
                patient=False,
            )
            end["store"], end["flight"], end["mask"] = rows, flights + i * window, window - 1
            if down:
                child = self._children.records[record["first_child"] + i]
                end["ranks"], end["rank_count"] = child["ranks"], child["rank_count"]
        self._installations[installed.index] = installed
        self._changed()

    def _removed(self, installed: Installed) -> None:
        record, window = installed.record, installed.params.window
        tree = self._trees.records[record["first"]]
        edges = len(installed.edge_rows) + (installed.parent >= 0)
        first = int(tree["ends"])
        flights = int(self._ends.records[first]["flight"])
        # A row that nobody has must not look as if its timer ran.
        self._ends.records[first : first + edges] = 0
        self._ends.give(first, edges)
        self._flights.give(flights, edges * window)
        self._cells.give(int(tree["rows"]), window)
        self._messages.give(int(tree["rows"]), window)
        self._trees.give(int(record["first"]), 1)
        del self._installations[installed.index]
        self._changed()

    def _changed(self) -> None:
        """The groups are others."""
        self._order = np.array(list(self._installations), np.int32)
        self._failures = np.zeros(1 + len(self._ends.records), np.int32)

    def _slots(self, installed: Installed) -> tuple[SlotStatus, ...]:
        tree = self._trees.records[installed.record["first"]]
        first = int(tree["rows"])
        rows = self._cells.records[first : first + installed.params.window]
        return tuple(
            SlotStatus(int(s["cell"]) & MASK, int(s["bitmap"]), bool(s["cell"] < tree["passed"]))
            for s in rows[rows["live"] == 1]
        )

    def _failed_edges(self, installed: Installed) -> tuple[str, ...]:
        entry = installed.entry
        edges = [*entry.children, *([entry.parent] if entry.parent is not None else [])]
        first = int(self._trees.records[installed.record["first"]]["ends"])
        failed = self._ends.records["failed"][first : first + len(edges)]
        return tuple(edge.name for edge, dead in zip(edges, failed, strict=True) if dead)

    # ------------------------------------------------------------------------------------------- batches

    def _work(self, arena: int, first: int, stop: int, departures: Departures, now: float) -> int:
        done: int = kernels.work(self._world(departures).address, arena, first, stop, now)
        self.settle()
        return done

    def kernels(self, departures: Departures) -> Kernels:
        """What a Pump calls."""
        world = self._world(departures).address
        return Kernels(
            WORK.address(kernels.work),
            world,
            due=DUE_AT.address(kernels.next_deadline),
            cells=world,
            attention=self._failures.ctypes.data,
        )

    def settle(self) -> None:
        """Make events of failures."""
        if self._failures[0]:
            self._report()

    def poll_batch(self, departures: Departures, now: float) -> None:
        """Run the timers that are due. Some stay due when what they repeat does not fit the departures."""
        self._begin(departures)
        kernels.poll(self._world(departures).address, now)
        self.settle()

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        if not self._installations:
            return None
        world = self._made[1] if self._made is not None else self._world(self._single()[1])
        deadline: float = kernels.next_deadline(world.address)
        return None if deadline == rc.NEVER else deadline

    def _report(self) -> None:
        """Make events of the failures."""
        for row in self._failures[1 : 1 + self._failures[0]]:
            end = self._ends.records[row]
            params = self._installations[int(end["group"])].params
            edge = self.edges.edges[end["edge"]]
            assert edge is not None
            self._events.append(EdgeFailed(params.group, edge.name, rc.failure(end, params)))
        self._failures[0] = 0

    def _make_world(self, departures: World) -> World:
        return kernels.WORLD.make(
            trees=self._trees.records,
            ends=self._ends.records,
            flights=self._flights.records,
            messages=self._messages.records,
            slots=self._cells.records,
            order=self._order,
            failures=self._failures,
            departures=departures,
            **self._tables(),
        )
