"""epic_fp_widen over all 65,536 words of both formats, epic_fp_round against NumPy and ml_dtypes, bit for bit."""

from __future__ import annotations

import fp_checks
import fp_values as values
import numpy as np
import pytest
from fp_unit import Unit

EACH = 1 << 19


@pytest.fixture(scope="module")
def widen(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp_widen", ["narrow", "is_bf16"], ["wide"], 0, tmp_path_factory.mktemp("epic_fp_widen"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return Unit("epic_fp_round", ["wide", "is_bf16"], ["narrow"], 2, tmp_path_factory.mktemp("epic_fp_round"))


@pytest.mark.parametrize("name", fp_checks.FORMATS)
def test_every_word_widens_exactly(widen: Unit, name: str) -> None:
    count = fp_checks.widen(widen, name)
    assert count == 1 << 16
    print(f"epic_fp_widen: all {count} words of {name} widen to NumPy's")


@pytest.mark.parametrize("name", fp_checks.FORMATS)
def test_every_word_comes_back(widen: Unit, narrow: Unit, name: str) -> None:
    """All but NaN, of which there is one when it leaves."""
    form = fp_checks.FORMATS[name]
    words = np.arange(1 << 16, dtype=np.uint32)
    is_bf16 = np.uint32(form.is_bf16)
    (back,) = narrow(widen(words, is_bf16)[0], is_bf16)
    fp_checks.same(back, np.where((words & 0x7FFF) > form.infinity, form.nan, words), words)


@pytest.mark.parametrize("name", fp_checks.FORMATS)
def test_rounds_to_nearest_even(narrow: Unit, name: str) -> None:
    count = fp_checks.round_to(narrow, EACH, name)
    assert count >= 1_000_000
    print(f"epic_fp_round: {count} roundings to {name} equal NumPy's")


def test_formats_may_alternate(narrow: Unit) -> None:
    words = values.random_words(np.random.default_rng(7), 1 << 16)
    words = (words & np.uint32(0x8FFFFFFF)) | np.uint32(0x30000000)  # exponents that both formats have
    is_bf16 = (np.arange(words.size) & 1).astype(np.uint32)
    fp16, bf16 = (fp_checks.rounded(words, form) for form in fp_checks.FORMATS.values())
    fp_checks.same(narrow(words, is_bf16)[0], np.where(is_bf16, bf16, fp16), words)
