"""Ranks with the real runtime and fast agents over changes of path, in virtual time: no sockets, no threads.

Every epoch has one path: a tree of reference engines, on which each rank has a fast or a reference agent, or the hosts.
"""

from __future__ import annotations

import ctypes
import random
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from epic_host.epoch_runtime import EpochRuntime
from epic_host.fallback.plan import host_plan, make_host_agent
from epic_host.fast.frames import Arrivals, Departures, EdgeTable
from epic_host.handle import Handle
from epic_host.missing import Inquiry
from epic_models.reference.group import Edge, GroupParams
from epic_models.reference.interfaces import Agent, EdgeFailed
from epic_models.reference.registry import make_agent, make_engine
from epic_models.reference.tree import LinkEnd, Node, Tree, build_group
from epic_spec import codec
from epic_spec.addresses import ip_number, ip_text
from epic_spec.errors import PeerLostError
from epic_spec.packets import Packet
from host.fast.twins import make_fast_agent
from models.worlds import Collective, Expectation

# The host path's packets are longer than a tree's.
_ARENA = 1 << 20
_FRAMES = 64
# Timers of retransmission are due before; what is due later only says that something does not go on.
_PATIENCE = 1.0


class Wire:
    """One rank's transport; what is sent is in the net at once, what arrives waits until it is taken."""

    more = False

    def __init__(self, net: Net, ip: str) -> None:
        self._net, self._ip = net, ip
        self.waiting: deque[tuple[int, Packet]] = deque()

    def filenos(self) -> Sequence[int]:
        return ()

    def send(self, port: int, packet: Packet, now: float) -> None:
        self._net.send(packet)

    def receive(self, now: float) -> list[tuple[int, Packet]]:
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def arrivals(self) -> Arrivals:
        arrivals = Arrivals(_FRAMES, _ARENA)
        arrivals.address = ip_number(self._ip)
        return arrivals

    def receive_batch(self, arrivals: Arrivals, now: float) -> int:
        arrivals.clear()
        while self.waiting and arrivals.count < _FRAMES:
            port, packet = self.waiting.popleft()
            data = codec.encode_datagram(packet, icrc=packet.icrc_ok)
            arrivals.append(data, ip_number(packet.src_ip), port, 4791, packet.ecn)
        return arrivals.count

    def send_batch(self, departures: Departures, edges: EdgeTable, now: float) -> None:
        for i in range(int(departures.count[0])):
            body = ctypes.string_at(int(departures.body[i]), int(departures.length[i]))
            data = departures.head[i].tobytes() + body + departures.tail[i].tobytes()
            peer = ip_text(int(edges.rows[departures.edge[i]]["peer_ip"]))
            frame = codec.frame_of_datagram(data, self._ip, peer, ecn=int(departures.ecn[i]))
            self._net.send(codec.decode(frame, icrc="check"))

    def next_deadline(self) -> float | None:
        return None

    def poll(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass


class Nobody:
    """An asker that knows of nobody."""

    def early(self, cell: int, seconds: float) -> None:
        pass

    def inquire(self, cell: int, needed: float) -> Inquiry:
        raise AssertionError("nothing stalls for that long")

    def edge_failed(self, event: EdgeFailed) -> PeerLostError | None:
        return PeerLostError(event.reason)


def rank_ip(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


class Net:
    """`n` ranks, and the engines of the epoch. Frames are lost, doubled and overtaken at the rate `faults`."""

    def __init__(self, params: GroupParams, seed: int, faults: float = 0.0) -> None:
        self.params, self.rng, self._faults = params, random.Random(seed), faults
        self.now = 1000.0
        self.ranks = range(params.world_size)
        self.wires = {rank: Wire(self, rank_ip(rank)) for rank in self.ranks}
        self.runtimes = [
            EpochRuntime(self.wires[rank], Nobody(), 1000.0, rank)  # type: ignore[arg-type]
            for rank in self.ranks
        ]
        self.calls: list[Expectation] = []
        self.handles: list[list[Handle]] = [[] for _ in self.ranks]
        self.epoch = -1
        self.fast_cells = self.repeated = 0
        self._seed = seed
        self._engines: dict[str, Any] = {}
        self._ports: dict[tuple[str, str], tuple[Node, int]] = {}

    def call(self, collective: Collective) -> None:
        """Every rank calls it now."""
        self.calls.append(Expectation(collective, self.params, len(self.calls)))
        for rank, operation in enumerate(self.calls[-1].operations):
            self.handles[rank].append(Handle(operation.description, None))
            self.runtimes[rank].start(operation, self.handles[rank][-1])

    # -------------------------------------------------------------------------------------------- the network

    def send(self, packet: Packet) -> None:
        for _ in range(2 if self.rng.random() < self._faults else 1):
            if self.rng.random() >= self._faults:
                self._arrive(packet)

    def _arrive(self, packet: Packet) -> None:
        place = self._ports.get((packet.dst_ip, packet.src_ip))
        if place is None:
            return
        node, port = place
        if isinstance(node, int):
            waiting = self.wires[node].waiting
            waiting.append((port, packet))
            if len(waiting) > 1 and self.rng.random() < self._faults:
                waiting[-1], waiting[-2] = waiting[-2], waiting[-1]
            return
        for _, caused in self._engines[node].receive(port, packet, self.now).sends:
            self.send(caused)

    # -------------------------------------------------------------------------------------------- epochs

    def change(self, path: str) -> None:
        """Every rank prepares, then goes on: on "fast", "reference" or "mixed" agents of a tree, or on "host"."""
        self.epoch += 1
        reports = [runtime.prepare(self.epoch) for runtime in self.runtimes]
        base = min(report for report in reports if report is not None)
        self._ports.clear()
        self._engines.clear()
        agents = self._hosts() if path == "host" else self._tree(path)
        order = list(self.ranks)
        self.rng.shuffle(order)
        for rank in order:
            window = self.params.window
            self.runtimes[rank].resume(self.epoch, agents[rank], base, window, 1000.0)
            self.steps(self.rng.randrange(3))

    def _tree(self, path: str) -> dict[int, Agent]:
        n = len(self.ranks)
        half = (n + 1) // 2
        tree = Tree("a", {"a": tuple(self.ranks)})
        if n > 1 and self.rng.random() < 0.5:
            tree = Tree("a", {"a": ("b", "c"), "b": tuple(range(half)), "c": tuple(range(half, n))})
        ip = {e: f"10.{self.epoch + 1}.1.{i + 1}" for i, e in enumerate(tree.engines())}
        ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
        for parent in tree.engines():
            for i, child in enumerate(tree.children[parent]):
                below = rank_ip(child) if isinstance(child, int) else ip[child]
                up = 0 if isinstance(child, int) else 9
                ends[child, parent] = (
                    LinkEnd(up, below, codec.mac_of_ip(below)),
                    LinkEnd(i, ip[parent], codec.mac_of_ip(ip[parent])),
                )
                self._ports[below, ip[parent]] = (child, up)
                self._ports[ip[parent], below] = (parent, i)
        plan = build_group(tree, self.params, ends, seed=self._seed * 1000 + self.epoch)
        for name, entry in plan.engines.items():
            self._engines[name] = make_engine(self.params.mode)
            self._engines[name].install(entry, self.now)
        fast = {"fast": 1.0, "reference": 0.0, "mixed": 0.5}[path]
        return {
            rank: make_fast_agent(group) if self.rng.random() < fast else make_agent(group)
            for rank, group in plan.ranks.items()
        }

    def _hosts(self) -> dict[int, Agent]:
        ends = [LinkEnd(0, rank_ip(r), codec.mac_of_ip(rank_ip(r))) for r in self.ranks]
        plan = host_plan(self.params, ends, self.rng.choice(("ring", "doubling")), self._seed + self.epoch)
        for rank, edges in plan.edges.items():
            edge: Edge
            for edge in edges.values():
                self._ports[edge.local.ip, edge.peer.ip] = (rank, edge.port)
        return {rank: make_host_agent(plan, rank) for rank in self.ranks}

    # -------------------------------------------------------------------------------------------- time

    def steps(self, count: int) -> None:
        """A rank at a time does what there is to do; time goes on when there is nothing."""
        for _ in range(count):
            busy = [rank for rank in self.ranks if self.wires[rank].waiting or self.runtimes[rank]._more]
            if busy:
                self.runtimes[self.rng.choice(busy)]._work()
                continue
            due = [runtime._wake_time() for runtime in self.runtimes]
            timers = [d for e in self._engines.values() if (d := e.next_deadline()) is not None]
            soonest = min([*due, *timers])
            if soonest > self.now + _PATIENCE:
                return
            self.now = max(self.now, soonest)
            for engine in self._engines.values():
                for _, packet in engine.poll(self.now).sends:
                    self.send(packet)
            for runtime in self.runtimes:
                if runtime._wake_time() <= self.now:
                    runtime._work()

    def settle(self) -> None:
        """Run to the end, and require it with the right results."""
        for _ in range(20_000):
            if all(handle.done() for handles in self.handles for handle in handles):
                break
            self.steps(1)
        for handles in self.handles:
            for handle in handles:
                handle.wait(0)
        for expected in self.calls:
            expected.check()
        self.repeated = sum(runtime.epochs.repeated for runtime in self.runtimes)

    def close(self) -> None:
        for runtime in self.runtimes:
            runtime.close()


@contextmanager
def net(params: GroupParams, seed: int, faults: float = 0.0) -> Iterator[Net]:
    """A net whose clock is everybody's."""
    with mock.patch("time.monotonic", lambda: made.now):
        made = Net.__new__(Net)
        made.now = 1000.0
        Net.__init__(made, params, seed, faults)
        try:
            yield made
        finally:
            made.close()
