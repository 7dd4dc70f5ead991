"""What a job is: ranks, and phases of computing and communicating that it repeats.

Ranks of a job are numbered as training frameworks do: rank = (d pp + p) tp + t for data-parallel part d, pipeline stage
p and tensor-parallel part t. A phase communicates `over` groups of ranks: "all", those that differ in d only ("dp"), in
t only ("tp"), in p only ("pp"); all groups at once, and the phase ends when all have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from epic_models.flowsim.collectives import HOST_ALGORITHMS, Cut
from epic_models.flowsim.draws import KINDS
from epic_models.flowsim.topology import Index
from epic_models.packetsim.config import MODES, PLACEMENTS, PRIMITIVES
from epic_models.tables import Table, size_of
from epic_spec.errors import ConfigError

OVER: Final = ("all", "dp", "tp", "pp")
ALL_REDUCE_ONLY: Final = ("halving_doubling", "double_tree", "parameter_server")


@dataclass(frozen=True, slots=True)
class Phase:
    """Compute for `compute` seconds and the slowest rank's straggling, then one collective (None: no `algorithm`)."""

    compute: float = 0.0
    straggle: float = 0.0
    straggle_kind: str = "exponential"
    algorithm: str | None = None
    primitive: str = "all_reduce"
    size: int = 0
    over: str = "all"
    root: int = 0

    @property
    def mode(self) -> int | None:
        """EPIC's mode, None for an algorithm between hosts or no collective."""
        return MODES.get(self.algorithm or "")


@dataclass(frozen=True, slots=True)
class Job:
    """A job; times in seconds. `hosts`: one for each rank, or None: `placement` chooses among all or, if `exclusive`,
    among those that no exclusive job has, and the job waits until there are enough."""

    name: str
    ranks: int
    phases: tuple[Phase, ...]
    hosts: tuple[int, ...] | None = None
    placement: str = "packed"
    exclusive: bool = False
    start: float = 0.0
    iterations: int = 1
    tp: int = 1
    pp: int = 1
    cut: Cut = field(default_factory=Cut)
    fallback: str = "ring"

    def groups(self, over: str) -> Index:
        """The ranks of each group that a phase communicates over, shape (groups, ranks); none where it has one rank."""
        grid = np.arange(self.ranks, dtype=np.int32).reshape(-1, self.pp, self.tp)
        if over == "all":
            rows = grid.reshape(1, -1)
        else:
            axis = ("dp", "pp", "tp").index(over)
            rows = np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis])
        return rows if rows.shape[1] > 1 else rows[:0]

    def to_table(self) -> dict[str, Any]:
        """As a table that `parse_job` makes the same job of; hosts by number."""
        table: dict[str, Any] = {
            "name": self.name, "ranks": self.ranks, "placement": self.placement, "exclusive": self.exclusive,
            "start_us": self.start * 1e6, "iterations": self.iterations, "tp": self.tp, "pp": self.pp,
            "payload": self.cut.payload, "message": self.cut.message, "window": self.cut.window,
            "fallback": self.fallback, "phase": [_phase_table(phase) for phase in self.phases],
        }  # fmt: skip
        if self.hosts is not None:
            table |= {"hosts": [f"h{host}" for host in self.hosts]}
            del table["ranks"], table["placement"], table["exclusive"]
        return table


def _phase_table(phase: Phase) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if phase.compute or phase.straggle:
        table = {"compute_us": phase.compute * 1e6, "straggle_us": phase.straggle * 1e6}
        table["straggle"] = phase.straggle_kind
    if phase.algorithm is not None:
        table |= {"algorithm": phase.algorithm, "primitive": phase.primitive, "size": phase.size}
        table |= {"over": phase.over, "root": phase.root}
    return table


