"""How a controller reaches a switch: in this process, by P4Runtime, or by BFRuntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from epic_p4.control.entries import MulticastGroup, RegisterFill, Stage
from epic_p4.runtime.errors import NotFoundError
from epic_p4.switch import P4Switch
from epic_spec.errors import EpicError


class BackendError(EpicError):
    """The switch refused, does not answer, or cannot do what was asked."""


class Backend(Protocol):
    """A switch with one program. Table, action and extern names are the control-plane names of its P4Info."""

    def write(self, stage: Stage) -> None:
        """Insert entries and groups and set register cells, in any order.

        Raises EpicError; part of the stage may then have been written.
        """

    def erase(self, stage: Stage) -> None:
        """Remove the entries and groups of a stage; one that is absent is no error."""

    def wipe(self, tables: Sequence[str], multicast: range) -> None:
        """Remove all entries of these tables and all multicast groups of these numbers, whoever made them."""

    def counter(self, name: str, size: int) -> Sequence[int]:
        """The packet counts of the cells of an indexed counter."""

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register. Raises BackendError where the target cannot read registers."""


class DirectBackend:
    """A P4Switch in this process."""

    def __init__(self, switch: P4Switch) -> None:
        self._switch = switch

    def write(self, stage: Stage) -> None:
        """Insert entries and groups and set register cells."""
        for item in stage:
            match item:
                case MulticastGroup(number, replicas):
                    self._switch.multicast_set(number, replicas)
                case RegisterFill(register, first, values):
                    for index, value in enumerate(values, first):
                        self._switch.register_write(register, index, value)
                case entry:
                    self._switch.insert(entry.table, entry.match, entry.action, entry.params, entry.priority)

    def erase(self, stage: Stage) -> None:
        """Remove the entries and groups of a stage."""
        for item in stage:
            try:
                match item:
                    case MulticastGroup(number):
                        self._switch.multicast_delete(number)
                    case RegisterFill():
                        pass
                    case entry:
                        self._switch.delete(entry.table, entry.match, entry.priority)
            except NotFoundError:
                continue

    def wipe(self, tables: Sequence[str], multicast: range) -> None:
        """Remove all entries of these tables and all multicast groups of these numbers."""
        for table in tables:
            for entry in self._switch.entries(table):
                self._switch.delete(table, entry.match, entry.priority)
        for number in [n for n in self._switch.multicast_groups() if n in multicast]:
            self._switch.multicast_delete(number)

    def counter(self, name: str, size: int) -> Sequence[int]:
        """The packet counts of a counter's cells."""
        return [self._switch.counter_read(name, index)[0] for index in range(size)]

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register."""
        return [self._switch.register_read(name, index, field) for index in range(first, first + count)]
