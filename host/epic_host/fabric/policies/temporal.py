"""Temporal sharing: groups that do not fit beside each other take turns of a quantum on the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.policies.base import GroupView, Move, Verdict
from epic_host.fabric.policies.queue import Queue, admit_in_order, waiting
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.window import at_rate
from epic_spec.errors import ConfigError

# Seconds. A change of path costs a round of messages and installs, so turns are much longer than that.
DEFAULT_QUANTUM: Final = 2.0


class Temporal:
    """The network in turn. A group has it for a quantum at least; after that it makes way for those that wait.

    With n groups that want the same engines everyone gets a turn within n quanta (and n changes of path): the one that
    waits longest takes the place of those whose quantum is over, and what starts before it must leave room for it.
    """

    name = "temporal"

    def __init__(self, quantum: float = DEFAULT_QUANTUM) -> None:
        if not 0 < quantum < float("inf"):
            raise ConfigError(f"policy temporal: quantum = {quantum!r}, expected seconds above 0")
        self.quantum = quantum

    def admit(
        self,
        state: FabricState,
        request: GroupRequest,
        now: float,
        *,
        terms: Terms | None = None,
        groups: Sequence[GroupView] = (),
        since: float | None = None,
    ) -> Verdict:
        """The network if there is room and nobody waits for it, else the queue."""
        return admit_in_order(state, request, terms, groups, since, at_rate)

    def moves(self, state: FabricState, groups: Sequence[GroupView], now: float) -> Sequence[Move]:
        """Who starts, and who makes way."""
        return _Turn(self.quantum, state, groups, now).moves()

    def next_turn(self, groups: Sequence[GroupView], now: float) -> float | None:
        """When the next quantum is over, if somebody waits."""
        if not any(group.waits for group in groups):
            return None
        ends = (_end(group, self.quantum) for group in groups if group.path is Path.NETWORK)
        return min((end for end in ends if end > now), default=None)


class _Turn:
    """One look at who is on the network and who waits.

    `present` is what is given away now; `planned` is that without what is being freed, and with the places of those
    that it is freed for.
    """

    def __init__(self, quantum: float, state: FabricState, groups: Sequence[GroupView], now: float) -> None:
        self._now = now
        self._groups = groups
        self._fabric = state.usage.fabric
        self._present = state.with_usage(state.usage.copy())
        self._planned = state.with_usage(state.usage.copy())
        for group in groups:
            if group.path is not Path.NETWORK and group.placement is not None:
                self._planned.usage.remove(group.placement)
        self._queue = Queue(state, groups, at_rate)
        over = [g for g in groups if g.path is Path.NETWORK and g.placement and _end(g, quantum) <= now]
        self._over = sorted(over, key=lambda group: (group.since, group.name))

    def moves(self) -> list[Move]:
        """Front to back of the queue."""
        moves: list[Move] = []
        for group in waiting(self._groups):
            found = place(self._fabric, self._present, group.request, group.terms, floor=at_rate)
            if isinstance(found, Placement) and self._starts(found):
                moves.append(Move(group.name, Path.NETWORK, Reason.UPGRADED, "its turn on the network"))
                continue
            for victim in self._make_way(group):
                text = f"its turn is over after {self._now - victim.since:.3f} s, {group.name} waits"
                to = Path.NONE if victim.request.path == "network" else Path.HOST
                moves.append(Move(victim.name, to, Reason.TURN_OVER, text))
            self._queue.wait(group)
        return moves

    def _starts(self, found: Placement) -> bool:
        if self._queue.obstructed(found) or self._planned.usage.obstacle(found) is not None:
            return False
        self._present.usage.add(found)
        self._planned.usage.add(found)
        self._queue.started(found, self._now)
        return True

    def _make_way(self, group: GroupView) -> list[GroupView]:
        """Those that leave for this group, as few as do; what it will get is kept for it in `planned`."""
        usage = self._planned.usage
        leaving: list[GroupView] = []
        candidates = iter(self._over)
        while isinstance(found := self._place(group), Refusal):
            victim = next(candidates, None)
            if victim is None:
                for other in leaving:
                    usage.add(_held(other))
                return []
            usage.remove(_held(victim))
            leaving.append(victim)
        usage.add(found)
        for victim in reversed(leaving):
            if usage.obstacle(_held(victim)) is None:
                usage.add(_held(victim))
                leaving.remove(victim)
        self._over = [other for other in self._over if other not in leaving]
        return leaving

    def _place(self, group: GroupView) -> Placement | Refusal:
        return place(self._fabric, self._planned, group.request, group.terms, floor=at_rate)


def _end(group: GroupView, quantum: float) -> float:
    """When its turn may end. Said once, so that who asks at that very moment finds it over."""
    return group.since + quantum


def _held(group: GroupView) -> Placement:
    assert group.placement is not None
    return group.placement
