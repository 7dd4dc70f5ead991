"""Source positions, and the errors that carry one."""

from __future__ import annotations

from typing import NamedTuple

from epic_spec.errors import ConfigError


class Pos(NamedTuple):
    """Where something starts in the source, before preprocessing; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Pos("<built-in>", 1, 1)
"""The position of what no source declares."""


class SourceError(ConfigError):
    """P4 source that is wrong. One line: `file:line:column: what, expected`.

    `others` are the further errors found in the same run of the checker, in the order of the source.
    """

    def __init__(self, pos: Pos, message: str) -> None:
        super().__init__(f"{pos}: {message}")
        self.pos = pos
        self.message = message
        self.others: tuple[SourceError, ...] = ()


def counted(number: int, word: str) -> str:
    """`1 key`, `2 keys`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


class UnsupportedError(SourceError):
    """P4 source that is right but outside the subset (see `subset.md`); the message names the construct."""

    def __init__(self, pos: Pos, construct: str) -> None:
        super().__init__(pos, f"{construct}: not supported")
        self.construct = construct
