"""Names by scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from epic_p4 import ast
from epic_p4.errors import NOWHERE, Pos, SourceError
from epic_p4.types import Type

Entry: TypeAlias = "ast.Node | Type"
"""A declaration, or a type parameter's Type."""


class Poisoned(SourceError):
    """A use of something whose own declaration is wrong: that has been reported already."""


class Scopes:
    """A stack of name tables; the first is the top level."""

    def __init__(self) -> None:
        self.tables: list[dict[str, Entry]] = [{}]
        self.poisoned: set[str] = set()
        self.in_progress: set[str] = set()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A scope that ends with the `with` block."""
        self.tables.append({})
        try:
            yield
        finally:
            self.tables.pop()

    def declare(self, name: str, entry: Entry, pos: Pos) -> None:
        """Add a name to the innermost scope; a second declaration of it is an error."""
        table = self.tables[-1]
        if name in table:
            first = table[name]
            where = f", first at {first.pos}" if isinstance(first, ast.Node) and first.pos != NOWHERE else ""
            raise SourceError(pos, f"{name}: declared twice{where}")
        for outer in self.tables[1:-1]:
            if isinstance(outer.get(name), ast.Param) and not isinstance(entry, ast.Param):
                raise SourceError(pos, f"{name}: hides the parameter of this name, expected another name")
        table[name] = entry

    def find(self, name: str, *, top: bool = False) -> Entry | None:
        """The innermost entry of this name (`top`: of the top level), or None."""
        for table in self.tables[:1] if top else reversed(self.tables):
            if name in table:
                return table[name]
        return None

    def look_up(self, name: str, pos: Pos, what: str, *, top: bool = False) -> Entry:
        """As `find`, but an unknown name is an error that says `what` was expected."""
        entry = self.find(name, top=top)
        if entry is None:
            if name in self.poisoned:
                raise Poisoned(pos, f"{name}: its declaration is wrong")
            if name in self.in_progress:
                raise SourceError(pos, f"{name}: refers to itself, and P4 has no recursion")
            raise SourceError(pos, f"{name}: not declared, expected {what}{self.hint(name)}")
        return entry

    def hint(self, name: str) -> str:
        """`; did you mean …?` for a name close to one in scope."""
        return did_you_mean(name, [one for table in self.tables for one in table])


def did_you_mean(name: str, known: list[str]) -> str:
    """A hint for a misspelt name, or nothing."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""
