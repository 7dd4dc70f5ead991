"""P4 expressions as Python expressions.

`tight` code has a value in the range of its type. Additions and the like of unsigned numbers are first left too wide or
negative (`loose`), and masked once where the value is seen.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.ast import MemberKind
from epic_p4.errors import UnsupportedError
from epic_p4.lower.emitter import Emitter
from epic_p4.lower.layout import bits, from_bits, joined_bits, to_bits, to_signed
from epic_p4.lower.names import identifier
from epic_p4.lower.shapes import is_object
from epic_p4.types import (
    BitType,
    BoolType,
    Fielded,
    HeaderType,
    InfIntType,
    IntType,
    StackType,
    TupleType,
    Type,
    underlying,
)

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_LOOSE = frozenset({"+", "-", "*"})

_MAX_PARENTHESES = 64


class Expressions(Emitter):
    """Expressions in the body of one parser or control instance; `env` says what a declaration is called."""

    def __init__(self, unit: Unit, instance: ast.Instance | None) -> None:
        super().__init__()
        self.unit = unit
        self.instance = instance
        self.env: dict[ast.Node, str] = {}

    @abstractmethod
    def call(self, call: ast.Call) -> str:
        """Write out a call; the code of its result."""

    @abstractmethod
    def stack_element(self, member: ast.Member) -> str:
        """`stack.next` and `stack.last`, which only parsers have."""

    # -- values

    def value(self, node: ast.Expression) -> str:
        """Code for the value, in the range of its type; an object's code is a reference to it."""
        code, tight = self._raw(node)
        return code if tight else wrapped(code, node.type)

    def _shallow(self, code: str) -> str:
        """Python's parser allows 200 nested parentheses: a part that has many becomes a variable."""
        return self.temporary("_t", code) if code.count("(") > _MAX_PARENTHESES else code

    def known(self, node: ast.Expression) -> ast.Value | None:
        """The value when it is known before the program runs."""
        return node.const if node.const is not None else self.unit.evaluate(node, self.instance)

    def condition(self, node: ast.Expression) -> str:
        """Code of a bool, without outer parentheses where that is easy."""
        code = self.value(node)
        return code[1:-1] if code.startswith("(") and _closes_last(code) else code

    def path(self, node: ast.Expression) -> str:
        """Code of an lvalue that can be used several times: what could change is kept in variables."""
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Member(kind=MemberKind.FIELD):
                return f"{self.path(node.base)}.{identifier(node.name)}"
            case ast.Member(kind=MemberKind.STACK_NEXT | MemberKind.STACK_LAST):
                return self.stack_element(node)
            case ast.Index() if isinstance(node.base.type, StackType):
                base = self.path(node.base)
                index = self.known(node.index)
                if isinstance(index, int):
                    return f"{base}.items[{index}]"
                return self.temporary("_h", f"_element({base}.items, {self.value(node.index)})")
        raise UnsupportedError(node.pos, f"{type(node).__name__} as a place to write to")

    def _raw(self, node: ast.Expression) -> tuple[str, bool]:
        if isinstance(node, ast.DefaultValue):
            return self.unit.shapes.initial(node.type), True
        if isinstance(node.const, tuple) and is_object(underlying(node.type)):
            return self._constant_object(node.const, node.type), True
        if isinstance(node.const, int | bool | str | ast.EnumValue | tuple):
            return literal(node.const), True
        match node:
            case ast.Name():
                return self._name(node), True
            case ast.Member():
                return self._member(node), True
            case ast.Index():
                return self._index(node), True
            case ast.Slice():
                return self._slice(node), True
            case ast.Unary():
                return self._unary(node)
            case ast.Binary():
                code, tight = self._binary(node)
                return self._shallow(code), tight
            case ast.Ternary():
                return self._shallow(self._ternary(node)), True
            case ast.Cast():
                return self._cast(node)
            case ast.Call():
                return self.call(node), True
            case ast.ListExpr():
                return self._list(node), True
            case ast.StructExpr():
                return self._struct(node), True
        raise UnsupportedError(node.pos, f"{type(node).__name__} as a value")

    def _name(self, node: ast.Name) -> str:
        if node.decl in self.env:
            return self.env[node.decl]
        known = self.known(node)
        if isinstance(known, int | bool | str | ast.EnumValue | tuple):
            return literal(known)
        raise UnsupportedError(node.pos, f"{node.name!r} from outside the control or parser that uses it")

    def _member(self, node: ast.Member) -> str:
        match node.kind:
            case MemberKind.FIELD:
                return f"{self.value(node.base)}.{identifier(node.name)}"
            case MemberKind.STACK_NEXT | MemberKind.STACK_LAST:
                return self.stack_element(node)
            case MemberKind.STACK_LAST_INDEX:
                return f"(({self.value(node.base)}.next - 1) & 0xffffffff)"
            case MemberKind.HIT | MemberKind.MISS if isinstance(node.base, ast.Call):
                entry = self.call(node.base)
                return f"{entry}.hit" if node.kind is MemberKind.HIT else f"(not {entry}.hit)"
        raise UnsupportedError(node.pos, f"member {node.name!r} as a value")

    def _index(self, node: ast.Index) -> str:
        index = self.known(node.index)
        if isinstance(node.base.type, TupleType):
            if not isinstance(index, int):
                raise UnsupportedError(node.pos, "index of a tuple that is not constant")
            return f"{self.value(node.base)}[{index}]"
        if isinstance(index, int):
            return f"{self.value(node.base)}.items[{index}]"
        base, code = self.in_order([lambda: self.value(node.base), lambda: self.value(node.index)])
        return f"_element({base}.items, {code})"

    def _slice(self, node: ast.Slice) -> str:
        code, tight = self._raw(node.base)
        base = underlying(node.base.type)
        if not tight and isinstance(base, IntType):
            code = wrapped(code, base)
        unsigned = tight and isinstance(base, BitType)
        mask = (1 << (node.hi - node.lo + 1)) - 1
        if node.lo:
            code = f"({code} >> {node.lo})"
        if unsigned and node.hi == bits(base) - 1:
            return code
        return f"({code} & {mask:#x})"

    def _unary(self, node: ast.Unary) -> tuple[str, bool]:
        if node.op == "!":
            return f"(not {self.value(node.operand)})", True
        if isinstance(underlying(node.type), IntType):
            code = f"({node.op}{self.value(node.operand)})"
            return code, node.op == "~"
        code, _ = self._raw(node.operand)
        return f"({node.op}{code})", node.op == "+"

    def _ternary(self, node: ast.Ternary) -> str:
        condition = self.value(node.condition)
        first, yes = self.deferred(lambda: self.value(node.yes))
        second, no = self.deferred(lambda: self.value(node.no))
        if not first and not second:
            return f"({yes} if {condition} else {no})"
        made = self.scope.fresh("_t")
        self._branch(f"if {condition}:", first, f"{made} = {yes}")
        self._branch("else:", second, f"{made} = {no}")
        return made

    def _branch(self, head: str, before: list[str], last: str) -> None:
        self.emit(head)
        self.lines += before
        with self.indented():
            self.emit(last)

    def _binary(self, node: ast.Binary) -> tuple[str, bool]:
        match node.op:
            case "&&" | "||":
                return self._logical(node), True
            case "<<" | ">>":
                return self._shift(node)
            case "++":
                return self._concatenation(node), True
            case "/" | "%":
                return self._division(node), True
            case "|+|" | "|-|":
                return self._saturating(node), True
        if node.op in _COMPARISONS:
            return self._comparison(node), True
        terms = _terms(node)
        signed = isinstance(underlying(node.type), IntType)
        tight: list[bool] = []

        def operand(part: ast.Expression) -> str:
            code, is_tight = self._raw(part)
            if signed and not is_tight:
                code, is_tight = wrapped(code, part.type), True
            tight.append(is_tight)
            return code

        codes = self.in_order([partial(operand, term) for term in terms])
        in_range = any(tight) if node.op == "&" else all(tight) and node.op not in _LOOSE
        return f"({f' {node.op} '.join(codes)})", in_range

    def _logical(self, node: ast.Binary) -> str:
        word = "and" if node.op == "&&" else "or"
        left = self.value(node.left)
        before, right = self.deferred(lambda: self.value(node.right))
        if not before:
            return f"({left} {word} {right})"
        made = self.temporary("_t", left)
        self._branch(f"if {made}:" if word == "and" else f"if not {made}:", before, f"{made} = {right}")
        return made

    def _comparison(self, node: ast.Binary) -> str:
        left, right = self.in_order([lambda: self.value(node.left), lambda: self.value(node.right)])
        if is_object(underlying(node.left.type)):
            same = f"{left}.same({right})"
            return same if node.op == "==" else f"(not {same})"
        return f"({left} {node.op} {right})"

    def _shift(self, node: ast.Binary) -> tuple[str, bool]:
        size = bits(node.type)
        count = self.known(node.right)
        if isinstance(count, int):
            if node.op == ">>":
                return f"({self.value(node.left)} >> {count})", True
            return ("0", True) if count >= size else (f"({self._raw(node.left)[0]} << {count})", False)
        left, right = self.in_order([lambda: self.value(node.left), lambda: self.value(node.right)])
        if node.op == ">>":
            return f"({left} >> {right})", True
        # A count beyond the width would make Python build a number that long.
        return f"({left} << min({right}, {size}))", False

    def _concatenation(self, node: ast.Binary) -> str:
        terms = _terms(node)
        codes = self.in_order([partial(self.value, term) for term in terms])
        code = joined_bits([(code, term.type) for code, term in zip(codes, terms, strict=True)])
        return f"({from_bits(f'({code})', node.type)})"

    def _division(self, node: ast.Binary) -> str:
        """Only constants are divided; here those that the constructor's arguments make known."""
        known = self.known(node)
        if not isinstance(known, int):
            raise UnsupportedError(node.pos, f"{node.op} of numbers that are not constant")
        return literal(known)

    def _saturating(self, node: ast.Binary) -> str:
        left, right = self.in_order([lambda: self.value(node.left), lambda: self.value(node.right)])
        op = node.op[1]
        type_ = underlying(node.type)
        if isinstance(type_, IntType):
            half = 1 << (type_.width - 1)
            return f"max(-{half:#x}, min({left} {op} {right}, {half - 1:#x}))"
        if op == "+":
            return f"min({left} + {right}, {(1 << bits(type_)) - 1:#x})"
        return f"max({left} - {right}, 0)"

    def _cast(self, node: ast.Cast) -> tuple[str, bool]:
        target, source = underlying(node.type), underlying(node.operand.type)
        if is_object(target) and not is_object(source):
            return self._struct_of(target, self.value(node.operand), node), True
        code, tight = self._raw(node.operand)
        match target, source:
            case BitType(), BoolType():
                return f"(1 if {code} else 0)", True
            case BoolType(), BitType():
                return f"({code} != 0)", True
            case BitType(size), BitType(from_size) if size >= from_size and not tight:
                return wrapped(code, source), True
            case BitType(size), BitType(from_size):
                return code, tight and size >= from_size
            case IntType(), BitType() | IntType():
                # Bits beyond the width do no harm: `wrapped` looks at the low ones only.
                inner = code if tight else wrapped(code, source)
                keep = isinstance(source, IntType) and target.width >= source.width
                return (inner, True) if keep else (inner, False)
            case BitType(), IntType() | InfIntType():
                return code if tight else wrapped(code, source), False
        return code, tight

    def _struct_of(self, type_: Type, code: str, node: ast.Expression) -> str:
        """An object from a tuple, which the checker leaves as a cast."""
        if not isinstance(type_, Fielded):
            raise UnsupportedError(node.pos, f"cast to {type_}")
        made = self.temporary("_s", self.unit.shapes.initial(type_))
        for number, one in enumerate(type_.fields):
            self._set_field(made, one.name, one.type, f"{code}[{number}]")
        if isinstance(type_, HeaderType):
            self.emit(f"{made}._v = True")
        return made

    def _constant_object(self, value: tuple[ast.Value, ...], type_: Type) -> str:
        type_ = underlying(type_)
        assert isinstance(type_, Fielded)
        made = self.temporary("_s", self.unit.shapes.initial(type_))
        for one, item in zip(type_.fields, value, strict=True):
            inner = isinstance(item, tuple) and is_object(underlying(one.type))
            code = self._constant_object(item, one.type) if inner else literal(item)  # type: ignore[arg-type]
            self._set_field(made, one.name, one.type, code)
        if isinstance(type_, HeaderType):
            self.emit(f"{made}._v = True")
        return made

    def _list(self, node: ast.ListExpr) -> str:
        codes = self.in_order([lambda item=item: self.value(item) for item in node.items])  # type: ignore[misc]
        return "(" + "".join(f"{code}, " for code in codes) + ")"

    def _struct(self, node: ast.StructExpr) -> str:
        type_ = underlying(node.type)
        if not isinstance(type_, Fielded):
            raise UnsupportedError(node.pos, f"a value of type {node.type}")
        codes = self.in_order([lambda item=item: self.value(item) for _, item in node.items])  # type: ignore[misc]
        made = self.temporary("_s", self.unit.shapes.initial(type_))
        for (name, item), code in zip(node.items, codes, strict=True):
            self._set_field(made, name, item.type, code)
        if isinstance(type_, HeaderType):
            self.emit(f"{made}._v = True")
        return made

    def _set_field(self, base: str, name: str, type_: Type, code: str) -> None:
        place = f"{base}.{identifier(name)}"
        self.emit(f"{place}.assign({code})" if is_object(underlying(type_)) else f"{place} = {code}")

    # -- places

    def store(self, place: str, target: ast.Expression, code: str) -> None:
        """Write a tight value to the lvalue `target` whose `path` is `place` (of a slice: of what is sliced)."""
        if isinstance(target, ast.Slice):
            self._store_slice(place, target, code)
        elif is_object(underlying(target.type)):
            self.emit(f"{place}.assign({code})")
        else:
            self.emit(f"{place} = {code}")

    def place(self, target: ast.Expression) -> str:
        """The `path` to give to `store`."""
        while isinstance(target, ast.Slice):
            target = target.base
        return self.path(target)

    def _store_slice(self, place: str, target: ast.Slice, code: str) -> None:
        low, size = target.lo, target.hi - target.lo + 1
        base: ast.Expression = target.base
        while isinstance(base, ast.Slice):
            low += base.lo
            base = base.base
        whole = underlying(base.type)
        keep = ((1 << bits(whole)) - 1) ^ (((1 << size) - 1) << low)
        code = to_bits(code, target.type)
        part = f"(({code}) << {low})" if low else f"({code})"
        self.emit(f"{place} = {from_bits(f'({place} & {keep:#x}) | {part}', whole)}")

    # -- bits for hashes and checksums

    def fields(self, node: ast.Expression, *, copied: bool = False) -> list[tuple[str, str, Type]]:
        """(validity of the header it is a field of or "", code, type) of all scalars in `node`, in order.

        What is no field as it stands has no header, as BMv2 has it: invalid headers count for nothing there. `copied`:
        the list's items are copied before they are used, so only whole headers can be invalid.
        """
        match node:
            case ast.ListExpr():
                return [one for item in node.items for one in self.fields(item, copied=copied)]
            case ast.StructExpr():
                return [one for _, item in node.items for one in self.fields(item, copied=copied)]
            case ast.Cast() if bits(node.type) == bits(node.operand.type) or is_object(underlying(node.type)):
                inner = self.fields(node.operand, copied=copied)
                return [(inner[0][0], inner[0][1], node.operand.type)] if len(inner) == 1 else inner
            case ast.Member(kind=MemberKind.FIELD) if isinstance(node.base.type, HeaderType) and not copied:
                base = self.path(node.base)
                return [(f"{base}._v", f"{base}.{identifier(node.name)}", node.type)]
        if is_object(underlying(node.type)):
            return self._object_fields(self.path(node), node.type)
        if isinstance(underlying(node.type), TupleType):
            raise UnsupportedError(node.pos, "a tuple variable as data of a hash or checksum")
        return [("", self.value(node), node.type)]

    def _object_fields(self, path: str, type_: Type) -> list[tuple[str, str, Type]]:
        type_ = underlying(type_)
        if isinstance(type_, StackType):
            paths = [f"{path}.items[{number}]" for number in range(type_.size)]
            return [one for each in paths for one in self._object_fields(each, type_.element)]
        if not isinstance(type_, Fielded):
            return [("", path, type_)]
        found = []
        for field in type_.fields:
            code = f"{path}.{identifier(field.name)}"
            if isinstance(type_, HeaderType):
                found.append((f"{path}._v", code, field.type))
            else:
                found += self._object_fields(code, field.type)
        return found


def _terms(node: ast.Binary) -> list[ast.Expression]:
    """The operands of a chain of one operator, `a + b + c`, which P4 reads from left to right."""
    terms = [node.right]
    left = node.left
    while isinstance(left, ast.Binary) and left.op == node.op and left.const is None:
        terms.append(left.right)
        left = left.left
    return [left, *reversed(terms)]


def literal(value: ast.Value) -> str:
    """Python code of a compile-time value."""
    match value:
        case bool() | str():
            return repr(value)
        case int():
            return str(value) if -256 < value < 256 else hex(value)
        case ast.EnumValue():
            return str(value.index)
        case tuple():
            return "(" + "".join(f"{literal(item)}, " for item in value) + ")"
    raise TypeError(f"no Python code for {value!r}")


def wrapped(code: str, type_: Type) -> str:
    """The value that `code` has modulo the width of its type."""
    type_ = underlying(type_)
    mask = (1 << bits(type_)) - 1
    if isinstance(type_, IntType):
        return f"({to_signed(f'{code} & {mask:#x}', type_.width)})"
    return f"({code} & {mask:#x})"


def _closes_last(code: str) -> bool:
    depth = 0
    for position, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(code) - 1
    return False
