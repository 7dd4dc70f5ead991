"""epic_regs over AXI-Lite: what the engine is, table commands and their order, slot state, counters of ports."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import PATTERNS, reset, start_clock

BENCH = Bench(
    top="epic_regs",
    sources=("epic_regs.v",),
    small=((ICARUS, {"PORTS": 4, "DATA_W": 128}), (VERILATOR, {"PORTS": 8, "DATA_W": 512})),
    configurations=tuple(
        (simulator, {"PORTS": ports, "DATA_W": width})
        for simulator in (ICARUS, VERILATOR)
        for ports, width in ((2, 64), (4, 128), (8, 512))
    ),
)

PORTS, WIDTH = parameter("PORTS", 4), parameter("DATA_W", 128)
INPUTS = (
    "busy", "idle", "state_tag", "state_bitmap", "state_done", "state_served", "counter_value", "overflow", "bad_frame",
    "forwarded", "unforwarded",
)  # fmt: skip


class TB:
    """An AXI-Lite master, and a core that takes commands and is busy for a while."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.commands: list[tuple[int, int, int]] = []
        self.busy_cycles = 0
        start_clock(dut)
        for name in INPUTS:
            getattr(dut, name).value = 0
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.axil.write_if.log.setLevel("WARNING")
        self.axil.read_if.log.setLevel("WARNING")

    async def start(self, pause: str = "never") -> None:
        for seed, channel in enumerate(
            (
                self.axil.write_if.aw_channel, self.axil.write_if.w_channel, self.axil.write_if.b_channel,
                self.axil.read_if.ar_channel, self.axil.read_if.r_channel,
            )
        ):  # fmt: skip
            channel.set_pause_generator(PATTERNS[pause](seed))
        await reset(self.dut)
        cocotb.start_soon(self._core())
        cocotb.start_soon(self._counters())

    async def _core(self) -> None:
        dut, left = self.dut, 0
        while True:
            await RisingEdge(dut.clk)
            if int(dut.command.value):
                assert left == 0, "a command came while the core was busy"
                self.commands.append(
                    (int(dut.command_table.value), int(dut.command_index.value), int(dut.command_data.value))
                )
                left = self.busy_cycles
            elif left:
                left -= 1
                if left == 0:
                    dut.state_tag.value = self.commands[-1][1]
            dut.busy.value = int(left > 0)

    async def _counters(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            index = self.dut.counter_index.value
            self.dut.counter_value.value = 1000 + (int(index) if index.is_resolvable else 0)

    async def read(self, address: int) -> int:
        return await self.axil.read_dword(address, byteorder="little")

    async def write(self, address: int, value: int) -> None:
        await self.axil.write_dword(address, value, byteorder="little")


@cocotb.test()
async def it_says_what_the_engine_is(dut) -> None:
    tb = TB(dut)
    await tb.start()
    assert await tb.read(0x000) == 0x45504943
    assert await tb.read(0x004) == 0x100
    assert await tb.read(0x008) == 3 | PORTS << 4 | (WIDTH // 8).bit_length() - 1 << 8
    assert await tb.read(0x00C) == 128
    assert await tb.read(0x010) == 1024
    assert await tb.read(0x014) == 8 << 16 | 32
    assert await tb.read(0x018) == 16 << 16 | 8
    assert await tb.read(0x01C) == 256
    assert await tb.read(0xFFC) == 0


@cocotb.test()
@cocotb.parametrize(pause=["never", "sparse", "bursts"], busy=[0, 7, 40])
async def commands_go_one_by_one(dut, pause: str, busy: int) -> None:
    tb = TB(dut)
    await tb.start(pause)
    tb.busy_cycles = busy
    choice = random.Random(cocotb.RANDOM_SEED)
    expected = []
    for _ in range(12):
        data = choice.getrandbits(320)
        table, index = choice.randrange(1, 8), choice.getrandbits(16)
        for word in range(10):
            await tb.write(0x040 + 4 * word, data >> 32 * word & 0xFFFFFFFF)
        await tb.write(0x030, table << 28 | index)
        expected.append((table, index, data))
        if busy > 1:  # the state is that of this command: the read has waited for it
            assert await tb.read(0x080) == index
    for _ in range(busy + 10):
        await RisingEdge(dut.clk)
    assert tb.commands == expected


@cocotb.test()
@cocotb.parametrize(busy=[2, 40])
async def a_command_waits_for_the_one_before(dut, busy: int) -> None:
    """They come as fast as the bus brings them; the core asserts that it is not busy."""
    tb = TB(dut)
    await tb.start()
    tb.busy_cycles = busy
    for word in range(10):
        await tb.write(0x040 + 4 * word, word)
    for index in range(8):
        await tb.write(0x030, 5 << 28 | index)
    for _ in range(busy + 10):
        await RisingEdge(dut.clk)
    assert [index for _, index, _ in tb.commands] == list(range(8))


@cocotb.test()
async def state_control_and_status(dut) -> None:
    tb = TB(dut)
    await tb.start()
    dut.state_tag.value, dut.state_bitmap.value = 0xABCDEF, 0x0123456789ABCDEF
    dut.state_done.value, dut.state_served.value, dut.idle.value = 1, 0, 1
    assert [await tb.read(a) for a in (0x080, 0x084, 0x088, 0x08C)] == [0xABCDEF, 0x89ABCDEF, 0x01234567, 1]
    dut.state_done.value, dut.state_served.value = 0, 1
    assert await tb.read(0x08C) == 2
    assert await tb.read(0x024) == 2
    await tb.write(0x020, 0xA55A)
    mask = (1 << PORTS) - 1
    assert (int(dut.forward.value), int(dut.flood.value)) == (0x5A & mask, 0xA5 & mask)
    assert await tb.read(0x020) == 0xA55A


@cocotb.test()
async def counters(dut) -> None:
    tb = TB(dut)
    await tb.start()
    choice = random.Random(cocotb.RANDOM_SEED)
    for index in range(58):
        assert await tb.read(0x200 + 4 * index) == 1000 + index
    expected = {(kind, port): 0 for kind in range(3) for port in range(PORTS)}
    lost = 0
    for _ in range(200):
        for kind, name in enumerate(("overflow", "bad_frame", "forwarded")):
            bits = choice.getrandbits(PORTS)
            getattr(dut, name).value = bits
            for port in range(PORTS):
                expected[kind, port] += bits >> port & 1
        bit = choice.getrandbits(1)
        dut.unforwarded.value = bit
        lost += bit
        await RisingEdge(dut.clk)
    for name in ("overflow", "bad_frame", "forwarded", "unforwarded"):
        getattr(dut, name).value = 0
    for (kind, port), count in expected.items():
        assert await tb.read(0x100 + 16 * port + 4 * kind) == count
    assert await tb.read(0x028) == lost
