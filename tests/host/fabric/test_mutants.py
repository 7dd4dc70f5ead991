"""Every planted fault is seen by the scenario that is named for it."""

from __future__ import annotations

import pytest

from epic_spec.errors import EpicError
from host.fabric.mutants import MUTANTS
from host.fabric.scenarios import SCENARIOS


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str) -> None:
    scenario, patch = MUTANTS[name]
    # A crash of the mutant itself would prove nothing, so only failed checks and the library's own errors count.
    with patch(), pytest.raises((AssertionError, EpicError)):
        SCENARIOS[scenario]()
