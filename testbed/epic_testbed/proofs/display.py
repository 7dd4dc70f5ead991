"""How a check looks to a person: models as they end, the running ones below them on a terminal, and the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from epic_testbed.proofs.check import Verdict
from epic_testbed.proofs.conjuncts import Conjunct
from epic_testbed.proofs.guards import GuardVerdict
from epic_testbed.proofs.output import Outcome
from epic_testbed.proofs.tlc import Finished, Job
from epic_testbed.proofs.traces import TraceVerdict


def count(number: int | None) -> str:
    """A number with separators; a dash for none."""
    return "-" if number is None else f"{number:,}"


class ConsoleWatcher:
    """One line a run that ended; on a terminal a line a running one and a bar over all."""

    def __init__(self, console: Console, total: int | None, lines: bool = True) -> None:
        self._console = console
        self._lines_wanted = lines
        self._progress: Progress | None = None
        self._lines: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._all = self._progress.add_task("all models", total=total)
            self._progress.start()

    def started(self, job: Job) -> None:
        """A line for a run."""
        if self._progress is not None:
            self._lines[job.name] = self._progress.add_task(job.name, total=None, completed=0)

    def progress(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """States found so far."""
        if self._progress is not None and job.name in self._lines:
            found = outcome.distinct_states if outcome.distinct_states is not None else outcome.generated
            self._progress.update(self._lines[job.name], description=f"{job.name}: {count(found)} states")

    def finished(self, done: Finished) -> None:
        """What a run found."""
        if self._progress is not None and self._all is not None:
            if (task := self._lines.pop(done.job.name, None)) is not None:
                self._progress.remove_task(task)
            self._progress.advance(self._all)
        found = done.outcome.distinct_states if done.outcome.distinct_states != -1 else None
        states = (
            f"{count(found)} distinct" if found is not None else f"{count(done.outcome.generated)} generated"
        )
        if self._lines_wanted:
            # Where a property has no name the table finds one.
            result = done.outcome.result if done.outcome.place is None else "violation of a property"
            row = f"{done.job.name:<32} {result:<28} {states:>20} {done.seconds:7.1f} s"
            line(self._console, row)

    def close(self) -> None:
        """Take the progress lines away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def table(verdicts: Sequence[Verdict]) -> Table:
    """One row a model; what differs from the manifest is red."""
    found = _table("model", "kind", "expected", "result", right=("distinct states", "depth", "seconds"))
    for v in verdicts:
        cells = [v.model.name, v.model.kind, v.model.expected, v.result]
        cells += [count(v.outcome.distinct_states), count(v.outcome.depth), f"{v.seconds:.1f}"]
        found.add_row(*map(escape, cells), "" if v.ok else "differs", style=None if v.ok else "red")
    return found


def _table(*left: str, right: Sequence[str]) -> Table:
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in left:
        found.add_column(name, no_wrap=True)
    for name in right:
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("")
    return found


def summary(console: Console, verdicts: Sequence[Verdict], seconds: float) -> None:
    """The table, the differences, and the verdict in one line."""
    console.print()
    console.print(table(verdicts))
    console.print()
    wrong = [v for v in verdicts if not v.ok]
    for v in wrong:
        for difference in v.differences:
            line(console, f"{v.model.name}: {difference}", "red")
    states = sum(v.outcome.distinct_states or 0 for v in verdicts)
    mutants = sum(v.model.kind == "mutant" for v in verdicts)
    text = f"{len(verdicts)} models, {mutants} of them mutants, {states:,} distinct states, {seconds:.1f} s"
    if wrong:
        line(console, f"FAILED: {len(wrong)} of {text}", "red")
    else:
        line(console, f"OK: {text}, all as expected", "green")


def guard_line(verdict: GuardVerdict) -> str:
    """One guard, decided."""
    name = f"{verdict.module.removesuffix('.tla')} {verdict.guard}"
    if verdict.killed_by is not None:
        text = f"{verdict.killed_by}: {verdict.result}"
        return f"{name:<36} {text}" + (" (listed as a survivor)" if not verdict.ok else "")
    tried = f"survives {len(verdict.tried)} models" if verdict.tried else "no model has it"
    tried += f", the last with {verdict.result}" if verdict.result not in ("", "ok") else ""
    return f"{name:<36} {tried}" + (f", {verdict.allowed}" if verdict.allowed else "")


def conjunct_line(module: str, items: Sequence[Conjunct]) -> str:
    """How many conjuncts of each kind the actions of a module have."""
    counts = Counter(item.kind for item in items)
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    return f"{module}: {len(items)} conjuncts of actions ({kinds})"


def guard_summary(
    console: Console, verdicts: Sequence[GuardVerdict], unknown: Sequence[str], seconds: float
) -> None:
    """Survivors, and the verdict in one line."""
    console.print()
    wrong = [v for v in verdicts if not v.ok]
    for v in wrong:
        line(console, guard_line(v), "red")
    for name in unknown:
        line(console, f"{name} is listed as a survivor, but there is no such guard", "red")
    text = f"{len(verdicts)} guards, {sum(v.killed_by is not None for v in verdicts)} noticed when taken away"
    if unnamed := sum(v.conjunct is not None for v in verdicts):
        text += f", {unnamed} of them without a name"
    good = not wrong and not unknown
    line(console, f"{'OK' if good else 'FAILED'}: {text}, {seconds:.1f} s", "green" if good else "red")


def trace_line(verdict: TraceVerdict) -> str:
    """One recording."""
    if verdict.accepted:
        return f"{verdict.name}: {verdict.lines} steps, a behaviour of Mode{verdict.mode}"
    return f"{verdict.name}: not a behaviour of Mode{verdict.mode}, {verdict.where or 'as a whole'}: {verdict.reason}"


def line(console: Console, text: str, style: str | None = None) -> None:
    """A line as it is: not wrapped, no markup."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=160)
