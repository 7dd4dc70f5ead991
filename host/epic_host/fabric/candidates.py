"""Candidate trees: for each root that reaches all hosts of a group, a tree of few engines in which there is room.

An aggregation tree is a subset of the links up: every host and every engine of the tree but the root has one parent in
it, and every engine is one of the group's, with a fan-in of 1 or more. Nothing forwards without being of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from epic_host.fabric.topology import Fabric, Link
from epic_host.fabric.window import hop_us
from epic_models.reference.tree import Node, Tree


class View:
    """The engines and links of a fabric that a kind of tree can use, and which hosts each engine reaches over them."""

    def __init__(self, fabric: Fabric, engines: frozenset[str], links: frozenset[str]) -> None:
        self.fabric = fabric
        self.engines = engines
        self.usable = links
        self.up: dict[str, tuple[Link, ...]] = {
            node: tuple(link for link in ups if link.high in engines and link.name in links)
            for node, ups in fabric.up.items()
            if node in fabric.hosts or node in engines
        }
        self._order = sorted(self.up, key=fabric.tiers.__getitem__)
        self._engines = [node for node in self._order if node in engines]
        self._bit = {host: 1 << i for i, host in enumerate(fabric.hosts)}
        self._reach = self._reached()
        self._cones: dict[str, dict[str, tuple[Link, ...]]] = {}
        self._hops: dict[int, float] = {}
        self._ancestors: dict[tuple[str, ...], tuple[str, ...]] = {}
        mtus = {fabric.link(name).mtu for name in links}
        self._one_mtu = len(mtus) == 1
        self._narrowest = min(
            (fabric.link(name) for name in sorted(links)), key=lambda link: link.mtu, default=None
        )

    def _reached(self) -> dict[str, int]:
        reach = dict.fromkeys(self.engines, 0)
        for node in self._order:
            mask = self._bit[node] if node in self._bit else reach[node]
            for link in self.up[node]:
                reach[link.high] |= mask
        return reach

    def mask(self, hosts: Iterable[str]) -> int:
        """A bit for each host."""
        mask = 0
        for host in hosts:
            mask |= self._bit[host]
        return mask

    def roots(self, hosts: Iterable[str]) -> list[str]:
        """Engines that reach all of the hosts, those nearer to hosts first."""
        hosts = tuple(hosts)
        mask, reach = self.mask(hosts), self._reach
        return [engine for engine in self._above(hosts[0]) if reach[engine] & mask == mask]

    def _above(self, host: str) -> tuple[str, ...]:
        """Engines that reach a host, by tier; hosts below the same engines share the answer."""
        parents = tuple(link.high for link in self.up[host])
        found = self._ancestors.get(parents)
        if found is None:
            bit, tiers = self._bit[host], self.fabric.tiers
            engines = [engine for engine, reached in self._reach.items() if reached & bit]
            found = tuple(sorted(engines, key=lambda engine: (tiers[engine], engine)))
            self._ancestors[parents] = found
        return found

    def narrowest(self, links: Iterable[Link] | None = None) -> Link:
        """The link with the smallest MTU, of some or of all that the view has."""
        if (links is None or self._one_mtu) and self._narrowest is not None:
            return self._narrowest
        assert links is not None  # a view without links has no trees
        return min(links, key=lambda link: link.mtu)

    def longest_hop_us(self, cell_wire_bytes: int) -> float:
        """The most that a cell takes over any link."""
        found = self._hops.get(cell_wire_bytes)
        if found is None:
            hops = (hop_us(self.fabric.link(name), cell_wire_bytes) for name in self.usable)
            found = self._hops[cell_wire_bytes] = max(hops)
        return found

    def unreached(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Hosts that no engine reaches."""
        everywhere = 0
        for reached in self._reach.values():
            everywhere |= reached
        return tuple(host for host in hosts if not self._bit[host] & everywhere)

    def cone(self, root: str) -> Mapping[str, tuple[Link, ...]]:
        """For each engine from which the root is reached: its links up that lead there."""
        found = self._cones.get(root)
        if found is None:
            found = self._cones[root] = self._cone(root)
        return found

    def _cone(self, root: str) -> dict[str, tuple[Link, ...]]:
        cone: dict[str, tuple[Link, ...]] = {root: ()}
        tiers = self.fabric.tiers
        for engine in reversed(self._engines):
            if tiers[engine] < tiers[root]:
                leading = tuple([link for link in self.up[engine] if link.high in cone])
                if leading:
                    cone[engine] = leading
        return cone

    def leading(self, node: str, cone: Mapping[str, tuple[Link, ...]]) -> tuple[Link, ...]:
        """The links up of a host or engine that lead into a cone."""
        found = cone.get(node)
        return tuple([link for link in self.up[node] if link.high in cone]) if found is None else found


