"""epic_mode3, the whole engine: frames on all ports, what it sends beside what the golden engine sends, byte for byte.
Cycles a cell and latency are measured and recorded; nothing may be lost while they are."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise, product

import cocotb
from cocotb.triggers import RisingEdge
from cocotb.types import LogicArray
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from common.runner import ICARUS, VERILATOR, Bench, parameter, record, steps
from common.streams import PATTERNS, reset, start_clock

from epic_models.reference.endpoint import EdgeEnd, EngineCapabilities
from epic_models.reference.group import GroupParams
from epic_models.reference.mode3 import Mode3Engine
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.codec import encode
from epic_spec.packets import NULL_BIT, Descriptor
from epic_spec.tables import COUNTERS, Datatype, Opcode, Operator, Primitive
from epic_testbed.rtl import registers, tables3
from epic_testbed.rtl.check.sources import closure, modules
from epic_testbed.rtl.tables import Placed

SOURCES = tuple(path.name for path in closure(["epic_mode3"], modules()))

FULL = {"DATA_W": 128, "PORTS": 4, "CORE_W": 512, "MTU": 1024}
SHARED = {"DATA_W": 128, "PORTS": 4, "CORE_W": 128, "MTU": 1024}
TINY = {"DATA_W": 64, "PORTS": 2, "CORE_W": 128, "MTU": 64, "CHILDREN": 2, "EDGES": 4, "GROUPS": 2}
BENCH = Bench(
    top="epic_mode3",
    sources=SOURCES,
    small=((ICARUS, TINY), (VERILATOR, FULL)),
    configurations=(
        (VERILATOR, SHARED),
        (VERILATOR, {"DATA_W": 512, "PORTS": 2, "CORE_W": 512, "MTU": 4096}),
    ),
)

WIDTH, PORTS, MTU = parameter("DATA_W", 128), parameter("PORTS", 4), parameter("MTU", 1024)
CORE_W = parameter("CORE_W", WIDTH)
PATIENCE = parameter("PATIENCE", 4096)
LANE_LATENCY = 2  # of integer lanes
DEEPER = {256: 3, 512: 6}.get(WIDTH, 0)  # cycles that epic_rx and epic_tx take beyond those with 128 bits
BYTES = WIDTH // 8
HEADERS, ICRC = 58, 4  # Ethernet to immediate
SLOTS = 64
# Cycles without a beat after which nothing more comes: passes over a cell's payloads, and what lies around them.
QUIET = max(150, 60 + (PORTS + 1) * -(-8 * MTU // CORE_W))
ALLREDUCE, REDUCE, BROADCAST = Primitive.ALLREDUCE, Primitive.REDUCE, Primitive.BROADCAST


@dataclass
class Frame:
    """A frame and the cycles of its first and last beat."""

    data: bytes
    first: int = -1
    last: int = -1


@dataclass
class Port:
    """What goes into a port, and what has come out."""

    waiting: deque[Frame] = field(default_factory=deque)
    entered: list[Frame] = field(default_factory=list)
    left: list[Frame] = field(default_factory=list)
    offset: int = 0
    partial: bytearray = field(default_factory=bytearray)
    begun: int = 0
    not_before: int = 0  # the cycle in which the next frame may start
    every: int = 0  # cycles from the start of a frame to that of the next


class TB:
    """All ports, the control plane, and the golden engine."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.ports = [Port() for _ in range(PORTS)]
        self.cycle = 0
        self.busy_at = 0
        self.stopped = 0  # ports whose m_axis_tready stays low
        self.golden = Mode3Engine(EngineCapabilities(mode=3))
        self.expected: list[list[bytes]] = [[] for _ in range(PORTS)]
        start_clock(dut)
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        for part in (self.axil.write_if, self.axil.read_if):
            part.log.setLevel("WARNING")

    async def start(self, idle: str = "never", backpressure: str = "never") -> None:
        for name in ("tdata", "tkeep", "tvalid", "tlast", "tuser"):
            getattr(self.dut, f"s_axis_{name}").value = 0
        self.dut.m_axis_tready.value = 0
        await reset(self.dut)
        cocotb.start_soon(self._drive([PATTERNS[idle](p) for p in range(PORTS)],
                                      [PATTERNS[backpressure](9 + p) for p in range(PORTS)]))  # fmt: skip
        for _ in range(80):
            await RisingEdge(self.dut.clk)

    async def _drive(self, idle, pauses) -> None:
        """Every cycle: what is offered stays until it is taken."""
        dut = self.dut
        offered = [False] * PORTS
        while True:
            data = keep = last = ready = 0
            for p, port in enumerate(self.ports):
                may = port.waiting and (port.offset or self.cycle >= port.not_before)
                offered[p] = offered[p] or bool(may and not next(idle[p]))
                ready |= (not next(pauses[p])) << p
                if offered[p]:
                    beat = port.waiting[0].data[port.offset : port.offset + BYTES]
                    data |= int.from_bytes(beat, "little") << WIDTH * p
                    keep |= ((1 << len(beat)) - 1) << BYTES * p
                    last |= (port.offset + BYTES >= len(port.waiting[0].data)) << p
            ready &= ~self.stopped
            valid = sum(offered[p] << p for p in range(PORTS))
            dut.s_axis_tdata.value, dut.s_axis_tkeep.value, dut.s_axis_tlast.value = data, keep, last
            dut.s_axis_tvalid.value, dut.m_axis_tready.value = valid, ready
            await RisingEdge(dut.clk)
            self.cycle += 1
            taken = valid & int(dut.s_axis_tready.value)
            gone = int(dut.m_axis_tvalid.value) & ~self.stopped
            if valid or gone:
                self.busy_at = self.cycle
            if gone & ready:
                out, keeps, lasts = (
                    known(getattr(dut, f"m_axis_t{n}").value) for n in ("data", "keep", "last")
                )
            for p, port in enumerate(self.ports):
                if taken >> p & 1:
                    offered[p] = False
                    self._entered(port)
                if gone & ready & 1 << p:
                    beat = part(out, p, WIDTH).to_bytes(BYTES, "little")
                    size = part(keeps, p, BYTES).bit_count()
                    if not port.partial:
                        port.begun = self.cycle
                    port.partial += beat[:size]
                    if part(lasts, p, 1):
                        port.left.append(Frame(bytes(port.partial), port.begun, self.cycle))
                        port.partial.clear()

    def _entered(self, port: Port) -> None:
        frame = port.waiting[0]
        if port.offset == 0:
            frame.first = self.cycle
            port.not_before = self.cycle - 1 + port.every
        port.offset += BYTES
        if port.offset >= len(frame.data):
            frame.last = self.cycle
            port.entered.append(port.waiting.popleft())
            port.offset = 0

    async def settle(self, quiet: int = QUIET) -> None:
        self.busy_at = started = self.cycle
        while self.cycle - self.busy_at < quiet:
            await RisingEdge(self.dut.clk)
            assert self.cycle - started < 200_000, "the engine does not come to rest"

    async def install(self, number: int = 1, *, window: int = SLOTS // 2, **params: object) -> Group:
        """A group of one rank behind each port, whose root this engine is."""
        group = Group(number, window, params)
        entry = group.plan.engines["x"]
        for command in tables3.install(Placed(entry, 0, 0, list(range(PORTS))), []):
            for word in range(command.words):
                await self.write(registers.DATA + 4 * word, command.data >> 32 * word & 0xFFFFFFFF)
            await self.write(registers.COMMAND, command.table << 28 | command.at)
        assert await self.read(registers.STATUS) == 2  # idle, and not busy with the last of them
        self.golden.install(entry, 0.0)
        return group

    async def write(self, address: int, value: int) -> None:
        await self.axil.write_dword(address, value, byteorder="little")

    async def read(self, address: int) -> int:
        return await self.axil.read_dword(address, byteorder="little")

    def push(self, port: int, frame: bytes) -> None:
        """A frame for a port, which the golden engine gets at once."""
        self.ports[port].waiting.append(Frame(frame))
        for to, packet in self.golden.receive_frame(port, frame, 0.0).sends:
            self.expected[to].append(encode(packet))

    def check_frames(self) -> None:
        """Each port has sent what the golden engine sends over it, in this order."""
        for p, port in enumerate(self.ports):
            got = [frame.data for frame in port.left]
            assert len(got) == len(self.expected[p]), (
                f"port {p}: {len(got)} frames, expected {len(self.expected[p])}"
            )
            for at, (one, other) in enumerate(zip(got, self.expected[p], strict=True)):
                assert one == other, f"port {p}, frame {at}: {one.hex()}, expected {other.hex()}"

    async def overflows(self) -> list[int]:
        """Frames that each port has lost for want of room."""
        return [await self.read(registers.PORT + 16 * port) for port in range(PORTS)]

    async def check_counters(self, failed: int = 0) -> None:
        """They are those of the golden engine, but for frames that failed to leave; no port has lost one that came."""
        got = {name: await self.read(registers.COUNTER + 4 * at) for at, name in enumerate(COUNTERS)}
        left = sum(map(len, self.expected)) - failed
        wanted = self.golden.counters() | {"tx_frames": left, "tx_failed": failed}
        differ = {n: (got[n], wanted[n]) for n in COUNTERS if got[n] != wanted[n]}
        assert not differ, f"counters (got, expected): {differ}"
        for port, what in product(range(PORTS), (0, 4, 8)):  # overflow, bad frames, forwarded ones
            assert await self.read(registers.PORT + 16 * port + what) == 0, f"port {port}, counter {what}"


def known(value: LogicArray) -> int | LogicArray:
    """A number, unless some bits are X: those of a port that has never sent may be."""
    try:
        return int(value)
    except ValueError:
        return value


def part(value: int | LogicArray, port: int, width: int) -> int:
    """The bits of a port."""
    if isinstance(value, int):
        return value >> width * port & (1 << width) - 1
    return int(value[width * port + width - 1 : width * port])


def pace(payload: int) -> int:
    """Cycles from the start of a frame to that of the next, as the wire and the core's share of a port allow them.

    The core decides on a frame a cycle, and passes of less than LANE_LATENCY beats for one slot wait for one another.
    """
    beats = -(-payload * 8 // CORE_W)
    share = (PORTS - 1) * max(beats, LANE_LATENCY) + beats if beats else PORTS
    return max(-(-(HEADERS + payload + ICRC) // BYTES), share)


class Group:
    """A root group, and frames of its ranks."""

    def __init__(self, number: int, window: int, params: dict[str, object]) -> None:
        values = GroupParams(
            group=number,
            mode=3,
            world_size=PORTS,
            window=window,
            slots=2 * window,
            payload_bytes=MTU,
            **params,
        )
        ends = {(r, "x"): (_end(0, number, r, 2), _end(r, number, r, 1)) for r in range(PORTS)}
        self.plan = build_group(Tree("x", {"x": tuple(range(PORTS))}), values, ends, seed=number)
        self.ranks = [EdgeEnd(self.plan.ranks[r].edge, values) for r in range(PORTS)]

    def frame(self, rank: int, cell: int, descriptor: Descriptor, payload: bytes = b"") -> bytes:
        """A contribution of a rank: NULL without a payload."""
        imm = descriptor.pack() | (0 if payload else NULL_BIT)
        return encode(self.ranks[rank].data(Opcode.SEND_ONLY_IMM, cell, imm, payload, ackreq=True)[1])


def _end(port: int, number: int, rank: int, side: int) -> LinkEnd:
    return LinkEnd(port, f"10.{number}.{rank}.{side}", f"02:00:00:{number:02x}:{rank:02x}:{side:02x}")


def descriptor(primitive: Primitive, operator: Operator, rank: int = 0xFFFF, tag: int = 0) -> Descriptor:
    return Descriptor(primitive, operator, Datatype.INT32, rank=rank, tag=tag)


def frames_of(
    choice: random.Random, group: Group, cell: int, kind: int, size: int
) -> list[tuple[int, bytes]]:
    """All ranks' contributions to a cell: (port, frame). Kinds: SUM, MAX, MIN, Reduce, Broadcast, barrier."""
    one, tag = cell % PORTS, cell % 64
    if kind == 5 or not size:
        said = descriptor(ALLREDUCE, Operator.NONE, tag=tag)
        return [(rank, group.frame(rank, cell, said)) for rank in range(PORTS)]
    if kind == 4:
        said, givers = descriptor(BROADCAST, Operator.SUM, one, tag), [one]
    elif kind == 3:
        said, givers = descriptor(REDUCE, Operator.SUM, one, tag), list(range(PORTS))
    else:
        operator = (Operator.SUM, Operator.MAX, Operator.MIN)[kind]
        said, givers = descriptor(ALLREDUCE, operator, tag=tag), list(range(PORTS))
    return [
        (rank, group.frame(rank, cell, said, choice.randbytes(size) if rank in givers else b""))
        for rank in range(PORTS)
    ]


@cocotb.test()
async def it_says_what_it_is(dut) -> None:
    tb = TB(dut)
    await tb.start()
    shape = await tb.read(registers.SHAPE)
    assert (shape & 15, shape >> 4 & 15, 1 << (shape >> 8 & 15)) == (3, PORTS, BYTES)
    assert await tb.read(registers.MTU) == MTU
    assert await tb.read(registers.STATUS) == 2


# ------------------------------------------------------------------------------------------------------------- figures


@cocotb.test()
@cocotb.parametrize(payload=[size for size in (1024, 256, 64, 0) if size <= MTU])
async def frames_back_to_back_on_all_ports(dut, payload: int) -> None:
    """As fast as the core's share allows, nothing is lost: the engine takes what the wires bring."""
    tb = TB(dut)
    await tb.start()
    group = await tb.install()
    beats = -(-(HEADERS + payload + ICRC) // BYTES)
    cells = 100
    for port in tb.ports:
        port.every = pace(payload)
    for cell in range(cells):
        for port, frame in frames_of(tb.choice, group, cell, 0, payload):
            tb.push(port, frame)
    await tb.settle(400)
    tb.check_frames()
    await tb.check_counters()
    outs = [frame.first for frame in tb.ports[0].left]
    ins = [frame.first for frame in tb.ports[0].entered]
    given, taken = (ins[-1] - ins[0]) / (cells - 1), (outs[-1] - outs[0]) / (cells - 1)
    assert taken <= given + 0.1, f"{taken:.2f} cycles a cell, offered one in {given:.2f}"
    record(f"{payload} B: beats a frame", beats)
    record(f"{payload} B: cycles from frame to frame", given)
    record(f"{payload} B: cycles a cell", round(taken, 2))
    dut._log.info(
        f"payload {payload}: {beats} beats, a frame in {given:.2f} cycles, a cell in {taken:.2f} cycles"
    )


@cocotb.test()
@cocotb.parametrize(payload=[size for size in (1024, 256, 64, 0) if size <= MTU])
async def latency(dut, payload: int) -> None:
    """Of a cell whose frames come in all at once, with nothing else in the engine."""
    tb = TB(dut)
    await tb.start()
    group = await tb.install()
    for port, frame in frames_of(tb.choice, group, 0, 0, payload):
        tb.push(port, frame)
    await tb.settle()
    tb.check_frames()
    ins, outs = [p.entered[0] for p in tb.ports], [p.left[0] for p in tb.ports]
    assert len({frame.first for frame in ins}) == 1
    whole = min(f.first for f in outs) - ins[0].first
    behind = min(f.first for f in outs) - max(f.last for f in ins)
    # It is stored whole before it is looked at; what comes then does not depend on its length, but for the beats of the
    # passes before the last, which the core takes one after the other.
    assert behind < 60 + DEEPER + (PORTS - 1) * -(-payload * 8 // CORE_W)
    record(f"{payload} B: first beat in to first beat out", whole)
    record(f"{payload} B: last beat in to first beat out", behind)
    dut._log.info(
        f"payload {payload}: first beat to first beat {whole} cycles, last beat to first beat {behind}"
    )


# --------------------------------------------------------------------------------------------------------------- traps


@cocotb.test()
async def every_ordered_pair_of_primitives_in_a_slot(dut) -> None:
    """Two slots, cell after cell: nothing of a cell is left to the next of its slot, of whatever kind both are."""
    tb = TB(dut)
    await tb.start()
    group = await tb.install(window=1)
    kinds = _all_pairs(6)
    assert set(pairwise(kinds)) == set(product(range(6), repeat=2))
    for at, kind in enumerate(kinds):
        for cell in (2 * at, 2 * at + 1):
            for port, frame in frames_of(tb.choice, group, cell, kind, tb.choice.choice((4, 60, MTU))):
                tb.push(port, frame)
        await tb.settle()
    tb.check_frames()
    await tb.check_counters()


def _all_pairs(count: int) -> list[int]:
    """A walk over 0 to count-1 in which every ordered pair comes once: a closed Eulerian path of the full graph."""
    left = {node: list(range(count)) for node in range(count)}
    path, stack = [], [0]
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            path.append(stack.pop())
    return path[::-1]


@cocotb.test()
async def a_second_collective_finds_nothing_of_the_first(dut) -> None:
    """The same slots, no reset, no installation between; late frames of the first are stale to the second."""
    tb = TB(dut)
    await tb.start()
    window = 4
    group = await tb.install(window=window)
    late: list[tuple[int, bytes]] = []
    for collective, (kind, size) in enumerate(((0, MTU), (3, 64), (5, 0), (1, MTU), (4, 20))):
        for first in range(0, 4 * window, window):
            for cell in range(first, first + window):
                number = 4 * window * collective + cell
                frames = frames_of(tb.choice, group, number, kind, size)
                for port, frame in frames:
                    tb.push(port, frame)
                late.append(frames[number % PORTS])
            await tb.settle()
            # The newest are answered with their results again, all before the last round of slots is stale.
            for port, frame in late[-3 * window :]:
                tb.push(port, frame)
            await tb.settle()
    tb.check_frames()
    await tb.check_counters()
    assert tb.golden.counters()["rx_stale"] > 0
    assert tb.golden.counters()["tx_replay"] > 0


@cocotb.test()
async def a_stale_frame_and_a_new_one_in_one_slot_at_once(dut) -> None:
    """On two ports, from a few cycles before one another to a few cycles behind."""
    tb = TB(dut)
    await tb.start()
    group = await tb.install(window=1)
    said = descriptor(ALLREDUCE, Operator.SUM)
    for number, apart in enumerate(range(-8, 9)):
        cell = 2 * number
        stale = group.frame(0, cell - 4, said, bytes(4))
        fresh = [group.frame(rank, cell, said, tb.choice.randbytes(4)) for rank in range(PORTS)]
        for port, frame in ((0, stale), (1, fresh[1])):
            tb.ports[port].not_before = tb.cycle + 12 + (apart if port else 0)
            tb.push(port, frame)
        await tb.settle()
        for rank in range(PORTS):
            if rank != 1:
                tb.push(rank, fresh[rank])
        await tb.settle()
    tb.check_frames()
    await tb.check_counters()
    assert tb.golden.counters()["rx_stale"] == 17


@cocotb.test()
async def a_port_that_stops_for_a_while(dut) -> None:
    """It is waited for once. Then the others go on at full rate, what is for it is lost and counted, and when it works
    again nothing of that is left: what was lost comes when it is asked for.

    Six largest cells, as fast as the core takes them: three fill the queue of the port that stopped, the others wait at
    the ports they came from, which have room for four.
    """
    tb = TB(dut)
    await tb.start()
    group = await tb.install()
    stopped, cells = PORTS - 1, iter(range(SLOTS))
    barriers, full, fast, last = ([next(cells) for _ in range(count)] for count in (4, 6, 32, 4))

    async def run(numbers: list[int], kind: int, size: int, quiet: int = QUIET) -> None:
        for port in tb.ports:
            port.every = pace(size)
        for cell in numbers:
            for port, frame in frames_of(tb.choice, group, cell, kind, size):
                tb.push(port, frame)
        await tb.settle(quiet)

    await run(barriers, 5, 0)
    tb.check_frames()
    tb.stopped = 1 << stopped
    await run(full, 0, MTU, max(300, QUIET))
    assert len(tb.ports[0].left) < len(tb.expected[0]), "nobody waits for the port"
    # While it is waited for: replays for the others, more than the queues of passes hold, or a port's queue of jobs.
    said = descriptor(ALLREDUCE, Operator.NONE, tag=barriers[0] % 64)
    for port in tb.ports:
        port.every = pace(0)
    for number in range(56):
        port = number % stopped
        tb.push(port, group.frame(port, barriers[0], said))
    # What was pushed is at work for a while, in which nothing leaves either, before the port is waited for.
    await tb.settle(PATIENCE + 200 + QUIET)
    assert await tb.overflows() == [0] * PORTS, "what waits behind the port that stopped does not fit"
    for port in range(stopped):
        assert not _missing(tb, port), "the port was not given up"

    # Given up: it costs the others nothing.
    size = min(MTU, 256)
    before = len(tb.ports[0].left), len(tb.ports[0].entered)
    await run(fast, 0, size, 400)
    outs = [frame.first for frame in tb.ports[0].left[before[0] :]]
    ins = [frame.first for frame in tb.ports[0].entered[before[1] :]]
    assert len(outs) == len(ins) == len(fast)
    given, taken = ((at[-1] - at[0]) / (len(fast) - 1) for at in (ins, outs))
    assert taken <= given + 0.1, f"{taken:.2f} cycles a cell, offered one in {given:.2f}"

    # What was in its queue leaves, then it has everything again, and is given what it lost.
    tb.stopped = 0
    await tb.settle()
    lost = _missing(tb, stopped)
    assert len(lost) > len(fast)
    await run(last, 0, size)
    for cell in (full + fast)[-len(lost) :]:
        tb.push(stopped, group.frame(stopped, cell, descriptor(ALLREDUCE, Operator.SUM, tag=cell % 64)))
    await tb.settle()
    assert _missing(tb, stopped) == lost
    replayed = [frame.data for frame in tb.ports[stopped].left[-len(lost) :]]
    assert replayed == [tb.expected[stopped][at] for at in lost]
    await tb.check_counters(failed=len(lost))
    for at in reversed(lost):
        del tb.expected[stopped][at]
    tb.check_frames()


def _missing(tb: TB, port: int) -> list[int]:
    """Which of the expected frames the port has not sent; what it has sent is in their order."""
    sent = deque(frame.data for frame in tb.ports[port].left)
    missing = []
    for at, frame in enumerate(tb.expected[port]):
        if sent and sent[0] == frame:
            sent.popleft()
        else:
            missing.append(at)
    assert not sent, f"port {port}: {sent[0].hex()} was not expected, or not there"
    return missing


@cocotb.test()
@cocotb.parametrize(idle=["never", "sparse", "bursts"], backpressure=["never", "alternating", "bursts"])
async def all_kinds_and_lengths(dut, idle: str, backpressure: str) -> None:
    """A window of cells at a time, on all ports."""
    tb = TB(dut)
    await tb.start(idle, backpressure)
    window = 4
    group = await tb.install(window=window)
    sizes = (0, 4, 12, 16, 32, 48, 60, 64, MTU - 4, MTU)
    for first in range(0, steps(10) * window, window):
        for cell in range(first, first + window):
            for port, frame in frames_of(
                tb.choice, group, cell, tb.choice.randrange(6), tb.choice.choice(sizes)
            ):
                tb.push(port, frame)
        await tb.settle()
    tb.check_frames()
    await tb.check_counters()
