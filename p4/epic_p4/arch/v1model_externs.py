"""The externs of v1model."""

from __future__ import annotations

from epic_p4 import ast
from epic_p4.arch.base import Architecture, Environment, argument, in_range, member_of
from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.lower.calls import Calls
from epic_p4.lower.expressions import literal
from epic_p4.lower.layout import bits
from epic_p4.lower.names import identifier
from epic_p4.runtime import hashes
from epic_p4.runtime.errors import ExecutionError
from epic_p4.runtime.state import Column, Register
from epic_p4.types import BitType, BoolType, IntType, underlying

DROP_PORT = 511

_HASH_BITS = {"crc32": 32, "crc16": 16, "csum16": 16, "xor16": 16, "identity": 64, "random": 64}


class Context:
    """What externs say about the packet that is being processed; generated code writes to it."""

    __slots__ = ("checksum_error", "clone", "length", "payload", "recirculate", "resubmit", "truncate")

    def __init__(self) -> None:
        self.payload = b""
        self.length = 0
        self.clear()

    def clear(self) -> None:
        """Nothing is asked for."""
        self.checksum_error = 0
        self.clone: tuple[str, int, int | None] | None = None
        self.resubmit: int | None = None
        self.recirculate: int | None = None
        self.truncate = -1


class V1ModelExterns(Architecture):
    """Writes out the externs; the pipeline is `V1Model`."""

    def __init__(self, program: ast.Program, environment: Environment) -> None:
        self._context = Context()
        super().__init__(program, environment)

    def make(self, instance: ast.Instance) -> None:
        """Registers and counters."""
        match instance.decl.name:
            case "register":
                self._register(instance)
            case "counter":
                self.counter(instance)

    def _register(self, instance: ast.Instance) -> Register:
        if instance.name not in self.registers:
            type_ = underlying(getattr(instance.type, "args", (instance.type,))[0])
            pos = instance.node.pos if instance.node is not None else instance.decl.pos
            if not isinstance(type_, BitType | IntType | BoolType):
                raise UnsupportedError(pos, f"register of {type_}")
            column = Column("", bits(type_), isinstance(type_, IntType))
            self.registers[instance.name] = Register(instance.name, self.size_of(instance), [column])
        return self.registers[instance.name]

    def method(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        """register, counter, direct_counter."""
        match instance.decl.name, name:
            case "register", "read":
                self._register_read(body, call, self._register(instance))
            case "register", "write":
                self._register_write(body, call, self._register(instance))
            case "counter", "count":
                self._count(body, call, instance)
            case "direct_counter", "count":
                pass  # BMv2 counts when the entry is hit, whether the action says so or not.
            case _:
                raise self.refuse(call, instance, name)
        return ""

    def _cells(self, body: Calls, register: Register) -> str:
        return body.unit.bind(f"_reg_{identifier(register.name.rpartition('.')[2])}", register.columns[0])

    def _register_read(self, body: Calls, call: ast.Call, register: Register) -> None:
        target, index = argument(call, 0), argument(call, 1)
        place, code = body.place(target), body.value(index)
        cells = self._cells(body, register)
        if in_range(body, index, register.size):
            body.store(place, target, f"{cells}[{code}]")
            return
        at = body.temporary("_i", code)
        body.emit(f"if {at} < {register.size}:")
        with body.indented():
            body.store(place, target, f"{cells}[{at}]")

    def _register_write(self, body: Calls, call: ast.Call, register: Register) -> None:
        index, value = argument(call, 0), argument(call, 1)
        at, code = body.in_order([lambda: body.value(index), lambda: body.value(value)])
        cells = self._cells(body, register)
        if in_range(body, index, register.size):
            body.emit(f"{cells}[{at}] = {code}")
            return
        at = body.temporary("_i", at)
        body.emit(f"if {at} < {register.size}:")
        with body.indented():
            body.emit(f"{cells}[{at}] = {code}")

    def _count(self, body: Calls, call: ast.Call, instance: ast.Instance) -> None:
        counter = self.counter(instance)
        short = identifier(counter.name.rpartition(".")[2])
        packets = body.unit.bind(f"_packets_{short}", counter.packets)
        octets = body.unit.bind(f"_bytes_{short}", counter.bytes)
        context = body.unit.bind("_ctx", self._context)
        at = body.temporary("_i", body.value(argument(call, 0)))
        body.emit(f"if {at} < {counter.size}:")
        with body.indented():
            body.emit(f"{packets}[{at}] += 1")
            body.emit(f"{octets}[{at}] += {context}.length")

    def table_applied(self, body: Calls, table: ast.TableInstance, entry: str) -> None:
        """A direct counter counts hits."""
        if "counters" in table.decl.properties:
            body.emit(f"if {entry}.hit:")
            with body.indented():
                body.emit(f"{entry}.packets += 1")
                body.emit(f"{entry}.bytes += {body.unit.bind('_ctx', self._context)}.length")

    # -- extern functions

    def function(self, body: Calls, call: ast.Call) -> str:
        """The functions of v1model."""
        assert isinstance(call.decl, ast.Declaration)
        name = call.decl.name
        context = body.unit.bind("_ctx", self._context)
        match name:
            case "mark_to_drop" if call.args:
                path = body.path(argument(call, 0))
                body.emit(f"{path}.egress_spec = {DROP_PORT}")
                body.emit(f"{path}.mcast_grp = 0")
            case "hash":
                self._hash(body, call)
            case "random":
                self._random(body, call)
            case "verify_checksum" | "verify_checksum_with_payload":
                self._verify_checksum(body, call, context, name.endswith("payload"))
            case "update_checksum" | "update_checksum_with_payload":
                self._update_checksum(body, call, context, name.endswith("payload"))
            case "clone" | "clone_preserving_field_list":
                self._ask_clone(body, call, context)
            case "resubmit_preserving_field_list":
                body.emit(f"{context}.resubmit = {body.value(argument(call, 0))}")
            case "recirculate_preserving_field_list":
                body.emit(f"{context}.recirculate = {body.value(argument(call, 0))}")
            case "truncate":
                body.emit(f"{context}.truncate = {body.value(argument(call, 0))}")
            case "assert" | "assume":
                body.emit(f"if not {body.value(argument(call, 0))}:")
                with body.indented():
                    body.emit(f"{body.unit.bind('_failed', _failed)}({name!r}, {str(call.pos)!r})")
            case "log_msg":
                self._log(body, call)
            case _:
                return super().function(body, call)
        return ""

    def _algorithm(self, body: Calls, node: ast.Expression) -> tuple[str, int]:
        """The name of a hash function in the module, and the bits of its results."""
        name = member_of(body, node, "a hash algorithm")
        if name == "random":
            made = hashes.random_hash(self.environment.generator, 64)
        elif name in hashes.V1MODEL:
            made = hashes.V1MODEL[name]
        else:
            raise UnsupportedError(node.pos, f"hash algorithm {name}")
        return body.unit.bind(f"_hash_{name}", made), _HASH_BITS[name]

    def _hash(self, body: Calls, call: ast.Call) -> None:
        target, algorithm, base, data, limit = (argument(call, number) for number in range(5))
        place = body.place(target)
        function, size = self._algorithm(body, algorithm)
        start = body.value(base)
        maximum = body.known(limit)
        # p4c copies the fields of a hash's list into variables before the call, and BMv2 hashes those.
        code = f"{function}({body.octets(data, skip_invalid=True, copied=True)})"
        if not isinstance(maximum, int):
            code = f"{code} % ({body.value(limit)} or 1)"
        elif maximum < 1 << size:
            code = f"{code} % {maximum or 1}"
        else:
            maximum = 1 << size
        code = code if start == "0" else f"({start} + {code})"
        width = bits(target.type)
        if not isinstance(maximum, int) or start != "0" or maximum > 1 << width:
            code = f"{code} & {(1 << width) - 1:#x}"
        body.store(place, target, code)

    def _random(self, body: Calls, call: ast.Call) -> None:
        target = argument(call, 0)
        place = body.place(target)
        codes = body.in_order([lambda: body.value(argument(call, 1)), lambda: body.value(argument(call, 2))])
        draw = body.unit.bind("_randint", self.environment.generator.randint)
        body.store(place, target, f"{draw}({codes[0]}, max({', '.join(codes)}))")

    def _checksum(
        self, body: Calls, data: ast.Expression, algorithm: ast.Expression, context: str, payload: bool
    ) -> str:
        function, _ = self._algorithm(body, algorithm)
        octets = body.octets(data, skip_invalid=True)
        return f"{function}({octets} + {context}.payload)" if payload else f"{function}({octets})"

    def _verify_checksum(self, body: Calls, call: ast.Call, context: str, payload: bool) -> None:
        condition, data, checksum, algorithm = (argument(call, number) for number in range(4))
        body.emit(f"if {body.condition(condition)}:")
        with body.indented():
            made = self._checksum(body, data, algorithm, context, payload)
            mask = (1 << bits(checksum.type)) - 1
            body.emit(f"if {made} & {mask:#x} != {body.value(checksum)}:")
            with body.indented():
                body.emit(f"{context}.checksum_error = 1")

    def _update_checksum(self, body: Calls, call: ast.Call, context: str, payload: bool) -> None:
        condition, data, target, algorithm = (argument(call, number) for number in range(4))
        body.emit(f"if {body.condition(condition)}:")
        with body.indented():
            made = self._checksum(body, data, algorithm, context, payload)
            body.store(body.place(target), target, f"{made} & {(1 << bits(target.type)) - 1:#x}")

    def _ask_clone(self, body: Calls, call: ast.Call, context: str) -> None:
        kind = member_of(body, argument(call, 0), "a clone type")
        session = body.value(argument(call, 1))
        fields = body.value(argument(call, 2)) if len(call.args) > 2 else "None"
        body.emit(f"{context}.clone = ({kind!r}, {session}, {fields})")

    def _log(self, body: Calls, call: ast.Call) -> None:
        text = body.known(argument(call, 0))
        if not isinstance(text, str):
            raise SourceError(call.pos, "log_msg without a constant text, expected one")
        values = "()"
        if len(call.args) > 1:
            values = "(" + "".join(f"{code}, " for _, code, _ in body.fields(argument(call, 1))) + ")"
        log = body.unit.bind("_log", self._write_log)
        body.emit(f"{log}({literal(text)}, {values})")

    def _write_log(self, text: str, values: tuple[int, ...]) -> None:
        parts = text.split("{}")
        shown = [str(value) for value in values[: len(parts) - 1]]
        shown += ["{}"] * (len(parts) - 1 - len(shown))
        self.environment.log("".join(a + b for a, b in zip(parts, [*shown, ""], strict=True)))


def _failed(name: str, pos: str) -> None:
    raise ExecutionError(f"{pos}: {name} failed, expected its condition to hold")
