"""What the body of a RegisterAction may compute.

A stateful ALU compares at most twice (Tofino 2: four times), takes at most two fields, and computes two values,
the one written back included: for a pair those are both halves, changed or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import free_places
from epic_p4.rules.fields import Scope
from epic_p4.rules.finding import Finding
from epic_p4.rules.target import RegisterLimits
from epic_p4.rules.text import start, text
from epic_p4.types import ExternType, StructType, underlying, width

NAME = "register-action"
TITLE = "a RegisterAction has few comparisons, operands and constants, and computes two values"
SOURCE = "[p4c] mau/stateful_alu.cpp; specs/device.cpp, StatefulAluSpec. Two expressions a value: an estimate"

_RELATIONS = ("==", "!=", "<", ">", "<=", ">=")
_ARITHMETIC = ("+", "-", "|+|", "|-|", "&", "|", "^")
_REFUSED = {"*": "multiplies", "<<": "shifts", ">>": "shifts"}
_DIVISIONS = {"/": "divides", "%": "divides"}
_MAX_PATHS = 64
_EXPRESSIONS = 2  # predicated instructions that one half has


def check(context: Context) -> Iterator[Finding]:
    """Every RegisterAction that is declared."""
    limits = context.chip.register
    constants: dict[ast.Instance, dict[int, ast.Instance]] = {}
    for action, register, scope in context.register_actions():
        for method in action.methods.values():
            yield from _Body(action, register, method, scope, limits).findings()
        known = constants.setdefault(register, {})
        for value, where in _large_constants(action, limits):
            if value in known:
                continue
            known[value] = action
            if len(known) == limits.large_constants + 1:
                low, high = limits.constant
                yield Finding(
                    NAME,
                    start(where),
                    f"{action.name}: {value} is constant {len(known)} outside {low} .. {high} of {register.name}, "
                    f"expected at most {limits.large_constants}",
                )


def _large_constants(action: ast.Instance, limits: RegisterLimits) -> Iterator[tuple[int, ast.Expression]]:
    low, high = limits.constant
    for method in action.methods.values():
        for node in _outermost_constants(method.body):
            value, bits = node.const, width(node.type) or 0
            if isinstance(value, int) and not isinstance(value, bool):
                # A large unsigned constant may be a small negative one.
                signed = value - (1 << bits) if bits and value >> bits - 1 == 1 else value
                if not low <= signed <= high:
                    yield value, node


def _outermost_constants(body: ast.Node) -> Iterator[ast.Expression]:
    """Constant expressions that are no part of another."""
    inner: set[ast.Node] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Expression) and node.const is not None and node not in inner:
            inner.update(ast.walk(node))
            yield node


@dataclass(slots=True)
class _Path:
    """One way through the body: what the variables hold, as text."""

    holds: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, tuple[str, ast.Statement]] = field(default_factory=dict)


class _Body:
    def __init__(
        self,
        action: ast.Instance,
        register: ast.Instance,
        method: ast.FunctionDecl,
        scope: Scope,
        limits: RegisterLimits,
    ) -> None:
        self.name = action.name
        self.method = method
        self.scope = scope
        self.limits = limits
        cell = register.type.args[0] if isinstance(register.type, ExternType) and register.type.args else None
        cell = underlying(cell) if cell is not None else None
        value = method.params[0].name if method.params else "value"
        self.cells = (
            [f"{value}.{one.name}" for one in cell.fields] if isinstance(cell, StructType) else [value]
        )
        self.results = [param.name for param in method.params[1:]]

    def findings(self) -> Iterator[Finding]:
        if len(self.results) > self.limits.outputs:
            yield self._finding(
                self.method.params[1 + self.limits.outputs],
                f"returns {len(self.results)} values, expected at most {self.limits.outputs}",
            )
        yield from self._comparisons()
        yield from self._operands()
        for statement in ast.walk(self.method.body):
            if isinstance(statement, ast.Assign):
                yield from self._operations(statement.value)
        yield from self._values()

    def _finding(self, node: ast.Node, what: str) -> Finding:
        return Finding(NAME, start(node), f"{self.name} {what}")

    # -- comparisons

    def _comparisons(self) -> Iterator[Finding]:
        known: list[str] = []
        for node in ast.walk(self.method.body):
            if not isinstance(node, ast.Binary) or node.op not in _RELATIONS or node.const is not None:
                continue
            normal = _normal(node)
            if normal in known:
                continue
            known.append(normal)
            if len(known) == self.limits.comparisons + 1:
                yield self._finding(
                    node, f"makes comparison {len(known)}, expected at most {self.limits.comparisons}"
                )
            for part in (*ast.walk(node.left), *ast.walk(node.right)):
                if not isinstance(part, ast.Binary) or part.const is not None or part.op in ("+", "-"):
                    continue
                if part.op == "&" and self.limits.mask_in_comparison:
                    continue
                yield self._finding(
                    part, f"compares {text(part)}, expected cell, field and constant joined by + and - only"
                )
                break

    # -- operands

    def _operands(self) -> Iterator[Finding]:
        known: dict[str, None] = {}
        for expression, place in free_places(self.method, self.scope):
            bits = width(place.type) or 0
            if place.bits is not None:
                bits = place.bits[0] - place.bits[1] + 1
            key = f"{place.path}{place.bits or ''}"
            if key in known:
                continue
            known[key] = None
            if bits > self.limits.operand_bits:
                yield self._finding(
                    expression,
                    f"takes {text(expression)} of {bits} bits, expected at most {self.limits.operand_bits}",
                )
            if len(known) == self.limits.operands + 1:
                yield self._finding(
                    expression,
                    f"takes {text(expression)} as field {len(known)}, expected at most {self.limits.operands}",
                )

    # -- operations

    def _operations(self, value: ast.Expression) -> Iterator[Finding]:
        operations = 0
        for node in ast.walk(value):
            if not isinstance(node, ast.Binary) or node.const is not None:
                continue
            refused = _REFUSED if self.limits.division else _REFUSED | _DIVISIONS
            if node.op in refused:
                yield self._finding(
                    node, f"{refused[node.op]} in {text(node)}, expected + - |+| |-| & | ^ or a comparison"
                )
            elif node.op in _ARITHMETIC:
                operations += 1
        outer = _bare(value)
        joined = isinstance(outer, ast.Binary) and outer.op == "|"
        if operations > (3 if joined else 1):
            yield self._finding(
                value, f"computes {text(value)} in {operations} operations, expected 1 (or two joined by |)"
            )

    # -- values

    def _values(self) -> Iterator[Finding]:
        start = _Path({cell: f"old {cell}" for cell in self.cells})
        paths = self._run(self.method.body, [start])
        assigned: dict[str, dict[str, ast.Statement]] = {}
        reported = False
        for path in paths:
            free = {f"old {cell}" for cell in self.cells} | {path.holds[cell] for cell in self.cells} | {"0"}
            extra = [
                (value, where)
                for value, where in dict.fromkeys(path.outputs.values())
                if value not in free and not _is_predicate(value)
            ]
            if len(self.cells) + len({value for value, _ in extra}) > self.limits.results and not reported:
                value, where = extra[-1]
                reported = True
                yield self._finding(
                    where,
                    f"computes {len(self.cells) + len(extra)} values ({', '.join(self.cells)} written back, and "
                    f"{value}), expected at most {self.limits.results}",
                )
            for name, (value, where) in path.outputs.items():
                if value not in free:
                    assigned.setdefault(name, {}).setdefault(value, where)
        for name, values in assigned.items():
            if len(values) > _EXPRESSIONS:
                yield self._finding(
                    list(values.values())[-1],
                    f"gives {name} one of {len(values)} computed values, expected at most {_EXPRESSIONS}",
                )
        for cell in self.cells:
            forms = {path.holds[cell] for path in paths} - {f"old {cell}"}
            if len(forms) > _EXPRESSIONS:
                yield self._finding(
                    self.method,
                    f"gives {cell} one of {len(forms)} new values, expected at most {_EXPRESSIONS}",
                )

    def _run(self, statement: ast.Statement | None, paths: list[_Path]) -> list[_Path]:
        match statement:
            case ast.Block():
                for one in statement.statements:
                    paths = self._run(one, paths)
                return paths
            case ast.If():
                copies = [_Path(dict(one.holds), dict(one.outputs)) for one in paths]
                return (self._run(statement.yes, paths) + self._run(statement.no, copies))[:_MAX_PATHS]
            case ast.VarDecl(value=value) if value is not None:
                for path in paths:
                    path.holds[statement.name] = self._held(value, path)
            case ast.Assign():
                for path in paths:
                    self._assign(statement, path)
            case _:
                pass
        return paths

    def _assign(self, statement: ast.Assign, path: _Path) -> None:
        name = text(statement.target)
        value = statement.value
        if isinstance(value, ast.StructExpr):
            held = {f"{name}.{member}": self._held(one, path) for member, one in value.items}
            path.holds.update(held)
            return
        held_value = self._held(value, path)
        if name in self.results:
            path.outputs[name] = (held_value, statement)
        path.holds[name] = held_value
        for cell in self.cells:
            if cell.startswith(f"{name}."):
                path.holds[cell] = f"{held_value}{cell[len(name) :]}"

    def _held(self, value: ast.Expression, path: _Path) -> str:
        return text(_bare(value), lambda part: path.holds.get(text(part)) if _is_name(part) else None)


def _is_name(part: ast.Expression) -> bool:
    return isinstance(part, ast.Name | ast.Member) and part.const is None


def _bare(expression: ast.Expression) -> ast.Expression:
    while isinstance(expression, ast.Cast):
        expression = expression.operand
    return expression


def _is_predicate(value: str) -> bool:
    return any(f" {relation} " in value for relation in _RELATIONS) or ".predicate(" in value


def _normal(node: ast.Binary) -> str:
    """The same text for a comparison, its negation, and both with operands exchanged."""
    left, right = text(_bare(node.left)), text(_bare(node.right))
    if node.op in ("==", "!="):
        return " == ".join(sorted((left, right)))
    if node.op in (">", "<="):
        left, right = right, left
    # Both `a < b` and its negation `a >= b` read "a < b" here.
    return f"{left} < {right}"
