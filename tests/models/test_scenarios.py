"""Every directed scenario holds for the reference engines and agents."""

from __future__ import annotations

import pytest

from models.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    SCENARIOS[name]()
