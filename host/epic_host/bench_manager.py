"""`epic bench manager`: how long a group takes to be made, and how many a second, with many nodes registered.

The manager is a process of its own, its store on a disk, everything over real gRPC: nodes' and members' calls, and the
manager's calls of engines (which have no data plane). And how good its placement is, and how fast.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from epic_host.cli_options import Json
from epic_spec.command import bench_group
from epic_spec.errors import ConfigError, EpicError

if TYPE_CHECKING:
    from epic_host.fabric.topology import Fabric

_HOSTS_PER_LEAF: Final = 32
_SPINES: Final = 8
_START: Final = 60.0
_STOP: Final = 20.0


def register(app: typer.Typer) -> None:
    """Add `epic bench manager` to the command."""
    bench_group(app).command("manager")(manager)


def manager(
    nodes: Annotated[int, typer.Option(min=2, max=4096, help="Registered hosts.")] = 1000,
    groups: Annotated[
        int, typer.Option(min=1, help="Groups made one after the other, and again at once.")
    ] = 200,
    ranks: Annotated[
        int, typer.Option(min=1, max=64, help="Ranks of a group, on hosts drawn at random.")
    ] = 4,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Groups made at once.")] = 8,
    requests: Annotated[
        int, typer.Option(min=0, help="Requests of the placement's figures; 0: none.")
    ] = 10000,
    instances: Annotated[
        int, typer.Option(min=0, help="Instances of the gap to the exact one; 0: none.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Which hosts, which requests.")] = 1,
    as_json: Json = False,
) -> None:
    """Latency and rate of making groups with many nodes registered; gap, speed, fairness of placement."""
    if ranks > nodes:
        raise ConfigError(f"--ranks = {ranks}, expected at most --nodes ({nodes})")
    console = Console(stderr=True)
    with console.status("starting") as status:

        def progress(what: str, done: int, of: int) -> None:
            status.update(f"{what} {done}/{of}")

        result: dict[str, Any] = {
            "nodes": nodes,
            "groups": groups,
            "ranks": ranks,
            "seed": seed,
            "runs": measure(nodes, groups, ranks, sorted({1, at_once}), seed, progress),
        }
        status.update("placement")
        result["placement"] = _placement(requests, instances, seed)
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        _print(result)


def measure(
    nodes: int,
    groups: int,
    ranks: int,
    at_once: Sequence[int],
    seed: int,
    progress: Callable[[str, int, int], None],
) -> list[dict[str, Any]]:
    """One row for each number of groups made at once; times in milliseconds. Raises LoadError."""
    from epic_host.manager import load

    rows = []
    with tempfile.TemporaryDirectory(prefix="epic-bench-") as name:
        folder = Path(name)
        fabric = _fabric(nodes, folder)
        with load.light_engines(tuple(fabric.engines), folder) as engines:
            for count in at_once:
                installs = sum(engine.installs for engine in engines.values())
                with _served(folder, fabric) as process:
                    work = load.Load(f"unix:{folder}/m.sock", tuple(fabric.hosts)[:nodes], ranks, seed)
                    samples = load.run(work.run(groups, count, progress))
                    cpu = _cpu_seconds(process.pid)
                installs = sum(engine.installs for engine in engines.values()) - installs
                rows.append(_row(count, samples, cpu, installs))
                (folder / "m.db").unlink()
            left = {name: engine.groups() for name, engine in engines.items() if engine.groups()}
            if left:
                raise load.LoadError(f"engines: {left} left, expected nothing after all groups ended")
    return rows


def _row(at_once: int, samples: Any, cpu: float, installs: int) -> dict[str, Any]:
    parts = {
        name: {
            "p50": _quantile(times, 0.5),
            "p99": _quantile(times, 0.99),
            "max": max(times, default=0.0) * 1e3,
        }
        for name, times in (
            ("create_ms", samples.create),
            ("ready_ms", samples.ready),
            ("freed_ms", samples.freed),
            ("heartbeat_ms", samples.heartbeat),
        )
    }
    return {
        "at_once": at_once,
        "groups_per_second": len(samples.ready) / samples.group_seconds,
        "registrations_per_second": samples.register_rate,
        "heartbeats": len(samples.heartbeat),
        "installs": installs,
        "manager_cpu_seconds": cpu,
        **parts,
    }


def _quantile(seconds: Sequence[float], part: float) -> float | None:
    """In milliseconds, the smallest time that at least `part` of all are not above; None of none."""
    ordered = sorted(seconds)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] * 1e3 if ordered else None


def _fabric(nodes: int, folder: Path) -> Fabric:
    from epic_host.fabric.builders import spine_leaf
    from epic_host.fabric.topology import EngineNode, HostNode

    numbers = iter(range(1 << 16))

    def host(name: str) -> HostNode:
        number = next(numbers)
        return HostNode(name, pool=f"127.{64 + number // 4096}.{number // 16 % 256}.{number % 16 * 16}/28")

    def engine(name: str) -> EngineNode:
        number = next(numbers) % 4096
        return EngineNode(name, f"unix:{folder}/{name}", f"127.60.{number // 200}.{1 + number % 200}")

    leaves = -(-nodes // _HOSTS_PER_LEAF)
    return spine_leaf(min(_SPINES, leaves), leaves, _HOSTS_PER_LEAF, host=host, engine=engine)


@contextmanager
def _served(folder: Path, fabric: Fabric) -> Iterator[subprocess.Popen[str]]:
    """A manager process."""
    (folder / "fabric.toml").write_text(fabric.to_toml())
    file = folder / "manager.toml"
    file.write_text(
        f'fabric = "fabric.toml"\nlisten = ["unix:{folder}/m.sock"]\ndatabase = "m.db"\npolicy = "spatial"\n'
        "[limits]\nlocal_requests_per_second = 1e6\nlocal_creates_per_second = 1e6\n"
    )
    log = folder / "log"
    command = [sys.executable, "-m", "epic_spec.command", "manager", "serve", "--config", str(file)]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            process.wait(_START)
            raise ConfigError(f"manager: {log.read_text().strip() or 'no word'}, expected it to serve")
        yield process
    except EpicError as error:
        lines = log.read_text().splitlines()
        raise type(error)(f"{error}; the manager's last words: {lines[-1] if lines else 'none'}") from None
    finally:
        process.terminate()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, in seconds; from /proc (proc(5))."""
    import os

    columns = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")


