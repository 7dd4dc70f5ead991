"""What a run found, as data: a result for each case, and from these a verdict for each clause.

A clause fails when one of its cases failed, and passes when one passed and none failed. It is not applicable only when
all its cases are: because of the clause's own capability, which the device does not offer, or because of the binding
`udp`, where the host's IP stack stands between the suite and the device. Any other MUST that was not shown has failed.
"""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from epic_spec.tables import CLAUSES, Clause
from epic_testbed.conformance.case import Case, Unmet
from epic_testbed.conformance.guard import Frame
from epic_testbed.dut import DutTraits

SUBJECTS = {"engine": ("engine", "both"), "agent": ("agent", "both")}
UDP_REASON = "binding = udp: the host's IP stack does it"


class Status(StrEnum):
    """How a case or clause ended."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    NA = "na"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A step of a case: `kind` is "->" to the device, "<-" from it, "wait", "expect" or "skip" (lines left out)."""

    time: float
    who: str
    kind: str
    text: str
    frame: bytes | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended. `expected` and `arrived` are lines of decoded frames, `notes` what else the case says."""

    case: Case
    status: Status
    seed: int
    seconds: float = 0.0
    reason: str = ""
    expected: tuple[str, ...] = ()
    arrived: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: tuple[LogLine, ...] = ()
    frames: tuple[Frame, ...] = ()
    unmet: tuple[Unmet, ...] = ()

    @property
    def pcap(self) -> str | None:
        """Where the report has its frames: a case that failed has a capture when any frame crossed."""
        if self.status is not Status.FAIL or not self.frames:
            return None
        return f"pcap/{self.case.name.replace('/', '.')}.pcap"


@dataclass(frozen=True, slots=True)
class ClauseResult:
    """The verdict on a clause. `known` is how many cases the suite has for it, more than `cases` when filtered."""

    id: str
    status: Status
    reason: str
    cases: tuple[tuple[str, Status], ...]
    known: int

    @property
    def clause(self) -> Clause:
        """What the specification says."""
        return CLAUSES[self.id]

    @property
    def not_shown(self) -> bool:
        """It failed although none of its cases did."""
        return self.status is Status.FAIL and all(s is Status.NA for _, s in self.cases)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for: device, mode, filters, seed, and the words that make the same device again."""

    dut: str
    mode: int
    seed: int = 0
    pattern: str | None = None
    clause: str | None = None
    deviations: str | None = None
    adapter: tuple[str, ...] = ()

    @property
    def filtered(self) -> bool:
        """Whether only some cases were asked for."""
        return self.pattern is not None or self.clause is not None

    def command(self, case: str | None = None) -> str:
        """The command line of this run, or of one of its cases."""
        words = ["epic", "conformance", "--dut", self.dut, "--mode", str(self.mode), *self.adapter]
        pattern, clause = (case, None) if case else (self.pattern, self.clause)
        words += ["--case", pattern] if pattern else []
        words += ["--clause", clause] if clause else []
        words += ["--deviations", self.deviations] if self.deviations else []
        return shlex.join([*words, "--seed", str(self.seed)])


@dataclass(slots=True)
class Run:
    """Everything about a run, for the reports. `started` is ISO 8601, `broken` why cases were not tried any more."""

    request: Request
    side: str
    traits: DutTraits
    started: str
    results: list[CaseResult] = field(default_factory=list)
    clauses: list[ClauseResult] = field(default_factory=list)
    uncovered: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    seconds: float = 0.0
    broken: str = ""

    def count(self, status: Status) -> int:
        """Cases that ended so."""
        return sum(r.status is status for r in self.results)

    @property
    def ok(self) -> bool:
        """Whether no case and no clause failed."""
        return not self.count(Status.FAIL) and all(c.status is not Status.FAIL for c in self.clauses)

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "ok": self.ok,
            "dut": self.request.dut,
            "mode": self.request.mode,
            "side": self.side,
            "seed": self.request.seed,
            "passed": self.count(Status.PASS),
            "failed": self.count(Status.FAIL),
            "not_applicable": self.count(Status.NA),
            "seconds": round(self.seconds, 3),
            "clauses": {c.id: c.status.value for c in self.clauses},
            "uncovered": list(self.uncovered),
            "cases": {
                r.case.name: {"status": r.status.value, "reason": r.reason, "replay": self.replay(r)}
                for r in self.results
            },
        }

    def replay(self, result: CaseResult) -> str:
        """The command line that runs a case again as it ran here."""
        return self.request.command(result.case.name)


def case_seed(seed: int, case: Case) -> int:
    """The seed of one case: cases differ, and do not depend on which others run."""
    return zlib.crc32(f"{seed} {case.name}".encode())


def bound(side: str, mode: int) -> list[str]:
    """The clauses that bind a side in a mode."""
    return [i for i, c in CLAUSES.items() if c.subject in SUBJECTS[side] and mode in c.modes]


def judge(
    results: Sequence[CaseResult], known: Iterable[Case], side: str, mode: int, traits: DutTraits
) -> list[ClauseResult]:
    """A verdict on each clause that binds the side in the mode and has a result. `known` are all cases of these."""
    suite = list(known)
    verdicts = []
    for clause in bound(side, mode):
        own = [r for r in results if clause in r.case.clauses]
        if own:
            total = sum(clause in c.clauses for c in suite)
            verdicts.append(_verdict(clause, own, total, traits))
    return verdicts


def _verdict(clause: str, own: list[CaseResult], known: int, traits: DutTraits) -> ClauseResult:
    cases = tuple((r.case.name, r.status) for r in own)
    failed = [r.case.name for r in own if r.status is Status.FAIL]
    if failed:
        status, reason = Status.FAIL, f"failed: {', '.join(failed)}"
    elif any(r.status is Status.PASS for r in own):
        status, reason = Status.PASS, ""
    else:
        status, reason = _without_result(clause, own, known, traits)
    return ClauseResult(clause, status, reason, cases, known)


def _without_result(clause: str, own: list[CaseResult], known: int, traits: DutTraits) -> tuple[Status, str]:
    """All cases are not applicable: may the clause be?"""
    why = "; ".join(dict.fromkeys(r.reason for r in own))
    capability = CLAUSES[clause].capability
    if capability and not _offered(capability, traits):
        name = capability.partition(" = ")[0]
        return Status.NA, f"{name} = {_text(getattr(traits.capabilities, name))}"
    if traits.binding == "udp" and all(any(u.capability == "binding" for u in r.unmet) for r in own):
        return Status.NA, UDP_REASON
    # A MAY or SHOULD can stay open, and so can a clause whose other cases a filter left out.
    if CLAUSES[clause].level != "MUST" or len(own) < known:
        return Status.NA, why
    return Status.FAIL, f"not shown: {why}"


def _offered(condition: str, traits: DutTraits) -> bool:
    """A clause's condition: a capability that is true, or `name = A | B`: one of its values that is offered."""
    name, _, values = condition.partition(" = ")
    offered = getattr(traits.capabilities, name)
    return any(value in offered for value in values.split(" | ")) if values else bool(offered)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
