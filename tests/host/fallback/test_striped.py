"""Cells dealt over several trees: the abstract machine follows the ranks as if there were one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_host.fallback.striped import StripedAgent
from epic_models.reference.faults import FaultRates
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Output, Stalled
from epic_spec.errors import ConfigError, MismatchError
from host.fallback.scenarios import SUM, words
from host.fallback.stripes import StripedWorld, stripes
from host.fallback.worlds import GROUP, params
from models.worlds import SCALE, Collective, Expectation, collectives, group_params, rates


@pytest.mark.parametrize("mode", [1, 2, 3])
@settings(max_examples=15 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_collectives_over_several_trees_are_right(mode: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    group = data.draw(group_params(mode, n))
    world = StripedWorld(
        group, data.draw(st.integers(2, 4)), data.draw(rates), seed=data.draw(st.integers(0, 99))
    )
    sequence = data.draw(st.lists(collectives(group), min_size=1, max_size=3))
    expected = world.call(*sequence)
    world.settle()
    assert [m.error for m in world.members] == [None] * n
    for e in expected:
        e.check()


def check_order_and_window() -> None:
    """Many cells, a tree that is slow for want of luck, a window that is not a multiple of the trees."""
    for seed in range(3):
        world = StripedWorld(params(3, window=4), 3, FaultRates(0.2, 0.1, 0.2), seed=seed)
        world.check(
            Collective("all_reduce", count=16 * 60, seed=seed), Collective("broadcast", count=99, root=1)
        )


def check_share() -> None:
    """Every tree has its share of the cells."""
    world = StripedWorld(params(2, window=8, slots=16), 4)
    world.check(Collective("all_reduce", count=16 * 39))
    done = {name: engine.counters()["cells_completed"] for name, engine in world.net.engines.items()}
    assert {name: count for name, count in done.items() if name.startswith("s")} == dict.fromkeys(
        ("s0", "s1", "s2", "s3"), 10
    )


def check_stall() -> None:
    """Stalled and poisoned cells are named by the rank's number."""
    world = StripedWorld(params(2, deadline_us=100_000), 3)
    for rank in range(2):
        world.net.submit(GROUP, rank, [Cell(SUM, words(1))])
    world.net.run(0.05)
    world.net.submit(GROUP, 0, [Cell(SUM, words(1))])
    world.net.run(0.09)
    assert [type(e) for e in world.events(0)] == [CellDelivered, Stalled]
    stalled = world.events(0)[1]
    assert isinstance(stalled, Stalled)
    assert stalled.cell == 1
    assert world.striped[0].locate(stalled.cell) == (1, 0)


CHECKS: tuple[Callable[[], None], ...] = (check_order_and_window, check_share, check_stall)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_striped(check: Callable[[], None]) -> None:
    check()


def test_ranks_that_disagree_all_get_an_error() -> None:
    world = StripedWorld(params(3), 2)
    operations = [
        Expectation(Collective("all_reduce", count=c), world.params, 0).operations for c in (200, 201)
    ]
    for rank in range(3):
        world.members[rank].call(operations[rank == 2][rank])
    world.settle(3.0)
    assert [type(m.error) for m in world.members] == [MismatchError] * 3


def test_trees_must_fit_together() -> None:
    first, second = (plan.ranks[0] for plan in stripes(params(2), 2))
    with pytest.raises(ConfigError, match=r"group 1, rank 0: QPN 0x[0-9a-f]+ is that of two trees"):
        StripedAgent([first, first])
    with pytest.raises(ConfigError, match=r"group 2, rank 0: parameters differ"):
        StripedAgent([first, replace(second, params=replace(second.params, window=2))])


def test_submit_beyond_the_room_is_refused() -> None:
    world = StripedWorld(params(2, window=4), 3)
    assert world.striped[0].room() == 4
    with pytest.raises(ValueError, match="submit: 5 cells, expected at most 4"):
        world.striped[0].submit([Cell(SUM, words(1))] * 5, 0.0)


# -------------------------------------------------------------------------------------------------- planted faults


def _as_they_come(self: Any) -> list[Any]:
    ready: list[Any] = []
    for queue in self._ready:
        while queue:
            ready.append(queue.popleft())
            self._delivered += 1
    return ready


def _room_of_all(self: Any) -> int:
    return len(self._agents) * int(min(agent.room() for agent in self._agents))


def _untranslated(self: Any, tree: int, output: Output, into: Output) -> None:
    rest = [e for e in output.events if not isinstance(e, CellDelivered | CellFailed)]
    into.events += rest
    _MERGE(self, tree, Output(output.sends, [e for e in output.events if e not in rest]), into)


def _first_tree_only(self: Any, cells: Any, now: float) -> Output:
    output = Output()
    for cell in cells:
        self._next += 1
        self._merge(0, self._agents[0].submit([cell], now), output)
    return output


_MERGE = StripedAgent._merge
MUTANTS = {
    "results as they come": (check_order_and_window, "_in_order", _as_they_come),
    "a window for each tree": (check_order_and_window, "room", _room_of_all),
    "stalls by the tree's number": (check_stall, "_merge", _untranslated),
    "one tree has all": (check_share, "submit", _first_tree_only),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    check, attribute, changed = MUTANTS[name]
    with mock.patch.object(StripedAgent, attribute, changed), pytest.raises(AssertionError):
        check()
