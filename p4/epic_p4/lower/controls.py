"""Controls as Python functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.lower.calls import Calls

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit


class ControlBody(Calls):
    """The body of one control instance.

    The function returns the parameters that are numbers and may be written; before them True when `exit` was
    executed, if the control can do so.
    """

    def __init__(self, unit: Unit, instance: ast.Instance, returned: list[ast.Param], status: bool) -> None:
        super().__init__(unit, instance)
        assert isinstance(instance.decl, ast.ControlDecl)
        self._decl = instance.decl
        self._returned = returned
        self._status = status

    def write(self, names: Mapping[ast.Param, str]) -> None:
        """All lines of the function; `names` are those of its parameters."""
        self.env.update(names.items())
        for local in self._decl.locals:
            if isinstance(local, ast.VarDecl):
                self.variable(local)
        self.block(self._decl.body.statements)
        self.leave(exited=False)

    def leave(self, exited: bool) -> None:
        """Write the `return`; `exited`: P4's `exit` was executed."""
        outs = [self.env[param] for param in self._returned]
        values = [str(exited), *outs] if self._status else outs
        self.emit(f"return {', '.join(values)}" if values else "return")

    def stack_element(self, member: ast.Member) -> str:
        """`next` and `last` belong to parsers."""
        raise AssertionError("the checker allows stack.next in parsers only")


Exits = dict[ast.Node, tuple[bool, tuple[ast.Node, ...]]]
"""Of a declaration: whether it has an `exit`, and which actions and functions it names."""


def may_exit(instance: ast.Instance, known: Exits) -> bool:
    """Whether `exit` can be executed in a control, its actions, or a control inside it.

    `known` is kept between calls, so that each declaration is walked once.
    """
    seen: set[ast.Node] = set()
    pending: list[ast.Node] = []
    instances = [instance]
    while instances:
        one = instances.pop()
        pending.append(one.decl)
        parts = [*one.members.values(), *(arg for arg in one.args.values() if isinstance(arg, ast.Instance))]
        instances += [part for part in parts if isinstance(part.decl, ast.ControlDecl)]
    while pending:
        decl = pending.pop()
        if decl in seen:
            continue
        seen.add(decl)
        if decl not in known:
            known[decl] = _exits(decl)
        found, called = known[decl]
        if found:
            return True
        pending += called
    return False


def _exits(decl: ast.Node) -> tuple[bool, tuple[ast.Node, ...]]:
    nodes = ast.walk(decl)
    named = (node.decl for node in nodes if isinstance(node, ast.ActionRef | ast.Name | ast.Call))
    called = (one for one in named if isinstance(one, ast.ActionDecl | ast.FunctionDecl))
    return any(isinstance(node, ast.Exit) for node in nodes), tuple(dict.fromkeys(called))
