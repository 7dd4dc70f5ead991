"""Collectives over a perfect tree in memory: every primitive against NumPy, and disagreement always found."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_models.reference import collectives, numerics
from epic_models.reference.coding import Exponents
from epic_models.reference.collectives import Operation, describe_mismatch, plan
from epic_models.reference.fixedpoint import BLOCK, FixedPoint
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell, ConflictRecord
from epic_models.reference.numerics import Array
from epic_models.reference.operation import Run
from epic_spec.errors import ConfigError, MismatchError, ResourceError
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import NO_RANK, Datatype, Operator, Primitive

ALL = tuple(d.name for d in Datatype)
REDUCING = (Operator.SUM, Operator.MAX, Operator.MIN)
WORLDS = (1, 2, 3, 5, 8)
P = 64  # bytes of a cell: small, so that small arrays take several


def group(world_size: int, **changes: Any) -> GroupParams:
    values: dict[str, Any] = {"datatypes": ALL, "payload_bytes": P, "window": 4, "slots": 8, **changes}
    return GroupParams(group=1, mode=values.pop("mode", 3), world_size=world_size, **values)


# --- the perfect tree


class Tree:
    """Combines the cells of n operations as an engine must, one root and nothing lost.

    Ranks take turns at random (seeded), contribute within a window of 4, and get results one by one. A rank
    whose operation raises contributes a poisoned cell, as an agent should. `outcome` is what became of each.
    """

    WINDOW = 4

    def __init__(
        self, params: GroupParams, operations: Sequence[Operation], seed: int = 0, order: Any = None
    ) -> None:
        self.params = params
        self.operations = operations
        self.order = order
        self.random = random.Random(seed)
        self.sent: list[list[Cell]] = [[] for _ in operations]
        self.received = [0] * len(operations)
        self.errors: list[MismatchError | None] = [None] * len(operations)

    def run(self) -> None:
        """Until no rank can go on."""
        while True:
            ranks = list(range(len(self.operations)))
            self.random.shuffle(ranks)
            moved = [self._contribute(r) | self._receive(r) for r in ranks]
            if not any(moved):
                return

    def _contribute(self, rank: int) -> bool:
        moved = False
        for _ in range(self.random.randint(1, self.WINDOW)):
            if self.errors[rank] is not None or len(self.sent[rank]) - self.received[rank] >= self.WINDOW:
                break
            cell = self.operations[rank].pull()
            if cell is None:
                break
            assert cell.payload is None or 0 < len(cell.payload) <= self.params.cell_bytes
            assert bool(cell.imm & NULL_BIT) == (cell.payload is None)
            self.sent[rank].append(cell)
            moved = True
        return moved

    def _receive(self, rank: int) -> bool:
        s = self.received[rank]
        if self.errors[rank] is not None or any(len(cells) <= s for cells in self.sent):
            return False
        self.received[rank] += 1
        try:
            self.operations[rank].deliver(self._result(rank, [cells[s] for cells in self.sent]))
        except MismatchError as error:
            self.errors[rank] = error
            poison = self.operations[rank].poison()
            if poison is not None:
                self.sent[rank].append(poison)
        return True

    def _result(self, rank: int, cells: list[Cell]) -> bytes | None:
        held = cells[0].imm & AGREEMENT_MASK
        lengths = {len(c.payload) for c in cells if c.payload is not None}
        if any(c.imm & AGREEMENT_MASK != held or c.imm & ERR_BIT for c in cells) or len(lengths) > 1:
            raise MismatchError("poisoned")
        descriptor = Descriptor.unpack(held)
        if descriptor.primitive is Primitive.REDUCE and descriptor.rank != rank:
            return None
        payloads = [c.payload for c in cells if c.payload is not None]
        if self.order is not None and payloads:
            payloads = [payloads[i] for i in self.order]
        return self._combine(descriptor, payloads) if payloads else None

    def _combine(self, descriptor: Descriptor, payloads: list[bytes]) -> bytes:
        if descriptor.primitive is Primitive.BROADCAST:
            opaque = bytearray(len(payloads[0]))
            for payload in payloads:
                numerics.or_into(opaque, payload)
            return bytes(opaque)
        assert descriptor.datatype.name in self.params.datatypes
        assert descriptor.operator.name in self.params.operators
        wide = self.params.partial_format == "fp32"
        assert numerics.whole_elements(len(payloads[0]), descriptor.datatype)
        acc = numerics.load(payloads[0], descriptor.datatype, self.params.byte_order)
        for payload in payloads[1:]:
            numerics.reduce_into(
                acc, numerics.load(payload, descriptor.datatype, self.params.byte_order), descriptor.operator
            )
        if wide:
            partial = numerics.store(acc, descriptor.datatype, self.params.byte_order, wide=True)
            assert len(partial) <= self.params.cell_bytes
        return numerics.store(acc, descriptor.datatype, self.params.byte_order)


def complete(params: GroupParams, operations: Sequence[Operation], seed: int = 0, order: Any = None) -> None:
    """Run operations that agree to their end."""
    tree = Tree(params, operations, seed, order)
    tree.run()
    assert tree.errors == [None] * len(operations)
    for operation in operations:
        assert operation.finished
        assert operation.pulled_all
        assert operation.pull() is None
        assert operation.cells_delivered == operation.total_cells == operations[0].total_cells


# --- data and what NumPy says


def make(datatype: Datatype, size: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    dtype = numerics.array_dtype(datatype)
    if datatype in numerics.FLOATS:
        return (rng.standard_normal(size) * 4).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)


def combined(arrays: Sequence[Array], operator: Operator) -> Array:
    """In rank order; 16-bit floats in FP32, rounded once."""
    wide = np.float32 if arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind in "fV" else arrays[0].dtype
    acc = arrays[0].astype(wide)
    function = {Operator.SUM: np.add, Operator.MAX: np.maximum, Operator.MIN: np.minimum}[operator]
    for array in arrays[1:]:
        acc = function(acc, array.astype(wide))
    return acc.astype(arrays[0].dtype)


def same(got: Array, expected: Array) -> bool:
    return got.tobytes() == expected.tobytes()


def plan_all(
    primitive: str, sends: Sequence[Any], recvs: Sequence[Any], params: GroupParams, **more: Any
) -> list[Operation]:
    n = params.world_size
    more.setdefault("tag", 5)
    return [
        plan(primitive, sends[r], recvs[r], rank=r, world_size=n, params=params, **more) for r in range(n)
    ]


def sizes(datatype: Datatype, world: int = 1) -> list[int]:
    full = P // numerics.element_bytes(datatype)
    return [0, 1, 3, full - 1, full, full + 1, 2 * full, 5 * full + 7]


# --- native arithmetic


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("operator", REDUCING)
@pytest.mark.parametrize("datatype", list(Datatype))
def test_all_reduce_and_reduce_equal_numpy(datatype: Datatype, operator: Operator, world: int) -> None:
    for size, order, partial in itertools.product(sizes(datatype), ("big", "little"), ("input", "fp32")):
        params = group(world, byte_order=order, partial_format=partial)
        sends = [make(datatype, size, r) for r in range(world)]
        before = [s.copy() for s in sends]
        expected = combined(sends, operator)
        recvs = [np.zeros_like(s) for s in sends]
        complete(params, plan_all("all_reduce", sends, recvs, params, operator=operator, datatype=datatype))
        assert all(same(r, expected) for r in recvs)
        root = size % world
        recvs = [np.zeros_like(s) for s in sends]
        complete(
            params, plan_all("reduce", sends, recvs, params, operator=operator, datatype=datatype, root=root)
        )
        assert same(recvs[root], expected)
        assert all(not r.any() for i, r in enumerate(recvs) if i != root)
        assert all(same(a, b) for a, b in zip(sends, before, strict=True))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("datatype", list(Datatype))
def test_broadcast_and_all_gather_deliver_bit_for_bit(datatype: Datatype, world: int) -> None:
    dtype = numerics.array_dtype(datatype)
    for size in sizes(datatype):
        params = group(world, datatypes=("INT32",), byte_order="little" if size % 2 else "big")
        raw = np.random.default_rng(size).bytes(size * dtype.itemsize)  # NaNs with payloads included
        data = np.frombuffer(raw, dtype)
        root = size % world
        recvs = [np.zeros(size, dtype) for _ in range(world)]
        sends = [data if r == root else None for r in range(world)]
        complete(params, plan_all("broadcast", sends, recvs, params, datatype=datatype, root=root))
        assert all(r.tobytes() == raw for r in recvs)
        shards = [np.roll(data, r) for r in range(world)]
        recvs = [np.zeros(size * world, dtype) for _ in range(world)]
        complete(params, plan_all("all_gather", shards, recvs, params, datatype=datatype))
        assert all(r.tobytes() == b"".join(s.tobytes() for s in shards) for r in recvs)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("operator", REDUCING)
@pytest.mark.parametrize("datatype", [Datatype.INT32, Datatype.BF16, Datatype.INT8])
def test_reduce_scatter_gives_each_rank_its_shard(datatype: Datatype, operator: Operator, world: int) -> None:
    params = group(world)
    for shard in sizes(datatype):
        sends = [make(datatype, shard * world, r) for r in range(world)]
        recvs = [np.zeros(shard, s.dtype) for s in sends]
        complete(
            params, plan_all("reduce_scatter", sends, recvs, params, operator=operator, datatype=datatype)
        )
        expected = combined(sends, operator)
        assert all(same(recvs[r], expected[r * shard : (r + 1) * shard]) for r in range(world))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_shards_may_have_any_sizes(data: st.DataObject) -> None:
    world = data.draw(st.integers(1, 5))
    shards = data.draw(st.lists(st.integers(0, 70), min_size=world, max_size=world))
    seed = data.draw(st.integers(0, 99))
    params = group(world)
    bounds = [0, *itertools.accumulate(shards)]
    sends = [make(Datatype.INT16, sum(shards), r) for r in range(world)]
    recvs = [np.zeros(s, np.int16) for s in shards]
    more: dict[str, Any] = {"operator": Operator.SUM, "datatype": Datatype.INT16, "shards": shards}
    complete(params, plan_all("reduce_scatter", sends, recvs, params, **more), seed)
    expected = combined(sends, Operator.SUM)
    assert all(same(recvs[r], expected[bounds[r] : bounds[r + 1]]) for r in range(world))
    gathered = [np.zeros(sum(shards), np.int16) for _ in shards]
    complete(
        params, plan_all("all_gather", recvs, gathered, params, datatype=Datatype.INT16, shards=shards), seed
    )
    assert all(same(g, expected) for g in gathered)


@pytest.mark.parametrize("world", WORLDS)
def test_barrier_is_one_cell_without_payload(world: int) -> None:
    params = group(world)
    operations = plan_all("barrier", [None] * world, [None] * world, params)
    assert operations[0].total_cells == 1
    complete(params, operations)


@pytest.mark.parametrize("primitive", ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather"])
def test_an_empty_collective_is_one_end_cell(primitive: str) -> None:
    params = group(1)
    more: dict[str, Any] = {"datatype": Datatype.FP32}
    if primitive in ("all_reduce", "reduce", "reduce_scatter"):
        more["operator"] = Operator.SUM
    if primitive in ("reduce", "broadcast"):
        more["root"] = 0
    empty = np.zeros(0, np.float32)
    (operation,) = plan_all(primitive, [empty], [empty], params, **more)
    cell = operation.pull()
    assert cell is not None
    assert cell.payload is None
    assert Descriptor.unpack(cell.imm).operator is Operator.NONE
    assert operation.pulled_all


def test_mode_1_cells_are_messages() -> None:
    params = group(2, mode=1, message_bytes=128, message_buffers=4)
    sends = [make(Datatype.INT32, 40, r) for r in range(2)]
    recvs = [np.zeros_like(s) for s in sends]
    operations = plan_all("all_reduce", sends, recvs, params, operator=Operator.SUM, datatype=Datatype.INT32)
    assert operations[0].total_cells == 2
    complete(params, operations)
    assert same(recvs[0], combined(sends, Operator.SUM))


def test_arrays_of_any_contiguous_shape_keep_it() -> None:
    params = group(2)
    sends = [make(Datatype.INT32, 60, r).reshape(3, 4, 5) for r in range(2)]
    recvs = [np.zeros_like(s) for s in sends]
    complete(
        params, plan_all("all_reduce", sends, recvs, params, operator=Operator.SUM, datatype=Datatype.INT32)
    )
    assert np.array_equal(recvs[1], sends[0] + sends[1])


# --- in place


@pytest.mark.parametrize("datatypes", [ALL, ("INT32",)], ids=["native", "emulated"])
@pytest.mark.parametrize("primitive", ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather"])
@given(seed=st.integers(0, 2**16), world=st.integers(1, 4), shard=st.integers(1, 70))
@settings(max_examples=25, deadline=None)
def test_in_place_gives_what_separate_arrays_give(
    primitive: str, datatypes: tuple[str, ...], seed: int, world: int, shard: int
) -> None:
    params = group(world, datatypes=datatypes)
    more: dict[str, Any] = {"datatype": Datatype.FP32}
    if primitive in ("all_reduce", "reduce", "reduce_scatter"):
        more["operator"] = Operator.SUM
    if primitive in ("reduce", "broadcast"):
        more["root"] = seed % world
    whole = [make(Datatype.FP32, shard * world, r) for r in range(world)]
    whole[0][0] = np.inf  # takes the path of the special blocks as well

    def part(array: Array, rank: int) -> Array:
        return array[rank * shard : (rank + 1) * shard]

    sends = [part(w, r).copy() if primitive == "all_gather" else w.copy() for r, w in enumerate(whole)]
    recvs = [np.zeros(shard if primitive == "reduce_scatter" else shard * world, np.float32) for _ in whole]
    complete(params, plan_all(primitive, sends, recvs, params, **more), seed)
    shared = [w.copy() for w in whole]
    sends = [part(w, r) if primitive == "all_gather" else w for r, w in enumerate(shared)]
    targets = [part(w, r) if primitive == "reduce_scatter" else w for r, w in enumerate(shared)]
    complete(params, plan_all(primitive, sends, targets, params, **more), seed)
    kept = [more["root"]] if primitive == "reduce" else range(world)
    assert all(same(targets[r], recvs[r]) for r in kept)


def test_in_place_does_not_copy_and_other_overlaps_do() -> None:
    params = group(1)
    data = np.arange(100, dtype=np.int32)
    more: dict[str, Any] = {"operator": Operator.SUM, "datatype": Datatype.INT32}
    (shifted,) = plan_all("all_reduce", [data[:-1]], [data[1:]], params, **more)
    while (cell := shifted.pull()) is not None:  # in lockstep: nothing is read ahead of the results
        shifted.deliver(cell.payload)
    assert data.tolist() == [0, *range(99)]
    (aligned,) = plan_all("all_reduce", [data], [data], params, **more)
    aligned.pull()
    data[16:32] = 7  # not yet pulled, so the change is seen: the operation reads the user's own array
    cell = aligned.pull()
    assert cell is not None
    assert cell.payload == np.full(16, 7, ">i4").tobytes()


# --- emulation over INT32


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("datatype", "operator"),
    [
        *itertools.product([Datatype.INT8, Datatype.INT16, Datatype.INT32], REDUCING),
        (Datatype.INT64, Operator.SUM),  # the others are refused, see below
    ],
)
def test_integers_over_int32_are_exact(datatype: Datatype, operator: Operator, world: int) -> None:
    params = group(world, datatypes=("INT32",))
    for size in sizes(datatype):
        sends = [make(datatype, size, r) for r in range(world)]
        recvs = [np.zeros_like(s) for s in sends]
        complete(params, plan_all("all_reduce", sends, recvs, params, operator=operator, datatype=datatype))
        assert all(same(r, combined(sends, operator)) for r in recvs)


@pytest.mark.parametrize("offered", [("MAX",), ("MIN",), ("MAX", "MIN")])
@pytest.mark.parametrize("operator", [Operator.MAX, Operator.MIN])
@pytest.mark.parametrize(
    "datatype", [Datatype.INT8, Datatype.INT16, Datatype.INT32, Datatype.FP16, Datatype.BF16, Datatype.FP32]
)
def test_extremes_over_int32_are_exact_with_either_operator(
    datatype: Datatype, operator: Operator, offered: tuple[str, ...]
) -> None:
    params = group(3, datatypes=("INT32",), operators=offered)
    sends = [make(datatype, 50, r) for r in range(3)]
    if datatype in numerics.FLOATS:
        for i, values in enumerate(([np.nan, 1, -1], [-0.0, 0.0, -0.0], [np.inf, -np.inf, 1])):
            for r in range(3):
                sends[r][i] = values[r]
    recvs = [np.zeros_like(s) for s in sends]
    complete(params, plan_all("all_reduce", sends, recvs, params, operator=operator, datatype=datatype))
    expected = numerics.load(numerics.to_wire(sends[0], datatype, "big"), datatype, "big")
    for s in sends[1:]:
        numerics.reduce_into(
            expected, numerics.load(numerics.to_wire(s, datatype, "big"), datatype, "big"), operator
        )
    payload = numerics.store(expected, datatype, "big")
    assert all(numerics.to_wire(r, datatype, "big") == payload for r in recvs)


def check_fixed(got: Array, sends: Sequence[Array], datatype: Datatype, start: int = 0) -> None:
    fixed = FixedPoint(datatype, len(sends))
    for i, value in enumerate(got.astype(np.float64).tolist(), start):
        column = [float(s[i]) for s in sends]
        if not all(np.isfinite(column)):
            assert np.array_equal(value, sum(c for c in column if not np.isfinite(c)), equal_nan=True)
            continue
        block = slice(i // BLOCK * BLOCK, i // BLOCK * BLOCK + BLOCK)
        peak = max(
            np.abs(s[block].astype(np.float64))[np.isfinite(s[block].astype(np.float64))].max() for s in sends
        )
        exact = sum(Fraction(c) for c in column)
        assert abs(Fraction(value) - exact) <= fixed.error_bound(float(peak), exact)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("datatype", sorted(numerics.FLOATS))
def test_float_sums_over_int32_keep_the_bound_and_are_equal_everywhere(
    datatype: Datatype, world: int, special: bool
) -> None:
    params = group(world, datatypes=("INT32",))
    for size in (1, BLOCK - 1, BLOCK, 2 * BLOCK + 1, 12 * BLOCK + 5):
        sends = [make(datatype, size, r) for r in range(world)]
        if special and size > 2:
            sends[0][1], sends[-1][size - 1], sends[0][size // 2] = np.inf, np.nan, -np.inf
        recvs = [np.zeros_like(s) for s in sends]
        more: dict[str, Any] = {"operator": Operator.SUM, "datatype": datatype}
        complete(params, plan_all("all_reduce", sends, recvs, params, **more), seed=size)
        check_fixed(recvs[0], sends, datatype)
        assert all(same(r, recvs[0]) for r in recvs)
        (root,) = reduced = [size % world]
        only = [np.zeros_like(s) for s in sends]
        complete(params, plan_all("reduce", sends, only, params, root=root, **more), seed=size)
        assert all(same(only[r], recvs[0]) for r in reduced)
        shards = [size // world + (r < size % world) for r in range(world)]
        parts = [np.zeros(s, recvs[0].dtype) for s in shards]
        complete(params, plan_all("reduce_scatter", sends, parts, params, shards=shards, **more), seed=size)
        assert b"".join(p.tobytes() for p in parts) == recvs[0].tobytes()


@pytest.mark.parametrize("datatype", sorted(numerics.FLOATS))
def test_reproducible_sums_do_not_depend_on_arrival_and_plain_ones_may(datatype: Datatype) -> None:
    world = 5
    params = group(world)
    sends = [
        make(datatype, 200, r) * numerics.array_dtype(datatype).type(10.0 ** (r - 2)) for r in range(world)
    ]

    def outcomes(reproducible: bool) -> set[bytes]:
        results = set()
        for order in itertools.islice(itertools.permutations(range(world)), 0, 120, 11):
            recvs = [np.zeros_like(s) for s in sends]
            operations = plan_all(
                "all_reduce",
                sends,
                recvs,
                params,
                operator=Operator.SUM,
                datatype=datatype,
                reproducible=reproducible,
            )
            complete(params, operations, order=order)
            results.add(recvs[0].tobytes())
        return results

    assert len(outcomes(reproducible=True)) == 1
    if datatype in (Datatype.FP32, Datatype.FP64):
        assert len(outcomes(reproducible=False)) > 1


def test_reproducible_uses_the_engine_where_it_adds_in_child_order() -> None:
    ordered = group(2, mode=1, ordered=True, message_buffers=4)
    assert collectives.arithmetic(Operator.SUM, Datatype.FP32, ordered, True).kind == "native"
    assert collectives.arithmetic(Operator.SUM, Datatype.FP32, group(2), True).kind == "fixed"
    for operator, datatype in ((Operator.MAX, Datatype.FP32), (Operator.SUM, Datatype.INT8)):
        assert collectives.arithmetic(operator, datatype, group(2), True).direct


@pytest.mark.parametrize("operator", [Operator.MAX, Operator.MIN])
@pytest.mark.parametrize("datatype", [Datatype.INT64, Datatype.FP64])
def test_what_int32_cannot_carry_is_refused(datatype: Datatype, operator: Operator) -> None:
    with pytest.raises(ResourceError, match=f"{operator.name} of {datatype.name} .*SUM/MAX/MIN of INT32$"):
        collectives.arithmetic(operator, datatype, group(2, datatypes=("INT32",)))


def test_a_sum_without_max_for_its_exponents_is_refused() -> None:
    with pytest.raises(ResourceError, match="SUM of FP32 cannot be computed reproducibly"):
        collectives.arithmetic(Operator.SUM, Datatype.FP32, group(2, operators=("SUM",)), True)


# --- disagreement


def catalogue(datatypes: tuple[str, ...]) -> dict[str, Callable[[int, GroupParams], Operation]]:
    """Calls that all differ from each other; each makes one rank's operation."""
    calls: dict[str, Callable[[int, GroupParams], Operation]] = {}

    def add(name: str, primitive: str, size: int, datatype: Datatype | None = None, **more: Any) -> None:
        def make_operation(rank: int, params: GroupParams) -> Operation:
            n = params.world_size
            dtype = numerics.array_dtype(datatype) if datatype is not None else None
            send = recv = None
            if dtype is not None:
                send = np.ones(size * (n if primitive == "reduce_scatter" else 1), dtype)
                recv = np.zeros(size * (n if primitive == "all_gather" else 1), dtype)
            if primitive == "broadcast" and rank != more["root"]:
                send = None
            arguments = dict(more)
            return plan(
                primitive,
                send,
                recv,
                datatype=datatype,
                rank=rank,
                world_size=n,
                params=params,
                tag=1,
                **arguments,
            )

        calls[name] = make_operation

    for size in (0, 3, 16, 17, 32, 40):  # INT32 elements of 64-byte cells: empty, short, full, and more
        if size:
            add(f"all_reduce {size}", "all_reduce", size, Datatype.INT32, operator=Operator.SUM)
        add(f"reduce {size}", "reduce", size, Datatype.INT32, operator=Operator.SUM, root=0)
        add(f"broadcast {size}", "broadcast", size, Datatype.INT32, root=0)
        add(f"reduce_scatter {size}", "reduce_scatter", size, Datatype.INT32, operator=Operator.SUM)
        add(f"all_gather {size}", "all_gather", size, Datatype.INT32)
    add("barrier", "barrier", 0)
    for size in (3, 16):
        for operator in (Operator.MAX, Operator.MIN):
            add(f"all_reduce {operator.name} {size}", "all_reduce", size, Datatype.INT32, operator=operator)
            add(f"FP32 {operator.name} {size}", "all_reduce", size, Datatype.FP32, operator=operator)
    add("reduce to 1", "reduce", 16, Datatype.INT32, operator=Operator.SUM, root=1)
    add("broadcast from 1", "broadcast", 16, Datatype.INT32, root=1)
    for size in (4, 16, 17, 70):
        add(f"FP32 SUM {size}", "all_reduce", size, Datatype.FP32, operator=Operator.SUM)
    for datatype in ("FP16", "INT8", "INT64"):
        add(f"{datatype} SUM", "all_reduce", 16, Datatype[datatype], operator=Operator.SUM)
    add("FP32 reduce", "reduce", 16, Datatype.FP32, operator=Operator.SUM, root=1)
    if "FP32" in datatypes:
        more: dict[str, Any] = {"operator": Operator.SUM, "reproducible": True}
        add("FP32 reproducible", "all_reduce", 16, Datatype.FP32, **more)
        add("FP32 reproducible short", "all_reduce", 2, Datatype.FP32, **more)
    return calls


