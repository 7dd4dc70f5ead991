"""Ranks whose cells are dealt over several trees, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from epic_host.fallback.striped import StripedAgent
from epic_models.reference.abstract import AbstractMachine
from epic_models.reference.driver import Member
from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.network import Network
from epic_models.reference.tree import LinkEnd, Tree, build_group, default_ends
from epic_spec.errors import CollectiveError, PeerLostError
from host.fallback.worlds import GROUP, HostWorld
from models.worlds import Followed


def stripes(group: GroupParams, count: int, seed: int = 0) -> list[GroupPlan]:
    """`count` trees over the same ranks, each with engines, ports and addresses of its own: flat or of two levels."""
    plans = []
    n = group.world_size
    for t in range(count):
        children: dict[str, Any] = {f"s{t}": tuple(range(n))}
        if t % 2 and n > 1:
            children = {f"s{t}": (0, f"l{t}"), f"l{t}": tuple(range(1, n))}
        tree = Tree(f"s{t}", children)
        ends = {
            edge: (
                LinkEnd(t if isinstance(edge[0], int) else low.port, _moved(low.ip, t), low.mac),
                LinkEnd(high.port, _moved(high.ip, t), high.mac),
            )
            for edge, (low, high) in default_ends(tree).items()
        }
        plans.append(build_group(tree, replace(group, group=GROUP + t), ends, seed=100 * seed + t))
    return plans


def _moved(ip: str, tree: int) -> str:
    return f"{10 + tree}.{ip.split('.', 1)[1]}"


class StripedNetwork(Network):
    """Ranks with one agent for all trees."""

    def __init__(
        self, plans: list[GroupPlan], faults: FaultRates | None, seed: int, world: StripedWorld
    ) -> None:
        super().__init__(plans, faults, seed=seed)
        self.agents.clear()
        self.events.clear()
        for rank in plans[0].ranks:
            agent = StripedAgent([plan.ranks[rank] for plan in plans])
            world.striped[rank] = agent
            self.agents[GROUP, rank] = Followed(agent, rank, world.machine)
            self.events[GROUP, rank] = []


class StripedWorld(HostWorld):
    """One group on several trees, with the abstract machine beside it."""

    def __init__(
        self, group: GroupParams, count: int, faults: FaultRates | None = None, *, seed: int = 0
    ) -> None:
        self.params = group
        self.machine = AbstractMachine(group)
        self.striped: dict[int, StripedAgent] = {}
        self.net = StripedNetwork(stripes(group, count, seed), faults, seed, self)
        self.members = [Member(self.net, GROUP, r, self._lost) for r in range(group.world_size)]

    def _lost(self, cell: int) -> CollectiveError:
        tree, there = next(iter(self.striped.values())).locate(cell)
        return PeerLostError(f"cell {cell}: tree {tree}, cell {there}")
