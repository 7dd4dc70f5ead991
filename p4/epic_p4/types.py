"""The types of P4-16, as the checker gives them to expressions.

All are immutable and compare by value; the nominal ones (header, struct, enum, `type`, extern) compare by
name, which is unique because they can only be declared at the top level. A `typedef` has no type of its
own: it is replaced by what it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_p4 import ast


class Type:
    """Base of all types; `str()` gives P4 syntax."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BitType(Type):
    """`bit<width>`: unsigned, arithmetic modulo 2**width."""

    width: int

    def __str__(self) -> str:
        return f"bit<{self.width}>"


@dataclass(frozen=True, slots=True)
class IntType(Type):
    """`int<width>`: two's complement; values are kept as signed Python ints."""

    width: int

    def __str__(self) -> str:
        return f"int<{self.width}>"


@dataclass(frozen=True, slots=True)
class VarbitType(Type):
    """`varbit<width>`: up to `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class InfIntType(Type):
    """`int`: the type of literals without a width. After the check only compile-time values have it."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class BoolType(Type):
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class StringType(Type):
    """`string`: compile-time only."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class ErrorType(Type):
    """`error`: its members are those of `Program.errors`, numbered in that order from 0."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class MatchKindType(Type):
    """`match_kind`."""

    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True, slots=True)
class VoidType(Type):
    """`void`: what a function without result returns."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class DontCareType(Type):
    """The type of `_` and `default`, and of a type argument given as `_`."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class StateType(Type):
    """The type of a parser state's name."""

    def __str__(self) -> str:
        return "state"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header or struct."""

    name: str
    type: Type
    annotations: tuple[ast.Annotation, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fielded(Type):
    """What headers and structs have in common: `fields` in the order of declaration."""

    name: str
    fields: tuple[Field, ...] = field(compare=False, repr=False)
    decl: ast.HeaderDecl | ast.StructDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> Field | None:
        """The field of this name, or None."""
        return next((one for one in self.fields if one.name == name), None)


@dataclass(frozen=True, slots=True)
class HeaderType(Fielded):
    """A header: fields and a validity bit."""


@dataclass(frozen=True, slots=True)
class StructType(Fielded):
    """A struct."""


@dataclass(frozen=True, slots=True)
class StackType(Type):
    """A header stack, `element[size]`."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class EnumType(Type):
    """An enumeration; `underlying` and the values are None for one without representation.

    `members` maps a name to its value: for a serializable enum the value given in the source, else its
    index in the order of declaration.
    """

    name: str
    underlying: BitType | IntType | None = field(compare=False)
    members: Mapping[str, int] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class NewType(Type):
    """`type underlying name;`: a type of its own that behaves as `underlying` after an explicit cast."""

    name: str
    underlying: Type = field(compare=False)
    annotations: tuple[ast.Annotation, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """`tuple<…>`, and the type of a list expression `{a, b}` whose use has not given it a struct type."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True, slots=True)
class DotsType(Type):
    """The type of `{..., }` before its use has given it a type."""

    def __str__(self) -> str:
        return "{...} of unknown type"


@dataclass(frozen=True, slots=True)
class RecordType(Type):
    """The type of `{a = 1, b = 2}` before its use has given it a struct type."""

    items: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}: {type_}" for name, type_ in self.items) + "}"


@dataclass(frozen=True, slots=True)
class SetType(Type):
    """A set of values of `element`: masks, ranges, `_` in keys of select and table entries."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True, slots=True)
class TypeVariable(Type):
    """A type parameter. None is left in the body of controls, parsers, actions after the check.

    `owner` tells two parameters of the same name apart.
    """

    name: str
    owner: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ExternType(Type):
    """An extern object's type, with its type arguments (`Register<bit<32>, bit<8>>`)."""

    name: str
    args: tuple[Type, ...]
    decl: ast.ExternDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its type resolved; `direction` is "in", "out", "inout" or "" (none)."""

    name: str
    direction: str
    type: Type
    optional: bool = False

    def __str__(self) -> str:
        return " ".join(part for part in (self.direction, str(self.type), self.name) if part)


@dataclass(frozen=True, slots=True)
class ControlType(Type):
    """A control, or a control type declaration; `args` are the type arguments of the latter."""

    name: str
    params: tuple[Parameter, ...]
    decl: ast.ControlDecl | ast.ControlTypeDecl = field(compare=False, repr=False)
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"control {self.name}"


@dataclass(frozen=True, slots=True)
class ParserType(Type):
    """A parser, or a parser type declaration; `args` are the type arguments of the latter."""

    name: str
    params: tuple[Parameter, ...]
    decl: ast.ParserDecl | ast.ParserTypeDecl = field(compare=False, repr=False)
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"parser {self.name}"


@dataclass(frozen=True, slots=True)
class PackageType(Type):
    """A package with its type arguments."""

    name: str
    args: tuple[Type, ...]
    decl: ast.PackageDecl = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"package {self.name}"


@dataclass(frozen=True, slots=True)
class ActionType(Type):
    """The type of an action's name."""

    decl: ast.ActionDecl

    def __str__(self) -> str:
        return f"action {self.decl.name}"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """The type of a function's or method's name."""

    name: str

    def __str__(self) -> str:
        return f"function {self.name}"


@dataclass(frozen=True, slots=True)
class TableType(Type):
    """The type of a table's name."""

    decl: ast.TableDecl

    def __str__(self) -> str:
        return f"table {self.decl.name}"


@dataclass(frozen=True, slots=True)
class ApplyResultType(Type):
    """The type of `table.apply()`: members hit, miss, action_run."""

    decl: ast.TableDecl

    def __str__(self) -> str:
        return f"apply_result({self.decl.name})"


@dataclass(frozen=True, slots=True)
class ActionRunType(Type):
    """The type of `table.apply().action_run`, for switch."""

    decl: ast.TableDecl

    def __str__(self) -> str:
        return f"action_list({self.decl.name})"


@dataclass(frozen=True, slots=True)
class TypeNameType(Type):
    """The type of an expression that is a type's name (`error` in `error.NoError`, `E` in `E.a`)."""

    named: Type

    def __str__(self) -> str:
        return f"type {self.named}"


BOOL = BoolType()
INT = InfIntType()
STRING = StringType()
ERROR = ErrorType()
MATCH_KIND = MatchKindType()
VOID = VoidType()
DONT_CARE = DontCareType()
STATE = StateType()


def underlying(type_: Type) -> Type:
    """What values of `type_` look like: a `type` and a serializable enum give what is below them."""
    while True:
        if isinstance(type_, NewType):
            type_ = type_.underlying
        elif isinstance(type_, EnumType) and type_.underlying is not None:
            return type_.underlying
        else:
            return type_


def width(type_: Type) -> int | None:
    """Size in bits of a value of a type of fixed size (headers without validity), or None."""
    type_ = underlying(type_)
    match type_:
        case BitType(bits) | IntType(bits):
            return bits
        case BoolType():
            return 1
        case StackType(element, size):
            inner = width(element)
            return None if inner is None else inner * size
        case Fielded():
            parts = [width(one.type) for one in type_.fields]
        case TupleType(items):
            parts = [width(one) for one in items]
        case _:
            return None
    return None if None in parts else sum(part for part in parts if part is not None)
