"""The Tofino Native Architecture, one pipe.

What is chosen where the hardware, not the language, decides:
* A register, and a counter, can be touched once by a packet in one pass; a second time is an ExecutionError.
* A packet with a parser error is dropped, unless the control behind the parser reads `parser_err`; an explicit `reject`
  drops.
* `ucast_egress_port` starts as 511, which sends nothing; so does multicast group 0.
* An egress parser that does not extract the intrinsic metadata does not have them in its packet.
* A header that becomes valid keeps what was written to its fields before; fields of an invalid header are 0 else.
* Port metadata are zeros. A mirrored packet is the frame as it came in (ingress) or as it leaves (egress).
* An index beyond a register reads 0 and writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epic_p4 import ast
from epic_p4.arch.base import MAX_PASSES, Architecture, Environment, too_many_passes
from epic_p4.arch.tna_externs import TnaExterns
from epic_p4.errors import NOWHERE, UnsupportedError
from epic_p4.runtime.errors import ExecutionError
from epic_p4.runtime.packet import PacketIn
from epic_p4.types import Type, underlying

NO_PORT = 511

RECIRCULATION_PORTS = frozenset({68, 196, 324, 452})
"""Port 68 of each of the four pipes: what is sent there comes in again."""

PARSER_ERRORS = {
    "NoMatch": 0x0001,
    "PacketTooShort": 0x0022,
    "CounterRange": 0x0004,
    "ParserTimeout": 0x0010,
    "StackOutOfBounds": 0x0040,
}
"""Bits of `parser_err`. A packet that is too short sets two: the header is partial, and its source ended."""

_REFUSED_FIELDS = frozenset({"level1_exclusion_id", "level2_exclusion_id", "copy_to_cpu", "deflect_on_drop"})

_IG, _TM = "ingress_intrinsic_metadata_t", "ingress_intrinsic_metadata_for_tm_t"
_IG_PARSER, _IG_DEPARSER = (
    "ingress_intrinsic_metadata_from_parser_t",
    "ingress_intrinsic_metadata_for_deparser_t",
)
_EG, _EG_PARSER = "egress_intrinsic_metadata_t", "egress_intrinsic_metadata_from_parser_t"
_EG_DEPARSER, _EG_PORT = (
    "egress_intrinsic_metadata_for_deparser_t",
    "egress_intrinsic_metadata_for_output_port_t",
)


@dataclass(slots=True)
class _Arrival:
    """A packet that is to go through ingress; `resubmitted` are the bytes instead of port metadata."""

    port: int
    frame: bytes
    resubmitted: bytes | None = None
    passes: int = 0


@dataclass(slots=True)
class _Departure:
    """A packet that is to go through egress."""

    port: int
    rid: int
    first: bool
    frame: bytes
    passes: int


class _Gress:
    """Parser, control and deparser of ingress or egress, and the objects that are their parameters.

    The parameters are matched by type, for a program may leave intrinsic metadata out that it does not use.
    """

    def __init__(self, tna: Tna, parts: list[ast.Instance], intrinsic: tuple[str, ...]) -> None:
        unit = tna.unit
        self.functions = [unit.function(part) for part in parts]
        parser = parts[0].decl
        assert isinstance(parser, ast.ParserDecl)
        self.classes: dict[str, str] = {
            "H": unit.shapes.class_of(parser.params[1].type),
            "M": unit.shapes.class_of(parser.params[2].type),
        }
        for name in intrinsic:
            type_ = tna.program.types[name]
            self.classes[name] = unit.shapes.class_of(underlying(type_))
        self.orders = [_order(part) for part in parts]
        self.reads_errors = any(_reads(part, "parser_err") for part in parts[1:])
        # Ingress programs also skip the intrinsic metadata by `advance`; egress ones either extract or never see them.
        self.takes_intrinsic = intrinsic[0] == _IG or _extracts(parts[0], intrinsic[0])
        self.made: dict[str, Callable[[], Any]] = {}
        self.calls: list[Callable[..., Any]] = []

    def ready(self, names: dict[str, Any]) -> None:
        """Take the functions and classes out of the built module."""
        self.made = {key: names[name] for key, name in self.classes.items()}
        self.calls = [names[function.name] for function in self.functions]

    def objects(self) -> dict[str, Any]:
        """Fresh objects for a packet."""
        return {key: made() for key, made in self.made.items()}

    def run(self, part: int, objects: dict[str, Any]) -> Any:
        """Call the parser (0), control (1) or deparser (2)."""
        return self.calls[part](*[objects[key] for key in self.orders[part]])


class Tna(TnaExterns, Architecture):
    """A TNA program."""

    def __init__(self, program: ast.Program, environment: Environment) -> None:
        super().__init__(program, environment)
        pipe = _only_pipe(program)
        self._refuse_fields()
        parts = [pipe.args[name] for name in _PARTS]
        instances = [part for part in parts if isinstance(part, ast.Instance)]
        self._in = _Gress(self, instances[:3], (_IG, _TM, _IG_PARSER, _IG_DEPARSER))
        self._out = _Gress(self, instances[3:], (_EG, _EG_PARSER, _EG_DEPARSER, _EG_PORT))
        names = self.unit.build()
        self._in.ready(names)
        self._out.ready(names)
        size = program.declaration("PORT_METADATA_SIZE")
        bits = size.value.const if isinstance(size, ast.ConstDecl) else 64
        self._port_metadata = bytes(int(bits) // 8 if isinstance(bits, int) else 8)
        self._mirrors = any(one.decl.name in ("Mirror", "Resubmit") for one in self.instances)
        self._start = environment.clock()

    def _refuse_fields(self) -> None:
        for instance in self.instances:
            for node in ast.walk(instance.decl):
                if isinstance(node, ast.Assign) and isinstance(node.target, ast.Member):
                    target = node.target
                    if target.name in _REFUSED_FIELDS and str(target.base.type) == _TM:
                        raise UnsupportedError(node.pos, f"assignment to {target.name}")

    # -- the pipeline

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because of one that came in."""
        sent: list[tuple[int, bytes]] = []
        arrivals = deque([_Arrival(port, frame)])
        while arrivals:
            departures = deque(self._run_ingress(arrivals.popleft(), arrivals, sent))
            while departures:
                self._run_egress(departures.popleft(), departures, arrivals, sent)
        return sent

    def _now(self) -> int:
        return int((self.environment.clock() - self._start) * 1e9) & 0xFFFF_FFFF_FFFF

    def _begin_pass(self, length: int) -> None:
        context = self.context
        context.packet += 1
        context.length = length
        context.mirror = context.resubmit = None
        for unit in self.parser_units:
            unit.reset()

    def _parse(self, gress: _Gress, objects: dict[str, Any], head: bytes, frame: bytes, key: str) -> bool:
        """Run a parser; whether the packet goes on to the control."""
        objects["packet"] = packet = PacketIn(head + frame if gress.takes_intrinsic else frame)
        status = gress.run(0, objects)
        objects["payload"] = packet.data[packet.offset :]
        parser_metadata = objects[key]
        parser_metadata.global_tstamp = self._now()
        if status > 0:
            name = self.program.errors[status - 1]
            parser_metadata.parser_err = PARSER_ERRORS.get(name, 0x0008)
            return gress.reads_errors
        return bool(status == 0)

    def _run_ingress(
        self, arrival: _Arrival, arrivals: deque[_Arrival], sent: list[tuple[int, bytes]]
    ) -> list[_Departure]:
        gress = self._in
        self._begin_pass(len(arrival.frame))
        objects = gress.objects()
        intrinsic, tm, deparser = objects[_IG], objects[_TM], objects[_IG_DEPARSER]
        intrinsic.ingress_port = arrival.port
        intrinsic.ingress_mac_tstamp = self._now()
        intrinsic.resubmit_flag = 0 if arrival.resubmitted is None else 1
        tm.ucast_egress_port = NO_PORT
        head = intrinsic.pack() + (
            self._port_metadata if arrival.resubmitted is None else arrival.resubmitted
        )
        if not self._parse(gress, objects, head, arrival.frame, _IG_PARSER):
            return []
        gress.run(1, objects)
        dropped = deparser.drop_ctl & 1
        if not self._mirrors and (
            dropped or not (tm.mcast_grp_a or tm.mcast_grp_b or tm.ucast_egress_port < NO_PORT)
        ):
            return []
        frame = self._deparse(gress, objects)
        departures = self._mirror(arrival.frame, arrival.passes)
        if dropped:
            return departures
        if self.context.resubmit is not None:
            self._resubmit(arrival, arrivals)
            return departures
        replicas = [] if tm.ucast_egress_port >= NO_PORT else [(tm.ucast_egress_port, 0)]
        for group in (tm.mcast_grp_a, tm.mcast_grp_b):
            replicas += self.multicast.groups.get(group, ())
        if tm.bypass_egress:
            for port, _ in replicas:
                self._leave(port, frame, arrival.passes, arrivals, sent)
            return departures
        unicast = tm.ucast_egress_port < NO_PORT
        for number, (port, rid) in enumerate(replicas):
            departures.append(_Departure(port, rid, number == int(unicast), frame, arrival.passes))
        return departures

    def _deparse(self, gress: _Gress, objects: dict[str, Any]) -> bytes:
        parts: list[bytes] = []
        objects["packet"] = parts
        gress.run(2, objects)
        parts.append(objects["payload"])
        return b"".join(parts)

    def _mirror(self, frame: bytes, passes: int) -> list[_Departure]:
        if self.context.mirror is None:
            return []
        if passes >= MAX_PASSES:
            raise too_many_passes("mirrored")
        session, header = self.context.mirror
        replicas, limit = self.multicast.sessions.get(session, ((), 0))
        copy = header + (frame[:limit] if limit else frame)
        return [
            _Departure(port, rid, number == 0, copy, passes + 1)
            for number, (port, rid) in enumerate(replicas)
        ]

    def _resubmit(self, arrival: _Arrival, arrivals: deque[_Arrival]) -> None:
        data, size = self.context.resubmit or b"", len(self._port_metadata)
        if len(data) > size:
            raise ExecutionError(f"resubmit header of {len(data)} bytes, expected at most {size}")
        if arrival.passes >= MAX_PASSES:
            raise too_many_passes("resubmitted")
        again = data + bytes(size - len(data))
        arrivals.append(_Arrival(arrival.port, arrival.frame, again, arrival.passes + 1))

    def _run_egress(
        self,
        packet: _Departure,
        departures: deque[_Departure],
        arrivals: deque[_Arrival],
        sent: list[tuple[int, bytes]],
    ) -> None:
        gress = self._out
        self._begin_pass(len(packet.frame))
        objects = gress.objects()
        intrinsic, deparser = objects[_EG], objects[_EG_DEPARSER]
        intrinsic.egress_port = packet.port
        intrinsic.egress_rid = packet.rid
        intrinsic.egress_rid_first = int(packet.first)
        intrinsic.pkt_length = len(packet.frame) & 0xFFFF
        if not self._parse(gress, objects, intrinsic.pack(), packet.frame, _EG_PARSER):
            return
        gress.run(1, objects)
        dropped = deparser.drop_ctl & 1
        if dropped and not self._mirrors:
            return
        frame = self._deparse(gress, objects)
        if not deparser.drop_ctl & 4:
            departures.extend(self._mirror(frame, packet.passes))
        if not dropped:
            self._leave(packet.port, frame, packet.passes, arrivals, sent)

    def _leave(
        self, port: int, frame: bytes, passes: int, arrivals: deque[_Arrival], sent: list[tuple[int, bytes]]
    ) -> None:
        if port not in RECIRCULATION_PORTS:
            sent.append((port, frame))
            return
        if passes >= MAX_PASSES:
            raise too_many_passes("recirculated")
        arrivals.append(_Arrival(port, frame, passes=passes + 1))


