"""A control as units and the paths between them.

A unit is what a stage holds: a table, the condition of an `if`, or a statement of an apply block (a table without
key). Controls that a control applies are put in place of their application. A site is a place in the flow where a
unit runs; a table applied in two branches is one unit with two sites. Sites only lead to later ones.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from epic_p4 import ast
from epic_p4.errors import Pos
from epic_p4.rules.effects import Effect, Use, action_scope, calls, effects, reads
from epic_p4.rules.fields import NO_FIELDS, Fields, Place, Scope, World, resolve, union
from epic_p4.rules.text import start


class Gress(enum.StrEnum):
    """Which half of the pipe."""

    INGRESS = "ingress"
    EGRESS = "egress"


class Kind(enum.StrEnum):
    """What a unit is."""

    TABLE = "table"
    CONDITION = "condition"
    STATEMENT = "statement"


@dataclass(slots=True)
class Alternative:
    """One of the actions of a table, or the only behaviour of another unit."""

    name: str
    effects: list[Effect]
    decl: ast.ActionDecl | None = None
    scope: Scope | None = None
    on_hit: bool = True
    on_miss: bool = True

    def uses(self) -> Iterator[Use]:
        """The touches of stateful objects."""
        for effect in self.effects:
            yield from effect.uses


@dataclass(eq=False, slots=True)
class Unit:
    """What a stage holds. `run` numbers the straight stretches of statements: those of one run that share a stage
    share a logical table. `terms` is the condition of a condition."""

    name: str
    kind: Kind
    gress: Gress
    pos: Pos
    scope: Scope
    alternatives: list[Alternative]
    key: Fields = NO_FIELDS
    table: ast.TableInstance | None = None
    condition: ast.Expression | None = None
    cases: int = 0
    run: int = -1

    @property
    def inputs(self) -> Fields:
        """The bits that pass through the crossbar."""
        return union([self.key, *(one.inputs for option in self.alternatives for one in option.effects)])

    @property
    def operands(self) -> Fields:
        """The bits that action ALUs take."""
        return union(one.operands for option in self.alternatives for one in option.effects)

    @property
    def writes(self) -> Fields:
        """The bits it may write."""
        return union(one.writes for option in self.alternatives for one in option.effects)

    def uses(self) -> list[Use]:
        """Every touch of a stateful object, in the order of the source."""
        return [use for option in self.alternatives for use in option.uses()]


Branch = frozenset[int] | None
"""Numbers of the alternatives with which a site leads on; None for any."""


@dataclass(eq=False, slots=True)
class Site:
    """A place where a unit runs. `controls` are the sites that decide whether it does."""

    number: int
    unit: Unit
    pos: Pos
    controls: tuple[Site, ...]
    next: list[tuple[Site, Branch]] = field(default_factory=list)
    before: list[Site] = field(default_factory=list)


Frontier = list[tuple[Site, Branch]]


@dataclass(slots=True)
class Flow:
    """Units and sites of one gress, in program order."""

    gress: Gress
    units: list[Unit] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    world: World = field(default_factory=World)

    def reachable(self) -> list[int]:
        """For each site the later ones that a packet may reach from it, as a bit mask."""
        masks = [0] * len(self.sites)
        for site in reversed(self.sites):
            for after, _ in site.next:
                masks[site.number] |= masks[after.number] | 1 << after.number
        return masks


def build(
    gress: Gress,
    control: ast.Instance,
    places: dict[ast.Node, Place],
    top: Mapping[ast.Node, ast.Instance],
) -> Flow:
    """The flow of a gress's main control; `places` bind its parameters, `top` are the objects of the top level."""
    builder = _Builder(Flow(gress, world=World(top=top)))
    scope = Scope(control, places, builder.flow.world)
    builder.control(scope, [])
    return builder.flow


