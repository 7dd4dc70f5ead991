"""The peer MPI: mpi4py, with the MPI that it finds, its processes started by `mpiexec`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from epic_spec.errors import ConfigError
from epic_testbed.cases import Array, Case, shard_bounds

_TYPES = {
    "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T", "fp32": "FLOAT", "fp64": "DOUBLE",
}  # fmt: skip


def launch(path: str) -> NoReturn:
    """Become the `mpiexec` that starts a process for each rank. Raises ConfigError where there is none."""
    ranks = json.loads(Path(path).read_text())["ranks"]
    beside = Path(sys.executable).with_name("mpiexec")
    command = str(beside) if beside.exists() else shutil.which("mpiexec")
    if command is None:
        raise ConfigError("--peer mpi: no mpiexec on the PATH, expected that of the MPI which mpi4py uses")
    line = [command, "-n", str(ranks), sys.executable, "-m", "epic_testbed.child", "bench", path]
    os.execv(command, line)  # noqa: S606


def join(rank: int, ranks: int, config: dict[str, Any]) -> Mpi:
    """Join MPI's world, which has as many ranks; which of them this is MPI says."""
    return Mpi()


class Mpi:
    """One rank."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi: Any = MPI
        self._world: Any = MPI.COMM_WORLD

    def bind(self, case: Case, send: Array, recv: Array) -> Callable[[], object]:
        """The collective by MPI's upper-case functions, which take memory as it is."""
        world, mpi = self._world, self._mpi
        if case.primitive == "barrier":
            return self.barrier
        if case.dtype not in _TYPES and case.primitive in ("all_reduce", "reduce", "reduce_scatter"):
            raise NotImplementedError(f"mpi: {case.primitive} of {case.dtype}")
        kind = getattr(mpi, _TYPES[case.dtype]) if case.dtype in _TYPES else None
        op = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN}.get(case.op)
        if case.primitive == "all_reduce":
            return lambda: world.Allreduce([send, kind], [recv, kind], op)
        if case.primitive == "reduce":
            return lambda: world.Reduce([send, kind], [recv, kind], op, case.root)
        if case.primitive == "broadcast":
            whole = recv.view(np.uint8)
            return lambda: world.Bcast([whole, mpi.BYTE], case.root)
        counts = np.diff(shard_bounds(case.count, world.Get_size()))
        if case.primitive == "reduce_scatter":
            return lambda: world.Reduce_scatter([send, kind], [recv, kind], counts.tolist(), op)
        sizes = (counts * send.itemsize).tolist()
        given, taken = send.view(np.uint8), recv.view(np.uint8)
        return lambda: world.Allgatherv([given, mpi.BYTE], [taken, sizes, None, mpi.BYTE])

    def barrier(self) -> None:
        """A barrier."""
        self._world.Barrier()

    def profile(self) -> dict[str, float]:
        """Nothing is known."""
        return {}

    def close(self) -> None:
        """MPI ends with the process."""
