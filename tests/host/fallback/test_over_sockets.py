"""Host agents over real sockets with faults on every link: each rank a thread with a driver of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

import numpy as np
import pytest

from epic_host.driver import Driver
from epic_host.fallback.agent import HostAgent
from epic_host.fallback.plan import host_plan, make_host_agent
from epic_host.grants import HostPlan
from epic_host.transport import open_transport
from epic_models.reference.interfaces import Cell, CellDelivered, Event
from epic_models.reference.tree import LinkEnd
from epic_spec.codec import mac_of_ip
from host.fallback.scenarios import SUM
from host.fallback.worlds import params
from host.worlds import subnet

CELLS, RANKS = 60, 3
FAULTS = {"loss": 0.03, "duplicate": 0.05, "reorder": 0.05, "corrupt": 0.02}


def words(value: int) -> bytes:
    return np.full(256, value, dtype=">i4").tobytes()


class Rank(threading.Thread):
    """Contributes its cells, then drives on until no other rank needs it: `left` are the ranks that do not."""

    def __init__(
        self, plan: HostPlan, rank: int, addresses: Sequence[str], left: set[int], end: float
    ) -> None:
        super().__init__(daemon=True)
        self.rank, self.events = rank, list[Event]()
        self.agent: HostAgent = make_host_agent(plan, rank)
        self._left, self._end = left, end
        faults = FAULTS | {"seed": rank}
        config = {
            "kind": "udp",
            "address": addresses[rank],
            "ports": dict.fromkeys(addresses, 0),
            "faults": faults,
        }
        self._transport = open_transport(config)
        self._driver = Driver(self.agent, self._transport, self.events.extend)

    def run(self) -> None:
        cells = deque(Cell(SUM, words(self.rank + i)) for i in range(CELLS))
        while time.monotonic() < self._end and len(self._left) < RANKS:
            now = time.monotonic()
            batch = [cells.popleft() for _ in range(min(self.agent.room(), len(cells)))]
            self._driver.put(self.agent.submit(batch, now), now)
            self._driver.step(now + 0.01)
            if len(self.events) >= CELLS and self.agent.settled:
                self._left.add(self.rank)

    def close(self) -> None:
        self._driver.close()
        self._transport.close()


@pytest.mark.parametrize("algorithm", ["ring", "doubling"])
def test_ranks_on_sockets(algorithm: str) -> None:
    net = subnet()
    addresses = [f"{net}.{10 + rank}" for rank in range(RANKS)]
    timers = {"rto_initial_us": 20_000, "rto_min_us": 5_000, "rto_max_us": 50_000}
    group = params(RANKS, window=16, slots=32, payload_bytes=1024, **timers)
    plan = host_plan(group, [LinkEnd(0, ip, mac_of_ip(ip)) for ip in addresses], algorithm, 5)
    left: set[int] = set()
    ranks = [Rank(plan, rank, addresses, left, time.monotonic() + 60) for rank in range(RANKS)]
    try:
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join(70)
    finally:
        for thread in ranks:
            thread.close()
    for thread in ranks:
        assert [e.payload if isinstance(e, CellDelivered) else e for e in thread.events] == [
            words(3 + 3 * i) for i in range(CELLS)
        ]
    assert left == set(range(RANKS)), "an agent is not settled"
