"""How a run looks to a person:
rows as they finish, a progress line below them on a terminal, and the summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from epic_testbed import verify
from epic_testbed.options import Setup
from epic_testbed.report import RESENT, Epoch, Failure, Report, Row

# Columns of the row table: heading, width, and whether it is set to the right.
_COLUMNS = (
    ("primitive", 14, False),
    ("dtype", 5, False),
    ("op", 3, False),
    ("size", 7, True),
    ("min ms", 9, True),
    ("median ms", 9, True),
    ("algbw Gb/s", 10, True),
    ("#wrong", 6, True),
    ("max |error|", 11, True),
    ("check", 6, False),
)


def size_text(count: int) -> str:
    """A byte count as people write it: exact, with K or M where it divides."""
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def _line(cells: tuple[str, ...]) -> str:
    words = [f"{c:>{w}}" if right else f"{c:<{w}}" for c, (_, w, right) in zip(cells, _COLUMNS, strict=True)]
    return " ".join(words).rstrip()


def row_line(row: Row) -> str:
    """One finished case."""
    case = row.case
    return _line(
        (
            case.primitive,
            case.dtype,
            case.op,
            size_text(case.bytes),
            f"{row.min_us / 1e3:.2f}",
            f"{row.median_us / 1e3:.2f}",
            f"{row.gbps:.4f}" if case.bytes else "-",
            str(row.wrong),
            "0" if row.max_abs_err == 0 else f"{row.max_abs_err:.2e}",
            row.check,
        )
    )


class ConsoleDisplay:
    """Rows and summary on a console; with a progress line where the console is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def phase(self, text: str) -> None:
        """What is going on before the collectives begin."""
        if self._console.is_terminal:
            self._show().update(self._known_task(), description=text)

    def begin(self, report: Report) -> None:
        """Heading."""
        for line in heading(report.setup, report.iterations):
            self._console.print(line, highlight=False, soft_wrap=True)
        self._console.print()
        self._console.print(
            _line(tuple(name for name, _, _ in _COLUMNS)), style="bold", highlight=False, soft_wrap=True
        )

    def row(self, row: Row) -> None:
        """A finished case."""
        style = "red" if row.wrong else None
        self._console.print(row_line(row), style=style, highlight=False, markup=False, soft_wrap=True)

    def progress(self, done: int, total: int, row: Row) -> None:
        """Move the progress line."""
        if self._console.is_terminal:
            text = f"{row.case.primitive} {row.case.dtype} {row.case.op} {size_text(row.case.bytes)}"
            self._show().update(self._known_task(), completed=done, total=total, description=text)

    def failure(self, failure: Failure) -> None:
        """A node's error, as it comes."""
        self._console.print(f"[red]{escape(str(failure))}[/red]", highlight=False, soft_wrap=True)

    def epoch(self, epoch: Epoch) -> None:
        """A path of the group after its first."""
        if epoch.resume or epoch.reason != "granted":
            self._console.print(
                f"epoch {epoch.epoch}: path {epoch.path} from cell {epoch.resume} on ({epoch.reason})",
                style="yellow",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    def close(self) -> None:
        """Take the progress line away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def summary(self, report: Report) -> None:
        """Tolerance rules, faults, counters and the verdict."""
        self.close()
        out = self._console
        out.print()
        for check in dict.fromkeys(row.check for row in report.done):
            out.print(f"check {check}: {verify.RULES[check]}", highlight=False, markup=False, soft_wrap=True)
        injected = ", ".join(f"{count} {name}" for name, count in report.faults.items())
        out.print(
            f"faults injected, in frames: {injected}; packets sent again: {report.retransmissions}",
            highlight=False,
            soft_wrap=True,
        )
        out.print()
        out.print(counter_table(report.counters))
        out.print()
        for line in decision_lines(report):
            out.print(line, highlight=False, markup=False, soft_wrap=True)
        link, fastest = report.setup.link_gbps, max((row.gbps for row in report.done), default=0.0)
        if link is not None:
            out.print(
                f"fastest: {fastest:.4f} Gb/s, {fastest / link:.2%} of the slowest link ({link:g} Gb/s)",
                highlight=False,
                soft_wrap=True,
            )
        if report.killed:
            out.print(f"killed on request: {', '.join(report.killed)}", highlight=False, soft_wrap=True)
        if report.ok:
            out.print(
                f"[green]OK[/green]: {len(report.rows)} collectives x {report.iterations} iterations, "
                f"every element right, {report.setup.datapath} data path, {report.seconds:.1f} s",
                highlight=False,
                soft_wrap=True,
            )
            return
        out.print(f"[red]FAILED[/red]: {escape(report.verdict())}", highlight=False, soft_wrap=True)

    def _show(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._progress.add_task("", total=None)
            self._progress.start()
        return self._progress

    def _known_task(self) -> TaskID:
        self._show()
        assert self._task is not None
        return self._task


class SilentDisplay:
    """For `--json`: says nothing."""

    def phase(self, text: str) -> None:
        """Nothing."""

    def begin(self, report: Report) -> None:
        """Nothing."""

    def row(self, row: Row) -> None:
        """Nothing."""

    def progress(self, done: int, total: int, row: Row) -> None:
        """Nothing."""

    def failure(self, failure: Failure) -> None:
        """Nothing."""

    def epoch(self, epoch: Epoch) -> None:
        """Nothing."""


def decision_lines(report: Report) -> list[str]:
    """How the cells travelled, and what the manager decided."""
    if not report.managed:
        return []
    count = len(report.epochs)
    lines = [f"path {report.path}, {count} epoch{'s' * (count != 1)}; the manager's decisions:"]
    lines += [f"  epoch {d['epoch']}: {d['path']} ({d['reason']}): {d['text']}" for d in report.decisions]
    return lines


def heading(setup: Setup, iterations: int) -> list[str]:
    """What runs, in two or three lines."""
    params, faults = setup.params, setup.faults
    switches, ranks = len(setup.plan.switches), setup.ranks
    tree = f"{switches} switch{'es' * (switches > 1)}, {ranks} rank{'s' * (ranks > 1)}"
    lines = [
        f"mode {params.mode}, topology {setup.topology.name} ({tree}), "
        f"{setup.transport} in {setup.plan.subnet}, seed {setup.seed}",
        f"{setup.datapath} data path, payload {params.payload_bytes} B, window {params.window}, "
        f"deadline {params.deadline_us / 1e6:g} s, {iterations} iterations; times are of the slowest rank",
    ]
    if faults.any:
        lines.append(
            f"every node injects: loss {faults.loss:.2%}, duplicate {faults.duplicate:.2%}, "
            f"reorder {faults.reorder:.2%}, corrupt {faults.corrupt:.2%}"
        )
    return lines


# What the summary's table shows of a node: heading and the counters that it adds up.
_RANK_ROWS = 16
_COUNTERS = (
    ("received", ("rx_frames",)),
    ("counted", ("rx_contribution", "rx_result")),
    ("repeats", ("rx_duplicate", "rx_stale")),
    ("early", ("rx_out_of_order",)),
    ("acks", ("tx_ack", "tx_nak", "tx_rnr_nak", "tx_reflected")),
    ("resent", RESENT),
    ("cells", ("cells_completed",)),
)


def counter_table(counters: Mapping[str, Mapping[str, int]]) -> Table:
    """Counters by node, engines first; drops are named by their reason.

    `received` frames; of these `counted` into cells, `repeats`, or out of order (`early`);
    acknowledgements and data packets sent again; cells completed. Many ranks share one row.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("node")
    for name, _ in _COUNTERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dropped", overflow="fold")
    engines = sorted(node for node in counters if not node[1:].isdecimal() or node[0] != "r")
    ranks = sorted((node for node in counters if node not in engines), key=lambda node: int(node[1:]))
    rows = {node: counters[node] for node in engines}
    if len(ranks) > _RANK_ROWS:
        rows[f"r0-{ranks[-1]}"] = sum((Counter(counters[node]) for node in ranks), Counter())
    else:
        rows |= {node: counters[node] for node in ranks}
    for node, own in rows.items():
        drops = {k.removeprefix("drop_"): v for k, v in own.items() if k.startswith("drop_") and v}
        words = [f"{count} {reason}" for reason, count in sorted(drops.items(), key=lambda item: -item[1])]
        cells = [str(sum(own.get(name, 0) for name in names)) for _, names in _COUNTERS]
        table.add_row(node, *cells, ", ".join(words) or "0")
    return table