def undetected(calls: dict[str, Any], params: GroupParams, odd_rank: int) -> list[tuple[str, str]]:
    """Pairs of different calls after which some rank is done without an error."""
    found = []
    for one, other in itertools.permutations(calls, 2):
        operations = [calls[other if r == odd_rank else one](r, params) for r in range(params.world_size)]
        tree = Tree(params, operations, seed=hash_of(one, other))
        tree.run()
        if any(error is None for error in tree.errors):
            found.append((one, other))
    return found


def hash_of(*words: str) -> int:
    return sum(ord(c) * (i + 1) for i, c in enumerate("|".join(words)))


@pytest.mark.parametrize("datatypes", [ALL, ("INT32",)], ids=["native", "emulated"])
@pytest.mark.parametrize("operators", [("SUM", "MAX", "MIN"), ("SUM", "MAX")], ids=["all", "no-min"])
@pytest.mark.parametrize(("world", "odd_rank"), [(2, 1), (3, 0), (3, 2)])
def test_ranks_that_call_different_things_all_get_a_mismatch(
    world: int, odd_rank: int, operators: tuple[str, ...], datatypes: tuple[str, ...]
) -> None:
    calls = catalogue(datatypes)
    if "MIN" not in operators and "FP32" in datatypes:
        # Floats have no complement, so FP32 MIN goes over INT32 here.
        assert (
            collectives.arithmetic(Operator.MIN, Datatype.FP32, group(2, operators=operators)).kind == "keys"
        )
    assert undetected(calls, group(world, datatypes=datatypes, operators=operators), odd_rank) == []


