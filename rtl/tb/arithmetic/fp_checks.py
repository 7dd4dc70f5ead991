"""What each arithmetic unit must give, by NumPy and ml_dtypes: a check builds operands, runs a unit and compares bits.

A check raises AssertionError, with examples. The tests run them on 10^6 operands and more, test_mutants on fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fp_values as values
import ml_dtypes
import numpy as np
from fp_unit import SRC, Unit

Words = np.ndarray[Any, np.dtype[np.uint32]]

NAN = 0x7FC00000
INFINITY = 0x7F800000


@dataclass(frozen=True)
class Format:
    """A 16-bit format."""

    dtype: type
    is_bf16: int
    infinity: int
    nan: int


FORMATS = {
    "FP16": Format(np.float16, 0, 0x7C00, 0x7E00),
    "BF16": Format(ml_dtypes.bfloat16, 1, 0x7F80, 0x7FC0),
}

LANE = {
    name: int(code)
    for name, code in re.findall(r"LANE_(\w+) = 4'd(\d+);", (SRC / "epic_types.vh").read_text())
}
OPERATORS = ("SUM", "MAX", "MIN")
OPERATIONS = [f"{kind}_{operator}" for kind in ("INT32", "FP32", "FP16", "BF16") for operator in OPERATORS]


def same(got: np.ndarray, want: np.ndarray, *operands: np.ndarray) -> int:
    """Compares bit for bit. How many there were."""
    wrong = np.flatnonzero(got != want)
    shown = [
        f"({', '.join(f'{int(o[i]):#x}' for o in operands)}): {int(got[i]):#x}, expected {int(want[i]):#x}"
        for i in wrong[:5]
    ]
    assert not wrong.size, f"{wrong.size} of {want.size} wrong: {'; '.join(shown)}"
    return int(want.size)


# ----------------------------------------------------------------------------------------------------------- references


def combined(operator: str, a: Words, b: Words) -> Words:
    """SUM, MAX or MIN of binary32, as words; a NaN is the units' own."""
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        if operator == "SUM":
            result = (x + y).view(np.uint32)
        else:
            # NumPy propagates NaN, but leaves open which of -0 and +0 it returns: 754-2019 has -0 below +0.
            result = (np.maximum if operator == "MAX" else np.minimum)(x, y).view(np.uint32)
            result = np.where((x == 0) & (y == 0), a & b if operator == "MAX" else a | b, result)
    return np.where((result & 0x7FFFFFFF) > INFINITY, NAN, result).astype(np.uint32)


def combined_integers(operator: str, a: Words, b: Words) -> Words:
    """The same of 32-bit signed integers."""
    if operator == "SUM":
        return a + b
    x, y = a.view(np.int32), b.view(np.int32)
    return (np.maximum if operator == "MAX" else np.minimum)(x, y).view(np.uint32)


def widened(words: Words, form: Format) -> Words:
    """Binary32 of 16-bit words."""
    return words.astype(np.uint16).view(form.dtype).astype(np.float32).view(np.uint32)


def rounded(words: Words, form: Format) -> Words:
    """16-bit words of binary32; a NaN is the units' own."""
    with np.errstate(all="ignore"):
        result = words.view(np.float32).astype(form.dtype).view(np.uint16).astype(np.uint32)
    return np.where((result & 0x7FFF) > form.infinity, form.nan, result).astype(np.uint32)


def kinds(words: Words) -> dict[str, int]:
    """How many results are of each kind."""
    magnitude = words & 0x7FFFFFFF
    return {
        "subnormal": int(((magnitude < 0x800000) & (magnitude != 0)).sum()),
        "+0": int((words == 0).sum()),
        "-0": int((words == 0x80000000).sum()),
        "infinity": int((magnitude == INFINITY).sum()),
        "NaN": int((magnitude > INFINITY).sum()),
    }


# --------------------------------------------------------------------------------------------------------------- checks


def fp32_add(unit: Unit, each: int, seed: int = 1) -> int:
    """epic_fp32_add; both orders of the operands at once, for they are drawn alike."""
    a, b = values.pairs(seed, each)
    want = combined("SUM", a, b)
    assert all(kinds(want).values()), kinds(want)  # no kind of result was left out
    return same(unit(a, b)[0], want, a, b)


def maxmin(unit: Unit, each: int, kind: str, operator: str, *, fp32: bool = True) -> int:
    """epic_lane_maxmin. Without the option the words are integers whatever is asked."""
    a, b = values.pairs(4, each)
    is_float, is_min = np.uint32(kind == "FP32"), np.uint32(operator == "MIN")
    take_b, nan = unit(a, b, is_float, is_min)
    got = np.where(nan == 1, NAN, np.where(take_b == 1, b, a))
    reference = combined if kind == "FP32" and fp32 else combined_integers
    return same(got, reference(operator, a, b), a, b)


def widen(unit: Unit, name: str) -> int:
    """epic_fp_widen on all words of a format; a NaN keeps its fraction."""
    form = FORMATS[name]
    words = np.arange(1 << 16, dtype=np.uint32)
    is_nan = (words & 0x7FFF) > form.infinity
    fraction = 16 if form.is_bf16 else 13
    kept = (words & 0x8000) << 16 | 0x7F800000 | (words << fraction & 0x7FFFFF)
    want = np.where(is_nan, kept, widened(words, form)).astype(np.uint32)
    return same(unit(words, np.uint32(form.is_bf16))[0], want, words)


