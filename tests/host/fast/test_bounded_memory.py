"""Traffic of blocks in batches, without sockets and without packets: right results, and memory that does not grow."""

from __future__ import annotations

import ctypes
import gc
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import epic_host
from epic_host.fast.agent import FastAgent
from epic_host.fast.blocks import Block
from epic_host.fast.engine import FastEngine
from epic_host.fast.frames import Arrivals, departures
from epic_host.fast.mode3_agent import FastMode3Agent
from epic_host.fast.mode3_engine import FastMode3Engine
from epic_models.reference.group import GroupParams
from epic_models.reference.tree import Tree, build_group
from epic_spec.addresses import ip_number
from epic_spec.tables import UDP_PORT

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
RANKS, WINDOW, CELL = 3, 8, 256
SUM = 0xFFFF1000


class Loop:
    """Three ranks below an engine, joined by copying what departs to where it arrives; every 50th frame is lost."""

    def __init__(self) -> None:
        params = GroupParams(
            group=1, mode=3, world_size=RANKS, window=WINDOW, slots=2 * WINDOW, payload_bytes=CELL,
            rto_initial_us=1000, rto_min_us=1000,
        )  # fmt: skip
        plan = build_group(Tree("s", {"s": tuple(range(RANKS))}), params)
        self.engine = FastMode3Engine()
        self.engine.install(plan.engines["s"], 0.0)
        self.agents = [FastMode3Agent(plan.ranks[r]) for r in range(RANKS)]
        self.queue = departures(4096)
        self.arrivals = Arrivals(256, 256 * 512)
        self.now, self.frames = 0.0, 0
        self.sources = [np.arange(WINDOW * CELL // 4, dtype=np.int32) * (r + 1) for r in range(RANKS)]
        self.sinks = [np.zeros_like(s) for s in self.sources]

    def window(self) -> None:
        """Every rank contributes a window, and gets the sum."""
        for agent, source, sink in zip(self.agents, self.sources, self.sinks, strict=True):
            sink[:] = 0
            block = Block(SUM, WINDOW, CELL, CELL, source.ctypes.data, 4, sink.ctypes.data, 4, expect=True)
            agent.submit_block(block, self.queue, self.now)
            self.carry(agent, [self.engine])
        while any(agent.outstanding for agent in self.agents):
            self.now = max(self.now, min(d for a in self.agents if (d := a.next_deadline()) is not None))
            for agent in self.agents:
                agent.poll_batch(self.queue, self.now)
                self.carry(agent, [self.engine])
        for sink in self.sinks:
            assert np.array_equal(sink, self.sources[0] * 6)

    def carry(self, sender: FastAgent | FastEngine, receivers: Sequence[FastAgent | FastEngine]) -> None:
        """What is queued by `sender` arrives; an engine's results go on to the ranks."""
        sent, q = [], self.queue
        for i in range(q.count[0]):
            edge = sender.edges.edges[q.edge[i]]
            assert edge is not None
            body = ctypes.string_at(int(q.body[i]), int(q.length[i])) if q.length[i] else b""
            sent.append((edge, q.head[i].tobytes() + body + q.tail[i].tobytes()))
        q.clear()
        for receiver in receivers:
            self.arrivals.clear()
            for edge, data in sent:
                mine = next(
                    (e for e in receiver.edges.edges if e is not None and e.local.qpn == edge.peer.qpn), None
                )
                self.frames += 1
                if mine is not None and self.frames % 50:
                    self.arrivals.address = ip_number(mine.local.ip)
                    self.arrivals.append(data, ip_number(mine.peer.ip), mine.port, UDP_PORT, 2)
            if not self.arrivals.count:
                continue
            assert receiver.receive_batch(self.arrivals, 0, self.queue, self.now) == self.arrivals.count
            if receiver is self.engine:
                self.carry(self.engine, self.agents)
            else:
                # A fast retransmission.
                self.carry(receiver, [self.engine])
            assert receiver.take_events() == []


def _ours() -> int:
    """Bytes that code of the host holds; threads that other tests left allocate too, at any moment."""
    ours = tracemalloc.Filter(True, str(Path(epic_host.__file__).parent / "*"))
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([ours]).traces)


def test_memory_does_not_grow_with_traffic() -> None:
    loop = Loop()
    for _ in range(20):
        loop.window()
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(2):
            for _ in range(40 * SCALE):
                loop.window()
            gc.collect()
            sizes.append(_ours())
    finally:
        tracemalloc.stop()
    # 48 bytes a cell, the least that an object has, would be 45 KiB.
    assert sizes[1] <= sizes[0] + 4096, sizes
    assert loop.engine.counters()["tx_replay"] > 0, "nothing was lost"
