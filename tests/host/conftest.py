"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host.worlds import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds, their switches running, and ends them after the test."""
    worlds: list[World] = []

    def make(**options: object) -> World:
        folder = tmp_path / str(len(worlds))
        folder.mkdir()
        worlds.append(World(folder, **options))
        worlds[-1].start()
        return worlds[-1]

    yield make
    for made in worlds:
        made.close()
