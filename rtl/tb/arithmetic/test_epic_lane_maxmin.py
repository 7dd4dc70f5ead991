"""epic_lane_maxmin against NumPy: INT32, and IEEE 754-2019 maximum and minimum of FP32."""

from __future__ import annotations

import fp_values as values
import numpy as np
import pytest
from fp_unit import Unit

EACH = 1 << 18


@pytest.fixture(scope="module", params=[1, 0], ids=["fp32", "int32-only"])
def unit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Unit, int]:
    build = tmp_path_factory.mktemp("epic_lane_maxmin")
    ports = ["a", "b", "is_float", "is_min"]
    return Unit(
        "epic_lane_maxmin", ports, ["take_b", "nan"], 0, build, parameters={"FP32": request.param}
    ), request.param


def picked(unit: Unit, a: np.ndarray, b: np.ndarray, is_float: int, is_min: bool) -> np.ndarray:
    take_b, nan = unit(a, b, np.uint32(is_float), np.uint32(is_min))
    return np.where(nan, np.uint32(0x7FC00000), np.where(take_b, b, a)).astype(np.uint32)


def float_reference(a: np.ndarray, b: np.ndarray, is_min: bool) -> np.ndarray:
    """NumPy propagates NaN, but leaves open which of -0 and +0 it returns: 754-2019 has -0 below +0."""
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        picked = (np.minimum(x, y) if is_min else np.maximum(x, y)).view(np.uint32)
    zeros = (x == 0) & (y == 0)
    return np.where(zeros, a | b if is_min else a & b, picked).astype(np.uint32)


@pytest.mark.parametrize("is_min", [False, True], ids=["max", "min"])
def test_float(unit: tuple[Unit, int], same_floats, is_min: bool) -> None:
    compare, fp32 = unit
    a, b = values.pairs(4, EACH)
    got = picked(compare, a, b, 1, is_min)
    if fp32:
        same_floats(got, float_reference(a, b, is_min), a, b)
        print(f"epic_lane_maxmin: {a.size} FP32 {'minima' if is_min else 'maxima'} equal NumPy's")
    else:  # without the option the words are integers whatever is asked
        pick = np.minimum if is_min else np.maximum
        assert np.array_equal(got, pick(a.view(np.int32), b.view(np.int32)).view(np.uint32))


@pytest.mark.parametrize("is_min", [False, True], ids=["max", "min"])
def test_integer(unit: tuple[Unit, int], is_min: bool) -> None:
    compare, _ = unit
    a, b = values.pairs(5, EACH)
    got = picked(compare, a, b, 0, is_min)
    pick = np.minimum if is_min else np.maximum
    assert np.array_equal(got, pick(a.view(np.int32), b.view(np.int32)).view(np.uint32))
    print(f"epic_lane_maxmin: {a.size} INT32 {'minima' if is_min else 'maxima'} equal NumPy's")
