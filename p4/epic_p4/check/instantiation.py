"""Constructor calls and instantiations: type arguments, constructor arguments, abstract methods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from epic_p4 import ast, types
from epic_p4.check.calls import Calls, choose, parameters
from epic_p4.check.context import Context
from epic_p4.check.convert import Bindings, substitute, substitute_params
from epic_p4.check.typerefs import TypeRefs
from epic_p4.errors import Pos, SourceError, counted
from epic_p4.types import (
    ControlType,
    DontCareType,
    ExternType,
    PackageType,
    Parameter,
    ParserType,
    Type,
    TypeVariable,
)

if TYPE_CHECKING:
    from epic_p4.check.statements import Statements

Args = list["ast.Expression | None"]
Names = list["str | None"]


class Instantiations:
    """Checks `Type(args)` with and without a name."""

    def __init__(self, context: Context, type_refs: TypeRefs, calls: Calls) -> None:
        self.context = context
        self.type_refs = type_refs
        self.calls = calls
        self.statements: Statements

    def nameless(self, node: ast.Construct) -> ast.Expression:
        """A constructor call in an expression."""
        node.type, node.args, _, node.decl = self._construct(
            node.pos, node.type_ref, node.args, node.arg_names
        )
        if isinstance(node.type, ExternType):
            self._no_abstract(node.type, node.pos, {})
        return node

    def named(self, node: ast.Instantiation) -> None:
        """A declared instance; its abstract methods are checked too."""
        found = self._construct(node.pos, node.type_ref, node.args, node.arg_names)
        node.type, node.args, node.params, _ = found
        if isinstance(node.type, ExternType):
            self._no_abstract(node.type, node.pos, node.methods)
            self._implement(node, node.type)
        elif node.methods:
            raise SourceError(node.pos, f"{node.name}: methods in an instance of {node.type}, expected none")

    def _construct(
        self, pos: Pos, ref: ast.TypeRef, args: Args, names: Names
    ) -> tuple[Type, Args, tuple[Parameter, ...], ast.Node | None]:
        base = self.type_refs.resolve(ref, generic_ok=True)
        match base:
            case ExternType():
                return self._extern(pos, ref, base, args, names)
            case ControlType() | ParserType():
                decl = base.decl
                if isinstance(decl, ast.ControlTypeDecl | ast.ParserTypeDecl):
                    raise SourceError(pos, f"{base.name}: only declared as a type, expected one with a body")
                wanted = decl.constructor_params
                checked, params = self._bind(base.name, pos, parameters(wanted), wanted, args, names, {})
                return base, checked, params, decl
            case PackageType():
                bindings, generic = self._bindings(base)
                wanted = base.decl.params
                checked, params = self._bind(
                    base.name, pos, parameters(wanted), wanted, args, names, bindings
                )
                ref.type = _bound(generic, bindings)
                return ref.type, checked, params, base.decl
            case _:
                raise SourceError(
                    pos, f"{base}: has no constructor, expected an extern, control, parser or package"
                )

    def _bindings(self, base: ExternType | PackageType) -> tuple[Bindings, ExternType | PackageType]:
        """The type arguments that are given, and the generic type."""
        generic = base.decl.type
        assert isinstance(generic, ExternType | PackageType)
        bindings: Bindings = {}
        for variable, arg in zip(generic.args, base.args, strict=True):
            if isinstance(variable, TypeVariable) and arg != variable:
                bindings[variable] = arg
        return bindings, generic

    def _extern(
        self, pos: Pos, ref: ast.TypeRef, base: ExternType, args: Args, names: Names
    ) -> tuple[Type, Args, tuple[Parameter, ...], ast.Node | None]:
        constructors = base.decl.constructors
        if not constructors:
            raise SourceError(pos, f"extern {base.name}: has no constructor")
        place = ast.Node(pos)
        chosen = choose(place, [], args, names, constructors)
        first: SourceError | None = None
        for constructor in chosen:
            bindings, generic = self._bindings(base)
            wanted = constructor.params
            try:
                tried = copy.deepcopy(args) if len(chosen) > 1 else args
                checked, params = self._bind(
                    base.name, pos, parameters(wanted), wanted, tried, names, bindings
                )
            except SourceError as error:
                first = first or error
                continue
            for variable in generic.args:
                if isinstance(variable, TypeVariable) and variable not in bindings:
                    wanted_names = ", ".join(base.decl.type_params)
                    raise SourceError(
                        pos,
                        f"{base.name}: type parameter {variable} cannot be inferred, expected "
                        f"{base.name}<{wanted_names}>(…)",
                    )
            ref.type = _bound(generic, bindings)
            return ref.type, checked, params, constructor
        assert first is not None
        raise first

    def _bind(
        self,
        what: str,
        pos: Pos,
        params: tuple[Parameter, ...],
        decls: list[ast.Param],
        args: Args,
        names: Names,
        bindings: Bindings,
    ) -> tuple[Args, tuple[Parameter, ...]]:
        return self.calls.bind(what, pos, params, decls, args, names, bindings, constant=True)

    # -- abstract methods

    def _no_abstract(self, extern: ExternType, pos: Pos, given: dict[str, ast.FunctionDecl]) -> None:
        for method in extern.decl.methods:
            if method.abstract and method.name not in given:
                raise SourceError(pos, f"{extern}: abstract method {method.name} is not implemented")

    def _implement(self, node: ast.Instantiation, extern: ExternType) -> None:
        generic = extern.decl.type
        assert isinstance(generic, ExternType)
        bindings = {
            variable: arg
            for variable, arg in zip(generic.args, extern.args, strict=True)
            if isinstance(variable, TypeVariable)
        }
        abstract = {one.name: one for one in extern.decl.methods if one.abstract}
        for name, method in node.methods.items():
            wanted = abstract.get(name)
            if wanted is None:
                expected = ", ".join(abstract) or "none"
                raise SourceError(method.pos, f"{extern}: no abstract method {name}, expected {expected}")
            params = substitute_params(parameters(wanted.params), bindings)
            result = substitute(wanted.result, bindings)
            self.statements.method(method, _signature(method, params, result, extern))


def _signature(
    method: ast.FunctionDecl, params: tuple[Parameter, ...], result: Type, extern: ExternType
) -> Callable[[], None]:
    """A check of a method's resolved signature against the abstract one."""

    def check() -> None:
        expected = f"({', '.join(map(str, params))})"
        needed = [one for one in params if not one.optional]
        if not len(needed) <= len(method.params) <= len(params):
            raise SourceError(
                method.pos,
                f"{extern}.{method.name}: {counted(len(method.params), 'parameter')}, expected {expected}",
            )
        for have, want in zip(method.params, params, strict=False):
            if have.direction != want.direction or not _fits(want.type, have.type):
                raise SourceError(
                    have.pos,
                    f"{extern}.{method.name}: parameter is {have.direction} {have.type} {have.name}, "
                    f"expected {want.direction} {want.type}",
                )
        if method.result != result:
            raise SourceError(
                method.pos, f"{extern}.{method.name}: result is {method.result}, expected {result}"
            )

    return check


def _fits(wanted: Type, have: Type) -> bool:
    return wanted == have or isinstance(wanted, DontCareType)


def _bound(generic: ExternType | PackageType, bindings: Bindings) -> Type:
    """The type with its arguments; a parameter that only omitted optional arguments use is `_`."""
    args = tuple(
        substitute(bindings.get(one, types.DONT_CARE), bindings) if isinstance(one, TypeVariable) else one
        for one in generic.args
    )
    if isinstance(generic, ExternType):
        return ExternType(generic.name, args, generic.decl)
    return PackageType(generic.name, args, generic.decl)
