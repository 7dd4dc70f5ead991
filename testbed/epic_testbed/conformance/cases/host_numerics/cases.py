"""Hosts: what the engines do not compute, over what they do (section 6.6 of the specification).

The expected words are worked out here from the text, not by the code under test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epic_models.reference.numerics import array_dtype
from epic_spec.errors import MismatchError, ResourceError
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from epic_testbed.conformance.case import case
from epic_testbed.conformance.host_bench import HostBench, all_reduce, end, reduce

Array = np.ndarray[Any, np.dtype[Any]]


def _announcement(operator: Operator, datatype: Datatype, tag: int = 0) -> Descriptor:
    """The cell before those of an emulation: Broadcast without rank, with the call's operator and datatype."""
    return Descriptor(Primitive.BROADCAST, operator, datatype, tag=tag)


def _words(*values: int) -> Array:
    """INT32 words of unsigned or signed values."""
    return np.array([v & 0xFFFFFFFF for v in values], np.uint32).view(np.int32)


def _signature(primitive: int, root: int, count: int) -> list[int]:
    """The three pairs (x, -x) at the head of stage 1."""
    values = (primitive << 16 | root, count & 0x7FFFFFFF, count >> 31)
    return [word for x in values for word in (x, -x)]


STAGE_1 = all_reduce(operator=Operator.MAX)
STAGE_2 = all_reduce()


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def fp32_sum_as_fixed_point(bench: HostBench) -> None:
    """Two ranks and engines of INT32 alone; this rank has 1, -2.5 and 0.75, the other 5, 0 and -0.75. The cells are the
    announcement, stage 1 (signature, exponent 2; the result says 3) and stage 2 with 2^26 as scale, one word an
    element. The sums are exact.
    """
    bench.join()
    handle = bench.call("all_reduce", np.array([1.0, -2.5, 0.75], np.float32))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP32), None, None)])
    head = _signature(0, 0xFFFF, 3)
    bench.exchange(1, [(STAGE_1, _words(*head, 2, 0), _words(*head, 3, 0))])
    unit = 1 << 26
    own = _words(unit, -5 * unit // 2, 3 * unit // 4)
    bench.exchange(2, [(STAGE_2, own, own + _words(5 * unit, 0, -3 * unit // 4))])
    bench.expect_outcome(handle, np.array([6.0, -2.5, 0.0], np.float32))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def fp64_sum_in_two_words(bench: HostBench) -> None:
    """FP64 of two ranks: b = 31 and S = 60, so each element is two words side by side, the first signed. 1.5 and -0.25
    give 1.25.
    """
    bench.join()
    handle = bench.call("all_reduce", np.array([1.5]))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP64), None, None)])
    head = _signature(0, 0xFFFF, 1)
    bench.exchange(1, [(STAGE_1, _words(*head, 1, 0), _words(*head, 1, 0))])

    def pair(x: float) -> list[int]:
        q = int(x * 2**59)
        return [q // 2**31, q % 2**31]

    own, other = pair(1.5), pair(-0.25)
    total = _words(*(a + b for a, b in zip(own, other, strict=True)))
    bench.exchange(2, [(STAGE_2, _words(*own), total)])
    bench.expect_outcome(handle, np.array([1.25]))


@case("EPIC-N-08", side="agent")
def infinities_and_nans_in_a_fixed_point_sum(bench: HostBench) -> None:
    """This rank has +infinity, 1 and NaN; the other has -infinity in the second place. The block is marked in stage 1,
    and a run of one word an element comes before the data, in which those elements are 0.
    """
    bench.join()
    handle = bench.call("all_reduce", np.array([np.inf, 1.0, np.nan], np.float32))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP32), None, None)])
    head = _signature(0, 0xFFFF, 3)
    bench.exchange(1, [(STAGE_1, _words(*head, 1, 1), _words(*head, 1, 1))])
    bench.exchange(2, [(STAGE_2, _words(1, 0, 65537), _words(1, 65536, 65537))])
    own = _words(0, 1 << 28, 0)
    bench.exchange(3, [(STAGE_2, own, own)])
    bench.expect_outcome(handle, np.array([np.inf, -np.inf, np.nan], np.float32))


