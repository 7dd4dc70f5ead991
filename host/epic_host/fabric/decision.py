"""Why a group does or does not use the network: reason codes, and the one line that a log has of each decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

# Every logged decision begins with this, so that one grep finds them all.
PREFIX: Final = "epic-decision:"


class Path(Enum):
    """How the cells of a group travel."""

    NETWORK = "network"
    HOST = "host"
    NONE = "none"


class Reason(Enum):
    """The word for programs. The value stands in logs, in `epic explain` and in the API."""

    GRANTED = "granted"  # the network
    NO_SLOTS = "no_slots"  # an engine has too few slots or slot bytes left
    NO_GROUPS = "no_groups"  # an engine has no group entry left
    NO_MULTICAST = "no_multicast"  # an engine has no multicast entry left
    NO_RATE = "no_rate"  # an engine's aggregation rate or a link's bandwidth is given away
    FAN_IN = "fan_in"  # every tree needs more children at an engine than it offers
    NO_TREE = "no_tree"  # no tree of working links and engines joins the hosts
    NO_CAPABILITY = "no_capability"  # no engine of any tree offers what is asked for
    MIXED_TREE = "mixed_tree"  # engines of every tree disagree in a way that no tree can have
    ENGINE_LOST = "engine_lost"
    LINK_LOST = "link_lost"
    INSTALL_FAILED = "install_failed"
    ASKED_FOR_HOST = "asked_for_host"
    COST = "cost"  # by the cost model the hosts are faster
    TURN_OVER = "turn_over"  # policy temporal: another group's turn
    QUEUED = "queued"  # waits for its turn, or for a resource
    UPGRADED = "upgraded"  # from the hosts onto the network: a resource became free
    SINGLE_RANK = "single_rank"  # nothing to send
    MEMBERS_MISSING = "members_missing"  # ranks have not joined
    RANK_LOST = "rank_lost"
    LEASE_EXPIRED = "lease_expired"
    DESTROYED = "destroyed"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about a group. `about` has what it hangs on: engine, link, rank, numbers. `at` in seconds (Unix)."""

    group: str
    epoch: int
    path: Path
    reason: Reason
    text: str
    about: dict[str, str] = field(default_factory=dict)
    at: float = 0.0

    def line(self) -> str:
        """The log line."""
        about = "".join(f" {key}={value}" for key, value in self.about.items())
        return (
            f"{PREFIX} group={self.group} epoch={self.epoch} path={self.path.value} "
            f"reason={self.reason.value}{about}: {self.text}"
        )
