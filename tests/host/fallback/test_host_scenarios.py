"""Runs the directed situations of the host path."""

from __future__ import annotations

import pytest

from host.fallback.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    SCENARIOS[name]()
