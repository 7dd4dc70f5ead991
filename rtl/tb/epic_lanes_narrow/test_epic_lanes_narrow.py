"""epic_lanes_narrow: words of every form become beats, each with what goes beside it, at the latency stated."""

from __future__ import annotations

import random
import re
from collections import Counter, deque

import cocotb
import ml_dtypes
import numpy as np
from cocotb.triggers import RisingEdge
from common.frames import VH
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_lanes_narrow",
    sources=("epic_lanes_narrow.v", "epic_fp_round.v"),
    small=((ICARUS, {"DATA_W": 64, "FP16": 1, "SIDE_W": 3}),),
    configurations=tuple(
        (simulator, {"DATA_W": width, "FP16": fp16, "SIDE_W": side})
        for simulator in (ICARUS, VERILATOR)
        for width, fp16, side in ((64, 0, 3), (64, 1, 1), (128, 1, 9), (512, 1, 12))
    ),
)

WIDTH = parameter("DATA_W", 128)
FP16 = parameter("FP16", 0)
SIDE = parameter("SIDE_W", 1)
LATENCY = 3 if FP16 else 0

WIDE, BF16, LITTLE = (
    1 << int(re.search(rf"FORM_{name} = (\d+);", VH.read_text())[1]) for name in ("WIDE", "BF16", "LITTLE")
)
FORMS = [0, WIDE, WIDE | BF16, WIDE | LITTLE, WIDE | BF16 | LITTLE] if FP16 else [0]
NAN = {0: 0x7E00, BF16: 0x7FC0}

# Ties of both formats to either side, and just off them; the ends of their ranges; infinities and NaN.
SPECIAL = (
    0x3F801000, 0x3F803000, 0x3F801001, 0x3F808000, 0x3F818000, 0x3F808001, 0x477FEFFF, 0x477FF000, 0x7F7FFFFF,
    0x33000000, 0x33000001, 0x387FF000, 0x00000001, 0x00008000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
    0x80000000, 0,
)  # fmt: skip


def reference(low: bytes, high: bytes, form: int) -> bytes:
    """The beat, by NumPy and ml_dtypes."""
    if not form & WIDE:
        return low
    values = np.empty(WIDTH // 16, np.float32)
    values[0::2], values[1::2] = np.frombuffer(low, "<f4"), np.frombuffer(high, "<f4")
    with np.errstate(all="ignore"):
        words = values.astype(ml_dtypes.bfloat16 if form & BF16 else np.float16).view(np.uint16)
    words = np.where(np.isnan(values), np.uint16(NAN[form & BF16]), words)
    return words.astype("<u2" if form & LITTLE else ">u2").tobytes()


class TB:
    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.compared: Counter[int] = Counter()
        dut.in_side.value = 0
        start_clock(dut)

    def half(self) -> bytes:
        return b"".join(
            (
                self.choice.choice(SPECIAL) if self.choice.random() < 0.5 else self.choice.getrandbits(32)
            ).to_bytes(4, "little")
            for _ in range(WIDTH // 32)
        )

    async def run(self, cycles: int) -> None:
        """A word a cycle; beat and side are compared in the cycle in which they must be there."""
        dut = self.dut
        await reset(dut)
        flight: deque[tuple[int, bytes, int] | None] = deque([None] * LATENCY)
        for _ in range(cycles):
            form = self.choice.choice(FORMS)
            low, high, side = self.half(), self.half(), self.choice.getrandbits(SIDE)
            word = int.from_bytes(low + high, "little") | form << 2 * WIDTH
            dut.in_word.value = word if FP16 else int.from_bytes(low, "little")
            dut.in_side.value = side
            flight.append((form, reference(low, high, form), side))
            await RisingEdge(dut.clk)
            want = flight.popleft()
            if want is None:
                assert dut.out_side.value == 0  # as reset left it
                continue
            got = int(dut.out_beat.value).to_bytes(WIDTH // 8, "little")
            assert got == want[1], f"form {want[0]}: {got.hex()}, expected {want[1].hex()}"
            assert dut.out_side.value == want[2]
            self.compared[want[0]] += 1


@cocotb.test
async def every_form(dut) -> None:
    """Given words whose form changes from cycle to cycle, then each beat is NumPy's."""
    tb = TB(dut)
    await tb.run(2000)
    assert len(tb.compared) == (5 if FP16 else 1), tb.compared
    record("beats_compared", sum(tb.compared.values()))


@cocotb.test(skip=not FP16)
async def reset_clears_the_side(dut) -> None:
    """Given words under way, then a reset leaves none that says it is one."""
    tb = TB(dut)
    await tb.run(20)
    dut.in_side.value = 0
    await reset(dut, 1)
    for _ in range(LATENCY + 1):
        assert dut.out_side.value == 0
        await RisingEdge(dut.clk)
