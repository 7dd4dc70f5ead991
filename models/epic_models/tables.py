"""TOML tables read key by key: each with a check, and whatever nobody asked for is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from epic_spec.errors import ConfigError

_UNITS: Final = {
    "": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}


def size_of(value: object, where: str) -> int:
    """Bytes of 1024, "16MiB", "1.5GB". Raises ConfigError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"([0-9.]+) ?([A-Za-z]*)", value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise ConfigError(f'{where} = {value!r}, expected bytes, such as 4096 or "16MiB"')
    try:
        return round(float(match[1]) * _UNITS[match[2]])
    except ValueError:
        raise ConfigError(f'{where} = {value!r}, expected bytes, such as 4096 or "16MiB"') from None


class Table:
    """A TOML table whose keys are taken one by one, with checks; `done` refuses what is left."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, Mapping):
            raise ConfigError(f"{where} = {data!r}, expected a table")
        self._left = dict(data)
        self._known: list[str] = []
        self.where = where

    def number(self, key: str, default: float | None, low: float, high: float = math.inf) -> float:
        """A number from `low` to `high`; required without a default."""
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            limit = f" to {high:g}" if high < math.inf else " or more"
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected a number of {low:g}{limit}")
        return float(value)

    def whole(self, key: str, default: int | None, low: int, high: int = 1 << 62) -> int:
        """A whole number from `low` to `high`; required without a default."""
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            limit = f" to {high}" if high < 1 << 62 else " or more"
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected a whole number of {low}{limit}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected true or false")
        return value

    def choice(self, key: str, default: str | None, choices: Sequence[str]) -> str:
        """One of some words."""
        value = self._take(key, default)
        if value not in choices:
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected one of {', '.join(choices)}")
        return str(value)

    def text(self, key: str, default: str | None) -> str:
        """A text."""
        value = self._take(key, default)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected a text")
        return value

    def optional(self, key: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`, or None where there is none."""
        value = self._take(key, None)
        return None if value is None else Table({key: value}, self.where).whole(key, None, low, high)

    def rows(self, key: str) -> list[Any]:
        """A list of tables [[key]], which the caller reads; empty where there is none."""
        value = self._take(key, [])
        if not isinstance(value, list):
            raise ConfigError(f"{self.where}: {key} = {value!r}, expected tables [[{key}]]")
        return value

    def other(self, key: str, default: Any = None) -> Any:
        """A value that the caller checks."""
        return self._take(key, default)

    def done(self) -> None:
        """Refuse the keys that nobody took. Raises ConfigError naming the first."""
        for key in self._left:
            raise ConfigError(f"{self.where}: unknown key {key!r}, expected one of {', '.join(self._known)}")

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._left.pop(key, default)
