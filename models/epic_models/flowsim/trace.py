"""Many jobs: from a trace file, or drawn from distributions.

A trace file has one job a line, as JSON: the keys of [[job]] (`config`), such as

    {"name": "j0", "start_us": 0, "ranks": 16, "exclusive": true, "iterations": 10, "tp": 4,
     "phase": [{"compute_us": 5000, "algorithm": "mode3", "size": "64MiB", "over": "tp"},
               {"algorithm": "mode3", "size": "256MiB", "over": "dp"}]}
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from epic_models.flowsim.collectives import HOST_ALGORITHMS, Cut
from epic_models.flowsim.draws import KINDS
from epic_models.flowsim.jobs import Job, Phase, check, parse_job
from epic_models.packetsim.config import MODES, PLACEMENTS
from epic_models.tables import Table, size_of
from epic_spec.errors import ConfigError

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Generator:
    """Training jobs that come at random (a Poisson process), each on hosts of its own.

    `ranks`, `tp`, `pp` and `algorithms` are lists to draw from, each element as likely; tp and pp of a job are halved
    until tp x pp divides its ranks and leaves two data-parallel parts. Pairs are least and greatest: iterations evenly,
    the others evenly in their logarithm. An iteration computes, exchanges activations (`activations` bytes, over the
    tensor-parallel groups, and along the pipeline), and reduces gradients over the data-parallel groups (`gradients`
    bytes of the whole model, of which each rank has 1 / (tp pp)).
    """

    jobs: int
    rate: float
    ranks: tuple[int, ...]
    tp: tuple[int, ...]
    pp: tuple[int, ...]
    algorithms: tuple[str, ...]
    placement: str
    iterations: tuple[int, int]
    compute: Pair
    straggle: float
    straggle_kind: str
    activations: Pair
    gradients: Pair
    cut: Cut

    def draw(self, seed: int) -> Iterator[Job]:
        """The jobs, in order of time; the same for a seed."""
        rng = random.Random(f"trace {seed}")
        now = 0.0
        for number in range(self.jobs):
            now += rng.expovariate(self.rate)
            yield self._job(rng, number, now)

    def _job(self, rng: random.Random, number: int, now: float) -> Job:
        ranks, tp, pp = rng.choice(self.ranks), rng.choice(self.tp), rng.choice(self.pp)
        while tp * pp > 1 and (ranks % (tp * pp) or ranks // (tp * pp) < 2):
            tp, pp = (tp // 2, pp) if tp >= pp else (tp, pp // 2)
            tp, pp = max(tp, 1), max(pp, 1)
        algorithm = rng.choice(self.algorithms)
        compute, activations, gradients = (
            _log_uniform(rng, pair) for pair in (self.compute, self.activations, self.gradients)
        )
        phases = []
        if tp > 1:
            phases.append(Phase(algorithm=algorithm, size=round(activations), over="tp"))
        if pp > 1:
            phases.append(Phase(algorithm="chain", size=round(activations), over="pp"))
        if ranks > 1:
            phases.append(Phase(algorithm=algorithm, size=max(1, round(gradients / (tp * pp))), over="dp"))
        first = phases[0] if phases else Phase()
        phases[:1] = [
            replace(
                first, compute=compute, straggle=compute * self.straggle, straggle_kind=self.straggle_kind
            )
        ]
        return Job(
            name=f"j{number}",
            ranks=ranks,
            phases=tuple(phases),
            placement=self.placement,
            exclusive=True,
            start=now,
            iterations=rng.randint(*self.iterations),
            tp=tp,
            pp=pp,
            cut=self.cut,
        )


def parse_generator(data: object, hosts: int, where: str) -> Generator:
    """From the table [generate]. Raises ConfigError naming `where`."""
    table = Table(data, where)
    made = Generator(
        jobs=table.whole("jobs", None, 1, 10**7),
        rate=table.number("rate_per_s", None, 1e-9, 1e9),
        ranks=_wholes(table, "ranks", [8, 16, 32, 64], hosts),
        tp=_wholes(table, "tp", [1], hosts),
        pp=_wholes(table, "pp", [1], hosts),
        algorithms=_words(table, "algorithm", ["mode3"], (*MODES, *HOST_ALGORITHMS[:4])),
        placement=table.choice("placement", "packed", PLACEMENTS),
        iterations=_whole_pair(table, "iterations", [5, 20]),
        compute=_pair(table, "compute_us", [10_000.0, 100_000.0], 1e-6),
        # A share of the time for computing.
        straggle=table.number("straggle", 0.0, 0.0, 1e3),
        straggle_kind=table.choice("straggle_kind", "exponential", KINDS),
        activations=_sizes(table, "activations", ["4MiB", "64MiB"]),
        gradients=_sizes(table, "gradients", ["64MiB", "4GiB"]),
        cut=Cut(payload=table.whole("payload", 1024, 64, 8192), window=table.whole("window", 256, 1, 65536)),
    )
    table.done()
    return made


def read(path: Path, numbers: Mapping[str, int]) -> list[Job]:
    """Jobs from a trace file. Raises ConfigError naming file and line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise ConfigError(f"{path}: {reason}, expected a trace: one job a line, as JSON") from None
    jobs = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}: line {number}: {error}, expected a job as JSON") from None
        jobs.append(parse_job(data, numbers, f"{path}: line {number}"))
    return jobs


