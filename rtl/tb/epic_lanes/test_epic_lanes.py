"""epic_lanes: every operation in both byte orders on every lane, mixed from cycle to cycle, with the latency stated.

What the units compute is shown on millions of values by tb/arithmetic; here that each lane gets the right operands,
turned as it must, and gives its result at the right place and time; and, with FP16, that a slot's word says what it is.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from dataclasses import dataclass

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from common.frames import VH
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import reset, start_clock

from epic_models.reference import numerics
from epic_spec.tables import Datatype, Operator

BENCH = Bench(
    top="epic_lanes",
    sources=(
        "epic_lanes.v", "epic_lane_pair.v", "epic_lane.v", "epic_lane_maxmin.v", "epic_fp32_add.v", "epic_fp_widen.v",
    ),
    small=(
        (ICARUS, {"DATA_W": 64, "FP32": 0, "LATENCY": 1}),
        (VERILATOR, {"DATA_W": 128, "FP32": 1, "LATENCY": 8}),
        (ICARUS, {"DATA_W": 64, "FP32": 1, "FP16": 1, "LATENCY": 10}),
    ),
    configurations=tuple(
        (simulator, {"DATA_W": width, "FP32": fp32, "FP16": fp16, "LATENCY": latency})
        for simulator in (ICARUS, VERILATOR)
        for width, fp32, fp16, latency in (
            (64, 0, 0, 1), (64, 0, 0, 2), (128, 0, 0, 3), (256, 0, 0, 5), (64, 1, 0, 7), (128, 1, 0, 8),
            (256, 1, 0, 9), (512, 1, 0, 11), (64, 0, 1, 8), (64, 1, 1, 9), (128, 1, 1, 10), (512, 0, 1, 12),
        )
    ),
)  # fmt: skip

WIDTH = parameter("DATA_W", 128)
FP32 = parameter("FP32", 0)
FP16 = parameter("FP16", 0)
LATENCY = parameter("LATENCY", 2)
BYTES = WIDTH // 8

OPERATIONS = {name: int(code) for name, code in re.findall(r"LANE_(\w+) = 4'd(\d+);", VH.read_text())}
WIDE, BF16, LITTLE = (
    1 << int(re.search(rf"FORM_{name} = (\d+);", VH.read_text())[1]) for name in ("WIDE", "BF16", "LITTLE")
)

# Words that order, carry and sign show themselves in; as floats they are zeros, ones, infinities, NaN, subnormals.
WORDS = (
    0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00800001,
    0x3C007C00, 0xFC000001, 0x7C017E00, 0x80010400, 0x7F810080,
)  # fmt: skip


@dataclass(frozen=True)
class Word:
    """A slot's word. `high` is None where it means nothing, as without FP16."""

    low: bytes
    high: bytes | None = None
    form: int = 0

    def bits(self) -> int:
        if not FP16:
            return int.from_bytes(self.low, "little")
        low, high = (int.from_bytes(half or b"", "little") for half in (self.low, self.high))
        return low | high << WIDTH | self.form << 2 * WIDTH

    def agrees(self, bits: int) -> bool:
        """Whether these are its bits, but for those that mean nothing."""
        mask = (1 << WIDTH) - 1
        return (
            bits & mask == int.from_bytes(self.low, "little")
            and bits >> 2 * WIDTH == self.form
            and (self.high is None or bits >> WIDTH & mask == int.from_bytes(self.high, "little"))
        )


def combined(operator: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """By NumPy; with the NaN of the lanes, and -0 less than +0."""
    with np.errstate(all="ignore"):
        result = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}[operator](left, right)
    if left.dtype.kind != "f":
        return result
    result = np.where(np.isnan(result), np.array(0x7FC00000, np.uint32).view(np.float32), result)
    if operator == "SUM":
        return result
    either, both = np.signbit(left) | np.signbit(right), np.signbit(left) & np.signbit(right)
    zero = np.where(either if operator == "MIN" else both, np.float32(-0.0), np.float32(0.0))
    return np.where((left == 0) & (right == 0), zero, result)


