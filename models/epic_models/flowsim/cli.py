"""`epic sim flow` and `epic sim trace`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from epic_models.flowsim.result import Result
    from epic_models.flowsim.simulation import Simulation

# Jobs that are printed one by one; of more there is a summary.
_LISTED = 16

_Config = Annotated[
    Path, typer.Argument(help="TOML file; all its keys are in epic_models/flowsim/config.py.")
]
_Seed = Annotated[int | None, typer.Option(min=0, help="In place of the file's.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `epic sim`."""
    app.command()(flow)
    app.command()(trace)


def flow(
    config: _Config,
    seed: _Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for result.json, jobs.csv and links.csv; made where it is missing."),
    ] = None,
) -> None:
    """Simulate at flow level: fair rates on links, many jobs, switches with little memory, whole datacenters."""
    # Compiling and loading compiled code takes a while, so not before it is needed.
    from epic_models.flowsim.config import load
    from epic_models.flowsim.result import simulate, write

    plan = load(config)
    if seed is not None:
        plan = replace(plan, seed=seed)
    with _progress(hidden=as_json) as show:
        result = simulate(plan, show)
    if out is not None:
        write(result, out)
    if as_json:
        row = result.to_dict() | {"links": result.links()}
        if len(result.ends) <= _LISTED or out is None:
            row["per_job"] = result.jobs()
        print(json.dumps(row))
    else:
        _print(result)
    if result.why != "done":
        raise typer.Exit(1)


def trace(
    config: _Config,
    file: Annotated[Path, typer.Argument(help="Trace file that is written: a job a line, as JSON.")],
    seed: _Seed = None,
) -> None:
    """Write the jobs of a configuration, drawn ones too, as a trace file that [trace] takes."""
    from epic_models.flowsim import trace as traces
    from epic_models.flowsim.config import load

    plan = load(config)
    if seed is not None:
        plan = replace(plan, seed=seed)
    jobs = plan.jobs()
    traces.write(file, jobs)
    print(f"{len(jobs):,} jobs in {file}")


@contextmanager
def _progress(*, hidden: bool) -> Iterator[Callable[[Simulation], None] | None]:
    """A bar of how many jobs have ended, on standard error where that is a terminal."""
    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=None)

        def show(simulation: Simulation) -> None:
            done = len(simulation.ends)
            bar.update(
                task,
                completed=done,
                total=done + simulation.unfinished,
                description=f"{simulation.now:,.3f} s simulated",
            )

        yield show


def _print(result: Result) -> None:
    console = Console()
    row, jobs = result.to_dict(), result.jobs()
    if len(jobs) <= _LISTED:
        table = Table(box=None, pad_edge=False)
        names = ("job", "ranks", "began ms", "completion ms", "slow-down", "communicating ms", "in network")
        for name in names:
            table.add_column(name, justify="left" if name == "job" else "right", no_wrap=name != "job")
        for job in jobs:
            wanted = job["in_network_us"] + job["on_hosts_us"]
            ended = job["completion_us"] is not None
            table.add_row(
                job["name"], f"{job['ranks']:,}", _ms(job["began_us"]),
                _ms(job["completion_us"]) if ended else "-", f"{job['slowdown']:.3f}" if ended else "-",
                _ms(job["communicating_us"]), f"{job['in_network_us'] / wanted:.0%}" if wanted else "-",
            )  # fmt: skip
        console.print(table)
    elif row["jct_us"] is not None:
        table = Table(box=None, pad_edge=False)
        for name in ("", "mean", "p50", "p95", "p99", "max"):
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
        table.add_row("completion ms", *(_ms(value) for value in row["jct_us"].values()))
        table.add_row("slow-down", *(f"{value:.3f}" for value in row["slowdown"].values()))
        console.print(table)
    console.print(f"\n{row['ended']}: " + _summary(row))


def _summary(row: dict[str, Any]) -> str:
    parts = [f"{row['jobs_done']:,} of {row['jobs']:,} jobs on {row['hosts']:,} hosts"]
    if row["jain"] is not None:
        parts.append(f"Jain's index of speed {row['jain']:.3f}")
    if row["policy"] is not None:
        share = "-" if row["network_share"] is None else f"{row['network_share']:.0%}"
        parts.append(
            f"policy {row['policy']}: {share} of the time in the network, {row['never_in_network']:,} groups never, "
            f"{row['path_changes']:,} changes of path"
        )
    parts.append(
        f"links used {row['utilization']['mean']:.1%} on average, at most {row['utilization']['max']:.1%}"
    )
    parts.append(f"{row['events']:,} events in {row['wall_s']:.1f} s")
    return "; ".join(parts)


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:,.3f}"