def parse_job(data: object, numbers: Mapping[str, int], where: str) -> Job:
    """A job from a table; `numbers` are those of hosts by name. Raises ConfigError naming `where`."""
    table = Table(data, where)
    given = table.other("hosts")
    exclusive, placement = False, "packed"
    hosts = None
    if given is None:
        ranks = table.whole("ranks", len(numbers), 1, len(numbers))
        placement = table.choice("placement", "packed", PLACEMENTS)
        exclusive = table.flag("exclusive", False)
    else:
        hosts = _hosts(given, numbers, where)
        ranks = len(hosts)
    rows = table.rows("phase")
    phases = [parse_phase(Table(row, f"{where}: phase[{i}]")) for i, row in enumerate(rows)]
    if not phases:
        phases = [parse_phase(table, "mode3", nested=False)]
    job = Job(
        name=table.text("name", phases[0].algorithm or "job"),
        ranks=ranks,
        phases=tuple(phases),
        hosts=hosts,
        placement=placement,
        exclusive=exclusive,
        start=table.number("start_us", 0.0, 0.0) * 1e-6,
        iterations=table.whole("iterations", 1, 1, 10**9),
        tp=table.whole("tp", 1, 1, ranks),
        pp=table.whole("pp", 1, 1, ranks),
        cut=Cut(
            table.whole("payload", 1024, 64, 8192),
            table.whole("message", 16384, 64, 1 << 20),
            table.whole("window", 64, 1, 65536),
        ),
        fallback=table.choice("fallback", "ring", HOST_ALGORITHMS[:4]),
    )
    table.done()
    check(job, where)
    return job


def parse_phase(table: Table, algorithm: str | None = None, *, nested: bool = True) -> Phase:
    """A phase from a table; one without an algorithm only computes. Not `nested`: the table has more than that."""
    chosen = table.other("algorithm", algorithm)
    if chosen is not None:
        chosen = Table({"algorithm": chosen}, table.where).choice(
            "algorithm", None, (*MODES, *HOST_ALGORITHMS)
        )
    values: dict[str, Any] = {}
    if chosen is not None:
        values["primitive"] = table.choice("primitive", "all_reduce", PRIMITIVES)
        values["size"] = size_of(table.other("size", 1 << 20), f"{table.where}: size")
        values["over"] = table.choice("over", "all", OVER)
        values["root"] = table.whole("root", 0, 0)
    phase = Phase(
        compute=table.number("compute_us", 0.0, 0.0) * 1e-6,
        straggle=table.number("straggle_us", 0.0, 0.0) * 1e-6,
        straggle_kind=table.choice("straggle", "exponential", KINDS),
        algorithm=chosen,
        **values,
    )
    if nested:
        table.done()
    return phase


def check(job: Job, where: str) -> None:
    """Refuse what cannot be run. Raises ConfigError naming `where`."""
    if job.ranks % (job.tp * job.pp):
        raise ConfigError(f"{where}: ranks = {job.ranks}, expected a multiple of tp x pp = {job.tp * job.pp}")
    modes: dict[str, int] = {}
    for i, phase in enumerate(job.phases):
        if phase.algorithm is None:
            continue
        here = where if len(job.phases) == 1 else f"{where}: phase[{i}]"
        ranks = job.groups(phase.over).shape[1]
        if phase.root >= ranks and phase.root:
            raise ConfigError(f"{here}: root = {phase.root}, expected less than the group's {ranks} ranks")
        if phase.size == 0 and phase.primitive != "barrier":
            raise ConfigError(f"{here}: size = 0, expected 1 or more (or primitive barrier)")
        names = [phase.algorithm] if phase.mode is None else [job.fallback]
        for name in names:
            if name in ALL_REDUCE_ONLY and phase.primitive != "all_reduce":
                raise ConfigError(f"{here}: primitive = {phase.primitive!r}, expected all_reduce with {name}")
            if name == "halving_doubling" and ranks & (ranks - 1):
                raise ConfigError(f"{here}: ranks = {ranks} of a group, expected a power of two with {name}")
        if phase.mode is not None and modes.setdefault(phase.over, phase.mode) != phase.mode:
            raise ConfigError(
                f"{here}: algorithm = {phase.algorithm!r}, expected one mode for all phases over {phase.over!r}"
            )


def _hosts(given: object, numbers: Mapping[str, int], where: str) -> tuple[int, ...]:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"{where}: hosts = {given!r}, expected a list of host names")
    for name in given:
        if not isinstance(name, str) or name not in numbers:
            names = list(numbers)
            raise ConfigError(f"{where}: host {name!r}, expected one of {names[0]} to {names[-1]}")
        if given.count(name) > 1:
            raise ConfigError(f"{where}: host {name!r} is there twice, expected each once")
    return tuple(numbers[name] for name in given)
