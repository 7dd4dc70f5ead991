"""Types, declarations and constants of expressions.

`check` returns the expression to put in place of the one given: implicit conversions become nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_p4 import ast, types
from epic_p4.ast import MemberKind
from epic_p4.check import fold
from epic_p4.check.context import Context, Place
from epic_p4.check.convert import castable, coerce, constants, same_type, typed_width
from epic_p4.check.scope import did_you_mean
from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.types import (
    ActionRunType,
    ApplyResultType,
    BitType,
    BoolType,
    ControlType,
    DotsType,
    EnumType,
    ErrorType,
    ExternType,
    Fielded,
    HeaderType,
    InfIntType,
    IntType,
    NewType,
    ParserType,
    RecordType,
    StackType,
    StringType,
    StructType,
    TableType,
    TupleType,
    Type,
    TypeNameType,
)

if TYPE_CHECKING:
    from epic_p4.check.calls import Calls
    from epic_p4.check.instantiation import Instantiations
    from epic_p4.check.typerefs import TypeRefs

_HEADER_METHODS = frozenset({"isValid", "setValid", "setInvalid"})
_STACK_METHODS = frozenset({"push_front", "pop_front"})
_SIZE_METHODS = frozenset({"minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"})


class Expressions:
    """Checks expressions; parts that need more room are in `calls` and `instantiation`."""

    def __init__(self, context: Context, type_refs: TypeRefs) -> None:
        self.context = context
        self.type_refs = type_refs
        self.calls: Calls
        self.instantiations: Instantiations

    # -- entry points

    def check(self, node: ast.Expression) -> ast.Expression:
        """The checked expression, of whatever type it has."""
        match node:
            case ast.IntLiteral():
                return self._integer(node)
            case ast.BoolLiteral():
                node.type, node.const = types.BOOL, node.value
            case ast.StringLiteral():
                node.type, node.const = types.STRING, node.value
            case ast.Name():
                self._name(node)
            case ast.TypeName():
                node.type = TypeNameType(self.type_refs.resolve(node.type_ref, generic_ok=True))
            case ast.Member():
                self._member(node)
            case ast.Index():
                self._index(node)
            case ast.Slice():
                self._slice(node)
            case ast.Unary():
                return self._unary(node)
            case ast.Binary():
                return self._binary(node)
            case ast.Ternary():
                self._ternary(node)
            case ast.Cast():
                return self._cast(node)
            case ast.Call():
                return self.calls.check(node)
            case ast.Construct():
                return self.instantiations.nameless(node)
            case ast.ListExpr():
                node.items = [self.check(item) for item in node.items]
                node.type = TupleType(tuple(item.type for item in node.items))
                if node.dots or any(isinstance(item.type, DotsType) for item in node.items):
                    node.type = DotsType()
                node.const = None if node.dots else constants(node.items)
            case ast.StructExpr():
                self._record(node)
            case ast.MaskExpr() | ast.RangeExpr() | ast.DefaultExpr():
                raise SourceError(node.pos, "set of values here, expected one value")
            case _:
                raise AssertionError(node)
        return node

    def value(self, node: ast.Expression, target: Type, what: str) -> ast.Expression:
        """The checked expression as a value of type `target`; `what` is what wants it."""
        return coerce(self.check(node), target, what)

    def run_time(self, node: ast.Expression, what: str) -> ast.Expression:
        """The checked expression, which must have a type that values at run time have."""
        node = self.check(node)
        if isinstance(node.type, InfIntType):
            raise SourceError(node.pos, f"{what}: number without width, expected e.g. 8w{node.const or 0}")
        return node

    def constant(self, node: ast.Expression, target: Type, what: str) -> ast.Expression:
        """As `value`, and it must be known at compile time."""
        node = self.value(node, target, what)
        if node.const is None:
            raise SourceError(node.pos, f"{what}: not known at compile time, expected a constant")
        return node

    def constant_int(self, node: ast.Expression, what: str, low: int, high: int) -> int:
        """A compile-time integer of any type, within bounds."""
        if node.const is None:
            node = self.check(node)
        if not isinstance(node.const, int) or isinstance(node.const, bool):
            raise SourceError(node.pos, f"{what}: not known at compile time, expected a constant integer")
        if not low <= node.const <= high:
            raise SourceError(node.pos, f"{what}: {node.const}, expected {low} to {high}")
        return node.const

    def l_value(self, node: ast.Expression, what: str) -> ast.Expression:
        """The checked expression, which must be assignable."""
        node = self.check(node)
        self.require_writable(node, what)
        return node

    # -- leaves

    def _integer(self, node: ast.IntLiteral) -> ast.Expression:
        if node.width is None:
            node.type = types.INT
        else:
            if node.width == 0:
                raise UnsupportedError(node.pos, "number of width 0")
            node.type = IntType(node.width) if node.signed else BitType(node.width)
            node.value = fold.wrap(node.value, node.type)
        node.const = node.value
        return node

    def _name(self, node: ast.Name) -> None:
        entry = self.context.scopes.look_up(
            node.name, node.pos, "the name of a value, function or action", top=node.dotted
        )
        if isinstance(entry, Type):
            raise SourceError(node.pos, f"{node.name}: a type, expected a value")
        node.decl = entry
        match entry:
            case ast.ConstDecl():
                node.type, node.const = entry.type, entry.value.const
            case ast.VarDecl() | ast.Param() | ast.Instantiation():
                node.type = entry.type
            case ast.ActionDecl():
                node.type = types.ActionType(entry)
            case ast.TableDecl():
                node.type = TableType(entry)
            case ast.FunctionDecl() | ast.ExternFunction() | Overloads():
                node.type = types.FunctionType(node.name)
            case ast.TypeDeclaration():
                raise SourceError(node.pos, f"{node.name}: a type, expected a value")
            case _:
                raise SourceError(node.pos, f"{node.name}: cannot stand in an expression")

    def _record(self, node: ast.StructExpr) -> None:
        names = [name for name, _ in node.items]
        for name in names:
            if names.count(name) > 1:
                raise SourceError(node.pos, f"field {name}: given twice")
        node.items = [(name, self.check(item)) for name, item in node.items]
        node.type = RecordType(tuple((name, item.type) for name, item in node.items))
        if node.dots or any(isinstance(item.type, DotsType) for _, item in node.items):
            node.type = DotsType()

    # -- members, indexes, slices

    def _member(self, node: ast.Member) -> None:
        node.base = self.check(node.base)
        match node.base.type:
            case TypeNameType(named):
                self._type_member(node, named)
            case Fielded() as fielded:
                self._field(node, fielded)
            case StackType() as stack:
                self._stack_member(node, stack)
            case ExternType() as extern:
                if not any(one.name == node.name for one in extern.decl.methods):
                    known = [one.name for one in extern.decl.methods]
                    hint = did_you_mean(node.name, known)
                    expected = ", ".join(dict.fromkeys(known)) or "none"
                    raise SourceError(
                        node.name_pos, f"{extern} has no method {node.name}, expected one of {expected}{hint}"
                    )
                node.kind, node.type = MemberKind.METHOD, types.FunctionType(node.name)
            case TableType() | ControlType() | ParserType() if node.name == "apply":
                node.kind, node.type = MemberKind.METHOD, types.FunctionType("apply")
            case ApplyResultType(table):
                found = {
                    "hit": (MemberKind.HIT, types.BOOL),
                    "miss": (MemberKind.MISS, types.BOOL),
                    "action_run": (MemberKind.ACTION_RUN, ActionRunType(table)),
                }.get(node.name)
                if found is None:
                    message = f"result of apply has no member {node.name}, expected hit, miss or action_run"
                    raise SourceError(node.name_pos, message)
                node.kind, node.type = found
            case other if node.name in _SIZE_METHODS and types.width(other) is not None:
                node.kind, node.type = MemberKind.METHOD, types.FunctionType(node.name)
            case other:
                raise SourceError(node.name_pos, f"{other} has no member {node.name}")

    def _type_member(self, node: ast.Member, named: Type) -> None:
        if isinstance(named, ErrorType):
            index = self.context.error_members.get(node.name)
            if index is None:
                hint = did_you_mean(node.name, list(self.context.error_members))
                raise SourceError(node.name_pos, f"error has no member {node.name}{hint}")
            node.kind, node.type = MemberKind.ENUM, types.ERROR
            node.const = ast.EnumValue("error", node.name, index)
        elif isinstance(named, EnumType):
            value = named.members.get(node.name)
            if value is None:
                hint = did_you_mean(node.name, list(named.members))
                raise SourceError(node.name_pos, f"enum {named} has no member {node.name}{hint}")
            node.kind, node.type = MemberKind.ENUM, named
            serializable = named.underlying is not None
            node.const = value if serializable else ast.EnumValue(named.name, node.name, value)
        elif isinstance(named, ControlType | ParserType) and node.name == "apply":
            node.kind, node.type = MemberKind.METHOD, types.FunctionType("apply")
        elif node.name in _SIZE_METHODS and types.width(named) is not None:
            node.kind, node.type = MemberKind.METHOD, types.FunctionType(node.name)
        else:
            raise SourceError(node.name_pos, f"type {named} has no member {node.name}")

    def _field(self, node: ast.Member, fielded: Fielded) -> None:
        field = fielded.field(node.name)
        if field is not None:
            node.kind, node.type = MemberKind.FIELD, field.type
            if isinstance(node.base.const, tuple):
                node.const = node.base.const[[one.name for one in fielded.fields].index(node.name)]
            return
        is_method = isinstance(fielded, HeaderType) and node.name in _HEADER_METHODS
        if is_method or node.name in _SIZE_METHODS:
            node.kind, node.type = MemberKind.METHOD, types.FunctionType(node.name)
            return
        hint = did_you_mean(node.name, [one.name for one in fielded.fields])
        kind = "header" if isinstance(fielded, HeaderType) else "struct"
        raise SourceError(node.name_pos, f"{kind} {fielded} has no field {node.name}{hint}")

    def _stack_member(self, node: ast.Member, stack: StackType) -> None:
        if node.name in {"next", "last"}:
            if self.context.place is not Place.PARSER:
                raise SourceError(
                    node.name_pos, f"{node.name} in {self.context.place.value}, expected only in a parser"
                )
            node.kind = MemberKind.STACK_NEXT if node.name == "next" else MemberKind.STACK_LAST
            node.type = stack.element
        elif node.name == "lastIndex":
            if self.context.place is not Place.PARSER:
                raise SourceError(
                    node.name_pos, f"lastIndex in {self.context.place.value}, expected only in a parser"
                )
            node.kind, node.type = MemberKind.STACK_LAST_INDEX, BitType(32)
        elif node.name == "size":
            node.kind, node.type, node.const = MemberKind.STACK_SIZE, BitType(32), stack.size
        elif node.name in _STACK_METHODS:
            node.kind, node.type = MemberKind.METHOD, types.FunctionType(node.name)
        else:
            expected = "next, last, lastIndex, size, push_front, pop_front"
            raise SourceError(
                node.name_pos, f"stack {stack} has no member {node.name}, expected one of {expected}"
            )

    def _index(self, node: ast.Index) -> None:
        node.base, node.index = self.check(node.base), self.check(node.index)
        if not isinstance(node.base.type, StackType | TupleType):
            raise SourceError(node.pos, f"index of {node.base.type}: expected a header stack or tuple")
        if typed_width(node.index.type) is None and not isinstance(node.index.type, InfIntType):
            raise SourceError(
                node.index.pos, f"index: type is {node.index.type}, expected bit<N> or an integer"
            )
        shape = node.base.type
        size = shape.size if isinstance(shape, StackType) else len(shape.items)
        if isinstance(node.index.const, int):
            if not 0 <= node.index.const < size:
                raise SourceError(
                    node.index.pos, f"index {node.index.const}: expected 0 to {size - 1} for {shape}"
                )
            if isinstance(node.index.type, InfIntType):
                node.index = coerce(node.index, BitType(32), "index")
        elif isinstance(shape, TupleType):
            raise SourceError(
                node.index.pos, "index of a tuple: not known at compile time, expected a constant"
            )
        if isinstance(shape, StackType):
            node.type = shape.element
        else:
            assert isinstance(node.index.const, int)
            node.type = shape.items[node.index.const]
            if isinstance(node.base.const, tuple):
                node.const = node.base.const[node.index.const]

    def _slice(self, node: ast.Slice) -> None:
        node.base = self.check(node.base)
        bits = typed_width(node.base.type)
        infinite = isinstance(node.base.type, InfIntType) and node.base.const is not None
        if bits is None and not infinite:
            raise SourceError(node.pos, f"slice of {node.base.type}: expected bit<N> or int<N>")
        top = (bits or 1 << 16) - 1
        node.high, node.low = self.check(node.high), self.check(node.low)
        node.hi = self.constant_int(node.high, f"upper bit of a slice of {node.base.type}", 0, top)
        node.lo = self.constant_int(node.low, f"lower bit of a slice of {node.base.type}", 0, node.hi)
        node.type = BitType(node.hi - node.lo + 1)
        if isinstance(node.base.const, int):
            node.const = fold.fold_slice(node.base.const, node.base.type, node.hi, node.lo)

    # -- operators

    def _unary(self, node: ast.Unary) -> ast.Expression:
        operand = node.operand
        literal = isinstance(operand, ast.IntLiteral) and operand.width and operand.signed and node.op == "-"
        if literal and isinstance(operand, ast.IntLiteral) and operand.width:
            operand.value = -operand.value  # before it is reduced: -8s128 is -128
            folded = self.check(operand)
            folded.pos = node.pos
            return folded
        node.operand = operand = self.check(operand)
        kind = operand.type
        if node.op == "!":
            good = isinstance(kind, BoolType)
            expected = "bool"
        elif node.op == "~":
            good = typed_width(kind) is not None
            expected = "bit<N> or int<N>"
        else:
            good = typed_width(kind) is not None or isinstance(kind, InfIntType)
            expected = "bit<N>, int<N> or int"
        if not good or isinstance(kind, NewType):
            raise SourceError(node.pos, f"operand of {node.op}: type is {kind}, expected {expected}")
        node.type = types.underlying(kind)
        if node.op == "+":
            return operand
        if operand.const is not None:
            node.const = fold.fold_unary(node, operand.const)
        return node

    def _binary(self, node: ast.Binary) -> ast.Expression:
        node.left, node.right = self.check(node.left), self.check(node.right)
        op = node.op
        what = f"operator {op}"
        if op in {"&&", "||"}:
            for side in (node.left, node.right):
                if not isinstance(side.type, BoolType):
                    raise SourceError(side.pos, f"{what}: operand is {side.type}, expected bool")
            node.type = types.BOOL
        elif op in {"<<", ">>"}:
            self._shift(node, what)
        elif op == "++":
            self._concatenation(node, what)
        else:
            node.left, node.right = same_type(node.left, node.right, what, node.pos)
            if op in {"==", "!="}:
                self._comparable(node, what)
                node.type = types.BOOL
            else:
                self._arithmetic(node, what)
        left, right = node.left.const, node.right.const
        # An operand that decides && or || alone makes the whole constant only if the other has no effect.
        if left is not None and right is not None:
            node.const = fold.fold_binary(node, left, right)
        elif op in {"/", "%"}:
            if right == 0:
                fold.fold_binary(node, 0, right)
            if not self.from_constructor(node.left) or not self.from_constructor(node.right):
                what = "division" if op == "/" else "modulo"
                raise UnsupportedError(node.pos, f"{what} of values not known at compile time")
        return node

    def _shift(self, node: ast.Binary, what: str) -> None:
        kind = node.left.type
        if (typed_width(kind) is None and not isinstance(kind, InfIntType)) or isinstance(kind, NewType):
            raise SourceError(
                node.left.pos, f"{what}: left operand is {kind}, expected bit<N>, int<N> or int"
            )
        amount = node.right.type
        if isinstance(amount, EnumType) and amount.underlying is not None:
            amount = amount.underlying
        if not isinstance(amount, BitType | InfIntType):
            raise SourceError(
                node.right.pos, f"{what}: amount is {node.right.type}, expected bit<N> or an int"
            )
        if isinstance(node.right.const, int) and node.right.const < 0:
            raise SourceError(node.right.pos, f"shift by {node.right.const}: expected an amount of 0 or more")
        if isinstance(kind, InfIntType) and isinstance(amount, BitType) and node.right.const is None:
            raise SourceError(node.left.pos, f"{what}: left operand has no width, expected e.g. 32w1")
        node.type = types.underlying(kind)

    def _concatenation(self, node: ast.Binary, what: str) -> None:
        widths = []
        for side in (node.left, node.right):
            bits = typed_width(side.type)
            if bits is None or isinstance(side.type, NewType):
                raise SourceError(side.pos, f"{what}: operand is {side.type}, expected bit<N> or int<N>")
            widths.append(bits)
        signed = isinstance(types.underlying(node.left.type), IntType)
        node.type = IntType(sum(widths)) if signed else BitType(sum(widths))

    def _comparable(self, node: ast.Binary, what: str) -> None:
        kind = node.left.type
        plain = (BitType, IntType, BoolType, InfIntType, ErrorType, EnumType, NewType, StringType)
        if not isinstance(kind, (*plain, HeaderType, StructType, StackType, TupleType)):
            raise SourceError(node.pos, f"{what}: operands are {kind}, which cannot be compared")

    def _arithmetic(self, node: ast.Binary, what: str) -> None:
        kind = node.left.type
        op = node.op
        if isinstance(kind, NewType) or (typed_width(kind) is None and not isinstance(kind, InfIntType)):
            advice = f" (cast to {types.underlying(kind)} first)" if isinstance(kind, NewType) else ""
            raise SourceError(
                node.pos, f"{what}: operands are {kind}, expected bit<N>, int<N> or int{advice}"
            )
        if isinstance(kind, EnumType):
            assert kind.underlying is not None
            node.left, node.right = (coerce(one, kind.underlying, what) for one in (node.left, node.right))
            kind = kind.underlying
        if op in {"|+|", "|-|"} and isinstance(kind, InfIntType):
            raise SourceError(node.pos, f"{what}: operands are int, expected bit<N> or int<N>")
        if op in {"/", "%"} and isinstance(kind, IntType):
            raise SourceError(
                node.pos, f"{what}: operands are {kind}, expected bit<N> or int (it is not signed)"
            )
        node.type = types.BOOL if op in {"<", ">", "<=", ">="} else kind

    def _ternary(self, node: ast.Ternary) -> None:
        node.condition = self.value(node.condition, types.BOOL, "condition of ?:")
        node.yes, node.no = same_type(self.check(node.yes), self.check(node.no), "operator ?:", node.pos)
        node.type = node.yes.type
        if node.condition.const is not None:
            node.const = node.yes.const if node.condition.const else node.no.const

    def _cast(self, node: ast.Cast) -> ast.Expression:
        assert node.type_ref is not None
        target = self.type_refs.resolve(node.type_ref)
        operand = self.check(node.operand)
        if isinstance(operand, ast.ListExpr | ast.StructExpr) and isinstance(target, Fielded | TupleType):
            return coerce(operand, target, f"({target})")
        if not castable(operand.type, target):
            raise SourceError(node.pos, f"cast of {operand.type} to {target}: there is no such cast")
        if operand.type == target:
            return operand
        node.operand, node.type = operand, target
        if operand.const is not None:
            if isinstance(types.underlying(target), BoolType) and operand.const not in (0, 1):
                raise SourceError(node.pos, f"cast of {operand.const} to bool: expected 0 or 1")
            node.const = fold.fold_cast(operand.const, operand.type, target)
        return node

    def from_constructor(self, value: ast.Expression) -> bool:
        """Whether the value is known when an instance is: all names are constants or constructor parameters."""
        nodes = ast.walk(value)
        return not any(isinstance(node, ast.Call) for node in nodes) and all(
            node.const is not None
            or isinstance(node.decl, ast.ConstDecl)
            or node.decl in self.context.constructor_params
            for node in nodes
            if isinstance(node, ast.Name)
        )

    # -- l-values

    def require_writable(self, node: ast.Expression, what: str) -> None:
        """An error unless the checked expression can be written."""
        match node:
            case ast.Name(decl=ast.VarDecl()):
                return
            case ast.Name(decl=ast.Param(direction="out" | "inout")):
                return
            case ast.Name(decl=ast.Param() as param):
                kind = f"parameter {param.name} is {param.direction or 'without direction'}"
                raise SourceError(node.pos, f"{what}: {kind}, expected something that can be written")
            case ast.Member(kind=MemberKind.FIELD) | ast.Slice():
                self.require_writable(node.base, what)
            case ast.Index() if isinstance(node.base.type, StackType):
                self.require_writable(node.base, what)
            case ast.Member(kind=MemberKind.STACK_NEXT | MemberKind.STACK_LAST):
                self.require_writable(node.base, what)
            case ast.Name():
                raise SourceError(node.pos, f"{what}: {node.name} cannot be written, expected a variable")
            case _:
                raise SourceError(node.pos, f"{what}: expected something that can be written")


class Overloads(ast.Declaration):
    """Extern functions of one name; the arguments tell which is meant."""

    __slots__ = ("functions",)

    def __init__(self, first: ast.ExternFunction) -> None:
        super().__init__(first.pos, first.name)
        self.functions = [first]
