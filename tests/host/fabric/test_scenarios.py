"""Each directed situation of scenarios.py."""

from __future__ import annotations

import pytest

from host.fabric.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    SCENARIOS[name]()
