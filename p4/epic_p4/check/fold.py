"""Constant folding: P4's operators on Python values.

A value of type bit<N> is 0 … 2**N-1, of int<N> a signed int, of `int` any int. The same functions define
the arithmetic for the checker and for whoever evaluates what only an instance makes known.
"""

from __future__ import annotations

from collections.abc import Callable

from epic_p4 import ast
from epic_p4.errors import SourceError
from epic_p4.types import BitType, BoolType, EnumType, InfIntType, IntType, Type, underlying


def wrap(value: int, type_: Type) -> int:
    """`value` reduced to what `type_` holds (unchanged for `int`)."""
    shape = underlying(type_)
    if isinstance(shape, BitType):
        return value & ((1 << shape.width) - 1)
    if isinstance(shape, IntType):
        half = 1 << (shape.width - 1)
        return ((value + half) & ((1 << shape.width) - 1)) - half
    return value


def saturate(value: int, type_: Type) -> int:
    """`value` limited to the range of `type_`."""
    low, high = limits(type_)
    return max(low, min(high, value))


def limits(type_: Type) -> tuple[int, int]:
    """The smallest and largest value of bit<N> or int<N>."""
    shape = underlying(type_)
    if isinstance(shape, BitType):
        return 0, (1 << shape.width) - 1
    assert isinstance(shape, IntType)
    return -(1 << (shape.width - 1)), (1 << (shape.width - 1)) - 1


def unsigned(value: int, type_: Type) -> int:
    """The bits of a value of bit<N> or int<N>."""
    shape = underlying(type_)
    assert isinstance(shape, BitType | IntType)
    return value & ((1 << shape.width) - 1)


def fold_unary(node: ast.Unary, value: ast.Value) -> ast.Value:
    """`op value` in the type of the node."""
    if node.op == "!":
        return not value
    assert isinstance(value, int)
    return wrap({"-": -value, "~": ~value, "+": value}[node.op], node.type)


def fold_binary(node: ast.Binary, left: ast.Value, right: ast.Value) -> ast.Value:
    """`left op right`; the operands' types tell how. Division by zero and negative shifts are errors."""
    op = node.op
    if op == "==":
        return left == right
    if op == "!=":
        return left != right
    if isinstance(left, bool) and isinstance(right, bool):
        return (left and right) if op == "&&" else (left or right)
    assert isinstance(left, int) and isinstance(right, int)
    if op in _ORDER:
        return _ORDER[op](left, right)
    if op in {"|+|", "|-|"}:
        return saturate(left + right if op == "|+|" else left - right, node.type)
    if op == "++":
        low = underlying(node.right.type)
        assert isinstance(low, BitType | IntType)
        return wrap(left << low.width | unsigned(right, low), node.type)
    if op in {"<<", ">>"}:
        return _shift(node, left, right)
    if op in {"/", "%"}:
        if right == 0:
            raise SourceError(node.right.pos, f"{'division' if op == '/' else 'modulo'} by zero")
        if left < 0 or right < 0:
            raise SourceError(node.pos, f"{left} {op} {right}: expected no negative operand")
        return left // right if op == "/" else left % right
    return wrap(_ARITHMETIC[op](left, right), node.type)


def _shift(node: ast.Binary, left: int, right: int) -> int:
    if right < 0:
        raise SourceError(node.right.pos, f"shift by {right}: expected an amount of 0 or more")
    shape = underlying(node.type)
    if isinstance(shape, BitType | IntType):
        right = min(right, shape.width)  # all bits are out then
    elif right > 1 << 16:
        raise SourceError(node.right.pos, f"shift of an int by {right}: expected at most {1 << 16}")
    return wrap(left << right, node.type) if node.op == "<<" else left >> right


_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def fold_cast(value: ast.Value, source: Type, target: Type) -> ast.Value:
    """A value of `source` cast to `target`."""
    shape = underlying(target)
    if isinstance(shape, BoolType):
        return bool(value)
    if isinstance(shape, BitType | IntType) and isinstance(value, int):
        return wrap(int(value), shape)
    if isinstance(shape, InfIntType) and isinstance(value, int):
        return int(value)
    del source
    return value


def fold_slice(value: int, type_: Type, high: int, low: int) -> int:
    """`value[high:low]`."""
    shape = underlying(type_)
    bits = value if isinstance(shape, InfIntType) else unsigned(value, shape)
    return bits >> low & ((1 << (high - low + 1)) - 1)


def evaluate(expression: ast.Expression, instance: ast.Instance | None) -> ast.Value:
    """The compile-time value of a checked expression inside `instance` (which binds constructor parameters).

    Instances are values too: a name of an extern object gives its Instance.
    """
    if expression.const is not None:
        return expression.const
    match expression:
        case ast.Name(decl=decl):
            found = _bound(decl, expression.name, instance)
            if found is not None:
                return found
        case ast.Unary():
            return fold_unary(expression, evaluate(expression.operand, instance))
        case ast.Binary():
            left = evaluate(expression.left, instance)
            if expression.op in {"&&", "||"} and left is (expression.op == "||"):
                return left
            return fold_binary(expression, left, evaluate(expression.right, instance))
        case ast.Ternary():
            chosen = expression.yes if evaluate(expression.condition, instance) else expression.no
            return evaluate(chosen, instance)
        case ast.Cast():
            value = evaluate(expression.operand, instance)
            if (
                expression.implicit
                and isinstance(value, int)
                and isinstance(expression.operand.type, InfIntType)
            ):
                check_fits(value, expression.type, expression)
            return fold_cast(value, expression.operand.type, expression.type)
        case ast.Slice():
            value = evaluate(expression.base, instance)
            if isinstance(value, int):
                return fold_slice(value, expression.base.type, expression.hi, expression.lo)
        case ast.ListExpr():
            return tuple(evaluate(item, instance) for item in expression.items)
        case ast.StructExpr():
            return tuple(evaluate(item, instance) for _, item in expression.items)
        case ast.Member(kind=ast.MemberKind.FIELD):
            value = evaluate(expression.base, instance)
            names = [one.name for one in getattr(expression.base.type, "fields", ())]
            if isinstance(value, tuple) and expression.name in names:
                return value[names.index(expression.name)]
        case _:
            pass
    raise SourceError(expression.pos, "value not known at compile time, expected a constant")


def _bound(decl: ast.Node | None, name: str, instance: ast.Instance | None) -> ast.Value | None:
    if isinstance(decl, ast.ConstDecl):
        return evaluate(decl.value, instance)
    owner = instance
    while owner is not None:
        if decl in owner.members:
            return owner.members[decl]
        if isinstance(decl, ast.Param) and decl in getattr(owner.decl, "constructor_params", ()):
            return owner.args.get(name)
        owner = owner.owner
    return None


def check_fits(value: int, type_: Type, at: ast.Node) -> None:
    """An error at `at` unless `value` is in the range of `type_` (bit<N> or int<N>)."""
    low, high = limits(type_)
    # A negative number for bit<N> is its two's complement, as long as no bit is lost.
    negative = -(high + 1) // 2 if low == 0 else low
    if not negative <= value <= high:
        raise SourceError(at.pos, f"number {value}: does not fit in {type_}, expected {low} to {high}")


def is_constant_type(type_: Type) -> bool:
    """Whether values of `type_` can be constants of a match key or action argument."""
    shape = underlying(type_)
    return isinstance(shape, BitType | IntType | BoolType | EnumType)
