"""Spatial sharing: who is on the network keeps its part for as long as the group lives; the others wait in order."""

from __future__ import annotations

from collections.abc import Sequence

from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement
from epic_host.fabric.policies.base import GroupView, Move, Verdict
from epic_host.fabric.policies.queue import Queue, admit_in_order, waiting
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.window import at_rate


class Spatial:
    """A part of each engine's memory for the group's life, large enough for its rate.

    A group that finds no room waits, on its hosts if it may, and gets the network when groups end. Nobody overtakes in
    a way that takes the place of one who waits longer. As long as groups end, everybody gets a turn.
    """

    name = "spatial"

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
        """Groups that wait and now have room, front to back."""
        usage = state.usage.copy()
        trial = state.with_usage(usage)
        queue = Queue(state, groups, at_rate)
        moves = []
        for group in waiting(groups):
            found = place(usage.fabric, trial, group.request, group.terms, floor=at_rate)
            if isinstance(found, Placement) and not queue.obstructed(found):
                usage.add(found)
                queue.started(found, now)
                moves.append(
                    Move(group.name, Path.NETWORK, Reason.UPGRADED, "there is room on the network now")
                )
            else:
                queue.wait(group)
        return moves

    def next_turn(self, groups: Sequence[GroupView], now: float) -> float | None:
        """Nothing happens by time alone."""
        return None