_PARTS = ("ingress_parser", "ingress", "ingress_deparser", "egress_parser", "egress", "egress_deparser")


def _only_pipe(program: ast.Program) -> ast.Instance:
    assert program.main is not None
    pipes = [one for one in program.main.args.values() if isinstance(one, ast.Instance)]
    if len(pipes) != 1:
        where = program.main.node.pos if program.main.node is not None else NOWHERE
        raise UnsupportedError(where, f"{len(pipes)} pipes (one program for all)")
    return pipes[0]


def _order(part: ast.Instance) -> list[str]:
    """What to pass for each parameter: packet, headers, metadata, then intrinsic metadata by type."""
    assert isinstance(part.decl, ast.ControlDecl | ast.ParserDecl)
    order, own = [], iter(("H", "M"))
    for param in part.decl.params:
        type_: Type = underlying(param.type)
        if str(type_) in ("packet_in", "packet_out"):
            order.append("packet")
        elif str(type_) in _INTRINSIC:
            order.append(str(type_))
        else:
            order.append(next(own))
    return order


_INTRINSIC = frozenset({_IG, _TM, _IG_PARSER, _IG_DEPARSER, _EG, _EG_PARSER, _EG_DEPARSER, _EG_PORT})


def _extracts(instance: ast.Instance, type_name: str) -> bool:
    """Whether a parser, or one inside it, extracts a header of a type."""
    for node in ast.walk(instance.decl):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.callee, ast.Member)
            and node.callee.name == "extract"
        ):
            target = node.args[0]
            if target is not None and str(target.type) == type_name:
                return True
    inner = [one for one in instance.members.values() if isinstance(one.decl, ast.ParserDecl)]
    return any(_extracts(one, type_name) for one in inner)


def _reads(instance: ast.Instance, field: str) -> bool:
    nodes = ast.walk(instance.decl)
    inner = [one for one in instance.members.values() if isinstance(one.decl, ast.ControlDecl)]
    return any(isinstance(node, ast.Member) and node.name == field for node in nodes) or any(
        _reads(one, field) for one in inner
    )
