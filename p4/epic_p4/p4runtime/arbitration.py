"""Who is primary: the rules for MasterArbitrationUpdate (specification, "Client Arbitration"), without a stream.

One device and the default role. A session is one open stream, named by any hashable value.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from finsy.proto import U128, p4r

from epic_p4.p4runtime.status import Code, Refusal

Notices = list[tuple[Hashable, p4r.StreamMessageResponse]]


@dataclass
class Arbitration:
    """The live sessions of a device, their election ids, and the highest id ever seen."""

    device_id: int
    most_sessions: int = 8
    _election: dict[Hashable, int | None] = field(default_factory=dict)
    _highest: int | None = None

    def primary(self) -> Hashable | None:
        """The session that is primary, None for none."""
        if self._highest is None:
            return None
        return next((s for s, election in self._election.items() if election == self._highest), None)

    def update(self, session: Hashable, request: p4r.MasterArbitrationUpdate) -> Notices:
        """What to tell to whom because `session` sent an update. Raises Refusal: its stream then ends."""
        known = session in self._election
        if request.device_id != self.device_id:
            raise Refusal(
                Code.FAILED_PRECONDITION if known else Code.NOT_FOUND,
                f"device id {request.device_id}: unknown, expected {self.device_id}",
            )
        if request.role.name or request.role.id:
            name = request.role.name or str(request.role.id)
            raise Refusal(
                Code.FAILED_PRECONDITION if known else Code.UNIMPLEMENTED,
                f"role {name!r}: roles are not supported, expected the default role",
            )
        if request.role.HasField("config"):
            raise Refusal(Code.INVALID_ARGUMENT, "role.config: given, expected none for the default role")
        election = U128.decode(request.election_id) if request.HasField("election_id") else None
        if election is not None and any(
            election == other for s, other in self._election.items() if s != session
        ):
            raise Refusal(
                Code.INVALID_ARGUMENT,
                f"Election id {election} is already used by another connection, expected another",
            )
        if not known and len(self._election) >= self.most_sessions:
            raise Refusal(
                Code.RESOURCE_EXHAUSTED,
                f"{len(self._election)} streams are open, expected at most {self.most_sessions}",
            )
        before = self.primary()
        self._election[session] = election
        if election is not None and (self._highest is None or election >= self._highest):
            self._highest = election
            others = [s for s in self._election if s != session]
            # The new primary hears it last: by then the others know that they are backups.
            return [(s, self._notice(s)) for s in (*others, session)]
        everyone = before == session
        return [(s, self._notice(s)) for s in (self._election if everyone else [session])]

    def leave(self, session: Hashable) -> Notices:
        """A stream has ended: what to tell the others."""
        was_primary = session == self.primary()
        self._election.pop(session, None)
        return [(s, self._notice(s)) for s in self._election] if was_primary else []

    def check_primary(self, device_id: int, role: str, election_id: p4r.Uint128) -> None:
        """Refuse a request that changes something and is not from the primary. Raises Refusal."""
        self.check_device(device_id)
        if role:
            raise Refusal(Code.NOT_FOUND, f"role {role!r}: unknown, expected the default role")
        election = U128.decode(election_id)
        if self.primary() is None:
            raise Refusal(Code.PERMISSION_DENIED, f"election id {election}: there is no primary client")
        if election != self._highest:
            raise Refusal(
                Code.PERMISSION_DENIED,
                f"election id {election}: not the primary client, which has {self._highest}",
            )

    def check_device(self, device_id: int) -> None:
        """Refuse a request for another device. Raises Refusal (NOT_FOUND)."""
        if device_id != self.device_id:
            raise Refusal(Code.NOT_FOUND, f"device id {device_id}: unknown, expected {self.device_id}")

    def _notice(self, session: Hashable) -> p4r.StreamMessageResponse:
        response = p4r.StreamMessageResponse()
        update = response.arbitration
        update.device_id = self.device_id
        if self._highest is not None:
            update.election_id.CopyFrom(U128.encode(self._highest))
        primary = self.primary()
        if primary == session:
            update.status.code = Code.OK
            update.status.message = "this client is primary"
        elif primary is not None:
            update.status.code = Code.ALREADY_EXISTS
            update.status.message = "another client is primary"
        else:
            update.status.code = Code.NOT_FOUND
            update.status.message = "no client is primary"
        return response
