"""v1model as BMv2's simple_switch realizes it.

What the language leaves open follows BMv2 where it is known: metadata starts as 0; `hash` and checksums leave out
the fields of invalid headers; a read of a register beyond its end leaves the destination as it was, a write does
nothing; `hash` with max 0 takes 1; counters count packets and bytes of the frame as it came in; a packet that is
resubmitted, recirculated or cloned has lost its standard metadata, the ingress port too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from epic_p4 import ast
from epic_p4.arch.base import MAX_PASSES, Environment, too_many_passes
from epic_p4.arch.v1model_externs import DROP_PORT, V1ModelExterns
from epic_p4.lower.names import identifier
from epic_p4.lower.shapes import is_object
from epic_p4.runtime.errors import ExecutionError
from epic_p4.runtime.packet import PacketIn
from epic_p4.types import Fielded, HeaderType, StackType, Type, underlying

NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6
"""Values of standard_metadata.instance_type."""


@dataclass(slots=True)
class _Arrival:
    """A packet that is to go through ingress."""

    port: int
    frame: bytes
    kind: int = NORMAL
    metadata: Any = None
    passes: int = 0


@dataclass(slots=True)
class _Departure:
    """A packet that is to go through egress."""

    headers: Any
    metadata: Any
    standard: Any
    payload: bytes
    port: int
    rid: int
    arrival: _Arrival
    limit: int = 0


class V1Model(V1ModelExterns):
    """A v1model program."""

    def __init__(self, program: ast.Program, environment: Environment) -> None:
        super().__init__(program, environment)
        assert program.main is not None
        parts = [program.main.args[name] for name in ("p", "vr", "ig", "eg", "ck", "dep")]
        instances = [part for part in parts if isinstance(part, ast.Instance)]
        functions = [self.unit.function(one).name for one in instances]
        types = [param.type for param in _params(instances[0])[1:]]
        self._metadata_type = types[1]
        classes = [self.unit.shapes.class_of(one) for one in types]
        names = self.unit.build()
        self._parser, self._verify, self._ingress, self._egress, self._update, self._deparser = (
            names[one] for one in functions
        )
        self._headers_class, self._metadata_class, self._standard_class = (names[one] for one in classes)
        self._header_type = types[0]
        self._measured = any(_names(instance, "packet_length") for instance in instances[3:])
        self._kept: dict[int, list[tuple[str, ...]]] = {}
        self._start = environment.clock()

    # -- the pipeline

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because of one that came in."""
        sent: list[tuple[int, bytes]] = []
        arrivals = deque([_Arrival(port, frame)])
        while arrivals:
            arrival = arrivals.popleft()
            departures = deque(self._run_ingress(arrival, arrivals))
            while departures:
                self._run_egress(departures.popleft(), departures, arrivals, sent)
        return sent

    def _now(self) -> int:
        return int((self.environment.clock() - self._start) * 1e6) & 0xFFFF_FFFF_FFFF

    def _run_ingress(self, arrival: _Arrival, arrivals: deque[_Arrival]) -> list[_Departure]:
        context, frame = self._context, arrival.frame
        context.clear()
        context.length = len(frame)
        standard = self._standard_class()
        if arrival.kind == NORMAL:
            standard.ingress_port = arrival.port
            standard.ingress_global_timestamp = self._now()
        standard.packet_length = len(frame)
        standard.instance_type = arrival.kind
        headers = self._headers_class()
        metadata = self._metadata_class() if arrival.metadata is None else arrival.metadata
        packet = PacketIn(frame)
        standard.parser_error = max(self._parser(packet, headers, metadata, standard) - 1, 0)
        payload = packet.data[packet.offset :]
        context.payload = payload
        self._verify(headers, metadata)
        standard.checksum_error = context.checksum_error
        self._ingress(headers, metadata, standard)
        departures: list[_Departure] = []
        if context.clone is not None:
            departures += self._clone_ingress(arrival, metadata)
        if context.resubmit is not None:
            self._again(arrivals, arrival, frame, RESUBMITTED, metadata, context.resubmit)
            return departures
        if standard.mcast_grp:
            standard.instance_type = REPLICATED
            replicas = self.multicast.groups.get(standard.mcast_grp, ())
        elif standard.egress_spec == DROP_PORT:
            return departures
        else:
            standard.instance_type = NORMAL
            replicas = ((standard.egress_spec, standard.egress_rid),)
        departures += self._replicate(replicas, headers, metadata, standard, payload, arrival)
        return departures

    def _replicate(
        self,
        replicas: tuple[tuple[int, int], ...],
        headers: Any,
        metadata: Any,
        standard: Any,
        payload: bytes,
        arrival: _Arrival,
        limit: int = 0,
    ) -> list[_Departure]:
        """One packet for each replica; the last one takes the headers themselves."""
        made = [
            _Departure(headers.copy(), metadata.copy(), standard.copy(), payload, port, rid, arrival, limit)
            for port, rid in replicas[:-1]
        ]
        for port, rid in replicas[-1:]:
            made.append(_Departure(headers, metadata, standard, payload, port, rid, arrival, limit))
        return made

    def _run_egress(
        self,
        packet: _Departure,
        departures: deque[_Departure],
        arrivals: deque[_Arrival],
        sent: list[tuple[int, bytes]],
    ) -> None:
        context, standard = self._context, packet.standard
        context.clear()
        context.length = len(packet.arrival.frame)
        context.payload = packet.payload
        standard.egress_port = packet.port
        standard.egress_rid = packet.rid
        # BMv2 starts egress with a value that is not the drop port; in 9 bits it is 0.
        standard.egress_spec = 0
        standard.egress_global_timestamp = standard.enq_timestamp = self._now()
        standard.enq_timestamp &= 0xFFFF_FFFF
        if self._measured:
            standard.packet_length = len(packet.payload) + _size(packet.headers, self._header_type)
        self._egress(packet.headers, packet.metadata, standard)
        if context.clone is not None:
            departures.extend(self._clone_egress(packet))
        if standard.egress_spec == DROP_PORT:
            return
        self._update(packet.headers, packet.metadata)
        parts: list[bytes] = []
        self._deparser(parts, packet.headers)
        parts.append(packet.payload)
        frame = b"".join(parts)
        if context.truncate >= 0:
            frame = frame[: context.truncate]
        if packet.limit:
            frame = frame[: packet.limit]
        if context.recirculate is not None:
            self._again(arrivals, packet.arrival, frame, RECIRCULATED, packet.metadata, context.recirculate)
            return
        sent.append((packet.port, frame))

    def _again(
        self, arrivals: deque[_Arrival], old: _Arrival, frame: bytes, kind: int, metadata: Any, fields: int
    ) -> None:
        if old.passes >= MAX_PASSES:
            raise too_many_passes("resubmitted" if kind == RESUBMITTED else "recirculated")
        kept = self._keep(metadata, fields)
        arrivals.append(_Arrival(old.port, frame, kind, kept, old.passes + 1))

    def _clone_ingress(self, arrival: _Arrival, metadata: Any) -> list[_Departure]:
        """Copies of the packet as it came in, parsed once more."""
        kind, session, fields = self._context.clone or ("", 0, None)
        _expect_clone(kind, "I2E", "ingress")
        replicas, limit = self.multicast.sessions.get(session, ((), 0))
        if not replicas:
            return []
        packet = PacketIn(arrival.frame)
        headers, standard = self._headers_class(), self._standard_class()
        standard.ingress_port = arrival.port
        self._parser(packet, headers, self._metadata_class(), standard)
        standard.reset()
        standard.instance_type = INGRESS_CLONE
        kept = self._metadata_class() if fields is None else self._keep(metadata, fields)
        return self._replicate(replicas, headers, kept, standard, packet.rest(), arrival, limit)

    def _clone_egress(self, packet: _Departure) -> list[_Departure]:
        """Copies of the packet as it is at the end of egress, which go through egress again."""
        kind, session, fields = self._context.clone or ("", 0, None)
        _expect_clone(kind, "E2E", "egress")
        if packet.arrival.passes >= MAX_PASSES:
            raise too_many_passes("cloned")
        replicas, limit = self.multicast.sessions.get(session, ((), 0))
        standard = self._standard_class()
        standard.instance_type = EGRESS_CLONE
        kept = self._metadata_class() if fields is None else self._keep(packet.metadata, fields)
        again = _Arrival(packet.arrival.port, packet.arrival.frame, passes=packet.arrival.passes + 1)
        headers = packet.headers.copy()
        return self._replicate(replicas, headers, kept, standard, packet.payload, again, limit)

    def _keep(self, metadata: Any, index: int) -> Any:
        """Fresh metadata with the fields that are marked @field_list(index)."""
        if index not in self._kept:
            self._kept[index] = _field_list(self._metadata_type, index)
        made = self._metadata_class()
        for *path, last in self._kept[index]:
            source, target = metadata, made
            for step in path:
                source, target = getattr(source, step), getattr(target, step)
            value = getattr(source, last)
            if hasattr(value, "assign"):
                getattr(target, last).assign(value)
            else:
                setattr(target, last, value)
        return made


