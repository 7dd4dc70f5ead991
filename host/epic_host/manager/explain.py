"""What the manager says of groups, engines and links: the values behind `epic group`, `epic explain` and `epic top`.

Fields are those of the messages of manager.proto.
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_host.fabric.decision import Decision
from epic_host.manager.records import ACTIVE, CHANGING, ENDED, FORMING, FREEING, JOINED, Group
from epic_host.manager.state import State


@dataclass(frozen=True, slots=True)
class MemberState:
    """A rank. `silent`: seconds since it was last heard, negative: never."""

    rank: int
    host: str
    address: str
    state: str
    epoch: int
    delivered: int
    contributed: int
    retransmissions: int
    payload_bytes: int
    silent: float


@dataclass(frozen=True, slots=True)
class EngineShare:
    """What a group has of an engine."""

    engine: str
    group_number: int
    tree: int
    slot_bytes: int
    slots: int
    fan_in: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group; `state` is one of forming, installing, active, changing, ended. `age` in seconds."""

    group: str
    job: str
    state: str
    epoch: int
    path: str
    reason: str
    text: str
    mode: int
    window: int
    payload_bytes: int
    trees: int
    algorithm: str
    members: tuple[MemberState, ...]
    shares: tuple[EngineShare, ...]
    age: float
    policy: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a group is as it is. `late[rank]`: how many cells it has contributed less than the foremost."""

    group: GroupState
    decisions: tuple[Decision, ...]
    waits_for: tuple[str, ...]
    late: dict[int, int]


@dataclass(frozen=True, slots=True)
class HostState:
    """A host: "up", "unknown" (has not registered), "lost"."""

    name: str
    state: str
    members: int
    addresses: tuple[str, ...]
    mtu: int
    version: str


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine: "up", "lost", "out" (of use), "unknown". Limits that the fabric's file does not set are 0."""

    name: str
    control: str
    state: str
    kind: str
    mode: int
    slot_bytes: int
    slot_bytes_used: int
    slots: int
    slots_used: int
    groups: int
    groups_used: int
    children: int


@dataclass(frozen=True, slots=True)
class LinkState:
    """A link: "up", "held" (lost or in error a while ago), "out" (of use)."""

    name: str
    low: str
    high: str
    state: str
    rate_gbps: float
    rate_used_gbps: float


@dataclass(frozen=True, slots=True)
class Topology:
    """The whole fabric."""

    hosts: tuple[HostState, ...]
    engines: tuple[EngineState, ...]
    links: tuple[LinkState, ...]


