"""The policies of this package for the flow-level simulator: `epic_models.flowsim.sharing.Sharing` over a `Policy`.

The simulator finds it by the entry point group `epic.sharing`. Its network becomes a fabric whose switches are engines
with the limits that it names; groups are placed, wait and move as under the manager, in the simulator's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from epic_host.fabric.agreement import agree
from epic_host.fabric.decision import Path
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.policies import GroupView, Policy, load
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import UNLIMITED, Capacity, Usage
from epic_host.fabric.state import FabricState
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_host.fabric.window import LARGEST_WINDOW
from epic_models.flowsim.sharing import Ask, Grant, Limits, Move
from epic_models.flowsim.topology import climb, filled
from epic_models.packetsim.topology import Network
from epic_models.reference.endpoint import EngineCapabilities

# Packets of the simulator may have any payload.
_MTU: Final = 65535


class FabricSharing:
    """One policy at work on one network, whose links and switches keep their names."""

    def __init__(self, network: Network, limits: Limits) -> None:
        """Raises ConfigError for a policy that is not known, and for a network that is no fabric."""
        self._policy = _policy(limits)
        self._network = network
        self._fabric, self._up = fabric_of(network, limits)
        self._state = FabricState(Usage(self._fabric))
        self._views: dict[str, GroupView] = {}

    @staticmethod
    def check(limits: Limits) -> None:
        """Raises ConfigError for a policy that is not known, or options that it does not have."""
        _policy(limits)

    def join(self, ask: Ask, now: float) -> Grant | None:
        """The policy's verdict. A group that no tree can serve stays on its hosts for good."""
        names = self._network.names
        request = GroupRequest(
            ask.name,
            tuple(names[host] for host in ask.hosts),
            modes=(ask.mode,),
            payload_bytes=ask.cut.payload,
            window=ask.cut.window,
            path="prefer_network",
        )
        terms = agree(self._fabric, self._state, request)
        if isinstance(terms, Refusal):
            return None
        view = GroupView(ask.name, request, terms, Path.HOST, now)
        return self._admit(view, now, None)

    def leave(self, group: str, now: float) -> None:
        """Whatever it had is free."""
        view = self._views.pop(group, None)
        if view is not None and view.placement is not None:
            self._state.usage.remove(view.placement)

    def freed(self, group: str, now: float) -> None:
        """A group has left the network, and its place is free."""
        view = self._views[group]
        if view.path is not Path.NETWORK and view.placement is not None:
            self._state.usage.remove(view.placement)
            self._views[group] = replace(view, placement=None)

    def moves(self, now: float) -> Sequence[Move]:
        """What the policy says and can be done now: nobody returns to the network before it has left it."""
        found = []
        for move in self._policy.moves(self._state, list(self._views.values()), now):
            view = self._views[move.group]
            if move.to is not Path.NETWORK:
                self._views[move.group] = replace(view, path=Path.HOST, since=now)
                found.append(Move(move.group, None))
            elif view.placement is None:
                grant = self._admit(view, now, view.since)
                if grant is not None:
                    found.append(Move(move.group, grant))
        return found

    def next_turn(self, now: float) -> float | None:
        """The policy's."""
        return self._policy.next_turn(list(self._views.values()), now)

    def _admit(self, view: GroupView, now: float, since: float | None) -> Grant | None:
        others = [other for name, other in self._views.items() if name != view.name]
        verdict = self._policy.admit(
            self._state, view.request, now, terms=view.terms, groups=others, since=since
        )
        if verdict.placement is None:
            # One that waits stands in the queue from when it came there.
            self._views[view.name] = view
            return None
        self._state.usage.add(verdict.placement)
        self._views[view.name] = replace(view, path=Path.NETWORK, placement=verdict.placement, since=now)
        return self._grant(view.request, verdict.placement)

    def _grant(self, request: GroupRequest, placement: Placement) -> Grant:
        """The links of the (one) tree, rank by rank."""
        tree = placement.trees[0]
        numbers = self._network.numbers
        parents = {}
        for name in tree.links:
            link = self._fabric.link(name)
            parents[numbers[link.low]] = (numbers[link.high], self._up[name])
        root = numbers[tree.tree.root]
        rows = [climb(numbers[host], root, parents.__getitem__) for host in request.hosts]
        return Grant(filled(rows), tree.terms.window)


def _policy(limits: Limits) -> Policy:
    return load(limits.policy, **(limits.options or {}))


def fabric_of(network: Network, limits: Limits) -> tuple[Fabric, dict[str, int]]:
    """The network as a fabric, and the directed link that leads up each of its links. Raises ConfigError.

    Up is away from hosts; between switches that are equally far from them, to the one with the higher number.
    """
    capacity = Capacity(
        slot_bytes=UNLIMITED if limits.slot_bytes is None else limits.slot_bytes,
        groups=UNLIMITED if limits.groups is None else limits.groups,
    )
    offer = EngineCapabilities(
        mode=limits.mode,
        window=LARGEST_WINDOW,
        slots=2 * LARGEST_WINDOW,
        message_buffers=LARGEST_WINDOW,
        children=len(network.names),
        groups=UNLIMITED,
    )
    names, tier = network.names, _tiers(network)
    ports: dict[int, int] = {}
    links, up = [], {}
    for k, wire in enumerate(network.wires):
        forward = (tier[wire.a], wire.a) < (tier[wire.b], wire.b)
        low, high = (wire.a, wire.b) if forward else (wire.b, wire.a)
        at = [ports.get(node, 0) for node in (low, high)]
        ports[low], ports[high] = at[0] + 1, at[1] + 1
        link = Link(names[low], names[high], at[0], at[1], wire.rate, _MTU, wire.delay * 1e-3)
        links.append(link)
        up[link.name] = 2 * k if forward else 2 * k + 1
    fabric = Fabric(
        {name: HostNode(name) for name in names[: network.hosts]},
        {name: EngineNode(name, capacity=capacity, offer=offer) for name in names[network.hosts :]},
        tuple(links),
        f"topology {network.name}",
    )
    return fabric, up


def _tiers(network: Network) -> list[int]:
    """Links from each node to the nearest host."""
    count = len(network.names)
    far = [0] * network.hosts + [count] * (count - network.hosts)
    queue = deque(range(network.hosts))
    while queue:
        at = queue.popleft()
        for other, _ in network.neighbours[at]:
            if far[other] > far[at] + 1:
                far[other] = far[at] + 1
                queue.append(other)
    return far
