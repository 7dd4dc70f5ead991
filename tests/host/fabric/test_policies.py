"""Policies over random lives of groups: nothing is promised that is not there, and nobody starves."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.fabric.builders import single, spine_leaf, tree
from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.policies import Policy, load, names
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Usage
from epic_spec.errors import ConfigError
from host.fabric.fabrics import engines, state_of
from host.fabric.policy_world import PolicyWorld

# A failing example's seed is all that is needed to see it again: test_...(seed).
SEEDS = st.integers(0, 2**32 - 1)
# Each example is a whole life of a fabric.
FEWER = settings(max_examples=max(1, settings().max_examples // 5))
POLICIES = ("best_effort", "spatial", "temporal")
QUANTUM = 1.0


def some_world(rng: Random, policy: Policy) -> PolicyWorld:
    make = engines(Capacity(groups=rng.choice([1, 2]), slot_bytes=rng.choice([200_000, 1 << 30])))
    fabric = rng.choice([single(4, engine=make), spine_leaf(2, 2, 2, engine=make), tree((2, 2), engine=make)])
    return PolicyWorld(state_of(fabric), policy, change=rng.choice([0.0, 0.2]))


def some_group(rng: Random, world: PolicyWorld, name: str) -> GroupRequest:
    hosts = sorted(world.state.usage.fabric.hosts)
    path = rng.choice(["auto", "auto", "auto", "network"])
    return GroupRequest(name, tuple(rng.sample(hosts, rng.randint(2, 4))), path=path)


@pytest.mark.parametrize("policy", POLICIES)
@FEWER
@given(seed=SEEDS)
def test_every_move_is_possible_and_nothing_is_left_when_all_have_gone(policy: str, seed: int) -> None:
    rng = Random(seed)
    world = some_world(rng, load(policy))
    for i in range(rng.randint(3, 10)):
        if world.groups and rng.random() < 0.4:
            world.destroy(rng.choice(sorted(world.groups)))
        world.create(some_group(rng, world, f"g{i}"))
        # PolicyWorld refuses moves to the network for which there is no room, and Usage what exceeds capacity.
        world.run(world.now + rng.choice([0.0, 0.3, 1.5]))
        for group in world.groups.values():
            assert group.request.path == "auto" or group.path is not Path.HOST
    for name in sorted(world.groups):
        world.destroy(name)
        world.step()
    assert world.state.usage == Usage(world.state.usage.fabric)


@FEWER
@given(seed=SEEDS)
def test_under_temporal_everyone_gets_a_turn_within_a_quantum_for_each_before_it(seed: int) -> None:
    rng = Random(seed)
    world = some_world(rng, load("temporal", quantum=QUANTUM))
    count = rng.randint(2, 5)
    for i in range(count):
        world.create(some_group(rng, world, f"g{i}"))
        world.run(world.now + rng.choice([0.0, 0.1]))
    bound = count * (QUANTUM + world.change) + 0.01
    world.run(world.now + 2 * bound)
    for name in world.groups:
        life = world.lives[name]
        ends = [life.came, *(until for _, until in life.turns)]
        starts = [*(since for since, _ in life.turns), world.now]
        if world.path(name) is Path.NETWORK:
            starts.pop()
            ends.pop()
        waits = [start - end for end, start in zip(ends, starts, strict=True)]
        assert max(waits, default=0.0) <= bound, (name, life.turns)


@FEWER
@given(seed=SEEDS)
def test_under_spatial_who_waits_at_the_front_gets_the_network_when_those_before_it_have_gone(
    seed: int,
) -> None:
    rng = Random(seed)
    world = some_world(rng, load("spatial"))
    for i in range(8):
        world.create(some_group(rng, world, f"g{i}"))
        world.run(world.now + 0.1)
    waiting = sorted((g for g in world.groups.values() if g.waits), key=lambda g: g.since)
    if not waiting:
        return
    front = waiting[0]
    for name, group in sorted(world.groups.items()):
        if group.path is Path.NETWORK and group.since < front.since:
            world.destroy(name)
    # What came later is there still, and is in its way no more than before.
    world.create(some_group(rng, world, "late"))
    world.run(world.now + 0.1)
    assert world.path(front.name) is Path.NETWORK


@FEWER
@given(seed=SEEDS)
def test_a_group_that_lost_its_engine_is_placed_anew_or_told_why(seed: int) -> None:
    rng = Random(seed)
    policy = load(rng.choice(POLICIES))
    world = some_world(rng, policy)
    for i in range(4):
        world.create(some_group(rng, world, f"g{i}"))
    lost = rng.choice(sorted(world.state.usage.fabric.engines))
    world.state.lose([lost])
    for name, group in sorted(world.groups.items()):
        if group.placement is None or lost not in group.placement.engines:
            continue
        world.state.usage.remove(group.placement)
        verdict = policy.admit(
            world.state,
            group.request,
            world.now,
            terms=group.terms,
            groups=world.views(but=name),
            since=world.now,
        )
        if verdict.placement is None:
            # It waits for the engine as for any other resource, where the policy has queues.
            assert verdict.queued is (policy.name != "best_effort" or group.request.path == "auto")
            assert verdict.text
        else:
            assert lost not in verdict.placement.engines
        world.state.usage.add(group.placement)


def test_policies_are_found_by_name_and_options_are_checked() -> None:
    assert set(POLICIES) <= set(names())
    assert all(load(name).name == name for name in POLICIES)
    with pytest.raises(ConfigError, match="policy 'fair' is not known, expected one of best_effort, spatial"):
        load("fair")
    with pytest.raises(ConfigError, match="policy spatial: options quantum, expected those it has"):
        load("spatial", quantum=1.0)
    with pytest.raises(ConfigError, match="policy temporal: quantum = 0, expected seconds above 0"):
        load("temporal", quantum=0)


def test_a_policy_says_when_to_ask_it_again() -> None:
    world = PolicyWorld(
        state_of(single(4, engine=engines(Capacity(groups=1)))), load("temporal", quantum=2.0)
    )
    world.create(GroupRequest("a", ("h0", "h1")))
    assert world.policy.next_turn(world.views(), 0.5) is None
    world.create(GroupRequest("b", ("h0", "h1")))
    assert world.policy.next_turn(world.views(), 0.5) == 2.0
    assert load("spatial").next_turn(world.views(), 0.5) is None
    assert world.lives["b"].verdict.reason is Reason.NO_GROUPS
