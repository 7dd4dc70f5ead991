"""These tests need the extra `torch`, which `make test` does not install; without it they are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from host.worlds import World, single


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Makes process groups: `groups(ranks, **params)` gives one a rank, over switches that are running."""
    import torch

    from epic_host.torch_backend.process_group import EpicProcessGroup

    # The ranks of a test are threads already.
    torch.set_num_threads(1)
    worlds: list[World] = []
    made: list[Any] = []

    def make(ranks: int, **params: Any) -> list[Any]:
        folder = tmp_path / str(len(worlds))
        folder.mkdir()
        world = World(folder, tree=single(ranks), **params)
        worlds.append(world)
        world.start()
        own = [EpicProcessGroup(world.join(rank)) for rank in range(ranks)]
        made.extend(own)
        return own

    yield make
    for group in made:
        group.shutdown()
    for world in worlds:
        world.close()