class Explainer:
    """Reads the state, changes nothing."""

    def __init__(self, state: State, default_policy: str) -> None:
        self._state = state
        self._default_policy = default_policy

    def group(self, group: Group, now: float) -> GroupState:
        """A group as it is."""
        book = self._state.book
        granting = book.granting(group.name)
        grant = granting.grant if granting is not None else None
        params = grant.params if grant is not None else None
        shares = tuple(
            EngineShare(i.engine, i.number, i.tree, i.demand.slot_bytes, i.demand.slots, i.demand.children)
            for i in sorted(book.of_group(group.name), key=lambda i: (i.tree, i.engine))
        )
        return GroupState(
            group=group.name,
            job=group.job,
            state=self.stage(group),
            epoch=group.epoch,
            path=group.path,
            reason=group.reason,
            text=group.text,
            mode=params.mode if params is not None else 0,
            window=params.window if params is not None else 0,
            payload_bytes=params.cell_bytes if params is not None else 0,
            trees=len(grant.trees) if grant is not None else 0,
            algorithm=grant.host.algorithm if grant is not None and grant.host is not None else "",
            members=self._members(group, now),
            shares=shares,
            age=max(0.0, self._state.unix(now) - group.created),
            policy=group.request.policy or self._default_policy,
        )

    def stage(self, group: Group) -> str:
        """Its state; "installing" where only engines are waited for."""
        if group.state == CHANGING and group.placed and not self._unreported(group):
            return "installing"
        return group.state

    def _unreported(self, group: Group) -> list[int]:
        members = self._state.book.members(group.name).values()
        return [m.rank for m in members if m.state == JOINED and m.reported < group.epoch]

    def _members(self, group: Group, now: float) -> tuple[MemberState, ...]:
        made = []
        for member in self._state.book.members(group.name).values():
            pulse = self._state.leases.members.get((group.name, member.rank))
            made.append(
                MemberState(
                    member.rank,
                    member.host,
                    member.address,
                    member.state,
                    pulse.epoch if pulse else member.reported,
                    pulse.delivered if pulse else member.delivered,
                    pulse.contributed if pulse else 0,
                    pulse.retransmissions if pulse else 0,
                    pulse.payload_bytes if pulse else 0,
                    now - pulse.heard if pulse else -1.0,
                )
            )
        return tuple(sorted(made, key=lambda m: m.rank))

    def explain(self, group: Group, now: float) -> Explanation:
        """Why it does or does not use the network, what it waits for, who is late."""
        state = self._state
        ranks = [(m.group, m.rank) for m in state.joined(group.name)]
        return Explanation(
            self.group(group, now),
            tuple(reasoned.decision for reasoned in state.book.reasons(group.name)),
            tuple(self._waits_for(group)),
            state.leases.late(ranks) if group.state == ACTIVE else {},
        )

    def _waits_for(self, group: Group) -> list[str]:
        state, waits = self._state, []
        members = state.book.members(group.name).values()
        if group.state == FORMING:
            waits += [f"rank {m.rank} on {m.host} to join" for m in members if m.state != JOINED]
        elif group.state == CHANGING:
            waits += [f"rank {rank} to report for epoch {group.epoch}" for rank in self._unreported(group)]
            for install in state.book.of_group(group.name):
                if install.step == FREEING and state.fleet.is_up(install.engine) and not group.placed:
                    waits.append(f"engine {install.engine} to free epoch {install.epoch}")
                elif install.step != FREEING and install.key not in state.seen:
                    waits.append(f"engine {install.engine} to install epoch {install.epoch}")
            if not group.placed and not waits:
                waits.append(f"a place in the network: {group.text}")
        elif (
            group.state == ACTIVE
            and group.path == "host"
            and group.request.path in ("auto", "prefer_network")
        ):
            waits.append(f"a place in the network ({group.reason}): {group.text}")
        return waits

    # ---------------------------------------------------------------------------------------- topology

    def topology(self, now: float) -> Topology:
        """The whole fabric."""
        state = self._state
        members: dict[str, list[str]] = {}
        for group in state.book.groups.values():
            for member in state.book.members(group.name).values():
                if member.address and (member.state == JOINED or group.state != ENDED):
                    members.setdefault(member.host, []).append(member.address)
        hosts = []
        for name in state.fabric.hosts:
            node = state.book.nodes.get((name,))
            word = "unknown" if node is None else "lost" if state.leases.node_is_lost(name, now) else "up"
            here = tuple(sorted(members.get(name, [])))
            hosts.append(
                HostState(name, word, len(here), here, node.mtu if node else 0, node.version if node else "")
            )
        return Topology(tuple(hosts), tuple(self._engines()), tuple(self._links(now)))

    def _engines(self) -> list[EngineState]:
        state, made = self._state, []
        for name, view in state.fleet.engines.items():
            used, whole = state.placing.usage.used(name), view.node.capacity
            limits = state.placing.usage.capacity(name)
            made.append(
                EngineState(
                    name=name,
                    control=view.node.control,
                    state="out" if state.book.is_out("engine", name) else view.state,
                    kind=view.kind,
                    mode=view.offer.mode if view.offer else 0,
                    slot_bytes=_limit(whole.slot_bytes),
                    slot_bytes_used=used.slot_bytes,
                    slots=_limit(whole.slots),
                    slots_used=used.slots,
                    groups=_limit(limits.groups),
                    groups_used=used.groups,
                    children=_limit(limits.children),
                )
            )
        return made

    def _links(self, now: float) -> list[LinkState]:
        state, held = self._state, self._state.fleet.held(now)
        made = []
        for link in state.placing.fabric.links:
            word = "out" if state.book.is_out("link", link.name) else "held" if link.name in held else "up"
            used = state.placing.usage.link_used(link.name)
            made.append(LinkState(link.name, link.low, link.high, word, link.rate_gbps, used))
        return made


def _limit(value: int) -> int:
    """A limit as shown: 0 where there is none."""
    return value if value < 1 << 48 else 0
