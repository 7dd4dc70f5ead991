"""Multicast groups and clone sessions of one switch as P4Runtime entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finsy.proto import p4r

from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.p4runtime.table_state import Undo
from epic_p4.p4runtime.values import decode, encode
from epic_p4.switch import P4Switch

_PORT_BITS = 32
_INSTANCE_BITS = 16
_Replicas = tuple[tuple[int, int], ...]


class ReplicationState:
    """Writes and reads the packet replication engine of a switch."""

    def __init__(self, switch: P4Switch, *, group_bits: int = 16) -> None:
        self._switch = switch
        self._last_group = (1 << group_bits) - 1
        # Metadata, and whether replicas came with the old number or the new byte string for the port.
        self._metadata: dict[int, bytes] = {}
        self._written: dict[tuple[str, int], tuple[p4r.Replica, ...]] = {}

    def write(self, kind: int, entry: p4r.PacketReplicationEngineEntry) -> Undo:
        """INSERT, MODIFY or DELETE a multicast group or a clone session. Raises Refusal."""
        which = entry.WhichOneof("type")
        if which == "multicast_group_entry":
            return self._write_group(kind, entry.multicast_group_entry)
        if which == "clone_session_entry":
            return self._write_session(kind, entry.clone_session_entry)
        raise Refusal(
            Code.INVALID_ARGUMENT,
            "packet_replication_engine_entry: it is empty, expected a group or a session",
        )

    def _write_group(self, kind: int, entry: p4r.MulticastGroupEntry) -> Undo:
        number = entry.multicast_group_id
        what = f"multicast group {number}"
        if not 1 <= number <= self._last_group:
            raise Refusal(Code.INVALID_ARGUMENT, f"{what}: expected 1 to {self._last_group}")
        before = self._switch.multicast_groups().get(number)
        _check_presence(kind, before is not None, what)
        metadata = self._metadata.get(number, b"")
        written = self._written.get(("group", number), ())

        def undo() -> None:
            if before is None:
                self._switch.multicast_delete(number)
                self._metadata.pop(number, None)
            else:
                self._switch.multicast_set(number, before)
                self._metadata[number] = metadata
            self._written[("group", number)] = written

        if kind == p4r.Update.DELETE:
            self._switch.multicast_delete(number)
            self._metadata.pop(number, None)
        else:
            self._switch.multicast_set(number, _replicas(entry.replicas, what))
            self._metadata[number] = entry.metadata
            self._written[("group", number)] = tuple(entry.replicas)
        return undo

    def _write_session(self, kind: int, entry: p4r.CloneSessionEntry) -> Undo:
        number = entry.session_id
        what = f"clone session {number}"
        if not 1 <= number <= self._last_group:
            raise Refusal(Code.INVALID_ARGUMENT, f"{what}: expected 1 to {self._last_group}")
        if entry.class_of_service:
            raise Refusal(
                Code.INVALID_ARGUMENT, f"{what}: class_of_service = {entry.class_of_service}, expected 0"
            )
        if entry.packet_length_bytes < 0:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                f"{what}: packet_length_bytes = {entry.packet_length_bytes}, expected 0 or more",
            )
        before = self._switch.clone_sessions().get(number)
        _check_presence(kind, before is not None, what)

        def undo() -> None:
            if before is None:
                self._switch.clone_session_delete(number)
            else:
                self._switch.clone_session_set(number, *before)

        if kind == p4r.Update.DELETE:
            self._switch.clone_session_delete(number)
        else:
            replicas = _replicas(entry.replicas, what)
            self._switch.clone_session_set(number, replicas, entry.packet_length_bytes)
            self._written[("session", number)] = tuple(entry.replicas)
        return undo

    def read(self, query: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """The groups or sessions that a query asks for; number 0 asks for all. Raises Refusal."""
        which = query.WhichOneof("type")
        if which == "multicast_group_entry":
            asked = query.multicast_group_entry.multicast_group_id
            for number, replicas in sorted(self._switch.multicast_groups().items()):
                if asked in (0, number):
                    group = p4r.MulticastGroupEntry(
                        multicast_group_id=number,
                        replicas=self._messages("group", number, replicas),
                        metadata=self._metadata.get(number, b""),
                    )
                    yield p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        elif which == "clone_session_entry":
            asked = query.clone_session_entry.session_id
            for number, (replicas, length) in sorted(self._switch.clone_sessions().items()):
                if asked in (0, number):
                    session = p4r.CloneSessionEntry(
                        session_id=number,
                        replicas=self._messages("session", number, replicas),
                        packet_length_bytes=length,
                    )
                    yield p4r.PacketReplicationEngineEntry(clone_session_entry=session)
        else:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                "packet_replication_engine_entry: it is empty, expected a group or a session",
            )

    def _messages(self, kind: str, number: int, replicas: _Replicas) -> list[p4r.Replica]:
        """Replicas as the client wrote them, so that it reads what it wrote; in the new form if it did not."""
        written = self._written.get((kind, number), ())
        if tuple(_pair(r, "") for r in written) == replicas:
            return list(written)
        return [p4r.Replica(port=encode(port), instance=rid) for port, rid in replicas]


def _check_presence(kind: int, there: bool, what: str) -> None:
    if kind == p4r.Update.INSERT and there:
        raise Refusal(Code.ALREADY_EXISTS, f"{what}: it exists already")
    if kind != p4r.Update.INSERT and not there:
        raise Refusal(Code.NOT_FOUND, f"{what}: there is none")


def _replicas(messages: Iterable[p4r.Replica], what: str) -> _Replicas:
    replicas = tuple(_pair(message, what) for message in messages)
    if len(set(replicas)) != len(replicas):
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: a replica is given twice, expected distinct pairs")
    return replicas


def _pair(message: p4r.Replica, what: str) -> tuple[int, int]:
    if message.backup_replicas:
        raise Refusal(Code.UNIMPLEMENTED, f"{what}: backup replicas are not supported")
    if message.instance >> _INSTANCE_BITS:
        raise Refusal(
            Code.INVALID_ARGUMENT, f"{what}: instance {message.instance}, expected a bit<{_INSTANCE_BITS}>"
        )
    which = message.WhichOneof("port_kind")
    if which is None:
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: a replica has no port")
    if which == "port":
        return decode(message.port, _PORT_BITS, f"{what}: port"), message.instance
    return message.egress_port, message.instance
