"""A manager in miniature: groups come, change path with a delay, and go, as a policy says; time is a number."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from epic_host.fabric.agreement import agree
from epic_host.fabric.decision import Path
from epic_host.fabric.placement import Placement
from epic_host.fabric.policies import GroupView, Move, Policy, Verdict
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms


@dataclass
class Life:
    """What became of a group."""

    came: float
    verdict: Verdict
    turns: list[tuple[float, float]] = field(default_factory=list)  # on the network from, until
    host: float = 0.0

    def network(self) -> float:
        return sum(until - since for since, until in self.turns)


class PolicyWorld:
    """`change` is how long a group that leaves the network still holds its place."""

    def __init__(self, state: FabricState, policy: Policy, change: float = 0.0) -> None:
        self.state = state
        self.policy = policy
        self.change = change
        self.now = 0.0
        self.groups: dict[str, GroupView] = {}
        self.leaving: dict[str, float] = {}
        self.lives: dict[str, Life] = {}
        self.moves: list[tuple[float, Move]] = []

    def views(self, but: str = "") -> list[GroupView]:
        return [group for name, group in self.groups.items() if name != but]

    def create(self, request: GroupRequest) -> Verdict:
        terms = agree(self.state.usage.fabric, self.state, request)
        assert isinstance(terms, Terms), terms
        verdict = self.policy.admit(self.state, request, self.now, terms=terms, groups=self.views())
        self.lives[request.name] = Life(self.now, verdict)
        if verdict.path is not Path.NONE or verdict.queued:
            self._put(GroupView(request.name, request, terms, verdict.path, self.now), verdict.placement)
        return verdict

    def destroy(self, name: str) -> None:
        group = self.groups.pop(name)
        self.leaving.pop(name, None)
        if group.placement is not None:
            self.state.usage.remove(group.placement)
        if group.path is Path.NETWORK:
            since, _ = self.lives[name].turns.pop()
            self.lives[name].turns.append((since, self.now))

    def path(self, name: str) -> Path:
        return self.groups[name].path

    def on_network(self) -> set[str]:
        return {name for name, group in self.groups.items() if group.path is Path.NETWORK}

    def step(self) -> list[Move]:
        """Carry out what the policy says now, until it says no more."""
        said: list[Move] = []
        while moves := self._once():
            said += moves
            assert len(said) < 1000, "moves without end"
        return said

    def _once(self) -> list[Move]:
        for name, until in list(self.leaving.items()):
            if until <= self.now:
                del self.leaving[name]
                held = self.groups[name].placement
                assert held is not None
                self.state.usage.remove(held)
                self.groups[name] = replace(self.groups[name], placement=None)
        moves = list(self.policy.moves(self.state, self.views(), self.now))
        for move in moves:
            self._carry_out(move)
        return moves

    def _carry_out(self, move: Move) -> None:
        self.moves.append((self.now, move))
        group = self.groups[move.group]
        assert move.to is not group.path
        if move.to is Path.NETWORK:
            verdict = self.policy.admit(
                self.state,
                group.request,
                self.now,
                terms=group.terms,
                groups=self.views(but=group.name),
                since=group.since,
            )
            assert verdict.placement is not None, ("moved, but there is no room", move, verdict)
            self._put(group, verdict.placement)
            return
        since, _ = self.lives[group.name].turns.pop()
        self.lives[group.name].turns.append((since, self.now))
        self.groups[group.name] = replace(group, path=move.to, since=self.now)
        self.leaving[group.name] = self.now + self.change

    def _put(self, group: GroupView, placement: Placement | None) -> None:
        path = group.path if placement is None else Path.NETWORK
        self.groups[group.name] = replace(group, path=path, since=self.now, placement=placement)
        if placement is not None:
            self.state.usage.add(placement)
            self.lives[group.name].turns.append((self.now, float("inf")))

    def run(self, until: float) -> None:
        """Go on to a time, with a stop wherever the policy or a change of path has one."""
        while True:
            self.step()
            turn = self.policy.next_turn(self.views(), self.now)
            stops = [*self.leaving.values(), *([turn] if turn is not None else [])]
            later = min((stop for stop in stops if stop > self.now), default=until)
            if later >= until:
                self.now = until
                self.step()
                return
            self.now = later
