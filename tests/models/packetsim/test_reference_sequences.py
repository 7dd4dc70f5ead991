"""The simulator's protocols are the reference's: the same packets arrive at the same times, whatever is lost."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epic_models.packetsim.config import Config, parse
from epic_models.packetsim.net import DUPLICATED, HELD, LOST
from models.packetsim.reference_world import RNR_SECONDS, Reception, both, receptions

CASES = 50 * int(os.environ.get("EPIC_EXAMPLES", "1"))
TOPOLOGIES: tuple[dict[str, Any], ...] = (
    {"kind": "single", "hosts": 1},
    {"kind": "single", "hosts": 3},
    {"kind": "1-2-4"},
    {"kind": "tree", "fan_out": [3, 2]},
    {"kind": "tree", "fan_out": [2, 1, 2]},
)


def case(mode: int, seed: int) -> tuple[Config, list[tuple[int, int, int, int]]]:
    """A small job, and what becomes of some of its packets."""
    rng = random.Random(f"{mode}/{seed}")
    topology = dict(
        rng.choice(TOPOLOGIES), rate_gbps=rng.choice([10.0, 100.0]), delay_ns=rng.choice([100.0, 2000.0])
    )
    if rng.random() < 0.3:
        topology |= {"buffer_kib": rng.choice([1.0, 2.0, 4.0]), "mark_kib": rng.choice([0.0, 0.5, 1.0])}
    window = rng.choice([1, 2, 4, 8])
    payload = rng.choice([64, 256])
    primitive = rng.choice(["all_reduce", "all_reduce", "reduce", "broadcast", "barrier"])
    job: dict[str, Any] = {
        "algorithm": f"mode{mode}",
        "primitive": primitive,
        "size": 4 * rng.randint(1, 24 * payload // 4),
        "payload": payload,
        "message": payload * rng.choice([1, 2, 3]),
        "window": window,
        "iterations": rng.choice([1, 2]),
        "compute_us": rng.choice([0.0, 3.0]),
        "straggle_us": rng.choice([0.0, 5.0]),
        "rto_initial_us": rng.choice([50, 200]),
        "rto_min_us": rng.choice([20, 50]),
        "rto_max_us": 1000,
        "retry_limit": 200,
        "ecn": rng.random() < 0.8,
    }
    if mode == 1:
        job["buffers"] = rng.choice([b for b in (1, 2, 4, 8) if b <= window])
    if mode == 3:
        job["slots"] = window * rng.choice([2, 4])
        job["window_guard"] = rng.random() < 0.8
    config = parse({"seed": seed, "time_limit_ms": 2000.0, "topology": topology, "job": [job]}, "case")
    # The time of an RNR timer code, to the last bit.
    config = replace(config, jobs=(replace(config.jobs[0], rnr=RNR_SECONDS),))
    script = []
    amount = rng.choice([0, 0, 3, 10, 40])
    for _ in range(amount):
        link = rng.randrange(2 * len(config.network.wires))
        fate = rng.choice([LOST, LOST, DUPLICATED, HELD])
        script.append((link, rng.randrange(60), fate, rng.randrange(1, 40_000_000)))
    return config, list({(link, k): (link, k, fate, hold) for link, k, fate, hold in script}.values())


# Picoseconds by which the two may differ: compiled and interpreted floating point may round a timer differently.
ROUNDING = 1000


def agree(ours: list[Reception], theirs: list[Reception], end: int) -> bool:
    """Whether the same arrived in the same order, the last moment (where several things happen at once) left aside."""
    ours = [row for row in ours if row[0] < end - ROUNDING]
    theirs = [row for row in theirs if row[0] < end - ROUNDING]
    return [row[1:] for row in ours] == [row[1:] for row in theirs] and all(
        abs(a[0] - b[0]) <= ROUNDING for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_the_same_packets_arrive_at_the_same_times(mode: int) -> None:
    repaired = 0
    for seed in range(CASES):
        config, script = case(mode, seed)
        world, reference = both(config, script)
        ours, end = receptions(world), int(world.sim[0]["now"])
        for place in sorted(ours.keys() | reference.got.keys()):
            same = agree(ours.get(place, []), reference.got.get(place, []), end)
            assert same, f"mode {mode}, seed {seed}, end {place}"
        finish = world.finish.reshape(len(config.jobs[0].hosts), -1)
        assert np.abs(finish - np.array(reference.ended)).max() <= ROUNDING, f"mode {mode}, seed {seed}"
        assert finish.min() > 0, f"mode {mode}, seed {seed}: not ended"
        repaired += int(world.ends["retransmissions"].sum())
    assert repaired > CASES, "the faults of these cases hurt nobody"
