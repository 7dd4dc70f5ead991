"""Reads TOML files, every failure one line, and epic.toml itself.

Only the generators and the linter need epic.toml; everything at run time uses `tables`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError

SPEC_DIR = Path(__file__).resolve().parent.parent
REPO = SPEC_DIR.parent


def parse_toml(text: str, source: str, what: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ConfigError naming `source`; `what` says what was expected."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: not TOML: {' '.join(str(error).split())}, expected {what}") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError naming it; `what` says what was expected."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}, expected {what}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}, expected {what}") from None
    return parse_toml(text, str(path), what)


def load(path: Path | None = None) -> dict[str, Any]:
    """The spec's data as plain dictionaries.

    Raises ConfigError when the file is missing or is not TOML, naming the file.
    """
    path = path or SPEC_DIR / "epic.toml"
    if not path.exists():
        raise ConfigError(f"{path}: no such file; the generators need a source checkout")
    return read_toml(path, "TOML")
