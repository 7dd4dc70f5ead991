"""Registers and counters: arrays that live as long as the switch.

The lists are changed in place only, for generated code holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epic_p4.runtime.errors import ControlError, NotFoundError, OutOfRangeError


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a register of structs, or the value of a plain one (then `name` is "")."""

    name: str
    width: int
    signed: bool = False
    initial: int = 0


class Register:
    """Cells of one or more columns. `stamp` is the last packet that touched it, where that is watched."""

    __slots__ = ("columns", "name", "size", "specs", "stamp")

    def __init__(self, name: str, size: int, specs: Sequence[Column]) -> None:
        self.name = name
        self.size = size
        self.specs = tuple(specs)
        self.columns = [[spec.initial] * size for spec in specs]
        self.stamp = 0

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the columns, () for a plain register."""
        return tuple(spec.name for spec in self.specs if spec.name)

    def read(self, index: int, field: str = "") -> int:
        """A cell, as an unsigned number of the column's width."""
        column = self._column(field)
        self._inside(index, 1)
        return self.columns[column][index] & ((1 << self.specs[column].width) - 1)

    def fill(self, first: int, count: int, value: int, field: str = "") -> None:
        """Set `count` cells from `first` on; values are unsigned, also for signed columns."""
        column = self._column(field)
        if count < 0:
            raise OutOfRangeError(f"register {self.name}: {count} cells, expected 0 or more")
        if count:
            self._inside(first, count)
        spec = self.specs[column]
        if not 0 <= value < 1 << spec.width:
            raise ControlError(f"register {self.name}: value {value}, expected 0..{(1 << spec.width) - 1:#x}")
        if spec.signed and value >> (spec.width - 1):
            value -= 1 << spec.width
        self.columns[column][first : first + count] = [value] * count

    def reset(self) -> None:
        """All cells to what the program starts with."""
        for spec, cells in zip(self.specs, self.columns, strict=True):
            cells[:] = [spec.initial] * self.size

    def _column(self, field: str) -> int:
        for number, spec in enumerate(self.specs):
            if spec.name == field:
                return number
        expected = ", ".join(repr(spec.name) for spec in self.specs)
        raise NotFoundError(f"register {self.name}: field {field!r}: unknown, expected one of {expected}")

    def _inside(self, first: int, count: int) -> None:
        if first < 0 or first + count > self.size:
            cells = f"index {first}" if count == 1 else f"indices {first}..{first + count - 1}"
            raise OutOfRangeError(f"register {self.name}: {cells}, expected 0..{self.size - 1}")


class Counter:
    """Packets and bytes by index. Both are counted whatever the declared type is, as BMv2 does."""

    __slots__ = ("bytes", "name", "packets", "size", "stamp")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.packets = [0] * size
        self.bytes = [0] * size
        self.stamp = 0

    def read(self, index: int) -> tuple[int, int]:
        """(packets, bytes)."""
        self._inside(index)
        return self.packets[index], self.bytes[index]

    def write(self, index: int, packets: int, octets: int) -> None:
        """Set a cell."""
        self._inside(index)
        if packets < 0 or octets < 0:
            raise ControlError(f"counter {self.name}: ({packets}, {octets}), expected two numbers >= 0")
        self.packets[index] = packets
        self.bytes[index] = octets

    def clear(self) -> None:
        """All cells to 0."""
        self.packets[:] = [0] * self.size
        self.bytes[:] = [0] * self.size

    def _inside(self, index: int) -> None:
        if not 0 <= index < self.size:
            raise OutOfRangeError(f"counter {self.name}: index {index}, expected 0..{self.size - 1}")
