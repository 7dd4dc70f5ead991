"""Calls: which function, its type arguments, its arguments."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from epic_p4 import ast, types
from epic_p4.ast import CallKind, MemberKind
from epic_p4.check.context import Context, Place
from epic_p4.check.convert import Bindings, coerce, mismatch, substitute, unify
from epic_p4.check.expressions import Expressions, Overloads
from epic_p4.check.typerefs import TypeRefs
from epic_p4.errors import Pos, SourceError, UnsupportedError, counted
from epic_p4.types import (
    BitType,
    ControlType,
    ExternType,
    Fielded,
    InfIntType,
    PackageType,
    Parameter,
    ParserType,
    StackType,
    TableType,
    TupleType,
    TypeNameType,
    TypeVariable,
)

_NOT_ARGUMENTS = (
    types.VoidType,
    types.TableType,
    types.ActionType,
    types.FunctionType,
    types.TypeNameType,
    ControlType,
    ParserType,
    PackageType,
)


class Calls:
    """Checks calls; `bind` is also how constructors get their arguments."""

    def __init__(self, context: Context, type_refs: TypeRefs, expressions: Expressions) -> None:
        self.context = context
        self.type_refs = type_refs
        self.expressions = expressions

    def check(self, node: ast.Call) -> ast.Expression:
        """A call; returns the node itself."""
        node.callee = self.expressions.check(node.callee)
        callee = node.callee
        if isinstance(callee, ast.Name):
            self._named(node, callee)
        elif isinstance(callee, ast.Member) and callee.kind is MemberKind.METHOD:
            self._method(node, callee)
        else:
            raise SourceError(
                node.pos, f"call of {callee.type}: expected a function, action, method or apply"
            )
        return node

    def _named(self, node: ast.Call, callee: ast.Name) -> None:
        match callee.decl:
            case ast.ActionDecl() as action:
                self._not_in(
                    {Place.PARSER, Place.FUNCTION, Place.METHOD}, node.pos, f"call of action {action.name}"
                )
                node.kind, node.decl, node.type = CallKind.ACTION, action, types.VOID
                self._apply_params(node, parameters(action.params), action.params)
            case ast.FunctionDecl() as function:
                node.kind, node.decl, node.type = CallKind.FUNCTION, function, function.result
                self._apply_params(node, parameters(function.params), function.params)
            case ast.ExternFunction() as function:
                node.kind = CallKind.EXTERN_FUNCTION
                self._extern(node, [function], {})
            case Overloads() as overloads:
                node.kind = CallKind.EXTERN_FUNCTION
                self._extern(node, overloads.functions, {})
            case _:
                raise SourceError(node.pos, f"call of {callee.name}: expected a function or action")

    def _method(self, node: ast.Call, callee: ast.Member) -> None:
        base = callee.base
        match base.type:
            case _ if callee.name.startswith(("minSize", "maxSize")):
                self._size(node, callee)
            case TypeNameType(named=ControlType() | ParserType() as named):
                self._direct(node, callee, named)
            case ExternType() as extern:
                node.kind = CallKind.METHOD
                methods = [one for one in extern.decl.methods if one.name == callee.name]
                generic = extern.decl.type
                assert isinstance(generic, ExternType)
                bindings = {
                    variable: arg
                    for variable, arg in zip(generic.args, extern.args, strict=True)
                    if isinstance(variable, TypeVariable)
                }
                self._extern(node, methods, bindings)
            case TableType(decl=table):
                if self.context.place is Place.TABLE:
                    raise UnsupportedError(node.pos, "apply of a table in a table's key")
                if self.context.place is not Place.CONTROL:
                    raise SourceError(
                        node.pos,
                        f"apply of table {table.name} in {self.context.place.value}, "
                        "expected only in a control's apply",
                    )
                self._no_args(node, f"apply of table {table.name}")
                node.kind, node.decl, node.type = CallKind.TABLE_APPLY, table, types.ApplyResultType(table)
            case ControlType() as control:
                self._only_in(Place.CONTROL, node.pos, f"apply of control {control.name}")
                node.kind, node.decl, node.type = CallKind.CONTROL_APPLY, control.decl, types.VOID
                self._apply_params(node, control.params, control.decl.params)
            case ParserType() as parser:
                self._only_in(Place.PARSER, node.pos, f"apply of parser {parser.name}")
                node.kind, node.decl, node.type = CallKind.PARSER_APPLY, parser.decl, types.VOID
                self._apply_params(node, parser.params, parser.decl.params)
            case StackType():
                self._stack(node, callee)
            case _:
                self._header(node, callee)

    def _only_in(self, place: Place, pos: Pos, what: str) -> None:
        if self.context.place is not place:
            raise SourceError(pos, f"{what} in {self.context.place.value}, expected only in {place.value}")

    def _not_in(self, places: set[Place], pos: Pos, what: str) -> None:
        if self.context.place in places:
            raise SourceError(pos, f"{what}: not allowed in {self.context.place.value}")

    def _no_args(self, node: ast.Call, what: str) -> None:
        if node.args or node.type_args:
            raise SourceError(node.pos, f"{what}: {counted(len(node.args), 'argument')}, expected none")

    # -- built-in methods

    def _header(self, node: ast.Call, callee: ast.Member) -> None:
        self._no_args(node, callee.name)
        node.kind = CallKind.HEADER
        node.type = types.BOOL if callee.name == "isValid" else types.VOID
        if callee.name != "isValid":
            self.expressions.require_writable(callee.base, callee.name)

    def _stack(self, node: ast.Call, callee: ast.Member) -> None:
        if len(node.args) != 1 or node.args[0] is None:
            raise SourceError(
                node.pos, f"{callee.name}: {counted(len(node.args), 'argument')}, expected 1, the count"
            )
        self.expressions.require_writable(callee.base, callee.name)
        count = self.expressions.check(node.args[0])
        self.expressions.constant_int(count, f"count of {callee.name}", 0, 1 << 16)
        node.args = [count]
        node.kind, node.type = CallKind.STACK, types.VOID

    def _size(self, node: ast.Call, callee: ast.Member) -> None:
        self._no_args(node, callee.name)
        shape = callee.base.type
        bits = types.width(shape.named if isinstance(shape, TypeNameType) else shape)
        assert bits is not None
        node.kind, node.type = CallKind.SIZE, types.INT
        node.const = (bits + 7) // 8 if callee.name.endswith("Bytes") else bits

    def _direct(self, node: ast.Call, callee: ast.Member, named: ControlType | ParserType) -> None:
        """`C.apply(…)`: an instance of its own for this call, named as the type."""
        assert isinstance(callee.base, ast.TypeName)
        if getattr(named.decl, "constructor_params", None):
            raise SourceError(
                node.pos, f"{named.name}.apply: {named} has constructor parameters, expected none"
            )
        if isinstance(named.decl, ast.ControlTypeDecl | ast.ParserTypeDecl):
            raise SourceError(
                node.pos, f"{named.name}.apply: only declared as a type, expected one with a body"
            )
        made = ast.Instantiation(node.pos, named.name, callee.base.type_ref, [], [])
        made.type = named
        self.context.synthesized.append(made)
        name = ast.Name(callee.base.pos, named.name)
        name.decl, name.type = made, named
        callee.base = name
        self._method(node, callee)

    # -- extern functions and methods

    def _extern(self, node: ast.Call, candidates: list[ast.ExternFunction], outer: Bindings) -> None:
        chosen = choose(node, node.type_args, node.args, node.arg_names, candidates)
        if len(chosen) > 1:
            self._try_each(node, chosen, outer)
            return
        function = chosen[0]
        node.decl = function
        bindings = dict(outer)
        variables = function.variables
        for name, ref in zip(function.type_params, node.type_args, strict=False):
            given = self.type_refs.resolve(ref)
            if not isinstance(given, types.DontCareType):
                bindings[variables[name]] = given
        node.args, node.params = self.bind(
            f"{function.name}",
            node.pos,
            parameters(function.params),
            function.params,
            node.args,
            node.arg_names,
            bindings,
            constant=True,
        )
        for name in function.type_params:
            if variables[name] not in bindings:
                raise SourceError(
                    node.pos,
                    f"{function.name}: type parameter {name} cannot be inferred, expected e.g. "
                    f"{function.name}<bit<8>>(…)",
                )
            if isinstance(bindings[variables[name]], _NOT_ARGUMENTS):
                raise SourceError(
                    node.pos,
                    f"{function.name}: type parameter {name} would be {bindings[variables[name]]}, "
                    "expected a type with values at run time",
                )
            if isinstance(bindings[variables[name]], InfIntType):
                raise SourceError(
                    node.pos,
                    f"{function.name}: type parameter {name} would be int, expected a number with width",
                )
        node.bound = {variable.name: type_ for variable, type_ in bindings.items()}
        node.type = substitute(function.result, bindings)
        self._core(node, function)

    def _core(self, node: ast.Call, function: ast.ExternFunction) -> None:
        """What the core library's functions ask for beyond their declaration."""
        if function.extern is None and function.name == "static_assert":
            self._static_assert(node)
        elif function.extern is None and function.name == "verify":
            self._only_in(Place.PARSER, node.pos, "verify")
        elif (
            function.extern is not None and function.extern.name == "packet_in" and function.name == "extract"
        ):
            if len(node.args) > 1:
                raise UnsupportedError(node.pos, "extract with two arguments")
            header = node.args[0]
            if header is not None and not isinstance(header.type, types.HeaderType):
                raise SourceError(header.pos, f"extract: argument is {header.type}, expected a header")

    def _static_assert(self, node: ast.Call) -> None:
        condition = node.args[0]
        if condition is not None and condition.const is False:
            message = node.args[1].const if len(node.args) > 1 and node.args[1] is not None else "it is false"
            raise SourceError(node.pos, f"static_assert: {message}")
        node.const = True

    def _try_each(self, node: ast.Call, chosen: list[ast.ExternFunction], outer: Bindings) -> None:
        """Overloads that the number of arguments does not tell apart: the first that fits is meant."""
        first: SourceError | None = None
        for function in chosen:
            args = copy.deepcopy(node.args)
            saved, node.args = node.args, args
            try:
                self._extern(node, [function], outer)
            except SourceError as error:
                node.args = saved
                first = first or error
            else:
                return
        assert first is not None
        raise first

    # -- arguments

    def _apply_params(
        self, node: ast.Call, params: tuple[Parameter, ...], decls: Sequence[ast.Param]
    ) -> None:
        what = (
            node.callee.name if isinstance(node.callee, ast.Name) else f"apply of {_object_name(node.callee)}"
        )
        if node.type_args:
            raise SourceError(
                node.pos, f"{what}: {counted(len(node.type_args), 'type argument')}, expected none"
            )
        # A function's parameter without direction is known at compile time, an action's is not when code calls it.
        constant = node.kind is CallKind.FUNCTION
        node.args, node.params = self.bind(
            what, node.pos, params, decls, node.args, node.arg_names, {}, constant=constant
        )

    def bind(
        self,
        what: str,
        pos: Pos,
        params: tuple[Parameter, ...],
        decls: Sequence[ast.Param],
        args: list[ast.Expression | None],
        names: list[str | None],
        bindings: Bindings,
        *,
        constant: bool = False,
    ) -> tuple[list[ast.Expression | None], tuple[Parameter, ...]]:
        """Arguments in the order of the parameters, checked and converted; `bindings` gets what is inferred.

        `constant`: a parameter without direction must be known at compile time.
        """
        placed = place(what, pos, params, args, names)
        for index, value in enumerate(placed):
            if value is None and index < len(decls):
                placed[index] = copy.deepcopy(decls[index].default) if decls[index].default else None
        checked: list[ast.Expression | None] = []
        for param, value in zip(params, placed, strict=True):
            if value is None:
                if not param.optional:
                    raise SourceError(pos, f"{what}: no argument for {param}")
                checked.append(None)
                continue
            label = f"{what}: argument {param.name}"
            if param.direction in {"out", "inout"}:
                value = self.expressions.l_value(value, label)
            else:
                value = self.expressions.check(value)
            if not unify(param.type, value.type, bindings):
                self._not_unified(param, value, label, bindings)
            checked.append(value)
        # Only now is every type variable known that a later argument binds.
        final = tuple(
            Parameter(one.name, one.direction, substitute(one.type, bindings), one.optional) for one in params
        )
        for index, (param, value) in enumerate(zip(final, checked, strict=True)):
            if value is None:
                continue
            label = f"{what}: argument {param.name}"
            checked[index] = self._converted(param, value, label)
            if constant and not param.direction:
                self._constant_argument(checked[index], label)
        return checked, final

    def _constant_argument(self, value: ast.Expression | None, label: str) -> None:
        if value is None or isinstance(value.type, ExternType | ControlType | ParserType | PackageType):
            return
        if value.const is None and not self.expressions.from_constructor(value):
            raise SourceError(value.pos, f"{label}: not known at compile time, expected a constant")

    def _not_unified(self, param: Parameter, value: ast.Expression, label: str, bindings: Bindings) -> None:
        """An error unless an implicit conversion will make the value fit."""
        wanted = substitute(param.type, bindings)
        if param.direction in {"out", "inout"}:
            raise SourceError(value.pos, f"{label}: type is {value.type}, expected {wanted}")
        if isinstance(wanted, ControlType | ParserType) and isinstance(value.type, type(wanted)):
            why = mismatch(wanted, value.type, dict(bindings))
            raise SourceError(value.pos, f"{label}: {value.type} does not fit {wanted}: {why}")
        if not isinstance(wanted, TypeVariable):
            coerce(value, wanted, label)

    def _converted(self, param: Parameter, value: ast.Expression, label: str) -> ast.Expression:
        wanted = param.type
        if isinstance(wanted, types.DotsType):
            raise SourceError(value.pos, f"{label}: type of '...' is not known, expected a cast to one")
        if param.direction in {"out", "inout"}:
            if value.type != wanted and not isinstance(wanted, TypeVariable):
                raise SourceError(value.pos, f"{label}: type is {value.type}, expected {wanted}")
            return value
        if isinstance(wanted, InfIntType):
            if not isinstance(value.type, InfIntType):
                raise SourceError(value.pos, f"{label}: type is {value.type}, expected an int without width")
            return value
        if isinstance(wanted, TupleType | types.RecordType) and wanted == value.type:
            for item in _items(value):
                if isinstance(item.type, InfIntType):
                    raise SourceError(
                        item.pos, f"{label}: number without width, expected e.g. 8w{item.const or 0}"
                    )
            return value
        if isinstance(wanted, BitType | types.IntType | types.EnumType | types.NewType | Fielded | TupleType):
            return coerce(value, wanted, label)
        return value


