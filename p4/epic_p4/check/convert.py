"""Type relations: substitution, unification for type parameters, implicit conversions, casts."""

from __future__ import annotations

from collections.abc import Mapping

from epic_p4 import ast, types
from epic_p4.check.fold import check_fits, fold_cast, wrap
from epic_p4.errors import Pos, SourceError, counted
from epic_p4.types import (
    BitType,
    BoolType,
    ControlType,
    DontCareType,
    DotsType,
    EnumType,
    ExternType,
    Fielded,
    InfIntType,
    IntType,
    NewType,
    PackageType,
    Parameter,
    ParserType,
    RecordType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
)

Bindings = dict[TypeVariable, Type]


def substitute(type_: Type, bindings: Mapping[TypeVariable, Type]) -> Type:
    """`type_` with type variables replaced by what they are bound to."""
    if not bindings:
        return type_
    match type_:
        case TypeVariable():
            return bindings.get(type_, type_)
        case ExternType():
            return ExternType(type_.name, tuple(substitute(one, bindings) for one in type_.args), type_.decl)
        case TupleType():
            return TupleType(tuple(substitute(one, bindings) for one in type_.items))
        case StackType():
            return StackType(substitute(type_.element, bindings), type_.size)
        case ControlType() | ParserType():
            return type(type_)(
                type_.name,
                substitute_params(type_.params, bindings),
                type_.decl,  # type: ignore[arg-type]  # the class is the same
                tuple(substitute(one, bindings) for one in type_.args),
            )
        case PackageType():
            return PackageType(type_.name, tuple(substitute(one, bindings) for one in type_.args), type_.decl)
        case _:
            return type_


def substitute_params(
    params: tuple[Parameter, ...], bindings: Mapping[TypeVariable, Type]
) -> tuple[Parameter, ...]:
    """Parameters with type variables replaced."""
    if not bindings:
        return params
    return tuple(
        Parameter(one.name, one.direction, substitute(one.type, bindings), one.optional) for one in params
    )


def unify(wanted: Type, given: Type, bindings: Bindings) -> bool:
    """Whether `given` can be what `wanted` says, binding wanted's type variables as needed."""
    if isinstance(wanted, TypeVariable):
        if wanted not in bindings:
            bindings[wanted] = given
            return True
        known = bindings[wanted]
        if isinstance(known, InfIntType) and isinstance(given, BitType | IntType):
            bindings[wanted] = given
            return True
        return known == given or isinstance(given, InfIntType) or unify(known, given, bindings)
    if isinstance(wanted, DontCareType) or isinstance(given, DontCareType) or wanted == given:
        return True
    match wanted, given:
        case (ExternType(), ExternType()) if wanted.name == given.name:
            return _all(wanted.args, given.args, bindings)
        case (PackageType(), PackageType()) if wanted.name == given.name:
            return _all(wanted.args, given.args, bindings)
        case (TupleType(), TupleType()):
            return _all(wanted.items, given.items, bindings)
        case (StackType(), StackType()) if wanted.size == given.size:
            return unify(wanted.element, given.element, bindings)
        case (ControlType(), ControlType()):
            return mismatch(wanted, given, bindings) is None
        case (ParserType(), ParserType()):
            return mismatch(wanted, given, bindings) is None
        case _:
            return False


def _all(wanted: tuple[Type, ...], given: tuple[Type, ...], bindings: Bindings) -> bool:
    return len(wanted) == len(given) and all(
        unify(one, other, bindings) for one, other in zip(wanted, given, strict=True)
    )


