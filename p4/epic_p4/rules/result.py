"""What `epic check p4` found out about a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from epic_p4.rules.checks import Rule
from epic_p4.rules.compilers import Outcome
from epic_p4.rules.estimate import Estimate
from epic_p4.rules.finding import Finding


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The compiled files kept beside the sources; `asked` is false where the program keeps none."""

    asked: bool = False
    found: Sequence[str] = ()
    problems: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """What to say of them."""
        if not self.asked:
            return
        yield from self.problems
        if not self.problems and self.found:
            yield f"{', '.join(self.found)} carry the hash of these sources"
        if not self.found:
            yield "no artifacts: nothing to compare"


@dataclass(frozen=True, slots=True)
class Trial:
    """One value of WORDS."""

    words: int
    estimate: Estimate | None
    problems: list[str]


@dataclass(slots=True)
class ProgramResult:
    """One program. `estimate` is None for an architecture without stages."""

    name: str
    file: str
    arch: str
    rules: list[tuple[Rule, list[Finding]]] = field(default_factory=list)
    estimate: Estimate | None = None
    trials: list[Trial] = field(default_factory=list)
    compilers: list[Outcome] = field(default_factory=list)
    artifacts: Artifacts = Artifacts()

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return (
            not any(findings for _, findings in self.rules)
            and (self.estimate is None or not self.estimate.problems)
            and all(one.good for one in self.compilers)
            and not self.artifacts.problems
        )
