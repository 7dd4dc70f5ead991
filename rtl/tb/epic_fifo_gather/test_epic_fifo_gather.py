"""epic_fifo_gather: packets of narrow words come out as wide ones, each from a wide word of its own, the rest zero."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_fifo_gather",
    sources=("epic_fifo_gather.v", "epic_fifo.v", "epic_ram.v"),
    small=(
        (ICARUS, {"IN_WIDTH": 16, "OUT_WIDTH": 64, "DEPTH": 8}),
        (VERILATOR, {"IN_WIDTH": 16, "OUT_WIDTH": 16, "DEPTH": 8}),
    ),
    configurations=tuple(
        (simulator, {"IN_WIDTH": 16, "OUT_WIDTH": 16 * ratio, "DEPTH": depth})
        for simulator in (ICARUS, VERILATOR)
        for ratio in (1, 2, 4, 8)
        for depth in (4, 32)
    ),
)

IN, OUT, DEPTH = parameter("IN_WIDTH", 16), parameter("OUT_WIDTH", 64), parameter("DEPTH", 8)
RATIO = OUT // IN


async def write(dut, choice: random.Random, words: list[int], *, late: bool, keep: bool, gaps: float) -> None:
    """One packet; its end comes with its last word or, `late`, some cycles after."""
    end = dut.commit if keep else dut.rewind
    for place, word in enumerate(words):
        while choice.random() < gaps:
            dut.in_valid.value = 0
            await RisingEdge(dut.clk)
        dut.in_valid.value, dut.in_data.value = 1, word
        end.value = int(not late and place == len(words) - 1)
        while True:
            await ReadOnly()
            taken = int(dut.in_ready.value)
            await RisingEdge(dut.clk)
            if taken:
                break
        dut.in_valid.value = end.value = 0
    if late:
        for _ in range(choice.randrange(3)):
            await RisingEdge(dut.clk)
        end.value = 1
        await RisingEdge(dut.clk)
        end.value = 0


async def read(dut, choice: random.Random, got: list[int], stops: float) -> None:
    while True:
        ready = choice.random() >= stops
        dut.out_ready.value = int(ready)
        await ReadOnly()
        if ready and int(dut.out_valid.value):
            got.append(int(dut.out_data.value))
        await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.4], stops=[0.0, 0.6])
async def packets(dut, gaps: float, stops: float) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    for name in ("in_valid", "in_data", "commit", "rewind", "out_ready"):
        getattr(dut, name).value = 0
    start_clock(dut)
    await reset(dut)
    got: list[int] = []
    expected: list[int] = []
    cocotb.start_soon(read(dut, choice, got, stops))
    for number in range(150):
        count = 1 + number % (RATIO * (DEPTH - 1))  # what fits beside a word that waits
        words = [choice.randrange(1, 1 << IN) for _ in range(count)]
        keep = choice.random() < 0.7
        await write(dut, choice, words, late=choice.random() < 0.5, keep=keep, gaps=gaps)
        if keep:
            expected += [
                sum(word << IN * i for i, word in enumerate(words[at : at + RATIO]))
                for at in range(0, count, RATIO)
            ]
    for _ in range(200):
        await RisingEdge(dut.clk)
    assert got == expected
    assert int(dut.room.value) == DEPTH
