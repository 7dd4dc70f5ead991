"""Collectives as steps: which links a step loads, with how much, how long it takes beyond that.

A step is one transfer: its connections wait for each other, so they have one rate, that of the slowest. Its bytes are
those on the wire of one connection; a link's weight is the bytes on it for each of these, with acknowledgements on the
way back. `cap` is what windows allow, and steps that wait for packets of the step before; `latency` is from when the
last byte leaves to when the last rank has it. Headers and acknowledgements are those of the packet-level simulator.
Alone, times are those of `epic_models.closed_forms`, with whole windows and acknowledgements from the first packet on.

All functions take several groups of equal size at once, which then move in step: G groups of n ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from epic_models.flowsim.topology import Index, Topology
from epic_models.packetsim.algorithms import double_tree
from epic_models.packetsim.config import HEADER_BYTES

# An ACK is a packet without payload but with an AETH in place of the immediate: as long as a header.
ACK_BYTES: Final = HEADER_BYTES
HOST_ALGORITHMS: Final = ("ring", "halving_doubling", "double_tree", "parameter_server", "chain")

Loads = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """One transfer of `volume` bytes over `links`, each once, with `weights`; `cap` in bytes/s, latency in seconds."""

    links: Index
    weights: Loads
    volume: float
    cap: float
    latency: float


@dataclass(frozen=True, slots=True)
class Cut:
    """How data is cut into packets: bytes of a payload, of a Mode I message, and cells or packets in flight."""

    payload: int = 1024
    message: int = 16384
    window: int = 64

    def cell(self, mode: int) -> int:
        """Largest payload of a cell."""
        return self.message if mode == 1 else self.payload

    def packets(self, size: float) -> int:
        """Packets of so many bytes; none is still one."""
        return max(1, math.ceil(size / self.payload))

    def wire(self, size: float) -> float:
        """Bytes on the wire."""
        return size + self.packets(size) * HEADER_BYTES


# ------------------------------------------------------------------------------------------------------ in the network


def in_network(
    topology: Topology, climbs: Index, mode: int, primitive: str, size: float, cut: Cut, root: int = 0
) -> Step:
    """A collective of Mode I, II or III on trees; `climbs` has the links from each rank up, shape (G, n, height).

    An edge carries one flow up and one down, whatever the number of ranks below; a cell without payload is its header.
    Modes I and II acknowledge on each edge, a message or a packet at a time. Mode I forwards whole messages.
    """
    size = 0 if primitive == "barrier" else size
    groups, ranks, _ = climbs.shape
    cells = max(1, math.ceil(size / cut.cell(mode)))
    whole = size // cut.cell(mode)
    volume = whole * cut.wire(cut.cell(mode)) + (
        cut.wire(size - whole * cut.cell(mode)) if cells > whole else 0
    )
    null = min(1.0, cells * HEADER_BYTES / volume)
    # Edges of all trees; a link may be in several.
    count = len(topology.rate)
    keys = np.where(climbs >= 0, climbs + count * np.arange(groups)[:, None, None], -1)
    edges, below = np.unique(keys[keys >= 0], return_counts=True)
    share = below / ranks
    # What only the way to one rank, or the shards of the ranks below, make more than headers.
    if primitive in ("reduce", "broadcast"):
        some = np.where(np.isin(edges, keys[:, root]), 1.0, null)
    else:
        some = share + (1 - share) * null
    full = np.ones(len(edges))
    upward = some if primitive in ("broadcast", "all_gather") else full
    downward = some if primitive in ("reduce", "reduce_scatter") else full
    if mode != 3:
        # What goes down is acknowledged upwards, and the other way round.
        acks = cells * ACK_BYTES / volume
        upward, downward = upward + acks, downward + acks
    up = edges % count
    links, weights = _summed(np.concatenate([up, up ^ 1]), np.concatenate([upward, downward]))
    cell = cut.wire(min(size, cut.cell(mode)))
    trip = 2 * float(_crossing(topology, climbs, cell).max())
    time, ack = cell / _rate(topology, links), 0.0 if mode == 3 else ACK_BYTES / _rate(topology, links)
    # An acknowledgement goes before a contribution and before a result.
    cap, latency = _clocked(cells, cut.window, cut.window * cell, time + ack, trip + 2 * ack, trip - time)
    return Step(links, weights, volume, cap, latency)


def _clocked(
    count: float, ahead: int, size: float, gap: float, trip: float, latency: float
) -> tuple[float, float]:
    """(cap, latency) of `count` packets, `ahead` of them, `size` bytes, once in `trip` seconds.

    They leave at once and then wait: where they do not fill the trip, what is behind the last byte's time at the mean
    rate is less than `latency` by the wait. `gap`: seconds of a packet on the link that is fullest.
    """
    if count <= ahead:
        return math.inf, latency
    return size / trip, max(0.0, latency - max(0.0, trip - ahead * gap))


# ------------------------------------------------------------------------------------------------------ between hosts


def between_hosts(
    topology: Topology,
    hosts: Index,
    algorithm: str,
    primitive: str,
    size: float,
    cut: Cut,
    salts: Sequence[str],
    root: int = 0,
) -> list[Step]:
    """A collective of an algorithm between hosts, shape (G, n) by rank; a group's salt chooses its flows' paths.

    Recursive halving and doubling, the double tree and the parameter server are AllReduce's. The ring serves every
    primitive: Reduce and Broadcast as a chain of all ranks. `chain` sends `size` from each rank to the next at once.
    """
    build = _Hosts(topology, hosts, cut, salts)
    if algorithm == "halving_doubling":
        return build.halving_doubling(size)
    if algorithm == "double_tree":
        return [build.double_tree(size)]
    if algorithm == "parameter_server":
        return [build.parameter_server(size)]
    if algorithm == "chain":
        return [build.neighbours(size)]
    if primitive in ("reduce", "broadcast"):
        return [build.chain(size, root)]
    rounds = 1 if primitive in ("reduce_scatter", "all_gather") else 2
    return [build.ring(0 if primitive == "barrier" else size, rounds)]


class _Hosts:
    """Steps between the hosts of each group."""

    def __init__(self, topology: Topology, hosts: Index, cut: Cut, salts: Sequence[str]) -> None:
        self._topology, self._hosts, self._cut, self._salts = topology, hosts, cut, salts
        self._ranks = np.arange(hosts.shape[1])

    def ring(self, size: float, rounds: int) -> Step:
        """`rounds` times n - 1 steps, each of a shard to the next rank; a packet goes on as soon as it has come."""
        n = len(self._ranks)
        flows = self._flows(self._ranks, np.roll(self._ranks, -1))
        packets = math.ceil(self._cut.packets(size) / n)
        shard = size / n + packets * HEADER_BYTES
        # A packet goes around with the steps: where the way is longer than a shard, the next step waits for it.
        around = float(flows.crossing.mean(axis=1).max())
        return flows.step(rounds * (n - 1) * shard, flows.way, (packets, shard, around))

    def chain(self, size: float, root: int) -> Step:
        """All of it from each rank to the next, packets going on as they come; the root is the first (or last)."""
        order = np.roll(self._ranks, -root)
        flows = self._flows(order[:-1], order[1:])
        first = float(flows.crossing.sum(axis=1).max()) + (len(order) - 2) * flows.ack_time
        return flows.step(self._cut.wire(size), first)

    def neighbours(self, size: float) -> Step:
        """Each rank but the last sends to the next, none waits for another: stages of a pipeline at work."""
        flows = self._flows(self._ranks[:-1], self._ranks[1:])
        return flows.step(self._cut.wire(size), flows.way)

    def parameter_server(self, size: float) -> Step:
        """Everybody's data to rank 0, and the sum back, packets going on as they come."""
        others = self._ranks[1:]
        server = np.zeros_like(others)
        flows = self._flows(np.concatenate([others, server]), np.concatenate([server, others]))
        # A packet of the sum is complete when one of each rank has come, over the same link, and goes to one after the
        # other, behind the acknowledgement of the last.
        meet = 2 * (len(others) - 1) * flows.packet_time + flows.ack_time
        there, back = np.split(flows.crossing, 2, axis=1)
        ways = there.max(axis=1) + back.max(axis=1)
        return flows.step(self._cut.wire(size), float(ways.max()) + meet)

    def halving_doubling(self, size: float) -> list[Step]:
        """2 log2(n) exchanges, of 1/2, 1/4, … 1/n, 1/n, … 1/2 of the data, each when the one before is whole."""
        n = len(self._ranks)
        places = math.ceil(self._cut.packets(size) / n) * n
        steps = []
        distances = [n >> k for k in range(1, n.bit_length())]
        for number, distance in enumerate([*distances, *reversed(distances)]):
            part = distance / n
            flows = self._flows(self._ranks, self._ranks ^ distance, number * n)
            # Of an exchange that leaves at once, acknowledgements go while its last packets are under way; that of the
            # last packet goes before the next exchange.
            packets = places * part
            covered = packets - 1 if packets <= self._cut.window else 0
            first = flows.way + (1 - covered) * flows.ack_time
            steps.append(flows.step(size * part + packets * HEADER_BYTES, first))
        return steps

    def double_tree(self, size: float) -> Step:
        """Half of the data up and down each of two binary trees; packets go on as they come."""
        made = double_tree(len(self._ranks), 2)
        flows = self._flows(np.array([f.sender for f in made]), np.array([f.receiver for f in made]))
        # Waits of a flow come before it in the list. Packets of two children come one behind the other, packets to
        # them leave so, and the acknowledgement of a packet goes before what it sets free.
        arrives = np.zeros(flows.crossing.shape)
        sent: dict[tuple[int, ...], int] = {}
        for i, flow in enumerate(made):
            arrives[:, i] = flows.crossing[:, i]
            if flow.waits:
                waits = (flow.sender, *flow.waits)
                behind = len(flow.waits) - 1 + sent.get(waits, 0)
                sent[waits] = sent.get(waits, 0) + 1
                arrives[:, i] += (
                    arrives[:, flow.waits].max(axis=1) + behind * flows.packet_time + flows.ack_time
                )
        return flows.step(self._cut.wire(size / 2), float(arrives.max()))

    def _flows(self, senders: Index, receivers: Index, first: int = 0) -> _Flows:
        salts = [f"{salt}/{first + i}" for salt in self._salts for i in range(len(senders))]
        a, b = self._hosts[:, senders].ravel(), self._hosts[:, receivers].ravel()
        data = self._topology.routes(a, b, salts)
        acks = self._topology.routes(b, a, salts)
        return _Flows(self._topology, data, acks, self._cut, len(self._hosts))


