"""Many simulations: a grid over parameters of one configuration, run by processes, each result on disk as it comes.

    simulator = "packet"                     # or "flow"
    workers = 4                              # processes; default: one a core
    seeds = [1, 2, 3]

    [grid]                                   # dotted keys of the configuration; every combination is run
    "job.0.algorithm" = ["mode2", "mode3", "ring"]
    "faults.loss" = [0.0, 0.0001, 0.001]

    [base.topology]                          # the configuration that the grid changes
    kind = "fat_tree"
    k = 4
    …

A line of `results.jsonl` has the point, the seed, and what the simulation gave. A sweep that was interrupted goes on
where it stopped: points whose line is there are not run again.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from epic_models.executors import executor as executor_of
from epic_models.tables import Table
from epic_spec.errors import ConfigError, EpicError
from epic_spec.loader import read_toml

RESULTS: Final = "results.jsonl"
CONFIG: Final = "sweep.toml"
SIMULATORS: Final = ("packet", "flow")
# What a line leaves out: a sweep has many, and most are not looked at.
_LEFT_OUT: Final = ("links",)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is run: `grid` by dotted key, over `base`, with each seed."""

    source: str
    simulator: str
    text: str
    base: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    workers: int

    def points(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Every combination of values, with every seed."""
        for values in itertools.product(*self.grid.values()):
            for seed in self.seeds:
                yield dict(zip(self.grid, values, strict=True)), seed

    def config(self, point: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The configuration of a point. Raises ConfigError for a key that leads nowhere."""
        data = copy.deepcopy(dict(self.base))
        for key, value in point.items():
            _put(data, key, value, self.source)
        return data | {"seed": seed}


def _put(data: dict[str, Any], key: str, value: Any, source: str) -> None:
    place: Any = data
    *parents, last = key.split(".")
    for part in parents:
        if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
            place = place[int(part)]
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            raise ConfigError(f"{source}: grid key {key!r} leads nowhere at {part!r}, expected a key of base")
    if not isinstance(place, dict):
        raise ConfigError(f"{source}: grid key {key!r}, expected it to end at a key of a table")
    place[last] = value


def load(path: Path) -> Sweep:
    """A sweep from a TOML file. Every point is checked. Raises ConfigError naming file, key and value."""
    top = Table(read_toml(path, "a sweep"), str(path))
    simulator = top.choice("simulator", "packet", SIMULATORS)
    workers = top.whole("workers", os.cpu_count() or 1, 1, 1024)
    seeds, grid, base = top.other("seeds", [0]), top.other("grid", {}), top.other("base", {})
    top.done()
    if not isinstance(seeds, list) or not seeds or not all(type(s) is int and s >= 0 for s in seeds):
        raise ConfigError(f"{path}: seeds = {seeds!r}, expected a list of whole numbers")
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise ConfigError(f"{path}: grid = {grid!r}, expected a table of keys with lists of values")
    if not isinstance(base, dict):
        raise ConfigError(f"{path}: base = {base!r}, expected a table")
    values = {key: tuple(row) for key, row in grid.items()}
    sweep = Sweep(str(path), simulator, path.read_text(), base, values, tuple(seeds), workers)
    for point, seed in sweep.points():
        shown = ", ".join(f"{key} = {value!r}" for key, value in point.items())
        where = f"{path}: base" + (f" with {shown}" if shown else "")
        _parse(simulator, sweep.config(point, seed), where, path.parent)
    return sweep


def done(out: Path) -> list[dict[str, Any]]:
    """The results that are in a folder. A line that was cut off by the end of a process is left out."""
    try:
        lines = (out / RESULTS).read_text().splitlines()
    except FileNotFoundError:
        return []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def run(sweep: Sweep, out: Path, executor: str | None = None) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Run what is not there yet; gives (done so far, of how many, result) as results come.

    Results go to `out`/results.jsonl at once. `executor`: dask://HOST:PORT, None: `workers` processes. Raises
    ConfigError when `out` has results of another sweep, or the executor is not there.
    """
    _claim(sweep, out)
    have = done(out)
    keys = {_key(row["point"], row["seed"]) for row in have}
    points = list(sweep.points())
    left = [(point, seed) for point, seed in points if _key(point, seed) not in keys]
    count = len(points) - len(left)
    folder = str(Path(sweep.source).parent.resolve())
    tasks = [(sweep.simulator, sweep.config(point, seed), sweep.source, folder) for point, seed in left]
    with executor_of(executor, sweep.workers) as pool, (out / RESULTS).open("a") as file:
        for index, result in pool.results(_one, tasks):
            point, seed = left[index]
            row = {"point": point, "seed": seed, **result}
            file.write(json.dumps(row) + "\n")
            file.flush()
            count += 1
            yield count, len(points), row


def _claim(sweep: Sweep, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        config = out / CONFIG
        if config.exists() and config.read_text() != sweep.text:
            raise ConfigError(
                f"out = {str(out)!r} has results of another sweep, expected a folder of its own"
            )
        config.write_text(sweep.text)
        # A line that was cut off must not swallow the next one.
        results = out / RESULTS
        if results.exists() and not results.read_bytes().endswith(b"\n"):
            results.write_bytes(results.read_bytes() + b"\n")
    except OSError as error:
        raise ConfigError(
            f"out = {str(out)!r}: {error.strerror}, expected a folder that can be written"
        ) from None


def _key(point: Mapping[str, Any], seed: int) -> str:
    return json.dumps([dict(point), seed], sort_keys=True)


def _parse(
    simulator: str, data: Mapping[str, Any], source: str, folder: Path
) -> Callable[[], dict[str, Any]]:
    """A simulation that is checked; called, it runs. Raises ConfigError naming `source`."""
    # Imported here: a simulator compiles, and a sweep has one of them.
    if simulator == "flow":
        from epic_models.flowsim import config as flow_config

        flow = flow_config.parse(data, source, folder)
        if flow.generator is None:
            flow.jobs()

        def run_flow() -> dict[str, Any]:
            from epic_models.flowsim.result import simulate

            return simulate(flow).to_dict()

        return run_flow
    from epic_models.packetsim import config as packet_config

    packet = packet_config.parse(data, source)

    def run_packet() -> dict[str, Any]:
        from epic_models.packetsim.result import simulate

        return simulate(packet).to_dict()

    return run_packet


def _one(simulator: str, data: dict[str, Any], source: str, folder: str) -> dict[str, Any]:
    """One simulation, in a process of its own. An error is a result too: the others go on."""
    try:
        row = _parse(simulator, data, source, Path(folder))()
    except EpicError as error:
        return {"error": str(error)}
    return {key: value for key, value in row.items() if key not in _LEFT_OUT}
