"""Parser states and transitions."""

from __future__ import annotations

from epic_p4 import ast
from epic_p4.check.context import Context, Place
from epic_p4.check.expressions import Expressions
from epic_p4.check.scope import did_you_mean
from epic_p4.check.statements import Statements, key_parts
from epic_p4.errors import SourceError, counted

_FINAL = frozenset({"accept", "reject"})


class Parsers:
    """Checks the states of a parser in place."""

    def __init__(self, context: Context, expressions: Expressions, statements: Statements) -> None:
        self.context = context
        self.expressions = expressions
        self.statements = statements

    def states(self, parser: ast.ParserDecl) -> None:
        """All states; the locals of the parser are in scope already."""
        for name, state in parser.states.items():
            if name in _FINAL:
                raise SourceError(state.pos, f"state {name}: a state of this name exists already")
        if "start" not in parser.states:
            raise SourceError(parser.pos, f"parser {parser.name}: no state start, expected one")
        for state in parser.states.values():
            with self.context.at(Place.PARSER), self.context.scopes.nested():
                self.statements.statements(state.statements)
                with self.context.collecting():
                    self._transition(parser, state)

    def _transition(self, parser: ast.ParserDecl, state: ast.ParserState) -> None:
        if isinstance(state.transition, ast.StateRef):
            self._target(parser, state.transition)
            return
        select = state.transition
        select.subjects = [self.expressions.run_time(one, "select") for one in select.subjects]
        for subject in select.subjects:
            self.statements.match_type(subject.type, subject, "select")
        default: ast.SelectCase | None = None
        for case in select.cases:
            with self.context.collecting():
                if default is not None:
                    raise SourceError(
                        case.pos, f"case of select: comes after default at {default.pos}, never matches"
                    )
                self._case(select, case)
                if all(isinstance(key, ast.DefaultExpr) for key in case.keys):
                    default = case
                self._target(parser, case.target)

    def _case(self, select: ast.Select, case: ast.SelectCase) -> None:
        count = len(select.subjects)
        if len(case.keys) == 1 and count > 1 and isinstance(case.keys[0], ast.DefaultExpr):
            case.keys = [ast.DefaultExpr(case.pos) for _ in select.subjects]
        if len(case.keys) != count:
            raise SourceError(case.pos, f"case of select: {counted(len(case.keys), 'key')}, expected {count}")
        case.keys = [
            self.statements.key_set(key, subject.type, "case of select")
            for key, subject in zip(case.keys, select.subjects, strict=True)
        ]
        for part in (part for key in case.keys for part in key_parts(key)):
            if part.const is None and not self.expressions.from_constructor(part):
                raise SourceError(part.pos, "case of select: not known at compile time, expected a constant")

    def _target(self, parser: ast.ParserDecl, ref: ast.StateRef) -> None:
        if ref.name in _FINAL:
            return
        ref.state = parser.states.get(ref.name)
        if ref.state is None:
            hint = did_you_mean(ref.name, [*parser.states, *_FINAL])
            raise SourceError(ref.pos, f"state {ref.name}: not declared in parser {parser.name}{hint}")
