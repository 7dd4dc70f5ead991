"""Whether a result is right: every element against NumPy, with the tolerance that the path through the tree
implies.

    path       when                                             an element is right when
    exact      integers; MAX and MIN; broadcast and all_gather  its bits are those of the expected one
    native     SUM of floats that the engines add               |error| <= ((n-1) a + L r) * sum|x| + L h
    fixed      SUM of floats over INT32 on the hosts            |error| <= E + u (|sum| + E) + h, E = n M 2^-S

n ranks; L levels of engines; a the unit roundoff of the engines' accumulator (2^-24, for FP64 2^-53); r that
of the datatype where it has 16 bits, since each engine rounds once, otherwise 0; u the unit roundoff of the
datatype, h half its smallest positive number; M the largest magnitude in the block and S the scale, as
derived in `epic_models.reference.fixedpoint` (with the blocks on either side included, so that the check does
not depend on where blocks begin). The native bound is the usual one for sums in any order (Higham, Accuracy
and Stability of Numerical Algorithms, 4.2), and 1 % more for its second-order terms. The expected sum itself
is computed with at least 11 more bits than the datatype has, and its own error is added to the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from epic_models.reference import collectives, fixedpoint, numerics
from epic_models.reference.group import GroupParams
from epic_spec.tables import Datatype
from epic_testbed.cases import REDUCING, Array, Case, Inputs, shard_bounds

_SECOND_ORDER = 1.01
RULES = {
    "exact": "bit for bit",
    "native": "|error| <= ((n-1) a + L r) sum|x| + L h, for n ranks, L levels of engines, roundoff a",
    "fixed": "|error| <= E + u (|sum| + E) + h, E = n M 2^-S: fixed point, M the largest of a block",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Elements that are wrong, and the largest absolute error (0 for what is exact; infinite errors count as
    wrong and give the largest finite number).
    """

    wrong: int
    max_abs_err: float


def path_of(case: Case, params: GroupParams, reproducible: bool) -> str:
    """How the case's values are combined: "exact", "native" or "fixed"."""
    if case.primitive not in REDUCING or case.op != "sum" or case.datatype not in numerics.FLOATS:
        return "exact"
    return collectives.arithmetic(case.operator, case.datatype, params, reproducible).kind


@dataclass(frozen=True, slots=True)
class Expected:
    """What a rank has to receive: values, and for each the tolerance (None: bit for bit)."""

    values: Array
    tolerance: NDArray[Any] | None

    def judge(self, got: Array) -> Verdict:
        """Compare a result. One of another length is wrong in all of its expected elements, at least one."""
        if got.size != self.values.size:
            return Verdict(max(self.values.size, got.size, 1), 0.0)
        if got.size == 0:
            return Verdict(0, 0.0)
        got = got.reshape(-1)
        if self.tolerance is None:
            return _judge_exact(got, self.values)
        wide = self.values.dtype
        with np.errstate(invalid="ignore"):
            error = np.abs(got.astype(wide) - self.values)
        wrong = int(np.count_nonzero(~(error <= self.tolerance)))
        return Verdict(wrong, _largest(error))


def _judge_exact(got: Array, expected: Array) -> Verdict:
    if got.dtype != expected.dtype:
        return Verdict(got.size, 0.0)
    differs = got.view(np.uint8) != expected.view(np.uint8)
    wrong_at = differs.reshape(got.size, -1).any(axis=1)
    wrong = int(np.count_nonzero(wrong_at))
    if not wrong:
        return Verdict(0, 0.0)
    with np.errstate(all="ignore"):
        error = np.abs(got[wrong_at].astype(np.float64) - expected[wrong_at].astype(np.float64))
    return Verdict(wrong, _largest(error))


def _largest(error: NDArray[Any]) -> float:
    largest = float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
    return min(largest, float(np.finfo(np.float64).max))


def expected(inputs: Inputs, rank: int, path: str, levels: int) -> Expected | None:
    """What `rank` has to receive; None where it receives nothing (barrier, and reduce on the other ranks)."""
    case = inputs.case
    if case.primitive == "barrier" or (case.primitive == "reduce" and rank != case.root):
        return None
    if case.primitive == "broadcast":
        assert case.root is not None
        return Expected(inputs.of(case.root), None)
    bounds = shard_bounds(case.count, inputs.ranks)
    if case.primitive == "all_gather":
        shards = [inputs.of(r, bounds[r + 1] - bounds[r]) for r in range(inputs.ranks)]
        return Expected(np.concatenate(shards), None)
    total, magnitude = inputs.reduced()
    if path == "exact":
        values, tolerance = total.astype(numerics.array_dtype(case.datatype)), None
    else:
        values, tolerance = total, _tolerance(inputs, path, levels, total, magnitude)
    if case.primitive == "reduce_scatter":
        mine = slice(bounds[rank], bounds[rank + 1])
        return Expected(values[mine], None if tolerance is None else tolerance[mine])
    return Expected(values, tolerance)


def _tolerance(
    inputs: Inputs, path: str, levels: int, total: NDArray[Any], magnitude: NDArray[Any]
) -> NDArray[Any]:
    datatype, ranks = inputs.case.datatype, inputs.ranks
    info = ml_dtypes.finfo(numerics.array_dtype(datatype))  # type: ignore[no-untyped-call]
    roundoff = 2.0 ** -(info.nmant + 1)
    half = float(info.smallest_subnormal) / 2
    own = (ranks - 1) * float(np.finfo(total.dtype).eps) * magnitude
    if path == "native":
        accumulator = 2.0**-53 if datatype is Datatype.FP64 else 2.0**-24
        rounding = roundoff if datatype in numerics.HALVES else 0.0
        factor: float = ((ranks - 1) * accumulator + levels * rounding) * _SECOND_ORDER
        native: NDArray[Any] = factor * magnitude + levels * half + own
        return native
    scale = fixedpoint.FixedPoint(datatype, ranks).bits
    quantized = ranks * _block_max(inputs) * 2.0**-scale
    fixed: NDArray[Any] = quantized + roundoff * (np.abs(total) + quantized) + half + own
    return fixed


def _block_max(inputs: Inputs) -> NDArray[np.float64]:
    """For each element the largest magnitude of any rank in its block of the fixed point and the two beside
    it.
    """
    count, block = inputs.case.count, fixedpoint.BLOCK
    blocks = -(-count // block)
    largest = np.zeros(blocks + 2)
    for rank in range(inputs.ranks):
        padded = np.zeros(blocks * block)
        padded[:count] = np.abs(inputs.of(rank).astype(np.float64))
        np.maximum(largest[1:-1], padded.reshape(blocks, block).max(axis=1, initial=0.0), out=largest[1:-1])
    wide = np.maximum(np.maximum(largest[:-2], largest[1:-1]), largest[2:])
    return np.repeat(wide, block)[:count]
