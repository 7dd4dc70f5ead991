"""epic_fp32_add against NumPy, bit for bit; one pair a cycle, latency exactly 6."""

from __future__ import annotations

import fp_values as values
import numpy as np
import pytest
from fp_unit import Unit

EACH = 1 << 19


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp32_add", ["a", "b"], ["sum"], 6, tmp_path_factory.mktemp("epic_fp32_add"))


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (a.view(np.float32) + b.view(np.float32)).view(np.uint32)


@pytest.mark.parametrize("seed", [1, 2])
def test_equals_numpy(add: Unit, same_floats, seed: int) -> None:
    a, b = values.pairs(seed, EACH)
    (got,) = add(a, b)
    want = reference(a, b)
    same_floats(got, want, a, b)
    kinds = {
        "subnormal": ((want & 0x7F800000) == 0) & ((want & 0x7FFFFF) != 0),
        "zero": (want & 0x7FFFFFFF) == 0,
        "-0": want == 0x80000000,
        "infinity": (want & 0x7FFFFFFF) == 0x7F800000,
        "NaN": (want & 0x7FFFFFFF) > 0x7F800000,
    }
    counts = {name: int(mask.sum()) for name, mask in kinds.items()}
    assert all(counts.values()), counts  # no kind of result was left out
    print(f"epic_fp32_add: {a.size} sums equal NumPy's; among them {counts}")


def test_commutes(add: Unit) -> None:
    a, b = values.pairs(3, 1 << 16)
    assert np.array_equal(add(a, b)[0], add(b, a)[0])
