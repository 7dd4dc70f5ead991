"""Operations by blocks of memory, over a perfect tree: the same cells, results and errors as cell by cell."""

from __future__ import annotations

import ctypes
import random
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

from epic_host.fast import fixed
from epic_host.fast import outlet as module
from epic_host.fast.blocks import Block
from epic_host.fast.outlet import Outlet
from epic_models.reference.collectives import Operation, plan
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell
from epic_models.reference.numerics import array_dtype
from epic_spec.errors import MismatchError
from epic_spec.packets import NULL_BIT
from epic_spec.tables import Datatype, Operator
from host.fast.batches import SCALE
from models.test_collectives import ALL, P, Tree, group

ELEMENTWISE = ("all_reduce", "reduce", "broadcast")


def swapped(data: bytes, size: int) -> bytes:
    return data if size == 1 else np.frombuffer(data, f"u{size}").byteswap().tobytes()


def length(block: Block, cell: int) -> int:
    return block.last_bytes if cell == block.cells - 1 else block.cell_bytes


def cells_of(block: Block) -> list[Cell]:
    """What an agent sends of a block."""
    if not block.source:
        return [Cell(block.imm, None)] * block.cells
    parts = [block.part(i, 1) for i in range(block.cells)]
    return [Cell(block.imm, sent(part)) for part in parts]


def sent(part: Block) -> bytes:
    """The payload of a block of one cell."""
    if part.coding is None:
        return swapped(ctypes.string_at(part.source, part.last_bytes), part.swap)
    out = np.empty(part.last_bytes, np.uint8)
    fixed.quantize_at(
        part.coding.address, part.element, part.source, out.ctypes.data, len(out) // part.coding.wire
    )
    return out.tobytes()


def land(part: Block, payload: bytes) -> None:
    """The result of a block of one cell goes where the block says."""
    coding = part.coding
    if coding is None:
        data = swapped(payload, part.sink_swap)
        ctypes.memmove(part.sink, data, len(data))
        return
    words = np.frombuffer(payload, np.uint8)
    fixed.dequantize_at(
        coding.address, part.element, words.ctypes.data, part.sink, len(words) // coding.wire, part.streams
    )


class Landing:
    """An agent's end of an outlet: what came is written where blocks say, and told of in bulk or one by one.

    As after a change of epoch, some results come as payloads although their cells went out in blocks, and some cells
    are pulled one by one.
    """

    def __init__(self, operation: Operation, params: GroupParams, rng: random.Random, singly: float) -> None:
        self.operation = operation
        self.error: MismatchError | None = None
        self._outlet = Outlet(operation, params.byte_order)
        self._rng = rng
        self._singly = singly
        # (block, cell) of those whose result is to come; None for a cell that was pulled.
        self._expected: deque[tuple[Block, int] | None] = deque()
        self._landed = 0

    def contribute(self, limit: int) -> list[Cell]:
        if self._rng.random() < self._singly:
            cell = self._outlet.pull()
            self._expected += [None] * (cell is not None)
            return [] if cell is None else [cell]
        block = self._outlet.ahead() if self._rng.random() < 0.5 else None
        if block is not None and self._rng.random() < 0.7:
            # Contributed elsewhere, in part; or it was looked at only.
            some = self._rng.randint(1, min(limit, block.cells))
            self._outlet.advance(some)
            self._expected += [(block, i) for i in range(some)]
            return cells_of(block.part(0, some))
        block = self._outlet.next(limit)
        if block is None:
            return []
        assert block.cells <= limit
        self._expected += [(block, i) for i in range(block.cells)]
        return cells_of(block)

    def receive(self, payload: bytes | None) -> None:
        place = self._expected.popleft()
        if place is not None and self._fits(place, payload) and self._rng.random() >= self._singly:
            block, cell = place
            if block.sink:
                assert payload is not None
                land(block.part(cell, 1), payload)
            self._landed += 1
            if self._rng.random() < 0.3:
                self.tell()
            return
        self.tell()
        self._outlet.deliver(payload)

    def _fits(self, place: tuple[Block, int], payload: bytes | None) -> bool:
        block, cell = place
        return (
            (payload is not None and len(payload) == length(block, cell)) if block.expect else payload is None
        )

    def tell(self) -> bool:
        landed, self._landed = self._landed, 0
        self._outlet.landed(landed)
        return landed > 0