def _items(value: ast.Expression) -> Iterator[ast.Expression]:
    """The data of a tuple or record, nested ones opened; not what their expressions are made of (slice bounds)."""
    match value:
        case ast.ListExpr(items=items):
            for item in items:
                yield from _items(item)
        case ast.StructExpr(items=items):
            for _, item in items:
                yield from _items(item)
        case _:
            yield value


def _object_name(callee: ast.Expression) -> str:
    base = callee.base if isinstance(callee, ast.Member) else callee
    return base.name if isinstance(base, ast.Name) else "it"


def parameters(params: Sequence[ast.Param]) -> tuple[Parameter, ...]:
    """Parameter declarations, with types resolved, as Parameters."""
    return tuple(
        Parameter(one.name, one.direction, one.type, one.optional or one.default is not None)
        for one in params
    )


def choose(
    node: ast.Node,
    type_args: Sequence[object],
    args: Sequence[object],
    names: Sequence[str | None],
    candidates: list[ast.ExternFunction],
) -> list[ast.ExternFunction]:
    """The candidates whose parameters these arguments can be; an error if there is none."""
    fitting = [one for one in candidates if _fits(one, len(type_args), len(args), names)]
    if fitting:
        return fitting
    name = candidates[0].name
    shapes = " or ".join(dict.fromkeys(_shape(one) for one in candidates))
    if type_args and not any(len(type_args) == len(one.type_params) for one in candidates):
        counts = " or ".join(dict.fromkeys(str(len(one.type_params)) for one in candidates))
        raise SourceError(node.pos, f"{name}: {counted(len(type_args), 'type argument')}, expected {counts}")
    raise SourceError(node.pos, f"{name}: {_given(args, names)}, expected {shapes}")


