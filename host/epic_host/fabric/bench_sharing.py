"""How policies share a fabric that is asked for more than it has: lives of groups in virtual time."""

from __future__ import annotations

import math
import random
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from epic_host.fabric.agreement import agree
from epic_host.fabric.bench import engine, jain, some_group
from epic_host.fabric.builders import fat_tree
from epic_host.fabric.decision import Path
from epic_host.fabric.policies import GroupView, Move, Policy, Verdict
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Usage
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms


@dataclass(frozen=True, slots=True)
class SharingFigures:
    """How a policy shares a fabric that is asked for more than it has.

    A group's share is the time it has the network over the time it lives. `fairness` is Jain's index over all shares,
    `starved` counts groups that never had it, `longest_wait` (seconds) is the longest that one that had it was without.
    `utilization` is the share of all slot memory given away, over time; `moves` counts changes of path.
    """

    policy: str
    hosts: int
    groups: int
    seconds: float
    mean_share: float
    fairness: float
    starved: int
    longest_wait: float
    utilization: float
    moves: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def sharing(
    policy: Policy, k: int = 4, groups: int = 300, load: float = 1.0, seed: int = 1
) -> SharingFigures:
    """Lives of groups on a fat tree under a policy, in virtual time.

    A group comes every 1/`load` seconds on average and lives 20 s on average. The policy is asked every half second,
    and a group that leaves the network holds its place for a quarter of a second.
    """
    return _Lives(policy, k, groups, load, seed).run()


_LIFE: Final = 20.0
_TICK: Final = 0.5
_CHANGE: Final = 0.25


class _Lives:
    """The groups that live, and what became of them."""

    def __init__(self, policy: Policy, k: int, groups: int, load: float, seed: int) -> None:
        self.policy = policy
        self.fabric = fat_tree(k, engine=engine(Capacity(slot_bytes=1 << 20, groups=4)))
        self.state = FabricState(Usage(self.fabric))
        self.seed = seed
        rng = random.Random(seed)
        hosts = list(self.fabric.hosts)
        self.coming: list[tuple[float, float, GroupRequest]] = []
        now = 0.0
        for i in range(groups):
            now += rng.expovariate(load)
            request = some_group(rng, hosts, f"g{i}", (2, 4, 8, 16))
            self.coming.append((now, now + rng.expovariate(1 / _LIFE), request))
        self.views: dict[str, GroupView] = {}
        self.ends: dict[str, float] = {}
        self.freeing: dict[str, float] = {}
        self.turns: dict[str, list[tuple[float, float]]] = {request.name: [] for _, _, request in self.coming}
        self.moved = 0
        self.given = 0.0

    def run(self) -> SharingFigures:
        """All lives to their ends."""
        before, now, left = time.process_time(), 0.0, list(reversed(self.coming))
        while left or self.views:
            now += _TICK
            while left and left[-1][0] <= now:
                self._come(left.pop(), now)
            for name in [name for name, end in self.ends.items() if end <= now]:
                self._go(name, now)
            for name in [name for name, until in self.freeing.items() if until <= now]:
                self._free(name)
            for move in self.policy.moves(self.state, list(self.views.values()), now):
                self._carry_out(move, now)
            self.given += _TICK * sum(v.placement.slot_bytes for v in self.views.values() if v.placement)
        return self._figures(time.process_time() - before, now)

    def _come(self, coming: tuple[float, float, GroupRequest], now: float) -> None:
        _, end, request = coming
        agreed = agree(self.fabric, self.state, request)
        assert isinstance(agreed, Terms), agreed
        view = GroupView(request.name, request, agreed, Path.HOST, now)
        self.ends[request.name] = max(end, now + _TICK)
        self._put(
            view, self.policy.admit(self.state, request, now, terms=agreed, groups=self._others(view)), now
        )

    def _others(self, view: GroupView) -> list[GroupView]:
        return [other for name, other in self.views.items() if name != view.name]

    def _put(self, view: GroupView, verdict: Verdict, now: float) -> None:
        self.views[view.name] = replace(view, path=verdict.path, placement=verdict.placement, since=now)
        if verdict.placement is not None:
            self.state.usage.add(verdict.placement)
            self.turns[view.name].append((now, math.inf))

    def _leave(self, name: str, now: float) -> None:
        since, _ = self.turns[name].pop()
        self.turns[name].append((since, now))

    def _go(self, name: str, now: float) -> None:
        if self.views[name].path is Path.NETWORK:
            self._leave(name, now)
        if self.views[name].placement is not None:
            self._free(name)
        del self.views[name], self.ends[name]

    def _free(self, name: str) -> None:
        view = self.views[name]
        assert view.placement is not None
        self.state.usage.remove(view.placement)
        self.views[name] = replace(view, placement=None)
        self.freeing.pop(name, None)

    def _carry_out(self, move: Move, now: float) -> None:
        self.moved += 1
        view = self.views[move.group]
        if move.to is Path.NETWORK:
            verdict = self.policy.admit(
                self.state, view.request, now, terms=view.terms, groups=self._others(view), since=view.since
            )
            self._put(view, verdict, now)
            return
        self._leave(move.group, now)
        self.views[move.group] = replace(view, path=move.to, since=now)
        self.freeing[move.group] = now + _CHANGE

    def _figures(self, seconds: float, until: float) -> SharingFigures:
        shares, waits = [], [0.0]
        for came, end, request in self.coming:
            turns = self.turns[request.name]
            life = max(end - came, _TICK)
            shares.append(min(1.0, sum(stop - start for start, stop in turns) / life))
            edges = [came, *(edge for turn in turns for edge in turn)]
            waits += [start - stop for stop, start in zip(edges[0::2], edges[1::2], strict=False)]
        memory = sum(self.state.usage.capacity(name).slot_bytes for name in self.fabric.engines)
        return SharingFigures(
            policy=self.policy.name,
            hosts=len(self.fabric.hosts),
            groups=len(self.coming),
            seconds=seconds,
            mean_share=sum(shares) / len(shares),
            fairness=jain(shares),
            starved=sum(not turns for turns in self.turns.values()),
            longest_wait=max(waits),
            utilization=self.given / until / memory,
            moves=self.moved,
            seed=self.seed,
        )
