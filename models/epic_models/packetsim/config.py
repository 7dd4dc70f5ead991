"""What is simulated, from a TOML file: a topology, jobs, faults, failures, background traffic.

seed = 1
time_limit_ms = 1000.0
payload_check = true                # carry values and check every sum

[topology]
kind = "fat_tree"                   # single, 1-2-4, tree, spine_leaf, fat_tree, dragonfly, listed
k = 4
rate_gbps = 100.0
delay_ns = 500.0                    # of a link, with what the node behind it takes
buffer_kib = 512.0                  # of a link's queue; what does not fit is dropped
mark_kib = 128.0                    # ECN: longer queues mark; agents and host algorithms halve their windows
pfc = false                         # pause instead of dropping; pause_kib and resume_kib

[faults]                            # of every link
loss = 0.001
duplicate = 0.0
reorder = 0.0
hold_us = 50.0                      # a reordered packet is held back for up to this long

[[job]]
name = "train"
algorithm = "mode3"                 # mode1, mode2, mode3, ring, halving_doubling, double_tree, parameter_server
primitive = "all_reduce"            # modes only: reduce, broadcast, barrier, reduce_scatter, all_gather
ranks = 16
placement = "packed"                # spread, random; or hosts = ["h0", "h3"]
size = "16MiB"
payload = 1024
window = 64                         # cells; of host algorithms: packets in flight on a connection
iterations = 2
compute_us = 100.0                  # between two collectives of a rank
straggle_us = 10.0                  # mean of a random delay that every start of a rank has
straggle = "exponential"            # uniform (0 to twice the mean), lognormal (sigma 1), pareto (alpha 2)
slow_ranks = [3]                    # ranks that take slow_us more for every collective
slow_us = 50.0

[[failure]]
link = "h0-edge0"                   # or node = "core0"
at_us = 50.0
until_us = 100.0                    # optional

[[background]]
from = "h1"
to = "h2"
rate_gbps = 20.0                    # while it is on
on_us = 50.0                        # means of exponential times; without them it is always on
off_us = 50.0
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from epic_models.packetsim.algorithms import ALGORITHMS, check
from epic_models.packetsim.topology import (
    Network,
    dragonfly,
    fat_tree,
    listed,
    one_two_four,
    single,
    spine_leaf,
    tree,
)
from epic_models.tables import Table, size_of
from epic_spec.errors import ConfigError
from epic_spec.loader import read_toml

MODES: Final = {"mode1": 1, "mode2": 2, "mode3": 3}
PRIMITIVES: Final = ("all_reduce", "reduce", "broadcast", "barrier", "reduce_scatter", "all_gather")
# Random delays of mean 1, by name.
DISTRIBUTIONS: Final[dict[str, Callable[[random.Random], float]]] = {
    "exponential": lambda rng: rng.expovariate(1.0),
    "uniform": lambda rng: rng.uniform(0.0, 2.0),
    "lognormal": lambda rng: rng.lognormvariate(-0.5, 1.0),
    "pareto": lambda rng: rng.paretovariate(2.0) / 2.0,
}
PLACEMENTS: Final = ("packed", "spread", "random")
# Ethernet 14 + 4, preamble and gap 20, IPv4 20, UDP 8, BTH 12, immediate 4, ICRC 4.
HEADER_BYTES: Final = 86


@dataclass(frozen=True, slots=True)
class Links:
    """What all links have: sizes in bytes, times in seconds."""

    buffer: float = 512 * 1024
    mark: float = math.inf
    pfc: bool = False
    pause: float = 64 * 1024
    resume: float = 32 * 1024
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    hold: float = 50e-6


@dataclass(frozen=True, slots=True)
class Job:
    """One group and what it does. Times in seconds, sizes in bytes; `hosts[r]` is rank r's host."""

    name: str
    algorithm: str = "mode3"
    primitive: str = "all_reduce"
    root: int = 0
    hosts: tuple[int, ...] = ()
    size: int = 1 << 20
    payload: int = 1024
    message: int = 16384
    window: int = 64
    slots: int | None = None
    buffers: int | None = None
    iterations: int = 1
    start: float = 0.0
    compute: float = 0.0
    straggle: float = 0.0
    distribution: str = "exponential"
    slow_ranks: tuple[int, ...] = ()
    slow: float = 0.0
    rto_initial: float = 1e-3
    rto_min: float = 200e-6
    rto_max: float = 20e-3
    retry_limit: int = 20
    rnr: float = 20e-6
    guard: bool = True
    ecn: bool = True
    ack_every: int = 1

    @property
    def mode(self) -> int | None:
        """EPIC's mode, or None for a host algorithm."""
        return MODES.get(self.algorithm)

    @property
    def cell_bytes(self) -> int:
        """Largest payload of a cell."""
        return self.message if self.mode == 1 else self.payload

    @property
    def cells(self) -> int:
        """Cells (modes), or packets of data (host algorithms), of one collective."""
        if self.primitive == "barrier":
            return 1
        return max(1, -(-self.size // self.cell_bytes))


@dataclass(frozen=True, slots=True)
class Failure:
    """A link (its name, both directions) or a node is down from `at` to `until` (seconds)."""

    link: str | None
    node: str | None
    at: float
    until: float | None


@dataclass(frozen=True, slots=True)
class Background:
    """Traffic that nobody repeats: packets of `payload` bytes at random intervals, `rate` in Gb/s while on."""

    source: str
    target: str
    rate: float
    payload: int = 1024
    on: float = 0.0
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class Config:
    """All of it. `sample` in seconds: how often queue lengths are noted (0: never)."""

    source: str
    network: Network
    links: Links
    jobs: tuple[Job, ...]
    seed: int = 0
    time_limit: float = 10.0
    payload_check: bool = False
    lanes: int = 4
    failures: tuple[Failure, ...] = ()
    backgrounds: tuple[Background, ...] = ()
    sample: float = 0.0


def load(path: str | Path) -> Config:
    """A configuration from a file. Raises ConfigError: one line that names the file, the key and what was expected."""
    return parse(read_toml(Path(path), "a simulation"), str(path))


def parse(data: Mapping[str, Any], source: str) -> Config:
    """A configuration from parsed TOML. Raises ConfigError naming `source`."""
    top = Table(data, source)
    network, links = _topology(top.other("topology", {}), top.other("faults", {}), source)
    seed = top.whole("seed", 0, 0)
    jobs = [_job(row, network, f"{source}: job[{i}]", f"{seed}/{i}") for i, row in enumerate(top.rows("job"))]
    if not jobs:
        raise ConfigError(f"{source}: no [[job]], expected at least one")
    names = [job.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{source}: job name {name!r} is used twice, expected each once")
    config = Config(
        source=source,
        network=network,
        links=links,
        jobs=tuple(jobs),
        seed=seed,
        time_limit=top.number("time_limit_ms", 10_000.0, 0.001) * 1e-3,
        payload_check=top.flag("payload_check", False),
        lanes=top.whole("lanes", 4, 1, 64),
        failures=tuple(
            _failure(row, network, f"{source}: failure[{i}]") for i, row in enumerate(top.rows("failure"))
        ),
        backgrounds=tuple(
            _background(row, network, f"{source}: background[{i}]")
            for i, row in enumerate(top.rows("background"))
        ),
        sample=top.number("sample_us", 0.0, 0.0) * 1e-6,
    )
    top.done()
    return config


def _topology(data: object, faults: object, source: str) -> tuple[Network, Links]:
    table = Table(data, f"{source}: topology")
    kinds = ("single", "1-2-4", "tree", "spine_leaf", "fat_tree", "dragonfly", "listed")
    kind = table.choice("kind", None, kinds)
    rate = table.number("rate_gbps", 100.0, 0.001, 1e5)
    delay = table.number("delay_ns", 500.0, 0.0)
    network = network_of(kind, table, rate, delay)
    values: dict[str, Any] = {
        "buffer": table.number("buffer_kib", 512.0, 1.0) * 1024,
        "mark": table.number("mark_kib", math.inf, 0.0) * 1024,
        "pfc": table.flag("pfc", False),
        "pause": table.number("pause_kib", 64.0, 1.0) * 1024,
        "resume": table.number("resume_kib", 32.0, 0.0) * 1024,
    }
    table.done()
    if values["resume"] > values["pause"]:
        raise ConfigError(
            f"{source}: topology: resume_kib = {values['resume'] / 1024:g}, expected at most pause_kib"
        )
    rates = Table(faults, f"{source}: faults")
    for name in ("loss", "duplicate", "reorder"):
        values[name] = rates.number(name, 0.0, 0.0, 1.0)
    values["hold"] = rates.number("hold_us", 50.0, 0.0) * 1e-6
    rates.done()
    return network, Links(**values)


def network_of(kind: str, table: Table, rate: float, delay: float) -> Network:
    """A network of a kind, from the keys of its table. Raises ConfigError."""
    if kind == "single":
        return single(table.whole("hosts", None, 1, 4096), rate, delay)
    if kind == "1-2-4":
        return one_two_four(rate, delay)
    if kind == "tree":
        fan_out = table.other("fan_out")
        if (
            not isinstance(fan_out, list)
            or not fan_out
            or not all(type(f) is int and 0 < f <= 64 for f in fan_out)
        ):
            raise ConfigError(
                f"{table.where}: fan_out = {fan_out!r}, expected a list of numbers from 1 to 64"
            )
        return tree(fan_out, rate, delay)
    if kind == "spine_leaf":
        return spine_leaf(
            table.whole("spines", None, 1, 1024), table.whole("leaves", None, 1, 4096),
            table.whole("hosts_per_leaf", None, 1, 64), rate, delay, table.number("up_gbps", rate, 0.001, 1e5),
        )  # fmt: skip
    if kind == "fat_tree":
        k = table.whole("k", None, 2, 64)
        if k % 2:
            raise ConfigError(f"{table.where}: k = {k}, expected an even number")
        return fat_tree(k, rate, delay)
    if kind == "dragonfly":
        return dragonfly(
            table.whole("groups", None, 2, 256), table.whole("routers", None, 1, 64),
            table.whole("hosts", None, 1, 64), rate, delay,
        )  # fmt: skip
    return _listed(table, rate, delay)


def _listed(table: Table, rate: float, delay: float) -> Network:
    names: dict[str, list[str]] = {}
    for key in ("hosts", "switches"):
        names[key] = table.other(key, [])
        if not isinstance(names[key], list) or not all(isinstance(n, str) and n for n in names[key]):
            raise ConfigError(f"{table.where}: {key} = {names[key]!r}, expected a list of names")
    known = [*names["hosts"], *names["switches"]]
    links = []
    rows = table.other("links", [])
    for i, row in enumerate(rows if isinstance(rows, list) else []):
        link = Table(row, f"{table.where}: links[{i}]")
        ends = link.text("a", None), link.text("b", None)
        for end in ends:
            if end not in known:
                raise ConfigError(f"{link.where}: {end!r}, expected one of {', '.join(known)}")
        links.append((*ends, link.number("rate_gbps", rate, 0.001, 1e5), link.number("delay_ns", delay, 0.0)))
        link.done()
    return listed(names["hosts"], names["switches"], links)


def _job(data: object, network: Network, where: str, salt: str) -> Job:
    table = Table(data, where)
    algorithm = table.choice("algorithm", "mode3", (*MODES, *ALGORITHMS))
    hosts = _hosts(table, network, where, salt)
    job = Job(
        name=table.text("name", algorithm),
        algorithm=algorithm,
        primitive=table.choice("primitive", "all_reduce", PRIMITIVES),
        root=table.whole("root", 0, 0, len(hosts) - 1),
        hosts=hosts,
        size=size_of(table.other("size", 1 << 20), f"{where}: size"),
        payload=table.whole("payload", 1024, 64, 8192),
        message=table.whole("message", 16384, 64, 1 << 20),
        window=table.whole("window", 64, 1, 65536),
        slots=table.optional("slots", 2, 131072),
        buffers=table.optional("buffers", 1, 65536),
        iterations=table.whole("iterations", 1, 1, 10**6),
        start=table.number("start_us", 0.0, 0.0) * 1e-6,
        compute=table.number("compute_us", 0.0, 0.0) * 1e-6,
        straggle=table.number("straggle_us", 0.0, 0.0) * 1e-6,
        distribution=table.choice("straggle", "exponential", tuple(DISTRIBUTIONS)),
        slow_ranks=_ranks(table, "slow_ranks", len(hosts)),
        slow=table.number("slow_us", 0.0, 0.0) * 1e-6,
        rto_initial=table.number("rto_initial_us", 1000.0, 1.0) * 1e-6,
        rto_min=table.number("rto_min_us", 200.0, 1.0) * 1e-6,
        rto_max=table.number("rto_max_us", 20_000.0, 1.0) * 1e-6,
        retry_limit=table.whole("retry_limit", 20, 0, 1 << 20),
        rnr=table.number("rnr_us", 20.0, 0.0) * 1e-6,
        guard=table.flag("window_guard", True),
        ecn=table.flag("ecn", True),
        ack_every=table.whole("ack_every", 1, 1, 64),
    )
    table.done()
    _check_job(job, where)
    return job


def _ranks(table: Table, key: str, ranks: int) -> tuple[int, ...]:
    value = table.other(key, [])
    if not isinstance(value, list) or not all(type(r) is int and 0 <= r < ranks for r in value):
        raise ConfigError(f"{table.where}: {key} = {value!r}, expected a list of ranks from 0 to {ranks - 1}")
    return tuple(value)


def _check_job(job: Job, where: str) -> None:
    if bool(job.slow) != bool(job.slow_ranks):
        raise ConfigError(f"{where}: slow_ranks and slow_us, expected both or neither")
    if job.mode is None:
        if job.primitive != "all_reduce":
            raise ConfigError(
                f"{where}: primitive = {job.primitive!r}, expected all_reduce with {job.algorithm}"
            )
        check(job.algorithm, len(job.hosts), where)
    if job.size == 0 and job.primitive != "barrier":
        raise ConfigError(f"{where}: size = 0, expected 1 or more (or primitive barrier)")
    if job.mode == 3 and job.slots is not None and job.slots < 2 * job.window:
        raise ConfigError(f"{where}: slots = {job.slots}, expected at least 2 x window = {2 * job.window}")
    if job.mode == 1 and job.buffers is not None and job.buffers > job.window:
        raise ConfigError(f"{where}: buffers = {job.buffers}, expected at most window = {job.window}")


def _hosts(table: Table, network: Network, where: str, salt: str) -> tuple[int, ...]:
    """Hosts of the ranks, in rank order."""
    given = table.other("hosts")
    if given is not None:
        names = network.names[: network.hosts]
        if not isinstance(given, list) or not given:
            raise ConfigError(f"{where}: hosts = {given!r}, expected a list of host names")
        for name in given:
            if name not in names:
                raise ConfigError(f"{where}: host {name!r}, expected one of {names[0]} to {names[-1]}")
        return tuple(network.numbers[name] for name in given)
    ranks = table.whole("ranks", network.hosts, 1, network.hosts)
    placement = table.choice("placement", "packed", PLACEMENTS)
    if placement == "packed":
        return tuple(range(ranks))
    if placement == "spread":
        return tuple(i * network.hosts // ranks for i in range(ranks))
    return tuple(random.Random(f"placement {salt}").sample(range(network.hosts), ranks))


def _failure(data: object, network: Network, where: str) -> Failure:
    table = Table(data, where)
    link, node = table.other("link"), table.other("node")
    at = table.number("at_us", None, 0.0) * 1e-6
    until = table.other("until_us")
    if until is not None:
        until = Table({"until_us": until}, where).number("until_us", None, at * 1e6) * 1e-6
    table.done()
    if (link is None) == (node is None):
        raise ConfigError(f"{where}: link = {link!r} and node = {node!r}, expected one of them")
    if link is not None and not (isinstance(link, str) and link in network.wire_numbers):
        raise ConfigError(f"{where}: link = {link!r}, expected a link such as {min(network.wire_numbers)}")
    if node is not None and not (isinstance(node, str) and node in network.numbers):
        raise ConfigError(
            f"{where}: node = {node!r}, expected one of {network.names[0]} to {network.names[-1]}"
        )
    return Failure(link, node, at, until)


def _background(data: object, network: Network, where: str) -> Background:
    table = Table(data, where)
    ends = table.text("from", None), table.text("to", None)
    for end in ends:
        if network.numbers.get(end, network.hosts) >= network.hosts:
            raise ConfigError(f"{where}: {end!r}, expected the name of a host")
    traffic = Background(
        *ends,
        rate=table.number("rate_gbps", None, 1e-6),
        payload=table.whole("payload", 1024, 1, 9000),
        on=table.number("on_us", 0.0, 0.0) * 1e-6,
        off=table.number("off_us", 0.0, 0.0) * 1e-6,
    )
    table.done()
    if bool(traffic.on) != bool(traffic.off):
        raise ConfigError(f"{where}: on_us and off_us, expected both or neither")
    if ends[0] == ends[1]:
        raise ConfigError(f"{where}: from and to are {ends[0]!r}, expected two hosts")
    return traffic
