"""The records of rtl/src/epic_types.vh: their fields are read from that file, so a layout is said once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from epic_spec.errors import ConfigError

_CONSTANT = re.compile(r"^localparam (?:integer|\[\d+:0\]) (\w+) = (?:\d+'[hd])?([0-9a-f]+);")


@cache
def constants(path: Path) -> dict[str, int]:
    """The constants of a Verilog header of this project."""
    found = {}
    for line in path.read_text().splitlines():
        match = _CONSTANT.match(line)
        if match:
            found[match[1]] = int(match[2], 16 if "'h" in line.split(";")[0] else 10)
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """One record: packs fields by name into a number."""

    name: str
    path: Path

    def pack(self, **fields: int) -> int:
        """The record as a number. Raises ConfigError for a field that is not there or does not hold its value."""
        known = constants(self.path)
        value = 0
        for field, number in fields.items():
            stem = f"{self.name}_{field.upper()}"
            if f"{stem}_LSB" not in known:
                raise ConfigError(f"{self.name}: no field {field}")
            width = known[f"{stem}_WIDTH"]
            if not 0 <= number < 1 << width:
                raise ConfigError(f"{self.name}.{field} = {number}, expected {width} bits")
            value |= number << known[f"{stem}_LSB"]
        return value
