"""Placement by a heuristic: the best of a few trees near the hosts, with the largest window that there is memory for.

Roots are tried from the hosts upwards, the least loaded first; of the first trees that have room the one with the
largest window is taken, of those the one with the fewest engines, of those the one that leaves the most where it is
fullest. How far that is from the best possible is measured against milp.py by bench.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from epic_host.fabric.agreement import agree, check_request, rate_of, terms_of, window_sizes
from epic_host.fabric.candidates import Candidate, Growth, Obstacle, Room, View, ranks_by_host
from epic_host.fabric.explain import no_room, no_tree
from epic_host.fabric.placement import PlacedTree, Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Demand, fullness, kbps, minus, sum_of, whole_kbps
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Fabric, Link
from epic_host.fabric.window import Floor, Sizes, halved, hop_us, wire_bytes

# How many trees with room are compared.
BREADTH: Final = 4


def place(
    fabric: Fabric,
    state: FabricState,
    request: GroupRequest,
    terms: Terms | None = None,
    *,
    floor: Floor = halved,
) -> Placement | Refusal:
    """Trees for a group in what is left of the fabric; nothing is given away yet (`Usage.add` does).

    `terms` are those that the group agreed on for all its epochs (`agree`). A window is halved down to its `floor`
    where memory is short. Where several trees are asked for there may be fewer, but at least one; they are as disjoint
    as can be found, have the same terms, and divide the rate between them. Raises ConfigError.
    """
    if terms is None:
        agreed = agree(fabric, state, request)
        if isinstance(agreed, Refusal):
            return agreed
        terms = agreed
    check_request(fabric, request)
    refusal: Refusal | None = None
    for _, view in state.options(request, terms):
        for count in range(request.trees, 0, -1):
            found = Search(fabric, state, request, terms, view, count, floor).trees()
            if isinstance(found, Placement):
                return found
            if count == 1 and refusal is None:
                refusal = found
    return refusal or no_tree(fabric, state, request, terms)


@dataclass(frozen=True, slots=True)
class Scored:
    """A tree that has room, its terms with the window it gets, and what speaks for it."""

    candidate: Candidate
    terms: Terms
    demand: dict[str, Demand]
    links: frozenset[str]
    rates: dict[str, float]
    overlap: int  # links that it shares with other trees of the group
    fullest: float  # share that will be given away of the engine or link where it is largest

    def key(self) -> tuple[int, int, int, float]:
        """Larger is better."""
        return (-self.overlap, self.terms.window, -len(self.demand), -self.fullest)


@dataclass(slots=True)
class Search:
    """The search for `count` trees of one request among the engines and links of one view."""

    fabric: Fabric
    state: FabricState
    request: GroupRequest
    terms: Terms
    view: View
    count: int
    floor: Floor
    ranks: dict[str, tuple[int, ...]] = field(init=False)
    rate_gbps: float = field(init=False)
    set_aside: float = field(init=False)  # Gbit/s a child that engines and links keep for the group
    chosen: list[Scored] = field(default_factory=list)
    _view_terms: Terms = field(init=False)  # take no more of any engine than those of any tree in the view
    _least_terms: Terms = field(init=False)  # the same with the smallest window that any tree may have
    _depths: tuple[float, float] = field(init=False)  # microseconds to the root: no tree has less, or more
    _fan_in: dict[str, int] = field(default_factory=dict)
    _demands: dict[tuple[int, int, int], Demand] = field(default_factory=dict)
    _windows: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    _shares: dict[tuple[str, int, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranks = ranks_by_host(self.request.hosts)
        # The window is the group's, over all its trees.
        self.rate_gbps = rate_of(self.fabric, self.request)
        # A group that does not say what it sends shares links as congestion has it; nothing is kept free for it.
        self.set_aside = 0.0 if self.request.rate_gbps is None else whole_kbps(self.rate_gbps / self.count)

    def trees(self) -> Placement | Refusal:
        """All of them, or why not."""
        roots = self.view.roots(self.ranks)
        if not roots:
            return no_tree(self.fabric, self.state, self.request, self.terms)
        self._begin(roots)
        for _ in range(self.count):
            best = self._best(roots)
            if isinstance(best, Refusal):
                return best
            self.chosen.append(best)
            self._fan_in.clear()
            self._windows.clear()
        terms = self._joint_terms()
        return Placement(tuple(self._placed(scored, terms) for scored in self.chosen))

    def _joint_terms(self) -> Terms:
        """What all trees have: agents have the same parameters on each."""
        if self.count == 1:
            return self.chosen[0].terms
        engines = frozenset[str]().union(*(scored.demand for scored in self.chosen))
        links = [link for scored in self.chosen for link in scored.candidate.uplinks.values()]
        terms = terms_of(self.state, self.request, self.terms, engines, self.view.narrowest(links))
        assert isinstance(terms, Terms), terms
        return terms.with_window(self.chosen[0].terms.window)

    def _begin(self, roots: list[str]) -> None:
        narrowest = self.view.narrowest()
        key = (
            *("least", self.view, self.request.modes, self.request.payload_bytes),
            *(self.request.window, self.terms),
        )
        terms = self.state.derived(
            key, lambda: terms_of(self.state, self.request, self.terms, self.view.engines, narrowest)
        )
        assert isinstance(terms, Terms), terms  # a view has what can be in one tree
        wire = wire_bytes(terms.cell_bytes, terms.payload_bytes)
        nearest = min(hop_us(link, wire) for host in self.ranks for link in self.view.up[host])
        highest = max(self.fabric.tiers[root] for root in roots)
        self._depths = nearest, highest * self.view.longest_hop_us(wire)
        self._view_terms = terms
        windows = self._sizes(nearest, terms)
        self._least_terms = terms.with_window(self.floor(windows))

    def _sizes(self, depth_us: float, terms: Terms) -> Sizes:
        return window_sizes(depth_us, self.request, terms, self.rate_gbps)

    def _range(self, candidate: Candidate, terms: Terms) -> tuple[int, int]:
        """The smallest window that a tree may have, and the one that it should have."""
        near, far = (self._sizes(depth, terms) for depth in self._depths)
        if (near.wanted, self.floor(near)) != (far.wanted, self.floor(far)):
            # It hangs on the very tree.
            near = self._sizes(candidate.depth_us(wire_bytes(terms.cell_bytes, terms.payload_bytes)), terms)
        return self.floor(near), near.wanted

    def _best(self, roots: list[str]) -> Scored | Refusal:
        usage = self.state.usage
        avoid = frozenset(engine for scored in self.chosen for engine in scored.demand)
        room = Room(self._room, self._edges if self.set_aside else None, usage.load, avoid)
        growth = Growth(self.view, self.ranks, room)
        blocked = growth.start()
        if blocked is not None:
            return self._no_room(blocked)  # whatever the root
        order = {root: (root in avoid, self.fabric.tiers[root], usage.load(root), root) for root in roots}
        found: list[Scored] = []
        obstacle: Obstacle | None = None
        for root in sorted(roots, key=order.__getitem__):
            candidate = growth.towards(root)
            scored = candidate if isinstance(candidate, Obstacle) else self._scored(candidate)
            if isinstance(scored, Scored):
                found.append(scored)
                if len(found) == BREADTH:
                    break
            else:
                obstacle = obstacle or scored
        if found:
            return max(found, key=Scored.key)
        assert obstacle is not None
        return self._no_room(obstacle)

    def _no_room(self, obstacle: Obstacle) -> Refusal:
        terms = self._view_terms.with_window(obstacle.window or self._least_terms.window)
        demand = self._demand(terms, obstacle.children)
        link_free = 0.0 if obstacle.link is None else self.state.usage.link_free(obstacle.link.name)
        return no_room(obstacle, demand, self._free(obstacle.engine), link_free, self.set_aside)

    def _demand(self, terms: Terms, children: int) -> Demand:
        # Of one search nothing else of the terms differs that a demand hangs on.
        key = (terms.window, terms.message_buffers, children)
        found = self._demands.get(key)
        if found is None:
            found = self._demands[key] = terms.demand(children, self.set_aside)
        return found

    def _free(self, engine: str) -> Capacity:
        """What is left of an engine beside the trees chosen already."""
        free = self.state.usage.free(engine)
        taken = [scored.demand[engine] for scored in self.chosen if engine in scored.demand]
        return minus(free, sum_of(taken)) if taken else free

    def _room(self, engine: str) -> int:
        """The largest fan-in for which the engine has room at the smallest window."""
        found = self._fan_in.get(engine)
        if found is None:
            found = self._fan_in[engine] = self._largest_fan_in(self._free(engine))
        return found

    def _largest_fan_in(self, free: Capacity) -> int:
        low, high = 0, min(free.children, free.multicast, self.request.world_size)
        if high > 0 and self._demand(self._least_terms, high).fits(free):
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self._demand(self._least_terms, middle).fits(free):
                low = middle
            else:
                high = middle - 1
        return low

    def _edges(self, link: Link) -> int:
        """How many edges of this tree the link has bandwidth for."""
        return kbps(self._link_free(link)) // kbps(self.set_aside)

    def _link_free(self, link: Link) -> float:
        return self.state.usage.link_free(link.name) - sum(s.rates.get(link.name, 0.0) for s in self.chosen)

    def _scored(self, candidate: Candidate) -> Scored | Obstacle:
        """A candidate with the largest window that fits, or the engine that has no memory for a smaller one."""
        narrowest = self.view.narrowest(candidate.uplinks.values())
        terms = terms_of(self.state, self.request, self.terms, candidate.width, narrowest)
        assert isinstance(terms, Terms), terms
        taken = frozenset[str]().union(*(scored.links for scored in self.chosen))
        overlap = len(taken.intersection(candidate.links)) if taken else 0
        smallest, window = self._range(candidate, terms)
        if self.chosen:
            # All trees have one window; a further tree must not cost the first any of it.
            smallest = window = self.chosen[0].terms.window
            if window > terms.window or overlap == len(candidate.uplinks):
                return Obstacle(candidate.root, candidate.width[candidate.root])
        for engine, children in candidate.width.items():
            window = min(window, self._window(engine, children, terms))
            if window < smallest:
                return Obstacle(engine, children, window=smallest)
        sized = terms.with_window(window)
        demand = {engine: self._demand(sized, children) for engine, children in candidate.width.items()}
        links = frozenset(candidate.links) if self.count > 1 else frozenset()
        rates = self._rates(candidate)
        return Scored(candidate, sized, demand, links, rates, overlap, self._fullest(sized, demand, rates))

    def _window(self, engine: str, children: int, terms: Terms) -> int:
        """The largest window for which the engine has room, 0 for none."""
        key = (engine, children, terms.window, terms.message_buffers)
        found = self._windows.get(key)
        if found is None:
            free, found = self._free(engine), terms.window
            while found and not self._demand(terms.with_window(found), children).fits(free):
                found //= 2
            self._windows[key] = found
        return found

    def _rates(self, candidate: Candidate) -> dict[str, float]:
        """Gbit/s to set aside on each link: an edge's for each rank of a host, and for each engine."""
        if not self.set_aside:
            return {}
        return {
            link.name: self.set_aside * len(self.ranks.get(node, (0,)))
            for node, link in candidate.uplinks.items()
        }

    def _fullest(self, terms: Terms, demand: dict[str, Demand], rates: dict[str, float]) -> float:
        """The largest share that will be given away of an engine of the tree, or of a link with a rate set aside."""
        usage, share = self.state.usage, 0.0
        for engine, asked in demand.items():
            key = (engine, asked.children, terms.window, terms.message_buffers)
            found = self._shares.get(key)
            if found is None:
                found = self._shares[key] = fullness(usage.used(engine), usage.capacity(engine), asked)
            share = max(share, found)
        for name, rate in rates.items():
            share = max(share, usage.link_load(name) + rate / self.fabric.link(name).rate_gbps)
        return share

    def _placed(self, scored: Scored, terms: Terms) -> PlacedTree:
        candidate = scored.candidate
        demand = {engine: self._demand(terms, children) for engine, children in candidate.width.items()}
        return PlacedTree(candidate.tree(), candidate.links, demand, terms, scored.rates)
