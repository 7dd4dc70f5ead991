"""`epic bench sim`: how fast the simulators are, and what memory a packet takes, beside ns-3 on an equal workload."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from epic_models import bench_ns3
from epic_spec.command import bench_group
from epic_spec.errors import ConfigError

PARTS: Final = ("speed", "memory", "ns3", "fat-tree", "flow")
_FABRIC: Final = {"kind": "fat_tree", "k": 8}
# What is run for the rate: about a million packet hops each.
CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "mode3": {"algorithm": "mode3", "size": "4MiB"},
    "mode2": {"algorithm": "mode2", "size": "2MiB"},
    "ring": {"algorithm": "ring", "size": "2MiB", "ranks": 64},
}
# The peer's: pairs of hosts, packets of a shard, window.
PEER: Final = (32, 500, 64)
FAT_TREE: Final = {
    "topology": {"kind": "fat_tree", "k": 16},
    "job": [{"algorithm": "mode3", "size": "16MiB", "window": 64}],
}
FLOW: Final = {
    "topology": {"kind": "fat_tree", "k": 74},
    "generate": {
        "jobs": 10_000,
        "rate_per_s": 160.0,
        "ranks": [8, 16, 32, 64, 128, 256],
        "tp": [1, 1, 4],
        "pp": [1, 1, 2],
        "algorithm": ["mode3", "mode3", "ring"],
        "placement": "packed",
    },
}


def register(app: typer.Typer) -> None:
    """Add `epic bench sim` to the command."""
    bench_group(app).command("sim")(sim)


def sim(
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; repeatable.")] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs of which the quickest counts.")] = 5,
    ns3: Annotated[
        Path | None, typer.Option(help="Folder of the ns3 package, where it is not installed here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Packet hops per second of one core, bytes per packet in flight, large cases, and ns-3 beside it."""
    for part in only or ():
        if part not in PARTS:
            raise ConfigError(f"--only = {part!r}, expected one of {', '.join(PARTS)}")
    parts = tuple(only) if only else PARTS
    with Console(stderr=True).status("compiling") as status:
        result = measure(parts, repeat, ns3, status.update)
    if as_json:
        print(json.dumps(result, sort_keys=True))
    else:
        _print(result)


