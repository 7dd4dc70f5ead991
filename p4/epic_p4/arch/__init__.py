"""The architectures: how parsers and controls are joined to a switch, and what the externs do."""

from __future__ import annotations

from epic_p4 import ast
from epic_p4.arch.base import Architecture, Environment
from epic_p4.arch.tna import Tna
from epic_p4.arch.v1model import V1Model
from epic_p4.errors import NOWHERE, UnsupportedError

_ARCHITECTURES: dict[str, type[Architecture]] = {"v1model": V1Model, "tna": Tna}


def load(program: ast.Program, environment: Environment) -> Architecture:
    """A switch for the program. Raises UnsupportedError for an architecture or a construct that cannot be run."""
    made = _ARCHITECTURES.get(program.arch)
    if made is None:
        where = (
            program.main.node.pos if program.main is not None and program.main.node is not None else NOWHERE
        )
        raise UnsupportedError(where, f"architecture {program.arch or 'of an unknown package'!r}")
    return made(program, environment)
