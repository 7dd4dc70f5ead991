"""Running a configuration at flow level, and what came out."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_models.flowsim.config import Config
from epic_models.flowsim.running import JobEnd
from epic_models.flowsim.simulation import Simulation
from epic_spec.errors import ConfigError

# Of which distributions are given, so that they can be drawn.
QUANTILES: Final = tuple(round(q / 20, 2) for q in range(21))
# Links in the JSON form: those that carried most. All are in links.csv.
BUSIEST: Final = 100


@dataclass(frozen=True, slots=True)
class Result:
    """A simulation that has ended, and why: "done", or "time"."""

    config: Config
    simulation: Simulation
    why: str
    wall: float

    @property
    def ends(self) -> list[JobEnd]:
        """Jobs that began, in the order of their ends; those without an end last."""
        return self.simulation.ends

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: microseconds, shares. All but `wall_s` and `events_per_s` follows from config and seed.

        What the packet level has and this one does not is null.
        """
        done = [job for job in self.ends if job.end is not None]
        times = np.array([job.end - job.job.start for job in done if job.end is not None]) * 1e6
        slow = np.array([job.slowdown for job in done])
        waits = [job.began - job.job.start for job in self.ends]
        network, hosts = sum(job.in_network for job in self.ends), sum(job.on_hosts for job in self.ends)
        used = self.utilization()
        used = used[used > 0]
        limits = self.config.limits
        return {
            "simulator": "flow",
            "config": self.config.source,
            "seed": self.config.seed,
            "ended": self.why,
            "completion_us": _us(self.simulation.now) if self.why == "done" else None,
            "events": self.simulation.events,
            "wall_s": round(self.wall, 4),
            "events_per_s": round(self.simulation.events / max(self.wall, 1e-9)),
            **dict.fromkeys(("packets", "drops", "retransmissions", "wrong")),
            "hosts": self.config.topology.hosts,
            "jobs": len(done) + self.simulation.unfinished,
            "jobs_done": len(done),
            "policy": limits.policy if limits is not None else None,
            "jct_us": _summary(times),
            "slowdown": _summary(slow),
            "quantiles": list(QUANTILES),
            "jct_quantiles_us": _quantiles(times),
            "slowdown_quantiles": _quantiles(slow),
            "jain": jain(1.0 / slow),
            "network_share": round(network / (network + hosts), 9) if network + hosts else None,
            "never_in_network": sum(job.never for job in self.ends),
            "path_changes": self.simulation.path_changes,
            "mean_wait_us": _us(float(np.mean(waits))) if waits else None,
            "utilization": {
                "mean": round(float(used.mean()), 9) if len(used) else 0.0,
                "max": round(float(used.max()), 9) if len(used) else 0.0,
            },
        }

    def utilization(self) -> NDArray[np.float64]:
        """Of every directed link, the share of its bytes that it carried, over the whole time."""
        links = self.simulation.rates.links
        return np.asarray(links["bytes"] / links["capacity"] / max(self.simulation.now, 1e-30))

    def links(self, most: int = BUSIEST) -> dict[str, dict[str, float]]:
        """The links that carried most, by name."""
        used, network = self.utilization(), self.config.topology.network
        carried = self.simulation.rates.links["bytes"]
        order = np.lexsort((np.arange(len(used)), -used))[:most]
        return {
            network.link_name(int(i)): {
                "bytes": round(float(carried[i])),
                "utilization": round(float(used[i]), 9),
            }
            for i in order
            if carried[i] > 0
        }

    def jobs(self) -> list[dict[str, Any]]:
        """Each job, in the order of their numbers."""
        return [_row(job) for job in sorted(self.ends, key=lambda job: (job.job.start, job.job.name))]


def simulate(config: Config, progress: Callable[[Simulation], None] | None = None) -> Result:
    """Run a configuration to its end. Raises ConfigError."""
    begin = time.perf_counter()
    simulation = Simulation(config)
    why = simulation.run(progress)
    return Result(config, simulation, why, time.perf_counter() - begin)


def jain(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has all; None of nobody.

    (sum x)^2 / (n sum x^2); Jain, Chiu, Hawe: A quantitative measure of fairness, DEC-TR-301, 1984.
    """
    x = np.asarray(values, np.float64)
    squares = float((x * x).sum())
    return round(float(x.sum()) ** 2 / (len(x) * squares), 9) if squares else None


def write(result: Result, out: Path) -> None:
    """Write result.json (with jobs and the busiest links), jobs.csv and links.csv. Raises ConfigError."""
    import json

    rows = result.jobs()
    try:
        out.mkdir(parents=True, exist_ok=True)
        row = result.to_dict() | {"links": result.links()}
        (out / "result.json").write_text(json.dumps(row, indent=1) + "\n")
        with (out / "jobs.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]) if rows else ["name"])
            table.writeheader()
            table.writerows(rows)
        with (out / "links.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["link", "bytes", "utilization"])
            lines.writerows(
                (name, link["bytes"], link["utilization"])
                for name, link in result.links(len(result.simulation.rates.links)).items()
            )
    except OSError as error:
        raise ConfigError(
            f"out = {str(out)!r}: {error.strerror}, expected a folder that can be written"
        ) from None


def _row(job: JobEnd) -> dict[str, Any]:
    told = job.end is not None
    return {
        "name": job.job.name,
        "ranks": job.job.ranks,
        "arrived_us": _us(job.job.start),
        "began_us": _us(job.began),
        "ended_us": _us(job.end) if job.end is not None else None,
        "completion_us": _us(job.end - job.job.start) if job.end is not None else None,
        "alone_us": _us(job.alone),
        "slowdown": round(job.slowdown, 9) if told else None,
        "communicating_us": _us(job.communicating),
        "in_network_us": _us(job.in_network),
        "on_hosts_us": _us(job.on_hosts),
    }


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 6)


def _summary(values: NDArray[np.float64]) -> dict[str, float] | None:
    if not len(values):
        return None
    found = {"mean": values.mean(), "p50": np.quantile(values, 0.5), "p95": np.quantile(values, 0.95)}
    found |= {"p99": np.quantile(values, 0.99), "max": values.max()}
    return {name: round(float(value), 6) for name, value in found.items()}


def _quantiles(values: NDArray[np.float64]) -> list[float] | None:
    return [round(float(v), 6) for v in np.quantile(values, QUANTILES)] if len(values) else None
