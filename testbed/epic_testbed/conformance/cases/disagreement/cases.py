"""Cells about which children disagree. The order of contributions matters, so each is waited for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from epic_spec.packets import Descriptor
from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator, Primitive
from epic_testbed.conformance.bench import SUM, Bench, Values
from epic_testbed.conformance.case import Unmet, case

RECORDS = (("conflict_record", True),)
# A contribution: descriptor and payload; what it says in a record is its agreement part and length.
Said = tuple[Descriptor, bytes | None]


def record(held: Said, other: Said) -> bytes:
    """The conflict record of two contributions; one with ERR or NULL has length 0."""

    def said(descriptor: Descriptor, payload: bytes | None) -> tuple[int, int]:
        plain = replace(descriptor, err=False, null=False)
        return plain.pack(), 0 if payload is None or descriptor.err else len(payload)

    return struct.pack(">IIII", *said(*held), *said(*other))


def _differing() -> Iterator[tuple[str, Descriptor, Descriptor]]:
    """Pairs of descriptors that differ in one field, by one bit where that can be."""
    reduce = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1, tag=5)
    for name, changes in {
        "primitive": {"primitive": Primitive.REDUCE},
        "primitive Broadcast": {"primitive": Primitive.BROADCAST},
        "operator": {"operator": Operator.MAX},
        "datatype": {"datatype": Datatype.FP32},
        "datatype of the same kind": {"datatype": Datatype.INT64},
        "tag, last bit": {"tag": 0},
        "tag, first bit": {"tag": 33},
        "rank": {"rank": 0x7FFF},
    }.items():
        yield name, SUM, replace(SUM, **changes)  # type: ignore[arg-type]
    for rank in (0, 3, 0x8001):
        yield f"rank {rank} of a Reduce", reduce, replace(reduce, rank=rank)


def _contribute(bench: Bench, cell: int, *said: tuple[int, Descriptor, Values]) -> None:
    """(child, descriptor, payload), one after another."""
    for child, what, values in said:
        bench.contribute(child, cell, values, what)
        bench.sync()


def _expected(bench: Bench, payload: bytes | None) -> Values:
    """What the payload of an ERR cell must be: bytes where the group has conflict records, else open."""
    if not bench.group.params.conflict_record:
        return None
    return b"" if payload is None else payload


def _sound(bench: Bench, cell: int) -> None:
    """The next cell is as if nothing had been."""
    children = len(bench.group.children)
    bench.contribute_all(cell, [(5,)] * children)
    if bench.group.parent is not None:
        bench.expect_partial(cell, (5 * children,))
        bench.result_from_parent(cell, (5 * children,))
    bench.expect_result(cell, (5 * children,))


_CONFLICT = ("EPIC-D-01", "EPIC-D-02", "EPIC-D-04", "EPIC-D-05", "EPIC-D-06")


@case(*_CONFLICT)
def descriptors_that_differ(bench: Bench) -> None:
    """Two children at a root: for each field of the descriptor, contributions that differ in it, each child
    first in turn, with payloads and with NULL. Every child receives ERR, the first descriptor, and the record
    of both.
    """
    bench.install(2)
    cell = 0
    for name, one, two in _differing():
        for payload in (bytes(8), None):
            for first, (held, other) in enumerate(((one, two), (two, one))):
                with bench.trying(f"{name}, {'payload' if payload else 'NULL'}, child {first} first"):
                    _contribute(bench, cell, (first, held, payload), (1 - first, other, payload))
                    said = record((held, payload), (other, payload))
                    bench.expect_result(cell, _expected(bench, said), held, err=True)
                cell += 1
    _sound(bench, cell)
    bench.expect_counter({"cells_poisoned": cell})


@case(*_CONFLICT)
def descriptors_that_differ_below_a_parent(bench: Bench) -> None:
    """The same below a parent: the partial is the ERR cell. The parent's ERR result, with a descriptor and
    record of its own, reaches every child as it came.
    """
    bench.install(2, inner=True)
    cell = 0
    for name, one, two in _differing():
        with bench.trying(name):
            _contribute(bench, cell, (0, one, bytes(8)), (1, two, bytes(8)))
            mine = record((one, bytes(8)), (two, bytes(8)))
            bench.expect_partial(cell, _expected(bench, mine), one, err=True)
            above = replace(two, tag=17, err=True)
            theirs = record((above, None), (one, bytes(12)))
            bench.result_from_parent(cell, theirs, above)
            bench.expect_result(cell, _expected(bench, theirs), above, err=True)
        cell += 1
    _sound(bench, cell)


@case("EPIC-D-01", "EPIC-D-02", "EPIC-D-06")
def lengths_that_differ(bench: Bench) -> None:
    """Payloads of different lengths, the longer first and last; a NULL contribution first does not set a
    length. Broadcast payloads likewise.
    """
    bench.install(3 if bench.largest_fan_in() >= 3 else 2)
    children = len(bench.group.children)
    cell = 0
    broadcast = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=6)
    for what in (SUM, broadcast):
        for held, other in ((8, 4), (4, 8), (4, 64), (60, 64)):
            with bench.trying(f"{what.primitive.name}, {held} and {other} bytes"):
                if children == 3:
                    _contribute(bench, cell, (2, what, None))
                _contribute(bench, cell, (0, what, bytes(held)), (1, what, bytes(other)))
                said = record((what, bytes(held)), (what, bytes(other)))
                bench.expect_result(cell, _expected(bench, said), what, err=True)
            cell += 1
    _sound(bench, cell)


@case("EPIC-D-01", "EPIC-D-06", needs=(("children", 3), ("ports", 3)))
def first_disagreement_is_recorded(bench: Bench) -> None:
    """Three children, each pair of which disagrees: the record is that of the first and the second."""
    bench.install(3)
    said: list[Said] = [(replace(SUM, tag=t), bytes(4 * t)) for t in (1, 2, 3)]
    for cell, order in enumerate(((0, 1, 2), (2, 0, 1), (1, 2, 0))):
        _contribute(bench, cell, *((child, said[child][0], said[child][1]) for child in order))
        first, second = said[order[0]], said[order[1]]
        bench.expect_result(cell, _expected(bench, record(first, second)), first[0], err=True)
    # The length is set by the second contribution, after the descriptor by the first, a NULL.
    _contribute(bench, 3, (0, SUM, None), (1, SUM, bytes(8)), (2, SUM, bytes(4)))
    bench.expect_result(3, _expected(bench, record((SUM, bytes(8)), (SUM, bytes(4)))), SUM, err=True)
    _sound(bench, 4)


@case("EPIC-D-02", "EPIC-E-05")
def null_and_payload_do_not_disagree(bench: Bench) -> None:
    """NULL with payloads of any length, and the bits NULL and ERR of a descriptor, are no disagreement of
    themselves.
    """
    bench.install(2)
    for cell, size in enumerate((4, 8, 64)):
        _contribute(bench, cell, (cell % 2, SUM, None), (1 - cell % 2, SUM, b"\1" * size))
        bench.expect_result(cell, b"\1" * size)


@case("EPIC-D-03", "EPIC-D-04", "EPIC-D-06")
def err_from_a_child(bench: Bench) -> None:
    """A child contributes ERR, without payload, with a conflict record, with a payload that is none; first
    and last. Every child receives ERR with that record, or without payload.
    """
    bench.install(2)
    poisoned = replace(SUM, err=True)
    theirs = record((SUM, bytes(4)), (replace(SUM, tag=9), bytes(12)))
    cell = 0
    for payload, carried in ((None, None), (theirs, theirs), (b"\1\2\3\4", None), (bytes(20), None)):
        for first in (True, False):
            with bench.trying(
                f"ERR with {len(payload) if payload else 0} bytes, {'first' if first else 'last'}"
            ):
                mine, plain = (0, poisoned, payload), (1, SUM, bytes(4))
                _contribute(bench, cell, *((mine, plain) if first else (plain, mine)))
                bench.expect_result(cell, _expected(bench, carried), SUM, err=True)
            cell += 1
    _sound(bench, cell)
    bench.expect_counter({"cells_poisoned": cell})


@case("EPIC-D-03", "EPIC-D-06", needs=RECORDS)
def err_that_also_disagrees(bench: Bench) -> None:
    """A contribution with ERR whose descriptor differs is a disagreement, of length 0; one that comes after
    ERR without a record is recorded too; one after a record is not.
    """
    bench.install(2, conflict_record=True)
    other = replace(SUM, tag=33)
    theirs = record((SUM, bytes(4)), (other, bytes(12)))
    _contribute(bench, 0, (0, SUM, bytes(8)), (1, replace(other, err=True), theirs))
    bench.expect_result(0, record((SUM, bytes(8)), (other, None)), SUM, err=True)
    _contribute(bench, 1, (0, replace(SUM, err=True), None), (1, other, bytes(8)))
    bench.expect_result(1, record((SUM, None), (other, bytes(8))), SUM, err=True)
    _contribute(bench, 2, (0, replace(SUM, err=True), theirs), (1, other, bytes(8)))
    bench.expect_result(2, theirs, SUM, err=True)
    _sound(bench, 3)


@case("EPIC-D-04", "EPIC-E-15", "EPIC-A-04", needs=(("children", 3), ("ports", 3)))
def poisoned_cell_waits_for_every_child(bench: Bench) -> None:
    """After a disagreement of two children nothing is sent until the third has contributed; then every child
    receives ERR, at the same time as it would a good result.
    """
    bench.install(3)
    other = replace(SUM, tag=2)
    for cell in range(2):
        _contribute(bench, cell, (0, SUM, bytes(4)), (1, other, bytes(4)))
        bench.expect_silence()
        bench.contribute(2, cell, bytes(4))
        bench.expect_result(cell, None, SUM, err=True)
    _sound(bench, 2)


@case("EPIC-D-04", "EPIC-D-05", "EPIC-E-06")
def err_result_from_the_parent(bench: Bench) -> None:
    """Children agree, the parent's result has ERR: with NULL, with a record, with another payload, for
    AllReduce, Reduce and Broadcast cells. It reaches every child as it came, also those that a Reduce
    suppresses.
    """
    bench.install(2, inner=True)
    reduce = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1, tag=3)
    broadcast = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=3)
    theirs = record((SUM, bytes(4)), (replace(SUM, tag=9), bytes(12)))
    cell = 0
    for what in (SUM, reduce, broadcast):
        for payload in (None, theirs, b"\1\2\3\4\5"):
            with bench.trying(f"{what.primitive.name}, {len(payload) if payload else 0} bytes"):
                bench.contribute_all(cell, [bytes(4), None], what)
                bench.expect_partial(cell, bytes(4), what)
                bench.result_from_parent(cell, payload, replace(what, err=True))
                bench.expect_result(cell, _expected(bench, payload), what, err=True)
            cell += 1
    _sound(bench, cell)


@case("EPIC-D-04", "EPIC-D-05")
def poisoned_reduce_reaches_every_child(bench: Bench) -> None:
    """A Reduce about whose length children disagree: every child receives ERR, not NULL."""
    bench.install(2)
    for cell, rank in enumerate((0, 1, 5)):
        what = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=rank, tag=3)
        _contribute(bench, cell, (0, what, bytes(4)), (1, what, bytes(8)))
        said = record((what, bytes(4)), (what, bytes(8)))
        bench.expect_result(cell, _expected(bench, said), what, err=True)
    _sound(bench, 3)


@case("EPIC-D-04", "EPIC-D-02")
def without_conflict_records(bench: Bench) -> None:
    """A group without conflict_record: ERR and the first descriptor reach parent and children all the same."""
    bench.install(2, inner=True, conflict_record=False)
    other = replace(SUM, operator=Operator.MAX)
    for cell in range(2):
        _contribute(bench, cell, (0, SUM, bytes(4)), (1, other, bytes(4)))
        bench.expect_partial(cell, None, SUM, err=True)
        bench.result_from_parent(cell, None, replace(SUM, err=True))
        bench.expect_result(cell, None, SUM, err=True)
    _sound(bench, 2)


@case("EPIC-E-12", "EPIC-D-04", "EPIC-D-06")
def arithmetic_that_the_group_lacks(bench: Bench) -> None:
    """A group that computes INT32 SUM alone: payloads of every other datatype and operator, from both
    children and from one, poison the cell, without a record.
    """
    bench.install(2, datatypes=("INT32",), operators=("SUM",))
    kinds: list[tuple[Operator, Datatype]]
    kinds = [(Operator.SUM, d) for d in Datatype if d is not Datatype.INT32]
    kinds += [(Operator.MAX, Datatype.INT32), (Operator.MIN, Datatype.INT32), (Operator.MAX, Datatype.FP32)]
    cell = 0
    for operator, datatype in kinds:
        what = Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=4)
        payload = bytes(2 * DATATYPE_BYTES[datatype.name])
        for contributions in ([payload, payload], [None, payload]):
            with bench.trying(f"{operator.name} {datatype.name}"):
                bench.contribute_all(cell, contributions, what)
                bench.expect_result(cell, _expected(bench, None), what, err=True)
            cell += 1
    _sound(bench, cell)


@case("EPIC-E-12")
def arithmetic_that_the_device_offers_and_the_group_does_not(bench: Bench) -> None:
    """Two groups at once: one with all that the device offers, one with INT32 SUM alone. The same cells are
    computed in the first and poisoned in the second.
    """
    offered = bench.traits.capabilities
    kinds = [(Operator[o], Datatype[d]) for o in offered.operators for d in offered.datatypes]
    kinds = [k for k in kinds if k != (Operator.SUM, Datatype.INT32)]
    if not kinds:
        raise Unmet("datatypes", offered.datatypes, "one besides INT32")
    bench.install(2, number=1)
    bench.install(2, number=2, datatypes=("INT32",), operators=("SUM",))
    for cell, (operator, datatype) in enumerate(kinds):
        what = Descriptor(Primitive.ALLREDUCE, operator, datatype, tag=4)
        for number in (1, 2):
            bench.use(number)
            bench.contribute_all(cell, [(0, 0), (0, 0)], what)
            if number == 1:
                bench.expect_result(cell, (0, 0), what)
            else:
                bench.expect_result(cell, None, what, err=True)
