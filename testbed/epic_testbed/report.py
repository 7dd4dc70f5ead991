"""What a run found: collected from the ranks' lines, and turned into the JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from epic_models.reference.group import GroupParams
from epic_testbed import verify
from epic_testbed.cases import Case, algbw
from epic_testbed.options import Setup

FAULTS = ("lost", "duplicated", "reordered", "corrupted")
# What a node sent again, by a timer, in answer to a NAK or to a duplicate.
RESENT = ("tx_retransmission", "tx_replay", "tx_resend")


@dataclass(slots=True)
class Row:
    """Results of one case:
    `us[iteration]` is the time of the slowest rank so far; `reports` counts iterations x ranks.
    """

    case: Case
    check: str
    us: dict[int, float] = field(default_factory=dict)
    wrong: int = 0
    max_abs_err: float = 0.0
    reports: int = 0

    def add(self, iteration: int, us: float, wrong: int, err: float) -> None:
        """One rank's report of one iteration."""
        self.us[iteration] = max(self.us.get(iteration, 0.0), us)
        self.wrong += wrong
        self.max_abs_err = max(self.max_abs_err, err)
        self.reports += 1

    @property
    def median_us(self) -> float:
        """Median over iterations."""
        return median(self.us.values()) if self.us else 0.0

    @property
    def min_us(self) -> float:
        """Fastest iteration."""
        return min(self.us.values(), default=0.0)

    @property
    def gbps(self) -> float:
        """Algorithm bandwidth of the median, Gb/s."""
        return algbw(self.case, self.median_us * 1e-6)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            **self.case.to_dict(),
            "time_us": round(self.median_us, 1),
            "min_us": round(self.min_us, 1),
            "algbw_gbps": round(self.gbps, 6),
            "wrong": self.wrong,
            "max_abs_err": self.max_abs_err,
            "check": self.check,
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a node did not finish. `after` is seconds since the first kill, or since the collectives began."""

    node: str
    kind: str
    message: str
    after: float | None = None
    ranks: tuple[int, ...] = ()
    edges: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "node": self.node,
            "kind": self.kind,
            "message": self.message,
            "after_s": None if self.after is None else round(self.after, 3),
            "ranks": list(self.ranks),
            "edges": list(self.edges),
        }

    def __str__(self) -> str:
        when = "" if self.after is None else f" after {self.after:.2f} s"
        edges = [edge for edge in self.edges if edge not in self.message]
        more = f" (edge {', '.join(edges)})" if edges else ""
        return f"{self.node}: {self.kind}{when}: {self.message}{more}"


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of the group: its path, "network" or "host", from which cell on, and why."""

    epoch: int
    path: str
    resume: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(slots=True)
class Report:
    """Everything about a run. `counters` and `faults_by_node` are by node name.

    With a manager (`managed`) the group had `epochs`, and the manager made `decisions` about it.
    """

    setup: Setup
    iterations: int
    rows: list[Row]
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    failures: list[Failure] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    managed: bool = False
    epochs: list[Epoch] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def empty(cls, setup: Setup, cases: Sequence[Case], iterations: int, reproducible: bool) -> Report:
        """Before anything has run."""
        rows = [Row(case, verify.path_of(case, setup.params, reproducible)) for case in cases]
        return cls(setup, iterations, rows)

    def agreed(self, params: GroupParams) -> None:
        """What the group has, which may be less than what was asked for."""
        self.setup = replace(self.setup, params=params)

    @property
    def path(self) -> str:
        """The path of the newest epoch; an installed group has the network's."""
        return max(self.epochs, key=lambda epoch: epoch.epoch).path if self.epochs else "network"

    @property
    def done(self) -> list[Row]:
        """The rows that every rank has finished, in order."""
        return [row for row in self.rows if row.reports == self.iterations * self.setup.ranks]

    @property
    def wrong(self) -> int:
        """Wrong elements in all."""
        return sum(row.wrong for row in self.rows)

    @property
    def ok(self) -> bool:
        """Whether every case ran on every rank, rightly."""
        return not self.failures and not self.wrong and len(self.done) == len(self.rows)

    @property
    def retransmissions(self) -> int:
        """Packets that any node sent again."""
        return sum(counts.get(name, 0) for counts in self.counters.values() for name in RESENT)

    def add_counters(self, node: str, counters: dict[str, int], faults: dict[str, int]) -> None:
        """What a node counted, and the faults that it injected."""
        self.counters[node] = {k: v for k, v in counters.items() if not k.startswith("fault_")}
        for name in FAULTS:
            self.faults[name] += faults.get(name, 0)

    def verdict(self) -> str:
        """Why the run is not ok, in a few words."""
        if self.failures:
            nodes = list(dict.fromkeys(failure.node for failure in self.failures))
            return f"{', '.join(nodes)}; {len(self.done)} of {len(self.rows)} collectives finished"
        if self.wrong:
            first = next(row for row in self.rows if row.wrong)
            return f"{self.wrong} elements wrong, first in {first.case.primitive} {first.case.dtype}"
        return f"{len(self.done)} of {len(self.rows)} collectives finished"

    def error(self) -> str:
        """`verdict` with the error of each node, in one line."""
        return "; ".join(map(str, self.failures)) or self.verdict()

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints. Unfinished cases are left out."""
        setup = self.setup
        result: dict[str, Any] = {
            "ok": self.ok,
            "mode": setup.params.mode,
            "topology": setup.topology.name,
            "ranks": setup.ranks,
            "transport": setup.transport,
            "subnet": setup.plan.subnet,
            "seed": setup.seed,
            "payload_bytes": setup.params.payload_bytes,
            "window": setup.params.window,
            "datapath": setup.datapath,
            "iterations": self.iterations,
            "seconds": round(self.seconds, 3),
            "link_gbps": setup.link_gbps,
            "collectives": [row.to_dict() for row in self.done],
            "faults": dict(self.faults),
            "retransmissions": self.retransmissions,
            "counters": self.counters,
            "managed": self.managed,
            "path": self.path,
            "epochs": [epoch.to_dict() for epoch in self.epochs],
            "decisions": self.decisions,
            "killed": list(self.killed),
        }
        if not self.ok:
            result["error"] = self.error()
            result["failures"] = [failure.to_dict() for failure in self.failures]
        return result
