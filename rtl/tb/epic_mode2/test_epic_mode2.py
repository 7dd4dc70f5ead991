"""epic_mode2, the whole engine: frames on all ports, what it sends beside what the golden engine sends, byte for byte.
What its core decides is the business of epic_m2_core; here is how it is wired to ports, registers and forwarding."""

from __future__ import annotations

from itertools import product

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from epic_mode3 import test_epic_mode3 as whole
from epic_mode3.test_epic_mode3 import Frame, _end, descriptor

from epic_models.reference.endpoint import EdgeEnd, ack_aeth
from epic_models.reference.group import GroupParams
from epic_models.reference.mode2 import Mode2Engine
from epic_models.reference.tree import Tree, build_group
from epic_spec.codec import encode
from epic_spec.packets import NULL_BIT
from epic_spec.tables import COUNTERS, Opcode, Operator, Primitive
from epic_testbed.rtl import registers, tables2
from epic_testbed.rtl.check.sources import closure, modules
from epic_testbed.rtl.tables import Placed

TINY = {
    "DATA_W": 64,
    "PORTS": 2,
    "MTU": 64,
    "SLOTS": 16,
    "EDGES": 8,
    "GROUPS": 4,
    "WINDOW": 8,
    "RANKS": 16,
    "CLOCK_MHZ": 100,
}
BENCH = Bench(
    top="epic_mode2",
    sources=tuple(path.name for path in closure(["epic_mode2"], modules())),
    small=((ICARUS, TINY), (VERILATOR, TINY | {"DATA_W": 128, "PORTS": 4, "MTU": 1024})),
)

PORTS, MTU, WINDOW = parameter("PORTS", 2), parameter("MTU", 64), parameter("WINDOW", 8)
BYTES = parameter("DATA_W", 64) // 8
RANKS = parameter("RANKS", 16)
UNFORWARDED = 0x028
# Nothing is repeated in a simulation of milliseconds.
TIMEOUTS = {"rto_initial_us": 200_000, "rto_min_us": 200_000, "rto_max_us": 400_000}


class TB(whole.TB):
    """All ports, the control plane, the golden engine, and the ranks: one behind each port."""

    def __init__(self, dut) -> None:
        super().__init__(dut)
        self.golden = Mode2Engine()

    async def begin(self, **params: object) -> None:
        """A group whose root this engine is."""
        await self.start()
        values = GroupParams(
            group=1, mode=2, world_size=PORTS, window=WINDOW, payload_bytes=MTU, **(TIMEOUTS | params)
        )
        ends = {(r, "x"): (_end(0, 1, r, 2), _end(r, 1, r, 1)) for r in range(PORTS)}
        plan = build_group(Tree("x", {"x": tuple(range(PORTS))}), values, ends, seed=1)
        self.ranks = [EdgeEnd(plan.ranks[r].edge, values) for r in range(PORTS)]
        for command in tables2.install(Placed(plan.engines["x"], 0, 0, list(range(PORTS))), RANKS):
            for word in range(command.words):
                await self.write(registers.DATA + 4 * word, command.data >> 32 * word & 0xFFFFFFFF)
            await self.write(registers.COMMAND, command.table << 28 | command.at)
        for _ in range(100):
            if await self.read(registers.STATUS) == 2:  # idle, and not busy with the last of them
                break
        else:
            raise AssertionError("the group is not installed after 100 reads of STATUS")
        self.golden.install(plan.engines["x"], 0.0)

    async def act(self, rank: int, frame: bytes) -> None:
        """A frame of a rank, and all that comes of it: of a port an acknowledgement and a result in any order."""
        at = [len(port.left) for port in self.ports]
        self.push(rank, frame)
        await self.settle(100)
        for p, port in enumerate(self.ports):
            got = sorted(out.data for out in port.left[at[p] :])
            assert got == sorted(self.expected[p][at[p] :]), f"port {p}: {[one.hex() for one in got]}"

    async def check_counted(self) -> None:
        """Counters are those of the golden engine, and no port has lost a frame."""
        got = {name: await self.read(registers.COUNTER + 4 * at) for at, name in enumerate(COUNTERS)}
        wanted = self.golden.counters() | {"tx_frames": sum(map(len, self.expected))}
        differ = {n: (got[n], wanted[n]) for n in COUNTERS if got[n] != wanted[n]}
        assert not differ, f"counters (got, expected): {differ}"
        assert await self.overflows() == [0] * PORTS


