"""Each unit with one thing wrong must not pass the checks that the tests run: the operands are chosen well enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import fp_checks
import pytest
from fp_unit import SRC, Unit

EACH = 1 << 14


class Bench(NamedTuple):
    """How a unit is built, and what it must pass."""

    top: str
    inputs: list[str]
    outputs: list[str]
    latency: int
    checks: tuple[Callable[[Unit], object], ...]
    parameters: Mapping[str, int] = MappingProxyType({})


BENCHES = {
    "add": Bench("epic_fp32_add", ["a", "b"], ["sum"], 6, (lambda u: fp_checks.fp32_add(u, EACH),)),
    "maxmin": Bench(
        "epic_lane_maxmin", ["a", "b", "is_float", "is_min"], ["take_b", "nan"], 0,
        tuple(
            lambda u, k=kind, o=operator: fp_checks.maxmin(u, EACH, k, o)
            for kind in ("INT32", "FP32") for operator in ("MAX", "MIN")
        ),
    ),
    "widen": Bench(
        "epic_fp_widen", ["narrow", "is_bf16"], ["wide"], 0,
        tuple(lambda u, n=name: fp_checks.widen(u, n) for name in fp_checks.FORMATS),
    ),
    "round": Bench(
        "epic_fp_round", ["wide", "is_bf16"], ["narrow"], 2,
        tuple(lambda u, n=name: fp_checks.round_to(u, EACH, n) for name in fp_checks.FORMATS),
    ),
    "lane": Bench(
        "epic_lane_pair", fp_checks.LANE_INPUTS, ["result"], fp_checks.LANE_LATENCY,
        (lambda u: fp_checks.lane_mixed(u, EACH // 8),),
        {"FP32": 1, "LATENCY": fp_checks.LANE_LATENCY},
    ),
}  # fmt: skip

# bench, file, what is wrong, text, what stands in its place
MUTANTS = [
    ("add", "epic_fp32_add.v", "the sticky bit is lost", "aligned | {{(SIG + 2) {1'b0}}, lost}", "aligned"),
    ("add", "epic_fp32_add.v", "a far operand counts as a near one", "far ? {(SIG + 3) {1'b0}} :", ""),
    ("add", "epic_fp32_add.v", "ties are rounded up", "(normal_5_reg[4] || |normal_5_reg[2:0])", "1'b1"),
    ("add", "epic_fp32_add.v", "subnormal results are normalized", "total_3_reg | floor_3_reg", "total_3_reg"),
    ("add", "epic_fp32_add.v", "subnormal operands have exponent 0", "a[30:23] | {7'd0, ~|a[30:23]}", "a[30:23]"),
    ("add", "epic_fp32_add.v", "x - x is -0", "sign_3_reg && (same_sign_3_reg || |total_3_reg)", "sign_3_reg"),
    ("add", "epic_fp32_add.v", "-0 + -0 is +0", "sign_3_reg && (same_sign_3_reg || |total_3_reg)",
     "sign_3_reg && |total_3_reg"),
    ("add", "epic_fp32_add.v", "an overflow is not an infinity", "infinite_5_reg || &exponent_5_reg",
     "infinite_5_reg"),
    ("add", "epic_fp32_add.v", "inf - inf is inf", "(special_a && special_b && (a[31] ^ b[31]))", "1'b0"),
    ("add", "epic_fp32_add.v", "the second NaN is an infinity", "nan_1_reg <= nan_a || nan_b", "nan_1_reg <= nan_a"),
    ("add", "epic_fp32_add.v", "a NaN has a sign", "sum_reg <= 32'h7FC0_0000;",
     "sum_reg <= {sign_5_reg, 31'h7FC0_0000};"),
    ("maxmin", "epic_lane_maxmin.v", "a NaN does not win", "(&b[30:23] && |b[22:0])", "1'b0"),
    ("maxmin", "epic_lane_maxmin.v", "negative floats are in reverse", "floating && a[31] && b[31]", "1'b0"),
    ("maxmin", "epic_lane_maxmin.v", "integers are unsigned", "$signed(b) > $signed(a)", "b > a"),
    ("maxmin", "epic_lane_maxmin.v", "negative integers too", "floating && a[31] && b[31]", "a[31] && b[31]"),
    ("maxmin", "epic_lane_maxmin.v", "an integer may be NaN", "assign nan = floating &&", "assign nan ="),
    ("widen", "epic_fp_widen.v", "a subnormal is not normalized", "8'd112 - {4'd0, zeros}", "8'd112"),
    ("widen", "epic_fp_widen.v", "an infinity is 2^16", "{8'hFF, fraction, 13'd0}", "{8'd143, fraction, 13'd0}"),
    ("widen", "epic_fp_widen.v", "-0 is 2^-15", "(|fraction)", "(1'b1)"),
    ("round", "epic_fp_round.v", "ties are rounded up", "(sticky_1_reg || kept_1_reg[0])", "1'b1"),
    ("round", "epic_fp_round.v", "what is below 2^-25 is rounded up", "guard_1_reg <= 1'b0;", "guard_1_reg <= 1'b1;"),
    ("round", "epic_fp_round.v", "65520 is not an infinity", "exponent > 8'd142", "exponent > 8'd143"),
    ("round", "epic_fp_round.v", "a NaN of bfloat16 is binary16's", "16'h7FC0 :", "16'h7E00 :"),
    ("round", "epic_fp_round.v", "bits far below do not count", "sticky_1_reg <= |wide[14:0];",
     "sticky_1_reg <= |wide[14:1];"),
    ("lane", "epic_lane_pair.v", "a wide slot is widened again", "narrow = halves && !b_wide;",
     "narrow = halves;"),
    ("lane", "epic_lane_pair.v", "what is wide is turned on the way out", "little || halves, halves,",
     "little, halves,"),
    ("lane", "epic_lane_pair.v", "a wide slot is turned", "turns && narrow ?", "turns ?"),
    ("lane", "epic_lane_pair.v", "elements of 16 bits are turned as one of 32",
     "turns ? {a[23:16], a[31:24], a[7:0], a[15:8]}", "turns ? {a[7:0], a[15:8], a[23:16], a[31:24]}"),
    ("lane", "epic_lane_pair.v", "bfloat16 is read as binary16", "LANE_BF16_MAX: {bf16, first_op} = {1'b1,",
     "LANE_BF16_MAX: {bf16, first_op} = {1'b0,"),
    ("lane", "epic_lane_pair.v", "the second element is the first", "left_second_reg <= a_second;",
     "left_second_reg <= a_first;"),
    ("lane", "epic_lane_pair.v", "the second element is not added", "halves || op == LANE_B ? first_op",
     "op == LANE_B ? first_op"),
    ("lane", "epic_lane.v", "the sum is a cycle early for the pick", "is_sum_reg[ADD_LATENCY-1] ? sum",
     "is_sum_reg[ADD_LATENCY-2] ? sum"),
    ("lane", "epic_lane.v", "a minimum is a maximum", "is_min = op == LANE_INT32_MIN ||", "is_min ="),
    ("lane", "epic_lane.v", "a NaN is picked like a number", "nan_reg ? NAN :", ""),
]  # fmt: skip


def build(name: str, folder: Path, mutant: tuple[str, str] | None = None) -> Unit:
    bench = BENCHES[name]
    return Unit(
        bench.top, bench.inputs, bench.outputs, bench.latency, folder, mutant=mutant, parameters=bench.parameters
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "wrong", "old", "new"), MUTANTS, ids=[f"{m[1][:-2]}: {m[2]}" for m in MUTANTS]
)
def test_is_killed(tmp_path: Path, name: str, file: str, wrong: str, old: str, new: str) -> None:
    text = (SRC / file).read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}, expected once"
    unit = build(name, tmp_path, (file, text.replace(old, new)))
    with pytest.raises(AssertionError, match="wrong"):
        for check in BENCHES[name].checks:
            check(unit)


@pytest.mark.parametrize("name", BENCHES)
def test_the_original_is_not(tmp_path: Path, name: str) -> None:
    unit = build(name, tmp_path)
    for check in BENCHES[name].checks:
        check(unit)
