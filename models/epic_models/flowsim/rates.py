"""Transfers on links: what begins, what ends when, and how much each link has carried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from epic_models.flowsim import ends, filling
from epic_models.flowsim.state import UNLIMITED, Records, new, with_room

# Ends that are nearer to each other than this, in seconds, are one.
_AT_ONCE = 1e-12


@njit(cache=True)
def _start(s, index, volume, now):  # type: ignore[no-untyped-def]
    t = s.transfers[index]
    t.volume, t.left, t.rate, t.since, t.finish, t.limit = volume, volume, 0.0, now, np.inf, UNLIMITED
    for e in range(t.first, t.first + t.count):
        entry = s.entries[e]
        link = s.links[entry.link]
        entry.next, entry.prev = link.first, -1
        if link.first >= 0:
            s.entries[link.first].prev = e
        link.first = e
        link.offered += entry.weight * t.bound
    ends.push(s, index)
    filling.seed(s, index)


@njit(cache=True)
def _stop(s, index, now):  # type: ignore[no-untyped-def]
    """Take a transfer off its links. Returns what is left of it."""
    t = s.transfers[index]
    left = max(t.left - t.rate * (now - t.since), 0.0)
    if t.finish <= now + _AT_ONCE:
        left = 0.0
    for e in range(t.first, t.first + t.count):
        entry = s.entries[e]
        link = s.links[entry.link]
        link.bytes += entry.weight * (t.volume - left)
        if entry.prev >= 0:
            s.entries[entry.prev].next = entry.next
        else:
            link.first = entry.next
        if entry.next >= 0:
            s.entries[entry.next].prev = entry.prev
        was = filling.contended(link)
        link.offered = link.offered - entry.weight * t.bound if link.first >= 0 else 0.0
        if was:
            other = link.first
            while other >= 0:
                if s.transfers[s.entries[other].owner].limit == entry.link:
                    filling.seed(s, s.entries[other].owner)
                other = s.entries[other].next
    ends.remove(s, index)
    return left


@njit(cache=True)
def _settle(s, now):  # type: ignore[no-untyped-def]
    filling.settle(s, now)
    return s.transfers[s.ends[0]].finish if s.sim[0].ends else np.inf


@njit(cache=True)
def _take_ended(s, now, out):  # type: ignore[no-untyped-def]
    count = 0
    while s.sim[0].ends and s.transfers[s.ends[0]].finish <= now + _AT_ONCE:
        out[count] = s.ends[0]
        count += 1
        _stop(s, s.ends[0], now)
    return count


class Rates:
    """Transfers by number: `add` describes one, `start` and `stop` run it, `settle` finds the rates after changes."""

    def __init__(self, capacity: NDArray[np.float64]) -> None:
        """Links of these capacities, in bytes a second."""
        self._state = new(capacity)
        self._numbers: list[int] = []  # free ones
        self._used = 0
        self._entries = 0
        self._blocks: dict[int, list[int]] = {}  # free blocks of entries, by size
        self._out = np.zeros(len(self._state.transfers), np.int32)
        self._stale = False
        # When the next transfer ends; infinity where none runs. As of the last `settle`.
        self.next_end = math.inf

    @property
    def links(self) -> Records:
        """The links' records; `bytes` is what ended or stopped transfers have brought over them."""
        return self._state.links

    @property
    def fillings(self) -> int:
        """How often rates were computed."""
        return int(self._state.sim[0]["fillings"])

    @property
    def looked_at(self) -> int:
        """Transfers in all these computations together."""
        return int(self._state.sim[0]["looked_at"])

    def add(self, links: Sequence[int] | NDArray[Any], weights: Any, cap: float = math.inf) -> int:
        """A transfer over `links`, each once, with `weights` above 0; `cap` limits its rate. Gives its number."""
        rows = np.asarray(links, np.int32)
        factors = np.broadcast_to(np.asarray(weights, np.float64), rows.shape)
        first = self._block(len(rows))
        if not self._numbers:
            self._numbers.append(self._used)
            self._used += 1
        number = self._numbers.pop()
        if number >= len(self._state.transfers):
            self._grow(2 * number, 0)
        s = self._state
        mine = s.entries[first : first + len(rows)]
        mine["link"], mine["weight"], mine["owner"] = rows, factors, number
        bound = cap
        if len(rows):
            bound = min(bound, float((s.links["capacity"][rows] / factors).min()))
        t = s.transfers[number]
        # `seeded` stays as it is: it says whether the number stands in the list of seeds.
        t["first"], t["count"], t["bound"], t["place"] = first, len(rows), bound, -1
        return number

    def bound(self, number: int) -> float:
        """The rate that a transfer has alone."""
        return float(self._state.transfers[number]["bound"])

    def release(self, number: int) -> None:
        """Forget a transfer that does not run."""
        t = self._state.transfers[number]
        assert t["place"] < 0, number
        self._blocks.setdefault(_size(int(t["count"])), []).append(int(t["first"]))
        self._numbers.append(number)

    def start(self, number: int, volume: float, now: float) -> None:
        """Begin to transfer `volume` bytes. Rates hold again after `settle`."""
        _start(self._state, number, volume, now)
        self._stale = True

    def stop(self, number: int, now: float) -> float:
        """End it before its time; gives the bytes that are left."""
        self._stale = True
        return float(_stop(self._state, number, now))

    def settle(self, now: float) -> None:
        """Find the rates, and `next_end`, after all that began and ended at this time."""
        if self._stale:
            self.next_end = float(_settle(self._state, now))
            self._stale = False

    def take_ended(self, now: float) -> list[int]:
        """Those that have ended by now, taken off their links. To be called after `settle`."""
        if self.next_end > now + _AT_ONCE:
            return []
        self._stale = True
        count = _take_ended(self._state, now, self._out)
        return cast(list[int], self._out[:count].tolist())

    def rate(self, number: int) -> float:
        """Bytes a second now."""
        return float(self._state.transfers[number]["rate"])

    def _block(self, count: int) -> int:
        size = _size(count)
        free = self._blocks.get(size)
        if free:
            return free.pop()
        first = self._entries
        self._entries += size
        if self._entries > len(self._state.entries):
            self._grow(0, 2 * self._entries)
        return first

    def _grow(self, transfers: int, entries: int) -> None:
        s = self._state
        self._state = with_room(s, max(transfers, len(s.transfers)), max(entries, len(s.entries)))
        self._out = np.zeros(len(self._state.transfers), np.int32)


def _size(count: int) -> int:
    """Blocks come in powers of two, so that a block that was given back fits again."""
    return 1 << max(count - 1, 0).bit_length()