@dataclass(frozen=True, slots=True)
class Room:
    """What a tree may use. `fan_in(engine)`: children that it has room for, 0 for none. `edges(link)`: edges that there
    is bandwidth for; None: as many as there are.

    `load` orders engines that are otherwise alike, `avoid` are those that other trees of the group have.
    """

    fan_in: Callable[[str], int]
    edges: Callable[[Link], int] | None
    load: Callable[[str], float]
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why there is no tree: an engine without room for this fan-in, or (`link`) a link without room for the edges.

    `window`: the smallest that was tried, where it is not the smallest of any tree.
    """

    engine: str
    children: int
    link: Link | None = None
    window: int = 0


@dataclass(slots=True)
class Growth:
    """A tree that grows from the hosts to a root: the link up of each node, and the fan-in of each engine so far."""

    view: View
    ranks: Mapping[str, tuple[int, ...]]
    room: Room
    uplinks: dict[str, Link] = field(default_factory=dict)
    width: dict[str, int] = field(default_factory=dict)
    # Nodes that need a parent, by tier.
    levels: list[list[str]] = field(default_factory=list)

    def start(self) -> Obstacle | None:
        """Attach the hosts that have one link up. That is the same whatever the root."""
        self.levels = [[] for _ in range(max(self.view.fabric.tiers.values()) + 1)]
        for host in self.ranks:
            links = self.view.up[host]
            if len(links) != 1:
                self.levels[0].append(host)
                continue
            obstacle = self._attach(host, links[0])
            if obstacle is not None:
                return obstacle
        return None

    def towards(self, root: str) -> Candidate | Obstacle:
        """Go on from here to a root, tier by tier, until every node has a parent; the first that finds none is why.

        What this started with is left as it is, for other roots.
        """
        growth = Growth(
            self.view,
            self.ranks,
            self.room,
            dict(self.uplinks),
            dict(self.width),
            [list(n) for n in self.levels],
        )
        return growth._grow(root)

    def _grow(self, root: str) -> Candidate | Obstacle:
        cone = self.view.cone(root)
        for level in self.levels[: self.view.fabric.tiers[root]]:
            pending: dict[str, tuple[Link, ...]] = {}
            for node in level:
                links = self.view.leading(node, cone)
                if len(links) > 1:
                    pending[node] = links
                    continue
                obstacle = self._attach(node, links[0])
                if obstacle is not None:
                    return obstacle
            if pending:
                obstacle = self._cover(pending)
                if obstacle is not None:
                    return obstacle
        return Candidate(self._trimmed(root), self.uplinks, self.width, self.ranks)

    def _weight(self, node: str) -> int:
        ranks = self.ranks.get(node)
        return 1 if ranks is None else len(ranks)

    def _passes(self, edges: int, link: Link) -> bool:
        return self.room.edges is None or edges <= self.room.edges(link)

    def _attach(self, node: str, link: Link) -> Obstacle | None:
        ranks, parent = self.ranks.get(node), link.high
        weight = 1 if ranks is None else len(ranks)
        before = self.width.get(parent, 0)
        if before + weight > self.room.fan_in(parent):
            return Obstacle(parent, before + weight)
        if not self._passes(weight, link):
            return Obstacle(parent, before + weight, link)
        if not before:
            self.levels[self.view.fabric.tiers[parent]].append(parent)
        self.width[parent] = before + weight
        self.uplinks[node] = link
        return None

    def _cover(self, pending: dict[str, tuple[Link, ...]]) -> Obstacle | None:
        """Parents for nodes that have a choice: greedily the one that takes most of them, as for a set cover."""
        while pending:
            below: dict[str, list[tuple[str, Link]]] = {}
            for node, links in pending.items():
                for link in links:
                    if self._passes(self._weight(node), link):
                        below.setdefault(link.high, []).append((node, link))
            takes = {parent: self._taken(parent, nodes) for parent, nodes in below.items()}
            best = max(
                (p for p in takes if takes[p]), key=lambda p: self._rank(p, len(takes[p])), default=None
            )
            if best is None:
                node, links = next(iter(pending.items()))
                link = links[0]
                weight = self.width.get(link.high, 0) + self._weight(node)
                return Obstacle(link.high, weight, None if link.high in below else link)
            for node, link in takes[best]:
                self._attach(node, link)
                del pending[node]
        return None

    def _taken(self, parent: str, nodes: Sequence[tuple[str, Link]]) -> list[tuple[str, Link]]:
        left = self.room.fan_in(parent) - self.width.get(parent, 0)
        taken = []
        for node, link in nodes:
            weight = self._weight(node)
            if weight <= left:
                left -= weight
                taken.append((node, link))
        return taken

    def _rank(self, parent: str, count: int) -> tuple[bool, bool, int, float, str]:
        return (parent in self.width, parent not in self.room.avoid, count, -self.room.load(parent), parent)

    def _trimmed(self, root: str) -> str:
        """The root, or where the tree is a mere chain at its top the engine below that; the chain is taken off."""
        while self.width[root] == 1:
            below = next(node for node, link in self.uplinks.items() if link.high == root)
            if below in self.ranks:
                break
            del self.uplinks[below], self.width[root]
            root = below
        return root


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree as hosts and engines: the link up of each node but the root, and the fan-in of each engine."""

    root: str
    uplinks: dict[str, Link]
    width: dict[str, int]
    ranks: Mapping[str, tuple[int, ...]]

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the links, children before parents."""
        return tuple(link.name for link in self.uplinks.values())

    def tree(self) -> Tree:
        """As ranks and engines: at each engine the ranks first, then engines."""
        children: dict[str, list[Node]] = {engine: [] for engine in self.width}
        for node, link in self.uplinks.items():
            ranks = self.ranks.get(node)
            if ranks is None:
                children[link.high].append(node)
            else:
                children[link.high] += ranks
        for below in children.values():
            below.sort(key=lambda node: (isinstance(node, str), node if isinstance(node, int) else 0))
        return Tree(self.root, {engine: tuple(below) for engine, below in children.items()})

    def depth_us(self, cell_wire_bytes: int) -> float:
        """Microseconds of a cell from the farthest host to the root."""
        cost, deepest = {self.root: 0.0}, 0.0
        # Children stand before their parents, so from the end every parent is known.
        for node, link in reversed(self.uplinks.items()):
            cost[node] = reached = cost[link.high] + hop_us(link, cell_wire_bytes)
            deepest = max(deepest, reached)
        return deepest


def ranks_by_host(hosts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The ranks of each host, where `hosts[r]` is the host of rank r."""
    found: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        found.setdefault(host, []).append(rank)
    return {host: tuple(ranks) for host, ranks in found.items()}


def grow(view: View, root: str, ranks: Mapping[str, tuple[int, ...]], room: Room) -> Candidate | Obstacle:
    """The tree of a root that reaches all hosts, or why there is none."""
    growth = Growth(view, ranks, room)
    return growth.start() or growth.towards(root)