@pytest.mark.parametrize("datatypes", [ALL, ("INT32",)], ids=["native", "emulated"])
def test_different_tags_are_a_mismatch(datatypes: tuple[str, ...]) -> None:
    params = group(2, datatypes=datatypes)
    operations = [
        plan(
            "all_reduce",
            np.ones(9, np.float32),
            np.ones(9, np.float32),
            operator=Operator.SUM,
            datatype=Datatype.FP32,
            rank=r,
            world_size=2,
            params=params,
            tag=r,
        )
        for r in range(2)
    ]
    tree = Tree(params, operations)
    tree.run()
    assert None not in tree.errors


def without(monkeypatch: pytest.MonkeyPatch, drop: Callable[[Run], bool], **changes: Any) -> None:
    """A mutant: runs for which `drop` is true are left out, the others are changed."""
    original = Operation.__init__

    def mutant(
        self: Operation, primitive: str, description: str, runs: Any, *rest: Any, **named: Any
    ) -> None:
        def mutate(some: Any) -> list[Run]:
            out = [run._replace(**changes) for run in some if not drop(run)]
            return out or list(some)

        if "later" in named:
            named["later"] = mutate(named["later"])
        original(self, primitive, description, mutate(runs), *rest, **named)

    monkeypatch.setattr(Operation, "__init__", mutant)


