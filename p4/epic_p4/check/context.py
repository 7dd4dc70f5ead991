"""What the parts of the checker share."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from epic_p4 import ast, types
from epic_p4.check.scope import Poisoned, Scopes
from epic_p4.errors import Pos, SourceError
from epic_p4.types import Type, TypeVariable


class Place(enum.Enum):
    """What kind of code is being checked; its value is the word for messages."""

    TOP = "the top level"
    PARSER = "a parser"
    CONTROL = "a control's apply"
    ACTION = "an action"
    FUNCTION = "a function"
    METHOD = "a method"
    TABLE = "a table"


class Context:
    """Names, errors found so far, and where the checker is."""

    def __init__(self) -> None:
        self.scopes = Scopes()
        self.types: dict[str, Type] = {"bool": types.BOOL, "error": types.ERROR}
        self.error_members: dict[str, int] = {}
        self.match_kinds: dict[str, ast.MatchKindDecl] = {}
        self.failures: list[SourceError] = []
        self.place = Place.TOP
        self.result: Type = types.VOID
        self.synthesized: list[ast.Instantiation] = []
        self.constructor_params: set[ast.Param] = set()
        self._owners = itertools.count()

    @contextmanager
    def at(self, place: Place, result: Type = types.VOID) -> Iterator[None]:
        """Within the `with` block the code is of this kind and returns `result`."""
        before = self.place, self.result
        self.place, self.result = place, result
        try:
            yield
        finally:
            self.place, self.result = before

    @contextmanager
    def collecting(self, name: str | None = None) -> Iterator[None]:
        """Errors in the `with` block are noted and the rest goes on; `name` is what is not declared then."""
        try:
            yield
        except Poisoned:
            if name is not None:
                self.scopes.poisoned.add(name)
        except SourceError as error:
            self.failures.append(error)
            if name is not None:
                self.scopes.poisoned.add(name)

    def type_variables(self, names: list[str], pos: Pos) -> dict[str, TypeVariable]:
        """Fresh type variables for a list of type parameters."""
        for name in names:
            if names.count(name) > 1:
                raise SourceError(pos, f"type parameter {name}: declared twice")
        return {name: TypeVariable(name, next(self._owners)) for name in names}
