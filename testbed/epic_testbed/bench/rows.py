"""The figures of one size: times over all iterations, bandwidths, and how much faster than each peer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epic_testbed.bench.cases import bus_factor
from epic_testbed.cases import Case


@dataclass(slots=True)
class Times:
    """Of one contender: the mean over the ranks of each iteration's microseconds, and what was wrong.

    `missing` says why there are none. `profile`: seconds of processor time of all ranks and switches by who spent them
    on what.
    """

    us: list[float] = field(default_factory=list)
    wrong: int = 0
    missing: str = ""
    profile: dict[str, float] = field(default_factory=dict)

    def spend(self, what: str, seconds: float) -> None:
        """Seconds more."""
        self.profile[what] = self.profile.get(what, 0.0) + seconds

    def quantile(self, part: float) -> float:
        """Microseconds."""
        return float(np.quantile(self.us, part))

    def to_dict(self) -> dict[str, float]:
        """min, median, p99, max in microseconds."""
        return {
            "min": round(min(self.us), 2),
            "median": round(self.quantile(0.5), 2),
            "p99": round(self.quantile(0.99), 2),
            "max": round(max(self.us), 2),
        }


@dataclass(slots=True)
class Row:
    """One size."""

    case: Case
    ranks: int
    times: dict[str, Times] = field(default_factory=dict)

    def algbw(self, contender: str) -> float:
        """Gb/s of the median: the size over the time."""
        return self.case.bytes * 8e-3 / self.times[contender].quantile(0.5)

    def busbw(self, contender: str) -> float:
        """Gb/s that the links of an ideal ring would have to carry."""
        return self.algbw(contender) * bus_factor(self.case.primitive, self.ranks)

    def ratio(self, peer: str) -> float:
        """How much faster EPIC's median is than the peer's."""
        return self.times[peer].quantile(0.5) / self.times["epic"].quantile(0.5)

    def to_dict(self, mode: int, datapath: str) -> dict[str, Any]:
        """One JSON object; bandwidths in Gb/s, `ratio` of a peer is its median time over EPIC's."""
        case, own = self.case, self.times["epic"]
        peers: dict[str, Any] = {}
        for name, times in self.times.items():
            if name == "epic":
                continue
            peers[name] = (
                {"missing": times.missing}
                if times.missing
                else {
                    "time_us": times.to_dict(),
                    "algbw_gbps": round(self.algbw(name), 4),
                    "busbw_gbps": round(self.busbw(name), 4),
                    "wrong": times.wrong,
                    "ratio": round(self.ratio(name), 3),
                }
            )
        found: dict[str, Any] = {
            "collective": case.primitive,
            "size_bytes": case.bytes,
            "count": case.count,
            "type": case.dtype,
            "redop": case.op,
            "root": case.root,
            "time_us": own.to_dict(),
            "algbw_gbps": round(self.algbw("epic"), 4),
            "busbw_gbps": round(self.busbw("epic"), 4),
            "wrong": own.wrong,
            "mode": mode,
            "datapath": datapath,
            "ranks": self.ranks,
            "peers": peers,
        }
        if own.profile:
            found["profile_s"] = {key: round(value, 4) for key, value in own.profile.items()}
        return found