def is_end(run: Run) -> bool:
    return run.coding is None and Descriptor.unpack(run.imm).operator is Operator.NONE


def is_announcement(run: Run) -> bool:
    return run.coding is None and not is_end(run)


def test_mutant_without_end_cells_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, is_end)
    found = undetected(catalogue(ALL), group(2), 1)
    assert ("all_reduce 16", "all_reduce 32") in found
    assert ("reduce 3", "reduce_scatter 3") in found


def test_mutant_without_explicit_identity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks that expect different lengths from the source: one of them is content with what it gets."""
    params = group(3)
    sizes_by_rank = (3, 3, 5)

    def outcome() -> list[bool]:
        operations = [
            plan(
                "broadcast",
                np.ones(n, np.int32) if r == 0 else None,
                np.zeros(n, np.int32),
                root=0,
                datatype=Datatype.INT32,
                rank=r,
                world_size=3,
                params=params,
                tag=0,
            )
            for r, n in enumerate(sizes_by_rank)
        ]
        tree = Tree(params, operations)
        tree.run()
        return [error is not None for error in tree.errors]

    assert outcome() == [True, True, True]
    without(monkeypatch, lambda run: False, identity=False)
    assert outcome() == [False, False, True]


def test_mutant_without_announcement_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, is_announcement)
    found = undetected(catalogue(("INT32",)), group(2, datatypes=("INT32",)), 1)
    assert ("FP32 MAX 3", "all_reduce MAX 3") in found
    found = undetected(catalogue(ALL), group(2, operators=("SUM", "MAX")), 1)
    assert ("all_reduce MAX 3", "all_reduce MIN 3") in found


def test_mutant_without_signature_lets_counts_differ_in_phase_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the disagreement shows only in the data, and the message cannot tell the counts."""
    params = group(2, datatypes=("INT32",))

    def messages() -> list[str]:
        operations = [
            plan(
                "all_reduce",
                np.ones(n, np.float32),
                np.zeros(n, np.float32),
                operator=Operator.SUM,
                datatype=Datatype.FP32,
                rank=r,
                world_size=2,
                params=params,
                tag=0,
            )
            for r, n in enumerate((16, 17))
        ]
        tree = Tree(params, operations)
        tree.run()
        return [str(e) for e in tree.errors]

    assert all("counts range from 16 to 17 elements" in m for m in messages())
    monkeypatch.setattr(Exponents, "_signature", lambda self: [0, 0, 0])
    assert not any("counts range" in m for m in messages())


