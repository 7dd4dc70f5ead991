"""The timing wheel gives events in order of time, then of scheduling, wherever they wait."""

from __future__ import annotations

import heapq
import random
from typing import Any

import numpy as np
import pytest
from numba import njit

from epic_models.packetsim import heap, loop, wheel
from epic_models.packetsim.build import build
from epic_models.packetsim.config import parse
from epic_models.packetsim.reference import reference

LINKS = 200
EVENTS = 4000


@njit(error_model="numpy")
def play(w, times, orders, deltas, out, look):  # type: ignore[no-untyped-def]
    """Give every link an arrival; then take the first and give its link another one, again and again."""
    s = w.sim[0]
    links = times.shape[0]
    for link in range(links):
        wheel.insert(w, link, times[link], orders[link])
    for k in range(deltas.shape[0]):
        link = np.int64(wheel.first(w))
        if link >= 0 and look and s.heap > 0 and loop._heap_first(w, link):
            link = np.int64(-1)
        if link >= 0:
            out[k, 0], out[k, 1] = w.wheel[link].time, w.wheel[link].order
            wheel.drop(w, link)
        else:
            out[k, 0], out[k, 1] = w.heap_time[0], w.heap_key[0]
            link = w.heap_what[0]
            heap.drop_first(w)
        s.now = out[k, 0]
        wheel.insert(w, link, s.now + deltas[k], orders[links + k])


def case(seed: int) -> tuple[Any, ...]:
    """A world whose wheel turns often, and arrivals of which many are at one time, near, and beyond a turn."""
    rng = random.Random(seed)
    hosts = LINKS // 2
    world, _ = build(
        parse({"topology": {"kind": "single", "hosts": hosts}, "job": [{"ranks": 2}]}, "t"), packets=256
    )
    world.sim[0]["heap"] = 0
    world.sim[0]["wheel_shift"] = shift = rng.choice([0, 2, 6])
    turn = wheel.BUCKETS << shift
    near = [0, 1, 1 << shift, 64 << shift, turn // 2, turn - 1]
    times = [rng.choice(near) for _ in range(LINKS)]
    deltas = [rng.choice([*near, *near, turn, 3 * turn, rng.randrange(1, turn)]) for _ in range(EVENTS)]
    orders = list(range(LINKS + EVENTS))
    if rng.random() < 0.5:
        rng.shuffle(orders)
    return world, times, orders, deltas


def expected(times: list[int], orders: list[int], deltas: list[int]) -> list[tuple[int, int]]:
    queue = list(zip(times, orders, strict=False))
    heapq.heapify(queue)
    got = []
    for k, delta in enumerate(deltas):
        time, order = heapq.heappop(queue)
        got.append((time, order))
        heapq.heappush(queue, (time + delta, orders[len(times) + k]))
    return got


def played(seed: int, *, look: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    world, times, orders, deltas = case(seed)
    out = np.zeros((EVENTS, 2), np.int64)
    play(reference(world), np.array(times), np.array(orders), np.array(deltas), out, look)
    return [(int(a), int(b)) for a, b in out], expected(times, orders, deltas)


@pytest.mark.parametrize("seed", range(12))
def test_events_come_in_order_of_time_then_of_scheduling(seed: int) -> None:
    got, wanted = played(seed, look=True)
    assert got == wanted


def test_what_the_wheel_gave_to_the_heap_is_not_forgotten() -> None:
    assert any(got != wanted for got, wanted in (played(seed, look=False) for seed in range(4)))
