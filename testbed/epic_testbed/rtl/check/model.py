"""What a check is, and what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

LEVELS = ("test", "verify")

Figures = dict[str, Any]


class Kind(StrEnum):
    """How a check looks at the design."""

    LINT = "lint"
    BENCH = "bench"
    PROOF = "proof"
    MUTANT = "mutant"
    SYNTH = "synth"


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 (the word, no secret)
    FAIL = "fail"
    TIMEOUT = "timeout"
    MISSING = "missing"


class CheckFailed(Exception):
    """The design is not as the check wants it. `figures` are those that were found all the same; `look` says which
    command shows more, with files of the check's folder as `{folder}/NAME`."""

    def __init__(self, message: str, figures: Mapping[str, Any] | None = None, look: str = "") -> None:
        super().__init__(message)
        self.figures: Figures = dict(figures or {})
        self.look = look


class ToolMissing(Exception):
    """A program or package is not there; the message says how to get it."""


class DeadlinePassed(Exception):
    """The check took longer than it may."""


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended: exit code (negative: by a signal) and its output, both streams together."""

    code: int
    output: str

    def tail(self, lines: int = 6) -> str:
        """The last lines that say something."""
        return "\n".join([line for line in self.output.splitlines() if line.strip()][-lines:])


class Context(Protocol):
    """What a check works with."""

    folder: Path  # its own, empty at first; kept when it fails

    async def execute(
        self, command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Done:
        """Run a process to its end, in `folder` unless `cwd` says otherwise; `env` is added to the environment."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `work` raises CheckFailed or ToolMissing, or gives the figures."""

    name: str
    kind: Kind
    level: str
    deadline: float
    work: Callable[[Context], Awaitable[Figures]]


@dataclass(slots=True)
class Result:
    """What came of a check."""

    check: Check
    outcome: Outcome
    seconds: float
    figures: Figures = field(default_factory=dict)
    message: str = ""
    folder: str = ""  # what is kept of a failure
    look: str = ""  # the command that shows it

    @property
    def ok(self) -> bool:
        """Whether the check is fulfilled."""
        return self.outcome is Outcome.PASS

    def to_dict(self) -> dict[str, Any]:
        """The row of `--json`."""
        row: dict[str, Any] = {
            "name": self.check.name,
            "kind": self.check.kind.value,
            "result": self.outcome.value,
            "seconds": round(self.seconds, 2),
            "figures": self.figures,
        }
        for key in ("message", "folder", "look"):
            if value := getattr(self, key):
                row[key] = value
        return row
