"""Which path an epoch of a group takes, and who changes path: what policies and the cost model say, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, overload

from epic_host.fabric.agreement import rate_of
from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.placement import Placement
from epic_host.fabric.policies import GroupView, Policy, Verdict, load, names
from epic_host.fabric.policies.base import granted
from epic_host.fabric.request import DEFAULT_TYPICAL_BYTES, GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fallback.cost import Setting, choose, estimate
from epic_host.grants import ALGORITHMS
from epic_host.manager.records import ACTIVE, CHANGING, Group
from epic_host.manager.state import State
from epic_spec.errors import ConfigError

# Reasons that may pass by themselves: a group that had the network, and takes nothing else, waits for them to.
PASSING: Final = frozenset(
    {
        Reason.NO_SLOTS,
        Reason.NO_GROUPS,
        Reason.NO_MULTICAST,
        Reason.NO_RATE,
        Reason.NO_TREE,
        Reason.QUEUED,
        Reason.TURN_OVER,
        Reason.ENGINE_LOST,
        Reason.LINK_LOST,
        Reason.INSTALL_FAILED,
    }
)
# Reasons for the hosts that no room in the network changes.
LASTING: Final = frozenset({Reason.ASKED_FOR_HOST, Reason.SINGLE_RANK, Reason.COST, Reason.NO_CAPABILITY})
# An exact search ends after this time, and then the heuristic's place is good enough.
EXACT_SECONDS: Final = 1.0
PLACEMENTS: Final = ("heuristic", "exact")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The path of an epoch. `group` has its terms. Path.NONE: there is none now (`waits`), or at all.

    `queued`: it waits for the network in the policy's order, not only for a fault to pass.
    """

    group: Group
    path: Path
    reason: Reason
    text: str
    about: dict[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    algorithm: str = ""
    waits: bool = False
    queued: bool = False


class Views(Sequence[GroupView]):
    """Groups as policies see them, made when they are looked at: many decisions need none."""

    def __init__(self, state: State, policy: str, default: str, but: str = "") -> None:
        self._state = state
        self._policy, self._default, self._but = policy, default, but
        self._made: list[GroupView] | None = None

    def _views(self) -> list[GroupView]:
        if self._made is None:
            groups = self._state.book.groups.values()
            self._made = [
                view for group in groups if self._mine(group) and (view := self._view(group)) is not None
            ]
        return self._made

    def _mine(self, group: Group) -> bool:
        return (group.request.policy or self._default) == self._policy and group.name != self._but

    def _view(self, group: Group) -> GroupView | None:
        if group.state not in (ACTIVE, CHANGING) or group.terms is None:
            return None
        if Reason(group.reason) in LASTING and group.path == Path.HOST.value:
            return None
        held = self._state.placing.held(self._state.book.of_group(group.name))
        return GroupView(group.name, group.request, group.terms, self._path(group), group.since, held)

    def _path(self, group: Group) -> Path:
        """Where it is, or goes."""
        if group.state == ACTIVE or group.placed:
            return Path(group.path)
        return Path.HOST if group.target == "host" else Path.NONE

    @overload
    def __getitem__(self, index: int) -> GroupView: ...
    @overload
    def __getitem__(self, index: slice) -> list[GroupView]: ...
    def __getitem__(self, index: int | slice) -> GroupView | list[GroupView]:
        """The group at a place, or some."""
        return self._views()[index]

    def __len__(self) -> int:
        return len(self._views())

    def __iter__(self) -> Iterator[GroupView]:
        return iter(self._views())


class Paths:
    """Chooses; reads the state, changes nothing of it.

    Costs are weighed for path "auto" only, and not where `typical_bytes` is 0: then nothing is known of sizes.
    """

    def __init__(self, state: State, policy: str, placement: str) -> None:
        if placement not in PLACEMENTS:
            raise ConfigError(f"placement = {placement!r}, expected one of {', '.join(PLACEMENTS)}")
        self._state = state
        self._placement = placement
        self._default = policy
        self._loaded: dict[str, Policy] = {policy: load(policy)}
        self.policies = frozenset(names())
        # When policies may have something new to say though nothing happens (Unix seconds).
        self._turns: dict[str, float] = {}

    # ------------------------------------------------------------------------------------------ epochs

    def choose(self, group: Group, now: float) -> Chosen:
        """The path of the epoch that is being prepared."""
        request, group = group.request, self._with_terms(group)
        if request.path == "host":
            return self._host(group, Reason.ASKED_FOR_HOST, "the job asked for its hosts")
        if request.world_size == 1 and request.path == "auto":
            return self._host(group, Reason.SINGLE_RANK, "one rank: nothing to send")
        if group.target == "host" and request.path != "network":
            return self._host(group, Reason(group.reason), group.text)
        if group.target == "host":
            turn = group.reason == Reason.TURN_OVER.value
            return Chosen(group, Path.NONE, Reason(group.reason), group.text, waits=True, queued=turn)
        verdict = self.admit(group, now)
        if verdict.placement is not None:
            return self._network(group, verdict, verdict.placement)
        if verdict.path is Path.HOST:
            return self._host(group, verdict.reason, verdict.text, verdict.about)
        waits = verdict.queued or (group.epoch > 1 and verdict.reason in PASSING)
        return Chosen(
            group, Path.NONE, verdict.reason, verdict.text, verdict.about, waits=waits, queued=verdict.queued
        )

    def admit(self, group: Group, now: float) -> Verdict:
        """What the group's policy says of it now."""
        state = self._state
        engines = state.fleet.unusable(state.book.out("engine"))
        mine = state.avoided(group.name, now), state.unusable_links(now, group.name)
        fabric = state.placing.state(engines, state.unusable_links(now), *mine)
        name = group.request.policy or self._default
        others = Views(state, name, self._default, but=group.name)
        waited = group.since if group.path != Path.NONE.value else None
        verdict = self._policy(name).admit(
            fabric, group.request, state.unix(now), terms=group.terms, groups=others, since=waited
        )
        return self._exactly(verdict, fabric, group) if self._placement == "exact" else verdict

    def _exactly(self, verdict: Verdict, fabric: FabricState, group: Group) -> Verdict:
        """The same verdict with the best place there is; where the policy found none for want of room, one if there is.

        Groups with several trees, and those that a policy makes wait for others, keep the verdict.
        """
        # Here: scipy takes longer to import than everything else.
        from epic_host.fabric.milp import solve

        first_come = (group.request.policy or self._default) == "best_effort"
        if group.request.trees != 1 or (verdict.placement is None and not first_come) or group.terms is None:
            return verdict
        solution = solve(
            fabric.usage.fabric,
            fabric,
            [group.request],
            terms={group.name: group.terms},
            time_limit=EXACT_SECONDS,
        )
        placement = solution.placements.get(group.request.name)
        return verdict if placement is None else granted(placement)

    def refusal(self, group: Group, now: float) -> Verdict | None:
        """The verdict on a group that takes nothing but the network, where it is no."""
        verdict = self.admit(self._with_terms(group), now)
        return verdict if verdict.path is not Path.NETWORK and not verdict.queued else None

    def _network(self, group: Group, verdict: Verdict, placement: Placement) -> Chosen:
        reason = Reason.UPGRADED if group.reason == Reason.UPGRADED.value else verdict.reason
        about = dict(verdict.about) | {"engines": ",".join(sorted(placement.engines))}
        if group.request.path == "auto" and group.request.typical_bytes:
            terms = placement.trees[0].terms
            depth = max(tree.tree.depth() for tree in placement.trees)
            setting = self._setting(group, terms, depth)
            network = estimate("network", group.request.typical_bytes, setting)
            algorithm, hosts = self._fastest(group)
            if hosts < network:
                text = (
                    f"{algorithm} takes {hosts * 1e6:.1f} us for {group.request.typical_bytes} bytes, "
                    f"the network {network * 1e6:.1f} us"
                )
                return self._host(group, Reason.COST, text)
        return Chosen(group, Path.NETWORK, reason, verdict.text, about, placement=placement)

    def _host(self, group: Group, reason: Reason, text: str, about: dict[str, str] | None = None) -> Chosen:
        algorithm, _ = self._fastest(group)
        about = dict(about or {}) | {"algorithm": algorithm}
        return Chosen(group, Path.HOST, reason, text, about, algorithm=algorithm)

    def _with_terms(self, group: Group) -> Group:
        """A group agrees once, before its first epoch: its cells are the same on all paths."""
        if group.terms is not None:
            return group
        return replace(group, terms=self._state.placing.terms(group.request))

    # -------------------------------------------------------------------------------------- cost model

    def _fastest(self, group: Group) -> tuple[str, float]:
        """The host algorithm for a typical collective, and its seconds.

        A reproducible group takes the one whose order of additions does not depend on how many bytes there are.
        """
        assert group.terms is not None
        depth = self._state.placing.distance(group.request.hosts)
        size, setting = self._typical(group.request), self._setting(group, group.terms, depth)
        algorithm = "doubling" if group.request.reproducible else choose(size, setting, ALGORITHMS)
        return algorithm, estimate(algorithm, size, setting)

    def _setting(self, group: Group, terms: Terms, depth: int) -> Setting:
        fabric, request = self._state.placing.fabric, group.request
        delays = [link.delay_us for host in request.hosts for link in fabric.up[host]]
        return Setting(
            n=request.world_size,
            rate_gbps=rate_of(fabric, request) or 1.0,
            link_us=max(delays, default=1.0),
            window=terms.window,
            cell_bytes=terms.cell_bytes,
            payload_bytes=terms.payload_bytes,
            depth=depth,
        )

    @staticmethod
    def _typical(request: GroupRequest) -> int:
        """Bytes of a typical collective."""
        return request.typical_bytes or DEFAULT_TYPICAL_BYTES

    # ------------------------------------------------------------------------------------------- moves

    def moves(self, now: float) -> list[tuple[str, str, Reason, str]]:
        """Groups to move, to the hosts ("host") or to the network (""), and why; asked when there is room, or a turn
        ends.
        """
        state, unix, found = self._state, self._state.unix(now), []
        engines = state.fleet.unusable(state.book.out("engine"))
        fabric = state.placing.state(engines, state.unusable_links(now))
        for name in {group.request.policy or self._default for group in state.book.groups.values()}:
            if not state.room and self._turns.get(name, float("inf")) > unix:
                continue
            policy, views = self._policy(name), Views(state, name, self._default)
            if not any(view.waits for view in views):
                continue
            for move in policy.moves(fabric, views, unix):
                target = "" if move.to is Path.NETWORK else "host"
                found.append((move.group, target, move.reason, move.text))
            turn = policy.next_turn(views, unix)
            self._turns[name] = float("inf") if turn is None else turn
        state.room = False
        return found

    def next_turn(self, now: float) -> float | None:
        """When `moves` is to be asked again at the latest."""
        soonest = min(self._turns.values(), default=float("inf"))
        return None if soonest == float("inf") else now + max(0.0, soonest - self._state.unix(now))

    def _policy(self, name: str) -> Policy:
        if name not in self._loaded:
            self._loaded[name] = load(name)
        return self._loaded[name]
