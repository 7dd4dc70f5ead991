"""epic_lane_pair against NumPy, bit for bit: each operation in both byte orders, 16-bit floats into a slot that is wide
and into one that is not yet."""

from __future__ import annotations

import fp_checks
import pytest
from fp_unit import Unit

EACH = 1 << 18


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    folder = tmp_path_factory.mktemp("epic_lane_pair")
    return Unit(
        "epic_lane_pair", fp_checks.LANE_INPUTS, ["result"], fp_checks.LANE_LATENCY, folder,
        parameters={"FP32": 1, "LATENCY": fp_checks.LANE_LATENCY},
    )  # fmt: skip


@pytest.mark.parametrize("operation", fp_checks.OPERATIONS)
def test_equals_numpy(lane: Unit, operation: str) -> None:
    count = fp_checks.lane(lane, EACH, operation)
    assert count >= 1_000_000  # 32-bit words: twice as many of 16-bit floats
    print(f"epic_lane_pair: {count} {operation} equal NumPy's")


def test_operations_may_alternate(lane: Unit) -> None:
    count = fp_checks.lane_mixed(lane, 1 << 14)
    print(f"epic_lane_pair: {count} operations that change from cycle to cycle equal NumPy's")
