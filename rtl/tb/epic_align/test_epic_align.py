"""epic_align: 6 zero bytes in front of every frame, whatever its length and whoever waits."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import PATTERNS, axis_rules, axis_sink, reset, start_clock, until

BENCH = Bench(
    top="epic_align",
    sources=("epic_align.v",),
    small=((ICARUS, {"DATA_W": 64}), (ICARUS, {"DATA_W": 512})),
    configurations=tuple(
        (simulator, {"DATA_W": width}) for simulator in (ICARUS, VERILATOR) for width in (64, 128, 256, 512)
    ),
)
WIDTH = parameter("DATA_W", 64)
BYTES = WIDTH // 8


class TB:
    def __init__(self, dut, idle: str, back: str) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.idle = PATTERNS[idle](1)
        start_clock(dut)
        dut.in_valid.value = 0
        self.sink = axis_sink(dut, "m_axis", PATTERNS[back](2))
        cocotb.start_soon(axis_rules(dut, "m_axis"))
        self.waited = 0  # cycles in which the input had to wait

    async def send(self, frame: bytes) -> None:
        dut = self.dut
        for at in range(0, len(frame), BYTES):
            while next(self.idle):
                dut.in_valid.value = 0
                await RisingEdge(dut.clk)
            beat = frame[at : at + BYTES]
            dut.in_valid.value = 1
            # What is behind the frame is junk.
            dut.in_data.value = int.from_bytes(beat + self.choice.randbytes(BYTES - len(beat)), "little")
            dut.in_bytes.value = len(beat) - 1
            dut.in_last.value = int(at + BYTES >= len(frame))
            await RisingEdge(dut.clk)
            while dut.in_ready.value != 1:
                self.waited += 1
                await RisingEdge(dut.clk)
        dut.in_valid.value = 0


@cocotb.test
@cocotb.parametrize(("idle", ["never", "sparse", "bursts"]), ("back", ["never", "alternating", "bursts"]))
async def every_length(dut, idle: str, back: str) -> None:
    tb = TB(dut, idle, back)
    await reset(dut)
    frames = [tb.choice.randbytes(size) for size in range(1, 3 * BYTES + 8)]
    frames += [tb.choice.randbytes(size) for size in (1, 1, BYTES, BYTES - 6, BYTES - 5, BYTES)]
    for frame in frames:
        await tb.send(frame)
    await until(dut, lambda: tb.sink.count() == len(frames), 5000, "the last frame")
    for frame in frames:
        assert bytes(tb.sink.recv_nowait()) == bytes(6) + frame
    assert tb.sink.empty()


@cocotb.test
async def waits_only_for_the_beat_that_a_frame_gets_more(dut) -> None:
    tb = TB(dut, "never", "never")
    await reset(dut)
    await RisingEdge(dut.clk)
    for _ in range(64):  # back to back, none has a beat more
        await tb.send(tb.choice.randbytes(2 * BYTES - 6))
    assert tb.waited == 0
    for _ in range(64):
        await tb.send(tb.choice.randbytes(BYTES))
    await until(dut, lambda: tb.sink.count() == 128, 100, "the last frame")
    assert 63 <= tb.waited <= 64
