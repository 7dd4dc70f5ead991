"""An expression as short source text, for messages and to tell equal ones."""

from __future__ import annotations

from collections.abc import Callable

from epic_p4 import ast
from epic_p4.errors import Pos


def start(node: ast.Node) -> Pos:
    """Where the text of a node starts; its own position may be that of its operator or last name."""
    match node:
        case ast.Assign():
            return start(node.target)
        case ast.CallStatement():
            return start(node.call)
        case ast.Binary():
            return start(node.left)
        case ast.Member() | ast.Index() | ast.Slice():
            return start(node.base)
        case ast.Call():
            return start(node.callee)
        case ast.Ternary():
            return start(node.condition)
        case ast.Cast() if node.implicit:
            return start(node.operand)
        case _:
            return node.pos


Replace = Callable[[ast.Expression], str | None]


def _nothing(_: ast.Expression) -> str | None:
    return None


def text(expression: ast.Expression | None, replace: Replace = _nothing) -> str:
    """The text of an expression; `replace` may give another for a part. Implicit casts are left out."""
    if expression is None:
        return ""
    found = replace(expression)
    if found is not None:
        return found
    if isinstance(expression.const, bool):
        return str(expression.const).lower()
    if isinstance(expression.const, int):
        return str(expression.const)
    match expression:
        case ast.Name():
            return expression.name
        case ast.Member():
            return f"{text(expression.base, replace)}.{expression.name}"
        case ast.Index():
            return f"{text(expression.base, replace)}[{text(expression.index, replace)}]"
        case ast.Slice():
            return f"{text(expression.base, replace)}[{expression.hi}:{expression.lo}]"
        case ast.Unary():
            return f"{expression.op}{_inner(expression.operand, replace)}"
        case ast.Binary():
            return f"{_inner(expression.left, replace)} {expression.op} {_inner(expression.right, replace)}"
        case ast.Ternary():
            parts = (expression.condition, expression.yes, expression.no)
            condition, yes, no = (_inner(one, replace) for one in parts)
            return f"{condition} ? {yes} : {no}"
        case ast.Cast():
            inner = text(expression.operand, replace)
            return (
                inner if expression.implicit else f"({expression.type}){_inner(expression.operand, replace)}"
            )
        case ast.Call():
            arguments = ", ".join(text(one, replace) for one in expression.args)
            return f"{text(expression.callee, replace)}({arguments})"
        case ast.DefaultValue():
            return "{...}"
        case ast.ListExpr():
            return "{" + ", ".join(text(one, replace) for one in expression.items) + "}"
        case ast.StructExpr():
            return "{" + ", ".join(f"{name} = {text(one, replace)}" for name, one in expression.items) + "}"
        case _:
            return type(expression).__name__


def _inner(expression: ast.Expression, replace: Replace) -> str:
    """A part of an expression, in parentheses when it has parts itself."""
    found = text(expression, replace)
    bare = expression
    while isinstance(bare, ast.Cast) and bare.implicit:
        bare = bare.operand
    composed = isinstance(bare, ast.Binary | ast.Ternary) and bare.const is None
    return f"({found})" if composed or (" " in found and replace(expression) is not None) else found