def measure(
    parts: Sequence[str], repeat: int, ns3: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """What the JSON has, a key for each of `parts`. Raises ConfigError and PeerError."""
    result: dict[str, Any] = {"repeat": repeat}
    if set(parts) - {"flow", "memory"}:
        begin = time.process_time()
        _packets(_config(_FABRIC, [{"algorithm": "mode3", "size": 1024}]))
        result["first_run_cpu_s"] = time.process_time() - begin
    if "speed" in parts:
        say("packets per second")
        result["speed"] = {name: _best(_config(_FABRIC, [dict(job)]), repeat) for name, job in CASES.items()}
    if "memory" in parts:
        result["memory"] = {
            "bytes_per_packet": bytes_per_packet(False),
            "with_values": bytes_per_packet(True),
        }
    if "ns3" in parts:
        say("ns-3")
        result["ns3"] = _peer(ns3, repeat)
    if "fat-tree" in parts:
        say("1,024 hosts")
        result["fat-tree"] = _packets(dict(FAT_TREE))
    if "flow" in parts:
        say("100,000 hosts, 10,000 jobs")
        result["flow"] = _flow()
    return result


def _config(topology: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"topology": dict(topology), "job": [dict(job) for job in jobs]}


def _packets(data: dict[str, Any]) -> dict[str, Any]:
    """One run: packet hops, and seconds of processor and wall for building the world and for running it."""
    from epic_models.packetsim.config import parse
    from epic_models.packetsim.result import simulate

    cpu, wall = time.process_time(), time.perf_counter()
    result = simulate(parse(data, "bench"))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    row = result.to_dict()
    if row["ended"] != "done":
        raise ConfigError(f"bench: ended {row['ended']!r}, expected every collective to end")
    return {
        "hosts": result.config.network.hosts,
        "hops": row["packet_hops"],
        "events": row["events"],
        "cpu_s": cpu,
        "wall_s": wall,
        "run_cpu_s": result.cpu,
        "run_wall_s": result.wall,
        "hops_per_s": row["packet_hops"] / result.cpu,
        "most_in_flight": row["most_in_flight"],
        "completion_us": row["completion_us"],
    }


def _best(data: dict[str, Any], repeat: int) -> dict[str, Any]:
    return min((_packets(data) for _ in range(repeat)), key=lambda row: float(row["run_cpu_s"]))


def bytes_per_packet(values: bool) -> float:
    """Memory by which a world grows with each packet that may be in flight: of all its arrays."""
    from epic_models.packetsim.build import build
    from epic_models.packetsim.config import parse

    data = _config({"kind": "1-2-4"}, [{"algorithm": "mode3"}]) | {"payload_check": values}
    counts = (1 << 14, 1 << 15)
    sizes = [sum(array.nbytes for array in build(parse(data, "bench"), packets=n)[0]) for n in counts]
    return (sizes[1] - sizes[0]) / (counts[1] - counts[0])


def _peer(folder: Path | None, repeat: int) -> dict[str, Any]:
    found = bench_ns3.find(folder)
    ours = _best(bench_ns3.workload(*PEER), repeat)
    result = {"pairs": PEER[0], "shard": PEER[1], "window": PEER[2], "packetsim": ours}
    if found is None:
        where = f"in {folder}" if folder else "installed"
        return result | {"peer": None, "why": f"ns-3 is not {where}; to have it: {bench_ns3.HOW}"}
    theirs = bench_ns3.run(found, *PEER)
    rate = theirs["hops"] / theirs["cpu_s"]
    return result | {"peer": theirs | {"hops_per_s": rate}, "ratio": ours["hops_per_s"] / rate}


def _flow() -> dict[str, Any]:
    from epic_models.flowsim.config import parse
    from epic_models.flowsim.result import simulate

    cpu, wall = time.process_time(), time.perf_counter()
    row = simulate(parse(dict(FLOW), "bench")).to_dict()
    return {
        "hosts": row["hosts"],
        "jobs": row["jobs"],
        "jobs_done": row["jobs_done"],
        "events": row["events"],
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
    }


def _print(result: Mapping[str, Any]) -> None:
    console = Console()

    def line(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    if "first_run_cpu_s" in result:
        line(f"first run: {result['first_run_cpu_s']:.1f} s of processor (compiling, where nothing was kept)")
    if "speed" in result:
        table = Table("packetsim", "hosts", "packet hops", "CPU s", "wall s", "hops per CPU second")
        for name, row in result["speed"].items():
            table.add_row(
                name, f"{row['hosts']:,}", f"{row['hops']:,}", f"{row['run_cpu_s']:.3f}", f"{row['run_wall_s']:.3f}",
                f"{row['hops_per_s'] / 1e6:.2f} million",
            )  # fmt: skip
        console.print(table)
    if "memory" in result:
        row = result["memory"]
        line(
            f"memory: {row['bytes_per_packet']:.0f} bytes per packet in flight, {row['with_values']:.0f} with values"
        )
    if "ns3" in result:
        _print_peer(result["ns3"], line)
    if "fat-tree" in result:
        row = result["fat-tree"]
        line(
            f"fat tree of {row['hosts']:,} hosts, 16 MiB AllReduce in Mode III: {row['cpu_s']:.1f} s of processor, "
            f"{row['wall_s']:.1f} s, {row['hops']:,} packet hops, {row['most_in_flight']:,} packets in flight at most"
        )
    if "flow" in result:
        row = result["flow"]
        line(
            f"flow level, {row['hosts']:,} hosts: {row['jobs_done']:,} of {row['jobs']:,} jobs, {row['cpu_s']:.1f} s "
            f"of processor, {row['wall_s']:.1f} s, {row['events']:,} events"
        )


def _print_peer(row: Mapping[str, Any], line: Callable[[str], None]) -> None:
    ours = row["packetsim"]
    line(
        f"{row['pairs']} pairs of hosts on point-to-point links: packetsim {ours['hops']:,} packet hops, "
        f"{ours['hops_per_s'] / 1e6:.2f} million per CPU second, ended at {ours['completion_us']:.3f} us"
    )
    peer = row["peer"]
    if peer is None:
        line(row["why"])
        return
    line(
        f"the same in ns-3 ({peer['scheduler']}): {peer['hops']:,} packet hops, {peer['hops_per_s'] / 1e6:.2f} million "
        f"per CPU second, ended at {peer['completion_ps'] / 1e6:.3f} us; packetsim is {row['ratio']:.1f} times as fast"
    )
