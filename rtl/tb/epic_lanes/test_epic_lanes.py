"""epic_lanes: every operation in both byte orders on every lane, mixed from cycle to cycle, with the latency stated.

What the floating-point units compute is shown on millions of values by tb/arithmetic; here that each lane gets the
right operands, turned as it must, and gives its result at the right place and time.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from common.frames import VH
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_lanes",
    sources=("epic_lanes.v", "epic_lane.v", "epic_lane_maxmin.v", "epic_fp32_add.v"),
    small=(
        (ICARUS, {"DATA_W": 64, "FP32": 0, "LATENCY": 1}),
        (VERILATOR, {"DATA_W": 128, "FP32": 1, "LATENCY": 8}),
    ),
    configurations=tuple(
        (simulator, {"DATA_W": width, "FP32": fp32, "LATENCY": latency})
        for simulator in (ICARUS, VERILATOR)
        for width, fp32, latency in (
            (64, 0, 1), (64, 0, 2), (128, 0, 3), (256, 0, 5), (64, 1, 7), (128, 1, 8), (256, 1, 9), (512, 1, 11),
        )
    ),
)  # fmt: skip

WIDTH = parameter("DATA_W", 128)
FP32 = parameter("FP32", 0)
LATENCY = parameter("LATENCY", 2)
BYTES = WIDTH // 8

OPERATIONS = {name: int(code) for name, code in re.findall(r"LANE_(\w+) = 4'd(\d+);", VH.read_text())}

# Words that order, carry and sign show themselves in; as floats they are zeros, ones, infinities, NaN, subnormals.
WORDS = (
    0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00800001,
)  # fmt: skip


def reference(name: str, little: bool, a: bytes, b: bytes) -> bytes:
    """The beat that the operation gives, by NumPy."""
    order = "<" if little else ">"
    kind, _, operator = name.rpartition("_")
    if kind == "FP32" and not FP32:
        return a
    if not kind:
        raw_a, raw_b = np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)
        return {"A": raw_a, "B": raw_b, "OR": raw_a | raw_b}[operator].tobytes()
    dtype = np.dtype(f"{order}{'f4' if kind == 'FP32' else 'i4'}")
    left, right = np.frombuffer(a, dtype), np.frombuffer(b, dtype)
    with np.errstate(all="ignore"):
        result = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}[operator](left, right)
    if kind == "FP32":  # the NaN of the lanes; -0 is less than +0
        result = np.where(np.isnan(result), np.array(0x7FC00000, np.uint32).view(np.float32), result)
        if operator != "SUM":
            signs = (
                np.signbit(left) | np.signbit(right)
                if operator == "MIN"
                else np.signbit(left) & np.signbit(right)
            )
            result = np.where(
                (left == 0) & (right == 0), np.where(signs, np.float32(-0.0), np.float32(0.0)), result
            )
    return result.astype(dtype).tobytes()


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

    async def run(self, cycles: int, busy: float) -> None:
        """Beats in a share `busy` of the cycles; what comes out is compared in the cycle in which it must."""
        dut = self.dut
        await reset(dut)
        flight: deque[tuple[str, bytes] | None] = deque([None] * LATENCY)
        for _ in range(cycles):
            name = self.choice.choice(list(OPERATIONS))
            little = self.choice.random() < 0.5
            a, b = self.operand(), self.operand()
            if self.choice.random() < 0.1:
                b = a
            valid = self.choice.random() < busy
            dut.in_valid.value = int(valid)
            dut.in_op.value = OPERATIONS[name]
            dut.in_little.value = int(little)
            dut.in_a.value = int.from_bytes(a, "little")
            dut.in_b.value = int.from_bytes(b, "little")
            await RisingEdge(dut.clk)
            # This edge shows what stood before it: what was given LATENCY edges ago.
            want = flight.popleft()
            assert dut.out_valid.value == int(want is not None)
            if want is not None:
                got = int(dut.out_data.value).to_bytes(BYTES, "little")
                assert got == want[1], f"{want[0]}: {got.hex()}, expected {want[1].hex()}"
                self.compared[want[0]] += 1
            flight.append(
                (f"{name} {'little' if little else 'big'}", reference(name, little, a, b)) if valid else None
            )


@cocotb.test
@cocotb.parametrize(busy=[1.0, 0.4])
async def every_operation(dut, busy: float) -> None:
    """Given operations that change from beat to beat, then each result is NumPy's, LATENCY cycles later."""
    tb = TB(dut)
    await tb.run(1500, busy)
    assert len(tb.compared) == 2 * len(OPERATIONS), tb.compared  # all, in both byte orders
    record("beats_compared", sum(tb.compared.values()))


@cocotb.test
async def reset_clears_what_is_under_way(dut) -> None:
    tb = TB(dut)
    await tb.run(20, 1.0)
    dut.in_valid.value = 0
    await reset(dut, 1)
    for _ in range(LATENCY + 2):
        await RisingEdge(dut.clk)
        assert dut.out_valid.value == 0
