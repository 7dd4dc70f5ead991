"""Hosts: each primitive, in each role, as the cells of section 3 of the specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epic_models.reference import numerics
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, barrier, broadcast, end, reduce
from epic_testbed.conformance.record import Failure


@case("EPIC-H-02", "EPIC-W-14", "EPIC-A-02", side="agent")
def all_reduce_of_several_cells(bench: HostBench) -> None:
    """Two and a half cells: every cell has this rank's elements, in order, and the AllReduce descriptor; the results
    are the array. The last cell is shorter than the others, so there is no end cell.
    """
    bench.join()
    data = bench.numbers(2.5)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(all_reduce(), cell, cell * 10) for cell in bench.cut(data)])
    bench.expect_outcome(handle, data * 10)


@case("EPIC-D-10", side="agent")
def all_reduce_of_full_cells_has_an_end_cell(bench: HostBench) -> None:
    """Two full cells are followed by an end cell: operator NONE and NULL, otherwise as the data's. The collective ends
    only with its result.
    """
    bench.join()
    data = bench.numbers(2)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(all_reduce(), cell, cell) for cell in bench.cut(data)])
    bench.expect_contribution(2, None, end(all_reduce()))
    bench.expect_running(handle)
    bench.result(2, None, end(all_reduce()))
    bench.expect_outcome(handle, data)


@case("EPIC-H-02", side="agent")
def operators(bench: HostBench) -> None:
    """SUM, MAX and MIN, one collective after the other: each names its operator and has the next tag."""
    bench.join()
    data = bench.numbers(0.5)
    for i, op in enumerate(("sum", "max", "min")):
        handle = bench.call("all_reduce", data, op=op)
        bench.exchange(i, [(all_reduce(i, Operator[op.upper()]), data, data - i)])
        bench.expect_outcome(handle, data - i)


@case("EPIC-H-02", side="agent")
def datatypes(bench: HostBench) -> None:
    """Arrays of each datatype that the group offers: the descriptor names it and the elements are as they were."""
    offered = bench.traits.capabilities.datatypes
    bench.join(datatypes=offered)
    for i, name in enumerate(offered):
        datatype = Datatype[name]
        data = (np.arange(5) - 2).astype(numerics.array_dtype(datatype))
        handle = bench.call("all_reduce", data)
        bench.exchange(i, [(all_reduce(i, datatype=datatype), data, data)])
        bench.expect_outcome(handle, data)


@case("EPIC-N-07", side="agent")
def byte_orders(bench: HostBench) -> None:
    """In a group with byte_order = little, where the host has it, elements travel little-endian; the descriptor stays
    big-endian.
    """
    order = bench.traits.capabilities.byte_order[-1]
    bench.join(byte_order=order)
    data = np.array([1, -2, 0x01020304], np.int32)
    wire = data.astype("<i4" if order == "little" else ">i4").tobytes()
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, wire, all_reduce())
    bench.result(0, wire, all_reduce())
    bench.expect_outcome(handle, data)


@case("EPIC-H-02", "EPIC-D-10", side="agent")
def reduce_at_the_root(bench: HostBench) -> None:
    """This rank is the root: it contributes its elements to cells that name it and receives the sums. An end cell
    follows, though the last cell is short.
    """
    bench.join(world_size=3, rank=1)
    data = bench.numbers(1.5)
    handle = bench.call("reduce", data, root=1)
    bench.exchange(0, [(reduce(1), cell, cell * 3) for cell in bench.cut(data)])
    bench.exchange(2, [(end(reduce(1)), None, None)])
    bench.expect_outcome(handle, data * 3)


@case("EPIC-H-02", "EPIC-D-10", side="agent")
def reduce_elsewhere(bench: HostBench) -> None:
    """Another rank is the root: this one contributes its elements and gets NULL results, which end the collective."""
    bench.join(world_size=3, rank=1)
    data = bench.numbers(1.5)
    handle = bench.call("reduce", data, root=2, op="max")
    what = reduce(2, operator=Operator.MAX)
    bench.exchange(0, [(what, cell, None) for cell in bench.cut(data)])
    bench.exchange(2, [(end(what), None, None)])
    bench.expect_outcome(handle, None)


@case("EPIC-H-02", "EPIC-D-10", side="agent")
def broadcast_at_the_source(bench: HostBench) -> None:
    """The source contributes its elements to Broadcast cells that name it, with operator SUM and its datatype, though
    the group cannot compute that.
    """
    bench.join(rank=1)
    data = bench.numbers(1.5, datatype=Datatype.FP32)
    what = broadcast(1, datatype=Datatype.FP32)
    handle = bench.call("broadcast", data, root=1)
    bench.exchange(0, [(what, cell, cell) for cell in bench.cut(data)])
    bench.exchange(2, [(end(what), None, None)])
    bench.expect_outcome(handle, data)


@case("EPIC-H-03", "EPIC-D-08", "EPIC-D-10", side="agent")
def broadcast_elsewhere(bench: HostBench) -> None:
    """Another rank is the source: this one contributes NULL, but in the last data cell zeros of the length that it
    expects, and receives the source's elements.
    """
    bench.join(rank=1)
    data = bench.numbers(2.5)
    cells = bench.cut(data)
    handle = bench.call("broadcast", np.zeros_like(data), root=0)
    bench.exchange(0, [(broadcast(0), None, cell) for cell in cells[:2]])
    bench.exchange(2, [(broadcast(0), np.zeros_like(cells[2]), cells[2])])
    bench.exchange(3, [(end(broadcast(0)), None, None)])
    bench.expect_outcome(handle, data)


@case("EPIC-D-08", side="agent")
def broadcast_of_one_full_cell(bench: HostBench) -> None:
    """The only cell of a run is its last: a rank that is not the source contributes a full cell of zeros."""
    bench.join(rank=1)
    data = bench.numbers(1)
    handle = bench.call("broadcast", np.ones_like(data), root=0)
    bench.exchange(0, [(broadcast(0), np.zeros_like(data), data), (end(broadcast(0)), None, None)])
    bench.expect_outcome(handle, data)


@case("EPIC-H-02", "EPIC-D-10", "EPIC-D-09", side="agent")
def a_barrier_is_its_end_cell(bench: HostBench) -> None:
    """A Barrier is one cell, ALLREDUCE NONE INT32 and NULL, and ends with its NULL result, not before."""
    bench.join()
    handle = bench.call("barrier")
    bench.expect_contribution(0, None, barrier())
    bench.expect_running(handle)
    bench.result(0, None, barrier())
    bench.expect_outcome(handle)


@case("EPIC-H-02", "EPIC-H-03", "EPIC-D-10", side="agent")
def reduce_scatter_with_uneven_shards(bench: HostBench) -> None:
    """Four ranks, shards of one and a half cells, none, three elements and five: each shard is a run of Reduce cells to
    its owner, the empty one has no cell. Rank 2 receives its own alone.
    """
    bench.join(world_size=4, rank=2)
    shards = (int(1.5 * bench.full()), 0, 3, 5)
    data = np.arange(sum(shards), dtype=np.int32)
    first, mine, last = np.split(data, [shards[0], shards[0] + shards[2]])
    out = np.zeros(3, np.int32)
    handle = bench.call("reduce_scatter", data, recv=out, shards=shards)
    bench.exchange(0, [(reduce(0), cell, None) for cell in bench.cut(first)])
    bench.exchange(2, [(reduce(2), mine, mine * 4), (reduce(3), last, None)])
    bench.exchange(4, [(_scattered(), None, None)])
    bench.expect_outcome(handle, mine * 4)


@case("EPIC-H-02", "EPIC-H-03", "EPIC-D-08", "EPIC-D-10", side="agent")
def all_gather_with_uneven_shards(bench: HostBench) -> None:
    """Three ranks, shards of two cells, one and a half cells and four elements: each is a run of Broadcast cells from
    its owner. Rank 1 contributes its own, NULL to the others, and zeros in the last cell of each other run.
    """
    bench.join(world_size=3, rank=1)
    full = bench.full()
    shards = (2 * full, full + full // 2, 4)
    whole = np.arange(1, sum(shards) + 1, dtype=np.int32)
    before, mine, after = np.split(whole, [shards[0], shards[0] + shards[1]])
    handle = bench.call("all_gather", mine, recv=np.zeros_like(whole), shards=shards)
    one, two = bench.cut(before)
    bench.exchange(0, [(broadcast(0), None, one), (broadcast(0), np.zeros_like(two), two)])
    bench.exchange(2, [(broadcast(1), cell, cell) for cell in bench.cut(mine)])
    bench.exchange(4, [(broadcast(2), np.zeros_like(after), after)])
    bench.exchange(5, [(_gathered(), None, None)])
    bench.expect_outcome(handle, whole)


@case("EPIC-D-09", side="agent")
def collectives_without_elements(bench: HostBench) -> None:
    """Each primitive on no elements is one cell, operator NONE and NULL, with its primitive, datatype and root, and
    takes a tag.
    """
    bench.join(rank=1, world_size=2)
    empty = np.zeros(0, np.float32)
    fp32 = Datatype.FP32
    ends: list[tuple[str, dict[str, Any], Descriptor]] = [
        ("all_reduce", {}, end(all_reduce(0, datatype=fp32))),
        ("reduce", {"root": 0}, end(reduce(0, 1, datatype=fp32))),
        ("broadcast", {"root": 1}, end(broadcast(1, 2, fp32))),
        ("reduce_scatter", {}, replace(_scattered(fp32), tag=3)),
        ("all_gather", {"recv": empty}, replace(_gathered(fp32), tag=4)),
    ]
    for i, (primitive, arguments, what) in enumerate(ends):
        handle = bench.call(primitive, empty, **arguments)
        bench.exchange(i, [(what, None, None)])
        bench.expect_outcome(handle, None if primitive == "reduce" else empty)


@case("EPIC-H-02", side="agent")
def the_tag_counts_collectives_modulo_64(bench: HostBench) -> None:
    """Sixty-six barriers, some of them empty AllReduces: tags go 0 to 63 and on with 0."""
    bench.join()
    for i in range(66):
        empty = np.zeros(0, np.int32)
        handle = bench.call("all_reduce", empty) if i % 3 else bench.call("barrier")
        bench.exchange(i, [(barrier(i % 64), None, None)])
        bench.expect_outcome(handle, empty if i % 3 else None)


@case("EPIC-A-06", "EPIC-A-03", side="agent")
def collectives_run_in_the_order_of_their_calls(bench: HostBench) -> None:
    """A broadcast, an AllReduce and a barrier are called at once: their cells come in that order, and they end in that
    order, each with its own results.
    """
    bench.join(rank=1)
    a, b = bench.numbers(1.5), bench.numbers(0.5, start=500)
    source = broadcast(1)
    handles = [bench.call("broadcast", a, root=1), bench.call("all_reduce", b), bench.call("barrier")]
    bench.exchange(0, [(source, cell, cell) for cell in bench.cut(a)])
    bench.expect_running(*handles)
    bench.exchange(2, [(end(source), None, None)])
    bench.expect_outcome(handles[0], a)
    bench.expect_running(*handles[1:])
    bench.exchange(3, [(all_reduce(1), b, b + 1)])
    bench.expect_outcome(handles[1], b + 1)
    bench.expect_running(handles[2])
    bench.exchange(4, [(barrier(2), None, None)])
    bench.expect_outcome(handles[2])


@case("EPIC-H-09", "EPIC-M1-02", side="agent")
def cells_are_cut_to_whole_elements(bench: HostBench) -> None:
    """Cells of 192 bytes (Mode I: messages of 192 in packets of 128) of two elements more than one takes: a full cell,
    then one of two elements.
    """
    sizes = {"message_bytes": 192, "payload_bytes": 128} if bench.mode == 1 else {"payload_bytes": 192}
    bench.join(**sizes)
    data = np.arange(50, dtype=np.int32)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(all_reduce(), data[:48], data[:48]), (all_reduce(), data[48:], data[48:])])
    bench.expect_outcome(handle, data)


@case("EPIC-H-09", side="agent", needs=(("datatypes", "FP16"), ("partial_format", "fp32")))
def halves_leave_room_for_wide_partials(bench: HostBench) -> None:
    """FP16 with partial_format = fp32: an AllReduce cell holds half as many elements as a Broadcast cell, so that a
    partial of 4 bytes an element fits.
    """
    bench.join(rank=1, datatypes=("INT32", "FP16"), partial_format="fp32")
    half = Datatype.FP16
    data = bench.numbers(1, datatype=half)
    size = data.size // 2
    what, source = all_reduce(datatype=half), broadcast(1, 1, half)
    handles = [bench.call("all_reduce", data), bench.call("broadcast", data, root=1)]
    bench.exchange(0, [(what, data[:size], data[:size]), (what, data[size:], data[size:])])
    bench.exchange(2, [(end(what), None, None), (source, data, data), (end(source), None, None)])
    for handle in handles:
        bench.expect_outcome(handle, data)


@case("EPIC-M1-02", modes=(1,), side="agent")
def messages_are_segmented(bench: HostBench) -> None:
    """Messages of 256 bytes in packets of 64. Arrays of 40, 16, 17 and 63 elements: messages of three packets, one, two
    and four; the bench looks at each opcode and length.
    """
    bench.join(message_bytes=256)
    for i, (count, packets) in enumerate(((40, 3), (16, 1), (17, 2), (63, 4))):
        data = np.arange(count, dtype=np.int32)
        handle = bench.call("all_reduce", data)
        got = bench.next_contribution(i, f"a message of {packets} packets")
        if got.packets != packets or got.payload != bench.encode(data, all_reduce()):
            raise Failure("a wrong message", [f"{packets} packets of {count} elements"], [str(got)])
        bench.result(i, data, all_reduce(i))
        bench.expect_outcome(handle, data)


def _scattered(datatype: Datatype = Datatype.INT32) -> Descriptor:
    """The end cell of a ReduceScatter: no rank."""
    return replace(barrier(), primitive=Primitive.REDUCE, datatype=datatype)


def _gathered(datatype: Datatype = Datatype.INT32) -> Descriptor:
    """The end cell of an AllGather: no rank."""
    return replace(barrier(), primitive=Primitive.BROADCAST, datatype=datatype)
