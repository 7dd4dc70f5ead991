"""The check of results: right ones pass, and each way of being wrong is counted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epic_models.reference.fixedpoint import FixedPoint
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import FLOATS, array_dtype, load, reduce_into, store, to_wire
from epic_spec.errors import ConfigError
from epic_spec.tables import Datatype, Operator
from epic_testbed import cases, verify
from epic_testbed.cases import Case, Inputs

RANKS = 5


def inputs(primitive: str, dtype: str, op: str = "sum", count: int = 300, root: int | None = None) -> Inputs:
    """Inputs of one iteration."""
    size = array_dtype(Datatype[dtype.upper()]).itemsize
    return Inputs(Case(primitive, op, dtype, count * size, root), 0, 0, 7, RANKS)


def by_engine(given: Inputs, rounded_each_time: bool = False) -> np.ndarray:
    """The reduction as an engine computes it; `rounded_each_time` as a chain of engines does."""
    datatype = given.case.datatype
    acc = load(to_wire(given.of(0), datatype, "big"), datatype, "big")
    for rank in range(1, RANKS):
        reduce_into(acc, load(to_wire(given.of(rank), datatype, "big"), datatype, "big"), given.case.operator)
        if rounded_each_time:
            acc = load(store(acc, datatype, "big"), datatype, "big")
    out = np.empty(acc.size, array_dtype(datatype))
    wire = store(acc, datatype, "little")
    return np.frombuffer(wire, out.dtype)


@pytest.mark.parametrize("dtype", [d.name.lower() for d in Datatype])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_what_an_engine_computes_is_right(dtype: str, op: str) -> None:
    given = inputs("all_reduce", dtype, op)
    path = verify.path_of(
        given.case, GroupParams(1, 1, RANKS, datatypes=tuple(d.name for d in Datatype)), False
    )
    assert path == ("native" if op == "sum" and Datatype[dtype.upper()] in FLOATS else "exact")
    wanted = verify.expected(given, 0, path, levels=1)
    assert wanted is not None
    verdict = wanted.judge(by_engine(given))
    assert verdict.wrong == 0
    if path == "exact":
        assert verdict.max_abs_err == 0


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_a_chain_of_engines_needs_the_tolerance_of_its_levels(dtype: str) -> None:
    given = inputs("all_reduce", dtype, count=20_000)
    result = by_engine(given, rounded_each_time=True)
    enough = verify.expected(given, 0, "native", levels=RANKS - 1)
    assert enough is not None
    assert enough.judge(result).wrong == 0


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_the_tolerance_is_not_loose(dtype: str) -> None:
    """A hundred times the tolerance away is wrong, and so is a contribution that is counted twice."""
    for path in ("native", "fixed"):
        given = inputs("all_reduce", dtype)
        wanted = verify.expected(given, 0, path, levels=1)
        assert wanted is not None and wanted.tolerance is not None
        off = (wanted.values + 100 * wanted.tolerance).astype(wanted.values.dtype)
        assert wanted.judge(off).wrong == 300
        twice = (wanted.values + given.of(2).astype(np.float64)).astype(wanted.values.dtype)
        assert wanted.judge(twice).wrong > 280


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_what_the_fixed_point_computes_is_right(dtype: str) -> None:
    given = inputs("all_reduce", dtype, count=1000)
    fixed = FixedPoint(given.case.datatype, RANKS)
    every = [given.of(rank) for rank in range(RANKS)]
    blocks = np.maximum.reduce([fixed.exponents(values) for values in every])
    exponents = np.repeat(blocks[:, 0], 64)[:1000]
    words = np.zeros((1000, fixed.words), np.int32)
    for values in every:
        words += fixed.quantize(values, exponents)
    wanted = verify.expected(given, 0, "fixed", levels=1)
    assert wanted is not None
    verdict = wanted.judge(fixed.dequantize(words, exponents))
    assert verdict.wrong == 0
    # fp64 has 53 bits and the fixed point about 60: the error may round to nothing, elsewhere it does not.
    assert verdict.max_abs_err > 0 or dtype == "fp64"


@pytest.mark.parametrize("dtype", ["int8", "int64", "bf16", "fp32"])
def test_one_flipped_bit_is_one_wrong_element(dtype: str) -> None:
    given = inputs("broadcast", dtype, "-", root=3)
    wanted = verify.expected(given, 0, "exact", levels=1)
    assert wanted is not None
    got = given.of(3)
    assert wanted.judge(got).wrong == 0
    got.view(np.uint8)[17] ^= 1
    verdict = wanted.judge(got)
    assert verdict.wrong == 1
    assert verdict.max_abs_err > 0


def test_a_nan_is_wrong_and_its_error_can_be_printed_as_json() -> None:
    given = inputs("all_reduce", "fp32")
    wanted = verify.expected(given, 0, "native", levels=1)
    assert wanted is not None
    got = wanted.values.astype(np.float32)
    got[5] = np.nan
    verdict = wanted.judge(got)
    assert verdict.wrong == 1
    assert np.isfinite(verdict.max_abs_err)


def test_a_result_of_another_length_or_type_is_wrong() -> None:
    given = inputs("all_reduce", "int32")
    wanted = verify.expected(given, 0, "exact", levels=1)
    assert wanted is not None
    assert wanted.judge(wanted.values[:-1]).wrong == 300
    assert wanted.judge(wanted.values.astype(np.int64)).wrong == 300


def test_shards_of_reduce_scatter_and_all_gather_fit_together() -> None:
    bounds = cases.shard_bounds(302, RANKS)
    assert bounds == [0, 61, 122, 182, 242, 302]
    given = inputs("reduce_scatter", "int32", count=302)
    whole, _ = given.reduced()
    parts = [verify.expected(given, rank, "exact", 1) for rank in range(RANKS)]
    assert np.array_equal(np.concatenate([part.values for part in parts if part]), whole)
    gathered = verify.expected(inputs("all_gather", "int32", "-", count=302), 0, "exact", 1)
    assert gathered is not None and gathered.values.size == 302


def test_only_the_destination_of_a_reduce_receives() -> None:
    given = inputs("reduce", "int32", root=2)
    assert [verify.expected(given, rank, "exact", 1) is None for rank in range(3)] == [True, True, False]


def test_inputs_differ_between_ranks_iterations_and_cases_and_repeat() -> None:
    case = Case("all_reduce", "sum", "int32", 400)
    seen = [
        Inputs(case, index, iteration, seed, RANKS).of(rank).tobytes()
        for index, iteration, seed, rank in itertools.product(range(2), repeat=4)
    ]
    assert len(set(seen)) == 16
    assert Inputs(case, 1, 1, 1, RANKS).of(1).tobytes() == seen[-1]


def test_every_pair_has_each_pair_once() -> None:
    made = [Case("all_reduce", "sum", "int32", 4 * n) for n in range(6)]
    order = cases.every_pair(made)
    assert sorted(itertools.pairwise(order), key=repr) == sorted(itertools.product(made, repeat=2), key=repr)


@pytest.mark.parametrize(
    ("text", "sizes"), [("0", [0]), ("4K,1M", [4096, 1 << 20]), ("3k, 7", [3072, 7]), ("1KiB,1KB", [1024])]
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert cases.parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "K", "1.5K", "4K,", "1T", "0x10", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected bytes"):
        cases.parse_sizes(text)


def test_datatypes_by_either_name() -> None:
    assert cases.parse_datatypes("float32,fp32,bfloat16,int8") == ["fp32", "bf16", "int8"]
    assert len(cases.parse_datatypes("all")) == 8


def test_operators_are_those_of_the_protocol() -> None:
    assert [Operator[name.upper()].name for name in cases.OPERATORS] == ["SUM", "MAX", "MIN"]
