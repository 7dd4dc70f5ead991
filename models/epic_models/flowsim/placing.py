"""Which hosts a job gets."""

from __future__ import annotations

import random

import numpy as np

from epic_models.flowsim.topology import Index


def anywhere(hosts: int, ranks: int, placement: str, salt: str) -> Index:
    """Hosts whatever else runs on them, chosen as the packet-level simulator does."""
    if placement == "packed":
        return np.arange(ranks, dtype=np.int32)
    if placement == "spread":
        return (np.arange(ranks) * hosts // ranks).astype(np.int32)
    return np.array(random.Random(f"placement {salt}").sample(range(hosts), ranks), np.int32)


class FreeHosts:
    """Hosts that no job has to itself."""

    def __init__(self, hosts: int) -> None:
        self._free = np.ones(hosts, np.bool_)
        self.count = hosts

    def take(self, ranks: int, placement: str, salt: str) -> Index | None:
        """Hosts for a job, or None when there are too few.

        packed: side by side if there is such a place, else the first ones; spread: evenly over the free ones; random.
        """
        if ranks > self.count:
            return None
        free = np.flatnonzero(self._free).astype(np.int32)
        if placement == "packed":
            # A run of n free hosts: the n-th from one is n - 1 further.
            runs = np.flatnonzero(free[ranks - 1 :] - free[: len(free) - ranks + 1] == ranks - 1)
            first = int(runs[0]) if len(runs) else 0
            taken = free[first : first + ranks]
        else:
            taken = free[anywhere(len(free), ranks, placement, salt)]
        self._free[taken] = False
        self.count -= ranks
        return taken

    def give(self, hosts: Index) -> None:
        """They are free again."""
        self._free[hosts] = True
        self.count += len(hosts)
