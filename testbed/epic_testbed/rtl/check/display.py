"""How `epic check rtl` looks to a person: checks as they end, the running ones below them, and the table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from epic_testbed.rtl.check.model import Check, Figures, Outcome, Result

_STYLES = {Outcome.PASS: None, Outcome.FAIL: "red", Outcome.TIMEOUT: "red", Outcome.MISSING: "yellow"}


class ConsoleWatcher:
    """A line for each check that ended; on a terminal a line for each that runs and a bar over all."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._lines: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._all = self._bar.add_task("all checks", total=total)
            self._bar.start()

    def started(self, check: Check) -> None:
        """A line for a check that runs."""
        if self._bar is not None:
            self._lines[check.name] = self._bar.add_task(check.name, total=None)

    def finished(self, result: Result) -> None:
        """The line of a check that has ended."""
        if self._bar is not None and self._all is not None:
            self._bar.remove_task(self._lines.pop(result.check.name))
            self._bar.advance(self._all)
        row = f"{result.check.name:<44} {result.outcome.value:<8} {result.seconds:7.1f} s"
        line(self._console, row, _STYLES[result.outcome])

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Silent:
    """Says nothing."""

    def started(self, check: Check) -> None:
        """Nothing."""

    def finished(self, result: Result) -> None:
        """Nothing."""


def summary(console: Console, results: Sequence[Result], seconds: float) -> None:
    """The table, the failures in full, and the verdict in one line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("check", "kind", "result"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("figures")
    for result in results:
        cells = [result.check.name, result.check.kind.value, result.outcome.value, f"{result.seconds:.1f}"]
        table.add_row(*map(escape, [*cells, figures(result.figures)]), style=_STYLES[result.outcome])
    console.print()
    console.print(table)
    console.print()
    wrong = [result for result in results if not result.ok]
    for result in wrong:
        line(console, f"{result.check.name}: {result.message}", _STYLES[result.outcome])
        if result.folder:
            line(console, f"  kept: {result.folder}")
        if result.look:
            line(console, f"  look: {result.look}")
    text = f"{len(results)} checks, {seconds:.1f} s"
    if wrong:
        line(console, f"FAILED: {len(wrong)} of {text}", "red")
    else:
        line(console, f"OK: {text}", "green")


def figures(values: Figures) -> str:
    """Figures in a cell of the table."""
    return ", ".join(f"{key} {_text(value)}" for key, value in values.items())


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def line(console: Console, text: str, style: str | None = None) -> None:
    """A line as it is: not wrapped, no markup."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def console() -> Console:
    """Standard output; wide enough for the table where it is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=200)
