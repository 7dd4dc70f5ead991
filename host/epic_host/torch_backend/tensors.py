"""Torch tensors as what a communicator takes: flat NumPy arrays over the same memory, or over a copy of it.

A contiguous tensor on the CPU is used where it lies. Any other strided CPU tensor is copied to a contiguous one
before the collective, and back after it where the collective writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from epic_spec.errors import ConfigError

Array = NDArray[Any]

# The datatypes of epic.toml. bfloat16 goes through int16: torch has no NumPy view of it.
_COMPUTED: dict[torch.dtype, np.dtype[Any]] = {
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}


@dataclass(frozen=True, slots=True)
class Buffer:
    """`array` is flat and C-contiguous; `finish` brings what was written to it into the tensor it was made for."""

    array: Array
    finish: Callable[[], None]


def buffer(tensor: torch.Tensor, where: str, *, computed: bool) -> Buffer:
    """The array of a tensor. `computed`: the collective calculates with the elements, otherwise it moves them.

    What is only moved may have any datatype: one that EPIC does not know travels as bytes. Raises ConfigError naming
    `where` for a tensor that is not a dense one on the CPU, or a datatype that cannot be reduced.
    """
    check(tensor, where)
    if computed and tensor.dtype not in _COMPUTED:
        known = ", ".join(_name(dtype) for dtype in _COMPUTED)
        raise ConfigError(f"{where} has dtype {_name(tensor.dtype)}, expected one of {known}")
    own = tensor.detach()
    if own.is_contiguous() and not own.is_neg() and not own.is_conj():
        return Buffer(_view(own.view(-1)), _nothing)
    copy = own.resolve_neg().resolve_conj().contiguous()
    return Buffer(_view(copy.view(-1)), lambda: _copy_back(own, copy))


def check(tensor: object, where: str) -> None:
    """Refuse what is no dense tensor on the CPU. Raises ConfigError."""
    if not isinstance(tensor, torch.Tensor):
        raise ConfigError(f"{where} is a {type(tensor).__name__}, expected a torch.Tensor")
    if tensor.layout is not torch.strided:
        raise ConfigError(f"{where} has layout {tensor.layout}, expected a dense tensor (torch.strided)")
    if tensor.device.type != "cpu":
        raise ConfigError(f"{where} is on device {tensor.device}, expected cpu")


def _view(flat: torch.Tensor) -> Array:
    """The array over the memory of a flat, contiguous tensor."""
    dtype = _COMPUTED.get(flat.dtype)
    array: Array
    if dtype is None:
        array = flat.view(torch.uint8).numpy().view(np.int8)
    elif flat.dtype is torch.bfloat16:
        array = flat.view(torch.int16).numpy().view(dtype)
    else:
        array = flat.numpy()
    return array


def _copy_back(tensor: torch.Tensor, copy: torch.Tensor) -> None:
    tensor.copy_(copy)


def _nothing() -> None:
    """A view needs no bringing back."""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