# --- the interface


def all_reduce(size: int = 40, **changes: Any) -> Operation:
    data = np.arange(size, dtype=np.int32)
    values: dict[str, Any] = {
        "operator": Operator.SUM,
        "datatype": Datatype.INT32,
        "rank": 0,
        "world_size": 1,
        "params": group(1),
        "tag": 9,
    }
    return plan("all_reduce", data, np.zeros_like(data), **{**values, **changes})


def test_a_cell_names_primitive_operator_datatype_rank_and_tag() -> None:
    cell = all_reduce().pull()
    assert cell is not None
    assert Descriptor.unpack(cell.imm) == Descriptor(
        Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, NO_RANK, tag=9
    )
    assert cell.payload == np.arange(16, dtype=">i4").tobytes()


@pytest.mark.parametrize("payload", [None, bytes(60), bytes(68), b""])
def test_a_result_of_another_length_is_a_mismatch_and_ends_the_operation(payload: bytes | None) -> None:
    operation = all_reduce()
    operation.pull()
    with pytest.raises(MismatchError, match=r"all_reduce\(SUM, INT32, 40 elements\).*expected 64 bytes"):
        operation.deliver(payload)
    assert operation.pull() is None
    assert not operation.finished
    with pytest.raises(MismatchError):
        operation.deliver(bytes(64))


