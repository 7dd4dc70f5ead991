"""What the fast engines of all modes share: the groups that are installed, in tables for kernels.

As `epic_models.reference.endpoint.EngineBase` (EPIC-E-01 to EPIC-E-04).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from epic_host.fast.frames import NO_EDGE, Departures
from epic_host.fast.groups import CHILD, GROUP, Installed, output_bytes
from epic_host.fast.node import FastNode
from epic_host.fast.pool import Pool
from epic_models.reference.endpoint import EngineCapabilities, check_install
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_spec.errors import ConfigError, ResourceError


class FastEngine(FastNode):
    """An engine of one mode with any number of groups, for batches and for packets.

    A mode adds its records, its kernels and, where it has timers, `poll_batch` and `next_deadline`.
    """

    MODE: int

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        super().__init__()
        self.capabilities = capabilities or EngineCapabilities(mode=self.MODE)
        self._groups: dict[int, Installed] = {}
        self._table = Pool(GROUP)
        self._children = Pool(CHILD)
        self._ranks = Pool(np.int32)

    @property
    def burst(self) -> int:
        """Departures that one frame may cause at once: a result to every child."""
        return self.capabilities.children + 1

    # ------------------------------------------------------------------------------------------- what a mode adds

    @abstractmethod
    def _rows(self, entry: EngineGroup) -> int:
        """Rows of payload memory that a group needs."""

    @abstractmethod
    def _installed(self, installed: Installed) -> None:
        """A group is in the tables: add what the mode keeps for it. `installed.record` is stored after that."""

    @abstractmethod
    def _removed(self, installed: Installed) -> None:
        """A group goes: free what `_installed` added."""

    @abstractmethod
    def _slots(self, installed: Installed) -> tuple[SlotStatus, ...]:
        """Live slots of a group."""

    def _failed_edges(self, installed: Installed) -> tuple[str, ...]:
        """Names of a group's edges in error; Mode III has none."""
        return ()

    # ------------------------------------------------------------------------------------------- control plane

    def install(self, entry: EngineGroup, now: float) -> None:
        """Install a group. Raises ConfigError or ResourceError; on an error nothing has changed."""
        check_install(entry, self._groups, self.capabilities, lambda qpn: self.edges.find(qpn) != NO_EDGE)
        rows = self._rows(entry)
        _check_memory(entry, rows)
        index = self._table.take(1)
        installed = Installed(index, entry, rows, self.edges, self._children, self._ranks)
        self._installed(installed)
        self._table.records[index] = installed.record
        self._groups[entry.params.group] = installed
        self._tables_changed()

    def remove(self, group: int) -> None:
        """Remove a group and free all it held. Raises ConfigError when it is not installed."""
        installed = self._find(group)
        del self._groups[group]
        self._removed(installed)
        installed.free()
        self._table.give(installed.index, 1)
        self._tables_changed()

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._groups)

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""
        found = self._find(group)
        return GroupStatus(group, found.params.epoch, self._slots(found), self._failed_edges(found))

    def _find(self, group: int) -> Installed:
        try:
            return self._groups[group]
        except KeyError:
            raise ConfigError(
                f"group {group}: not installed, expected one of {sorted(self._groups)}"
            ) from None

    # ------------------------------------------------------------------------------------------- for kernels

    def settle(self) -> None:
        """Make events of what a kernel reported; Mode III's reports nothing."""

    def poll_batch(self, departures: Departures, now: float) -> None:
        """Run the timers that are due; Mode III has none."""

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        return None

    def _tables(self) -> dict[str, Any]:
        """What the worlds of all modes have, by name, but for the departures."""
        return {
            "groups": self._table.records,
            "children": self._children.records,
            "ranks": self._ranks.records,
            "edges": self.edges.rows,
            "frames": self._frames,
            "counters": self._counters,
            "generation": self._generation,
        }


def _check_memory(entry: EngineGroup, rows: int) -> None:
    """Refuse a group whose payloads the system has no memory for, while nothing has changed. Raises ResourceError."""
    params = entry.params
    size = rows * (2 * params.payload_bytes + output_bytes(params))
    if params.ordered:
        size += rows * len(entry.children) * params.payload_bytes
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        raise ResourceError(
            f"group {params.group}: {size} bytes of memory for payloads, expected no more than the system has"
        ) from None
