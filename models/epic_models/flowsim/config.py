"""What is simulated, from a TOML file: a topology, switches' limits, and jobs, listed, from a trace, or drawn.

seed = 1
time_limit_s = 1e6
apart = false                       # true: groups of one phase have rates of their own; with [switches] they always do

[topology]
kind = "fat_tree"                   # spine_leaf, single; and those of packetsim: 1-2-4, tree, dragonfly, listed
k = 74                              # spine_leaf: spines, leaves, hosts_per_leaf, up_gbps; single: hosts
rate_gbps = 100.0
delay_ns = 500.0                    # of a link, with what the node behind it takes

[switches]                          # without it switches have room for every group
slot_kib = 1024                     # memory for slots of each switch; without it: no limit
groups = 64                         # group entries of each switch; without it: no limit
mode = 3                            # in which switches work; groups of another one stay on their hosts
policy = "spatial"                  # temporal, best_effort: those of the fabric manager
quantum_ms = 2000.0                 # temporal: how long a turn is
change_us = 10000.0                 # a group that changes its path stands still for so long

[[job]]
name = "train"
ranks = 64                          # or hosts = ["h0", "h3"]
placement = "packed"                # spread, random
exclusive = false                   # true: hosts that no other exclusive job has; the job waits for them
start_us = 0.0
iterations = 10
tp = 4                              # ranks of a tensor-parallel group, stages of the pipeline
pp = 1
payload = 1024
message = 16384
window = 64                         # cells; between hosts: packets in flight on a connection
fallback = "ring"                   # what a group does that wants the network and does not have it

[[job.phase]]                       # one after the other, in every iteration; a job may have the keys of one itself
compute_us = 5000.0
straggle_us = 100.0                 # mean of a random delay of every rank; the slowest counts
straggle = "exponential"            # uniform, pareto

[[job.phase]]
algorithm = "mode3"                 # mode1, mode2, ring, halving_doubling, double_tree, parameter_server, chain
primitive = "all_reduce"            # reduce, broadcast, barrier, reduce_scatter, all_gather
size = "64MiB"
over = "dp"                         # tp, pp, all: between which ranks; all groups of a kind at once
root = 0

[trace]
file = "jobs.jsonl"                 # relative to this file; a job a line, see `trace`

[generate]                          # jobs drawn at random, see `trace.Generator`
jobs = 10000
rate_per_s = 50.0
ranks = [8, 16, 32, 64]
tp = [1, 4]
pp = [1]
algorithm = ["mode3"]
placement = "packed"
iterations = [5, 20]
compute_us = [10000.0, 100000.0]
straggle = 0.05                     # mean of a rank's delay, as a share of the time for computing
straggle_kind = "exponential"
activations = ["4MiB", "64MiB"]
gradients = ["64MiB", "4GiB"]
payload = 1024
window = 256
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epic_models.flowsim import trace
from epic_models.flowsim.jobs import Job, parse_job
from epic_models.flowsim.sharing import Limits, maker
from epic_models.flowsim.topology import FatTree, Searched, SpineLeaf, Topology
from epic_models.packetsim.config import network_of
from epic_models.tables import Table
from epic_spec.errors import ConfigError
from epic_spec.loader import read_toml


@dataclass(frozen=True, slots=True)
class Config:
    """All of it. `time_limit` in seconds of the simulated network.

    `apart`: if not, groups of one phase of a job move in step, as fast as the slowest, which costs far less to
    simulate.
    """

    source: str
    topology: Topology
    listed: tuple[Job, ...]
    generator: trace.Generator | None
    limits: Limits | None
    seed: int = 0
    time_limit: float = 1e6
    apart: bool = False

    def jobs(self) -> list[Job]:
        """Listed ones, those of the trace, and those drawn with the seed. Raises ConfigError."""
        drawn = []
        if self.generator is not None:
            where = f"{self.source}: generate"
            drawn = [trace.checked(job, where) for job in self.generator.draw(self.seed)]
        jobs = [*self.listed, *drawn]
        seen: set[str] = set()
        for job in jobs:
            if job.name in seen:
                raise ConfigError(f"{self.source}: job name {job.name!r} is used twice, expected each once")
            seen.add(job.name)
        return jobs


def load(path: str | Path) -> Config:
    """A configuration from a file. Raises ConfigError: one line that names the file, the key and what was expected."""
    return parse(read_toml(Path(path), "a simulation"), str(path), Path(path).parent)


def parse(data: Mapping[str, Any], source: str, folder: Path = Path()) -> Config:
    """A configuration from parsed TOML; trace files are relative to `folder`. Raises ConfigError naming `source`."""
    top = Table(data, source)
    topology, numbers = _topology(top.other("topology", {}), source)
    listed = [parse_job(row, numbers, f"{source}: job[{i}]") for i, row in enumerate(top.rows("job"))]
    given = top.other("trace")
    if given is not None:
        table = Table(given, f"{source}: trace")
        file = folder / table.text("file", None)
        table.done()
        listed += trace.read(file, numbers)
    drawn = top.other("generate")
    generator = None
    if drawn is not None:
        generator = trace.parse_generator(drawn, topology.hosts, f"{source}: generate")
    if not listed and generator is None:
        raise ConfigError(f"{source}: no job, expected [[job]], [trace] or [generate]")
    limits = top.other("switches")
    config = Config(
        source=source,
        topology=topology,
        listed=tuple(listed),
        generator=generator,
        limits=None if limits is None else _limits(limits, f"{source}: switches"),
        seed=top.whole("seed", 0, 0),
        time_limit=top.number("time_limit_s", 1e6, 1e-9),
        apart=top.flag("apart", False),
    )
    top.done()
    return config


def _topology(data: object, source: str) -> tuple[Topology, Mapping[str, int]]:
    table = Table(data, f"{source}: topology")
    kinds = ("single", "1-2-4", "tree", "spine_leaf", "fat_tree", "dragonfly", "listed")
    kind = table.choice("kind", None, kinds)
    rate = table.number("rate_gbps", 100.0, 0.001, 1e5)
    delay = table.number("delay_ns", 500.0, 0.0)
    topology: Topology
    if kind == "fat_tree":
        k = table.whole("k", None, 2, 128)
        if k % 2:
            raise ConfigError(f"{table.where}: k = {k}, expected an even number")
        topology = FatTree(k, rate, delay)
    elif kind == "spine_leaf":
        topology = SpineLeaf(
            table.whole("spines", None, 1, 4096), table.whole("leaves", None, 1, 1 << 16),
            table.whole("hosts_per_leaf", None, 1, 4096), rate, delay,
            table.number("up_gbps", rate, 0.001, 1e5),
        )  # fmt: skip
    elif kind == "single":
        topology = SpineLeaf(0, 1, table.whole("hosts", None, 1, 1 << 16), rate, delay, rate)
    else:
        topology = Searched(network_of(kind, table, rate, delay))
    table.done()
    if kind == "listed":
        names = topology.network.names[: topology.hosts]
    else:
        names = tuple(f"h{i}" for i in range(topology.hosts))
    return topology, {name: i for i, name in enumerate(names)}


def _limits(data: object, where: str) -> Limits:
    table = Table(data, where)
    slot_kib = table.optional("slot_kib", 0, 1 << 40)
    groups = table.optional("groups", 0, 1 << 20)
    mode = table.whole("mode", 3, 1, 3)
    policy = table.text("policy", None)
    change = table.number("change_us", 10_000.0, 0.0) * 1e-6
    quantum = table.other("quantum_ms")
    options = {}
    if quantum is not None:
        options = {"quantum": Table({"quantum_ms": quantum}, where).number("quantum_ms", None, 1e-3) * 1e-3}
    table.done()
    slot_bytes = None if slot_kib is None else slot_kib * 1024
    limits = Limits(policy, mode, slot_bytes, groups, options, change)
    try:
        maker(limits)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return limits