class BlockTree(Tree):
    """Ranks for which `blocks` is true contribute by blocks, the others cell by cell."""

    def __init__(
        self,
        params: GroupParams,
        operations: Sequence[Operation],
        seed: int = 0,
        blocks: Callable[[int], bool] = lambda rank: True,
        singly: float = 0.0,
    ) -> None:
        super().__init__(params, operations, seed)
        self._ends = {
            rank: Landing(operation, params, self.random, singly)
            for rank, operation in enumerate(operations)
            if blocks(rank)
        }

    def _contribute(self, rank: int) -> bool:
        end = self._ends.get(rank)
        if end is None:
            return super()._contribute(rank)
        free = self.WINDOW - (len(self.sent[rank]) - self.received[rank])
        if self.errors[rank] is not None or free <= 0:
            return False
        cells = end.contribute(self.random.randint(1, free))
        for cell in cells:
            assert bool(cell.imm & NULL_BIT) == (cell.payload is None)
        self.sent[rank] += cells
        return bool(cells)

    def _receive(self, rank: int) -> bool:
        end = self._ends.get(rank)
        if end is None:
            return super()._receive(rank)
        s = self.received[rank]
        if self.errors[rank] is not None:
            return False
        try:
            if any(len(cells) <= s for cells in self.sent):
                return end.tell()
            self.received[rank] += 1
            end.receive(self._result(rank, [cells[s] for cells in self.sent]))
        except MismatchError as error:
            self.errors[rank] = error
            poison = self.operations[rank].poison()
            if poison is not None:
                self.sent[rank].append(poison)
        return True


@pytest.mark.parametrize("datatypes", [ALL, ("INT32",)], ids=["native", "fixed point"])
@pytest.mark.parametrize(("count", "streams"), [((1 << 18) - 1, False), (1 << 18, True)])
def test_results_of_large_arrays_go_past_the_cache(
    count: int, streams: bool, datatypes: tuple[str, ...]
) -> None:
    params = group(1, datatypes=datatypes, payload_bytes=8192)
    values = np.ones(count, np.float32)
    operation = plan(
        "all_reduce", values, values, operator=Operator.SUM, datatype=Datatype.FP32, rank=0, world_size=1,
        params=params, tag=0,
    )  # fmt: skip
    outlet = Outlet(operation, "big")
    seen = []
    while (block := outlet.next(1000)) is not None:
        seen.append(block.streams)
        for i in range(block.cells):
            outlet.deliver(cells_of(block.part(i, 1))[0].payload)
    assert operation.finished
    # The cells before a fixed-point sum have no large array.
    assert (True in seen) == streams


def both_ways(params: GroupParams, make: Callable[[int], tuple[Operation, Any]], **how: Any) -> None:
    """Cell by cell and by blocks: the same cells at every rank, and the same arrays."""
    ranks = range(params.world_size)
    plain, blocks = [make(r) for r in ranks], [make(r) for r in ranks]
    trees = Tree(params, [o for o, _ in plain]), BlockTree(params, [o for o, _ in blocks], **how)
    for tree in trees:
        tree.run()
        assert tree.errors == [None] * params.world_size
        assert all(operation.finished and operation.pulled_all for operation in tree.operations)
    assert trees[0].sent == trees[1].sent
    for (_, one), (_, other) in zip(plain, blocks, strict=True):
        assert one is None or one.tobytes() == other.tobytes()


