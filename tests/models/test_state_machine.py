"""A hypothesis state machine: ranks call when they like, time passes in pieces, the network misbehaves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from epic_models.reference.driver import run_members
from models.worlds import (
    SCALE,
    Collective,
    Expectation,
    World,
    collectives,
    group_params,
    rates,
    trees,
    world_size,
)


class Job(RuleBasedStateMachine):
    """One group. Every rank calls the same sequence; each is somewhere in it."""

    mode = 3

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        tree = data.draw(trees(max_fan_in=8, max_ranks=12))
        self.params = data.draw(group_params(self.mode, world_size(tree)))
        self.world = World(tree, self.params, data.draw(rates), seed=data.draw(st.integers(0, 1 << 16)))
        self.sequence: list[Collective] = []
        self.expected: list[Expectation] = []
        self.called = [0] * self.params.world_size

    @rule(data=st.data())
    def the_program_gets_another_collective(self, data: st.DataObject) -> None:
        self.sequence.append(data.draw(collectives(self.params)))
        self.expected.append(Expectation(self.sequence[-1], self.params, len(self.sequence) - 1))

    @precondition(lambda self: any(c < len(self.expected) for c in self.called))
    @rule(data=st.data())
    def a_rank_calls_its_next_collective(self, data: st.DataObject) -> None:
        behind = [r for r, c in enumerate(self.called) if c < len(self.expected)]
        rank = data.draw(st.sampled_from(behind))
        self.world.call(rank, self.expected[self.called[rank]].operations[rank])
        self.called[rank] += 1

    @rule(microseconds=st.sampled_from([5, 50, 500, 5000]))
    def time_passes(self, microseconds: int) -> None:
        run_members(self.world.net, self.world.members, microseconds * 1e-6)

    @invariant()
    def nobody_has_failed(self) -> None:
        if hasattr(self, "world"):
            assert [m.error for m in self.world.members] == [None] * self.params.world_size

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for rank, called in enumerate(self.called):
            for e in self.expected[called:]:
                self.world.call(rank, e.operations[rank])
        self.world.settle()
        for e in self.expected:
            e.check()


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_ranks_at_their_own_pace_always_get_right_results(mode: int) -> None:
    machine = type(f"JobOfMode{mode}", (Job,), {"mode": mode})
    config = settings(
        max_examples=25 * SCALE,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=config)
