"""The same calls over engines and over both algorithms of the host path: integers come out equal, bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host.fallback.worlds import HostWorld
from models.worlds import SCALE, Expectation, World, collectives, group_params, rates, trees, world_size

EXACT = ("INT8", "INT16", "INT32", "INT64")


@pytest.mark.parametrize("mode", [1, 2, 3])
@settings(max_examples=8 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_network_ring_and_doubling_give_equal_integers(mode: int, data: st.DataObject) -> None:
    tree = data.draw(trees(max_ranks=6))
    group = data.draw(group_params(mode, world_size(tree)))
    exact = collectives(group).filter(
        lambda c: c.datatype in EXACT or c.primitive in ("broadcast", "all_gather")
    )
    sequence = data.draw(st.lists(exact, min_size=1, max_size=3))
    seed, faults = data.draw(st.integers(0, 99)), data.draw(rates)
    worlds: list[World | HostWorld] = [World(tree, group, faults, seed=seed)]
    worlds += [HostWorld(group, algorithm, faults, seed=seed) for algorithm in ("ring", "doubling")]
    outputs = []
    for world in worlds:
        expected = [Expectation(c, group, tag) for tag, c in enumerate(sequence)]
        for e in expected:
            for rank, operation in enumerate(e.operations):
                world.call(rank, operation) if isinstance(world, World) else world.members[rank].call(
                    operation
                )
        world.settle()
        assert [m.error for m in world.members] == [None] * group.world_size
        outputs.append([[None if out is None else out.tobytes() for out in e.outputs] for e in expected])
    network, ring, doubling = outputs
    assert network == ring == doubling
