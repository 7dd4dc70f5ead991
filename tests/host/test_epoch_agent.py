"""Ranks over several epochs, in virtual time: every result once, in order, right, wherever the change falls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.epoch_agent import EpochAgent
from epic_host.history import History
from epic_models.reference.faults import FaultRates
from epic_models.reference.interfaces import Cell
from epic_models.reference.registry import make_agent
from epic_models.reference.tree import build_group
from epic_spec.errors import EpicError
from host.epoch_scenarios import MUTANTS, SCENARIOS, apart, at_every_step
from host.epoch_worlds import EpochWorld, params, trees
from models.worlds import SCALE, Collective, collectives, group_params, rates


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    SCENARIOS[name]()


@pytest.mark.parametrize("mode", [1, 2])
def test_ranks_apart_in_the_other_modes(mode: int) -> None:
    apart(mode)
    at_every_step(mode)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    scenario, patch = MUTANTS[name]
    with patch(), pytest.raises((AssertionError, EpicError, ValueError)):
        SCENARIOS[scenario]()


@settings(max_examples=25 * SCALE, deadline=None)
@given(st.data())
def test_random_worlds_change_their_path(data: Any) -> None:
    n = data.draw(st.integers(1, 5))
    group = data.draw(group_params(data.draw(st.sampled_from([1, 2, 3])), n))
    world = EpochWorld(
        group, data.draw(rates), seed=data.draw(st.integers(0, 999)), forget=data.draw(st.booleans())
    )
    world.call(*data.draw(st.lists(collectives(group), min_size=1, max_size=4)))
    paths = data.draw(st.lists(st.sampled_from(["a", "b", "c", "host"]), min_size=1, max_size=5))
    spread = data.draw(st.sampled_from([0.0, 1e-4, 2e-3]))
    world.begin_epoch(paths[0])
    for path in paths[1:]:
        world.run(data.draw(st.sampled_from([0.0, 5e-5, 3e-4, 3e-3])))
        world.begin_epoch(path, spread)
    world.settle()


# ------------------------------------------------------------------------------------------ the object alone


def agent(rank: int = 0) -> Any:
    return make_agent(build_group(trees(2)["a"], params(2)).ranks[rank])


def test_without_a_path_there_is_no_room() -> None:
    own = EpochAgent()
    assert own.room() == 0
    assert own.next_deadline() is None
    assert own.prepare(0) == 0
    assert own.room() == 0
    own.resume(0, agent(), 0, 4, 0.0)
    assert own.room() == 4
    with pytest.raises(ValueError, match="5 cells, expected at most 4"):
        own.submit([Cell(0, bytes(4))] * 5, 0.0)


def test_an_epoch_that_was_not_prepared_is_refused() -> None:
    own = EpochAgent()
    own.resume(3, agent(), 0, 4, 0.0)
    with pytest.raises(EpicError, match="epoch 4 is granted in epoch 3, expected it to be prepared"):
        own.resume(4, agent(), 0, 4, 0.0)
    own.prepare(5)
    with pytest.raises(EpicError, match="epoch 4 is granted in epoch 5"):
        own.resume(4, agent(), 0, 4, 0.0)


def test_a_cell_that_is_not_kept_or_not_delivered_is_refused() -> None:
    own = EpochAgent()
    own.prepare(0)
    with pytest.raises(EpicError, match="resumes at cell 1, expected 0 to 0"):
        own.resume(0, agent(), 1, 4, 0.0)


def test_counters_go_on_over_epochs() -> None:
    own = EpochAgent()
    own.resume(0, agent(), 0, 4, 0.0)
    own.submit([Cell(0, bytes(4))], 0.0)
    own.prepare(1)
    own.resume(1, agent(), 0, 4, 0.0)
    assert own.counters()["tx_contribution"] == 2
    assert own.repeated == 1


def test_history_keeps_what_it_must_and_no_more() -> None:
    history = History(2)
    payload = bytearray(b"abcd")
    for _ in range(5):
        history.append(Cell(0, payload))  # type: ignore[arg-type]
    payload[:] = b"over"
    history.delivered(4)
    assert (history.first, history.end) == (2, 5)
    assert history[2].payload == b"abcd"
    for number in (1, 5):
        with pytest.raises(LookupError, match=f"contribution {number}, kept are 2 to 4"):
            history[number]


def test_faults_of_every_kind_on_the_way() -> None:
    world = EpochWorld(params(4), FaultRates(0.05, 0.1, 0.1, 0.02), seed=3)
    world.call(*(Collective("all_reduce", count=60, in_place=True, seed=i) for i in range(6)))
    world.begin_epoch("a")
    for path in "bca":
        world.run(1e-3)
        world.begin_epoch(path, 1e-3)
    world.settle()
