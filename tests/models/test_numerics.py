"""Payload arithmetic against scalar oracles: Python integers, `struct`, and exact fractions."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_models.reference import numerics
from epic_spec.tables import Datatype, Operator

INTEGERS = {Datatype.INT8: "b", Datatype.INT16: "h", Datatype.INT32: "i", Datatype.INT64: "q"}
# format letter, exponent bits, fraction bits
FLOATS = {
    Datatype.FP16: (5, 10),
    Datatype.BF16: (8, 7),
    Datatype.FP32: (8, 23),
    Datatype.FP64: (11, 52),
}
REDUCING = (Operator.SUM, Operator.MAX, Operator.MIN)
ORDERS = ("big", "little")


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- scalar oracle of binary floating point, by bits and exact fractions


def bits_to_value(bits: int, form: tuple[int, int]) -> Fraction | float:
    """A Fraction, or a float for NaN, infinities and -0."""
    exponent_bits, fraction_bits = form
    sign = bits >> (exponent_bits + fraction_bits)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else (-math.inf if sign else math.inf)
    if exponent == 0:
        magnitude = Fraction(fraction) * Fraction(2) ** (1 - bias - fraction_bits)
    else:
        magnitude = Fraction(fraction | 1 << fraction_bits) * Fraction(2) ** (exponent - bias - fraction_bits)
    if sign and not magnitude:
        return -0.0
    return -magnitude if sign else magnitude


def value_to_bits(value: Fraction | float, form: tuple[int, int]) -> int:
    """Rounded to nearest, ties to even; NaN canonical."""
    exponent_bits, fraction_bits = form
    bias = (1 << (exponent_bits - 1)) - 1
    top = 1 << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if isinstance(value, float):
        if math.isnan(value):
            return infinity | 1 << (fraction_bits - 1)
        sign = top if math.copysign(1, value) < 0 else 0
        if math.isinf(value):
            return sign | infinity
        assert value == 0
        return sign
    sign, magnitude = (top, -value) if value < 0 else (0, value)
    if magnitude == 0:
        return 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    exponent = max(exponent, 1 - bias)
    scaled = round(magnitude / Fraction(2) ** (exponent - fraction_bits))  # Python rounds ties to even
    # A normal number has its hidden bit at fraction_bits, so it adds one to the exponent field by itself.
    bits = ((exponent + bias - 1) << fraction_bits) + scaled
    return sign | min(bits, infinity)


def oracle_sum(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    special = [v for v in (a, b) if isinstance(v, float) and (math.isnan(v) or math.isinf(v))]
    if special:
        return sum(special)
    if isinstance(a, float) and isinstance(b, float):
        return -0.0  # both are -0
    return Fraction(a) + Fraction(b)


def oracle_extreme(a: Fraction | float, b: Fraction | float, operator: Operator) -> Fraction | float:
    if any(isinstance(v, float) and math.isnan(v) for v in (a, b)):
        return math.nan
    if a == b == 0:
        negative = [isinstance(v, float) for v in (a, b)]  # only -0 is a float here
        wins = all(negative) if operator is Operator.MAX else any(negative)
        return -0.0 if wins else Fraction(0)
    return max(a, b) if operator is Operator.MAX else min(a, b)


def oracle(a: int, b: int, operator: Operator, form: tuple[int, int], acc: tuple[int, int]) -> int:
    """One reduction of two elements in the accumulator's format, rounded to the element's."""
    x, y = bits_to_value(a, form), bits_to_value(b, form)
    if operator is Operator.SUM:
        return value_to_bits(bits_to_value(value_to_bits(oracle_sum(x, y), acc), acc), form)
    return value_to_bits(oracle_extreme(x, y, operator), form)


def patterns(form: tuple[int, int]) -> st.SearchStrategy[int]:
    """Bit patterns, the special ones often: zeros, subnormals, the edges of the range, infinities, NaNs."""
    exponent_bits, fraction_bits = form
    width = exponent_bits + fraction_bits + 1
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    edges = [0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, infinity - 1, infinity, infinity + 1]
    edges += [infinity | 1 << (fraction_bits - 1), infinity >> 1]
    signed = edges + [e | 1 << (width - 1) for e in edges]
    return st.one_of(st.sampled_from(signed), st.integers(0, (1 << width) - 1))


def pack_bits(bits: list[int], size: int, order: str) -> bytes:
    return b"".join(b.to_bytes(size, order) for b in bits)  # type: ignore[arg-type]


def combine(a: bytes, b: bytes, datatype: Datatype, operator: Operator, order: str) -> bytes:
    acc = numerics.load(a, datatype, order)
    numerics.reduce_into(acc, numerics.load(b, datatype, order), operator)
    return numerics.store(acc, datatype, order)


# --- integers


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("operator", REDUCING)
@pytest.mark.parametrize("datatype", INTEGERS)
@settings(deadline=None)
@given(data=st.data())
def test_integers_combine_like_python_integers_that_wrap(
    data: st.DataObject, datatype: Datatype, operator: Operator, order: str
) -> None:
    letter = INTEGERS[datatype]
    bits = 8 * struct.calcsize(letter)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    number = st.one_of(st.sampled_from([low, low + 1, -1, 0, 1, high - 1, high]), st.integers(low, high))
    pairs = data.draw(st.lists(st.tuples(number, number), max_size=9))
    form = f"{'>' if order == 'big' else '<'}{len(pairs)}{letter}"
    folds: dict[Operator, Callable[[int, int], int]] = {
        Operator.SUM: int.__add__,
        Operator.MAX: max,
        Operator.MIN: min,
    }
    fold = folds[operator]
    expected = [(fold(a, b) - low) % (1 << bits) + low for a, b in pairs]
    a, b = struct.pack(form, *(p[0] for p in pairs)), struct.pack(form, *(p[1] for p in pairs))
    assert combine(a, b, datatype, operator, order) == struct.pack(form, *expected)


# --- floating point


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("operator", REDUCING)
@pytest.mark.parametrize("datatype", FLOATS)
@settings(deadline=None)
@given(data=st.data())
def test_floats_combine_bit_for_bit_like_the_exact_oracle(
    data: st.DataObject, datatype: Datatype, operator: Operator, order: str
) -> None:
    form = FLOATS[datatype]
    size = numerics.element_bytes(datatype)
    acc = FLOATS[Datatype.FP32] if datatype in numerics.HALVES else form
    pairs = data.draw(st.lists(st.tuples(patterns(form), patterns(form)), min_size=1, max_size=9))
    a, b = (pack_bits([p[i] for p in pairs], size, order) for i in (0, 1))
    expected = pack_bits([oracle(x, y, operator, form, acc) for x, y in pairs], size, order)
    assert combine(a, b, datatype, operator, order) == expected


@pytest.mark.parametrize("datatype", sorted(numerics.HALVES))
def test_every_16_bit_float_survives_load_and_store(datatype: Datatype) -> None:
    every = np.arange(1 << 16, dtype=">u2")
    stored = np.frombuffer(
        numerics.store(numerics.load(every.tobytes(), datatype, "big"), datatype, "big"), ">u2"
    )
    form = FLOATS[datatype]
    expected = [value_to_bits(bits_to_value(int(b), form), form) for b in every]
    assert stored.tolist() == expected


@pytest.mark.parametrize("datatype", sorted(numerics.HALVES))
@settings(deadline=None)
@given(bits=st.lists(patterns(FLOATS[Datatype.FP32]), min_size=1, max_size=16))
def test_store_rounds_fp32_to_nearest_even(bits: list[int], datatype: Datatype) -> None:
    acc = np.array(bits, np.uint32).view(np.float32)
    expected = [value_to_bits(bits_to_value(b, FLOATS[Datatype.FP32]), FLOATS[datatype]) for b in bits]
    assert numerics.store(acc, datatype, "big") == pack_bits(expected, 2, "big")


@pytest.mark.parametrize("datatype", sorted(numerics.HALVES))
def test_ties_go_to_the_even_neighbour(datatype: Datatype) -> None:
    step = 2.0 ** -FLOATS[datatype][1]
    acc = np.array([1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2**-23], np.float32)
    stored = numerics.load(numerics.store(acc, datatype, "big"), datatype, "big")
    assert stored.tolist() == [1, 1 + 2 * step, 1 + step]


@pytest.mark.parametrize("datatype", sorted(numerics.HALVES))
@pytest.mark.parametrize("order", ORDERS)
def test_a_wide_partial_keeps_what_rounding_would_lose(datatype: Datatype, order: str) -> None:
    acc = np.array([1 + 2**-20, -(2**-140), np.inf], np.float32)
    payload = numerics.store(acc, datatype, order, wide=True)
    assert payload == struct.pack(f"{'>' if order == 'big' else '<'}3f", *acc.tolist())
    assert numerics.load(payload, datatype, order, wide=True).tolist() == acc.tolist()


@pytest.mark.parametrize("datatype", [Datatype.INT32, Datatype.FP64])
def test_datatypes_without_a_wide_form_are_the_same_wide_or_not(datatype: Datatype) -> None:
    payload = bytes(range(1, 17))
    acc = numerics.load(payload, datatype, "big", wide=True)
    assert numerics.store(acc, datatype, "big", wide=True) == payload


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("datatype", FLOATS)
def test_the_nan_of_inf_minus_inf_is_stored_as_the_canonical_one(datatype: Datatype, wide: bool) -> None:
    acc = np.array([np.inf, 1], np.float64 if datatype is Datatype.FP64 else np.float32)
    numerics.reduce_into(acc, np.array([-np.inf, 1], acc.dtype), Operator.SUM)
    payload = numerics.store(acc, datatype, "big", wide=wide)
    form = FLOATS[Datatype.FP32] if wide and datatype in numerics.HALVES else FLOATS[datatype]
    assert payload == pack_bits(
        [value_to_bits(math.nan, form), value_to_bits(Fraction(2), form)], len(payload) // 2, "big"
    )


def test_store_leaves_the_accumulator_as_it_is() -> None:
    acc = np.array([np.nan, 1 + 2**-20], np.float32)
    before = acc.tobytes()
    numerics.store(acc, Datatype.BF16, "big")
    assert acc.tobytes() == before


# --- shape of the interface


@pytest.mark.parametrize("datatype", list(Datatype))
def test_load_gives_a_writable_copy_also_of_nothing(datatype: Datatype) -> None:
    payload = bytearray(16)
    acc = numerics.load(payload, datatype, "big")
    acc[:] = 1
    assert bytes(payload) == bytes(16)
    assert acc.dtype.isnative
    assert numerics.store(numerics.load(b"", datatype, "big"), datatype, "big") == b""


@pytest.mark.parametrize("datatype", list(Datatype))
def test_whole_elements_counts_bytes_as_they_travel(datatype: Datatype) -> None:
    size = {
        Datatype.INT8: 1,
        Datatype.INT16: 2,
        Datatype.FP16: 2,
        Datatype.BF16: 2,
        Datatype.INT64: 8,
        Datatype.FP64: 8,
    }
    expected = size.get(datatype, 4)
    assert [n for n in range(17) if numerics.whole_elements(n, datatype)] == list(range(0, 17, expected))
    if datatype in numerics.HALVES:
        assert [n for n in range(17) if numerics.whole_elements(n, datatype, wide=True)] == list(
            range(0, 17, 4)
        )


def test_a_payload_that_ends_within_an_element_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        numerics.load(bytes(6), Datatype.INT32, "big")


def test_accumulators_of_other_length_or_type_are_refused_rather_than_broadcast() -> None:
    with pytest.raises(ValueError, match="differ"):
        numerics.reduce_into(np.zeros(4, np.int32), np.zeros(1, np.int32), Operator.SUM)
    with pytest.raises(ValueError, match="differ"):
        numerics.reduce_into(np.zeros(4, np.int32), np.zeros(4, np.float32), Operator.SUM)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_operator_none_combines_nothing(dtype: type) -> None:
    with pytest.raises(ValueError, match="NONE"):
        numerics.reduce_into(np.zeros(1, dtype), np.zeros(1, dtype), Operator.NONE)


@settings(deadline=None)
@given(payload=st.binary(max_size=64))
def test_broadcast_bytes_come_through_zeros_unchanged(payload: bytes) -> None:
    acc = bytearray(len(payload))
    numerics.or_into(acc, payload)
    numerics.or_into(acc, bytes(len(payload)))
    assert bytes(acc) == payload
    array = np.zeros(len(payload), np.uint8)
    numerics.or_into(array, payload)
    assert array.tobytes() == payload


def test_broadcast_payloads_of_other_length_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        numerics.or_into(bytearray(4), bytes(1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("datatype", list(Datatype))
@settings(deadline=None)
@given(data=st.binary(max_size=64))
def test_users_arrays_travel_bit_for_bit(data: bytes, datatype: Datatype, order: str) -> None:
    size = numerics.element_bytes(datatype)
    values = np.frombuffer(data[: len(data) // size * size], numerics.array_dtype(datatype))
    payload = numerics.to_wire(values, datatype, order)
    unsigned = np.frombuffer(values.tobytes(), f"u{size}").tolist()
    assert payload == pack_bits(unsigned, size, order)
    out = np.zeros_like(values)
    numerics.from_wire(payload, datatype, order, out)
    assert out.tobytes() == values.tobytes()
    assert numerics.datatype_of(values.dtype) is datatype


def test_an_array_of_another_size_than_the_payload_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 4"):
        numerics.from_wire(bytes(8), Datatype.INT32, "big", np.zeros(1, np.int32))


# --- mutants: what the tests above would catch


def test_mutant_that_truncates_bf16_fails_the_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "_round_bf16", lambda acc: acc.view(np.uint32) >> 16)
    with pytest.raises(AssertionError):
        test_ties_go_to_the_even_neighbour(Datatype.BF16)


def test_mutant_that_leaves_zeros_to_numpy_fails_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(acc: numerics.Array, other: numerics.Array, operator: Operator) -> None:
        np.maximum(acc, other, out=acc)

    zeros = struct.pack(">2f", 0.0, -0.0), struct.pack(">2f", -0.0, 0.0)
    assert combine(*zeros, Datatype.FP32, Operator.MAX, "big") == struct.pack(">2f", 0.0, 0.0)
    monkeypatch.setattr(numerics, "_reduce_float", plain)
    assert combine(*zeros, Datatype.FP32, Operator.MAX, "big") != struct.pack(">2f", 0.0, 0.0)
