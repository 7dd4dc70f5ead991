"""Networks to simulate: nodes, links, shortest paths and aggregation trees.

Hosts are nodes 0 to hosts - 1, switches follow. Link k is two directed ones: 2k from its first node to its second,
2k + 1 back. Paths are shortest ones; where several are, a hash of the flow chooses (ECMP).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from epic_spec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Wire:
    """A link, the same in both directions: `rate` in Gb/s, `delay` in nanoseconds."""

    a: int
    b: int
    rate: float
    delay: float


@dataclass(frozen=True)
class Network:
    """Nodes by name and the links between them."""

    name: str
    hosts: int
    names: tuple[str, ...]
    wires: tuple[Wire, ...]
    # Distances to a node, by node; filled as asked for.
    _far: dict[int, list[int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def switches(self) -> range:
        """The switches' numbers."""
        return range(self.hosts, len(self.names))

    @cached_property
    def neighbours(self) -> list[list[tuple[int, int]]]:
        """For each node, (neighbour, directed link to it)."""
        table: list[list[tuple[int, int]]] = [[] for _ in self.names]
        for k, wire in enumerate(self.wires):
            table[wire.a].append((wire.b, 2 * k))
            table[wire.b].append((wire.a, 2 * k + 1))
        return table

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Nodes by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def wire_numbers(self) -> Mapping[str, int]:
        """Links by name, as `link_name` has it in the direction from the first node to the second."""
        return {self.link_name(2 * k): k for k in range(len(self.wires))}

    def link_name(self, directed: int) -> str:
        """`from-to` of a directed link."""
        wire = self.wires[directed >> 1]
        a, b = (wire.b, wire.a) if directed & 1 else (wire.a, wire.b)
        return f"{self.names[a]}-{self.names[b]}"

    def distances(self, node: int) -> list[int]:
        """Links from every node to `node`; a host is passed through by nobody. -1: no path."""
        if node not in self._far:
            far = [-1] * len(self.names)
            far[node] = 0
            queue = deque([node])
            while queue:
                at = queue.popleft()
                if at < self.hosts and at != node:
                    continue
                for other, _ in self.neighbours[at]:
                    if far[other] < 0:
                        far[other] = far[at] + 1
                        queue.append(other)
            self._far[node] = far
        return self._far[node]

    def path(self, start: int, stop: int, salt: object) -> list[int]:
        """Directed links from one node to another. Raises ConfigError where there is none."""
        # All hosts of a switch are equally far from the rest, so distances are kept for switches only.
        last: list[int] = []
        goal = stop
        if stop < self.hosts and stop != start:
            switch, link = self._switch_of(stop)
            last, goal = [link ^ 1], switch
        far = self.distances(goal)
        links: list[int] = []
        at = start
        if far[at] < 0:
            raise ConfigError(f"topology {self.name}: no path from {self.names[start]} to {self.names[stop]}")
        while at != goal:
            nearer = [
                (o, k)
                for o, k in self.neighbours[at]
                if far[o] == far[at] - 1 and (o >= self.hosts or o == goal)
            ]
            at, link = nearer[choice(salt, at) % len(nearer)]
            links.append(link)
        return links + last

    def _switch_of(self, host: int) -> tuple[int, int]:
        """A host's switch and the directed link to it."""
        if not self.neighbours[host]:
            raise ConfigError(f"topology {self.name}: host {self.names[host]} has no link, expected one")
        return self.neighbours[host][0]

    def tree(self, members: Sequence[int], salt: object) -> tuple[int, dict[int, list[int]]]:
        """(root, children) of an aggregation tree over all `members` (hosts, in rank order).

        The root is a switch whose farthest member is nearest; among several, and among parents, a hash chooses, so that
        groups spread. Children are hosts and switches, those with the smallest rank below them first.
        """
        leaves = list(dict.fromkeys(self._switch_of(host)[0] for host in members))
        tables = [self.distances(leaf) for leaf in leaves]
        reach = {s: max(t[s] for t in tables) for s in self.switches if all(t[s] >= 0 for t in tables)}
        if not reach:
            raise ConfigError(f"topology {self.name}: no switch reaches all hosts of a job, expected one")
        nearest = min(reach.values())
        roots = [s for s, distance in reach.items() if distance == nearest]
        root = roots[choice(salt, 0) % len(roots)]
        far = self.distances(root)
        children: dict[int, list[int]] = {root: []}
        for host in members:
            at = host
            while at != root:
                nearer = [o for o, _ in self.neighbours[at] if far[o] == far[at] - 1 and o >= self.hosts]
                parent = nearer[choice(salt, at if at >= self.hosts else 0) % len(nearer)]
                known = parent in children
                if at not in children.setdefault(parent, []):
                    children[parent].append(at)
                if known:
                    break
                at = parent
        return root, children


