"""The Python module that a program becomes: its text, and the objects that the text names."""

from __future__ import annotations

import linecache
import struct
from dataclasses import dataclass
from types import CodeType
from typing import Any

from epic_p4 import ast
from epic_p4.lower import support
from epic_p4.lower.controls import ControlBody, Exits, may_exit
from epic_p4.lower.externs import Externs
from epic_p4.lower.names import Scope, identifier
from epic_p4.lower.parsers import ParserBody
from epic_p4.lower.shapes import Shapes, is_object
from epic_p4.lower.tables import build_table
from epic_p4.runtime.tables import Table
from epic_p4.types import ExternType, underlying


@dataclass(frozen=True, slots=True)
class Function:
    """A parser or control as a Python function.

    It takes the P4 parameters in order. It returns, when `status`, the parser's status or whether the control was left
    by `exit`; then the values of `returned`. One value alone is no tuple.
    """

    name: str
    returned: tuple[ast.Param, ...]
    status: bool


class Unit:
    """One program being lowered. `build` compiles the text once all functions are asked for."""

    def __init__(self, program: ast.Program, externs: Externs) -> None:
        self.program = program
        self.externs = externs
        self.tables: dict[str, Table] = {}
        self._names = Scope()
        self._namespace: dict[str, Any] = {
            "_struct": struct.Struct,
            "_new": object.__new__,
            "_element": support.element,
            "_padded": support.padded,
            "_stuck": support.stuck,
        }
        self._constants: dict[str, str] = {}
        self._functions: dict[ast.Instance, Function] = {}
        self._named: dict[ast.Node, frozenset[ast.Node | None]] = {}
        self._exits: Exits = {}
        self._text: list[str] = []
        self.shapes = Shapes(self._names, self.constant)

    # -- names

    def bind(self, name: str, value: object) -> str:
        """A module name for an object; the same for the same object."""
        for known, bound in self._namespace.items():
            if bound is value or (callable(value) and type(bound) is type(value) and bound == value):
                return known
        made = self._names.fresh(name)
        self._namespace[made] = value
        return made

    def constant(self, name: str, code: str) -> str:
        """A module name for the value of `code`."""
        if code not in self._constants:
            self._constants[code] = self._names.fresh(identifier(name).removeprefix("p4"))
        return self._constants[code]

    def named_in(self, body: ast.Node) -> frozenset[ast.Node | None]:
        """The declarations that a body names."""
        if body not in self._named:
            found = (node.decl for node in ast.walk(body) if isinstance(node, ast.Name))
            self._named[body] = frozenset(found)
        return self._named[body]

    def error_number(self, name: str) -> int:
        """The number of a member of `error`."""
        return self.program.errors.index(name)

    def evaluate(self, node: ast.Expression, instance: ast.Instance | None) -> ast.Value | None:
        """A value that only the constructor's arguments make known, or None."""
        if node.const is not None:
            return node.const
        if instance is None or not instance.args:
            return None
        if isinstance(node, ast.Name):
            return self._argument(node, instance)
        names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.const is None]
        if not names or any(self._argument(name, instance) is None for name in names):
            return None
        if any(isinstance(one, ast.Call) for one in ast.walk(node)):
            return None
        from epic_p4.check import fold

        value: ast.Value | None = fold.evaluate(node, instance)
        return value

    def _argument(self, name: ast.Name, instance: ast.Instance) -> ast.Value | None:
        decl = instance.decl
        params = decl.constructor_params if isinstance(decl, ast.ControlDecl | ast.ParserDecl) else []
        return instance.args.get(name.name) if name.decl in params else None

    def instance_of(self, node: ast.Expression, instance: ast.Instance | None) -> ast.Instance | None:
        """The object that a name in the body of `instance` stands for."""
        if isinstance(node.const, ast.Instance):
            return node.const
        if not isinstance(node, ast.Name) or node.decl is None:
            return None
        if isinstance(node.decl, ast.Param) and instance is not None:
            found = instance.args.get(node.name)
            return found if isinstance(found, ast.Instance) else None
        scope = instance
        while scope is not None:
            if node.decl in scope.members:
                return scope.members[node.decl]
            scope = scope.owner
        return self.program.top.get(node.decl)

    # -- parts

    def table(self, instance: ast.TableInstance) -> Table:
        """The table, made at its first use."""
        if instance.name not in self.tables:
            self.tables[instance.name] = build_table(self, instance)
        return self.tables[instance.name]

    def function(self, instance: ast.Instance) -> Function:
        """The Python function of a parser or control, written at its first use."""
        if instance in self._functions:
            return self._functions[instance]
        decl = instance.decl
        assert isinstance(decl, ast.ControlDecl | ast.ParserDecl)
        returned = [param for param in decl.params if _is_returned(param)]
        kind = "_P_" if isinstance(decl, ast.ParserDecl) else "_C_"
        name = self._names.fresh(kind + identifier(instance.name or decl.name))
        body: ParserBody | ControlBody
        if isinstance(decl, ast.ParserDecl):
            status = True
            body = ParserBody(self, instance, returned)
        else:
            status = may_exit(instance, self._exits)
            body = ControlBody(self, instance, returned, status)
        made = Function(name, tuple(returned), status)
        self._functions[instance] = made
        params = {param: body.scope.fresh(identifier(param.name)) for param in decl.params}
        body.write(params)
        kind = "parser" if isinstance(decl, ast.ParserDecl) else "control"
        self._text += ["", "", f"def {name}({', '.join(params.values())}):"]
        self._text += [f'    """{kind} {decl.name}, {decl.pos.file}:{decl.pos.line}"""', *body.lines]
        return made

    # -- the module

    def source(self) -> str:
        """The text of the module."""
        head = [f'"""Generated from {self.program.file}."""', ""]
        constants = ["", "", *(f"{name} = {code}" for code, name in self._constants.items())]
        return "\n".join([*head, *self.shapes.lines, *constants, *self._text, ""])

    def build(self) -> dict[str, Any]:
        """Run the text; the names of the module."""
        source = self.source()
        file = f"<generated from {self.program.file}>"
        # Tracebacks show the lines of generated code.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        code: CodeType = compile(source, file, "exec")
        exec(code, self._namespace)  # noqa: S102 - the text is ours
        return self._namespace


def _is_returned(param: ast.Param) -> bool:
    type_ = underlying(param.type)
    return param.direction in ("out", "inout") and not is_object(type_) and not isinstance(type_, ExternType)
