"""Each floating-point unit with one thing wrong must not pass for NumPy: the operands are chosen well enough."""

from __future__ import annotations

from pathlib import Path

import fp_values as values
import numpy as np
import pytest
from fp_unit import SRC, Unit

EACH = 1 << 16

# module, what is wrong, text, what stands in its place
MUTANTS = [
    ("epic_fp32_add", "the sticky bit is lost", "aligned | {{(SIG + 2) {1'b0}}, lost}", "aligned"),
    ("epic_fp32_add", "a far operand counts as a near one", "far ? {(SIG + 3) {1'b0}} :", ""),
    ("epic_fp32_add", "ties are rounded up", "(normal_5_reg[4] || |normal_5_reg[2:0])", "1'b1"),
    ("epic_fp32_add", "subnormal results are normalized", "total_3_reg | floor_3_reg", "total_3_reg"),
    ("epic_fp32_add", "subnormal operands have exponent 0", "a[30:23] | {7'd0, ~|a[30:23]}", "a[30:23]"),
    ("epic_fp32_add", "x - x is -0 for a negative x", "sign_3_reg && (same_sign_3_reg || |total_3_reg)", "sign_3_reg"),
    ("epic_fp32_add", "an overflow is not an infinity", "infinite_5_reg || &exponent_5_reg", "infinite_5_reg"),
    ("epic_fp32_add", "infinity less infinity is infinity", "(special_a && special_b && (a[31] ^ b[31]))", "1'b0"),
    ("epic_lane_maxmin", "a NaN does not win", "(&b[30:23] && |b[22:0])", "1'b0"),
    ("epic_lane_maxmin", "negative floats are in reverse order", "{31{floating && a[31]}}", "31'd0"),
    ("epic_fp_widen", "a subnormal is not normalized", "8'd112 - {4'd0, zeros}", "8'd112"),
    ("epic_fp_round", "ties are rounded up", "(sticky_1_reg || kept_1_reg[0])", "1'b1"),
    ("epic_fp_round", "what is below 2^-25 is rounded up", "guard_1_reg <= 1'b0;", "guard_1_reg <= 1'b1;"),
    ("epic_fp_round", "65520 is not an infinity", "exponent > 8'd142", "exponent > 8'd143"),
]  # fmt: skip


def expected(module: str) -> tuple[list[str], list[str], int, list[np.ndarray], np.ndarray, int]:
    """(inputs, outputs, latency, operands, what the last output should be, infinity of its format)."""
    a, b = values.pairs(11, EACH)
    x, y = a.view(np.float32), b.view(np.float32)
    with np.errstate(all="ignore"):
        if module == "epic_fp32_add":
            return ["a", "b"], ["sum"], 6, [a, b], (x + y).view(np.uint32), 0x7F800000
        if module == "epic_lane_maxmin":
            want = np.where(np.isnan(x) | np.isnan(y), 2, x < y).astype(np.uint32)
            zeros = (x == 0) & (y == 0)
            want = np.where(zeros, (a > b), want).astype(np.uint32)
            return (
                ["a", "b", "is_float", "is_min"],
                ["take_b", "nan"],
                0,
                [a, b, *_flags(a, 1, 0)],
                want,
                0x7F800000,
            )
        if module == "epic_fp_widen":
            words = np.arange(1 << 16, dtype=np.uint32)
            wide = words.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
            return ["narrow", "is_bf16"], ["wide"], 0, [words, *_flags(words, 0)], wide, 0x7F800000
        words = np.concatenate([values.special(), a])
        narrow = words.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
        return ["wide", "is_bf16"], ["narrow"], 2, [words, *_flags(words, 0)], narrow, 0x7C00


def _flags(like: np.ndarray, *each: int) -> list[np.ndarray]:
    return [np.full(like.size, value, np.uint32) for value in each]


def differs(unit: Unit, module: str) -> bool:
    _, outputs, _, operands, want, infinity = expected(module)
    results = unit(*operands)
    got = np.where(results[1], 2, results[0]).astype(np.uint32) if len(outputs) == 2 else results[0]
    magnitude = np.uint32((1 << infinity.bit_length()) - 1)
    nan = (want & magnitude) > infinity
    return bool(np.any(np.where(nan, (got & magnitude) <= infinity, got != want)))


def build(module: str, text: str, folder: Path) -> Unit:
    inputs, outputs, latency, *_ = expected(module)
    source = folder / f"{module}.v"
    source.write_text(text)
    return Unit(module, inputs, outputs, latency, folder, sources=[source], strict=False)


@pytest.mark.parametrize(("module", "wrong", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[1]}" for m in MUTANTS])
def test_is_killed(tmp_path: Path, module: str, wrong: str, old: str, new: str) -> None:
    text = (SRC / f"{module}.v").read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {module}.v, expected once"
    assert differs(build(module, text.replace(old, new), tmp_path), module), f"survives: {wrong}"


@pytest.mark.parametrize("module", sorted({m[0] for m in MUTANTS}))
def test_the_original_is_not(tmp_path: Path, module: str) -> None:
    assert not differs(build(module, (SRC / f"{module}.v").read_text(), tmp_path), module)