def choice(salt: object, node: int) -> int:
    """What chooses among equal ways out of a node: CRC-32, as switches use it, then the finalizer of MurmurHash3.

    CRC is linear: by itself it would make the choices at two nodes of a path the same, and leave most ways unused.
    """
    x = zlib.crc32(f"{salt}/{node}".encode())
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)


class _Maker:
    """Collects nodes and links."""

    def __init__(self, hosts: int, rate: float, delay: float) -> None:
        self.names = [f"h{i}" for i in range(hosts)]
        self.hosts = hosts
        self.wires: list[Wire] = []
        self.rate, self.delay = rate, delay

    def switches(self, prefix: str, count: int) -> range:
        first = len(self.names)
        self.names += [f"{prefix}{i}" for i in range(count)]
        return range(first, first + count)

    def join(self, a: int, b: int, rate: float | None = None) -> None:
        self.wires.append(Wire(a, b, self.rate if rate is None else rate, self.delay))

    def network(self, name: str) -> Network:
        return Network(name, self.hosts, tuple(self.names), tuple(self.wires))


def single(hosts: int, rate: float, delay: float) -> Network:
    """One switch."""
    make = _Maker(hosts, rate, delay)
    (switch,) = make.switches("s", 1)
    for host in range(hosts):
        make.join(host, switch)
    return make.network("single")


def one_two_four(rate: float, delay: float) -> Network:
    """A root, two switches below it, two hosts below each."""
    return tree((2, 2), rate, delay, "1-2-4")


def tree(fan_out: Sequence[int], rate: float, delay: float, name: str = "tree") -> Network:
    """A root with fan_out[0] switches below it, each with fan_out[1] below, …; the last number is of hosts a switch."""
    hosts = 1
    for fan in fan_out:
        hosts *= fan
    make = _Maker(hosts, rate, delay)
    above = make.switches("root", 1)
    for level, fan in enumerate(fan_out[:-1]):
        below = make.switches(f"l{level + 1}_", len(above) * fan)
        for i, node in enumerate(below):
            make.join(node, above[i // fan])
        above = below
    for host in range(hosts):
        make.join(host, above[host // fan_out[-1]])
    return make.network(name)


def spine_leaf(
    spines: int, leaves: int, hosts_per_leaf: int, rate: float, delay: float, up: float
) -> Network:
    """Leaves with hosts, each joined to every spine at `up` Gb/s."""
    make = _Maker(leaves * hosts_per_leaf, rate, delay)
    top, bottom = make.switches("spine", spines), make.switches("leaf", leaves)
    for host in range(make.hosts):
        make.join(host, bottom[host // hosts_per_leaf])
    for leaf in bottom:
        for spine in top:
            make.join(leaf, spine, up)
    return make.network("spine_leaf")


def fat_tree(k: int, rate: float, delay: float) -> Network:
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts (Al-Fares et al., SIGCOMM 2008)."""
    half = k // 2
    make = _Maker(k * half * half, rate, delay)
    core = make.switches("core", half * half)
    aggregation, edge = make.switches("agg", k * half), make.switches("edge", k * half)
    for host in range(make.hosts):
        make.join(host, edge[host // half])
    for pod in range(k):
        for i in range(half):
            for j in range(half):
                make.join(edge[pod * half + i], aggregation[pod * half + j])
                make.join(aggregation[pod * half + i], core[i * half + j])
    return make.network("fat_tree")


def dragonfly(groups: int, routers: int, hosts: int, rate: float, delay: float) -> Network:
    """Groups of fully joined routers with `hosts` each; every two groups have one link (Kim et al., ISCA 2008)."""
    make = _Maker(groups * routers * hosts, rate, delay)
    nodes = make.switches("router", groups * routers)
    for host in range(make.hosts):
        make.join(host, nodes[host // hosts])
    for g in range(groups):
        for i in range(routers):
            for j in range(i + 1, routers):
                make.join(nodes[g * routers + i], nodes[g * routers + j])
    for a in range(groups):
        for b in range(a + 1, groups):
            make.join(nodes[a * routers + (b - 1) % routers], nodes[b * routers + a % routers])
    return make.network("dragonfly")


def listed(
    hosts: Iterable[str], switches: Iterable[str], links: Iterable[tuple[str, str, float, float]]
) -> Network:
    """A network given link by link: (one end, other end, Gb/s, nanoseconds)."""
    host_names = tuple(hosts)
    names = (*host_names, *switches)
    numbers = {name: i for i, name in enumerate(names)}
    wires = tuple(Wire(numbers[a], numbers[b], rate, delay) for a, b, rate, delay in links)
    return Network("listed", len(host_names), names, wires)