def near_words(form: Format, rng: np.random.Generator, each: int) -> Words:
    """Binary32 around every word of the format, at, below and above the middle to the next; at all its heights; any."""
    exact = widened(np.arange(1 << 16, dtype=np.uint32), form)
    near = [exact + np.uint32(step) for step in (0, 1, 0xFFFFFFFF)]
    # Half an ulp is 2^15 of bfloat16, 2^12 of a normal binary16, and more of a subnormal one.
    for half in (0x8000,) if form.is_bf16 else [1 << k for k in range(12, 23)]:
        near += [exact + np.uint32(half + step & 0xFFFFFFFF) for step in (-1, 0, 1)]
    low, high = (0, 256) if form.is_bf16 else (96, 148)
    ranged = (values.random_words(rng, each) & np.uint32(0x807FFFFF)) | (
        rng.integers(low, high, each).astype(np.uint32) << np.uint32(23)
    )
    return np.concatenate([values.special(), *near, ranged, values.random_words(rng, each)])


def round_to(unit: Unit, each: int, name: str) -> int:
    """epic_fp_round to a format."""
    form = FORMATS[name]
    words = near_words(form, np.random.default_rng(6), each)
    return same(unit(words, np.uint32(form.is_bf16))[0], rounded(words, form), words)


def _turned(words: Words, size: int, little: Words) -> Words:
    """Words with the bytes of each element of `size` bytes turned, where not little."""
    return np.where(little == 1, words, words.view(f"u{size}").byteswap().view(np.uint32)).astype(np.uint32)


def _elements(name: str, each: int) -> tuple[Words, Words]:
    """Pairs of 16-bit elements: every special word with every other, and random ones, near each other and not."""
    form = FORMATS[name]
    rng = np.random.default_rng(9)
    nans = [form.infinity + 1, form.infinity | 0x8001, 0x7FFF, 0xFFFF]
    table = np.concatenate([np.unique(rounded(values.special(), form)), nans]).astype(np.uint32)
    a, b = (grid.ravel() for grid in np.meshgrid(table, table))
    x, y = (rng.integers(0, 1 << 16, each, dtype=np.uint32) for _ in range(2))
    close = (x + rng.integers(-64, 65, each) & 0xFFFF).astype(np.uint32) ^ np.uint32(0x8000)
    return np.concatenate([a, x, x]), np.concatenate([b, y, close])


def _halves(name: str, operator: str, each: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns little, a, b_wide, b of epic_lane_pair, and its result, for an operation of 16-bit floats."""
    form = FORMATS[name]
    rng = np.random.default_rng(8)
    a, b = _elements(name, each)
    wide = np.concatenate([rng.permutation(widened(b, form)), values.pairs(10, each // 4)[0]])
    a = np.concatenate([a, rng.integers(0, 1 << 16, wide.size, dtype=np.uint32)])
    is_wide = np.concatenate([np.zeros(b.size, np.uint32), np.ones(wide.size, np.uint32)])
    right = np.concatenate([widened(b, form), wide])
    narrow = np.concatenate([b, np.zeros(wide.size, np.uint32)])
    # The second element is another pair of the same: half of the rows further.
    second = np.arange(a.size)
    second[is_wide == 0] = np.roll(second[is_wide == 0], b.size // 2)
    second[is_wide == 1] = np.roll(second[is_wide == 1], wide.size // 2)
    little = rng.integers(0, 2, a.size, dtype=np.uint32)
    payload = _turned(a | a[second] << 16, 2, little)
    slot = np.where(
        is_wide == 1,
        right | right[second].astype(np.uint64) << np.uint64(32),
        _turned(narrow | narrow[second] << 16, 2, little),
    )
    result = combined(operator, widened(a, form), right)
    want = result | result[second].astype(np.uint64) << np.uint64(32)
    return [little, payload, is_wide, slot], want


def _wholes(name: str, operator: str, each: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The same for 32-bit elements; what is above the slot's lower half means nothing."""
    rng = np.random.default_rng(8)
    a, b = values.pairs(12, each)
    little = rng.integers(0, 2, a.size, dtype=np.uint32)
    high = rng.integers(0, 1 << 32, a.size, dtype=np.uint64) << np.uint64(32)
    reference = combined if name == "FP32" else combined_integers
    columns = [little, _turned(a, 4, little), np.zeros_like(a), _turned(b, 4, little) | high]
    return columns, _turned(reference(operator, a, b), 4, little)


def lane(unit: Unit, each: int, operation: str) -> int:
    """An operation of epic_lane_pair in both byte orders; of 16-bit floats also with a slot that is wide."""
    name, _, operator = operation.partition("_")
    make: Callable[..., tuple[list[np.ndarray], np.ndarray]] = _halves if name in FORMATS else _wholes
    columns, want = make(name, operator, each)
    (got,) = unit(np.uint64(LANE[operation]), *columns)
    return same(got if name in FORMATS else got & np.uint64(0xFFFFFFFF), want, *columns)


def lane_mixed(unit: Unit, each: int) -> int:
    """epic_lane_pair with an operation that changes from cycle to cycle."""
    parts = []
    for operation in OPERATIONS:
        name, _, operator = operation.partition("_")
        columns, want = (_halves if name in FORMATS else _wholes)(name, operator, each)
        mask = np.full(want.size, (1 << 64) - 1 if name in FORMATS else 0xFFFFFFFF, np.uint64)
        op = np.full(want.size, LANE[operation], np.uint64)
        parts.append([column.astype(np.uint64) for column in (op, *columns, want, mask)])
    rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.random.default_rng(13).permutation(rows[0].size)
    *columns, want, mask = (column[order] for column in rows)
    return same(unit(*columns)[0] & mask, want & mask, *columns)


LANE_INPUTS = ["op", "little", "a", "b_wide", "b"]
LANE_LATENCY = 10
