"""Types as written into types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_p4 import ast, types
from epic_p4.check.context import Context
from epic_p4.check.convert import substitute, substitute_params
from epic_p4.errors import SourceError, UnsupportedError, counted
from epic_p4.types import (
    BitType,
    BoolType,
    ControlType,
    EnumType,
    ExternType,
    Fielded,
    HeaderType,
    IntType,
    NewType,
    PackageType,
    ParserType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
)

if TYPE_CHECKING:
    from epic_p4.check.expressions import Expressions

MAX_WIDTH = 1 << 16
"""Widest bit<N>; more than any target has, and a guard against slips such as bit<0xFFFFFFFF>."""

_BASE = {
    "bool": types.BOOL,
    "error": types.ERROR,
    "string": types.STRING,
    "void": types.VOID,
    "match_kind": types.MATCH_KIND,
    "int": types.INT,
    "_": types.DONT_CARE,
}


class TypeRefs:
    """Resolves TypeRef nodes and notes the result in them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.expressions: Expressions  # set by the checker: a width is an expression

    def resolve(self, ref: ast.TypeRef, *, generic_ok: bool = False) -> Type:
        """The type; a generic one without its arguments is an error unless `generic_ok`."""
        match ref:
            case ast.BaseTypeRef():
                found: Type = _BASE[ref.name]
            case ast.BitsTypeRef():
                found = self._bits(ref)
            case ast.NamedTypeRef():
                found = self.named(ref)
                if not generic_ok and type_parameters(found):
                    names = ", ".join(type_parameters(found))
                    raise SourceError(ref.pos, f"{ref.name}: without type arguments, expected <{names}>")
            case ast.SpecializedTypeRef():
                found = self._specialized(ref)
            case ast.StackTypeRef():
                element = self.resolve(ref.element)
                if not isinstance(element, HeaderType):
                    raise SourceError(ref.pos, f"stack of {element}: expected a header type")
                found = StackType(element, self._size(ref.size, f"size of the stack of {element}", 1))
            case ast.TupleTypeRef():
                found = TupleType(tuple(self.resolve(item) for item in ref.items))
            case _:
                raise AssertionError(ref)
        ref.type = found
        return found

    def _size(self, expression: ast.Expression, what: str, least: int) -> int:
        return self.expressions.constant_int(expression, what, least, MAX_WIDTH)

    def _bits(self, ref: ast.BitsTypeRef) -> Type:
        if ref.name == "varbit":
            raise UnsupportedError(ref.pos, "varbit")
        ref.width = self.expressions.check(ref.width)
        if ref.width.const == 0:
            raise UnsupportedError(ref.pos, f"{ref.name}<0>")
        bits = self._size(ref.width, f"width of {ref.name}<>", 1)
        return BitType(bits) if ref.name == "bit" else IntType(bits)

    def named(self, ref: ast.NamedTypeRef) -> Type:
        """The type of this name."""
        entry = self.context.scopes.look_up(ref.name, ref.pos, "a type", top=ref.dotted)
        if isinstance(entry, ast.TypeDeclaration):
            return entry.type
        if isinstance(entry, Type):
            return entry
        raise SourceError(ref.pos, f"{ref.name}: not a type")

    def _specialized(self, ref: ast.SpecializedTypeRef) -> Type:
        base = self.named(ref.base)
        ref.base.type = base
        args = tuple(self.resolve(arg) for arg in ref.args)
        wanted = type_parameters(base)
        if len(args) != len(wanted):
            expected = f"<{', '.join(wanted)}>" if wanted else "no type arguments"
            raise SourceError(
                ref.pos, f"{ref.base.name}: {counted(len(args), 'type argument')}, expected {expected}"
            )
        return specialize(base, args)

    def element(self, type_: Type, what: str, ref: ast.TypeRef, holder: str) -> None:
        """An error unless `type_` can be a field of a header (`holder` "header") or struct."""
        shape = types.underlying(type_)
        if holder == "header":
            fits = isinstance(shape, BitType | IntType | BoolType)
            if isinstance(type_, Fielded) and not isinstance(type_, HeaderType):
                raise UnsupportedError(ref.pos, "struct inside a header")
            expected = "bit<N>, int<N>, bool or a serializable enum"
        else:
            fits = isinstance(
                shape,
                BitType | IntType | BoolType | Fielded | StackType | EnumType | TupleType | types.ErrorType,
            )
            expected = "a type with values at run time"
        if not fits:
            raise SourceError(ref.pos, f"{what}: type is {type_}, expected {expected}")

    def underlying_of_new(self, type_: Type, ref: ast.TypeRef) -> None:
        """An error unless `type type_ Name;` is allowed."""
        if not isinstance(type_, BitType | IntType | BoolType | NewType):
            raise SourceError(ref.pos, f"type of {type_}: expected bit<N>, int<N>, bool or another such type")


def type_parameters(type_: Type) -> list[str]:
    """The names of the type parameters that still lack arguments."""
    match type_:
        case ExternType() | ControlType() | ParserType() | PackageType():
            declared = getattr(type_.decl, "type_params", [])
            if declared and all(isinstance(arg, TypeVariable) for arg in type_.args):
                generic = type_.decl.type
                assert isinstance(generic, ExternType | ControlType | ParserType | PackageType)
                if generic.args == type_.args:
                    return list(declared)
    return []


def specialize(base: Type, args: tuple[Type, ...]) -> Type:
    """A generic type with its type arguments."""
    assert isinstance(base, ExternType | ControlType | ParserType | PackageType)
    bindings = {
        variable: arg
        for variable, arg in zip(base.args, args, strict=True)
        if isinstance(variable, TypeVariable)
    }
    if isinstance(base, ControlType | ParserType):
        return type(base)(base.name, substitute_params(base.params, bindings), base.decl, args)  # type: ignore[arg-type]
    return substitute(base, bindings)
