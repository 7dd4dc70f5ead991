"""Every planted fault is seen by the scenario that is named for it, and every clause it names exists."""

from __future__ import annotations

import pytest

from epic_spec.errors import CollectiveError
from epic_spec.tables import CLAUSES
from models.mutants import MUTANTS
from models.scenarios import SCENARIOS


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    clause, scenario, patch = MUTANTS[name]
    assert clause in CLAUSES
    # A crash of the mutant itself would prove nothing, so only failed checks and failed collectives count.
    with patch(), pytest.raises((AssertionError, CollectiveError)):
        SCENARIOS[scenario]()


@pytest.mark.parametrize("name", sorted({scenario for _, scenario, _ in MUTANTS.values()}))
def test_the_killing_scenario_passes_without_the_fault(name: str) -> None:
    SCENARIOS[name]()
