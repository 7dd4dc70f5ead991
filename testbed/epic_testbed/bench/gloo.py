"""The peer gloo: `torch.distributed` with its backend gloo over TCP on loopback, what PyTorch uses on CPUs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from epic_testbed.cases import Array, Case


def join(rank: int, ranks: int, config: dict[str, Any]) -> Gloo:
    """Join; `config["port"]` is a free TCP port."""
    return Gloo(rank, ranks, config["port"])


class Gloo:
    """One rank. Its collectives are in place, but for the sharded ones."""

    def __init__(self, rank: int, ranks: int, port: int) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self._torch: Any = torch
        self._dist: Any = dist
        self._ranks = ranks
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", timedelta(seconds=60), ranks, rank)

    def bind(self, case: Case, send: Array, recv: Array) -> Callable[[], object]:
        """The collective on tensors that share the arrays' memory."""
        dist, torch = self._dist, self._torch
        if case.primitive == "barrier":
            return self.barrier
        if case.dtype == "bf16":
            given = torch.from_numpy(send.view(np.int16)).view(torch.bfloat16)
            taken = torch.from_numpy(recv.view(np.int16)).view(torch.bfloat16)
        else:
            given, taken = torch.from_numpy(send), torch.from_numpy(recv)
        op = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}.get(case.op)
        if case.primitive in ("all_reduce", "reduce"):
            taken.copy_(given)
        if case.primitive == "all_reduce":
            return lambda: dist.all_reduce(taken, op)
        if case.primitive == "reduce":
            return lambda: dist.reduce(taken, case.root, op)
        if case.primitive == "broadcast":
            return lambda: dist.broadcast(taken, case.root)
        if case.count % self._ranks:
            raise NotImplementedError(f"gloo: {case.primitive} of shards of unequal size")
        if case.primitive == "all_gather":
            return lambda: dist.all_gather_into_tensor(taken, given)
        return lambda: dist.reduce_scatter_tensor(taken, given, op)

    def barrier(self) -> None:
        """A barrier."""
        self._dist.barrier()

    def profile(self) -> dict[str, float]:
        """Nothing is known."""
        return {}

    def close(self) -> None:
        """Leave the process group."""
        self._dist.destroy_process_group()
