"""What a policy is: who gets the network when there is not enough of it.

A policy decides; the manager carries out. It is asked for a verdict when a group starts (or starts an epoch anew), and
for moves when something became free, something was lost, or time went on. It keeps nothing but its options, so a
manager that was restarted decides as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from epic_host.fabric.agreement import agree
from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.window import Floor


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as a policy sees it: on the network, between its hosts, or nowhere yet.

    While a group changes path, `path` is the one it goes to. `since`: when it came onto that path, in seconds; groups
    that wait stand in the order of `since`. `placement` is what it holds of the fabric, also while it is leaving.
    """

    name: str
    request: GroupRequest
    terms: Terms
    path: Path
    since: float
    placement: Placement | None = None

    @property
    def waits(self) -> bool:
        """Whether it would take the network if it could."""
        return self.path is not Path.NETWORK and self.request.path != "host"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a group goes. `queued`: it waits for the network, on its hosts if `path` is HOST, else doing nothing."""

    path: Path
    reason: Reason
    text: str
    about: dict[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A running group that is to change its path. To NETWORK only where there is room now."""

    group: str
    to: Path
    reason: Reason
    text: str


class Policy(Protocol):
    """One way to share a fabric out."""

    @property
    def name(self) -> str:
        """What it is called in requests and configurations."""

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
        """Where a group goes: a new one, one that lost its place, or one whose move to the network is carried out.

        `groups` are the others under this policy. `since`: from when it waits, None: from now.
        """

    def moves(self, state: FabricState, groups: Sequence[GroupView], now: float) -> Sequence[Move]:
        """Who changes path now. The manager asks again after each change, and at `next_turn`."""

    def next_turn(self, groups: Sequence[GroupView], now: float) -> float | None:
        """When `moves` may say something new though nothing else happens; None: not before something does."""


def granted(placement: Placement) -> Verdict:
    """The network."""
    trees = ", ".join(tree.tree.root for tree in placement.trees)
    terms = placement.trees[0].terms
    text = f"mode {terms.mode}, window {terms.window}, payload {terms.payload_bytes}, roots {trees}"
    return Verdict(Path.NETWORK, Reason.GRANTED, text, {"root": trees}, placement)


def elsewhere(request: GroupRequest, refusal: Refusal, *, waits: bool) -> Verdict:
    """Between the hosts; a group that takes the network or nothing waits, or is refused."""
    path = Path.NONE if request.path == "network" else Path.HOST
    return Verdict(path, refusal.reason, refusal.text, refusal.about, queued=waits)


def _ever(state: FabricState, request: GroupRequest, terms: Terms, floor: Floor) -> bool:
    """Whether a group would have a place with nothing given away and nothing lost."""
    return isinstance(place(state.usage.fabric, state.whole(), request, terms, floor=floor), Placement)


def best_place(
    state: FabricState, request: GroupRequest, terms: Terms | None, floor: Floor
) -> Placement | Verdict:
    """Where a group would go if nobody waited, or the verdict where there is no such place now."""
    if request.path == "host":
        return Verdict(Path.HOST, Reason.ASKED_FOR_HOST, f"group {request.name} asks for the host path")
    fabric = state.usage.fabric
    agreed = terms if terms is not None else agree(fabric, state, request)
    if isinstance(agreed, Refusal):
        return elsewhere(request, agreed, waits=False)
    found = place(fabric, state, request, agreed, floor=floor)
    if isinstance(found, Refusal):
        return elsewhere(request, found, waits=_ever(state, request, agreed, floor))
    return found
