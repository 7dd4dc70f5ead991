"""Networks of any size: links and paths by arithmetic for fat trees and leaf-spine, by search for the others.

Nodes, links and the choices among equal paths are those of `packetsim.topology`, so that both simulators load the same
links. Link k is two directed ones: 2k from its first node to its second (up, where there is an up), 2k + 1 back.
Paths come as arrays of directed links, a row for each, filled up with -1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_models.packetsim.topology import Network, choice, fat_tree, single, spine_leaf

# Whole numbers: hosts, links.
Index = NDArray[Any]
GBPS = 1e9 / 8  # bytes a second


class Topology(ABC):
    """Hosts 0 to `hosts` - 1; `rate` (bytes a second) and `delay` (seconds) of every directed link."""

    name: str
    hosts: int
    rate: NDArray[np.float64]
    delay: NDArray[np.float64]

    @property
    @abstractmethod
    def network(self) -> Network:
        """The same network node by node; slow to make where there are many."""

    @abstractmethod
    def routes(self, a: Index, b: Index, salts: Sequence[str]) -> Index:
        """Shortest paths from hosts `a` to other hosts `b`; `salts` choose among equal ones. Shape (n, hops)."""

    @abstractmethod
    def climbs(self, members: Index, salt: str) -> Index:
        """Paths from members up to the root of the tree that the salt gives. Shape (n, height)."""


class FatTree(Topology):
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts."""

    name = "fat_tree"

    def __init__(self, k: int, rate: float, delay: float) -> None:
        """All links of `rate` Gb/s and `delay` nanoseconds."""
        self._k, self._half = k, k // 2
        self._each = rate, delay
        self.hosts = k * self._half**2
        links = 2 * 3 * self.hosts
        self.rate, self.delay = np.full(links, rate * GBPS), np.full(links, delay * 1e-9)

    @cached_property
    def network(self) -> Network:
        """As `packetsim` has it."""
        return fat_tree(self._k, *self._each)

    def routes(self, a: Index, b: Index, salts: Sequence[str]) -> Index:
        """Up no higher than needed: within an edge switch, a pod, or over a core."""
        half, square = self._half, self._half**2
        edge_a, edge_b = a // half, b // half
        out = np.full((len(a), 6), -1, np.int32)
        out[:, 0], out[:, 5] = 2 * a, 2 * b + 1
        first_agg = self.hosts + square
        first_edge = first_agg + self._k * half
        for i in np.flatnonzero(edge_a != edge_b).tolist():
            here, there = int(edge_a[i]), int(edge_b[i])
            pod, other = here // half, there // half
            agg = choice(salts[i], first_edge + here) % half
            out[i, 1], out[i, 4] = self._edge_up(here, agg), self._edge_up(there, agg) + 1
            if pod != other:
                core = agg * half + choice(salts[i], first_agg + pod * half + agg) % half
                out[i, 2], out[i, 3] = self._core_up(pod, core), self._core_up(other, core) + 1
        return out

    def climbs(self, members: Index, salt: str) -> Index:
        """To an edge switch, an aggregation switch of the pod, or a core."""
        half, square = self._half, self._half**2
        edges, pods = members // half, members // square
        rows = [2 * members]
        if (pods != pods[0]).any():
            core = choice(salt, 0) % square
            rows += [self._edge_up(edges, core // half), self._core_up(pods, core)]
        elif (edges != edges[0]).any():
            rows.append(self._edge_up(edges, choice(salt, 0) % half))
        return np.stack(rows, axis=1).astype(np.int32)

    def _edge_up(self, edge: Any, agg: int) -> Any:
        """From an edge switch, or each of some, to aggregation switch `agg` of its pod."""
        pod = edge // self._half
        return 2 * (self.hosts + 2 * (pod * self._half**2 + edge % self._half * self._half + agg))

    def _core_up(self, pod: Any, core: int) -> Any:
        return 2 * (self.hosts + 2 * (pod * self._half**2 + core) + 1)


class SpineLeaf(Topology):
    """Leaves with hosts, each joined to every spine; one leaf without spines is a single switch."""

    name = "spine_leaf"

    def __init__(
        self, spines: int, leaves: int, hosts_per_leaf: int, rate: float, delay: float, up: float
    ) -> None:
        """Hosts' links have `rate` Gb/s, those to spines `up`; all have `delay` nanoseconds."""
        self._shape = spines, leaves, hosts_per_leaf
        self._each = rate, delay, up
        self.hosts = leaves * hosts_per_leaf
        links = 2 * (self.hosts + leaves * spines)
        self.rate, self.delay = np.full(links, rate * GBPS), np.full(links, delay * 1e-9)
        self.rate[2 * self.hosts :] = up * GBPS

    @cached_property
    def network(self) -> Network:
        """As `packetsim` has it."""
        if not self._shape[0]:
            return single(self.hosts, *self._each[:2])
        return spine_leaf(*self._shape, *self._each)

    def routes(self, a: Index, b: Index, salts: Sequence[str]) -> Index:
        """Through the leaf, or over a spine."""
        spines, _, per_leaf = self._shape
        leaf_a, leaf_b = a // per_leaf, b // per_leaf
        out = np.full((len(a), 4), -1, np.int32)
        out[:, 0], out[:, 3] = 2 * a, 2 * b + 1
        for i in np.flatnonzero(leaf_a != leaf_b).tolist():
            here, there = int(leaf_a[i]), int(leaf_b[i])
            spine = choice(salts[i], self.hosts + spines + here) % spines
            out[i, 1], out[i, 2] = self._up(here, spine), self._up(there, spine) + 1
        return out

    def climbs(self, members: Index, salt: str) -> Index:
        """To the leaf, or to a spine."""
        leaves = members // self._shape[2]
        rows = [2 * members]
        if (leaves != leaves[0]).any():
            rows.append(self._up(leaves, choice(salt, 0) % self._shape[0]))
        return np.stack(rows, axis=1).astype(np.int32)

    def _up(self, leaf: Any, spine: int) -> Any:
        return 2 * (self.hosts + leaf * self._shape[0] + spine)


class Searched(Topology):
    """Any network of `packetsim`, with its own search for paths."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.name, self.hosts = network.name, network.hosts
        self.rate = np.repeat([wire.rate * GBPS for wire in network.wires], 2)
        self.delay = np.repeat([wire.delay * 1e-9 for wire in network.wires], 2)

    @property
    def network(self) -> Network:
        """What it was made of."""
        return self._network

    def routes(self, a: Index, b: Index, salts: Sequence[str]) -> Index:
        """Raises ConfigError where there is no path."""
        return filled([self._network.path(int(x), int(y), s) for x, y, s in zip(a, b, salts, strict=True)])

    def climbs(self, members: Index, salt: str) -> Index:
        """Raises ConfigError where no switch reaches all."""
        root, children = self._network.tree([int(host) for host in members], salt)
        links: dict[int, tuple[int, int]] = {}
        for parent, below in children.items():
            for child in below:
                link = next(k for other, k in self._network.neighbours[child] if other == parent)
                links[child] = (parent, link)
        return filled([climb(int(host), root, links.__getitem__) for host in members])


def climb(node: int, root: int, up: Callable[[int], tuple[int, int]]) -> list[int]:
    """Directed links from a node to the root; `up` gives a node's parent and the link to it."""
    found = []
    while node != root:
        node, link = up(node)
        found.append(link)
    return found


def filled(paths: Sequence[Sequence[int]]) -> Index:
    """Rows of one length, filled up with -1."""
    out = np.full((len(paths), max(map(len, paths), default=0)), -1, np.int32)
    for i, path in enumerate(paths):
        out[i, : len(path)] = path
    return out
