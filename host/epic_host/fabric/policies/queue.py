"""Who waits for the network, in which order, and what may start before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.policies.base import GroupView, Verdict, best_place, elsewhere, granted
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Usage, kbps, sum_of, total
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.window import Floor


def waiting(groups: Iterable[GroupView]) -> list[GroupView]:
    """Those that wait, who came first before."""
    return sorted((group for group in groups if group.waits), key=lambda group: (group.since, group.name))


def admit_in_order(
    state: FabricState,
    request: GroupRequest,
    terms: Terms | None,
    groups: Sequence[GroupView],
    since: float | None,
    floor: Floor,
) -> Verdict:
    """The network if there is room and it takes nothing from those that wait before; else the queue."""
    best = best_place(state, request, terms, floor)
    if isinstance(best, Verdict):
        return best
    ahead = waiting(group for group in groups if since is None or group.since < since)
    queue = Queue(state, groups, floor)
    for group in ahead:
        queue.wait(group)
    if queue.obstructed(best):
        text = f"{len(ahead)} groups wait before it, and one of them for the same engines"
        return elsewhere(request, Refusal(Reason.QUEUED, text), waits=True)
    return granted(best)


class Queue:
    """Groups that wait, front to back, and what must stay possible for each of them.

    A group further back may be served first only if that takes nothing from one before it: the place that the earlier
    one would get in an empty fabric must still fit beside all that started since it waits. So whoever waits at the
    front gets the network when those that were there before it have gone, whatever comes after it.
    """

    def __init__(self, state: FabricState, groups: Iterable[GroupView], floor: Floor) -> None:
        self._fabric = state.usage.fabric
        self._empty = state.empty()
        self._floor = floor
        self._claims: list[_Claim] = []
        self._running = [
            (group.since, group.placement)
            for group in groups
            if group.path is Path.NETWORK and group.placement is not None
        ]

    def wait(self, group: GroupView) -> None:
        """A group waits on; those asked about from now on are behind it."""
        ideal = place(self._fabric, self._empty, group.request, group.terms, floor=self._floor)
        if isinstance(ideal, Refusal):
            return  # not even in an empty fabric: nobody need make way
        claim = _Claim(self._empty.usage, ideal)
        for started, placement in self._running:
            if started > group.since:
                claim.beside(placement)
        self._claims.append(claim)

    def obstructed(self, placement: Placement) -> bool:
        """Whether this placement would be in the way of a group that waits before."""
        return any(claim.obstructed(placement) for claim in self._claims)

    def started(self, placement: Placement, now: float) -> None:
        """A group starts now, so all who wait must do beside it."""
        self._running.append((now, placement))
        for claim in self._claims:
            claim.beside(placement)


class _Claim:
    """The engines and links of the place that a waiting group would like, and what others have of them."""

    def __init__(self, usage: Usage, ideal: Placement) -> None:
        self._usage = usage
        self._engines, self._links = total(ideal)

    def beside(self, placement: Placement) -> None:
        """This is there too."""
        engines, links = total(placement)
        for name in engines.keys() & self._engines.keys():
            self._engines[name] = sum_of((self._engines[name], engines[name]))
        for name in links.keys() & self._links.keys():
            self._links[name] += links[name]

    def obstructed(self, placement: Placement) -> bool:
        engines, links = total(placement)
        for name in engines.keys() & self._engines.keys():
            if not sum_of((self._engines[name], engines[name])).fits(self._usage.capacity(name)):
                return True
        return any(
            self._links[name] + links[name] > kbps(self._usage.link_free(name))
            for name in links.keys() & self._links.keys()
        )
