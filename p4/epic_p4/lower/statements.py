"""P4 statements as Python statements; actions, functions and abstract methods written out where they are called.

Parameters follow the copy-in, copy-out rule of P4. Objects are passed by reference, which is the same as long as
nothing else names the object during the call; where something does, a copy is passed and copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.errors import UnsupportedError
from epic_p4.lower.emitter import is_literal
from epic_p4.lower.expressions import Expressions
from epic_p4.lower.names import identifier
from epic_p4.lower.shapes import is_object
from epic_p4.types import ActionRunType, ExternType, Type, VoidType, underlying

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit


@dataclass(slots=True)
class Frame:
    """A body that is written out inside another: what ends it, and what must be copied back then."""

    result: str = ""
    loop: bool = False
    copy_back: list[Callable[[], None]] = field(default_factory=list)


class Statements(Expressions):
    """Adds statements; `frames` are the bodies being written out, the innermost last."""

    def __init__(self, unit: Unit, instance: ast.Instance | None) -> None:
        super().__init__(unit, instance)
        self.frames: list[Frame] = []

    def leave(self, exited: bool) -> None:
        """Write the `return` of the Python function; `exited`: P4's `exit` was executed."""
        raise NotImplementedError

    def apply_table(self, call: ast.Call) -> str:
        """Write out `table.apply()`; the variable that holds the entry."""
        raise NotImplementedError

    # -- statements

    def block(self, statements: Sequence[ast.Statement]) -> None:
        """Statements one after the other."""
        for one in statements:
            self.statement(one)

    def statement(self, node: ast.Statement) -> None:
        """One statement."""
        if not isinstance(node, ast.Block | ast.Empty):
            self.at(node.pos)
        match node:
            case ast.Block():
                self.block(node.statements)
            case ast.Empty() | ast.ConstDecl():
                pass
            case ast.Assign():
                self._assign(node)
            case ast.CallStatement():
                self._call_statement(node)
            case ast.VarDecl():
                self.variable(node)
            case ast.If():
                self._if(node)
            case ast.Switch():
                self._switch(node)
            case ast.Return():
                self._return(node)
            case ast.Exit():
                self._exit()
            case _:
                raise UnsupportedError(node.pos, f"{type(node).__name__} as a statement")

    def variable(self, node: ast.VarDecl) -> None:
        """Declare a variable; one that is not initialized starts as 0 or invalid."""
        value = self.unit.shapes.initial(node.type) if node.value is None else self.value(node.value)
        fresh = node.value is None or isinstance(node.value, ast.StructExpr | ast.DefaultValue)
        if is_object(underlying(node.type)) and not fresh:
            value = f"{value}.copy()"
        made = self.scope.fresh(identifier(node.name))
        self.env[node] = made
        self.emit(f"{made} = {value}")

    def _assign(self, node: ast.Assign) -> None:
        place = self.place(node.target)
        self.store(place, node.target, self.value(node.value))

    def _call_statement(self, node: ast.CallStatement) -> None:
        code = self.call(node.call)
        if code and not is_literal(code) and not code.isidentifier():
            self.emit(code)

    def _if(self, node: ast.If) -> None:
        known = self.known(node.condition)
        if isinstance(known, bool):
            chosen = node.yes if known else node.no
            if chosen is not None:
                self.statement(chosen)
            return
        self.emit(f"if {self.condition(node.condition)}:")
        with self.indented():
            self.statement(node.yes)
        rest = node.no
        # A chain of else-ifs stays at one depth, for Python limits how deep blocks nest.
        while isinstance(rest, ast.If) and not isinstance(self.known(rest.condition), bool):
            before, code = self.deferred(partial(self.condition, rest.condition))
            if before:
                break
            self.emit(f"elif {code}:")
            with self.indented():
                self.statement(rest.yes)
            rest = rest.no
        if rest is not None:
            self.emit("else:")
            with self.indented():
                self.statement(rest)

    def _switch(self, node: ast.Switch) -> None:
        over_actions = isinstance(node.subject.type, ActionRunType)
        subject = self._action_run(node.subject) if over_actions else self.value(node.subject)
        subject = self.temporary("_a", subject)
        word, labels, default = "if", [], None
        for case in node.cases:
            for label in case.labels:
                if isinstance(label, ast.DefaultExpr):
                    default = case
                else:
                    labels.append(self._label(node, label))
            if case.body is None:
                continue
            if default is not None:
                # The last case: whatever else falls into it needs no test.
                break
            test = f"{subject} == {labels[0]}" if len(labels) == 1 else f"{subject} in ({', '.join(labels)})"
            self.emit(f"{word} {test}:")
            word, labels = "elif", []
            with self.indented():
                self.statement(case.body)
        self._switch_default(node, default, word)

    def _switch_default(self, node: ast.Switch, default: ast.SwitchCase | None, word: str) -> None:
        if default is None:
            return
        bodies = [case.body for case in node.cases[node.cases.index(default) :] if case.body is not None]
        if not bodies:
            return
        if word == "if":
            self.statement(bodies[0])
            return
        self.emit("else:")
        with self.indented():
            self.statement(bodies[0])

    def _action_run(self, node: ast.Expression) -> str:
        if isinstance(node, ast.Member) and isinstance(node.base, ast.Call):
            return f"{self.apply_table(node.base)}.action"
        raise UnsupportedError(node.pos, "action_run of something other than table.apply()")

    def _label(self, node: ast.Switch, label: ast.Expression) -> str:
        subject = node.subject.type
        if isinstance(subject, ActionRunType):
            assert isinstance(label, ast.Name)
            names = [ref.decl for ref in subject.decl.actions]
            return str(names.index(label.decl))  # type: ignore[arg-type]
        return self.value(label)

    def _return(self, node: ast.Return) -> None:
        if not self.frames:
            self.leave(exited=False)
            return
        frame = self.frames[-1]
        if node.value is not None and frame.result:
            value = self.value(node.value)
            copied = f"{value}.copy()" if is_object(underlying(node.value.type)) else value
            self.emit(f"{frame.result} = {copied}")
        if frame.loop:
            self.emit("break")

    def _exit(self) -> None:
        for frame in reversed(self.frames):
            for back in frame.copy_back:
                back()
        self.leave(exited=True)

    # -- bodies written out at the call

    def inline(
        self,
        params: Sequence[ast.Param],
        args: Sequence[ast.Expression | str | None],
        body: ast.Block,
        result: Type,
    ) -> str:
        """Write out a body with its parameters bound; the variable of its result, or "".

        An argument may be code (a str): action data, or what an extern hands to an abstract method.
        """
        frame = Frame(loop=_returns_early(body.statements))
        copies = self.pass_arguments(params, args, frame, body)
        if not isinstance(result, VoidType):
            frame.result = self.temporary("_r", self.unit.shapes.initial(result))
        self.frames.append(frame)
        if frame.loop:
            self.emit("while True:")
            with self.indented():
                self.block(body.statements)
                self.emit("break")
        else:
            self.block(body.statements)
        self.frames.pop()
        for back in copies:
            back()
        return frame.result

    def pass_arguments(
        self,
        params: Sequence[ast.Param],
        args: Sequence[ast.Expression | str | None],
        frame: Frame,
        body: ast.Block,
    ) -> list[Callable[[], None]]:
        """Bind parameters in `env`; what copies back at the end, also kept in `frame` for `exit`."""
        used = self.unit.named_in(body)
        clears: list[str] = []
        bound: list[tuple[ast.Param, str]] = []
        for number, (param, arg) in enumerate(zip(params, args, strict=True)):
            name = self.scope.fresh(identifier(param.name))
            if arg is None:
                self.emit(f"{name} = {self.unit.shapes.initial(param.type)}")
            elif isinstance(arg, str):
                # Action data cannot be assigned to, so a variable of it needs no copy.
                if arg.isidentifier():
                    name = arg
                else:
                    self.emit(f"{name} = {arg}")
            elif isinstance(underlying(param.type), ExternType):
                name = self.value(arg)
            elif is_object(underlying(param.type)):
                others = [
                    other
                    for at, (its, other) in enumerate(zip(params, args, strict=True))
                    if at != number and _meets(param, its)
                ]
                self._pass_object(param, arg, name, _aliased(arg, others, used), frame, clears)
            else:
                self._pass_number(param, arg, name, frame)
            bound.append((param, name))
        for param, name in bound:
            self.env[param] = name
        for line in clears:
            self.emit(line)
        return frame.copy_back

    def _pass_number(self, param: ast.Param, arg: ast.Expression, name: str, frame: Frame) -> None:
        if param.direction in ("", "in"):
            self.emit(f"{name} = {self.value(arg)}")
            return
        place = self.place(arg)
        start = (
            self._current(place, arg) if param.direction == "inout" else self.unit.shapes.initial(param.type)
        )
        self.emit(f"{name} = {start}")
        frame.copy_back.append(lambda: self.store(place, arg, name))

    def _current(self, place: str, target: ast.Expression) -> str:
        return self.value(target) if isinstance(target, ast.Slice) else place

    def _pass_object(
        self,
        param: ast.Param,
        arg: ast.Expression,
        name: str,
        aliased: bool,
        frame: Frame,
        clears: list[str],
    ) -> None:
        writes = param.direction in ("inout", "out")
        place = self.path(arg) if writes else self.value(arg)
        self.emit(f"{name} = {place}.copy()" if aliased else f"{name} = {place}")
        if param.direction == "out":
            clears.append(f"{name}.reset()")
        if aliased and writes:
            frame.copy_back.append(lambda: self.emit(f"{place}.assign({name})"))


