"""Random faulty worlds and the directed scenarios of the models, every node in them twice: reference and fast."""

from __future__ import annotations

import os
import random

import pytest

from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams
from epic_models.reference.network import LinkModel
from epic_models.reference.tree import Tree
from host.fast.twins import twins_everywhere
from models.scenarios import SCENARIOS
from models.worlds import ALL_TYPES, Collective, Expectation, World

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
RUNS = 12 * SCALE
TREES = (
    Tree("s", {"s": (0,)}),
    Tree("s", {"s": (0, 1, 2)}),
    Tree("s", {"s": ("a", "b"), "a": (0, 1), "b": (2, 3)}),
    Tree("s", {"s": (0, "a"), "a": (1, "b"), "b": (2, 3, 4)}),
)
PRIMITIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier")


def random_params(rng: random.Random, mode: int, n: int) -> GroupParams:
    """Small windows, so that slots are reused, and every option."""
    window = rng.choice([1, 2, 4, 8])
    return GroupParams(
        group=1, mode=mode, world_size=n, window=window, slots=2 * window * rng.choice([1, 2]),
        payload_bytes=rng.choice([64, 128]), datatypes=rng.choice([("INT32",), ALL_TYPES]),
        byte_order=rng.choice(["big", "little"]), icrc=rng.choice(["full", "full", "none"]),
        ack_reflection=mode == 3 and rng.random() < 0.3, window_guard=rng.random() < 0.7,
        conflict_record=rng.random() < 0.7, ordered=rng.random() < 0.2, ecn=rng.random() < 0.8,
        partial_format=rng.choice(["input", "fp32"]), retry_limit=100, rto_initial_us=1000, rto_min_us=200,
        rto_max_us=5000, deadline_us=20_000_000,
    )  # fmt: skip


def random_collective(rng: random.Random, params: GroupParams) -> Collective:
    """One that the group can compute."""
    datatype = rng.choice(ALL_TYPES)
    plain = "FP32" not in params.datatypes and datatype in ("INT64", "FP64")
    return Collective(
        rng.choice(PRIMITIVES), "SUM" if plain else rng.choice(["SUM", "MAX", "MIN"]), datatype,
        count=rng.choice([0, 1, 3, 16, 17, 33, 100, 250]), root=rng.randrange(params.world_size),
        seed=rng.randrange(1000), in_place=rng.random() < 0.5, reproducible=rng.random() < 0.3,
    )  # fmt: skip


def check_run(mode: int, seed: int) -> None:
    """One random faulty run of twins: a tree, a group, a network, collectives; then the results themselves."""
    rng = random.Random(f"differential {mode} {seed}")
    tree = rng.choice(TREES)
    params = random_params(rng, mode, len(tree.ranks_below(tree.root)))
    faults = FaultRates(
        loss=rng.choice([0.0, 0.02, 0.1]), duplicate=rng.choice([0.0, 0.05, 0.2]),
        reorder=rng.choice([0.0, 0.05, 0.2]), corrupt=rng.choice([0.0, 0.02]) if params.icrc == "full" else 0.0,
    )  # fmt: skip
    links = LinkModel(mark=rng.choice([0.0, 0.0, 0.1]))
    sequence = [random_collective(rng, params) for _ in range(rng.randint(1, 3))]
    try:
        with twins_everywhere():
            world = World(tree, params, faults, seed=seed, links=links)
        expected = [Expectation(c, params, tag) for tag, c in enumerate(sequence)]
        for e in expected:
            for rank, operation in enumerate(e.operations):
                world.call(rank, operation)
        world.settle()
        for e in expected:
            e.check()
    except AssertionError as error:
        error.add_note(f"run {seed} of mode {mode}: {params}, {faults}, {sequence}")
        raise


@pytest.mark.parametrize("mode", [2, 3])
def test_random_faulty_runs_are_the_same(mode: int) -> None:
    for seed in range(RUNS):
        check_run(mode, seed)


# Of Mode I, or reaching into the reference.
NOT_FOR_TWINS = ("m1_", "m3_cell_numbers_wrap", "m2_packet_numbers_wrap")
# These take seconds each; random runs do much the same.
LONG = (
    "m2_every_lost_frame",
    "m2_late_duplicates",
    "m3_slots_are_reused",
    "congestion_marks",
)
LEFT_OUT = NOT_FOR_TWINS if SCALE > 1 else NOT_FOR_TWINS + LONG


@pytest.mark.parametrize("name", [n for n in SCENARIOS if not n.startswith(LEFT_OUT)])
def test_scenarios_are_the_same(name: str) -> None:
    with twins_everywhere():
        SCENARIOS[name]()