def test_a_payload_where_null_was_expected_is_a_mismatch() -> None:
    operation = plan("barrier", None, None, rank=0, world_size=1, params=group(1), tag=0)
    operation.pull()
    with pytest.raises(MismatchError, match=r"barrier\(\).*is 4 bytes, expected NULL"):
        operation.deliver(bytes(4))


def test_a_result_before_its_contribution_is_refused() -> None:
    with pytest.raises(ValueError, match="outstanding"):
        all_reduce().deliver(bytes(64))


def test_poison_is_a_cell_with_err_and_ends_the_operation() -> None:
    operation = all_reduce()
    operation.pull()
    cell = operation.poison()
    assert cell is not None
    assert cell.payload is None
    assert cell.imm & ERR_BIT
    assert operation.pull() is None
    done = all_reduce(3)
    done.pull()
    assert done.poison() is None


def test_a_large_array_is_never_copied_into_cells() -> None:
    data = np.ones(1 << 22, np.float32)
    for datatypes in (ALL, ("INT32",)):
        params = GroupParams(group=1, mode=3, world_size=1, datatypes=datatypes)
        tracemalloc.start()
        operation = plan(
            "all_reduce",
            data,
            data,
            operator=Operator.SUM,
            datatype=Datatype.FP32,
            rank=0,
            world_size=1,
            params=params,
            tag=0,
        )
        for _ in range(100):
            cell = operation.pull()
            assert cell is not None
            operation.deliver(cell.payload)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < data.nbytes / 16


