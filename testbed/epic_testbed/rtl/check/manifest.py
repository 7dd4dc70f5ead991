"""Reading the manifests of the checks: TOML with one-line errors that name file, key and what was expected."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check.model import LEVELS

Parameters = dict[str, int]


def load(path: Path) -> dict[str, Any]:
    """The tables of a file. Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected the manifest of a check") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None


class Row:
    """One table of a manifest; what is read from it is checked, and what was never asked for is an error."""

    def __init__(self, path: Path, name: str, values: Mapping[str, Any]) -> None:
        self._where = f"{path.name}: {name}"
        self._values = dict(values)

    def error(self, key: str, value: object, expected: str) -> ConfigError:
        """The error to raise for a key."""
        return ConfigError(f"{self._where}: {key} = {value!r}, expected {expected}")

    def text(self, key: str, default: str | None = None, one_of: tuple[str, ...] = ()) -> str:
        """A string."""
        value = self._values.pop(key, default)
        if not isinstance(value, str) or (one_of and value not in one_of):
            raise self.error(key, value, f"one of {', '.join(one_of)}" if one_of else "a string")
        return value

    def level(self) -> str:
        """Of the check: test (the default) or verify."""
        return self.text("level", "test", LEVELS)

    def number(self, key: str, default: int | None = None) -> int:
        """An integer from 1."""
        value = self._values.pop(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.error(key, value, "an integer from 1")
        return value

    def names(self, key: str) -> list[str]:
        """A list of strings."""
        value = self._values.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, value, "a list of strings")
        return value

    def parameters(self, key: str = "parameters") -> Parameters:
        """A table of integers."""
        return self._integers(key, self._values.pop(key, {}))

    def parameter_sets(self, key: str) -> list[Parameters]:
        """A list of tables of integers."""
        value = self._values.pop(key, [])
        if not isinstance(value, list):
            raise self.error(key, value, "a list of tables of integers")
        return [self._integers(key, item) for item in value]

    def end(self) -> None:
        """Nothing else may be there."""
        for key, value in self._values.items():
            raise self.error(key, value, "no such key")

    def _integers(self, key: str, value: object) -> Parameters:
        if not isinstance(value, dict) or not all(type(item) is int for item in value.values()):
            raise self.error(key, value, "a table of integers")
        return value


def label(parameters: Mapping[str, int]) -> str:
    """Parameters in a name: `DATA_W=128,MTU=1024`."""
    return ",".join(f"{key}={value}" for key, value in parameters.items()) or "defaults"
