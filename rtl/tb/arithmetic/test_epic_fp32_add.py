"""epic_fp32_add against NumPy, bit for bit; one pair a cycle, latency exactly 6."""

from __future__ import annotations

import fp_checks
import fp_values as values
import numpy as np
import pytest
from fp_unit import Unit

EACH = 1 << 18


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp32_add", ["a", "b"], ["sum"], 6, tmp_path_factory.mktemp("epic_fp32_add"))


@pytest.mark.parametrize("seed", [1, 2])
def test_equals_numpy(add: Unit, seed: int) -> None:
    count = fp_checks.fp32_add(add, EACH, seed)
    assert count >= 1_000_000
    print(f"epic_fp32_add: {count} sums equal NumPy's")


def test_commutes(add: Unit) -> None:
    a, b = values.pairs(3, 1 << 16)
    assert np.array_equal(add(a, b)[0], add(b, a)[0])