def mismatch(
    wanted: ControlType | ParserType, given: ControlType | ParserType, bindings: Bindings
) -> str | None:
    """Why a control or parser does not have the parameters a type asks for, or None if it has."""
    if len(given.params) > len(wanted.params):
        return f"it has {counted(len(given.params), 'parameter')}, expected {len(wanted.params)}"
    for index, param in enumerate(wanted.params):
        if index >= len(given.params):
            if param.optional:
                continue
            needed = sum(not one.optional for one in wanted.params)
            return f"it has {counted(len(given.params), 'parameter')}, expected {needed}"
        have = given.params[index]
        if have.direction != param.direction:
            direction = param.direction or "no direction"
            return (
                f"its parameter {have.name} is {have.direction or 'without direction'}, expected {direction}"
            )
        if not unify(param.type, have.type, bindings):
            return f"its parameter {have.name} is {have.type}, expected {substitute(param.type, bindings)}"
    return None


def coerce(expression: ast.Expression, target: Type, what: str) -> ast.Expression:
    """`expression` as a value of `target`, with an implicit cast if the language has one; else an error.

    `what` says for the error what wants the value.
    """
    source = expression.type
    if isinstance(target, DontCareType) or (source == target and not isinstance(source, DotsType)):
        return expression
    if isinstance(source, InfIntType) and isinstance(target, BitType | IntType):
        if isinstance(expression.const, int):
            check_fits(expression.const, target, expression)
        return implicit_cast(expression, target)
    if isinstance(source, EnumType) and source.underlying == target and source.underlying is not None:
        return implicit_cast(expression, target)
    if isinstance(expression, ast.ListExpr) and isinstance(target, Fielded | TupleType):
        return _list_as(expression, target, what)
    if (
        isinstance(expression, ast.StructExpr)
        and isinstance(target, Fielded)
        and isinstance(source, RecordType | DotsType)
    ):
        return _record_as(expression, target, what)
    if isinstance(expression, ast.Ternary) and isinstance(expression.yes.type, InfIntType):
        expression.yes = coerce(expression.yes, target, what)
        expression.no = coerce(expression.no, target, what)
        expression.type = target
        return expression
    raise SourceError(expression.pos, f"{what}: type is {source}, expected {target}{_advice(source, target)}")


def _advice(source: Type, target: Type) -> str:
    return f" (cast with ({target}))" if castable(source, target) else ""


def implicit_cast(expression: ast.Expression, target: Type) -> ast.Expression:
    """The cast node; a plain literal becomes a literal of the type."""
    if isinstance(expression, ast.IntLiteral) and isinstance(target, BitType | IntType):
        value = wrap(expression.value, target)
        literal = ast.IntLiteral(expression.pos, value, target.width, isinstance(target, IntType))
        literal.type = target
        literal.const = value
        return literal
    node = ast.Cast(expression.pos, None, expression, implicit=True)
    node.type = target
    if expression.const is not None:
        node.const = fold_cast(expression.const, expression.type, target)
    return node


def _list_as(expression: ast.ListExpr, target: Fielded | TupleType, what: str) -> ast.Expression:
    if expression.dots and not expression.items:
        return default_value(expression.pos, target)
    wanted = target.items if isinstance(target, TupleType) else tuple(one.type for one in target.fields)
    given = list(expression.items)
    if expression.dots:
        given += [default_value(expression.pos, type_) for type_ in wanted[len(given) :]]
    if len(wanted) != len(given):
        raise SourceError(
            expression.pos,
            f"{what}: list of {counted(len(expression.items), 'value')}, expected {len(wanted)} for {target}",
        )
    items = [coerce(item, type_, what) for item, type_ in zip(given, wanted, strict=True)]
    node: ast.ListExpr | ast.StructExpr
    if isinstance(target, TupleType):
        node = ast.ListExpr(expression.pos, items)
    else:
        names = [one.name for one in target.fields]
        node = ast.StructExpr(expression.pos, list(zip(names, items, strict=True)))
    node.type = target
    node.const = constants(items)
    return node


