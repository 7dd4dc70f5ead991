"""torch's reduction operators as EPIC's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from epic_spec.errors import ConfigError

_OPERATORS = ((dist.ReduceOp.SUM, "sum"), (dist.ReduceOp.MAX, "max"), (dist.ReduceOp.MIN, "min"))


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the communicator computes ("sum", "max", "min"), and what its result is divided by afterwards."""

    operator: str
    divisor: int = 1

    def finish(self, tensor: torch.Tensor) -> None:
        """From the communicator's result to the operator's."""
        if self.divisor != 1:
            tensor.detach().div_(self.divisor)


def reduction(opts: Any, tensor: torch.Tensor, size: int, where: str) -> Reduction:
    """How `opts.reduceOp` (SUM without options) of tensors like `tensor` is computed on `size` ranks.

    AVG is the sum divided by `size`, for floating point. Raises ConfigError for other operators.
    """
    asked = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for known, name in _OPERATORS:
        if asked == known:
            return Reduction(name)
    if asked == dist.ReduceOp.AVG:
        if tensor.is_floating_point():
            return Reduction("sum", size)
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise ConfigError(f"{where}: AVG of {dtype}, expected a floating-point tensor, or SUM")
    raise ConfigError(f"{where}: operator {_name(asked)}, expected SUM, MAX, MIN or AVG")


def _name(operator: Any) -> str:
    for name in ("PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM"):
        if operator == getattr(dist.ReduceOp, name):
            return name
    return repr(operator)
