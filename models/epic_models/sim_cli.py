"""The commands of the simulators: `epic sim packet|flow|trace|sweep|report|check`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from epic_models import bench_sim
from epic_models.flowsim import cli as flow_cli
from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from epic_models.packetsim.config import Config
    from epic_models.packetsim.result import Result
    from epic_models.packetsim.world import World

sim_app = typer.Typer(
    no_args_is_help=True, help="Simulators: how long collectives take, under what load and loss."
)


flow_cli.register(sim_app)


def register(app: typer.Typer) -> None:
    """Add this package's commands to the `epic` command."""
    app.add_typer(sim_app, name="sim")
    bench_sim.register(app)


@sim_app.command()
def packet(
    config: Annotated[Path, typer.Argument(help="TOML file; its keys are explained in models/README.md.")],
    seed: Annotated[int | None, typer.Option(min=0, help="In place of the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for result.json; made where it is missing.")
    ] = None,
) -> None:
    """Simulate packet by packet: real state machines, queues, losses; every sum checked with payload_check."""
    # Compiling and loading compiled code takes a while, so not before it is needed.
    from epic_models.packetsim.config import load
    from epic_models.packetsim.result import simulate

    plan = load(config)
    if seed is not None:
        plan = replace(plan, seed=seed)
    with _progress(plan, hidden=as_json) as show:
        result = simulate(plan, show)
    row = result.to_dict()
    if out is not None:
        _write(out, row)
    if as_json:
        print(json.dumps(row))
    else:
        _print(result, row)
    if row["wrong"] or result.why != "done":
        raise typer.Exit(1)


@sim_app.command()
def sweep(
    config: Annotated[
        Path, typer.Argument(help="TOML file: [base], [grid], seeds; see epic_models/sweep.py.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for results.jsonl; one that has some is gone on with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print each result as a line of JSON.")] = False,
    executor: Annotated[
        str | None, typer.Option(help="dask://HOST:PORT of a Dask scheduler, in place of processes here.")
    ] = None,
) -> None:
    """Run a grid of simulations in processes; results go to disk as they come, and a sweep can be resumed."""
    from epic_models import sweep as sweeps

    plan = sweeps.load(config)
    bad = 0
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        for count, total, row in sweeps.run(plan, out, executor):
            bar.update(task, completed=count, total=total)
            bad += "error" in row or bool(row.get("wrong")) or row["ended"] != "done"
            if as_json:
                print(json.dumps(row), flush=True)
    rows = sweeps.done(out)
    if not as_json:
        print(f"{len(rows)} results in {out / sweeps.RESULTS}, {bad} of this run not as they should be")
    if bad:
        raise typer.Exit(1)


@sim_app.command()
def report(out: Annotated[Path, typer.Argument(help="A folder that `epic sim sweep` filled.")]) -> None:
    """Write one HTML page with plots of a sweep's results."""
    from epic_models import report as reports

    print(reports.write(out))


@sim_app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Compare times at packet level with closed forms, every algorithm alone; fails beyond 1 %."""
    from epic_models import closed_cases

    rows = [(*found, found[1] / found[2] - 1) for found in closed_cases.compared()]
    if as_json:
        print(
            json.dumps(
                [
                    {**asdict(case), "simulated_us": time * 1e6, "formula_us": form * 1e6, "deviation": off}
                    for case, time, form, off in rows
                ]
            )
        )
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        words = ("algorithm", "limit")
        for name in (*words, "ranks", "links", "KiB", "W", "delay us", "us", "formula", "off %"):
            table.add_column(name, justify="left" if name in words else "right", no_wrap=True)
        for case, time, form, off in rows:
            table.add_row(
                case.algorithm, case.limit, str(case.ranks), str(case.links), f"{case.size / 1024:.4g}",
                f"{case.window}", f"{case.delay_ns / 1000:g}", f"{time * 1e6:,.2f}", f"{form * 1e6:,.2f}",
                f"{round(100 * off, 2) + 0.0:.2f}",
            )  # fmt: skip
        Console().print(table)
        print("double_tree on full links with more than 2 ranks: a bound, for packets of two children meet")
    if any(abs(off) > closed_cases.WITHIN for case, _, _, off in rows if case in closed_cases.CASES):
        raise typer.Exit(1)


def _write(out: Path, row: dict[str, Any]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(row, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(
            f"out = {str(out)!r}: {error.strerror}, expected a folder that can be written"
        ) from None


@contextmanager
def _progress(config: Config, *, hidden: bool) -> Iterator[Callable[[World], None] | None]:
    """A bar of how many cells ranks have delivered, on standard error where that is a terminal."""
    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield None
        return
    from epic_models.packetsim.world import HOSTS

    total = sum(len(job.hosts) * job.iterations * job.cells for job in config.jobs if job.mode is not None)
    total += sum(len(job.hosts) * job.iterations for job in config.jobs if job.mode is None)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=total)

        def show(world: World) -> None:
            agents = world.agents
            hosts = world.groups["how"][agents["group"]] == HOSTS
            done = int(agents["delivered"][~hosts].sum() + agents["iteration"][hosts].sum())
            bar.update(task, completed=done, description=f"{world.sim[0]['now'] / 1e6:,.0f} us simulated")

        yield show


def _print(result: Result, row: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("job", "algorithm", "ranks", "bytes", "mean us", "bus Gb/s", "sent again", "not ended"):
        table.add_column(
            name, justify="left" if name in ("job", "algorithm") else "right", no_wrap=name != "job"
        )
    for job in result.jobs:
        mean = float(job.completion.mean())
        # nccl-tests' bus rate of AllReduce: what a ring would need on each link for this time.
        ranks = len(job.job.hosts)
        rate = job.job.size * 8 * 2 * (ranks - 1) / ranks / mean / 1e9 if mean > 0 else math.nan
        table.add_row(
            job.job.name, job.job.algorithm, f"{ranks:,}", f"{job.job.size:,}", f"{mean * 1e6:,.2f}",
            f"{rate:,.1f}" if job.job.primitive == "all_reduce" else "-", f"{job.retransmissions:,}",
            ", ".join(map(str, job.late[:4])) + (" …" if len(job.late) > 4 else "") or "-",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"\n{result.why}: {row['packet_hops']:,} packet hops, {row['drops']:,} dropped, {row['lost']:,} lost, "
        f"{row['marked']:,} marked; {row['checked']:,} values checked, {row['wrong']:,} wrong; "
        f"{row['events_per_s'] / 1e6:.2f} million events/s"
    )