@pytest.mark.parametrize(
    ("primitive", "changes", "message"),
    [
        ("gather", {}, "primitive 'gather', expected one of"),
        ("all_reduce", {"world_size": 2}, "world_size = 2, the group has 1"),
        ("all_reduce", {"rank": 1}, "rank = 1, expected 0 to 0"),
        ("all_reduce", {"tag": 64}, "tag = 64, expected 0 to 63"),
        ("all_reduce", {"root": 0}, "root = 0, expected none"),
        ("reduce", {"root": 1}, "root = 1, expected 0 to 0"),
        ("all_reduce", {"operator": None}, "operator = None, expected SUM, MAX or MIN"),
        ("broadcast", {"root": 0}, "operator = <Operator.SUM: 1>, expected none"),
        ("all_reduce", {"datatype": Datatype.FP32}, "send is 4 x int32, expected 4 x float32"),
        ("all_reduce", {"recv": np.zeros(3, np.int32)}, "recv is 3 x int32, expected 4 x int32"),
        ("all_reduce", {"recv": np.zeros(8, np.int32)[::2]}, "recv is not C-contiguous"),
        ("all_reduce", {"recv": np.frombuffer(bytes(16), np.int32)}, "recv is read-only"),
        ("all_reduce", {"recv": None}, "recv = None, expected an array of 4 elements"),
        ("all_reduce", {"shards": (4,)}, r"shards = \(4,\), expected none"),
        ("reduce_scatter", {"shards": (4, 4)}, "expected 1 sizes of 0 or more"),
        ("barrier", {"operator": None, "datatype": None}, "barrier: expected no arrays"),
    ],
)
def test_arguments_that_do_not_fit_are_named_in_one_line(
    primitive: str, changes: dict[str, Any], message: str
) -> None:
    values: dict[str, Any] = {
        "operator": Operator.SUM,
        "datatype": Datatype.INT32,
        "rank": 0,
        "world_size": 1,
        "params": group(1),
        "tag": 0,
        "recv": np.zeros(4, np.int32),
        **changes,
    }
    with pytest.raises(ConfigError, match=message) as caught:
        plan(primitive, np.zeros(4, np.int32), **values)
    assert "\n" not in str(caught.value)


