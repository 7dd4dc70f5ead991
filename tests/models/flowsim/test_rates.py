"""Rates are max-min fair: against textbook cases, filling in fractions over all flows, and linear programs."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from models.flowsim.fairness import CASES, Flow, Running, equal, filled, programmed, some_flow


def test_the_example_of_the_textbook() -> None:
    """Bertsekas and Gallager, Data Networks, figure 6.11: one session over a line of links that others have too."""
    world = Running([1.0, 1.0, 1.0, 2.0])
    long = world.start(Flow(((0, 1.0), (1, 1.0), (2, 1.0))))
    on_first = world.start(Flow(((0, 1.0),)))
    two = [world.start(Flow(((1, 1.0),))) for _ in range(2)]
    onward = world.start(Flow(((2, 1.0), (3, 1.0))))
    third = 1 / 3
    assert equal(world.found(), {long: third, on_first: 2 / 3, two[0]: third, two[1]: third, onward: 2 / 3})


def test_two_on_one_link_have_equal_parts_and_weights_count() -> None:
    world = Running([12.0])
    a = world.start(Flow(((0, 1.0),)))
    assert equal(world.found(), {a: 12.0})
    b = world.start(Flow(((0, 1.0),)))
    assert equal(world.found(), {a: 6.0, b: 6.0})
    # Two of its connections are on the link, so it takes two parts of four.
    c = world.start(Flow(((0, 2.0),)))
    assert equal(world.found(), {a: 3.0, b: 3.0, c: 3.0})
    d = world.start(Flow(((0, 1.0),), cap=0.4))
    assert equal(world.found(), {a: 2.9, b: 2.9, c: 2.9, d: 0.4})
    world.stop(c)
    assert equal(world.found(), {a: 5.8, b: 5.8, d: 0.4})


@pytest.mark.parametrize("seed", range(CASES))
def test_after_every_change_rates_are_those_of_filling_over_all_flows(seed: int) -> None:
    rng = random.Random(seed)
    links = rng.randint(1, 9)
    world = Running([float(rng.randint(1, 12)) for _ in range(links)])
    for _ in range(25):
        if world.flows and rng.random() < 0.4:
            world.stop(rng.choice(list(world.flows)))
        else:
            world.start(some_flow(rng, links))
        if rng.random() < 0.7:
            assert equal(world.found(), filled(world.capacity, world.flows)), f"seed {seed}"
        world.now += 0.01


@pytest.mark.parametrize("seed", range(max(4, CASES // 15)))
def test_linear_programs_find_the_same_rates(seed: int) -> None:
    rng = random.Random(1000 + seed)
    world = Running([float(rng.randint(1, 12)) for _ in range(4)])
    for _ in range(6):
        world.start(some_flow(rng, 4))
    assert equal(world.found(), programmed(world.capacity, world.flows)), f"seed {seed}"


def ends(world: Running, volumes: Mapping[int, float]) -> dict[int, float]:
    """When each of the running transfers ends, all to the end."""
    found = {}
    world.rates.settle(world.now)
    while len(found) < len(volumes):
        world.now = world.rates.next_end
        assert world.now < math.inf
        for number in world.rates.take_ended(world.now):
            found[number] = world.now
        world.rates.settle(world.now)
    return found


@pytest.mark.parametrize("seed", range(10))
def test_the_order_in_which_transfers_are_named_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    flows = [(some_flow(rng, 6), rng.uniform(1, 50)) for _ in range(12)]
    capacity = [float(rng.randint(1, 12)) for _ in range(6)]

    def run(order: list[int]) -> list[float]:
        world = Running(capacity)
        numbers = {world.start(*flows[i]): i for i in order}
        found = ends(world, {n: flows[i][1] for n, i in numbers.items()})
        return [time for _, time in sorted((numbers[n], time) for n, time in found.items())]

    order = list(range(12))
    first = run(order)
    rng.shuffle(order)
    assert run(order) == pytest.approx(first, rel=1e-9)


def test_a_full_link_carries_all_that_it_can_until_the_last_byte() -> None:
    """Work conservation: whoever shares a link, its bytes are through when they would be one after the other."""
    world = Running([10.0, 100.0])
    volumes = {}
    for k in range(1, 9):
        volumes[world.start(Flow(((0, 1.0), (1, 2.0))), 5.0 * k)] = 5.0 * k
    found = ends(world, volumes)
    assert max(found.values()) == pytest.approx(sum(volumes.values()) / 10.0, rel=1e-12)
    assert world.rates.links["bytes"].tolist() == pytest.approx(
        [sum(volumes.values()), 2 * sum(volumes.values())]
    )
    # Equal shares: with n left, the next ends when its rest is through at 10 / n.
    now, before = 0.0, 0.0
    for left, k in zip(range(8, 0, -1), range(1, 9), strict=True):
        now += (5.0 * k - before) * left / 10.0
        before = 5.0 * k
        assert list(found.values())[k - 1] == pytest.approx(now, rel=1e-12)


def test_what_is_left_of_a_stopped_transfer() -> None:
    world = Running([8.0])
    a, b = world.start(Flow(((0, 1.0),)), 100.0), world.start(Flow(((0, 1.0),)), 100.0)
    world.rates.settle(0.0)
    assert world.rates.stop(a, 5.0) == pytest.approx(80.0)
    world.rates.settle(5.0)
    assert world.rates.rate(b) == 8.0
    assert world.rates.next_end == pytest.approx(15.0)


def test_a_change_looks_at_few_when_few_are_concerned() -> None:
    """Two islands of many transfers each: what begins on one does not touch the other."""
    world = Running([10.0] * 2)
    for _ in range(50):
        world.start(Flow(((0, 1.0),)))
        world.start(Flow(((1, 1.0),)))
    world.rates.settle(0.0)
    before = world.rates.looked_at
    world.start(Flow(((0, 1.0),)))
    world.rates.settle(0.0)
    # It alone, and then all of its island.
    assert world.rates.looked_at - before == 1 + 51


def test_numbers_and_memory_are_used_again() -> None:
    world = Running([1.0] * 10)
    for _ in range(300):
        numbers = [world.start(Flow(tuple((link, 1.0) for link in range(10)))) for _ in range(3)]
        world.rates.settle(world.now)
        for number in numbers:
            world.stop(number)
    assert max(numbers) < 6
    assert len(world.rates._state.entries) <= 1024