def _given(args: Sequence[object], names: Sequence[str | None]) -> str:
    named = [name for name in names if name]
    count = f"{counted(len(args), 'argument')}"
    return f"{count} ({', '.join(named)})" if named else count


def _shape(function: ast.ExternFunction) -> str:
    return f"({', '.join(('@optional ' if one.optional else '') + one.name for one in function.params)})"


def _fits(function: ast.ExternFunction, type_args: int, args: int, names: Sequence[str | None]) -> bool:
    if type_args and type_args != len(function.type_params):
        return False
    needed = [one for one in function.params if not one.optional and one.default is None]
    if any(names):
        known = {one.name for one in function.params}
        return set(names) <= known and {one.name for one in needed} <= set(names)
    return len(needed) <= args <= len(function.params)


def place(
    what: str,
    pos: Pos,
    params: tuple[Parameter, ...],
    args: Sequence[ast.Expression | None],
    names: Sequence[str | None],
) -> list[ast.Expression | None]:
    """Arguments in the order of the parameters; None where none is given."""
    if not any(names):
        needed = sum(not one.optional for one in params)
        if not needed <= len(args) <= len(params):
            expected = str(len(params)) if needed == len(params) else f"{needed} to {len(params)}"
            listed = f" ({', '.join(map(str, params))})" if params else ""
            raise SourceError(pos, f"{what}: {_given(args, names)}, expected {expected}{listed}")
        return [*args, *[None] * (len(params) - len(args))]
    if not all(names):
        raise SourceError(pos, f"{what}: arguments with and without name, expected either all or none")
    placed: dict[str, ast.Expression | None] = {}
    for name, value in zip(names, args, strict=True):
        assert name is not None
        if name in placed:
            raise SourceError(pos, f"{what}: argument {name} given twice")
        if name not in {one.name for one in params}:
            expected = ", ".join(one.name for one in params) or "none"
            raise SourceError(pos, f"{what}: no parameter {name}, expected {expected}")
        placed[name] = value
    return [placed.get(one.name) for one in params]
