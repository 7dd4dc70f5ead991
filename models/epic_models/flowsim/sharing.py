"""Who gets switches' memory where there is not enough of it: the interface, and how an implementation is found.

The simulator asks; an implementation (the fabric manager's policies, by an entry point `epic.sharing`) decides where a
group goes, and keeps what it has given away. This package knows no manager: what it needs to know of one is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, cast

from epic_models.flowsim.collectives import Cut
from epic_models.flowsim.topology import Index
from epic_models.packetsim.topology import Network
from epic_spec.errors import ConfigError

GROUP: Final = "epic.sharing"


@dataclass(frozen=True, slots=True)
class Limits:
    """What each switch has for all groups together, and who shares it out: bytes of slots, group entries.

    `mode`: that in which switches work; groups of another one stay on their hosts.
    """

    policy: str
    mode: int = 3
    slot_bytes: int | None = None
    groups: int | None = None
    options: Mapping[str, Any] | None = None
    # Seconds that a group stands still while it changes between network and hosts.
    change: float = 0.01


@dataclass(frozen=True, slots=True)
class Ask:
    """A group that would use the network; `hosts[r]` is rank r's. The window is the one that it wants."""

    name: str
    hosts: tuple[int, ...]
    mode: int
    cut: Cut


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """A place in the network: directed links from each rank's host up to the root, and a window.

    `climbs` has a row for each rank, filled up with -1.
    """

    climbs: Index
    window: int


@dataclass(frozen=True, slots=True)
class Move:
    """A group that changes its path now: onto the network with a grant, else onto its hosts."""

    group: str
    grant: Grant | None


class Sharing(Protocol):
    """One policy at work on one network. Times are in seconds and never decrease."""

    def join(self, ask: Ask, now: float) -> Grant | None:
        """A group begins: a place at once, or None: on its hosts until a move."""

    def leave(self, group: str, now: float) -> None:
        """A group has ended; all that it had is free."""

    def freed(self, group: str, now: float) -> None:
        """A group that was moved to its hosts has left the network now; until then it held its place."""

    def moves(self, now: float) -> Sequence[Move]:
        """Who changes path. Asked after every change, until there is none."""

    def next_turn(self, now: float) -> float | None:
        """When `moves` may say something though nothing else happens."""


class Maker(Protocol):
    """What the entry point names."""

    def __call__(self, network: Network, limits: Limits) -> Sharing:
        """The policy that `limits` name at work on a network. Raises ConfigError."""

    def check(self, limits: Limits) -> None:
        """Raises ConfigError for a policy that is not known, or options that it does not have."""


def maker(limits: Limits) -> Maker:
    """Who offers policies. Raises ConfigError where nobody does, or not the one that `limits` name."""
    for point in entry_points(group=GROUP):
        found = cast(Maker, point.load())
        found.check(limits)
        return found
    raise ConfigError(
        f"policy = {limits.policy!r}, expected a package that has policies: none that is installed has an "
        f"entry point {GROUP} (epic_host has)"
    )
