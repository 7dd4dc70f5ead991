"""epic_slice: words come through unchanged, in order, one a cycle; ready and valid are registers."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench
from common.streams import PATTERNS, Sink, Source, reset, start_clock, until

BENCH = Bench(
    top="epic_slice",
    sources=("epic_slice.v",),
    small=((ICARUS, {"WIDTH": 32}),),
    configurations=tuple(
        (simulator, {"WIDTH": width}) for simulator in (ICARUS, VERILATOR) for width in (1, 32)
    ),
)


class TB:
    """A source, a sink, and the words between them."""

    def __init__(self, dut, idle: str = "never", backpressure: str = "never") -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        start_clock(dut)
        self.source = Source(dut, "in", PATTERNS[idle](1))
        self.sink = Sink(dut, "out", PATTERNS[backpressure](2))

    def give(self, count: int) -> list[int]:
        words = [self.choice.getrandbits(len(self.dut.in_data)) for _ in range(count)]
        self.source.queue += words
        return words


@cocotb.test
@cocotb.parametrize(
    idle=["never", "alternating", "sparse", "bursts"],
    backpressure=["never", "alternating", "sparse", "bursts"],
)
async def words_come_through(dut, idle: str, backpressure: str) -> None:
    tb = TB(dut, idle, backpressure)
    await reset(dut)
    words = tb.give(200)
    await until(dut, lambda: len(tb.sink.words) == len(words), 4_000, "all words")
    assert list(tb.sink.words) == words
    for _ in range(5):
        await RisingEdge(dut.clk)
    assert len(tb.sink.words) == len(words), "a word came twice"


@cocotb.test
async def one_word_a_cycle(dut) -> None:
    tb = TB(dut)
    await reset(dut)
    words = tb.give(100)
    await until(dut, lambda: len(tb.sink.words) == len(words), 200, "all words")
    assert tb.sink.cycles[-1] - tb.sink.cycles[0] == len(words) - 1


@cocotb.test
async def no_path_from_side_to_side(dut) -> None:
    """Valid and ready do not follow what changes on the other side within a cycle."""
    start_clock(dut)
    dut.in_valid.value = dut.in_data.value = dut.out_ready.value = 0
    await reset(dut)
    choice = random.Random(cocotb.RANDOM_SEED)

    def shown() -> tuple[int, int, int]:
        valid = int(dut.out_valid.value)
        return int(dut.in_ready.value), valid, int(dut.out_data.value) if valid else 0

    for _ in range(200):
        await RisingEdge(dut.clk)
        await ReadOnly()
        before = shown()
        await FallingEdge(dut.clk)
        dut.in_valid.value, dut.in_data.value = choice.randrange(2), choice.getrandbits(len(dut.in_data))
        dut.out_ready.value = choice.randrange(2)
        await ReadOnly()
        assert shown() == before


@cocotb.test
async def reset_forgets(dut) -> None:
    tb = TB(dut, backpressure="never")
    tb.sink.pause = iter(lambda: True, None)
    await reset(dut)
    tb.give(2)
    await until(dut, lambda: dut.in_ready.value == 0, 20, "both words are in")
    await reset(dut)
    tb.sink.pause = None
    words = tb.give(3)
    await until(dut, lambda: len(tb.sink.words) == len(words), 40, "all words")
    assert list(tb.sink.words) == words
