"""The packet replication engine: groups and clone sessions, each a list of (egress port, rid)."""

from __future__ import annotations

from collections.abc import Sequence

from epic_p4.runtime.errors import ControlError, NotFoundError

Replicas = tuple[tuple[int, int], ...]

MAX_PORT = 0x1FF
MAX_ID = 0xFFFF


class MulticastEngine:
    """`groups` is what the data plane reads; a missing group sends nothing."""

    def __init__(self) -> None:
        self.groups: dict[int, Replicas] = {}
        self.sessions: dict[int, tuple[Replicas, int]] = {}

    def clear(self) -> None:
        """No groups and no sessions."""
        self.groups.clear()
        self.sessions.clear()

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Make or replace a group."""
        _checked_id("multicast group", group)
        self.groups[group] = _checked_replicas(f"multicast group {group}", replicas)

    def delete_group(self, group: int) -> None:
        """Remove a group."""
        if self.groups.pop(group, None) is None:
            raise NotFoundError(f"multicast group {group}: not found")

    def set_session(self, session: int, replicas: Sequence[tuple[int, int]], length: int) -> None:
        """Make or replace a clone session; `length` 0: whole packets."""
        _checked_id("clone session", session)
        if length < 0:
            raise ControlError(f"clone session {session}: packet length {length}, expected 0 or more")
        self.sessions[session] = (_checked_replicas(f"clone session {session}", replicas), length)

    def delete_session(self, session: int) -> None:
        """Remove a clone session."""
        if self.sessions.pop(session, None) is None:
            raise NotFoundError(f"clone session {session}: not found")


def _checked_id(what: str, number: int) -> None:
    if not 0 < number <= MAX_ID:
        raise ControlError(f"{what} {number}: expected 1..{MAX_ID}")


def _checked_replicas(what: str, replicas: Sequence[tuple[int, int]]) -> Replicas:
    checked: list[tuple[int, int]] = []
    for port, rid in replicas:
        if not 0 <= port < MAX_PORT:
            raise ControlError(f"{what}: port {port}, expected 0..{MAX_PORT - 1}")
        if not 0 <= rid <= MAX_ID:
            raise ControlError(f"{what}: rid {rid}, expected 0..{MAX_ID}")
        if (port, rid) in checked:
            raise ControlError(f"{what}: replica (port {port}, rid {rid}) twice, expected once")
        checked.append((port, rid))
    return tuple(checked)