class _Builder:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._tables: dict[ast.TableInstance, Unit] = {}
        self._controls: list[Site] = []
        self._returned: list[Frontier] = [[]]
        self._left = 0  # how many return and exit statements were met
        self._run = 0

    def control(self, scope: Scope, frontier: Frontier) -> Frontier:
        decl = scope.instance.decl
        assert isinstance(decl, ast.ControlDecl)
        scope.world.scopes[scope.instance] = scope
        depth = len(self._controls)
        self._returned.append([])
        self._run += 1
        for local in decl.locals:
            if isinstance(local, ast.VarDecl):
                frontier = self._statement(local, scope, frontier)
        frontier = self._block(decl.body, scope, frontier)
        del self._controls[depth:]
        self._run += 1
        return frontier + self._returned.pop()

    # -- statements

    def _block(self, block: ast.Block, scope: Scope, frontier: Frontier) -> Frontier:
        for one in block.statements:
            frontier = self._any(one, scope, frontier)
        return frontier

    def _any(self, statement: ast.Statement, scope: Scope, frontier: Frontier) -> Frontier:
        match statement:
            case ast.Block():
                return self._block(statement, scope, frontier)
            case ast.If():
                return self._if(statement, scope, frontier)
            case ast.Switch():
                return self._switch(statement, scope, frontier)
            case ast.Return():
                self._left += 1
                self._returned[-1].extend(frontier)
                return []
            case ast.Exit():
                self._left += 1
                return []
            case ast.CallStatement(call=call):
                if call.kind is ast.CallKind.TABLE_APPLY:
                    site = self._apply(call, scope, frontier)
                    return [(site, None)]
                if call.kind is ast.CallKind.CONTROL_APPLY:
                    return self._inline(call, scope, frontier)
                return self._statement(statement, scope, frontier)
            case ast.Assign(value=value) | ast.VarDecl(value=value) if value is not None and _is_choice(
                value
            ):
                return self._choice(statement, _bare(value), scope, frontier)
            case _:
                return self._statement(statement, scope, frontier)

    def _statement(self, statement: ast.Statement, scope: Scope, frontier: Frontier) -> Frontier:
        applied = [call for call in calls(statement) if call.kind is ast.CallKind.TABLE_APPLY]
        for call in applied:
            frontier = [(self._apply(call, scope, frontier), None)]
        found = [one for one in effects(statement, scope) if one.writes or one.uses]
        action = _called_action(statement)
        if action is not None and found:
            # All of an action happens at once.
            unit = Unit(
                action.name,
                Kind.STATEMENT,
                self.flow.gress,
                statement.pos,
                scope,
                [Alternative(action.name, list(effects(statement, scope)), action)],
                run=self._run,
            )
            self.flow.units.append(unit)
            return [(self._site(unit, statement.pos, frontier), None)]
        for effect in found:
            unit = Unit(
                _describe(effect),
                Kind.STATEMENT,
                self.flow.gress,
                effect.pos,
                scope,
                [Alternative("", [effect], scope=effect.scope)],
                run=self._run,
            )
            self.flow.units.append(unit)
            frontier = [(self._site(unit, effect.pos, frontier), None)]
        return frontier

    def _choice(
        self, statement: ast.Statement, value: ast.Expression, scope: Scope, frontier: Frontier
    ) -> Frontier:
        """`x = c ? a : b` and `x = a < b`: a condition, then a statement in each branch."""
        condition = value.condition if isinstance(value, ast.Ternary) else value
        site = self._condition(condition, scope, frontier)
        self._run += 1
        effect = next(iter(effects(statement, scope)))
        effect.operands = union(
            reads(one, scope) for one in ((value.yes, value.no) if isinstance(value, ast.Ternary) else ())
        )
        unit = Unit(
            _describe(effect),
            Kind.STATEMENT,
            self.flow.gress,
            statement.pos,
            scope,
            [Alternative("", [effect], scope=scope)],
            run=self._run,
        )
        self.flow.units.append(unit)
        self._controls.append(site)
        after = self._site(unit, statement.pos, [(site, None)])
        self._controls.pop()
        self._run += 1
        return [(after, None)]

    def _if(self, statement: ast.If, scope: Scope, frontier: Frontier) -> Frontier:
        known = statement.condition.const
        if isinstance(known, bool):
            if known:
                return self._any(statement.yes, scope, frontier)
            return frontier if statement.no is None else self._any(statement.no, scope, frontier)
        outcome = _table_outcome(statement.condition)
        if outcome is not None:
            call, hit = outcome
            site = self._apply(call, scope, frontier)
            yes, no = _split(site.unit, hit)
        else:
            for call in calls(statement.condition):
                if call.kind is ast.CallKind.TABLE_APPLY:
                    frontier = [(self._apply(call, scope, frontier), None)]
            site, yes, no = self._condition(statement.condition, scope, frontier), None, None
        left = self._left
        self._controls.append(site)
        self._run += 1
        ends = self._any(statement.yes, scope, [(site, yes)])
        self._run += 1
        ends += [(site, no)] if statement.no is None else self._any(statement.no, scope, [(site, no)])
        self._run += 1
        # What follows a branch that may have returned depends on the condition too.
        if self._left == left:
            self._controls.pop()
        return ends

    def _switch(self, statement: ast.Switch, scope: Scope, frontier: Frontier) -> Frontier:
        call = _action_run(statement.subject)
        if call is not None:
            site = self._apply(call, scope, frontier)
        else:
            site = self._condition(statement.subject, scope, frontier, cases=len(statement.cases))
        unit = site.unit
        left = self._left
        self._controls.append(site)
        rest = set(range(len(unit.alternatives)))
        ends: Frontier = []
        labels: list[ast.Expression] = []
        default: ast.SwitchCase | None = None
        for case in statement.cases:
            labels += case.labels
            if case.body is None:
                continue
            if any(isinstance(one, ast.DefaultExpr) for one in labels):
                default = case
            else:
                chosen = _labelled(unit, labels) if call is not None else None
                rest -= chosen or set()
                self._run += 1
                ends += self._block(case.body, scope, [(site, None if chosen is None else frozenset(chosen))])
            labels = []
        branch = frozenset(rest) if call is not None else None
        self._run += 1
        if default is not None and default.body is not None:
            ends += self._block(default.body, scope, [(site, branch)])
        elif rest:
            ends.append((site, branch))
        self._run += 1
        if self._left == left:
            self._controls.pop()
        return ends

    # -- units

    def _site(self, unit: Unit, pos: Pos, frontier: Frontier) -> Site:
        site = Site(len(self.flow.sites), unit, pos, tuple(self._controls))
        self.flow.sites.append(site)
        for before, branch in frontier:
            before.next.append((site, branch))
            site.before.append(before)
        return site

    def _condition(self, condition: ast.Expression, scope: Scope, frontier: Frontier, cases: int = 0) -> Site:
        unit = Unit(
            f"if {PurePath(condition.pos.file).name}:{condition.pos.line}",
            Kind.CONDITION,
            self.flow.gress,
            condition.pos,
            scope,
            [Alternative("", [])],
            key=reads(condition, scope),
            condition=condition,
            cases=cases,
        )
        self.flow.units.append(unit)
        return self._site(unit, condition.pos, frontier)

    def _apply(self, call: ast.Call, scope: Scope, frontier: Frontier) -> Site:
        self._run += 1
        assert isinstance(call.callee, ast.Member)
        name = call.callee.base
        decl = name.decl if isinstance(name, ast.Name) else None
        assert isinstance(decl, ast.TableDecl)
        instance = scope.instance.tables[decl]
        unit = self._tables.get(instance)
        if unit is None:
            unit = self._table(instance, decl, scope)
            self._tables[instance] = unit
            self.flow.units.append(unit)
        return self._site(unit, start(call), frontier)

    def _table(self, instance: ast.TableInstance, decl: ast.TableDecl, scope: Scope) -> Unit:
        default = decl.default_action
        options: list[Alternative] = []
        for reference in decl.actions:
            action = reference.decl
            if action is None:
                continue
            inner = action_scope(action, reference.args, scope)
            is_default = default is not None and default.decl is action
            options.append(
                Alternative(
                    action.name,
                    list(effects(action.body, inner)),
                    action,
                    inner,
                    on_hit=bool(decl.key) and not reference.default_only,
                    on_miss=is_default or (not decl.const_default and not reference.table_only),
                )
            )
        if (
            default is None
            or default.decl is None
            or all(one.decl is not default.decl for one in decl.actions)
        ):
            options.append(Alternative("NoAction", [], on_hit=False))
        key = union(reads(element.expression, scope) for element in decl.key)
        return Unit(
            instance.name, Kind.TABLE, self.flow.gress, decl.pos, scope, options, key=key, table=instance
        )

    def _inline(self, call: ast.Call, scope: Scope, frontier: Frontier) -> Frontier:
        assert isinstance(call.callee, ast.Member)
        instance = scope.object(call.callee.base)
        assert instance is not None and isinstance(instance.decl, ast.ControlDecl)
        places: dict[ast.Node, Place] = {}
        copies: list[Effect] = []
        for param, argument in zip(instance.decl.params, call.args, strict=False):
            place = resolve(argument, scope) if argument is not None else None
            if place is None:
                place = Place(f"{instance.name}.{param.name}", param.type)
                if argument is not None and argument.const is None:
                    copies.append(
                        Effect(
                            argument.pos,
                            operands=reads(argument, scope),
                            writes=place.fields(),
                            scope=scope,
                        )
                    )
            places[param] = place
        for effect in copies:
            unit = Unit(
                "argument",
                Kind.STATEMENT,
                self.flow.gress,
                effect.pos,
                scope,
                [Alternative("", [effect], scope=scope)],
                run=self._run,
            )
            self.flow.units.append(unit)
            frontier = [(self._site(unit, effect.pos, frontier), None)]
        return self.control(Scope(instance, places, scope.world), frontier)


