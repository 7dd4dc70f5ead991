"""What an action may compute: one operation for each field, in a container of its own size.

An action is one instruction word: all its fields change at once, each by one operation on at most two sources.
"""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.errors import Pos
from epic_p4.rules.context import Context
from epic_p4.rules.effects import Effect, is_known, reads
from epic_p4.rules.fields import Scope, resolve
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Alternative, Kind, Unit
from epic_p4.rules.text import start, text
from epic_p4.types import width

NAME = "action-alu"
TITLE = "an action does one ALU operation a field, adds in 8, 16 or 32 bits, and subtracts no action data"
SOURCE = (
    "[p4c] mau/action_analysis.cpp, mau/instruction_selection.cpp, phv/action_phv_constraints.cpp; [tried]"
)

_CARRIES = ("+", "-", "|+|", "|-|")
_BITWISE = ("&", "|", "^")
_SHIFTS = ("<<", ">>")
_RELATIONS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
_SIZES = (8, 16, 32)


def check(context: Context) -> Iterator[Finding]:
    """Every action once, and every statement of the apply blocks."""
    seen: set[Finding] = set()
    for unit in context.units():
        for option in unit.alternatives:
            for finding in _Action(unit, option).findings():
                if finding not in seen:
                    seen.add(finding)
                    yield finding


class _Action:
    def __init__(self, unit: Unit, option: Alternative) -> None:
        self.where = f"action {option.name}" if option.name else "statement"
        self.option = option
        self.kind = unit.kind
        self.made: dict[str, int] = {}  # operations that made a leaf in this action
        self.found: list[Finding] = []

    def findings(self) -> list[Finding]:
        for effect in self.option.effects:
            statement, scope = effect.statement, effect.scope
            if scope is None:
                continue
            match statement:
                case ast.If():
                    self._condition(statement.condition, scope)
                case ast.Assign(value=value):
                    self._assign(effect, value, scope)
                case ast.VarDecl(value=value) if value is not None:
                    self._assign(effect, value, scope)
                case ast.CallStatement(call=call):
                    self._assign(effect, call, scope)
                case _:
                    pass
        return self.found

    def _note(self, pos: Pos, what: str) -> None:
        self.found.append(Finding(NAME, pos, f"{self.where} {what}"))

    def _condition(self, condition: ast.Expression, scope: Scope) -> None:
        if condition.const is not None:
            return
        self._note(
            start(condition),
            f"tests {text(condition)}, expected the test in an `if` of the apply block or in a table's key",
        )

    def _assign(self, effect: Effect, value: ast.Expression, scope: Scope) -> None:
        # Apply blocks turn these into a condition with a statement in each branch.
        bare = _bare(value)
        if self.kind is Kind.STATEMENT and (
            isinstance(bare, ast.Ternary) or (isinstance(bare, ast.Binary) and bare.op in _RELATIONS)
        ):
            branches = (bare.yes, bare.no) if isinstance(bare, ast.Ternary) else ()
            operations = max((self._operations(one, scope) for one in branches), default=0)
        else:
            operations = self._operations(value, scope)
        if operations > 1:
            self._note(
                start(value),
                f"computes {text(value)} in {operations} operations, expected 1: use another action before it",
            )
        early = next((leaf for leaf in effect.inputs if self.made.get(leaf)), None)
        if early is not None:
            self._note(
                effect.pos,
                f"uses {early} as index or input of a stateful ALU while it computes it, expected a value that is "
                "ready before the action",
            )
        for leaf in effect.writes:
            self.made[leaf] = operations

    def _operations(self, value: ast.Expression, scope: Scope) -> int:
        """How many operations one after the other make a value."""
        if is_known(value):
            return 0
        if resolve(value, scope) is not None:
            return max((self.made.get(leaf, 0) for leaf in reads(value, scope)), default=0)
        match value:
            case ast.Cast():
                return self._operations(value.operand, scope)
            case ast.Slice():
                return self._operations(value.base, scope)
            case ast.Unary(op="~"):
                return 1 + self._operations(value.operand, scope)
            case ast.Unary(op="-"):
                self._size(value, value.op)
                return 1 + self._operations(value.operand, scope)
            case ast.Binary():
                return self._binary(value, scope)
            case ast.Ternary():
                self._condition(value.condition, scope)
                return max(self._operations(value.yes, scope), self._operations(value.no, scope))
            case ast.Call(kind=ast.CallKind.EXTERN_FUNCTION) if value.decl is not None:
                arguments = [self._operations(one, scope) for one in value.args if one is not None]
                if getattr(value.decl, "name", "") in ("min", "max"):
                    self._size(value, getattr(value.decl, "name", ""))
                return 1 + max(arguments, default=0)
            case _:
                return 0

    def _binary(self, value: ast.Binary, scope: Scope) -> int:
        left, right = value.left, value.right
        if value.op == "++":
            # The pieces go to different bits of the field.
            return max(self._operations(left, scope), self._operations(right, scope))
        if value.op in _RELATIONS:
            self._condition(value, scope)
            return 0
        below = self._operations(left, scope) + self._operations(right, scope)
        if value.op in _BITWISE:
            # x & ~y and its like are one operation.
            inverted = sum(isinstance(_bare(one), ast.Unary) and not is_known(one) for one in (left, right))
            return 1 + below - min(inverted, 1 if below else 0)
        if value.op in _SHIFTS:
            if right.const is None:
                self._note(start(value), f"shifts by {text(right)}, expected a constant")
            return 1 + below
        if value.op in _CARRIES:
            self._size(value, value.op)
            place = resolve(right, scope)
            if value.op in ("-", "|-|") and place is not None and place.data:
                self._note(
                    start(value),
                    f"subtracts action data {text(right)}, expected a field or constant: add its complement",
                )
            return 1 + below
        factor = right.const if right.const is not None else left.const
        if value.op == "*" and isinstance(factor, int) and factor.bit_count() == 1:
            return 1 + below
        if value.op in ("/", "%") and isinstance(right.const, int) and right.const.bit_count() == 1:
            return 1 + below
        verb = {"*": "multiplies", "/": "divides", "%": "divides"}.get(value.op, f"uses {value.op}")
        self._note(start(value), f"{verb} in {text(value)}, expected a power of two as constant")
        return 1 + below

    def _size(self, value: ast.Expression, op: str) -> None:
        bits = width(value.type)
        if bits not in _SIZES:
            self._note(
                start(value),
                f"does {op} on {value.type}, expected 8, 16 or 32 bits: the sizes of containers",
            )


def _bare(expression: ast.Expression) -> ast.Expression:
    while isinstance(expression, ast.Cast):
        expression = expression.operand
    return expression