def write(path: Path, jobs: Sequence[Job]) -> None:
    """A trace file that `read` makes the same jobs of. Raises ConfigError where it cannot be written."""
    try:
        with path.open("w") as file:
            for job in jobs:
                file.write(json.dumps(job.to_table()) + "\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a file that can be written") from None


def checked(job: Job, where: str) -> Job:
    """A drawn job, checked as one that was written."""
    check(job, f"{where}: {job.name}")
    return job


def _log_uniform(rng: random.Random, pair: Pair) -> float:
    low, high = pair
    return low if low == high else math.exp(rng.uniform(math.log(low), math.log(high)))


def _list(table: Table, key: str, default: Sequence[Any]) -> list[Any]:
    values = table.other(key, list(default))
    values = values if isinstance(values, list) else [values]
    if not values:
        raise ConfigError(f"{table.where}: {key} = [], expected one or more")
    return values


def _wholes(table: Table, key: str, default: Sequence[int], high: int) -> tuple[int, ...]:
    values = _list(table, key, [v for v in default if v <= high] or [high])
    return tuple(Table({key: v}, table.where).whole(key, None, 1, high) for v in values)


def _words(table: Table, key: str, default: Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    values = _list(table, key, default)
    return tuple(Table({key: v}, table.where).choice(key, None, choices) for v in values)


def _two(table: Table, key: str, default: Sequence[Any]) -> list[Any]:
    values = _list(table, key, default)
    if len(values) > 2:
        raise ConfigError(
            f"{table.where}: {key} = {values!r}, expected one value, or the least and the greatest"
        )
    return [values[0], values[-1]]


def _ordered(table: Table, key: str, low: Any, high: Any) -> tuple[Any, Any]:
    if low > high:
        raise ConfigError(f"{table.where}: {key} = [{low}, {high}], expected the least first")
    return low, high


def _pair(table: Table, key: str, default: Sequence[float], unit: float) -> Pair:
    low, high = (Table({key: v}, table.where).number(key, None, 1e-6) for v in _two(table, key, default))
    _ordered(table, key, low, high)
    return low * unit, high * unit


def _whole_pair(table: Table, key: str, default: Sequence[int]) -> tuple[int, int]:
    low, high = (Table({key: v}, table.where).whole(key, None, 1, 10**9) for v in _two(table, key, default))
    return _ordered(table, key, low, high)


def _sizes(table: Table, key: str, default: Sequence[str]) -> Pair:
    low, high = (size_of(v, f"{table.where}: {key}") for v in _two(table, key, default))
    if low < 1:
        raise ConfigError(f"{table.where}: {key} = {low}, expected 1 or more")
    return _ordered(table, key, float(low), float(high))
