"""The externs of TNA."""

from __future__ import annotations

from epic_p4 import ast
from epic_p4.arch.base import Architecture, Environment, argument, in_range
from epic_p4.errors import Pos, SourceError, UnsupportedError
from epic_p4.lower.calls import Calls
from epic_p4.lower.layout import bits, joined_bits
from epic_p4.lower.names import identifier
from epic_p4.lower.parsers import ParserBody
from epic_p4.lower.shapes import is_object, whole_bytes
from epic_p4.runtime import hashes
from epic_p4.runtime.checksums import ChecksumUnit, ParserCounter, update
from epic_p4.runtime.errors import ExecutionError
from epic_p4.runtime.state import Column, Counter, Register
from epic_p4.types import (
    BitType,
    BoolType,
    ExternType,
    Fielded,
    HeaderType,
    IntType,
    StructType,
    Type,
    underlying,
)


class Context:
    """What externs say about the packet that is being processed; generated code writes to it.

    `packet` numbers the passes, so that what a pass has touched can be told.
    """

    __slots__ = ("length", "mirror", "packet", "resubmit")

    def __init__(self) -> None:
        self.packet = 0
        self.length = 0
        self.mirror: tuple[int, bytes] | None = None
        self.resubmit: bytes | None = None


class TnaExterns(Architecture):
    """Writes out the externs; the pipeline is `Tna`."""

    zeroes_valid = False

    def __init__(self, program: ast.Program, environment: Environment) -> None:
        self.context = Context()
        self.parser_units: list[ChecksumUnit | ParserCounter] = []
        self._units: dict[ast.Instance, ChecksumUnit | ParserCounter] = {}
        super().__init__(program, environment)

    def make(self, instance: ast.Instance) -> None:
        """Registers and counters."""
        match instance.decl.name:
            case "Register":
                self.register(instance)
            case "Counter":
                self.counter(instance)

    def register(self, instance: ast.Instance) -> Register:
        """The register of an instance, made at its first use."""
        if instance.name not in self.registers:
            type_ = _type_argument(instance, 0)
            initial = instance.args.get("initial_value", 0)
            columns = _columns(type_, initial, _where(instance))
            self.registers[instance.name] = Register(instance.name, self.size_of(instance), columns)
        return self.registers[instance.name]

    def table_applied(self, body: Calls, table: ast.TableInstance, entry: str) -> None:
        """A direct counter counts where the action says so."""

    # -- methods

    def method(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        """Methods of extern objects."""
        match instance.decl.name, name:
            case "RegisterAction", "execute":
                return self._execute(body, call, instance)
            case "Register", "read":
                return self._read(body, call, self.register(instance))
            case "Register", "write":
                return self._write(body, call, self.register(instance))
            case "Counter", "count":
                self._count(body, call, self.counter(instance))
                return ""
            case "DirectCounter", "count":
                self._count_direct(body, call)
                return ""
            case "Hash", "get":
                return self._hash(body, call, instance)
            case "Random", "get":
                draw = body.unit.bind("_getrandbits", self.environment.generator.getrandbits)
                return body.temporary("_t", f"{draw}({bits(_type_argument(instance, 0))})")
            case "Checksum", _:
                return self._checksum(body, call, instance, name)
            case "ParserCounter", _:
                return self._parser_counter(body, call, instance, name)
            case "ParserPriority", "set":
                return ""  # It chooses what is dropped when the chip is congested, which this one never is.
            case "Mirror", "emit":
                self._emit(body, call, "mirror")
                return ""
            case "Resubmit", "emit":
                self._emit(body, call, "resubmit")
                return ""
        raise self.refuse(call, instance, name)

    def _ctx(self, body: Calls) -> str:
        return body.unit.bind("_ctx", self.context)

    def _touch(self, body: Calls, state: Register | Counter, pos: Pos) -> None:
        """Refuse the second touch of a register or counter by one packet."""
        short = identifier(state.name.rpartition(".")[2])
        name, context = body.unit.bind(f"_state_{short}", state), self._ctx(body)
        body.emit(f"if {name}.stamp == {context}.packet:")
        with body.indented():
            body.emit(f"{body.unit.bind('_twice', twice)}({state.name!r}, {str(pos)!r})")
        body.emit(f"{name}.stamp = {context}.packet")

    def _cells(self, body: Calls, register: Register, column: int = 0) -> str:
        short = identifier(register.name.rpartition(".")[2])
        field = register.specs[column].name
        return body.unit.bind(f"_reg_{short}_{field}" if field else f"_reg_{short}", register.columns[column])

    def _execute(self, body: Calls, call: ast.Call, action: ast.Instance) -> str:
        """Read, change and write a cell. Tofino 2 gives more results through out arguments of `execute`."""
        instance = action.args["reg"]
        assert isinstance(instance, ast.Instance)
        register, method = self.register(instance), action.methods["apply"]
        index, *others = call.args
        assert index is not None
        targets = [one for one in others if one is not None]
        if len(targets) > max(len(method.params) - 2, 0):
            given = max(len(method.params) - 1, 0)
            raise SourceError(
                call.pos, f"execute asks for {len(targets) + 1} results, expected at most {given}"
            )
        at = body.temporary("_i", body.value(index))
        places = [body.place(target) for target in targets]
        self._touch(body, register, call.pos)
        zero = body.unit.shapes.initial(call.type)
        results = [body.temporary("_r", zero) for _ in method.params[1:]]
        if in_range(body, index, register.size):
            self._run_method(body, register, method, at, results)
        else:
            body.emit(f"if {at} < {register.size}:")
            with body.indented():
                self._run_method(body, register, method, at, results)
        for place, target, result in zip(places, targets, results[1:], strict=False):
            body.store(place, target, result)
        return results[0] if results else "0"

    def _run_method(
        self, body: Calls, register: Register, method: ast.FunctionDecl, at: str, results: list[str]
    ) -> None:
        value = self._load(body, register, method.params[0].type, at)
        body.inline(method.params, [value, *(None for _ in results)], method.body, method.result)
        self._save(body, register, body.env[method.params[0]], at)
        for result, param in zip(results, method.params[1:], strict=True):
            body.emit(f"{result} = {body.env[param]}")

    def _load(self, body: Calls, register: Register, type_: Type, at: str) -> str:
        """Code of a cell; a pair becomes an object, which is used again and again."""
        type_ = underlying(type_)
        if not is_object(type_):
            return f"{self._cells(body, register)}[{at}]"
        made = body.unit.constant(
            f"_pair_{type_}", f"{body.unit.shapes.class_of(type_)}()  # {register.name}"
        )
        for column, spec in enumerate(register.specs):
            body.emit(f"{made}.{identifier(spec.name)} = {self._cells(body, register, column)}[{at}]")
        return made

    def _save(self, body: Calls, register: Register, value: str, at: str) -> None:
        for column, spec in enumerate(register.specs):
            code = f"{value}.{identifier(spec.name)}" if spec.name else value
            body.emit(f"{self._cells(body, register, column)}[{at}] = {code}")

    def _read(self, body: Calls, call: ast.Call, register: Register) -> str:
        index = argument(call, 0)
        at = body.temporary("_i", body.value(index))
        self._touch(body, register, call.pos)
        result = body.temporary("_r", body.unit.shapes.initial(call.type))
        body.emit(f"if {at} < {register.size}:")
        with body.indented():
            if is_object(underlying(call.type)):
                body.emit(f"{result}.assign({self._load(body, register, call.type, at)})")
            else:
                body.emit(f"{result} = {self._cells(body, register)}[{at}]")
        return result

    def _write(self, body: Calls, call: ast.Call, register: Register) -> str:
        index, value = argument(call, 0), argument(call, 1)
        codes = body.in_order([lambda: body.value(index), lambda: body.value(value)])
        at, code = body.temporary("_i", codes[0]), body.temporary("_t", codes[1])
        self._touch(body, register, call.pos)
        body.emit(f"if {at} < {register.size}:")
        with body.indented():
            self._save(body, register, code, at)
        return code

    def _count(self, body: Calls, call: ast.Call, counter: Counter) -> None:
        at = body.temporary("_i", body.value(argument(call, 0)))
        less = self._less(body, call, 1)
        self._touch(body, counter, call.pos)
        short = identifier(counter.name.rpartition(".")[2])
        body.emit(f"if {at} < {counter.size}:")
        with body.indented():
            body.emit(f"{body.unit.bind(f'_packets_{short}', counter.packets)}[{at}] += 1")
            octets = body.unit.bind(f"_bytes_{short}", counter.bytes)
            body.emit(f"{octets}[{at}] += {self._ctx(body)}.length{less}")

    def _count_direct(self, body: Calls, call: ast.Call) -> None:
        if not body.hit_entry:
            raise UnsupportedError(call.pos, "DirectCounter.count outside an action of its table")
        less = self._less(body, call, 0)
        body.emit(f"{body.hit_entry}.packets += 1")
        body.emit(f"{body.hit_entry}.bytes += {self._ctx(body)}.length{less}")

    def _less(self, body: Calls, call: ast.Call, number: int) -> str:
        adjust = call.args[number] if len(call.args) > number else None
        return "" if adjust is None else f" - {body.value(adjust)}"

    def _hash(self, body: Calls, call: ast.Call, instance: ast.Instance) -> str:
        algorithm = instance.args["algo"]
        assert isinstance(algorithm, ast.EnumValue)
        if any(one.name == "symmetric" for one in instance.annotations):
            raise UnsupportedError(_where(instance), "annotation @symmetric of a Hash")
        size = bits(_type_argument(instance, 0))
        mask = (1 << size) - 1
        data = argument(call, 0)
        if algorithm.member == "IDENTITY":
            fields = [(code, type_) for _, code, type_ in body.fields(data)]
            return f"(({joined_bits(fields)}) & {mask:#x})"
        function = body.unit.bind(
            f"_hash_{instance.name.rpartition('.')[2]}", self._algorithm(instance, algorithm)
        )
        code = f"{function}({body.octets(data, skip_invalid=False)})"
        width = _HASH_BITS.get(algorithm.member, size)
        if algorithm.member == "CUSTOM":
            width = bits(_type_argument(_instance(instance.args["poly"]), 0))
        if size > width:
            # The bits of a shorter hash are repeated.
            code = f"{code} * {sum(1 << shift for shift in range(0, size, width)):#x}"
        return f"({code} & {mask:#x})"

    def _algorithm(self, instance: ast.Instance, algorithm: ast.EnumValue) -> hashes.Hash:
        if algorithm.member == "RANDOM":
            return hashes.random_hash(self.environment.generator, 64)
        if algorithm.member != "CUSTOM":
            return hashes.TNA[algorithm.member]
        poly = instance.args.get("poly")
        if not isinstance(poly, ast.Instance):
            raise UnsupportedError(_where(instance), "Hash CUSTOM without a CRCPolynomial")
        if poly.args["msb"] or poly.args["extended"]:
            raise UnsupportedError(_where(poly), "CRCPolynomial with msb or extended")
        numbers = [poly.args[name] for name in ("coeff", "init", "xor")]
        coefficient, init, xor = (one for one in numbers if isinstance(one, int))
        width = bits(_type_argument(poly, 0))
        return hashes.Crc(width, coefficient, reflected=bool(poly.args["reversed"]), init=init, xor=xor)

    def _unit(self, body: Calls, instance: ast.Instance) -> str:
        if instance not in self._units:
            made = ChecksumUnit() if instance.decl.name == "Checksum" else ParserCounter()
            self._units[instance] = made
            self.parser_units.append(made)
        return body.unit.bind(f"_unit_{identifier(instance.name.rpartition('.')[2])}", self._units[instance])

    def _checksum(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        unit = self._unit(body, instance)
        match name:
            case "add" | "subtract" if isinstance(body, ParserBody):
                octets = body.octets(argument(call, 0), skip_invalid=False)
                body.emit(f"{unit}.{name}({octets})")
                return ""
            case "verify":
                return f"{unit}.wrong()"
            case "get":
                return f"{unit}.get()"
            case "update":
                flag = call.args[1] if len(call.args) > 1 else None
                ones = "False" if flag is None else body.value(flag)
                octets = body.octets(argument(call, 0), skip_invalid=False)
                return f"{body.unit.bind('_update_checksum', update)}({octets}, {ones})"
        raise self.refuse(call, instance, name)

    def _parser_counter(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        unit = self._unit(body, instance)
        match name, len(call.args):
            case "set", 1:
                body.emit(f"{unit}.value = {body.value(argument(call, 0))}")
            case "increment", 1:
                body.emit(f"{unit}.value += {body.value(argument(call, 0))}")
            case "decrement", 1:
                body.emit(f"{unit}.value -= {body.value(argument(call, 0))}")
            case "is_zero", 0:
                return f"({unit}.value == 0)"
            case "is_negative", 0:
                return f"({unit}.value < 0)"
            case _:
                raise self.refuse(call, instance, name)
        return ""

    def _emit(self, body: Calls, call: ast.Call, what: str) -> None:
        """Mirror.emit(session[, header]) and Resubmit.emit([header])."""
        args = [one for one in call.args if one is not None]
        session = body.value(args.pop(0)) if what == "mirror" else ""
        header = "b''"
        if args:
            type_ = underlying(args[0].type)
            if not isinstance(type_, Fielded):
                raise UnsupportedError(call.pos, f"{what} header of type {type_}")
            if isinstance(type_, HeaderType):
                whole_bytes(type_, call.pos)
            header = body.octets(args[0], skip_invalid=False)
        value = f"({session}, {header})" if session else header
        body.emit(f"{self._ctx(body)}.{what} = {value}")

    # -- functions

    def function(self, body: Calls, call: ast.Call) -> str:
        """Extern functions."""
        assert isinstance(call.decl, ast.Declaration)
        name = call.decl.name
        match name:
            case "max" | "min":
                parts = body.in_order(
                    [lambda: body.value(argument(call, 0)), lambda: body.value(argument(call, 1))]
                )
                return f"{name}({', '.join(parts)})"
            case "sizeInBits":
                return str(bits(argument(call, 0).type))
            case "sizeInBytes":
                return str(bits(argument(call, 0).type) // 8)
            case "funnel_shift_right":
                self._funnel_shift(body, call)
                return ""
            case "port_metadata_unpack" if isinstance(body, ParserBody):
                size = self.program.declaration("PORT_METADATA_SIZE")
                count = size.value.const if isinstance(size, ast.ConstDecl) else 64
                assert isinstance(count, int)
                body.emit(f"_o += {count // 8}")
                return body.temporary("_s", body.unit.shapes.initial(call.type))
            case "verify":
                raise UnsupportedError(call.pos, "verify in TNA (use a field and check it in the control)")
        return super().function(body, call)

    def _funnel_shift(self, body: Calls, call: ast.Call) -> None:
        target, high, low, shift = (argument(call, number) for number in range(4))
        place = body.place(target)
        upper, lower = body.in_order([lambda: body.value(high), lambda: body.value(low)])
        size = bits(target.type)
        code = f"(({upper} << {size}) | {lower}) >> {body.value(shift)} & {(1 << size) - 1:#x}"
        body.store(place, target, code)


_HASH_BITS = {"XOR8": 8, "XOR16": 16, "XOR32": 32, "CRC8": 8, "CRC16": 16, "CRC32": 32, "CRC64": 64}


def _instance(value: object) -> ast.Instance:
    assert isinstance(value, ast.Instance)
    return value


def twice(name: str, pos: str) -> None:
    """A packet touches a register or counter again."""
    raise ExecutionError(f"{pos}: {name} is touched twice by one packet, expected at most once")


def _type_argument(instance: ast.Instance, number: int) -> Type:
    assert isinstance(instance.type, ExternType)
    return underlying(instance.type.args[number])


def _where(instance: ast.Instance) -> Pos:
    return instance.node.pos if instance.node is not None else instance.decl.pos


def _columns(type_: Type, initial: object, pos: Pos) -> list[Column]:
    match type_:
        case BitType() | IntType() | BoolType():
            start = initial if isinstance(initial, int) else 0
            return [Column("", bits(type_), isinstance(type_, IntType), int(start))]
        case StructType(_, fields):
            starts = initial if isinstance(initial, tuple) else (0,) * len(fields)
            found = []
            for field, start in zip(fields, starts, strict=True):
                inner = underlying(field.type)
                if not isinstance(inner, BitType | IntType | BoolType) or not isinstance(start, int):
                    raise UnsupportedError(pos, f"register of {type_} with a field of {field.type}")
                found.append(Column(field.name, bits(inner), isinstance(inner, IntType), int(start)))
            return found
    raise UnsupportedError(pos, f"register of {type_}")
