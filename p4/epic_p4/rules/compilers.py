"""The real compilers, where they are on PATH: p4test, p4c-bm2-ss and the Tofino back end."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_MAX_DETAIL = 240
_WARNING = re.compile(r"warning[:=]|\[--Wwarn", re.IGNORECASE)
_ERROR = re.compile(r"error[:=]|\[--Werror", re.IGNORECASE)


class Outcome(NamedTuple):
    """What became of one compiler. `result` is ok, failed, timeout or "not run"; `detail` is one line."""

    name: str
    result: str
    seconds: float
    warnings: int = 0
    detail: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the program: not having run says nothing."""
        return self.result in ("ok", "not run")


@dataclass(frozen=True, slots=True)
class Job:
    """A source file to compile, and how."""

    source: Path
    arch: str
    target: str = "tofino1"
    include: Sequence[Path] = ()
    defines: Mapping[str, str] = field(default_factory=dict)


class _Compiler(NamedTuple):
    name: str
    programs: tuple[str, ...]
    archs: tuple[str, ...]


COMPILERS = (
    _Compiler("p4test", ("p4test",), ("v1model",)),
    _Compiler("p4c-bm2-ss", ("p4c-bm2-ss",), ("v1model",)),
    _Compiler("p4c for Tofino", ("p4c-barefoot", "bf-p4c", "p4c"), ("tna",)),
)


def run_all(job: Job, deadline: float) -> list[Outcome]:
    """Every compiler that takes the job's architecture, one after the other, each at most `deadline` seconds."""
    return [_run(one, job, deadline) for one in COMPILERS if job.arch in one.archs]


def _run(compiler: _Compiler, job: Job, deadline: float) -> Outcome:
    path = next(
        (found for one in compiler.programs if (found := shutil.which(one)) and _takes(found, job)), None
    )
    if path is None:
        names = ", ".join(compiler.programs)
        return Outcome(compiler.name, "not run", 0.0, detail=f"{names} not found on PATH")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="epic-p4c-") as folder:
        command = [path, *_options(compiler, Path(path).name, job, Path(folder)), str(job.source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
        except subprocess.TimeoutExpired:
            return Outcome(
                compiler.name, "timeout", time.monotonic() - started, detail=f"longer than {deadline:g} s"
            )
        except OSError as error:
            return Outcome(compiler.name, "failed", 0.0, detail=f"{path}: {error.strerror}")
    lines = (done.stderr + done.stdout).splitlines()
    seconds = time.monotonic() - started
    warnings = sum(1 for line in lines if _WARNING.search(line))
    if done.returncode == 0:
        return Outcome(compiler.name, "ok", seconds, warnings)
    said = next((line for line in lines if _ERROR.search(line)), lines[-1] if lines else "no message")
    detail = f"exit code {done.returncode}: {said.strip()}"[:_MAX_DETAIL]
    return Outcome(compiler.name, "failed", seconds, warnings, detail)


def _takes(path: str, job: Job) -> bool:
    """Whether a compiler has the job's target: the driver `p4c` may have been built without Tofino."""
    if Path(path).name != "p4c":
        return True
    try:
        done = subprocess.run(
            [path, "--target-help"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "tofino" in done.stdout + done.stderr


def _options(compiler: _Compiler, program: str, job: Job, folder: Path) -> list[str]:
    options = [f"-I{path}" for path in job.include]
    options += [f"-D{name}={value}" for name, value in job.defines.items()]
    if compiler.name == "p4test":
        return options
    if compiler.name == "p4c-bm2-ss":
        return [*options, "--arch", "v1model", "-o", str(folder / "program.json")]
    chip, arch = ("tofino2", "t2na") if job.target == "tofino2" else ("tofino", "tna")
    return [*options, "--target", chip, "--arch", arch, "-o", str(folder)]