def _record_as(expression: ast.StructExpr, target: Fielded, what: str) -> ast.Expression:
    given = dict(expression.items)
    items: list[tuple[str, ast.Expression]] = []
    for one in target.fields:
        if one.name in given:
            items.append((one.name, coerce(given.pop(one.name), one.type, what)))
        elif expression.dots:
            items.append((one.name, default_value(expression.pos, one.type)))
        else:
            raise SourceError(expression.pos, f"{what}: no value for field {one.name} of {target}")
    for name, extra in given.items():
        raise SourceError(extra.pos, f"{what}: {target} has no field {name}")
    node = ast.StructExpr(expression.pos, items)
    node.type = target
    node.const = constants([item for _, item in items])
    return node


def default_value(pos: Pos, type_: Type) -> ast.Expression:
    """What `...` stands for where a value of `type_` is wanted (section 8.26 of the specification)."""
    node = ast.DefaultValue(pos)
    node.type = type_
    match types.underlying(type_):
        case BitType() | IntType():
            node.const = 0
        case BoolType():
            node.const = False
        case types.StructType(fields=fields):
            node.const = constants([default_value(pos, one.type) for one in fields])
        case TupleType(items=items):
            node.const = constants([default_value(pos, one) for one in items])
        case ExternType() | ControlType() | ParserType() | PackageType() | InfIntType():
            raise SourceError(pos, f"default initializer '...': {type_} has no default value")
        case _:
            pass  # headers, stacks, enums and errors: what an executor starts them with
    return node


def constants(items: list[ast.Expression]) -> tuple[ast.Value, ...] | None:
    """The values of all items, or None if one is not constant."""
    values = [item.const for item in items]
    if any(value is None for value in values):
        return None
    return tuple(value for value in values if value is not None)


def castable(source: Type, target: Type) -> bool:
    """Whether an explicit cast exists (section 8.12 of the specification)."""
    if source == target:
        return True
    if isinstance(source, NewType):
        return castable(source.underlying, target)
    if isinstance(target, NewType):
        return castable(source, target.underlying)
    if isinstance(source, EnumType):
        return source.underlying is not None and castable(source.underlying, target)
    if isinstance(target, EnumType):
        return target.underlying is not None and castable(source, target.underlying)
    match source, target:
        case (BitType(), BitType()) | (IntType(), IntType()):
            return True
        case (BitType(a), IntType(b)) | (IntType(a), BitType(b)):
            return a == b
        case (BitType(1), BoolType()) | (BoolType(), BitType(1)):
            return True
        case (InfIntType(), BitType() | IntType() | BoolType()):
            return True
        case (BitType() | IntType(), InfIntType()):
            return True
        case _:
            return False


def same_type(
    left: ast.Expression, right: ast.Expression, what: str, pos: Pos
) -> tuple[ast.Expression, ast.Expression]:
    """Two operands brought to one type, or an error."""
    if left.type == right.type:
        return left, right
    for one, other in ((left, right), (right, left)):
        kind = one.type
        # A serializable enum takes part in arithmetic as what is below it.
        if isinstance(kind, EnumType) and kind.underlying is not None:
            lowered = implicit_cast(one, kind.underlying)
            return (
                same_type(lowered, other, what, pos) if one is left else same_type(other, lowered, what, pos)
            )
    if isinstance(left.type, InfIntType) and isinstance(right.type, BitType | IntType):
        return coerce(left, right.type, what), right
    if isinstance(right.type, InfIntType) and isinstance(left.type, BitType | IntType):
        return left, coerce(right, left.type, what)
    if isinstance(left, ast.ListExpr | ast.StructExpr):
        return coerce(left, right.type, what), right
    if isinstance(right, ast.ListExpr | ast.StructExpr):
        return left, coerce(right, left.type, what)
    raise SourceError(pos, f"{what}: operands are {left.type} and {right.type}, expected one type")


def typed_width(type_: Type) -> int | None:
    """Bits of bit<N> or int<N> (through enum and `type`), else None."""
    shape = types.underlying(type_)
    return shape.width if isinstance(shape, BitType | IntType) else None
