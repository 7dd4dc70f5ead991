"""epic_spread: the narrow words of each wide one, as many as go with it, without a pause."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import PATTERNS, Sink, reset, start_clock

BENCH = Bench(
    top="epic_spread",
    sources=("epic_spread.v",),
    small=((ICARUS, {"IN_WIDTH": 128, "OUT_WIDTH": 32}), (VERILATOR, {"IN_WIDTH": 32, "OUT_WIDTH": 32})),
    configurations=tuple(
        (simulator, {"IN_WIDTH": 32 * ratio, "OUT_WIDTH": 32})
        for simulator in (ICARUS, VERILATOR)
        for ratio in (1, 2, 4, 8)
    ),
)

IN, OUT = parameter("IN_WIDTH", 128), parameter("OUT_WIDTH", 32)
RATIO = IN // OUT


@cocotb.test()
@cocotb.parametrize(pause=["never", "sparse", "bursts"])
async def words(dut, pause: str) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    for name in ("in_valid", "in_data", "in_count"):
        getattr(dut, name).value = 0
    start_clock(dut)
    sink = Sink(dut, "out", PATTERNS[pause](3))
    await reset(dut)
    expected = []
    for number in range(120):
        count = 1 + number % RATIO
        word = choice.randrange(1 << IN)
        expected += [word >> OUT * i & (1 << OUT) - 1 for i in range(count)]
        dut.in_valid.value, dut.in_data.value, dut.in_count.value = 1, word, count % RATIO
        while True:
            await RisingEdge(dut.clk)
            if int(dut.in_ready.value):
                break
    dut.in_valid.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk)
    assert list(sink.words) == expected
    if pause == "never":
        assert sink.cycles[-1] - sink.cycles[0] == len(expected) - 1
