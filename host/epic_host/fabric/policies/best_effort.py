"""Best effort: whoever fits is on the network, with a smaller window where memory is short; others use their hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement
from epic_host.fabric.policies.base import GroupView, Move, Verdict, best_place, granted
from epic_host.fabric.policies.queue import waiting
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.window import halved


class BestEffort:
    """First come, first served, and nobody makes way.

    Small groups may always find room before a large one that waits; a large one still has its hosts. A group that takes
    the network or nothing is refused at once where there is no room.
    """

    name = "best_effort"

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
        """The network if there is room, else the hosts."""
        best = best_place(state, request, terms, halved)
        if isinstance(best, Placement):
            return granted(best)
        return replace(best, queued=False) if request.path == "network" else best

    def moves(self, state: FabricState, groups: Sequence[GroupView], now: float) -> Sequence[Move]:
        """All that fit now, who waits longest first."""
        usage = state.usage.copy()
        trial = state.with_usage(usage)
        moves = []
        for group in waiting(groups):
            found = place(usage.fabric, trial, group.request, group.terms, floor=halved)
            if isinstance(found, Placement):
                usage.add(found)
                moves.append(
                    Move(group.name, Path.NETWORK, Reason.UPGRADED, "there is room on the network now")
                )
        return moves

    def next_turn(self, groups: Sequence[GroupView], now: float) -> float | None:
        """Nothing happens by time alone."""
        return None
