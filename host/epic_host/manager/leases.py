"""Who was heard of when: leases of members and nodes. None of it is stored; after a restart all begin anew.

That is safe: the manager never thinks a lease shorter than its holder does, who counts it from its last heartbeat
that was answered (LeaseOrder of tla/Manager.tla).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Of a member that has only just been heard of.
_NOTHING: Final = 0


@dataclass(frozen=True, slots=True)
class Beat:
    """A member's sign of life: its epoch, and what it has delivered and contributed, counted over all epochs."""

    group: str
    rank: int
    token: str
    epoch: int = 0
    delivered: int = 0
    contributed: int = 0
    retransmissions: int = 0
    payload_bytes: int = 0


@dataclass(slots=True)
class Pulse:
    """When a member was last heard, until when its lease lasts, and what it said of itself."""

    heard: float
    until: float
    epoch: int = 0
    delivered: int = _NOTHING
    contributed: int = _NOTHING
    retransmissions: int = _NOTHING
    payload_bytes: int = _NOTHING


@dataclass(frozen=True, slots=True)
class Notice:
    """Of a member that the manager does not know (any more): "gone"; or whose epoch is over: "epoch"."""

    group: str
    rank: int
    what: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """The answer to a heartbeat. `lease` in seconds, of the node, or the shortest of the members."""

    lease: float
    node_known: bool
    notices: tuple[Notice, ...]


class Leases:
    """Pulses of members by (group, rank), and of nodes by name."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, int], Pulse] = {}
        self.nodes: dict[str, Pulse] = {}

    def renew(self, group: str, rank: int, lease: float, now: float) -> Pulse:
        """A member was heard: its lease begins anew."""
        pulse = self.members.get((group, rank))
        if pulse is None:
            pulse = self.members[group, rank] = Pulse(now, now + lease)
        pulse.heard, pulse.until = now, now + lease
        return pulse

    def beat(self, beat: Beat, lease: float, now: float) -> Pulse:
        """A member's heartbeat. What it has done only grows: a beat that comes late takes nothing back."""
        pulse = self.renew(beat.group, beat.rank, lease, now)
        pulse.epoch = max(pulse.epoch, beat.epoch)
        pulse.delivered = max(pulse.delivered, beat.delivered)
        pulse.contributed = max(pulse.contributed, beat.contributed)
        pulse.retransmissions = max(pulse.retransmissions, beat.retransmissions)
        pulse.payload_bytes = max(pulse.payload_bytes, beat.payload_bytes)
        return pulse

    def node(self, host: str, lease: float, now: float) -> None:
        """A node was heard."""
        self.nodes[host] = Pulse(now, now + lease)

    def extend(self, by: float) -> None:
        """All leases last longer."""
        for pulse in (*self.members.values(), *self.nodes.values()):
            pulse.until += by

    def node_is_lost(self, host: str, now: float) -> bool:
        """Whether a node that had registered has gone silent."""
        pulse = self.nodes.get(host)
        return pulse is not None and pulse.until <= now

    def forget(self, group: str) -> None:
        """The group is no more."""
        for key in [key for key in self.members if key[0] == group]:
            del self.members[key]

    def late(self, ranks: list[tuple[str, int]]) -> dict[int, int]:
        """Of these members, the ranks that have contributed fewer cells than the foremost one, and how many fewer."""
        pulses = {rank: self.members[group, rank] for group, rank in ranks if (group, rank) in self.members}
        if len(pulses) < 2:
            return {}
        first = max(pulse.contributed for pulse in pulses.values())
        return {
            rank: first - pulse.contributed for rank, pulse in pulses.items() if pulse.contributed < first
        }
