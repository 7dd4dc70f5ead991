"""INT32 emulation: exact maps against scalar oracles, fixed point against exact sums and its stated bound."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_models.reference import fixedpoint, numerics
from epic_models.reference.fixedpoint import BLOCK, FixedPoint
from epic_models.reference.numerics import Array
from epic_spec.tables import Datatype, Operator

FLOATS = sorted(numerics.FLOATS)
EXTREMES = (Operator.MAX, Operator.MIN)
LARGEST = {
    Datatype.FP16: 65504.0,
    Datatype.BF16: 2.0**127 * (2 - 2**-7),
    Datatype.FP32: 2.0**127 * (2 - 2**-23),
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def array(values: list[float], datatype: Datatype) -> Array:
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(numerics.array_dtype(datatype))


def fixed_sum(contributions: list[Array], fixed: FixedPoint, order: list[int] | None = None) -> Array:
    """Both phases, added with INT32 arithmetic that must not need to wrap in the first word."""
    size = contributions[0].size
    phase1 = np.maximum.reduce([fixed.exponents(c) for c in contributions])
    exponents = np.repeat(phase1[:, 0], BLOCK)[:size]
    words = [fixed.quantize(c, exponents) for c in contributions]
    high = np.add.reduce([w[:, 0].astype(np.int64) for w in words])
    assert np.all(np.abs(high) <= 2**31 - 1)
    total = np.zeros_like(words[0])
    for i in order or range(len(words)):
        total += words[i]
    counts = np.zeros(size, np.int32)
    for c in contributions:
        counts += fixed.specials(c)
    result = fixed.dequantize(total, exponents)
    fixedpoint.apply_specials(result, fixedpoint.special_class(counts))
    special = np.repeat(phase1[:, 1], BLOCK)[:size] > 0
    assert np.all(special | (counts == 0)), "a block with an infinity or NaN was not announced"
    return result


def block_max(contributions: list[Array], at: int) -> Fraction:
    start = at // BLOCK * BLOCK
    values = [float(v) for c in contributions for v in c[start : start + BLOCK]]
    return Fraction(max((abs(v) for v in values if math.isfinite(v)), default=0.0))


def reference_sum(values: list[float]) -> Fraction | float:
    """Exact, or what IEEE 754 gives when a value is not finite."""
    if all(math.isfinite(v) for v in values):
        return sum((Fraction(v) for v in values), Fraction(0))
    return sum(v for v in values if not math.isfinite(v))


def threshold(datatype: Datatype) -> Fraction:
    """Magnitudes from here on round to infinity."""
    last = {Datatype.FP16: 2**4, Datatype.BF16: 2**119, Datatype.FP32: 2**103, Datatype.FP64: 2**970}[
        datatype
    ]
    top = {Datatype.FP16: 2**16, Datatype.BF16: 2**128, Datatype.FP32: 2**128, Datatype.FP64: 2**1024}[
        datatype
    ]
    return Fraction(top) - Fraction(last)


def check_against_bound(contributions: list[Array], fixed: FixedPoint) -> None:
    result = fixed_sum(contributions, fixed)
    for i, got in enumerate(result.astype(np.float64).tolist()):
        expected = reference_sum([float(c[i]) for c in contributions])
        if isinstance(expected, float):
            assert got == expected or (math.isnan(got) and math.isnan(expected))
            continue
        bound = fixed.error_bound(block_max(contributions, i), expected)
        if math.isinf(got):
            assert abs(expected) + bound >= threshold(fixed.datatype)
            assert (got > 0) == (expected > 0)
        else:
            assert abs(Fraction(got) - expected) <= bound


# --- fixed point


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("datatype", FLOATS)
def test_the_sum_of_any_floats_is_within_the_stated_bound(data: st.DataObject, datatype: Datatype) -> None:
    contributing = data.draw(st.integers(1, 5))
    ranks = data.draw(
        st.sampled_from([contributing, 5, 7, 127, 128, 1024, 65535]).filter(lambda n: n >= contributing)
    )
    size = data.draw(st.sampled_from([1, 3, BLOCK, BLOCK + 1]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    spread = data.draw(st.sampled_from([0, 3, 40, 2000]))
    special = data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    contributions = []
    for _ in range(contributing):
        with np.errstate(all="ignore"):
            values = np.ldexp(rng.uniform(-1, 1, size), rng.integers(-spread, spread + 1, size))
        if special and size > 1:
            values[rng.integers(size)] = rng.choice([np.inf, -np.inf, np.nan])
        contributions.append(array(values.tolist(), datatype))
    check_against_bound(contributions, FixedPoint(datatype, ranks))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("datatype", FLOATS)
def test_the_sum_of_arbitrary_bit_patterns_is_within_the_stated_bound(
    data: st.DataObject, datatype: Datatype
) -> None:
    dtype = numerics.array_dtype(datatype)
    patterns = st.binary(min_size=4 * dtype.itemsize, max_size=4 * dtype.itemsize)
    contributions = [np.frombuffer(data.draw(patterns), dtype) for _ in range(data.draw(st.integers(1, 3)))]
    check_against_bound(contributions, FixedPoint(datatype, len(contributions)))


@pytest.mark.parametrize("datatype", FLOATS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 127, 128, 1000])
def test_the_largest_values_of_every_rank_do_not_overflow(datatype: Datatype, ranks: int) -> None:
    largest = LARGEST.get(datatype, np.finfo(np.float64).max)
    fixed = FixedPoint(datatype, ranks)
    for sign in (1, -1):
        contribution = array([sign * largest, sign * largest / 2, 0.0], datatype)
        result = fixed_sum([contribution] * ranks, fixed)
        assert result.astype(np.float64)[0] == (sign * largest if ranks == 1 else sign * math.inf)
        assert result.astype(np.float64)[2] == 0


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 127, 128, 1023, 1024, 1025, 65535])
@pytest.mark.parametrize("datatype", FLOATS)
def test_words_and_bits_meet_the_conditions_of_the_proof(datatype: Datatype, ranks: int) -> None:
    fixed = FixedPoint(datatype, ranks)
    high = fixed.bits - fixed.low_bits
    assert ranks * 2**high <= 2**31 - 1 < ranks * 2 ** (high + 1)
    if fixed.words == 2:
        assert ranks * 2**fixed.low_bits <= 2**32
    assert (fixed.words == 2) == (datatype is Datatype.FP64 or (datatype is Datatype.FP32 and ranks >= 128))
    if datatype is not Datatype.FP64 or ranks <= 16:
        assert (
            fixed.bits
            >= {Datatype.FP16: 11, Datatype.BF16: 8, Datatype.FP32: 24, Datatype.FP64: 53}[datatype]
        )


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ranks=st.integers(2, 8))
@pytest.mark.parametrize("datatype", FLOATS)
def test_the_sum_does_not_depend_on_the_order_of_arrival(datatype: Datatype, seed: int, ranks: int) -> None:
    rng = np.random.default_rng(seed)
    contributions = [
        array((rng.standard_normal(9) * 10.0 ** rng.integers(-3, 4, 9)).tolist(), datatype)
        for _ in range(ranks)
    ]
    fixed = FixedPoint(datatype, ranks)
    results = {fixed_sum(contributions, fixed, rng.permutation(ranks).tolist()).tobytes() for _ in range(4)}
    assert len(results) == 1


@pytest.mark.parametrize("datatype", FLOATS)
def test_what_the_block_exponent_can_hold_is_added_exactly(datatype: Datatype) -> None:
    a, b = array([1.5, -2.0, 0.25, -0.0], datatype), array([0.25, 2.0, 0.5, -0.0], datatype)
    result = fixed_sum([a, b], FixedPoint(datatype, 2))
    assert result.astype(np.float64).tolist() == [1.75, 0.0, 0.75, 0.0]
    assert not np.signbit(result.astype(np.float64)).any()


@pytest.mark.parametrize("datatype", FLOATS)
def test_the_smallest_subnormals_are_added_exactly(datatype: Datatype) -> None:
    smallest = {
        Datatype.FP16: 2.0**-24,
        Datatype.BF16: 2.0**-133,
        Datatype.FP32: 2.0**-149,
        Datatype.FP64: 2.0**-1074,
    }
    tiny = smallest[datatype]
    result = fixed_sum([array([tiny, 3 * tiny], datatype)] * 3, FixedPoint(datatype, 3))
    assert result.astype(np.float64).tolist() == [3 * tiny, 9 * tiny]


@pytest.mark.parametrize("datatype", FLOATS)
def test_infinities_and_nans_are_those_of_ieee_754_and_leave_their_neighbours_alone(
    datatype: Datatype,
) -> None:
    inf, nan = math.inf, math.nan
    a = array([inf, -inf, inf, nan, 1.0, inf], datatype)
    b = array([1.0, -inf, -inf, 1.0, 0.5, nan], datatype)
    result = fixed_sum([a, b], FixedPoint(datatype, 2)).astype(np.float64).tolist()
    assert result[:2] == [inf, -inf]
    assert math.isnan(result[2])
    assert math.isnan(result[3])
    assert result[4] == 1.5
    assert math.isnan(result[5])


def test_counters_of_specials_hold_the_largest_group() -> None:
    fixed = FixedPoint(Datatype.FP32, 65535)
    word = fixed.specials(np.array([np.inf, -np.inf, np.nan, 1], np.float32))
    added = (word.view(np.uint32).astype(np.uint64) * 65535).astype(np.uint32).view(np.int32)
    assert fixedpoint.special_class(added).tolist() == [1, 2, 3, 0]


def test_bf16_results_are_rounded_once() -> None:
    # By way of FP32 the sum would first become a tie and then go to the even neighbour below.
    tie, above = 1 + 2**-8, 1 + 2**-8 + 2**-28
    fixed = FixedPoint(Datatype.BF16, 1)
    words = np.array([[round(tie * 2**28)], [round(above * 2**28)]], np.int32)
    exponents = np.full(2, fixed.bits - 28, np.int32)
    assert fixed.dequantize(words, exponents).astype(np.float64).tolist() == [1.0, 1 + 2**-7]


@pytest.mark.parametrize("datatype", [Datatype.FP32, Datatype.FP64])
def test_mutant_that_quantizes_two_bits_coarser_exceeds_the_bound(datatype: Datatype) -> None:
    fixed, mutant = FixedPoint(datatype, 3), FixedPoint(datatype, 3)
    mutant.bits -= 2
    contributions = [array([0.5, 1.875 * 2.0**-fixed.bits], datatype)] * 3
    exact = sum((Fraction(float(c[1])) for c in contributions), Fraction(0))
    bound = fixed.error_bound(0.5, exact)
    assert abs(Fraction(float(fixed_sum(contributions, fixed)[1])) - exact) <= bound
    assert abs(Fraction(float(fixed_sum(contributions, mutant)[1])) - exact) > bound


# --- order-preserving keys


@pytest.mark.parametrize("operator", EXTREMES)
@pytest.mark.parametrize("datatype", sorted(numerics.HALVES))
def test_every_16_bit_float_keeps_its_place_and_its_bits(datatype: Datatype, operator: Operator) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(numerics.array_dtype(datatype))
    keys = fixedpoint.to_keys(every, datatype, operator)
    values = numerics.load(every.view(np.uint16).tobytes(), datatype, "little")
    back = fixedpoint.from_keys(keys, datatype).view(np.uint16)
    assert back.tobytes() == numerics.store(values, datatype, "little")
    finite = ~np.isnan(values)
    order = np.argsort(keys[finite], kind="stable")
    assert np.all(np.diff(values[finite][order]) >= 0)
    assert np.unique(keys[finite]).size == finite.sum()
    nan_key = keys[~finite]
    assert (
        np.all(nan_key > keys[finite].max())
        if operator is Operator.MAX
        else np.all(nan_key < keys[finite].min())
    )


@settings(deadline=None)
@given(data=st.binary(min_size=32, max_size=32))
@pytest.mark.parametrize("operator", EXTREMES)
@pytest.mark.parametrize("datatype", [Datatype.FP16, Datatype.BF16, Datatype.FP32])
def test_extremes_over_int32_equal_extremes_of_floats_bit_for_bit(
    datatype: Datatype, operator: Operator, data: bytes
) -> None:
    values = np.frombuffer(data, numerics.array_dtype(datatype))
    a, b = values[: values.size // 2], values[values.size // 2 :]
    keys = fixedpoint.to_keys(a, datatype, operator)
    numerics.reduce_into(keys, fixedpoint.to_keys(b, datatype, operator), operator)
    acc = numerics.load(a.tobytes(), datatype, "little")
    numerics.reduce_into(acc, numerics.load(b.tobytes(), datatype, "little"), operator)
    assert fixedpoint.from_keys(keys, datatype).tobytes() == numerics.store(acc, datatype, "little")


@pytest.mark.parametrize("operator", EXTREMES)
def test_minus_zero_is_below_plus_zero(operator: Operator) -> None:
    keys = fixedpoint.to_keys(np.array([-0.0, 0.0], np.float32), Datatype.FP32, operator)
    assert keys[0] < keys[1]


@settings(deadline=None)
@given(values=st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1, max_size=8))
@pytest.mark.parametrize("operator", [Operator.SUM, *EXTREMES])
@pytest.mark.parametrize("datatype", [Datatype.INT8, Datatype.INT16])
def test_small_integers_combine_in_int32_as_in_their_own_type(
    datatype: Datatype, operator: Operator, values: list[tuple[int, int]]
) -> None:
    scale = 1 if datatype is Datatype.INT8 else 256
    a, b = (np.array([v[i] * scale for v in values], numerics.array_dtype(datatype)) for i in (0, 1))
    keys = fixedpoint.to_keys(a, datatype, operator)
    numerics.reduce_into(keys, fixedpoint.to_keys(b, datatype, operator), operator)
    expected = a.copy()
    numerics.reduce_into(expected, b, operator)
    assert fixedpoint.from_keys(keys, datatype).tolist() == expected.tolist()


# --- limbs


@pytest.mark.parametrize("ranks", [1, 2, 3, 1024, 1025, 65535])
@settings(deadline=None)
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6))
def test_int64_limbs_add_up_modulo_2_64_for_as_many_ranks_as_promised(ranks: int, values: list[int]) -> None:
    words = fixedpoint.split_limbs(np.array(values, np.int64), ranks)
    assert ranks * (2 ** fixedpoint.limbs(ranks)[1] - 1) < 2**32
    added = (words.view(np.uint32).astype(np.uint64) * np.uint64(ranks)).astype(np.uint32).view(np.int32)
    expected = [(v * ranks + 2**63) % 2**64 - 2**63 for v in values]
    assert fixedpoint.join_limbs(added, ranks).tolist() == expected


def test_one_rank_more_than_a_limb_allows_is_wrong() -> None:
    """The mutant: 22-bit limbs for 1026 ranks."""
    words = fixedpoint.split_limbs(np.array([-1], np.int64), 1024)
    added = (words.view(np.uint32).astype(np.uint64) * np.uint64(1026)).astype(np.uint32).view(np.int32)
    assert fixedpoint.join_limbs(added, 1024).tolist() != [-1026]
