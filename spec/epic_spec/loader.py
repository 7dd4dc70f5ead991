"""Reads epic.toml. Only the generators and the linter need it; everything at run time uses `tables`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError

SPEC_DIR = Path(__file__).resolve().parent.parent
REPO = SPEC_DIR.parent


def load(path: Path | None = None) -> dict[str, Any]:
    """The spec's data as plain dictionaries.

    Raises ConfigError when the file is missing or is not TOML, naming the file.
    """
    path = path or SPEC_DIR / "epic.toml"
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; the generators need a source checkout") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
