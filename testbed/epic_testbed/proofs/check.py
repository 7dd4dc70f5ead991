"""Held against the manifest: what each model must give and what TLC found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.manifest import VIOLATION, Manifest, Model
from epic_testbed.proofs.output import TEMPORAL, Outcome
from epic_testbed.proofs.tlc import Finished, Job, Pool, Watcher

# Seconds up to which the first compiler alone is quicker; both take the same at about fifteen.
_BRIEF = 10.0


@dataclass(slots=True)
class Verdict:
    """A model, what TLC found, and the differences from what must come out (none: as expected)."""

    model: Model
    outcome: Outcome
    result: str
    seconds: float
    differences: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything is as the manifest says."""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.model.name,
            "expected": self.model.expected,
            "result": self.result,
            "distinct_states": self.outcome.distinct_states,
            "depth": self.outcome.depth,
            "seconds": round(self.seconds, 2),
            "kind": self.model.kind,
            "level": self.model.level,
            "ok": self.ok,
            "differences": self.differences,
        }


def job(model: Model, directory: Path, config: Path | None = None) -> Job:
    """The run of a model, with another configuration than its own where one is given."""
    return Job(
        name=model.name,
        folder=directory,
        module=model.module,
        config=config or directory / f"{model.name}.cfg",
        deadline=model.deadline,
        workers=model.workers,
        memory_mb=model.memory_mb,
        traces=model.traces,
        depth=model.depth if model.traces is not None else None,
        seed=model.seed,
        check_deadlock=model.check_deadlock or model.expected == "deadlock",
        brief=model.seconds <= _BRIEF,
    )


def run(
    manifest: Manifest, models: Sequence[Model], pool: Pool, watcher: Watcher | None = None
) -> list[Verdict]:
    """Run the models, the longest first so that the last ones end together; verdicts in the manifest's order."""
    by_name = {model.name: model for model in models}
    longest = sorted(models, key=lambda m: (-m.workers, -m.seconds))
    done = pool.run_all([job(model, manifest.directory) for model in longest])
    verdicts = {f.job.name: judge(by_name[f.job.name], f, manifest.directory) for f in done}
    return [verdicts[model.name] for model in models if model.name in verdicts]


def judge(model: Model, finished: Finished, directory: Path) -> Verdict:
    """Compare a finished run with its row: the result always, states and depth where the search is complete."""
    outcome = finished.outcome
    result = named_result(outcome, TlcConfig.load(directory / f"{model.name}.cfg"), directory)
    verdict = Verdict(model, outcome, result, finished.seconds)
    if result != model.expected:
        said = f" ({outcome.message})" if outcome.message and not result.startswith(VIOLATION) else ""
        verdict.differences.append(f"result {result}{said}, expected {model.expected}")
    elif result == "ok":
        counts: Mapping[str, tuple[int | None, int | None]] = {
            "distinct states": (outcome.distinct_states, model.distinct_states),
            # With several workers the depth that TLC reports varies.
            "depth": (outcome.depth, model.depth if model.workers == 1 and model.traces is None else None),
        }
        verdict.differences += [
            f"{name} {found}, expected {expected}"
            for name, (found, expected) in counts.items()
            if expected is not None and found != expected
        ]
    return verdict


def named_result(outcome: Outcome, config: TlcConfig, directory: Path) -> str:
    """The result with the name that the configuration gives to what is violated.

    TLC gives no name for a temporal property, and only the place for the step of a specification that is
    refined: the name is then the only property, or the only one that is defined by the module of the place.
    """
    if not outcome.result.startswith(VIOLATION):
        return outcome.result
    name = outcome.result.removeprefix(VIOLATION)
    if name in config.checks or (name != TEMPORAL and outcome.place is None):
        return outcome.result
    candidates: Sequence[str] = config.properties
    if outcome.place is not None and len(candidates) > 1:
        candidates = [p for p in candidates if _defined_by(p, outcome.place.module, directory)]
    return f"{VIOLATION}{candidates[0]}" if len(candidates) == 1 else outcome.result


def _defined_by(name: str, module: str, directory: Path) -> bool:
    """Whether property `name` is written in `module`, or is a formula of an instance of it."""
    for path in directory.glob("*.tla"):
        text = path.read_text()
        found = re.search(rf"^\s*{re.escape(name)}\s*==(.*(?:\n[ \t]+.*)*)", text, re.MULTILINE)
        if found is None:
            continue
        if path.stem == module:
            return True
        instances = re.findall(rf"(\w+)\s*==\s*INSTANCE\s+{re.escape(module)}\b", text)
        if any(f"{instance}!" in found[1] for instance in instances):
            return True
    return False
