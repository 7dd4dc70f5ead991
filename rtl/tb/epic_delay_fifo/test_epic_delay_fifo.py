"""epic_delay_fifo: nothing lost or changed, nothing earlier than DELAY, a word a cycle, and full when it is full."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import PATTERNS, Sink, Source, reset, start_clock, until

BENCH = Bench(
    top="epic_delay_fifo",
    sources=("epic_delay_fifo.v",),
    small=(
        (ICARUS, {"WIDTH": 32, "DEPTH": 16, "DELAY": 7}),
        (VERILATOR, {"WIDTH": 32, "DEPTH": 4, "DELAY": 1}),
    ),
    configurations=tuple(
        (simulator, {"WIDTH": width, "DEPTH": depth, "DELAY": delay})
        for simulator in (ICARUS, VERILATOR)
        for width, depth, delay in (
            (32, 2, 1),
            (32, 4, 1),
            (64, 8, 2),
            (32, 16, 7),
            (130, 16, 15),
            (32, 8, 12),
        )
    ),
)

WIDTH = parameter("WIDTH", 32)
DEPTH = parameter("DEPTH", 16)
DELAY = parameter("DELAY", 1)


class TB:
    def __init__(self, dut, idle: str, backpressure: str) -> None:
        self.dut = dut
        choice = random.Random(cocotb.RANDOM_SEED)
        self.words = [choice.getrandbits(WIDTH) for _ in range(300)]
        self.entered: list[int] = []  # cycle of each transfer in
        self.left: list[int] = []
        self.most = 0
        self.now = 0
        start_clock(dut)
        self.source = Source(dut, "in", PATTERNS[idle](1))
        self.sink = Sink(dut, "out", PATTERNS[backpressure](2))

    async def run(self) -> None:
        await reset(self.dut)
        cocotb.start_soon(self._watch())
        self.source.queue.extend(self.words)
        await until(self.dut, lambda: len(self.sink.words) == len(self.words), 20_000, "all words")
        for _ in range(DELAY + 5):
            await RisingEdge(self.dut.clk)
        assert list(self.sink.words) == self.words
        assert all(out - came >= DELAY for came, out in zip(self.entered, self.left, strict=True))

    async def _watch(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.now += 1
            held = len(self.entered) - len(self.left)
            assert (dut.in_ready.value == 1) == (held < DEPTH), f"in_ready with {held} of {DEPTH} words"
            if dut.out_valid.value == 1 and dut.out_ready.value == 1:
                self.left.append(self.now)
            if dut.in_valid.value == 1 and dut.in_ready.value == 1:
                self.entered.append(self.now)
            self.most = max(self.most, held)


@cocotb.test
@cocotb.parametrize(idle=["never", "sparse", "bursts"], backpressure=["never", "alternating", "bursts"])
async def words_come_through(dut, idle: str, backpressure: str) -> None:
    tb = TB(dut, idle, backpressure)
    await tb.run()
    if backpressure == "bursts" and idle != "bursts":
        assert tb.most == DEPTH  # it has been full
    if idle == backpressure == "never":
        assert tb.left[0] - tb.entered[0] == DELAY
        if DEPTH > DELAY:
            assert tb.left == [came + DELAY for came in tb.entered], "not a word a cycle"
            assert tb.entered[-1] - tb.entered[0] == len(tb.words) - 1
