"""What is measured against each other: EPIC, and peers that do the same collectives over the same loopback."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from epic_host import Communicator
from epic_models.reference import numerics
from epic_models.reference.group import GroupPlan
from epic_spec.errors import ConfigError
from epic_testbed import worker
from epic_testbed.cases import Array, Case, shard_bounds

# A peer's module, the package it needs, and how that is got.
PEERS: Final = {
    "gloo": ("epic_testbed.bench.gloo", "torch", "pip install 'epic-inc[torch]'"),
    "mpi": ("epic_testbed.bench.mpi", "mpi4py", "pip install 'epic-inc[mpi]'"),
    "ring": ("epic_testbed.bench.ring", "numpy", ""),
}


class Contender(Protocol):
    """One rank's end of a library."""

    def bind(self, case: Case, send: Array, recv: Array) -> Callable[[], object]:
        """What does the case's collective once, from `send` into `recv`; arrays are whole or a shard as `buffers` says.

        Where the library only works in place it does so in `recv`. Raises NotImplementedError when it has no such
        collective, or not for the datatype.
        """

    def barrier(self) -> None:
        """Return when every rank is here."""

    def profile(self) -> dict[str, float]:
        """Seconds of processor time by what they were spent on, so far; empty where it is not known."""

    def close(self) -> None:
        """Leave."""


def require(peer: str) -> None:
    """Raises ConfigError, saying how to get it, for a peer that is not known or not installed."""
    if peer not in PEERS:
        raise ConfigError(f"--peer = {peer!r}, expected one of {', '.join(PEERS)}")
    _, package, how = PEERS[peer]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"--peer {peer}: {package} is not installed, expected it ({how})")


def open_contender(name: str, rank: int, ranks: int, config: dict[str, Any]) -> Contender:
    """Join as a rank of a contender; returns when all have joined."""
    if name == "epic":
        return Epic(rank, config)
    module = importlib.import_module(PEERS[name][0])
    contender: Contender = module.join(rank, ranks, config)
    return contender


def buffers(case: Case, rank: int, ranks: int) -> tuple[int, int]:
    """Elements of `send` and of `recv`."""
    bounds = shard_bounds(case.count, ranks)
    own = bounds[rank + 1] - bounds[rank]
    if case.primitive == "reduce_scatter":
        return case.count, own
    if case.primitive == "all_gather":
        return own, case.count
    return case.count, case.count


def empty(case: Case, count: int) -> Array:
    """An array of the case's datatype."""
    return np.zeros(count, numerics.array_dtype(case.datatype))


class Epic:
    """The communicator."""

    def __init__(self, rank: int, config: dict[str, Any]) -> None:
        plan = GroupPlan.from_dict(json.loads(Path(config["group"]).read_text()))
        self._comm = Communicator(
            rank, plan, config["transport"], datapath=config["datapath"], reproducible=config["reproducible"]
        )
        self._rank = rank
        self._profile = self._comm.profile() if config["profile"] else None

    def bind(self, case: Case, send: Array, recv: Array) -> Callable[[], object]:
        """The collective. Broadcast is in place, as everywhere."""
        if case.primitive == "broadcast":
            return lambda: worker.call(self._comm, case, recv, None)
        if case.primitive == "reduce" and self._rank != case.root:
            return lambda: worker.call(self._comm, case, send, None)
        return lambda: worker.call(self._comm, case, send, recv)

    def barrier(self) -> None:
        """A barrier."""
        self._comm.barrier()

    def profile(self) -> dict[str, float]:
        """By the communicator's profile, where it was asked for."""
        return {} if self._profile is None else self._profile.total()

    def close(self) -> None:
        """Close the communicator."""
        self._comm.close()
