"""The packet-level simulator against `closed_forms`: every algorithm alone, on full links, with a window of less than
the round trip, and with little data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from epic_models import closed_forms
from epic_models.closed_forms import Path

# Gb/s of every link.
_RATE: Final = 100.0
# What limits the time: bytes, round trips of a window, or the way of a packet.
FULL, WINDOW, WAY = "links", "window", "way"
# How far times may be from the formulas.
WITHIN: Final = 0.01

HOSTS: Final[dict[str, Callable[[Path, int, int, int], float]]] = {
    "ring": closed_forms.ring,
    "halving_doubling": closed_forms.halving_doubling,
    "double_tree": closed_forms.double_tree,
    "parameter_server": closed_forms.parameter_server,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One collective; `links` from a host to the root of the tree (modes), or to another host."""

    algorithm: str
    limit: str
    ranks: int
    size: int
    window: int
    links: int
    delay_ns: float
    primitive: str = "all_reduce"
    message: int = 16384

    @property
    def path(self) -> Path:
        """What the formulas take."""
        return Path(self.links, _RATE * 1e9 / 8, self.delay_ns * 1e-9)

    def formula(self) -> float:
        """Seconds by closed form."""
        if self.algorithm in HOSTS:
            return HOSTS[self.algorithm](self.path, self.ranks, self.size, self.window)
        mode = int(self.algorithm[-1])
        return closed_forms.in_network(
            self.path, mode, self.size, self.window, message=self.message, primitive=self.primitive
        )

    def config(self) -> dict[str, Any]:
        """The same for the simulator. Nothing is dropped, marked, or sent again."""
        links = {"rate_gbps": _RATE, "delay_ns": self.delay_ns, "buffer_kib": 1e6}
        job = {
            "algorithm": self.algorithm,
            "primitive": self.primitive,
            "ranks": self.ranks,
            "size": self.size,
            "window": self.window,
            "message": self.message,
            "rto_initial_us": 1e6,
            "rto_min_us": 1e6,
            "rto_max_us": 1e6,
        }
        return {"topology": self._topology() | links, "job": [job]}

    def simulated(self) -> float:
        """Seconds at packet level."""
        # Compiled code is not loaded before it is needed.
        from epic_models.packetsim.config import parse
        from epic_models.packetsim.result import simulate

        return float(simulate(parse(self.config(), "case"), packets=1 << 18).jobs[0].completion[0])

    def _topology(self) -> dict[str, Any]:
        if self.algorithm not in HOSTS:
            # Two below each switch; the rest of the ranks below the lowest ones.
            upper = [2] * (self.links - 1)
            return {"kind": "tree", "fan_out": [*upper, self.ranks >> len(upper)]}
        if self.links == 2:
            return {"kind": "single", "hosts": self.ranks}
        # A switch of its own for each host, and one above.
        leaves = {"leaves": self.ranks, "hosts_per_leaf": 1, "up_gbps": _RATE}
        return {"kind": "spine_leaf", "spines": 1, **leaves}


_MIB: Final = 1 << 20
CASES: Final = (
    Case("mode1", FULL, 8, 4 * _MIB, 16, 1, 500.0),
    Case("mode1", FULL, 8, 4 * _MIB, 16, 3, 500.0),
    Case("mode1", WINDOW, 8, 4 * _MIB, 4, 1, 20_000.0),
    Case("mode1", WAY, 8, 1000, 4, 3, 500.0),
    Case("mode2", FULL, 8, 4 * _MIB, 128, 1, 500.0),
    Case("mode2", FULL, 8, 4 * _MIB, 128, 3, 500.0),
    Case("mode2", WINDOW, 8, _MIB, 8, 3, 5_000.0),
    Case("mode2", WAY, 8, 1000, 64, 3, 500.0),
    Case("mode3", FULL, 8, 4 * _MIB, 128, 1, 500.0),
    Case("mode3", FULL, 8, 4 * _MIB, 128, 3, 500.0),
    Case("mode3", WINDOW, 8, _MIB, 8, 3, 5_000.0),
    Case("mode3", WAY, 8, 1000, 64, 3, 500.0),
    Case("ring", FULL, 8, 4 * _MIB, 512, 2, 500.0),
    Case("ring", FULL, 8, 4 * _MIB, 512, 4, 500.0),
    Case("ring", WINDOW, 8, _MIB, 8, 2, 5_000.0),
    Case("ring", WAY, 16, 16 << 10, 64, 2, 500.0),
    Case("halving_doubling", FULL, 8, 4 * _MIB, 2048, 2, 500.0),
    Case("halving_doubling", FULL, 8, 4 * _MIB, 2048, 4, 500.0),
    Case("halving_doubling", WINDOW, 8, _MIB, 8, 2, 5_000.0),
    Case("halving_doubling", WAY, 16, 16 << 10, 64, 2, 500.0),
    Case("double_tree", FULL, 2, 4 * _MIB, 64, 2, 500.0),
    Case("double_tree", WINDOW, 8, _MIB, 8, 2, 5_000.0),
    Case("double_tree", WINDOW, 8, _MIB, 8, 4, 5_000.0),
    Case("double_tree", WAY, 16, 2 << 10, 64, 2, 500.0),
    Case("parameter_server", FULL, 8, _MIB, 64, 2, 500.0),
    Case("parameter_server", FULL, 8, _MIB, 64, 4, 500.0),
    Case("parameter_server", WINDOW, 8, _MIB, 8, 2, 5_000.0),
    Case("parameter_server", WAY, 8, 1 << 10, 64, 2, 500.0),
)
# Not held to 1 %: packets of two children meet (`closed_forms.double_tree`).
MEETING: Final = (
    Case("double_tree", FULL, 4, 4 * _MIB, 64, 2, 500.0),
    Case("double_tree", FULL, 16, 4 * _MIB, 64, 2, 500.0),
)


def compared() -> Iterator[tuple[Case, float, float]]:
    """(case, seconds at packet level, seconds by closed form) of all."""
    for case in (*CASES, *MEETING):
        yield case, case.simulated(), case.formula()