@case("EPIC-N-08", "EPIC-D-11", "EPIC-D-10", side="agent")
def fixed_point_reduce_keeps_its_descriptors(bench: HostBench) -> None:
    """A BF16 Reduce to rank 0 at rank 1: the signature says Reduce and the root, the data cells are REDUCE SUM INT32 to
    rank 0, the result is NULL, and an end cell of BF16 follows.
    """
    bench.join(rank=1)
    data = np.array([1.0, -0.5], array_dtype(Datatype.BF16))
    handle = bench.call("reduce", data, root=0)
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.BF16), None, None)])
    head = _signature(1, 0, 2)
    bench.exchange(1, [(STAGE_1, _words(*head, 1, 0), _words(*head, 1, 0))])
    bench.exchange(2, [(reduce(0), _words(1 << 28, -(1 << 27)), None)])
    bench.exchange(3, [(end(reduce(0, datatype=Datatype.BF16)), None, None)])
    bench.expect_outcome(handle, None)


@case("EPIC-N-08", "EPIC-D-07", side="agent")
def counts_that_differ_in_a_fixed_point_sum(bench: HostBench) -> None:
    """Another rank has four elements in place of three, in the same number of cells: its signature comes back from
    stage 1, and the collective ends with a MismatchError.
    """
    bench.join()
    handle = bench.call("all_reduce", np.ones(3, np.float32))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP32), None, None)])
    head = _signature(0, 0xFFFF, 3)
    result = list(head)
    result[2] = 4
    bench.exchange(1, [(STAGE_1, _words(*head, 1, 0), _words(*result, 1, 0))])
    bench.expect_error(handle, MismatchError, "3", "4")


@case("EPIC-N-08", side="agent")
def blocks_of_64_elements(bench: HostBench) -> None:
    """70 elements are two blocks, the second of six: each is scaled by its own exponent. A block of zeros has the
    exponent -32768.
    """
    bench.join()
    data = np.concatenate([np.full(64, 100.0, np.float32), np.zeros(6, np.float32)])
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP32), None, None)])
    head = _signature(0, 0xFFFF, 70)
    bench.exchange(1, [(STAGE_1, _words(*head, 7, 0, -32768, 0), _words(*head, 7, 0, -1, 0))])
    own = np.concatenate([np.full(64, 100 << 22, np.int32), np.zeros(6, np.int32)])
    other = np.concatenate([np.zeros(64, np.int32), np.full(6, 1 << 28, np.int32)])
    cells = list(zip(bench.cut(own), bench.cut(own + other), strict=True))
    bench.exchange(2, [(STAGE_2, sends, result) for sends, result in cells])
    expected = np.concatenate([np.full(64, 100.0, np.float32), np.full(6, 0.25, np.float32)])
    bench.expect_outcome(handle, expected)