def _expect_clone(kind: str, expected: str, where: str) -> None:
    if kind != expected:
        raise ExecutionError(f"clone type {kind} in {where}, expected {expected}")


def _params(instance: ast.Instance) -> list[ast.Param]:
    assert isinstance(instance.decl, ast.ControlDecl | ast.ParserDecl)
    return instance.decl.params


def _names(instance: ast.Instance, field: str) -> bool:
    """Whether a control, or one inside it, names a field."""
    nodes = ast.walk(instance.decl)
    inner = [one for one in instance.members.values() if isinstance(one.decl, ast.ControlDecl)]
    return any(isinstance(node, ast.Member) and node.name == field for node in nodes) or any(
        _names(one, field) for one in inner
    )


def _size(value: Any, type_: Type) -> int:
    """Bytes of the valid headers in a struct."""
    type_ = underlying(type_)
    match type_:
        case HeaderType():
            return len(value.pack()) if value._v else 0
        case StackType():
            return sum(_size(item, type_.element) for item in value.items)
        case Fielded():
            return sum(_size(getattr(value, identifier(one.name)), one.type) for one in type_.fields)
    return 0


def _field_list(type_: Type, index: int, *path: str) -> list[tuple[str, ...]]:
    """Paths of the fields of a struct that are marked @field_list(index)."""
    type_ = underlying(type_)
    found: list[tuple[str, ...]] = []
    if not isinstance(type_, Fielded):
        return found
    for field in type_.fields:
        here = (*path, identifier(field.name))
        if any(one.name == "field_list" and index in one.args for one in field.annotations):
            found.append(here)
        elif is_object(underlying(field.type)):
            found += _field_list(field.type, index, *here)
    return found
