"""How long a collective takes on each path: the model that chooses between them.

The alpha-beta model of Hockney (Parallel Computing 20(3), 1994), as Thakur, Rabenseifner and Gropp use it for ring and
recursive doubling (IJHPCA 19(1), 2005), with two changes that EPIC makes: data is cut into cells, so that the steps of
one cell overlap with those of the next, and at most W cells are outstanding.

With L the time from a cell's contribution to its result at the last rank, T that from there to the start of the cell W
later, L included, and g the time that a cell occupies the busiest link of a rank, N cells take

    L + (N - 1 div W) max(T, W g) + (N - 1 mod W) g

    path       L                                T    g
    network    a round trip to the root         L    one cell up, one down at the same time
    ring       2(n-1) messages                  (*)  2(n-1)/n cells (Patarasuk and Yuan, JPDC 69(2), 2009: the least)
    doubling   log2(m) messages, about 2 more   L    log2(m) cells, and 1 more if n is not m
               if n is not m

where m is the largest power of two not above n. (*) On a ring the cell W later starts W ranks farther on. It can when
that rank has the results of the W cells before, in order, each of which began one rank behind the next: after n - 1
messages of the first pass and the largest of (W + j) mod n, j = 1 to W, of the second.

A message takes a link's delay and, store and forward, its own length on each of the links from host to host. Not in the
model: processors, loss, and links that several ranks share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fabric.window import wire_bytes
from epic_host.fallback.doubling import base_size
from epic_host.fallback.message import HEADER_BYTES
from epic_spec.errors import ConfigError

PATHS: Final = ("network", "ring", "doubling")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a collective runs on. `depth`: levels of switches between a host and the root of the tree.

    `link_us` is the delay of one link in microseconds, `rate_gbps` that of a host's link; `cell_bytes` the data of a
    cell and `payload_bytes` of a packet (equal but in Mode I). Raises ConfigError for values that make no sense.
    """

    n: int
    rate_gbps: float
    link_us: float
    window: int
    cell_bytes: int
    payload_bytes: int
    depth: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "window", "cell_bytes", "payload_bytes", "depth"):
            if getattr(self, name) < 1:
                raise ConfigError(f"cost: {name} = {getattr(self, name)}, expected at least 1")
        if self.rate_gbps <= 0 or self.link_us < 0:
            raise ConfigError(
                f"cost: rate_gbps = {self.rate_gbps}, link_us = {self.link_us}, expected a rate above 0 "
                "and a delay of at least 0"
            )


def estimate(path: str, size: int, setting: Setting) -> float:
    """Seconds of an AllReduce of `size` bytes on a path. Raises ConfigError for a path that is none of PATHS."""
    latency, turn, gap = _cell(path, setting)
    batches, rest = divmod(max(1, -(-size // setting.cell_bytes)) - 1, setting.window)
    return latency + batches * max(turn, setting.window * gap) + rest * gap


def choose(size: int, setting: Setting, paths: Sequence[str] = PATHS) -> str:
    """The fastest of `paths`; the first of equals. Raises ConfigError where there is none to choose from."""
    if not paths:
        raise ConfigError("cost: no path to choose from, expected some of " + ", ".join(PATHS))
    return min(paths, key=lambda path: estimate(path, size, setting))


def _cell(path: str, setting: Setting) -> tuple[float, float, float]:
    """(L, T, g) of one cell, in seconds."""
    n, links = setting.n, 2 * setting.depth
    if path not in PATHS:
        raise ConfigError(f"cost: path = {path!r}, expected one of {', '.join(PATHS)}")
    if path == "network":
        sending = _seconds(wire_bytes(setting.cell_bytes, setting.payload_bytes), setting)
        trip = links * (setting.link_us * 1e-6 + sending)
        return trip, trip, sending
    longer = wire_bytes(setting.cell_bytes + HEADER_BYTES, setting.payload_bytes + HEADER_BYTES)
    sending = _seconds(longer, setting)
    message = links * (setting.link_us * 1e-6 + sending)
    if path == "ring":
        turn = n - 1 + max((setting.window + j + 1) % n for j in range(min(setting.window, n)))
        return 2 * (n - 1) * message, turn * message, 2 * (n - 1) / n * sending
    base = base_size(n)
    latency = _doubling_steps(n) * message
    return latency, latency, (base.bit_length() - 1 + int(n > base)) * sending


@cache
def _doubling_steps(n: int) -> int:
    """Messages one after the other until the last rank has the result: only some ranks wait for what is folded in."""
    base = base_size(n)
    extra = n - base
    ranks = np.arange(base)
    steps: NDArray[np.int64] = (ranks < extra).astype(np.int64)
    for k in range(base.bit_length() - 1):
        steps = np.maximum(steps, steps[ranks ^ 1 << k] + 1)
    return int(max(steps.max(), steps[:extra].max(initial=-1) + 1))


def _seconds(length: int, setting: Setting) -> float:
    return length * 8e-9 / setting.rate_gbps
