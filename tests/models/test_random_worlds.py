"""Random trees, collectives and networks against the abstract machine and NumPy, in every mode."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.worlds import SCALE, Expectation, World, collectives, group_params, rates, trees, world_size


@pytest.mark.parametrize("mode", [1, 2, 3])
@settings(max_examples=60 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_collectives_on_a_random_tree_and_network_are_right(mode: int, data: st.DataObject) -> None:
    tree = data.draw(trees())
    params = data.draw(group_params(mode, world_size(tree)))
    world = World(tree, params, data.draw(rates), seed=data.draw(st.integers(0, 1 << 16)))
    sequence = data.draw(st.lists(collectives(params), min_size=1, max_size=4))
    expected = [Expectation(c, params, tag) for tag, c in enumerate(sequence)]
    for e in expected:
        for rank, operation in enumerate(e.operations):
            world.call(rank, operation)
    world.settle()
    assert [m.error for m in world.members] == [None] * params.world_size
    for e in expected:
        e.check()
