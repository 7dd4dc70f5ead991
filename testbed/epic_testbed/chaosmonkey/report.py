"""What a chaos run survived: as JSON, and as a table for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from epic_testbed.chaosmonkey.schedule import Action, Schedule

# A job that moved every second or faster was not held up.
_PAUSE_SECONDS = 1.0


@dataclass(slots=True)
class Done:
    """An action as it was performed; `at` None: it could not be (its rank was not there then)."""

    action: Action
    at: float | None
    back: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        action = self.action
        return {
            "kind": action.kind,
            "target": action.target,
            "planned": action.at,
            "away": action.away,
            "then": action.then,
            "at": None if self.at is None else round(self.at, 3),
            "back": None if self.back is None else round(self.back, 3),
        }


@dataclass(slots=True)
class JobReport:
    """One job. `pauses` are the seconds of each time it was held up for more than a second; `paths` count steps."""

    name: str
    members: int
    lives: int = 0
    steps: int = 0
    elements: int = 0
    wrong: int = 0
    killed: int = 0
    shrinks: int = 0
    restarts: int = 0
    told: int = 0
    paths: Counter[str] = field(default_factory=Counter)
    epochs: Counter[str] = field(default_factory=Counter)
    pauses: list[float] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        """It was without a step for so long."""
        if seconds >= _PAUSE_SECONDS:
            self.pauses.append(round(seconds, 3))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "name": self.name,
            "members": self.members,
            "lives": self.lives,
            "steps": self.steps,
            "elements": self.elements,
            "wrong": self.wrong,
            "killed": self.killed,
            "told": self.told,
            "shrinks": self.shrinks,
            "restarts": self.restarts,
            "paths": dict(self.paths),
            "epochs": dict(self.epochs),
            "pauses": self.pauses,
        }


@dataclass(slots=True)
class Report:
    """The whole run. `failures` are what must not be: wrong elements, hangs, ranks wrongly held lost, other errors."""

    schedule: Schedule
    jobs: list[JobReport]
    done: list[Done] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    processes: int = 0

    @property
    def ok(self) -> bool:
        """Nothing that must not be, and every action but those on ranks that were not there performed."""
        return not self.failures and not self.leaks

    def performed(self, kind: str) -> tuple[int, int]:
        """Actions of a kind that were performed, and that were planned."""
        own = [done for done in self.done if done.action.kind == kind]
        return sum(done.at is not None for done in own), len(own)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "ok": self.ok,
            "seed": self.schedule.seed,
            "digest": self.schedule.digest,
            "seconds": round(self.seconds, 3),
            "processes": self.processes,
            "failures": self.failures,
            "leaks": self.leaks,
            "actions": [done.to_dict() for done in self.done],
            "jobs": [job.to_dict() for job in self.jobs],
            "totals": self.totals(),
        }

    def totals(self) -> dict[str, Any]:
        """Sums over all jobs."""
        paths: Counter[str] = Counter()
        epochs: Counter[str] = Counter()
        pauses = sorted(pause for job in self.jobs for pause in job.pauses)
        for job in self.jobs:
            paths.update(job.paths)
            epochs.update(job.epochs)
        names = ("lives", "steps", "elements", "wrong", "killed", "told", "shrinks", "restarts")
        sums = {name: sum(getattr(job, name) for job in self.jobs) for name in names}
        return sums | {
            "paths": dict(paths),
            "epochs": dict(sorted(epochs.items())),
            "pauses": len(pauses),
            "pause_median": pauses[len(pauses) // 2] if pauses else 0.0,
            "pause_max": pauses[-1] if pauses else 0.0,
        }

    def show(self, console: Console) -> None:
        """The table, the sums and the verdict."""
        console.print(self._table())
        console.print(self._actions())
        totals = self.totals()
        console.print(
            f"{totals['steps']} steps of ranks, {totals['elements']} elements checked, {totals['wrong']} wrong; "
            f"steps by path: {_counts(totals['paths'])}; groups' epochs by path/reason: {_counts(totals['epochs'])}",
            highlight=False,
            soft_wrap=True,
        )
        console.print(
            f"held up for more than {_PAUSE_SECONDS:g} s: {totals['pauses']} times, median "
            f"{totals['pause_median']:.1f} s, longest {totals['pause_max']:.1f} s",
            highlight=False,
        )
        for what, lines in (("failure", self.failures), ("leak", self.leaks)):
            for line in lines:
                console.print(f"{what}: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
        replay = f"epic chaos --seconds {self.schedule.seconds:g} --jobs {len(self.jobs)} --seed {self.schedule.seed}"
        if self.ok:
            console.print(
                f"OK: no wrong element, no hang, no leak ({replay})", style="green", highlight=False
            )
        else:
            count = f"{len(self.failures)} failures, {len(self.leaks)} leaks"
            console.print(f"FAILED: {count}; replay: {replay}", style="red", highlight=False)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("job")
        for name in (
            "members",
            "lives",
            "steps",
            "elements",
            "wrong",
            "killed",
            "told",
            "shrinks",
            "restarts",
        ):
            table.add_column(name, justify="right")
        table.add_column("network", justify="right")
        table.add_column("longest pause", justify="right")
        for job in self.jobs:
            steps = sum(job.paths.values())
            share = f"{100 * job.paths['network'] / steps:.0f} %" if steps else "-"
            numbers = (
                job.members, job.lives, job.steps, job.elements, job.wrong,
                job.killed, job.told, job.shrinks, job.restarts,
            )  # fmt: skip
            pause = f"{max(job.pauses, default=0.0):.1f} s"
            table.add_row(job.name, *(str(number) for number in numbers), share, pause)
        return table

    def _actions(self) -> str:
        words = {"rank": "ranks killed", "switch": "switches killed", "manager": "kills of the manager",
                 "link": "links cut"}  # fmt: skip
        parts = []
        for kind, word in words.items():
            performed, planned = self.performed(kind)
            parts.append(f"{performed} {word}" + (f" (of {planned} planned)" if planned != performed else ""))
        return ", ".join(parts)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