def test_a_count_that_is_no_multiple_of_the_ranks_needs_shards() -> None:
    with pytest.raises(ConfigError, match="send has 3 elements, expected a multiple of 2 or shards"):
        plan(
            "reduce_scatter",
            np.zeros(3, np.int32),
            np.zeros(1, np.int32),
            operator=Operator.SUM,
            datatype=Datatype.INT32,
            rank=0,
            world_size=2,
            params=group(2),
            tag=0,
        )


# --- words


def test_a_mismatch_says_in_one_line_what_each_side_sent() -> None:
    mine = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=3).pack()
    theirs = Descriptor(Primitive.REDUCE, Operator.MAX, Datatype.FP32, 2, tag=3).pack()
    line = describe_mismatch(
        "all_reduce(SUM, INT32, 9 elements)", mine, mine, ConflictRecord(mine, 36, theirs, 64)
    )
    assert line == (
        "ranks disagree: this rank called all_reduce(SUM, INT32, 9 elements) and sent "
        "[ALLREDUCE SUM INT32 tag=3], one side sent [ALLREDUCE SUM INT32 tag=3, 36 bytes], "
        "another [REDUCE MAX FP32 rank=2 tag=3, 64 bytes]"
    )
    bare = describe_mismatch("barrier()", mine, theirs | ERR_BIT | NULL_BIT, None)
    assert bare.endswith("the engine holds [REDUCE MAX FP32 rank=2 tag=3]")


def test_words_for_announcements_and_for_descriptors_that_do_not_decode() -> None:
    announcement = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.FP32, tag=1).pack()
    line = describe_mismatch(
        "barrier()", announcement, 0x0000C000, ConflictRecord(announcement, 0, 0xC000, 4)
    )
    assert "[start of SUM FP32 over INT32 tag=1, no payload]" in line
    assert "[descriptor 0x0000c000, 4 bytes]" in line
