"""Where the benches of this folder build, and what they compare by."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # fp_unit, fp_values


@pytest.fixture
def same_floats():
    """Compares arrays of words as floats of a format: equal bits, or a NaN on both sides (its payload is open)."""

    def check(got: np.ndarray, want: np.ndarray, *operands: np.ndarray, infinity: int = 0x7F800000) -> None:
        magnitude = np.uint32((1 << infinity.bit_length()) - 1)
        nan_got, nan_want = (got & magnitude) > infinity, (want & magnitude) > infinity
        wrong = np.flatnonzero(np.where(nan_want, ~nan_got, got != want))
        shown = [
            f"({', '.join(f'{int(o[i]):#x}' for o in operands)}): {int(got[i]):#x}, expected {int(want[i]):#x}"
            for i in wrong[:5]
        ]
        assert not wrong.size, f"{wrong.size} of {want.size} wrong: {'; '.join(shown)}"

    return check