def _root(node: ast.Expression | str | None) -> ast.Node | None:
    """The declaration of the variable that an lvalue is a part of."""
    while isinstance(node, ast.Member | ast.Index | ast.Slice):
        node = node.base
    return node.decl if isinstance(node, ast.Name) else None


def _meets(param: ast.Param, other: ast.Param) -> bool:
    """Whether it matters that the object of `param` and the argument of `other` overlap: one of them is written.

    A number that is only read is copied in before anything is written.
    """
    writes = param.direction in ("inout", "out")
    other_writes = other.direction in ("inout", "out")
    return other_writes or (writes and is_object(underlying(other.type)))


def _aliased(
    arg: ast.Expression, others: Sequence[ast.Expression | str | None], used: frozenset[ast.Node | None]
) -> bool:
    """Whether the callee, or another argument, may name a part of the same object."""
    root = _root(arg)
    if root is None:
        return False
    mine = _steps(arg)
    overlaps = (_root(other) is root and all(map(_may_be_same, mine, _steps(other))) for other in others)
    return root in used or any(overlaps)


def _steps(node: ast.Expression | str | None) -> list[str]:
    """The fields from the variable down to the lvalue; any element of a stack may be any other."""
    steps: list[str] = []
    while isinstance(node, ast.Member | ast.Index | ast.Slice):
        if isinstance(node, ast.Member):
            steps.append(node.name)
        elif isinstance(node, ast.Index):
            constant = node.index.const
            steps.append(f"[{constant}]" if isinstance(constant, int) else "[]")
        node = node.base
    return ["[]" if step in ("next", "last") else step for step in reversed(steps)]


def _may_be_same(step: str, other: str) -> bool:
    return step == other or (step[0] == other[0] == "[" and "[]" in (step, other))


def _returns_early(statements: Sequence[ast.Statement]) -> bool:
    """Whether a `return` in the body is followed by something that it must skip."""
    if not statements:
        return False
    if any(isinstance(node, ast.Return) for one in statements[:-1] for node in ast.walk(one)):
        return True
    match statements[-1]:
        case ast.Block() as last:
            return _returns_early(last.statements)
        case ast.If() as last:
            branches = [last.yes] if last.no is None else [last.yes, last.no]
            return any(_returns_early([branch]) for branch in branches)
        case ast.Switch() as last:
            return any(_returns_early([case.body]) for case in last.cases if case.body is not None)
    return False