def _placement(requests: int, instances: int, seed: int) -> dict[str, Any]:
    """Figures of the resource library by itself, in this process."""
    from epic_host.fabric import bench

    figures: dict[str, Any] = {}
    if requests:
        figures["heuristic"] = bench.placement(requests=requests, seed=seed).to_dict()
    if instances:
        figures["gap"] = bench.gap(instances, seed).to_dict()
    return figures


def _print(result: dict[str, Any]) -> None:
    console = Console()
    groups = f"{result['groups']} groups of {result['ranks']} ranks"
    console.print(f"{result['nodes']} nodes registered, {groups}, seed {result['seed']}")
    table = Table("at once", "groups/s", "ms", "p50", "p99", "max", "manager CPU s")
    for row in result["runs"]:
        first = [str(row["at_once"]), f"{row['groups_per_second']:.1f}"]
        last = [f"{row['manager_cpu_seconds']:.1f}"]
        for name in ("create", "ready", "freed", "heartbeat"):
            times = row[f"{name}_ms"]
            table.add_row(*first, name, *(_shown(times[part]) for part in ("p50", "p99", "max")), *last)
            first, last = ["", ""], [""]
    console.print(table)
    console.print(
        "create: the answer to the request; ready: every rank has its grant, engines installed;",
        soft_wrap=True,
    )
    console.print(
        "freed: from the first rank's leaving to the group's end; heartbeat: of a node, meanwhile",
        soft_wrap=True,
    )
    _print_placement(console, result["placement"])


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print_placement(console: Console, figures: dict[str, Any]) -> None:
    if found := figures.get("heuristic"):
        refused = ", ".join(f"{word} {count}" for word, count in found["refused"].items()) or "none"
        console.print(
            f"placement: {found['requests']} requests on {found['hosts']} hosts and {found['engines']} engines in "
            f"{found['seconds']:.2f} s of processor ({found['rate']:.0f}/s, p99 {found['p99_us']:.0f} us); "
            f"{found['admitted']} admitted, refused: {refused}; memory used {found['utilization']:.1%}, "
            f"at most {found['peak']:.1%}",
            soft_wrap=True,
        )
    if found := figures.get("gap"):
        console.print(
            f"gap to the exact solution on {found['instances']} instances ({found['unsolved']} unsolved): one by one "
            f"{found['online_gap']:.1%} (worst {found['online_worst']:.1%}), all at once {found['batch_gap']:.1%} "
            f"(worst {found['batch_worst']:.1%}); "
            f"{found['exact_seconds']:.1f} s against {found['batch_seconds']:.1f} s of processor",
            soft_wrap=True,
        )
