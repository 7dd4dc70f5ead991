"""Mode III's rank in batches: it repeats a contribution until the result is here. Its rules: mode3_agent_kernels.py."""

from __future__ import annotations

from epic_host.fast.agent import FastAgent
from epic_host.fast.frames import Departures
from epic_host.fast.mode3_agent_kernels import expire, start, work
from epic_host.fast.pump import START, WORK, Kernels
from epic_host.fast.world import World


class FastMode3Agent(FastAgent):
    """The rank's end in Mode III, without ACK reflection."""

    def _start(self, world: World, count: int, now: float) -> None:
        start(world.address, count, now)

    def _handle(self, world: World, arena: int, first: int, stop: int, now: float) -> int:
        return int(work(world.address, arena, first, stop, now))

    def kernels(self, departures: Departures) -> Kernels:
        """What a Pump calls."""
        address = self._world(departures).address
        return self._kernels(WORK.address(work), START.address(start), address, address)

    def _expire(self, world: World, now: float) -> bool:
        return bool(expire(world.address, now))
