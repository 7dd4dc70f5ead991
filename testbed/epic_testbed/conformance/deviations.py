"""Deviations: a TOML file that changes how a thing is set up or how long is waited, never what is checked.

[setup]              # parameters of the groups that the suite installs, by their names in epic.toml
payload_bytes = 256
rto_initial_us = 500000

[timeouts]           # seconds
response = 2.0       # how long an answer may take
quiet = 0.2          # after how long without a frame nothing more is expected
case = 300           # how long a case may take, by the wall clock
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_models.reference.group import check_value
from epic_spec.errors import ConfigError
from epic_spec.loader import read_toml

# What of a group's installation is set-up, not meaning: a device may need other sizes and times.
SETUP = (
    "window", "slots", "payload_bytes", "message_bytes", "message_buffers",
    "rto_initial_us", "rto_min_us", "rto_max_us", "rnr_timer_us",
)  # fmt: skip
# Largest value of each, in seconds.
TIMEOUTS = {"response": 60, "quiet": 60, "case": 3600}


@dataclass(slots=True)
class Deviations:
    """What the file says, and which of it was used so far (as `name = value`), for the report."""

    setup: dict[str, Any] = field(default_factory=dict)
    timeouts: dict[str, float] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def parameter(self, name: str, value: Any) -> Any:
        """`value`, or what the file has in its place."""
        if name not in self.setup:
            return value
        self.used.add(f"setup.{name} = {self.setup[name]}")
        return self.setup[name]

    def parameters(self, values: dict[str, Any]) -> dict[str, Any]:
        """`values` with what the file has in their place or beside them."""
        return values | {name: self.parameter(name, None) for name in self.setup}

    def timeout(self, name: str, value: float) -> float:
        """`value` seconds, or what the file has in its place."""
        if name not in self.timeouts:
            return value
        self.used.add(f"timeouts.{name} = {self.timeouts[name]}")
        return self.timeouts[name]


def load_deviations(path: Path | None) -> Deviations:
    """The deviations of a file; none without one. Raises ConfigError naming file, key, value and expectation."""
    if path is None:
        return Deviations()
    data = read_toml(path, "a TOML file of deviations")
    for table in data:
        if table not in ("setup", "timeouts"):
            raise ConfigError(f"{path}: table {table!r}, expected setup or timeouts")
    setup, timeouts = data.get("setup", {}), data.get("timeouts", {})
    for name, value in setup.items():
        if name not in SETUP:
            raise ConfigError(f"{path}: setup.{name}, expected one of {', '.join(SETUP)}")
        check_value(name, value, f"{path}: setup")
    for name, value in timeouts.items():
        if name not in TIMEOUTS:
            raise ConfigError(f"{path}: timeouts.{name}, expected one of {', '.join(TIMEOUTS)}")
        limit = TIMEOUTS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= limit:
            raise ConfigError(
                f"{path}: timeouts.{name} = {value!r}, expected seconds above 0, at most {limit}"
            )
    return Deviations(dict(setup), {k: float(v) for k, v in timeouts.items()})
