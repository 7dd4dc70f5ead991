"""Every planted fault of the host path is seen by the scenario that is named for it."""

from __future__ import annotations

import pytest

from epic_spec.errors import CollectiveError
from host.fallback.mutants import MUTANTS
from host.fallback.scenarios import SCENARIOS


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    scenario, patch = MUTANTS[name]
    # A crash of the mutant itself would prove nothing, so only failed checks and failed collectives count.
    with patch(), pytest.raises((AssertionError, CollectiveError)):
        SCENARIOS[scenario]()
