"""Where an epoch runs: the resource library's answer made into installs, tree plans and host plans.

What is given away is counted for each engine by itself, from the moment an install is in the store until the engine was
seen without it: a dead engine does not hold what its group had of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from epic_host.fabric.agreement import agree, host_terms
from epic_host.fabric.placement import PlacedTree, Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Usage
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Fabric, Link
from epic_host.fallback.plan import host_plan
from epic_host.grants import Grant, HostPlan
from epic_host.manager.fleet import Fleet
from epic_host.manager.records import Install
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.codec import mac_of_ip
from epic_spec.errors import ResourceError

log = logging.getLogger(__name__)

# Usage counts demands only.
_NO_TERMS = Terms(3, 64, 1, (), (), 64, 1, 2)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a rank is: its host and its address there."""

    host: str
    address: str


class Placing:
    """The fabric as it is now, and what of it is given away."""

    def __init__(self, fabric: Fabric, fleet: Fleet) -> None:
        self._file = fabric
        self._fleet = fleet
        self._counted: set[tuple[object, ...]] = set()
        self._stale: tuple[list[Install], dict[str, int]] | None = None
        self._begin(fabric)

    def _begin(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._usage = Usage(fabric)
        self._state = FabricState(self._usage, offers=self._fleet.offers())
        # As if nothing were given away or lost: what groups agree on.
        self._whole = FabricState(Usage(fabric), offers=self._fleet.offers())
        self._counted.clear()

    @property
    def fabric(self) -> Fabric:
        """The fabric with the MTUs that nodes have."""
        self._refreshed()
        return self._fabric

    @property
    def usage(self) -> Usage:
        """What is given away of it."""
        self._refreshed()
        return self._usage

    def offer(self, engine: str, offer: EngineCapabilities) -> None:
        """An engine said what it offers."""
        self._refreshed()
        self._state.offer(engine, offer)
        self._whole.offer(engine, offer)

    def narrower(self, host: str, mtu: int) -> bool:
        """Whether a node's MTU is below that of its links."""
        return bool(mtu) and any(mtu < link.mtu for link in self._file.up[host])

    def refresh(self, installs: Iterable[Install], mtus: Mapping[str, int]) -> None:
        """Count anew what is given away, and take over the MTUs of nodes: when it is needed."""
        self._stale = list(installs), dict(mtus)

    def _refreshed(self) -> None:
        if self._stale is None:
            return
        (installs, mtus), self._stale = self._stale, None
        links = tuple(
            replace(link, mtu=min(link.mtu, mtus[link.low])) if mtus.get(link.low) else link
            for link in self._file.links
        )
        self._begin(self._file if links == self._file.links else replace(self._file, links=links))
        for install in installs:
            try:
                self.take(install)
            except ResourceError as error:
                # The fabric's file, or what the engine offers, became less than what is given away.
                log.warning("group %s: %s", install.group, error)

    def take(self, install: Install) -> None:
        """The store gives this away. Raises ResourceError where it is not there to give."""
        self.usage.add(self._part(install))
        self._counted.add(install.key)

    def give(self, install: Install) -> None:
        """The engine was seen without it."""
        self._refreshed()
        if install.key in self._counted:
            self._counted.discard(install.key)
            self.usage.remove(self._part(install))

    def _part(self, install: Install) -> Placement:
        """One engine's part of a tree, as far as it is of this fabric."""
        rates = {link: rate for link, rate in install.links.items() if link in self.fabric.link_names}
        tree = Tree(install.engine, {install.engine: ()})
        return Placement((PlacedTree(tree, (), {install.engine: install.demand}, _NO_TERMS, rates),))

    def state(
        self,
        engines: frozenset[str],
        links: frozenset[str],
        avoided: frozenset[str] = frozenset(),
        avoided_links: frozenset[str] = frozenset(),
    ) -> FabricState:
        """What the resource library decides on. `engines` and `links` are out of use, the others for one group only."""
        self._refreshed()
        state = self._state
        known = engines & self.fabric.engines.keys()
        if state.lost_engines != known or state.lost_links != links:
            state.restore(state.lost_engines - known, state.lost_links - links)
            state.lose(known, links)
        if not avoided and avoided_links <= links:
            return state
        return FabricState(self.usage, known | avoided, links | avoided_links, self._fleet.offers())

    def terms(self, request: GroupRequest) -> Terms:
        """What the group agrees on for all its epochs: with the best tree for its hosts, load and faults left aside.

        Where no engine serves it, what its hosts can do. Raises ConfigError when they can do nothing.
        """
        self._refreshed()
        agreed = agree(self._fabric, self._whole, request)
        return host_terms(self._fabric, request) if isinstance(agreed, Refusal) else agreed

    def held(self, installs: Iterable[Install]) -> Placement | None:
        """What these hold of the fabric, part by part."""
        self._refreshed()
        trees = tuple(self._part(i).trees[0] for i in installs if i.key in self._counted)
        return Placement(trees) if trees else None

    def distance(self, hosts: Iterable[str]) -> int:
        """Levels of engines that a message between the hosts that are farthest apart goes up."""
        reached = [{host} for host in dict.fromkeys(hosts)]
        for level in range(max(self.fabric.tiers.values(), default=0)):
            reached = [{link.high for node in nodes for link in self.fabric.up[node]} for nodes in reached]
            if set.intersection(*reached):
                return level + 1
        return max(1, *self.fabric.tiers.values())

    # ------------------------------------------------------------------------------------------ plans

    def installs(
        self, placement: Placement, group: str, numbers: tuple[int, ...], epoch: int
    ) -> list[Install]:
        """What the store is to have of a placement before any engine is called."""
        return [
            Install(
                number=number,
                engine=engine,
                epoch=epoch,
                group=group,
                tree=t,
                demand=demand,
                links={
                    link: rate for link, rate in tree.rates.items() if self.fabric.link(link).high == engine
                },
            )
            for t, (tree, number) in enumerate(zip(placement.trees, numbers, strict=True))
            for engine, demand in tree.demand.items()
        ]

    def tree_plan(
        self, tree: PlacedTree, request: GroupRequest, seats: list[Seat], number: int, epoch: int, seed: int
    ) -> GroupPlan:
        """What engines and ranks get of one tree."""
        params = tree.terms.params(request, number, epoch)
        ends = {
            (child, parent): self._ends(child, parent, seats)
            for parent in tree.tree.engines()
            for child in tree.tree.children[parent]
        }
        control = {engine: self.fabric.engines[engine].control for engine in tree.tree.engines()}
        return build_group(tree.tree, params, ends, seed, control)

    def _ends(self, child: int | str, parent: str, seats: list[Seat]) -> tuple[LinkEnd, LinkEnd]:
        node = seats[child].host if isinstance(child, int) else child
        link = self.fabric.link(f"{node}-{parent}")
        engine = self.fabric.engines[parent]
        high = LinkEnd(link.high_port, engine.address, link.high_mac or engine.mac or _mac(engine.address))
        if isinstance(child, int):
            return self._seat_end(seats[child], link), high
        lower = self.fabric.engines[child]
        return LinkEnd(link.low_port, lower.address, link.low_mac or lower.mac or _mac(lower.address)), high

    def _seat_end(self, seat: Seat, link: Link | None) -> LinkEnd:
        mac = self.fabric.hosts[seat.host].mac or _mac(seat.address)
        if link is None:
            return LinkEnd(0, seat.address, mac)
        return LinkEnd(link.low_port, seat.address, link.low_mac or mac)

    def host_plan(self, params: GroupParams, seats: list[Seat], algorithm: str, seed: int) -> HostPlan:
        """What ranks get that reduce among themselves."""
        ends = []
        for seat in seats:
            links = self.fabric.up[seat.host]
            ends.append(self._seat_end(seat, links[0] if links else None))
        return host_plan(params, ends, algorithm, seed)


def _mac(address: str) -> str:
    return mac_of_ip(address) if address else "02:00:00:00:00:00"


def qpns_of(plan: GroupPlan | HostPlan) -> set[int]:
    """All QPNs of a plan, at engines and ranks."""
    if isinstance(plan, HostPlan):
        return {end.local.qpn for edges in plan.edges.values() for end in edges.values()}
    edges = [rank.edge for rank in plan.ranks.values()]
    for entry in plan.engines.values():
        edges += entry.children
    return {edge.local.qpn for edge in edges} | {edge.peer.qpn for edge in edges}


def restricted(grant: Grant, rank: int) -> Grant:
    """Only what one rank needs of a grant: nothing of engines' control, nor of other ranks."""
    trees = tuple(
        replace(plan, engines={}, children={}, control={}, ranks={rank: plan.ranks[rank]})
        for plan in grant.trees
    )
    host = None if grant.host is None else replace(grant.host, edges={rank: grant.host.edges[rank]})
    return replace(grant, trees=trees, host=host)
