"""Compiled code is read again only while every file that it was made from is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from epic_host.fast import mode3_kernels
from epic_host.fast.compiled import sources

_PRINT = """
from pathlib import Path
from epic_host.fast import compiled, mode3_kernels
print(compiled.stamp(Path(mode3_kernels.__file__)))
"""


def test_a_stamp_covers_all_that_a_file_imports() -> None:
    names = {path.name for path in sources(Path(mode3_kernels.__file__))}
    direct = {
        "calls.py",
        "compiled.py",
        "frames.py",
        "groups.py",
        "queues.py",
        "value.py",
        "wire.py",
        "world.py",
    }
    assert direct | {"crc.py", "lanes.py", "tables.py", "numerics.py"} <= names
    assert not {"engine.py", "mode3_engine.py", "warm.py", "agent.py"} & names, "no kernel is made from these"


def test_a_stamp_does_not_depend_on_what_else_is_imported() -> None:
    stamps = {
        subprocess.run(
            [sys.executable, "-c", first + _PRINT],
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for first in ("pass", "import epic_host.fast.warm")
    }  # fmt: skip
    assert len(stamps) == 1
