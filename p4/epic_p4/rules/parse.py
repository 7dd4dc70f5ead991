"""What a parser extracts and sets, and which headers one path through it can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from epic_p4 import ast
from epic_p4.rules.effects import Effect, effects
from epic_p4.rules.fields import VALID, Place, Scope, resolve


class Parser:
    """A parser with the names of its caller. The parsers that it applies are walked through."""

    def __init__(self, instance: ast.Instance, scope: Scope) -> None:
        assert isinstance(instance.decl, ast.ParserDecl)
        self.decl = instance.decl
        self.scope = scope

    def effects(self) -> list[Effect]:
        """What all its states write."""
        return [effect for state in self.decl.states.values() for effect in self._state(state)]

    def heaviest(self, weights: Mapping[str, int]) -> frozenset[str]:
        """The headers of the path that extracts the most, each header (by path) with its weight."""
        start = self.decl.states.get("start")
        return self._from(start, weights, {}) if start is not None else frozenset()

    def _from(
        self,
        state: ast.ParserState,
        weights: Mapping[str, int],
        known: dict[ast.ParserState, frozenset[str]],
    ) -> frozenset[str]:
        if state in known:
            return known[state]
        known[state] = frozenset()  # a loop adds nothing: it extracts the same places again
        behind = [self._from(one, weights, known) for one in _next(state)]
        heaviest = max(behind, key=lambda one: sum(weights.get(path, 0) for path in one), default=frozenset())
        known[state] = heaviest | self._own(state, weights)
        return known[state]

    def _own(self, state: ast.ParserState, weights: Mapping[str, int]) -> frozenset[str]:
        found: set[str] = set()
        for statement in state.statements:
            inner = self._applied(statement)
            if inner is not None:
                found |= inner.heaviest(weights)
                continue
            for effect in _extracted(statement, self.scope):
                found |= {leaf.removesuffix(f".{VALID}") for leaf in effect.writes if leaf.endswith(VALID)}
        return frozenset(found)

    def _state(self, state: ast.ParserState) -> Iterator[Effect]:
        for statement in state.statements:
            inner = self._applied(statement)
            if inner is not None:
                yield from inner.effects()
                continue
            yield from effects(statement, self.scope)
            yield from _extracted(statement, self.scope)

    def _applied(self, statement: ast.Statement) -> Parser | None:
        """The parser that a statement applies."""
        if (
            not isinstance(statement, ast.CallStatement)
            or statement.call.kind is not ast.CallKind.PARSER_APPLY
        ):
            return None
        call = statement.call
        instance = self.scope.object(call.callee.base) if isinstance(call.callee, ast.Member) else None
        if instance is None or not isinstance(instance.decl, ast.ParserDecl):
            return None
        places: dict[ast.Node, Place] = {}
        for param, argument in zip(instance.decl.params, call.args, strict=False):
            place = resolve(argument, self.scope) if argument is not None else None
            if place is not None:
                places[param] = place
        return Parser(instance, Scope(instance, places, self.scope.world))


def _next(state: ast.ParserState) -> list[ast.ParserState]:
    transition = state.transition
    targets = (
        [transition] if isinstance(transition, ast.StateRef) else [one.target for one in transition.cases]
    )
    return [one.state for one in targets if one.state is not None]


def _extracted(statement: ast.Statement, scope: Scope) -> Iterator[Effect]:
    """`extract` makes headers valid, which its declaration does not say."""
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call) or not isinstance(call.callee, ast.Member):
            continue
        if call.callee.name != "extract":
            continue
        for argument in call.args:
            place = resolve(argument, scope) if argument is not None else None
            if place is None and isinstance(argument, ast.Member):
                # stack.next: any of its elements.
                place = resolve(argument.base, scope)
            if place is not None:
                yield Effect(statement.pos, writes=place.fields())
