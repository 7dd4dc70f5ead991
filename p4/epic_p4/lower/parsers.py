"""Parsers as Python functions.

A state that one transition leads to is written out there; the others are branches of a loop. The packet is `_b`, its
length `_n`, what is taken `_o` bytes. The function gives a status: 0 accepted, an error's number + 1, or REJECTED.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.ast import MemberKind
from epic_p4.errors import UnsupportedError
from epic_p4.lower.calls import Calls
from epic_p4.lower.layout import bits, from_bits, reader, to_bits
from epic_p4.lower.names import identifier
from epic_p4.lower.shapes import is_object, whole_bytes
from epic_p4.types import HeaderType, StackType, StructType, Type, underlying

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit

REJECTED = -1
"""Status of an explicit `reject`: no error is set."""

MAX_IDLE_STATES = 10_000
"""States that a parser may pass without taking a byte; more is a loop that never ends."""

_MAX_NESTED_SELECTS = 16


class ParserBody(Calls):
    """The body of one parser instance."""

    def __init__(self, unit: Unit, instance: ast.Instance, returned: list[ast.Param]) -> None:
        super().__init__(unit, instance)
        assert isinstance(instance.decl, ast.ParserDecl)
        self._decl = instance.decl
        self._returned = returned
        self._packet = ""
        self._branches: dict[ast.ParserState, int] = {}

    # -- the function

    def write(self, names: dict[ast.Param, str]) -> None:
        """All lines of the function; `names` are those of its parameters."""
        self.env.update(names.items())
        packets = [param for param in self._decl.params if str(param.type) == "packet_in"]
        self._packet = self.env[packets[0]]
        self.emit(f"_b, _o = {self._packet}.data, {self._packet}.offset")
        self.emit("_n = len(_b)")
        for local in self._decl.locals:
            if isinstance(local, ast.VarDecl):
                self.variable(local)
        start = self._decl.states["start"]
        self._branches = self._find_branches(start)
        if not self._branches:
            self._state(start)
            return
        self._loop(start)

    def _find_branches(self, start: ast.ParserState) -> dict[ast.ParserState, int]:
        """Numbers of the states that more than one transition leads to."""
        leads = Counter(target for state in self._decl.states.values() for target in _targets(state))
        found = {state for state in leads if leads[state] > (0 if state is start else 1)}
        # Python limits how deep blocks nest, so a tree of selects is cut now and then.
        pending = [(start, 0), *((state, 0) for state in found)]
        while pending:
            state, depth = pending.pop()
            depth += isinstance(state.transition, ast.Select)
            for target in _targets(state):
                if target in found:
                    continue
                if depth > _MAX_NESTED_SELECTS:
                    found.add(target)
                pending.append((target, 0 if target in found else depth))
        return {state: number for number, state in enumerate(self._decl.states.values()) if state in found}

    def _loop(self, start: ast.ParserState) -> None:
        self.emit("_idle, _last = 0, -1")
        first = self._branches.get(start, -1)
        self.emit(f"_s = {first}")
        self.emit("while True:")
        with self.indented():
            self.emit("if _o == _last:")
            with self.indented():
                self.emit("_idle += 1")
                self.emit(f"if _idle > {MAX_IDLE_STATES}:")
                with self.indented():
                    self.emit(f"_stuck({self.instance.name!r}, {str(self._decl.pos)!r})")  # type: ignore[union-attr]
            self.emit("else:")
            with self.indented():
                self.emit("_idle, _last = 0, _o")
            word = "if"
            if start not in self._branches:
                self.emit("if _s == -1:")
                word = "elif"
                with self.indented():
                    self._state(start)
            for state, number in self._branches.items():
                self.emit(f"{word} _s == {number}:")
                word = "elif"
                with self.indented():
                    self._state(state)

    def _state(self, state: ast.ParserState) -> None:
        self.at(state.pos)
        self.block(state.statements)
        if isinstance(state.transition, ast.Select):
            self._select(state.transition)
        else:
            self._go(state.transition)

    def _go(self, target: ast.StateRef) -> None:
        if target.state is None:
            self.emit_return("0" if target.name == "accept" else str(REJECTED))
            return
        if target.state in self._branches:
            self.emit(f"_s = {self._branches[target.state]}")
            self.emit("continue")
        else:
            self._state(target.state)

    def leave(self, exited: bool) -> None:
        """Parsers have no `exit` and no `return`."""
        raise UnsupportedError(self._decl.pos, "exit or return in a parser")

    def emit_return(self, status: str) -> None:
        """Return with a status and the values of the parameters that are numbers."""
        self.emit(f"{self._packet}.offset = _o")
        outs = [self.env[param] for param in self._returned]
        self.emit(f"return {', '.join([status, *outs])}")

    def fail(self, error: str) -> None:
        """Return with an error."""
        self.emit_return(str(self.unit.error_number(error) + 1))

    def before_apply(self, call: ast.Call) -> None:
        """A parser inside goes on where this one is."""
        self.emit(f"{self._packet}.offset = _o")

    def after_apply(self) -> None:
        """Take over the offset; an error inside ends this parser too."""
        self.emit(f"_o = {self._packet}.offset")
        self.emit("if _x:")
        with self.indented():
            self.emit_return("_x")

    # -- select

    def _select(self, select: ast.Select) -> None:
        codes = self.in_order([lambda node=node: self.value(node) for node in select.subjects])  # type: ignore[misc]
        subjects = [code if code.isidentifier() else self.temporary("_c", code) for code in codes]
        word = "if"
        for case in select.cases:
            keys = case.keys
            tests = [
                test
                for subject, node, key in zip(subjects, select.subjects, keys, strict=True)
                if (test := self._test(subject, node.type, key))
            ]
            if not tests:
                if word == "if":
                    self._go(case.target)
                else:
                    self.emit("else:")
                    with self.indented():
                        self._go(case.target)
                return
            self.emit(f"{word} {' and '.join(tests)}:")
            word = "elif"
            with self.indented():
                self._go(case.target)
        self.fail("NoMatch")

    def _test(self, subject: str, type_: Type, key: ast.Expression) -> str:
        match key:
            case ast.DefaultExpr():
                return ""
            case ast.MaskExpr():
                mask, value = self.known(key.mask), self.known(key.value)
                if isinstance(mask, int) and isinstance(value, int):
                    return f"{to_bits(subject, type_)} & {mask:#x} == {value & mask:#x}"
                mask_code, value_code = self.value(key.mask), self.value(key.value)
                return f"{subject} & {mask_code} == {value_code} & {mask_code}"
            case ast.RangeExpr():
                return f"{self.value(key.low)} <= {subject} <= {self.value(key.high)}"
        return f"{subject} == {self.value(key)}"

    # -- packet_in

    def packet_method(self, call: ast.Call, callee: ast.Member) -> str:
        """extract, advance, lookahead, length."""
        match callee.name:
            case "extract":
                self._extract(call)
                return ""
            case "advance":
                self._advance(call)
                return ""
            case "lookahead":
                return self._lookahead(call)
            case "length":
                return "_n"
        return super().packet_method(call, callee)

    def verify(self, call: ast.Call) -> str:
        """`verify(condition, error)`."""
        condition, error = call.args
        assert condition is not None and error is not None
        self.emit(f"if not {self.value(condition)}:")
        with self.indented():
            self.emit_return(f"{self.value(error)} + 1")
        return ""

    def _short(self, size: str) -> None:
        self.emit(f"if _n - _o < {size}:")
        with self.indented():
            self.fail("PacketTooShort")

    def _extract(self, call: ast.Call) -> None:
        target = call.args[0]
        if target is None or isinstance(target, ast.DefaultExpr) or target.type is None:
            raise UnsupportedError(call.pos, "extract without a header")
        header = underlying(target.type)
        if not isinstance(header, HeaderType):
            raise UnsupportedError(call.pos, f"extract of {target.type}")
        size = whole_bytes(header, call.pos)
        # The error of a full stack comes before that of a short packet.
        following = isinstance(target, ast.Member) and target.kind is MemberKind.STACK_NEXT
        path = self._next(target) if following else self.path(target)
        if size:
            self._short(str(size))
        path = path if path.isidentifier() else self.temporary("_h", path)
        if header.fields:
            self._read(path, header)
        self.emit(f"{path}._v = True")
        if size:
            self.emit(f"_o += {size}")
        if following:
            assert isinstance(target, ast.Member)
            self.emit(f"{self.path(target.base)}.next += 1")

    def _next(self, target: ast.Expression) -> str:
        assert isinstance(target, ast.Member)
        return self.stack_element(target)

    def stack_element(self, member: ast.Member) -> str:
        """`stack.next` and `stack.last`; outside the stack is an error."""
        stack = self.path(member.base)
        type_ = underlying(member.base.type)
        assert isinstance(type_, StackType)
        following = member.kind is MemberKind.STACK_NEXT
        self.emit(f"if {stack}.next >= {type_.size}:" if following else f"if {stack}.next < 1:")
        with self.indented():
            self.fail("StackOutOfBounds")
        return self.temporary("_h", f"{stack}.items[{stack}.next{'' if following else ' - 1'}]")

    def _read(self, path: str, header: HeaderType) -> None:
        read = reader([(one.name, one.type) for one in header.fields])
        unpack = self.unit.shapes.struct_format(read.format, "unpack_from")
        targets = ", ".join(target.format(h=path) for target in read.targets)
        self.emit(f"{targets}{',' if len(read.targets) == 1 else ''} = {unpack}(_b, _o)")
        for line in read.after:
            self.emit(line.format(h=path))

    def _advance(self, call: ast.Call) -> None:
        argument = call.args[0]
        assert argument is not None
        known = self.known(argument)
        if isinstance(known, int):
            if known % 8:
                raise UnsupportedError(call.pos, f"advance by {known} bits (not whole bytes)")
            self._short(str(known // 8))
            self.emit(f"_o += {known // 8}")
            return
        size = self.temporary("_w", self.value(argument))
        self.emit(f"if {size} & 7:")
        with self.indented():
            self.fail("ParserInvalidArgument")
        self._short(f"{size} >> 3")
        self.emit(f"_o += {size} >> 3")

    def _lookahead(self, call: ast.Call) -> str:
        type_ = underlying(call.type)
        if isinstance(type_, HeaderType):
            self._short(str(whole_bytes(type_, call.pos)))
            made = self.temporary("_h", self.unit.shapes.initial(type_))
            self._read(made, type_)
            self.emit(f"{made}._v = True")
            return made
        if isinstance(type_, StructType):
            return self._lookahead_struct(call, type_)
        if is_object(type_):
            raise UnsupportedError(call.pos, f"lookahead of {call.type}")
        size = bits(type_)
        count = (size + 7) // 8
        self._short(str(count))
        code = f'int.from_bytes(_b[_o:_o + {count}], "big")' if count > 1 else "_b[_o]"
        if size % 8:
            code = f"({code} >> {count * 8 - size})"
        return self.temporary("_c", from_bits(code, type_))

    def _lookahead_struct(self, call: ast.Call, type_: StructType) -> str:
        if any(is_object(underlying(one.type)) for one in type_.fields):
            raise UnsupportedError(call.pos, f"lookahead of {call.type} with an object inside")
        rest = sum(bits(one.type) for one in type_.fields)
        count = (rest + 7) // 8
        self._short(str(count))
        whole = self.temporary("_d", f'int.from_bytes(_b[_o:_o + {count}], "big") >> {count * 8 - rest}')
        made = self.temporary("_s", self.unit.shapes.initial(type_))
        for one in type_.fields:
            rest -= bits(one.type)
            code = f"({whole} >> {rest} & {(1 << bits(one.type)) - 1:#x})"
            self.emit(f"{made}.{identifier(one.name)} = {from_bits(code, one.type)}")
        return made


def _targets(state: ast.ParserState) -> list[ast.ParserState]:
    transition = state.transition
    refs = [case.target for case in transition.cases] if isinstance(transition, ast.Select) else [transition]
    return [ref.state for ref in refs if ref.state is not None]
