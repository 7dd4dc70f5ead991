"""Running a configuration, and what came out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_models.packetsim import loop
from epic_models.packetsim.build import Plan, build, picoseconds
from epic_models.packetsim.config import HEADER_BYTES, Config, Job
from epic_models.packetsim.reference import reference
from epic_models.packetsim.world import PS, World
from epic_spec.errors import EpicError

# Events between two looks at the clock, for the progress bar.
_CHUNK: Final = 2_000_000
# Queues of which the samples are in a result.
_SHOWN_QUEUES: Final = 4


class SimulationError(EpicError):
    """A simulation needs more memory than it was given."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job: when each rank ended each collective, in seconds; NaN: it did not.

    `ends` and `starts` have shape (ranks, iterations).
    """

    job: Job
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    retransmissions: int

    @property
    def completion(self) -> NDArray[np.float64]:
        """Seconds of each iteration: from the first rank's start to the last rank's end."""
        return np.asarray(self.ends.max(axis=0) - self.starts.min(axis=0))

    @property
    def late(self) -> list[int]:
        """Ranks that did not end."""
        return [int(r) for r in np.flatnonzero(np.isnan(self.ends).any(axis=1))]


@dataclass(frozen=True, slots=True)
class Result:
    """A simulation that has ended, and why: "done", "idle" (nothing left to happen), "time"."""

    config: Config
    world: World
    plan: Plan
    why: str
    # Seconds of the clock, and of the processor, that running it took.
    wall: float
    cpu: float
    jobs: tuple[JobResult, ...]

    def _group(self, index: int) -> Any:
        """The record of a job's group."""
        return self.world.groups[self.world.agents[self.plan.jobs[index][0]]["group"]]

    def _host_payload(self) -> int:
        """Bytes without headers on that link out of a host which carried the most."""
        links = self.world.links
        own = links["from_"] < self.config.network.hosts
        # Packets and acknowledgements have headers of the same length.
        return int((links["bytes"] - links["packets"] * HEADER_BYTES)[own].max())

    def _queues(self) -> dict[str, Any] | None:
        """Bytes that waited at switches over time: the longest queue, all of them, and those that were the longest."""
        count = int(self.world.sim[0]["samples"])
        if not count:
            return None
        network = self.config.network
        switches = np.flatnonzero(self.world.links["from_"] >= network.hosts)
        samples = self.world.samples[:count, switches]
        worst = np.argsort(-samples.max(axis=0), kind="stable")[:_SHOWN_QUEUES]
        return {
            "every_us": self.config.sample * 1e6,
            "longest_bytes": samples.max(axis=1).tolist(),
            "all_bytes": samples.sum(axis=1).tolist(),
            "links": {network.link_name(int(switches[i])): samples[:, i].tolist() for i in worst},
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: microseconds, packets, and figures of every link that carried something."""
        sim, links, network = self.world.sim[0], self.world.links, self.config.network
        used = np.flatnonzero(links["packets"] + links["dropped"] + links["lost"])
        now = max(int(sim["now"]), 1)
        ends = [float(job.ends.max()) for job in self.jobs]
        return {
            "config": self.config.source,
            "seed": self.config.seed,
            "ended": self.why,
            "completion_us": None if np.isnan(ends).any() else round(max(ends) * 1e6, 6),
            "events": int(sim["events"]),
            "wall_s": round(self.wall, 4),
            "events_per_s": round(int(sim["events"]) / max(self.wall, 1e-9)),
            "packets": int(links["packets"].sum()),
            "packet_hops": int(sim["hops"]),
            "drops": int(links["dropped"].sum()),
            "lost": int(links["lost"].sum()),
            "duplicated": int(links["duplicated"].sum()),
            "reordered": int(links["reordered"].sum()),
            "marked": int(links["marked"].sum()),
            "retransmissions": int(self.world.ends["retransmissions"].sum()),
            "checked": int(sim["checked"]),
            "wrong": int(sim["wrong"]),
            "most_in_flight": int(sim["most_in_flight"]),
            "host_link_payload_bytes": self._host_payload(),
            "queues": self._queues(),
            "jobs": [
                {
                    "name": job.job.name,
                    "algorithm": job.job.algorithm,
                    "ranks": len(job.job.hosts),
                    "size_bytes": job.job.size,
                    "slot_bytes": int(self._group(i)["slot_count"]) * job.job.cell_bytes,
                    "completion_us": [_microseconds(x) for x in job.completion],
                    "retransmissions": job.retransmissions,
                    "late_ranks": job.late,
                }
                for i, job in enumerate(self.jobs)
            ],
            "links": {
                network.link_name(int(i)): {
                    "packets": int(links["packets"][i]),
                    "bytes": int(links["bytes"][i]),
                    "utilization": round(float(links["bytes"][i] * links["ps_per_byte"][i] / now), 6),
                    "drops": int(links["dropped"][i]),
                    "lost": int(links["lost"][i]),
                    "deepest_bytes": int(links["deepest"][i]),
                    "pauses": int(links["pauses"][i]),
                }
                for i in used
            },
        }


def _microseconds(seconds: float) -> float | None:
    return None if np.isnan(seconds) else round(float(seconds) * 1e6, 6)


def simulate(config: Config, progress: Callable[[World], None] | None = None, **options: Any) -> Result:
    """Run a configuration to its end; `options` are those of `build`. Raises ConfigError, SimulationError."""
    world, plan = build(config, **options)
    begin, processor = time.perf_counter(), time.process_time()
    why = loop.EVENTS
    until = picoseconds(config.time_limit)
    whole = reference(world)
    while why == loop.EVENTS:
        why = loop.run(whole, until, _CHUNK)
        if progress is not None:
            progress(world)
    wall, cpu = time.perf_counter() - begin, time.process_time() - processor
    if why == loop.FULL:
        raise SimulationError(
            f"{config.source}: more than {len(world.packets)} packets in flight, "
            "expected fewer (smaller windows or buffers, or more memory for packets)"
        )
    jobs = tuple(_job(job, config, world, plan.jobs[i]) for i, job in enumerate(config.jobs))
    return Result(
        config, world, plan, {loop.DONE: "done", loop.IDLE: "idle", loop.TIME: "time"}[why], wall, cpu, jobs
    )


def _job(job: Job, config: Config, world: World, agents: range) -> JobResult:
    group = world.groups[world.agents[agents[0]]["group"]]
    shape = (len(agents), job.iterations)
    first, count = int(group["delays"]), len(agents) * job.iterations
    ends = np.asarray(world.finish[first : first + count].reshape(shape) * PS, np.float64)
    ends[ends < 0] = np.nan
    starts = np.asarray(world.starts[first : first + count].reshape(shape) * PS, np.float64)
    starts[:, 1:] += ends[:, :-1]
    mine = world.ends["group"] == world.agents[agents[0]]["group"]
    return JobResult(job, starts, ends, int(world.ends["retransmissions"][mine].sum()))