class _Flows:
    """Reliable connections that carry the same bytes each, over `data`, acknowledged over `acks`, packet by packet.

    `crossing`: seconds of a packet, shape (G, flows of a group).
    """

    def __init__(self, topology: Topology, data: Index, acks: Index, cut: Cut, groups: int) -> None:
        packet = float(cut.payload + HEADER_BYTES)
        used, back = data[data >= 0], acks[acks >= 0]
        loads = np.concatenate([np.ones(len(used)), np.full(len(back), ACK_BYTES / packet)])
        self._links, self._weights = _summed(np.concatenate([used, back]), loads)
        there, return_ = (
            _crossing(topology, paths, size) for paths, size in ((data, packet), (acks, ACK_BYTES))
        )
        self.crossing = there.reshape(groups, -1)
        self._trip = float((there + return_).max())
        self._packet, self._window = packet, cut.window
        self._gap = float((packet * self._weights / topology.rate[self._links]).max())
        self.ack_time = ACK_BYTES / _rate(topology, self._links)
        self.packet_time = packet / _rate(topology, self._links)
        self.way = float(there.max())

    def step(self, volume: float, first: float, shard: tuple[int, float, float] | None = None) -> Step:
        """`first`: seconds until the first packet is where the last one ends.

        `shard`: packets, bytes and seconds to the next rank of what each step of a ring waits for.
        """
        count = volume / self._packet
        limits = [(self._window, self._window * self._packet, self._trip)]
        if shard is not None:
            packets, size, way = shard
            # Its acknowledgement goes before the packet that it sets free.
            limits.append((packets, size, way + self.ack_time))
        latency = max(0.0, first - self._gap)
        caps = [_clocked(count, ahead, size, self._gap, trip, latency) for ahead, size, trip in limits]
        return Step(self._links, self._weights, volume, *min(caps))


def _summed(links: Index, weights: Loads) -> tuple[Index, Loads]:
    """Each link once, with all its weights."""
    once, where = np.unique(links, return_inverse=True)
    return once.astype(np.int32), np.asarray(np.bincount(where, weights), np.float64)


def _crossing(topology: Topology, paths: Index, wire: float) -> Loads:
    """Seconds of a packet of `wire` bytes over each path (last axis), stored and forwarded by every node."""
    there = paths >= 0
    return np.asarray(np.where(there, topology.delay[paths] + wire / topology.rate[paths], 0.0).sum(axis=-1))


def _rate(topology: Topology, links: Index) -> float:
    """Of the slowest, in bytes a second."""
    return float(topology.rate[links].min())
