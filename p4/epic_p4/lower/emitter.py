"""Lines of one Python function, and the order in which its expressions are evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from epic_p4.errors import Pos
from epic_p4.lower.names import Scope

_LITERAL = re.compile(r"-?(0x[0-9a-f]+|\d+|True|False)$")

MAX_INDENT = 90
"""Python refuses 100."""


class Emitter:
    """Collects lines; `fresh` gives names that the function does not use yet."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope = Scope()
        self._depth = 1
        self._shown: tuple[str, int] = ("", 0)

    def emit(self, line: str) -> None:
        """One more line."""
        self.lines.append("    " * self._depth + line)

    def at(self, pos: Pos) -> None:
        """Say in a comment where the next lines come from."""
        if (pos.file, pos.line) != self._shown:
            self._shown = (pos.file, pos.line)
            self.emit(f"# {pos.file}:{pos.line}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """The block of an `if`, `while`, …; an empty one gets `pass`."""
        self._depth += 1
        start = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[start:]):
            self.emit("pass")
        self._depth -= 1

    @property
    def depth(self) -> int:
        """How deep the next line is indented."""
        return self._depth

    def temporary(self, name: str, code: str) -> str:
        """A new variable with the value of `code`."""
        made = self.scope.fresh(name)
        self.emit(f"{made} = {code}")
        return made

    def in_order(self, operands: Sequence[Callable[[], str]]) -> list[str]:
        """The code of operands that must be evaluated from left to right.

        What an operand writes as statements would run before the code of those left of it: these are kept in
        variables first.
        """
        codes: list[str] = []
        for operand in operands:
            start = len(self.lines)
            code = operand()
            if len(self.lines) > start:
                own = self.lines[start:]
                del self.lines[start:]
                codes = [one if is_literal(one) else self.temporary("_t", one) for one in codes]
                self.lines += own
            codes.append(code)
        return codes

    def deferred(self, operand: Callable[[], str]) -> tuple[list[str], str]:
        """The statements (for a block one deeper) and the code of an operand that may not be evaluated at all."""
        start = len(self.lines)
        self._depth += 1
        code = operand()
        self._depth -= 1
        own = self.lines[start:]
        del self.lines[start:]
        return own, code


def is_literal(code: str) -> bool:
    """Whether the code is a number, True or False."""
    return _LITERAL.match(code) is not None
