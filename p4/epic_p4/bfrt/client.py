"""What the driver needs of a BFRuntime client: tables by name, entries as named fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Value = int | str | bool | Sequence[int] | Sequence[bool]


@dataclass(frozen=True, slots=True)
class KeyField:
    """One key of an entry; `prefix` for an lpm key, `mask` for a ternary one."""

    name: str
    value: int
    prefix: int | None = None
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that was read: keys and data by name. A register's value is a list, one number a pipe."""

    key: Mapping[str, int]
    data: Mapping[str, object]


class BfrtError(Exception):
    """The switch refused a call; `not_found` and `exists` say the two reasons that the driver can live with."""

    def __init__(self, message: str, *, not_found: bool = False, exists: bool = False) -> None:
        super().__init__(message)
        self.not_found = not_found
        self.exists = exists


class BfrtTable(Protocol):
    """One table: a match-action table, a register, a counter, or a fixed one such as $PORT. All raise BfrtError."""

    def add(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Add an entry."""

    def modify(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Change an entry; of a register or counter, set a cell."""

    def delete(self, key: Sequence[KeyField]) -> None:
        """Remove an entry."""

    def clear(self) -> None:
        """Remove all entries."""

    def get(self, keys: Sequence[Sequence[KeyField]] | None = None) -> Iterable[Entry]:
        """Entries with these keys, read from the hardware; None: all."""


class BfrtClient(Protocol):
    """A connection to a switch, bound to a program."""

    @property
    def address(self) -> str:
        """Where the switch is."""

    @property
    def program(self) -> str:
        """The program that the connection is bound to."""

    def table(self, name: str) -> BfrtTable:
        """A table by its name in the bf-rt description, "pipe." included. Raises BfrtError when there is none."""

    def close(self) -> None:
        """Leave the switch."""
