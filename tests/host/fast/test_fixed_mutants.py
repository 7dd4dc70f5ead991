"""Faults planted in compiled fixed point and in stores past the cache are each seen by a test.

With `EPIC_EXAMPLES` above 1, for compiling a fault takes seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host.fast.test_fast_mutants import check_fault

ALL = int(os.environ.get("EPIC_EXAMPLES", "1")) > 1

FIXED = "test_fixed.py"
BLOCKS = "test_blocks.py"
LANES = "test_lanes.py"

# What is wrong: (module, text, what stands there instead, the tests that see it).
MUTANTS = {
    "elements are cut off, not rounded": (
        "fixed", "np.int32(np.rint(value * factor))", "np.int32(value * factor)", FIXED,
    ),
    "the scale is half of what it is": ("fixed", "np.uint32(exponent + 127)", "np.uint32(exponent + 126)", FIXED),
    "elements that are not finite are scaled": (
        "fixed", "infinity else np.float32(0)\n        to[i] = _in_order(np.uint32(np.int32(np.rint(value * f",
        "infinity else values[i]\n        to[i] = _in_order(np.uint32(np.int32(np.rint(value * f", FIXED,
    ),
    "scales that FP32 lacks are used": ("fixed", "_NEAR_32: Final = 126", "_NEAR_32: Final = 190", FIXED),
    "sums are rounded to FP32 twice": (
        "fixed", "np.float32(np.float64(np.int32(_in_order(from_[i], swapped))) * factor)",
        "np.float32(np.float32(np.int32(_in_order(from_[i], swapped))) * factor)", FIXED,
    ),
    "halves are rounded twice": ("fixed", "if back != value and ", "if False and ", FIXED),
    "the low word has a sign": (
        "fixed", "low = np.int64(_in_order(from_[2 * i + 1], swapped))",
        "low = np.int64(np.int32(_in_order(from_[2 * i + 1], swapped)))", FIXED,
    ),
    "a block begins with the range": (
        "fixed", "n = min(count, (block + 1) * BLOCK - element) - i\n        exponent = w",
        "n = min(count, i + BLOCK) - i\n        exponent = w", FIXED,
    ),
    "infinities have exponents": (
        "fixed", "largest = max(largest, magnitude if finite else np.int32(0))", "largest = max(largest, magnitude)",
        FIXED,
    ),
    "subnormals have no exponent": ("fixed", "    if exponent == -1022:\n", "    if False:\n", FIXED),
    "a block of zeros is of ones": ("fixed", "return 0 if exponent == ZERO_BLOCK else", "return", FIXED),
    "NaN is -Inf": ("fixed", "if kind < 3 else np.uint64(nan)", "if kind < 4 else np.uint64(nan)", FIXED),
    "every cell has the first one's exponents": (
        "landing", "b.element + at * elements, b.wire", "b.element, b.wire", BLOCKS,
    ),
    "sums land as they are": (
        "landing", "if cell.sink and length and cell.coding:", "if False:", BLOCKS,
    ),
    "streamed words are not swapped": ("streams", "    if size == 4:\n", "    if size == 5:\n", LANES),
    "a line too many is streamed": ("streams", "lines = (n * size - head)", "lines = (n * size + 64 - head)", LANES),
    "what is before the first line is left": (
        "streams", "    swap_copy(to, from_, head // size, size)\n", "", LANES,
    ),
}  # fmt: skip


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", MUTANTS if ALL else [])
def test_fault_is_seen(name: str, tmp_path: Path) -> None:
    check_fault(tmp_path, *MUTANTS[name])
