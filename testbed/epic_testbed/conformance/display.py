"""How a run looks in a terminal: a progress bar where there is one, a line a case elsewhere, and the summary."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from epic_testbed.conformance import report_html
from epic_testbed.conformance.results import CaseResult, Run, Status

_STYLES = {"pass": "green", "fail": "bold red", "na": "dim"}
# Lines of each side that the terminal shows of a failed case; the report has all.
_LINES = 4


class Display:
    """`progress` after each case. `lines`: every case is a line; else failures alone are, above the bar."""

    def __init__(self, console: Console, *, lines: bool) -> None:
        self._console = console
        self._lines = lines
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("opening the device", total=None)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def progress(self, done: int, total: int, result: CaseResult) -> None:
        """A case has ended."""
        if self._lines and (self._bar is None or result.status is Status.FAIL):
            why = f": {result.reason}" if result.reason else ""
            self._print(f"{result.status.value:4} {result.case.name}{why}", _STYLES[result.status.value])
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, description=result.case.name)

    def summary(self, run: Run, report: Path | None) -> None:
        """Failures in full, then the verdict."""
        for result in run.results:
            if result.status is Status.FAIL and not result.reason.startswith("not tried"):
                self._failure(run, result)
        for clause in run.clauses:
            if clause.not_shown:
                self._print(f"\n{clause.id} {clause.reason}", "red")
        self._print("")
        if run.deviations:
            self._print(f"deviations: {', '.join(run.deviations)}")
        count = {s: sum(c.status is s for c in run.clauses) for s in Status}
        self._print(
            f"clauses: {count[Status.PASS]} passed, {count[Status.FAIL]} failed, {count[Status.NA]} n/a, "
            f"{0 if run.request.filtered else len(run.uncovered)} without a case"
        )
        self._print(
            f"cases: {run.count(Status.PASS)} passed, {run.count(Status.FAIL)} failed, "
            f"{run.count(Status.NA)} n/a; {run.seconds:.1f} s, seed {run.request.seed}"
        )
        self._print(report_html.verdict(run), "green" if run.ok else "red")
        if report is not None:
            self._print(f"report: {report / report_html.FILE}")

    def _failure(self, run: Run, result: CaseResult) -> None:
        binding = {c.id for c in run.clauses}.intersection(result.case.clauses)
        self._print(f"\n{result.case.name} ({', '.join(sorted(binding))}): {result.reason}", "red")
        for title, lines in (("expected", result.expected), ("arrived", result.arrived)):
            for line in lines[:_LINES]:
                self._print(f"  {title:8} {line}")
            if len(lines) > _LINES:
                self._print(f"  {title:8} … {len(lines) - _LINES} more")
        self._print(f"  replay   {run.replay(result)}")

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(escape(text), style=style, highlight=False, soft_wrap=True)


def make_display(as_json: bool) -> Display:
    """On stdout for people; with `--json` stdout is the object's, and a terminal on stderr gets the bar."""
    if as_json:
        return Display(Console(stderr=True), lines=False)
    return Display(Console(file=sys.stdout), lines=True)


def print_matrix(matrix: dict[str, Any], file: Path) -> None:
    """The clauses that failed or are n/a somewhere, and the realizations."""
    out = Console(file=sys.stdout)
    names = [r["name"] for r in matrix["realizations"]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("clause", no_wrap=True)
    for name in names:
        table.add_column(escape(name), justify="center")
    for clause, row in matrix["clauses"].items():
        statuses = [row["results"].get(name, "") for name in names]
        if {"fail", "na"} & set(statuses):
            words = ["-" if s == "none" else s for s in statuses]
            table.add_row(clause, *(f"[{_STYLES[s]}]{s}[/]" if s in _STYLES else s for s in words))
    if table.row_count:
        out.print(table)
        out.print()
    for r in matrix["realizations"]:
        results = [row["results"].get(r["name"]) for row in matrix["clauses"].values()]
        count = {s: results.count(s) for s in ("pass", "fail", "na", "none")}
        verdict = f"clauses: {count['pass']} passed, {count['fail']} failed, {count['na']} n/a"
        verdict += f", {count['none']} without result" if count["none"] else ""
        style = "green" if r["ok"] else "red"
        out.print(f"{escape(r['name'])}: {verdict}", style=style, highlight=False, soft_wrap=True)
    out.print(f"matrix: {escape(str(file))}", highlight=False, soft_wrap=True)
