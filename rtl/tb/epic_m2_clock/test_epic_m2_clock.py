"""epic_m2_clock: a microsecond is CLOCK_MHZ cycles; with 0 time moves by `skip` alone."""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_m2_clock",
    sources=("epic_m2_clock.v",),
    small=((ICARUS, {"CLOCK_MHZ": 100}), (ICARUS, {"CLOCK_MHZ": 0})),
    configurations=(
        (VERILATOR, {"CLOCK_MHZ": 1}),
        (VERILATOR, {"CLOCK_MHZ": 250}),
        (ICARUS, {"CLOCK_MHZ": 1000}),
    ),
)

CLOCK_MHZ = parameter("CLOCK_MHZ", 100)


@cocotb.test
async def time_passes(dut) -> None:
    start_clock(dut)
    dut.skip.value = 0
    await reset(dut)
    seen = []
    for _ in range(5 * max(CLOCK_MHZ, 20)):
        await RisingEdge(dut.clk)
        seen.append(int(dut.now.value))
    if CLOCK_MHZ == 0:
        assert set(seen) == {0}
    else:
        lengths = [seen.count(value) for value in sorted(set(seen))]
        assert all(length == CLOCK_MHZ for length in lengths[1:-1]), lengths
        assert len(lengths) in (5, 6)


@cocotb.test
async def time_is_skipped(dut) -> None:
    start_clock(dut)
    dut.skip.value = 0
    await reset(dut)
    before = int(dut.now.value)
    dut.skip.value = 0xFFFFFFF0
    await RisingEdge(dut.clk)
    dut.skip.value = 0x20
    await RisingEdge(dut.clk)
    dut.skip.value = 0
    await RisingEdge(dut.clk)
    moved = (int(dut.now.value) - before) % (1 << 32)
    assert moved == 0x10 if CLOCK_MHZ == 0 else moved <= 3