def data(datatype: Datatype, count: int, *seed: int) -> Any:
    rng = np.random.default_rng([count, *seed])
    if datatype.name.startswith("INT"):
        return rng.integers(-100, 100, count).astype(array_dtype(datatype))
    # Of different sizes, so that blocks have different exponents.
    sizes = np.exp2(np.arange(count) // 50 % 9 - 4)
    return (rng.standard_normal(count) * sizes).astype(array_dtype(datatype))


def calls(
    params: GroupParams, primitive: str, operator: Operator | None, datatype: Datatype, count: int, in_place: bool,
    **more: Any,
) -> Callable[[int], tuple[Operation, Any]]:  # fmt: skip
    """The operation of each rank, and the array that it writes."""
    n = params.world_size
    root = 1 % n if primitive in ("reduce", "broadcast") else None
    shards = (
        tuple((count + r) // n for r in range(n)) if primitive in ("reduce_scatter", "all_gather") else None
    )

    def make(rank: int) -> tuple[Operation, Any]:
        whole = data(datatype, count, rank)
        send, recv = whole, whole
        if shards is not None:
            start = sum(shards[:rank])
            own = whole[start : start + shards[rank]]
            send, recv = (whole, own) if primitive == "reduce_scatter" else (own, whole)
        if primitive == "reduce" and rank != root:
            recv = None
        elif primitive == "broadcast":
            send, recv = (whole, None) if rank == root else (None, whole)
        if not in_place and send is not None and recv is not None:
            send = send.copy()
        operation = plan(
            primitive, send, recv, operator=operator, datatype=datatype, root=root, rank=rank, world_size=n,
            params=params, tag=5, shards=shards, **more,
        )  # fmt: skip
        return operation, whole

    return make


PRIMITIVES = [
    (p, o)
    for p in ("all_reduce", "reduce", "reduce_scatter")
    for o in (Operator.SUM, Operator.MAX, Operator.MIN)
] + [("broadcast", None), ("all_gather", None)]


@pytest.mark.parametrize(
    ("datatypes", "order"),
    [(ALL, "big"), (ALL, "little"), (("INT32",), "big")],
    ids=["native", "native little", "over INT32"],
)
@pytest.mark.parametrize("datatype", Datatype, ids=lambda d: d.name)
def test_every_primitive_and_operator(datatype: Datatype, datatypes: tuple[str, ...], order: str) -> None:
    params = group(2, datatypes=datatypes, byte_order=order)
    full = P // array_dtype(datatype).itemsize
    for i, (primitive, operator) in enumerate(PRIMITIVES):
        if (
            datatypes != ALL
            and datatype.name in ("INT64", "FP64")
            and operator in (Operator.MAX, Operator.MIN)
        ):
            continue  # what INT32 cannot compute
        counts = (0, 1, full - 1, full, full + 1, 11 * full + 3) if datatypes == ALL else (1, 5 * full + 3)
        for count in counts:
            make = calls(params, primitive, operator, datatype, count, in_place=(count + i) % 2 == 0)
            both_ways(params, make, seed=count + i)


def test_a_barrier() -> None:
    params = group(2)
    both_ways(
        params,
        lambda rank: (plan("barrier", None, None, rank=rank, world_size=2, params=params, tag=0), None),
    )


@pytest.mark.parametrize("operators", [("MAX",), ("MIN",)])
def test_complements_are_computed_and_not_the_callers_memory(operators: tuple[str, ...]) -> None:
    params = group(2, operators=operators)
    for operator in (Operator.MAX, Operator.MIN):
        both_ways(params, calls(params, "all_reduce", operator, Datatype.INT32, 100, in_place=False))


def infinities(params: GroupParams) -> Callable[[int], tuple[Operation, Any]]:
    """A SUM in which some elements are not finite."""

    def make(rank: int) -> tuple[Operation, Any]:
        values = data(Datatype.FP32, 1000, rank)
        values[[17, 500, 999]] = [np.inf, np.nan, -np.inf]
        operation = plan(
            "all_reduce", values, values, operator=Operator.SUM, datatype=Datatype.FP32, rank=rank, world_size=2,
            params=params, tag=0,
        )  # fmt: skip
        return operation, values

    return make


def test_infinities_and_nans_add_cells_in_the_middle() -> None:
    params = group(2, datatypes=("INT32",))
    both_ways(params, infinities(params))


def test_wide_partials_leave_room_in_cells() -> None:
    params = group(2, partial_format="fp32")
    both_ways(params, calls(params, "all_reduce", Operator.SUM, Datatype.FP16, 333, in_place=True))


@pytest.mark.parametrize("seed", range(20 * SCALE))
def test_random_mixtures_of_blocks_cells_and_ranks_that_know_only_cells(seed: int) -> None:
    """What changes of epoch do to the way of an operation."""
    rng = random.Random(seed)
    datatype = rng.choice(list(Datatype))
    primitive, operator = rng.choice(PRIMITIVES[:1] * 3 + PRIMITIVES)
    native = datatype.name in ("INT64", "FP64") or rng.random() < 0.5
    params = group(rng.randint(1, 4), datatypes=ALL if native else ("INT32",))
    make = calls(params, primitive, operator, datatype, rng.choice([1, 40, 500]), rng.random() < 0.5)
    plain = [rng.random() < 0.3 for _ in range(4)]
    both_ways(
        params, make, seed=seed, blocks=lambda rank: not plain[rank], singly=rng.choice([0.0, 0.2, 0.8])
    )


def test_results_land_in_the_callers_array_itself() -> None:
    params = group(1)
    values, target = data(Datatype.INT32, 100), np.zeros(100, np.int32)
    operation = plan(
        "all_reduce", values, target, operator=Operator.SUM, datatype=Datatype.INT32, rank=0, world_size=1,
        params=params, tag=0,
    )  # fmt: skip
    block = Outlet(operation, "big").next(100)
    assert block is not None
    assert (block.cells, block.cell_bytes, block.last_bytes) == (7, P, 16)
    assert (block.source, block.sink) == (values.ctypes.data, target.ctypes.data)
    assert block.swap == block.sink_swap == 4
    assert not block.streams
    assert Outlet(operation, "big").next(100) is None


@pytest.mark.parametrize("fixed", [False, True], ids=["lengths", "fixed point"])
@pytest.mark.parametrize("cellwise", [(), (0,), (0, 1)], ids=["by blocks", "mixed", "by cells"])
def test_ranks_that_disagree_about_a_length_fail_alike(cellwise: tuple[int, ...], fixed: bool) -> None:
    params = group(2, datatypes=("INT32",) if fixed else ALL)
    datatype = Datatype.FP32

    def make(rank: int, count: int) -> Operation:
        values = data(datatype, count, rank)
        return plan(
            "all_reduce", values, values, operator=Operator.SUM, datatype=datatype, rank=rank, world_size=2,
            params=params, tag=0,
        )  # fmt: skip

    tree = BlockTree(params, [make(0, 100), make(1, 97)], blocks=lambda rank: rank not in cellwise)
    tree.run()
    assert None not in tree.errors
    if fixed:
        assert all("counts range from 97 to 100 elements" in str(error) for error in tree.errors)


def test_a_result_that_does_not_fit_is_the_mismatch_of_a_cell() -> None:
    params = group(1)

    def make() -> Operation:
        values = data(Datatype.INT32, 100)
        return plan(
            "all_reduce", values, values, operator=Operator.SUM, datatype=Datatype.INT32, rank=0, world_size=1,
            params=params, tag=0,
        )  # fmt: skip

    messages = []
    for by_blocks in (True, False):
        operation = make()
        out: Any = Outlet(operation, "big") if by_blocks else operation
        if by_blocks:
            assert out.next(3) is not None
            out.landed(2)
        else:
            for _ in range(3):
                operation.pull()
            operation.accept(2)
        with pytest.raises(MismatchError) as error:
            out.deliver(bytes(60))
        messages.append(str(error.value))
        assert operation.pull() is None
        assert operation.poison() is not None
    assert messages[0] == messages[1]
    assert "the result of its cell 2 is 60 bytes, expected 64 bytes" in messages[0]


def test_results_beyond_what_is_outstanding_are_refused() -> None:
    params = group(1)
    operation = plan("barrier", None, None, rank=0, world_size=1, params=params, tag=0)
    with pytest.raises(ValueError, match="without a cell outstanding"):
        operation.accept(1)


def test_memory_does_not_grow_with_the_array() -> None:
    """Fixed point is encoded and decoded by stages, whatever the size of the array."""
    params = group(1, datatypes=("INT32",), payload_bytes=256)

    def peak(count: int) -> int:
        values = np.ones(count, np.float32)
        operation = plan(
            "all_reduce", values, values, operator=Operator.SUM, datatype=Datatype.FP32, rank=0, world_size=1,
            params=params, tag=0,
        )  # fmt: skip
        tree = BlockTree(params, [operation])
        tree.sent = [Forgetful()]
        tracemalloc.start()
        tree.run()
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert operation.finished
        return top

    with mock.patch.object(module, "_STAGE_CELLS", 4):
        small, large = peak(30_000), peak(60_000)
    # Exponents, a word a block of elements, are all that is kept of them.
    assert large - small < 30_000 * 4 / 4


class Forgetful(list[Cell]):
    """Keeps the last cells only."""

    def __init__(self) -> None:
        super().__init__()
        self._gone = 0

    def __iadd__(self, cells: Any) -> Any:
        self.extend(cells)
        while super().__len__() > 16:
            super().pop(0)
            self._gone += 1
        return self

    def __len__(self) -> int:
        return super().__len__() + self._gone

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index - self._gone)


# ------------------------------------------------------------------------------------------ planted faults


def _mutants() -> dict[str, Any]:
    bases, source = module._bases, Outlet._source

    def no_base(arrays: Any, size: int) -> tuple[int, int]:
        send, recv = bases(arrays, size)
        return send + arrays.send_base * size, recv

    def stale_stage(self: Outlet, part: Any, coding: Any) -> tuple[int, int]:
        if self._staged_stop:
            self._staged_stop = 1 << 60
        return source(self, part, coding)

    def any_element(*values: Any) -> Block:
        return Block(*values)._replace(element=0)

    init = fixed.Fixed.__init__

    def another_scale(self: fixed.Fixed, shared: Any, *others: Any) -> None:
        init(self, shared, *others)
        self._words[0] -= shared.count > 900

    return {
        "no base": mock.patch.object(module, "_bases", no_base),
        "stale stage": mock.patch.object(Outlet, "_source", stale_stage),
        "no swap": mock.patch.object(module.sys, "byteorder", "big"),
        "any element": mock.patch.object(module, "Block", any_element),
        "another scale": mock.patch.object(fixed.Fixed, "__init__", another_scale),
        "no infinities": mock.patch.object(fixed.Fixed, "put_specials", lambda self, start, stop: None),
    }


@pytest.mark.parametrize(
    "name", ["no base", "stale stage", "no swap", "any element", "another scale", "no infinities"]
)
def test_planted_faults_are_seen(name: str) -> None:
    native = name in ("no base", "no swap")
    params = group(2, datatypes=("INT32", "FP32") if native else ("INT32",), payload_bytes=256)
    with (
        _mutants()[name],
        mock.patch.object(module, "_STAGE_BYTES", 512),
        pytest.raises((AssertionError, MismatchError, ValueError)),
    ):
        both_ways(params, calls(params, "all_gather", None, Datatype.INT32, 1000, in_place=False))
        both_ways(params, calls(params, "all_reduce", Operator.MAX, Datatype.FP32, 1000, in_place=False))
        # One rank keeps to the reference, so that a fault of all of them does not hide.
        both_ways(
            params,
            calls(params, "all_reduce", Operator.SUM, Datatype.FP32, 1000, in_place=False),
            blocks=lambda rank: rank == 0,
        )
        both_ways(params, infinities(params))