def halves(payload: bytes, datatype: str, order: str) -> np.ndarray:
    """The binary32 of a payload's 16-bit elements."""
    elements = np.frombuffer(payload, f"{order}u2").astype(np.uint16)
    if datatype == "BF16":
        return (elements.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        return elements.view(np.float16).astype(np.float32)


def reference(name: str, little: bool, a: bytes, b: Word) -> Word:
    """The word that the operation gives."""
    order = "<" if little else ">"
    kind, _, operator = name.rpartition("_")
    if not kind:
        if operator == "B":
            return b if FP16 else Word(b.low)
        raw_a, raw_b = np.frombuffer(a, np.uint8), np.frombuffer(b.low, np.uint8)
        return Word({"A": raw_a, "OR": raw_a | raw_b}[operator].tobytes())
    if (kind == "FP32" and not FP32) or (kind in ("FP16", "BF16") and not FP16):
        return Word(a)
    if kind in ("FP16", "BF16"):
        left = halves(a, kind, order)
        if b.form & WIDE:
            assert b.high is not None
            right = np.empty_like(left)
            right[0::2], right[1::2] = np.frombuffer(b.low, "<f4"), np.frombuffer(b.high, "<f4")
        else:
            right = halves(b.low, kind, order)
        result = combined(operator, left, right).astype("<f4")
        form = WIDE | (BF16 if kind == "BF16" else 0) | (LITTLE if little else 0)
        return Word(result[0::2].tobytes(), result[1::2].tobytes(), form)
    dtype = np.dtype(f"{order}{'f4' if kind == 'FP32' else 'i4'}")
    native = dtype.newbyteorder("=")
    left, right = (np.frombuffer(beat, dtype).astype(native) for beat in (a, b.low))
    return Word(combined(operator, left, right).astype(dtype).tobytes())


class TB:
    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.compared: Counter[str] = Counter()
        dut.in_valid.value = 0
        start_clock(dut)

    def operand(self) -> bytes:
        return b"".join(
            (
                self.choice.choice(WORDS) if self.choice.random() < 0.5 else self.choice.getrandbits(32)
            ).to_bytes(4, self.choice.choice(["big", "little"]))
            for _ in range(WIDTH // 32)
        )

    def slot(self) -> Word:
        """Any word that a slot can hold."""
        if not FP16:
            return Word(self.operand())
        form = self.choice.choice([0, WIDE, WIDE | BF16, WIDE | LITTLE, WIDE | BF16 | LITTLE])
        return Word(self.operand(), self.operand(), form)

    def give(self, name: str, little: bool, a: bytes, b: Word) -> None:
        self.dut.in_op.value = OPERATIONS[name]
        self.dut.in_little.value = int(little)
        self.dut.in_a.value = int.from_bytes(a, "little")
        self.dut.in_b.value = b.bits()

    async def run(self, cycles: int, busy: float) -> None:
        """Beats in a share `busy` of the cycles; what comes out is compared in the cycle in which it must."""
        dut = self.dut
        await reset(dut)
        flight: deque[tuple[str, Word] | None] = deque([None] * LATENCY)
        for _ in range(cycles):
            name = self.choice.choice(list(OPERATIONS))
            little = self.choice.random() < 0.5
            a, b = self.operand(), self.slot()
            if self.choice.random() < 0.1:
                b = Word(a, a if FP16 else None, b.form)
            valid = self.choice.random() < busy
            dut.in_valid.value = int(valid)
            self.give(name, little, a, b)
            await RisingEdge(dut.clk)
            # This edge shows what stood before it: what was given LATENCY edges ago.
            want = flight.popleft()
            assert dut.out_valid.value == int(want is not None)
            if want is not None:
                got = int(dut.out_data.value)
                assert want[1].agrees(got), f"{want[0]}: {got:#x}, expected {want[1]}"
                self.compared[want[0]] += 1
            flight.append(
                (f"{name} {'little' if little else 'big'}", reference(name, little, a, b)) if valid else None
            )

    async def through(self, name: str, little: bool, a: bytes, b: Word) -> Word:
        """The word that one operation gives."""
        self.dut.in_valid.value = 1
        self.give(name, little, a, b)
        await RisingEdge(self.dut.clk)
        self.dut.in_valid.value = 0
        for _ in range(LATENCY):
            await RisingEdge(self.dut.clk)
        assert self.dut.out_valid.value == 1
        bits, mask = int(self.dut.out_data.value), (1 << WIDTH) - 1
        low, high = (part.to_bytes(BYTES, "little") for part in (bits & mask, bits >> WIDTH & mask))
        return Word(low, high, bits >> 2 * WIDTH)


@cocotb.test
@cocotb.parametrize(busy=[1.0, 0.4])
async def every_operation(dut, busy: float) -> None:
    """Given operations that change from beat to beat, then each result is NumPy's, LATENCY cycles later."""
    tb = TB(dut)
    await tb.run(1500, busy)
    assert len(tb.compared) == 2 * len(OPERATIONS), tb.compared  # all, in both byte orders
    record("beats_compared", sum(tb.compared.values()))


@cocotb.test(skip=not FP16)
async def a_cell_of_16_bit_floats_is_not_rounded(dut) -> None:
    """Given contributions of up to nine children, the first of them kept as it is, then the slot holds the golden
    engine's accumulator, which rounds when a partial or result leaves, and a replay leaves it as it is."""
    tb = TB(dut)
    await reset(dut)
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    cells = 0
    for datatype in (Datatype.FP16, Datatype.BF16):
        for order in ("big", "little"):
            for operator in (Operator.SUM, Operator.MAX, Operator.MIN):
                for children in (2, 3, 9):
                    values = rng.normal(size=(children, WIDTH // 16)).astype(np.float32)
                    given = [numerics.store(row, datatype, order) for row in values]
                    held = numerics.load(given[0], datatype, order)
                    word = await tb.through("A", order == "little", given[0], tb.slot())
                    assert word.form == 0 and word.low == given[0]
                    for payload in given[1:]:
                        name = f"{datatype.name}_{operator.name}"
                        word = await tb.through(name, order == "little", payload, word)
                        numerics.reduce_into(held, numerics.load(payload, datatype, order), operator)
                    word = await tb.through("B", order == "little", tb.operand(), word)
                    assert word.form & WIDE
                    got = np.empty_like(held)
                    assert word.high is not None
                    got[0::2], got[1::2] = np.frombuffer(word.low, "<f4"), np.frombuffer(word.high, "<f4")
                    assert got.tobytes() == held.tobytes(), (datatype, operator, order, children)
                    cells += 1
    record("cells", cells)


@cocotb.test
async def reset_clears_what_is_under_way(dut) -> None:
    tb = TB(dut)
    await tb.run(20, 1.0)
    dut.in_valid.value = 0
    await reset(dut, 1)
    for _ in range(LATENCY + 2):
        await RisingEdge(dut.clk)
        assert dut.out_valid.value == 0
