"""epic_lane_maxmin against NumPy: INT32, and IEEE 754-2019 maximum and minimum of FP32."""

from __future__ import annotations

import fp_checks
import pytest
from fp_unit import Unit

EACH = 1 << 18


@pytest.fixture(scope="module", params=[1, 0], ids=["fp32", "int32-only"])
def unit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Unit, bool]:
    folder = tmp_path_factory.mktemp("epic_lane_maxmin")
    ports = ["a", "b", "is_float", "is_min"]
    built = Unit("epic_lane_maxmin", ports, ["take_b", "nan"], 0, folder, parameters={"FP32": request.param})
    return built, bool(request.param)


@pytest.mark.parametrize("operator", ["MAX", "MIN"])
@pytest.mark.parametrize("kind", ["INT32", "FP32"])
def test_equals_numpy(unit: tuple[Unit, bool], kind: str, operator: str) -> None:
    compare, fp32 = unit
    count = fp_checks.maxmin(compare, EACH, kind, operator, fp32=fp32)
    assert count >= 1_000_000
    print(f"epic_lane_maxmin FP32 = {int(fp32)}: {count} {kind} {operator} equal NumPy's")
