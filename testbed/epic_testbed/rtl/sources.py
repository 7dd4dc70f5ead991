"""Where the RTL sources are, and which files a module is made of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import epic_testbed
from epic_spec.errors import ConfigError

ROOT: Final = Path(epic_testbed.__file__).parents[2]
RTL: Final = ROOT / "rtl"
SRC: Final = RTL / "src"
HARNESS: Final = RTL / "harness"


def sources_of(top: str) -> list[Path]:
    """The file of a module and those of all that it names, directly or not, headers included. Raises ConfigError."""
    found: dict[str, Path] = {}
    names = [top]
    while names:
        name = names.pop()
        for path in (SRC / f"{name}.v", SRC / f"{name}.vh"):
            if path.is_file() and path.name not in found:
                found[path.name] = path
                names += re.findall(r"\bepic_\w+", path.read_text())
    if f"{top}.v" not in found:
        raise ConfigError(
            f"{SRC / top}.v: no such file, expected the RTL sources beside the package epic_testbed"
        )
    return [found[name] for name in sorted(found)]