@case("EPIC-N-08", side="agent", needs=(("datatypes", "FP32"),))
def a_reproducible_sum_is_fixed_point(bench: HostBench) -> None:
    """The engines add FP32, but not in child order, and the user asks for a reproducible sum: it is announced and runs
    as fixed point.
    """
    bench.join(datatypes=("INT32", "FP32"), ordered=False)
    handle = bench.call("all_reduce", np.array([0.5], np.float32), reproducible=True)
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.FP32), None, None)])
    head = _signature(0, 0xFFFF, 1)
    bench.exchange(1, [(STAGE_1, _words(*head, 0, 0), _words(*head, 0, 0))])
    bench.exchange(2, [(STAGE_2, _words(1 << 28), _words(1 << 29))])
    bench.expect_outcome(handle, np.array([1.0], np.float32))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def fp32_max_as_keys(bench: HostBench) -> None:
    """MAX of FP32 over INT32: each element is a key that orders as the numbers do, -0 below +0, NaN above all."""
    bench.join()
    data = np.array([1.0, -1.0, -0.0, np.nan], np.float32)
    handle = bench.call("all_reduce", data, op="max")
    bench.exchange(0, [(_announcement(Operator.MAX, Datatype.FP32), None, None)])
    own = _words(0x3F800000, -0x3F800001, -1, 0x7FC00000)
    result = _words(0x3F800000, -0x3F800001, 0, 0x7FC00000)
    bench.exchange(1, [(all_reduce(operator=Operator.MAX), own, result)])
    bench.expect_outcome(handle, np.array([1.0, -1.0, 0.0, np.nan], np.float32))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def fp16_min_as_complemented_keys(bench: HostBench) -> None:
    """MIN of FP16 where the engines have INT32 MAX alone: keys with all bits inverted, under MAX."""
    bench.join(operators=("SUM", "MAX"))
    data = np.array([1.0, -2.0], np.float16)
    handle = bench.call("all_reduce", data, op="min")
    bench.exchange(0, [(_announcement(Operator.MIN, Datatype.FP16), None, None)])
    own = _words(~0x3C00, ~-0x4001)
    bench.exchange(1, [(all_reduce(operator=Operator.MAX), own, _words(~0x3800, ~-0x4001))])
    bench.expect_outcome(handle, np.array([0.5, -2.0], np.float16))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def narrow_integers_are_widened(bench: HostBench) -> None:
    """SUM of INT16 over INT32: a word an element, the result modulo 2^16."""
    bench.join()
    handle = bench.call("all_reduce", np.array([30000, -5], np.int16))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.INT16), None, None)])
    bench.exchange(1, [(all_reduce(), _words(30000, -5), _words(60000, -7))])
    bench.expect_outcome(handle, np.array([60000 - 65536, -7], np.int16))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def int64_sum_in_limbs(bench: HostBench) -> None:
    """SUM of INT64 over INT32: three words of 22 bits an element, least significant first; -1 and 2^40 + 5."""
    bench.join()

    def limbs(x: int) -> list[int]:
        return [x >> 22 * i & (1 << 22) - 1 for i in range(2)] + [x >> 44 & (1 << 20) - 1]

    handle = bench.call("all_reduce", np.array([-1, 2**40 + 5], np.int64))
    bench.exchange(0, [(_announcement(Operator.SUM, Datatype.INT64), None, None)])
    own, other = limbs(-1) + limbs(2**40 + 5), limbs(7) + limbs(-6)
    total = _words(*(a + b for a, b in zip(own, other, strict=True)))
    bench.exchange(1, [(all_reduce(), _words(*own), total)])
    bench.expect_outcome(handle, np.array([6, 2**40 - 1], np.int64))


@case("EPIC-N-08", "EPIC-D-11", side="agent")
def min_by_complement(bench: HostBench) -> None:
    """MIN of INT32 where the engines have MAX alone: announced, then MAX of the inverted elements."""
    bench.join(operators=("SUM", "MAX"))
    data = np.array([3, -4], np.int32)
    handle = bench.call("all_reduce", data, op="min")
    bench.exchange(0, [(_announcement(Operator.MIN, Datatype.INT32), None, None)])
    bench.exchange(1, [(all_reduce(operator=Operator.MAX), ~data, ~np.array([2, -9], np.int32))])
    bench.expect_outcome(handle, np.array([2, -9], np.int32))


@case("EPIC-N-08", side="agent")
def what_cannot_be_computed_is_refused(bench: HostBench) -> None:
    """MAX of FP64 and MAX of INT64 where the engines have INT32 alone, and SUM of FP32 where they have only SUM: each
    ends with ResourceError and nothing is sent. A barrier then works.
    """
    bench.join(operators=("SUM",))
    calls = (("max", np.float64), ("max", np.int64), ("sum", np.float32))
    for op, dtype in calls:
        bench.expect_error(bench.call("all_reduce", np.ones(3, dtype), op=op), ResourceError)
        bench.expect_silence()
    handle = bench.call("barrier")
    bench.next_contribution(0)
    bench.result(0, None, Descriptor.unpack(bench.switch.first[0].imm or 0))
    bench.expect_outcome(handle)
