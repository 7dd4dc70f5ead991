"""epic.p4, compiled: one program an architecture and a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import epic_p4
from epic_models.reference.endpoint import EngineCapabilities
from epic_p4.ast import Program
from epic_p4.frontend import compile_file
from epic_spec.errors import ConfigError
from epic_testbed.p4 import TNA, V1MODEL

SOURCES: Final = Path(epic_p4.__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture with its program: where the source is, what it offers."""

    name: str
    path: Path
    offers: EngineCapabilities


TARGETS: Final = {
    target.name: target
    for target in (
        Target("p4-v1model", SOURCES / "bmv2" / "epic.p4", V1MODEL),
        Target("p4-tna", SOURCES / "tofino" / "epic.p4", TNA),
    )
}


@cache
def compiled(name: str) -> Program:
    """The program of a target. Raises ConfigError when its source is missing, SourceError for faults in it."""
    target = TARGETS[name]
    if not target.path.is_file():
        raise ConfigError(f"{target.path}: no such file, expected the P4 source beside the package epic_p4")
    return compile_file(target.path, include=[SOURCES / "include", SOURCES / "common"])