@cocotb.test()
async def it_says_what_it_is(dut) -> None:
    tb = TB(dut)
    await tb.start()
    shape = await tb.read(registers.SHAPE)
    assert (shape & 15, shape >> 4 & 15, 1 << (shape >> 8 & 15)) == (2, PORTS, BYTES)
    assert await tb.read(registers.MTU) == MTU
    assert await tb.read(registers.FAN) >> 16 == WINDOW
    assert await tb.read(registers.STATUS) == 2


@cocotb.test()
async def cells_of_all_ports(dut) -> None:
    """More cells than the window, of all lengths: contributions, results, acknowledgements, a duplicate, a gap."""
    tb = TB(dut)
    await tb.begin()
    said = descriptor(Primitive.ALLREDUCE, Operator.SUM, tag=1).pack()
    sizes = (4, MTU, 0, MTU - 4, BYTES, 2 * BYTES)
    for cell in range(2 * WINDOW):
        size = sizes[cell % len(sizes)]
        frames = [
            encode(end.data(Opcode.SEND_ONLY_IMM, cell, said | (0 if size else NULL_BIT),
                            tb.choice.randbytes(size), ackreq=True)[1])
            for end in tb.ranks
        ]  # fmt: skip
        if cell == 3:
            ahead = tb.ranks[0].data(Opcode.SEND_ONLY_IMM, cell + 1, said, bytes(4), ackreq=True)[1]
            await tb.act(0, encode(ahead))
        for rank, frame in enumerate(frames):
            await tb.act(rank, frame)
        if cell == 5:
            await tb.act(1, frames[1])
        for rank, end in enumerate(tb.ranks):
            await tb.act(rank, encode(end.ack(cell, ack_aeth(0))[1]))
    counted = tb.golden.counters()
    assert counted["tx_result"] == 2 * WINDOW * PORTS and counted["rx_duplicate"] == 1, counted
    await tb.check_counted()


@cocotb.test()
async def other_frames_are_forwarded(dut) -> None:
    """What is not EPIC goes to the ports that flood names, as it came, beside EPIC frames; without leave, nowhere."""
    tb = TB(dut)
    await tb.begin()
    everywhere = (1 << PORTS) - 1
    others = [
        bytes(6 * [0x02]) + bytes(6 * [0x04]) + b"\x08\x06" + tb.choice.randbytes(60 + p)
        for p in range(PORTS)
    ]
    for p, frame in enumerate(others):
        tb.ports[p].waiting.append(Frame(frame))
    await tb.settle(100)
    await tb.write(registers.CONTROL, everywhere)
    for p, frame in enumerate(others):
        tb.ports[p].waiting.append(Frame(frame))
    await tb.settle(100)
    assert not any(port.left for port in tb.ports)
    assert await tb.read(UNFORWARDED) == PORTS
    await tb.write(registers.CONTROL, everywhere | everywhere << 8)
    said = descriptor(Primitive.ALLREDUCE, Operator.SUM, tag=1).pack()
    for p, frame in enumerate(others):
        tb.ports[p].waiting.append(Frame(frame))
        tb.push(p, encode(tb.ranks[p].data(Opcode.SEND_ONLY_IMM, 0, said, bytes(4), ackreq=True)[1]))
    await tb.settle(400)
    for p, port in enumerate(tb.ports):
        wanted = [frame for q, frame in enumerate(others) if q != p]
        got = [frame.data for frame in port.left]
        assert sorted(got) == sorted(wanted + tb.expected[p]), f"port {p}: {[one.hex() for one in got]}"
    for port, (what, count) in product(range(PORTS), ((4, 0), (8, PORTS - 1))):  # bad frames, forwarded ones
        assert await tb.read(registers.PORT + 16 * port + what) == count
    for _ in range(4):
        await RisingEdge(dut.clk)
