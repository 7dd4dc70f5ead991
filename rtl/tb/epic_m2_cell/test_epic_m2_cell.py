"""epic_m2_cell beside the golden cell: contributions in random order, and a store that does what the module says."""

from __future__ import annotations

import random

import cocotb
import numpy as np
from cocotb.triggers import Timer
from common.runner import ICARUS, VERILATOR, Bench, parameter

from epic_models.reference.cells import CellValue, pack_record
from epic_models.reference.group import Edge, GroupParams
from epic_models.reference.interfaces import ConflictRecord
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import Datatype, Operator, Primitive

BENCH = Bench(
    top="epic_m2_cell",
    sources=("epic_m2_cell.v", "epic_cut.v"),
    small=((ICARUS, {"CHILDREN": 3}), (VERILATOR, {"CHILDREN": 8})),
    configurations=((ICARUS, {"CHILDREN": 1}), (VERILATOR, {"CHILDREN": 64})),
)

CHILDREN = parameter("CHILDREN", 8)
SIZES = (4, 8, 16, 64)
OPERATORS = ("SUM", "MAX")
LANES = {0: "A", 1: "B", 2: "OR", 4: "SUM", 5: "MAX", 6: "MIN"}
DESCRIPTORS = (
    Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=3),
    Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32),
    Descriptor(Primitive.ALLREDUCE, Operator.MIN, Datatype.INT32),  # not offered
    Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=2),
    Descriptor(Primitive.BROADCAST, Operator.NONE, Datatype.INT32, rank=1),
)


def any_edge() -> Edge:
    """The edge of a host: that it is none of an engine is all that matters."""
    ends = {(r, "x"): (LinkEnd(0, f"10.0.0.{r + 1}", "02:00:00:00:00:01"), LinkEnd(0, "10.0.0.9", "02:00:00:00:00:09"))
            for r in range(2)}  # fmt: skip
    return build_group(Tree("x", {"x": (0, 1)}), GroupParams(1, 2, 2), ends, seed=1).engines["x"].children[0]


class Slot:
    """A slot and its data, which do what the module says; everything starts as junk."""

    def __init__(self, dut, choice: random.Random, keeps_record: bool) -> None:
        self.dut = dut
        dut.keeps_record.value = keeps_record
        dut.operators.value = sum(1 << Operator[name] for name in OPERATORS)
        dut.datatypes.value = 1 << Datatype.INT32
        self.data = choice.randbytes(64)
        self.fields = {
            "bitmap": choice.randrange(1 << CHILDREN), "held": choice.randrange(1 << 32), "bytes": 64, "err": 1,
            "has_record": 1, "congested": 1,
        }  # fmt: skip
        self.fresh = 1

    async def add(self, child: int, all_children: int, imm: int, payload: bytes, congested: bool) -> None:
        """One contribution."""
        dut = self.dut
        dut.fresh.value = self.fresh
        for name, value in self.fields.items():
            getattr(dut, name).value = value
        dut.child_bit.value, dut.all_children.value = 1 << child, all_children
        dut.imm.value, dut.in_bytes.value, dut.in_congested.value = imm, len(payload), congested
        await Timer(1, "ns")
        self.fresh = 0
        self.fields = {name: int(getattr(dut, f"next_{name}").value) for name in self.fields}
        kept = int(dut.kept_bytes.value)
        if kept:
            self._combine(kept, payload)

    def _combine(self, kept: int, payload: bytes) -> None:
        dut, operation = self.dut, LANES[int(self.dut.operation.value)]
        if dut.make_record.value == 1:
            values = (
                int(getattr(dut, f"record_{n}").value) for n in ("held", "held_bytes", "other", "other_bytes")
            )
            assert kept == 16 and operation == "A"
            payload = pack_record(ConflictRecord(*values))
        assert len(payload) >= kept
        a, b = (np.frombuffer(data[:kept], ">u4" if kept % 4 == 0 else "u1") for data in (payload, self.data))
        if operation in ("MAX", "MIN"):
            a, b = a.view(">i4"), b.view(">i4")
        with np.errstate(over="ignore"):
            out = {
                "A": lambda: a, "B": lambda: b, "OR": lambda: a | b, "SUM": lambda: a + b,
                "MAX": lambda: np.maximum(a, b), "MIN": lambda: np.minimum(a, b),
            }[operation]()  # fmt: skip
        self.data = out.astype(a.dtype).tobytes() + self.data[kept:]


def contribution(choice: random.Random, what: Descriptor, size: int) -> tuple[int, bytes]:
    """Mostly what was agreed on."""
    kind = choice.choices(("data", "null", "err", "record", "other", "longer"), (60, 10, 3, 3, 3, 3))[0]
    if kind == "null":
        return what.pack() | NULL_BIT, b""
    if kind == "err":
        return what.pack() | ERR_BIT | NULL_BIT, b""
    if kind == "record":
        return what.pack() | ERR_BIT, choice.randbytes(choice.choice((16, 16, 8)))
    if kind == "other":
        what = choice.choice(DESCRIPTORS)
    return what.pack(), choice.randbytes(choice.choice(SIZES) if kind == "longer" else size)


@cocotb.test
async def cells_are_the_golden_ones(dut) -> None:
    """Every step: what the slot has become is what the golden cell says; the data when the last child has come."""
    choice = random.Random(cocotb.RANDOM_SEED)
    edge = any_edge()
    poisoned = sums = 0
    for _ in range(4000 // CHILDREN + 200):
        fan_in = choice.randint(1, CHILDREN)
        record = choice.random() < 0.6
        golden = CellValue(
            GroupParams(1, 2, 2, conflict_record=record, operators=OPERATORS, datatypes=("INT32",))
        )
        slot = Slot(dut, choice, record)
        what, size = choice.choice(DESCRIPTORS), choice.choice(SIZES)
        order = choice.sample(range(fan_in), fan_in)
        for count, child in enumerate(order, 1):
            imm, payload = contribution(choice, what, size)
            congested = choice.random() < 0.1
            before = golden.err
            golden.add(child, edge, imm, payload or None, congested=congested)
            await slot.add(child, (1 << fan_in) - 1, imm, payload, congested)
            assert slot.fields["bitmap"] == sum(1 << c for c in order[:count])
            assert slot.fields["err"] == golden.err and slot.fields["congested"] == golden.congested
            assert dut.poisoned.value == (golden.err and not before)
            assert dut.full.value == (count == fan_in)
            expected_imm, expected = golden.result()
            got = slot.data[: int(dut.out_bytes.value)]
            assert (int(dut.out_imm.value), got) == (expected_imm, expected or b"")
        poisoned += golden.err
        sums += not golden.err and bool(expected)
    assert poisoned > 50 and sums > 50
