"""Each planted fault of the manager's core is seen by its scenario, which passes without it."""

from __future__ import annotations

import pytest

from host.manager.core_mutants import MUTANTS
from host.manager.core_world import Violation

SCENARIOS = {scenario.__name__: scenario for _, scenario, _ in MUTANTS.values()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenario_passes_as_it_is(name: str) -> None:
    SCENARIOS[name]()


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_seen(name: str) -> None:
    _, scenario, patch = MUTANTS[name]
    with patch(), pytest.raises((Violation, AssertionError)):
        scenario()
