"""Trace validation: recordings are handed to TLC as a module, those with equal constants in one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_testbed.proofs.behaviour import Behaviour
from epic_testbed.proofs.behaviour_m3 import Mode3Behaviour
from epic_testbed.proofs.behaviour_rc import Mode1Behaviour, Mode2Behaviour
from epic_testbed.proofs.recording import Recording
from epic_testbed.proofs.tlc import Finished, Job, Pool
from epic_testbed.proofs.values import Fun, Value, show

_REACHED = re.compile(r'<<"reached", (\d+), (\d+)>>')
# TLC takes far less; a recording of `epic run` may have ten thousands of lines.
_DEADLINE = 1800.0
_MEMORY_MB = 3072


BEHAVIOURS: dict[int, type[Behaviour]] = {1: Mode1Behaviour, 2: Mode2Behaviour, 3: Mode3Behaviour}


def behaviour(recording: Recording) -> Behaviour:
    """The recording in the words of its mode's trace specification. Raises ConfigError for a mode without one."""
    mode = recording.params.mode
    if mode not in BEHAVIOURS:
        names = ", ".join(map(str, sorted(BEHAVIOURS)))
        raise ConfigError(f"trace {recording.name}: mode = {mode}, expected one of {names}")
    return BEHAVIOURS[mode](recording)


@dataclass(slots=True)
class TraceVerdict:
    """Whether a recording is a behaviour of its mode's specification; if not, why, and at which line."""

    name: str
    mode: int
    lines: int
    accepted: bool
    where: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "mode": self.mode,
            "lines": self.lines,
            "accepted": self.accepted,
            "where": self.where,
            "reason": self.reason,
        }


def check(behaviours: Sequence[Behaviour], pool: Pool, folder: Path, directory: Path) -> list[TraceVerdict]:
    """Verdicts in the order given. `directory` has the specifications, `folder` is for files."""
    verdicts: dict[int, TraceVerdict] = {}
    batches: dict[tuple[str, str], list[int]] = {}
    for i, b in enumerate(behaviours):
        if not b.lines:
            mode = b.recording.params.mode
            verdicts[i] = TraceVerdict(b.recording.name, mode, 0, False, "", "empty: no node did anything")
        else:
            batches.setdefault((b.module, show(Fun(b.constants()))), []).append(i)
    jobs, members = [], {}
    for number, ((module, _), indices) in enumerate(batches.items()):
        place = folder / f"trace{number}"
        place.mkdir()
        job = write(place, module, [behaviours[i] for i in indices], directory.absolute())
        jobs.append(job)
        members[job.name] = indices
    for finished in pool.run_all(jobs):
        indices = members[finished.job.name]
        found = judge([behaviours[i] for i in indices], finished)
        verdicts |= dict(zip(indices, found, strict=True))
    return [verdicts[i] for i in range(len(behaviours))]


def write(place: Path, module: str, batch: Sequence[Behaviour], directory: Path) -> Job:
    """TraceData.tla and copies of the trace specification and its configuration in `place`; the run to make."""
    (place / "TraceData.tla").write_text(data_module(batch))
    for suffix in (".tla", ".cfg"):
        name = f"{module}{suffix}"
        (place / name).write_text((directory / name).read_text())
    names = ", ".join(b.recording.name for b in batch[:3]) + (", …" if len(batch) > 3 else "")
    return Job(
        name=f"{place.name}: {module} on {names}",
        folder=place,
        module=module,
        config=place / f"{module}.cfg",
        deadline=_DEADLINE,
        libraries=(directory,),
        memory_mb=_MEMORY_MB,
    )


def data_module(batch: Sequence[Behaviour]) -> str:
    """The module TraceData: the constants, and each recording's lines. What occurs often is written once."""
    shared = _Shared()
    traces = [",\n    ".join(shared.text(line) for line in b.lines) for b in batch]
    constants = [f"Data{name} == {show(value)}" for name, value in batch[0].constants().items()]
    return "\n".join(
        [
            "---- MODULE TraceData ----",
            "EXTENDS Integers, TLC",
            *constants,
            *shared.definitions(),
            *(f"Trace_{i} == <<\n    {text}>>" for i, text in enumerate(traces)),
            f"Traces == <<{', '.join(f'Trace_{i}' for i in range(len(traces)))}>>",
            "====",
            "",
        ]
    )


class _Shared:
    """Definitions for packets and their contents, which many lines have in common."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def text(self, line: Fun) -> str:
        fields = (f"{name} |-> {self._value(value)}" for name, value in line.items())
        return f"[{', '.join(fields)}]"

    def definitions(self) -> list[str]:
        return [f"{name} == {text}" for text, name in self._names.items()]

    def _value(self, value: Value) -> str:
        if isinstance(value, Fun) and value.is_record:
            text = show(value)
            return self._names.setdefault(text, f"Item_{len(self._names)}")
        if isinstance(value, frozenset):
            return f"{{{', '.join(sorted(self._value(v) for v in value))}}}"
        return show(value)


def judge(batch: Sequence[Behaviour], finished: Finished) -> list[TraceVerdict]:
    """Which recordings of a run were followed to their end."""
    outcome = finished.outcome
    reached: dict[int, int] = {}
    for trace, line in _REACHED.findall("\n".join(outcome.printed)):
        reached[int(trace)] = max(reached.get(int(trace), 0), int(line))
    verdicts = []
    for i, b in enumerate(batch, 1):
        at = reached.get(i, 0)
        verdict = TraceVerdict(
            b.recording.name, b.recording.params.mode, len(b.lines), at == len(b.lines) + 1
        )
        if outcome.result != "ok":
            # An invariant of the mode fails on some recording, or the run did not finish: none of it counts.
            verdict.accepted = False
            verdict.reason = f"{outcome.result}: {outcome.message}"
        if not verdict.accepted and 1 <= at <= len(b.lines):
            verdict.where = b.where[at - 1]
            verdict.reason = verdict.reason or f"no step of the specification: {describe(b.lines[at - 1])}"
        verdicts.append(verdict)
    return verdicts


def describe(line: Fun) -> str:
    """A line in short."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else show(value)}" for name, value in line.items()
    )
