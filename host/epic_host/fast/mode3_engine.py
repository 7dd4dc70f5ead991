"""Mode III's engine in batches. Its rules are kernels: mode3_kernels.py."""

from __future__ import annotations

from epic_host.fast.engine import FastEngine
from epic_host.fast.frames import Departures
from epic_host.fast.groups import Installed
from epic_host.fast.mode3_kernels import SLOT, WORLD, work
from epic_host.fast.pool import Pool
from epic_host.fast.pump import WORK, Kernels
from epic_host.fast.value import VALUE
from epic_host.fast.world import World
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import SlotStatus
from epic_spec import psn


class FastMode3Engine(FastEngine):
    """The engine of Mode III. Offers all that the reference does."""

    MODE = 3

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        super().__init__(capabilities)
        self._slot_records = Pool(SLOT)
        self._values = Pool(VALUE)

    def _rows(self, entry: EngineGroup) -> int:
        return entry.params.slots

    def _installed(self, installed: Installed) -> None:
        count = installed.params.slots
        first = self._slot_records.take(count)
        # The two pools are asked for the same ranges in the same order, so a slot and its value share a number.
        assert self._values.take(count) == first
        slots = self._slot_records.records[first : first + count]
        # As if the cell N before its first had been done, so that the first is the next one.
        slots["tag"] = [psn.add(i, -count) for i in range(count)]
        slots["bitmap"], slots["done"] = installed.record["full"], 1
        installed.record["first"] = first

    def _removed(self, installed: Installed) -> None:
        first, count = int(installed.record["first"]), installed.params.slots
        self._slot_records.give(first, count)
        self._values.give(first, count)

    def _work(self, arena: int, first: int, stop: int, departures: Departures, now: float) -> int:
        return int(work(self._world(departures).address, arena, first, stop, now))

    def kernels(self, departures: Departures) -> Kernels:
        """What a Pump calls."""
        return Kernels(WORK.address(work), self._world(departures).address)

    def _make_world(self, departures: World) -> World:
        return WORLD.make(
            slots=self._slot_records.records,
            values=self._values.records,
            departures=departures,
            **self._tables(),
        )

    def _slots(self, installed: Installed) -> tuple[SlotStatus, ...]:
        first, count = int(installed.record["first"]), installed.params.slots
        served = [s for s in self._slot_records.records[first : first + count] if s["served"]]
        return tuple(SlotStatus(int(s["tag"]), int(s["bitmap"]), bool(s["done"])) for s in served)
