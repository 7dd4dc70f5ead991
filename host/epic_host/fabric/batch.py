"""Placement of several groups that are there at once by the heuristic: who is let in first matters more than where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epic_host.fabric.agreement import agree
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Fabric
from epic_host.fabric.window import LEAST_WINDOW, Sizes


def place_batch(
    fabric: Fabric,
    state: FabricState,
    requests: Sequence[GroupRequest],
    weights: Mapping[str, float] | None = None,
) -> dict[str, Placement | Refusal]:
    """Where each group goes, or why nowhere; nothing is given away yet. Those without a weight have 1.

    Greedy by weight for each engine that a group would have in an empty fabric, with the least windows. Then groups
    that were left out are tried in place of one that is in, as long as that adds weight. What memory is left then
    widens the windows, in turn.
    """
    return _Batch(fabric, state, requests, weights or {}).run()


def _whole(sizes: Sizes) -> int:
    """The floor of a group that takes the window that it wants or none."""
    return sizes.wanted


class _Batch:
    """Who is in and who is not, so far."""

    def __init__(
        self,
        fabric: Fabric,
        state: FabricState,
        requests: Sequence[GroupRequest],
        weights: Mapping[str, float],
    ) -> None:
        self._fabric = fabric
        self._usage = state.usage.copy()
        self._state = state.with_usage(self._usage)
        self._weight = {request.name: weights.get(request.name, 1.0) for request in requests}
        self._terms: dict[str, Terms] = {}
        self._found: dict[str, Placement | Refusal] = {}
        size: dict[str, int] = {}
        empty = state.empty()
        for request in requests:
            agreed = agree(fabric, state, request)
            if isinstance(agreed, Refusal):
                self._found[request.name] = agreed
                continue
            self._terms[request.name] = agreed
            alone = place(fabric, empty, request, agreed)
            size[request.name] = len(alone.engines) if isinstance(alone, Placement) else len(fabric.engines)
        able = [request for request in requests if request.name in size]
        self._order = sorted(able, key=lambda r: (-self._weight[r.name] / size[r.name], size[r.name], r.name))

    def run(self) -> dict[str, Placement | Refusal]:
        """All of it."""
        self._found |= self._fill(self._order)
        while self._exchange():
            pass
        while self._widen():
            pass
        return self._found

    def _fill(self, requests: Sequence[GroupRequest]) -> dict[str, Placement | Refusal]:
        """One after another, with the least windows."""
        answers: dict[str, Placement | Refusal] = {}
        for request in requests:
            terms = self._terms[request.name]
            least = terms.with_window(min(LEAST_WINDOW, terms.window))
            answer = answers[request.name] = place(self._fabric, self._state, request, least)
            if isinstance(answer, Placement):
                self._usage.add(answer)
        return answers

    def _exchange(self) -> bool:
        """Take one group out if others that then fit weigh more; whether there was one. Weight only grows."""
        outside = [request for request in self._order if isinstance(self._found[request.name], Refusal)]
        for request in self._order:
            placement = self._found[request.name]
            if not isinstance(placement, Placement) or not outside:
                continue
            self._usage.remove(placement)
            others = self._fill(outside)
            came = {name: answer for name, answer in others.items() if isinstance(answer, Placement)}
            if sum(self._weight[name] for name in came) > self._weight[request.name]:
                self._found |= others
                self._found |= self._fill([request])
                return True
            for answer in came.values():
                self._usage.remove(answer)
            self._usage.add(placement)
        return False

    def _widen(self) -> bool:
        """Double the window of each group that has room for it; whether any had."""
        wider = False
        for request in self._order:
            placement, terms = self._found[request.name], self._terms[request.name]
            if not isinstance(placement, Placement):
                continue
            window = 2 * placement.trees[0].terms.window
            if window > terms.window:
                continue
            self._usage.remove(placement)
            answer = place(self._fabric, self._state, request, terms.with_window(window), floor=_whole)
            if isinstance(answer, Placement) and answer.trees[0].terms.window == window:
                self._found[request.name] = placement = answer
                wider = True
            self._usage.add(placement)
        return wider
