"""The temporary folder of a check, and its record, by which the next run removes what a killed one left.

TLC's states go to the disk of the temporary directory: the run's own directory may be in memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epic_testbed import registry
from epic_testbed.signals import interruptible, undisturbed

_PREFIX = "epic-check-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A check's record, which names its processes, and its folder for files."""

    run: registry.Run
    folder: Path


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Scratch]:
    """A record and an empty folder, both gone at the end. SIGINT, SIGTERM and SIGHUP raise Interrupted inside."""
    clean()
    with interruptible():
        run = registry.create(kind)
        folder = Path(tempfile.gettempdir(), f"{_PREFIX}{run.id}")
        folder.mkdir(mode=0o700)
        try:
            yield Scratch(run, folder)
        finally:
            with undisturbed():
                run.destroy()
                shutil.rmtree(folder, ignore_errors=True)


def clean() -> None:
    """Remove what checks left that were killed."""
    registry.clean()
    alive = {run.id for run in registry.runs()}
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.geteuid() and path.name.removeprefix(_PREFIX) not in alive:
                shutil.rmtree(path, ignore_errors=True)
