"""What host cases speak of: descriptors of cells, arrays as words of a log, equality of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive

Array = np.ndarray[Any, np.dtype[Any]]
# Elements, the payload's bytes as they are, or None for NULL.
Values = Sequence[float] | Array | bytes | None


def all_reduce(
    tag: int = 0, operator: Operator = Operator.SUM, datatype: Datatype = Datatype.INT32
) -> Descriptor:
    """The descriptor of an AllReduce cell."""
    return Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=tag)


def reduce(
    root: int, tag: int = 0, operator: Operator = Operator.SUM, datatype: Datatype = Datatype.INT32
) -> Descriptor:
    """The descriptor of a Reduce cell, ReduceScatter's included."""
    return Descriptor(Primitive.REDUCE, operator, datatype, root, tag=tag)


def broadcast(root: int, tag: int = 0, datatype: Datatype = Datatype.INT32) -> Descriptor:
    """The descriptor of a Broadcast cell, AllGather's included."""
    return Descriptor(Primitive.BROADCAST, Operator.SUM, datatype, root, tag=tag)


def end(what: Descriptor, root: int | None = None) -> Descriptor:
    """The end cell of a collective that has cells like `what`; `root` where its rank field differs."""
    return replace(what, operator=Operator.NONE, rank=what.rank if root is None else root)


def barrier(tag: int = 0) -> Descriptor:
    """The descriptor of a Barrier."""
    return Descriptor(Primitive.ALLREDUCE, Operator.NONE, tag=tag)


def in_words(array: Array | None) -> str:
    """An array in a line of the log."""
    if array is None:
        return "no array"
    head = ", ".join(str(v) for v in array.reshape(-1)[:8].tolist())
    return f"{array.size} x {array.dtype} ({head}{', …' if array.size > 8 else ''})"


def equal(got: Array, expected: Array) -> bool:
    """Same type and shape, and the same bits or both NaN."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    if got.tobytes() == expected.tobytes():
        return True
    if np.issubdtype(got.dtype, np.integer):
        return False
    a, b = got.astype(np.float64), expected.astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(both_nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))
