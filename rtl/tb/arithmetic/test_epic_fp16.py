"""epic_fp_widen over all 65,536 words of both formats, epic_fp_round against NumPy and ml_dtypes, bit for bit."""

from __future__ import annotations

import fp_values as values
import ml_dtypes
import numpy as np
import pytest
from fp_unit import Unit

EACH = 1 << 18
FORMATS = {"binary16": (np.float16, 0, 0x7C00), "bfloat16": (ml_dtypes.bfloat16, 1, 0x7F80)}


@pytest.fixture(scope="module")
def widen(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp_widen", ["narrow", "is_bf16"], ["wide"], 0, tmp_path_factory.mktemp("epic_fp_widen"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp_round", ["wide", "is_bf16"], ["narrow"], 2, tmp_path_factory.mktemp("epic_fp_round"))


def rounded(words: np.ndarray, dtype: type) -> np.ndarray:
    with np.errstate(all="ignore"):
        return words.view(np.float32).astype(dtype).view(np.uint16).astype(np.uint32)


@pytest.mark.parametrize("name", FORMATS)
def test_every_word_widens_exactly(widen: Unit, same_floats, name: str) -> None:
    dtype, is_bf16, _ = FORMATS[name]
    words = np.arange(1 << 16, dtype=np.uint32)
    want = words.astype(np.uint16).view(dtype).astype(np.float32).view(np.uint32)
    (got,) = widen(words, np.uint32(is_bf16))
    same_floats(got, want, words)
    print(f"epic_fp_widen: all {words.size} words of {name} widen to NumPy's")


def test_every_word_comes_back(widen: Unit, narrow: Unit, same_floats) -> None:
    words = np.arange(1 << 16, dtype=np.uint32)
    for _, is_bf16, infinity in FORMATS.values():
        (back,) = narrow(widen(words, np.uint32(is_bf16))[0], np.uint32(is_bf16))
        same_floats(back, words, words, infinity=infinity)


@pytest.mark.parametrize("name", FORMATS)
def test_rounds_to_nearest_even(narrow: Unit, same_floats, name: str) -> None:
    dtype, is_bf16, infinity = FORMATS[name]
    rng = np.random.default_rng(6)
    # Around every word of the format: itself, and what lies at, below and above the middle to the next.
    exact = (
        np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype).astype(np.float32).view(np.uint32)
    )
    near = [exact + np.uint32(step) for step in (0, 1, 0xFFFFFFFF)]
    # Half an ulp is 2^15 of bfloat16, 2^12 of a normal binary16, and more of a subnormal one.
    for half in (0x8000,) if is_bf16 else [1 << k for k in range(12, 23)]:
        near += [exact + np.uint32(half + step & 0xFFFFFFFF) for step in (-1, 0, 1)]
    low, high = (0, 256) if is_bf16 else (96, 148)
    ranged = (values.random_words(rng, EACH) & np.uint32(0x807FFFFF)) | (
        rng.integers(low, high, EACH).astype(np.uint32) << np.uint32(23)
    )
    words = np.concatenate([values.special(), *near, ranged, values.random_words(rng, EACH * 4)])
    (got,) = narrow(words, np.uint32(is_bf16))
    same_floats(got, rounded(words, dtype), words, infinity=infinity)
    assert words.size >= 1_000_000
    print(f"epic_fp_round: {words.size} roundings to {name} equal NumPy's")


def test_formats_may_alternate(narrow: Unit, same_floats) -> None:
    words = values.random_words(np.random.default_rng(7), 1 << 16)
    words = (words & np.uint32(0x8FFFFFFF)) | np.uint32(0x30000000)  # exponents that both formats have
    is_bf16 = (np.arange(words.size) & 1).astype(np.uint32)
    (got,) = narrow(words, is_bf16)
    assert np.array_equal(
        got, np.where(is_bf16, rounded(words, ml_dtypes.bfloat16), rounded(words, np.float16))
    )