# -- shapes of statements and expressions


def _called_action(statement: ast.Statement) -> ast.ActionDecl | None:
    if isinstance(statement, ast.CallStatement) and isinstance(statement.call.decl, ast.ActionDecl):
        return statement.call.decl
    return None


def _bare(expression: ast.Expression) -> ast.Expression:
    while isinstance(expression, ast.Cast):
        expression = expression.operand
    return expression


def _is_choice(value: ast.Expression) -> bool:
    bare = _bare(value)
    if value.const is not None:
        return False
    return isinstance(bare, ast.Ternary) or (
        isinstance(bare, ast.Binary) and bare.op in ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
    )


def _table_outcome(condition: ast.Expression) -> tuple[ast.Call, bool] | None:
    """`t.apply().hit`, `.miss` and their negations: the call, and whether true means hit."""
    if isinstance(condition, ast.Unary) and condition.op == "!":
        inner = _table_outcome(condition.operand)
        return inner and (inner[0], not inner[1])
    if isinstance(condition, ast.Member) and isinstance(condition.base, ast.Call):
        if condition.kind is ast.MemberKind.HIT:
            return condition.base, True
        if condition.kind is ast.MemberKind.MISS:
            return condition.base, False
    return None


def _action_run(subject: ast.Expression) -> ast.Call | None:
    if isinstance(subject, ast.Member) and subject.kind is ast.MemberKind.ACTION_RUN:
        base = subject.base
        return base if isinstance(base, ast.Call) else None
    return None


def _split(unit: Unit, hit: bool) -> tuple[Branch, Branch]:
    on_hit = frozenset(number for number, one in enumerate(unit.alternatives) if one.on_hit)
    on_miss = frozenset(number for number, one in enumerate(unit.alternatives) if one.on_miss)
    return (on_hit, on_miss) if hit else (on_miss, on_hit)


def _labelled(unit: Unit, labels: Sequence[ast.Expression]) -> set[int]:
    decls = {label.decl for label in labels if isinstance(label, ast.Name)}
    return {number for number, one in enumerate(unit.alternatives) if one.decl in decls}


def _describe(effect: Effect) -> str:
    for use in effect.uses:
        return (use.action or use.object).name
    return f"set {next(iter(sorted(effect.writes)), 'nothing')}"
