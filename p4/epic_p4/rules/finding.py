"""What a rule found."""

from __future__ import annotations

from typing import NamedTuple

from epic_p4.errors import Pos


class Finding(NamedTuple):
    """A place of the source that breaks a rule. `what` is one line: the thing, what it does, what is allowed."""

    rule: str
    pos: Pos
    what: str

    def __str__(self) -> str:
        return f"{self.pos}: {self.what} [{self.rule}]"
