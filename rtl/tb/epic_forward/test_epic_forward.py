"""epic_forward: each frame to the ports of its address, to those of `flood`, or nowhere; never back; and a port that
stands still holds up nobody."""

from __future__ import annotations

import random
from collections import Counter, deque

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, reset, start_clock

BENCH = Bench(
    top="epic_forward",
    sources=("epic_forward.v", "epic_axis_mux.v", "epic_arbiter.v", "epic_fifo.v", "epic_ram.v"),
    small=(
        (ICARUS, {"DATA_W": 64, "PORTS": 2, "MACS": 4, "DEPTH": 512}),
        (VERILATOR, {"DATA_W": 256, "PORTS": 4, "MACS": 16, "DEPTH": 64}),
    ),
    configurations=tuple(
        (simulator, {"DATA_W": width, "PORTS": ports, "MACS": macs, "DEPTH": depth})
        for simulator in (ICARUS, VERILATOR)
        for width, ports, macs, depth in ((64, 2, 4, 512), (128, 4, 16, 256), (256, 4, 16, 64), (512, 8, 16, 32))
    ),
)  # fmt: skip

WIDTH = parameter("DATA_W", 64)
PORTS = parameter("PORTS", 4)
MACS = parameter("MACS", 16)
DEPTH = parameter("DEPTH", 512)
BYTES = WIDTH // 8
FULL = (1 << BYTES) - 1
ALL = (1 << PORTS) - 1


class TB:
    """Drives and receives all ports, cycle by cycle (they are slices of wide signals), beside a model of the table."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.table: dict[int, tuple[int, int]] = {}  # entry -> (address, ports)
        self.flood = 0
        self.queues: list[deque[tuple[int, int, int]]] = [deque() for _ in range(PORTS)]  # (data, keep, last)
        self.received: list[list[bytes]] = [[] for _ in range(PORTS)]
        self.expected: list[dict[int, deque[bytes]]] = [
            {p: deque() for p in range(PORTS)} for _ in range(PORTS)
        ]
        self.dropped = 0
        self.held: set[int] = set()  # ports whose sink is not ready
        self.last_taken = 0
        self.beats_out = 0
        self.now = 0
        start_clock(dut)

    async def start(self, idle: str = "never", backpressure: str = "never") -> None:
        dut = self.dut
        for name in ("s_axis_tdata", "s_axis_tkeep", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready"):
            getattr(dut, name).value = 0
        for name in ("write", "write_index", "write_mac", "write_ports", "flood"):
            getattr(dut, name).value = 0
        await reset(dut)
        cocotb.start_soon(self._sources([PATTERNS[idle](port) for port in range(PORTS)]))
        cocotb.start_soon(self._sinks([PATTERNS[backpressure](50 + port) for port in range(PORTS)]))

    async def write(self, index: int, mac: int, ports: int) -> None:
        dut = self.dut
        dut.write.value, dut.write_index.value, dut.write_mac.value, dut.write_ports.value = (
            1,
            index,
            mac,
            ports,
        )
        await RisingEdge(dut.clk)
        dut.write.value = 0
        if index < MACS:
            self.table[index] = (mac, ports)

    async def set_flood(self, ports: int) -> None:
        self.dut.flood.value = self.flood = ports
        await RisingEdge(self.dut.clk)

    def ports_of(self, mac: int, source: int) -> int:
        found = 0
        for address, ports in self.table.values():
            if address == mac:
                found |= ports
        return (found or self.flood) & ~(1 << source) & ALL

    def send(self, source: int, mac: int, size: int, lost_at: int = 0) -> int:
        """A frame of random bytes behind its address; `lost_at`: ports where it will find no room. Gives its ports."""
        frame = mac.to_bytes(6, "big") + self.choice.randbytes(size - 6)
        aligned = bytes(6) + frame
        for at in range(0, len(aligned), BYTES):
            beat = aligned[at : at + BYTES]
            self.queues[source].append(
                (int.from_bytes(beat, "little"), (1 << len(beat)) - 1, int(at + BYTES >= len(aligned)))
            )
        ports = self.ports_of(mac, source)
        for port in range(PORTS):
            if ports & ~lost_at & 1 << port:
                self.expected[port][source].append(frame)
        return ports

    async def _sources(self, pauses) -> None:
        dut = self.dut
        offered: list[tuple[int, int, int] | None] = [None] * PORTS
        while True:
            for port in range(PORTS):
                if offered[port] is None and self.queues[port] and not next(pauses[port]):
                    offered[port] = self.queues[port].popleft()
            beats = [beat or (0, 0, 0) for beat in offered]
            dut.s_axis_tvalid.value = sum((beat is not None) << port for port, beat in enumerate(offered))
            dut.s_axis_tdata.value = sum(data << WIDTH * port for port, (data, _, _) in enumerate(beats))
            dut.s_axis_tkeep.value = sum(keep << BYTES * port for port, (_, keep, _) in enumerate(beats))
            dut.s_axis_tlast.value = sum(last << port for port, (_, _, last) in enumerate(beats))
            await RisingEdge(dut.clk)
            ready = int(dut.s_axis_tready.value)
            for port in range(PORTS):
                if offered[port] is not None and ready >> port & 1:
                    offered[port] = None
                    self.last_taken = self.now

    async def _sinks(self, pauses) -> None:
        dut = self.dut
        partial = [b""] * PORTS
        waiting: list[tuple[int, int, int] | None] = [None] * PORTS
        while True:
            ready = [port not in self.held and not next(pauses[port]) for port in range(PORTS)]
            dut.m_axis_tready.value = sum(is_ready << port for port, is_ready in enumerate(ready))
            await RisingEdge(dut.clk)
            self.now += 1
            self.dropped += int(dut.dropped.value)
            valid = int(dut.m_axis_tvalid.value)
            data, keep, last = (
                int(getattr(dut, f"m_axis_t{name}").value) for name in ("data", "keep", "last")
            )
            for port in range(PORTS):
                if not valid >> port & 1:
                    assert waiting[port] is None, f"port {port}: tvalid fell before tready"
                    continue
                beat = (
                    data >> WIDTH * port & (1 << WIDTH) - 1, keep >> BYTES * port & FULL, last >> port & 1,
                )  # fmt: skip
                assert waiting[port] in (None, beat), f"port {port}: a beat changed while it waited"
                waiting[port] = beat
                if not ready[port]:
                    continue
                waiting[port] = None
                self.beats_out += 1
                assert beat[1] == FULL or beat[2], f"port {port}: tkeep {beat[1]:#x} in mid-frame"
                partial[port] += beat[0].to_bytes(BYTES, "little")[: beat[1].bit_count()]
                if beat[2]:
                    self.received[port].append(partial[port][6:])
                    partial[port] = b""

    async def done(self, dropped: int = 0, quiet: int = 60) -> None:
        """When nothing has moved for `quiet` cycles: all frames came, in order of each source, and `dropped` pulsed."""
        still, before = 0, (0, 0)
        while still < quiet:
            await RisingEdge(self.dut.clk)
            state = (self.beats_out, sum(map(len, self.queues)))
            still, before = (still + 1, before) if state == before else (0, state)
            assert self.now < 200_000
        assert not any(self.queues), "beats that were never taken"
        for port in range(PORTS):
            for frame in self.received[port]:
                source = next((s for s, q in self.expected[port].items() if q and q[0] == frame), None)
                assert source is not None, (
                    f"port {port}: a frame of {len(frame)} bytes that should not be here, or now"
                )
                self.expected[port][source].popleft()
            left = {s: len(q) for s, q in self.expected[port].items() if q}
            assert not left, f"port {port}: frames that did not come, by source: {left}"
            self.received[port].clear()
        assert self.dropped == dropped, f"{self.dropped} dropped, expected {dropped}"


def address(number: int) -> int:
    return 0x02_00_00_00_00_00 + number * 0x010203


@cocotb.test
@cocotb.parametrize(idle=["never", "bursts"], backpressure=["never", "sparse"])
async def frames_go_where_the_table_says(dut, idle: str, backpressure: str) -> None:
    """Given known and unknown addresses and all lengths modulo a beat, then each frame is at its ports and no other."""
    tb = TB(dut)
    await tb.start(idle, backpressure)
    for entry in range(min(MACS, 8)):
        await tb.write(entry, address(entry), 1 << entry % PORTS)
    await tb.write(MACS - 1, 0xFFFFFFFFFFFF, ALL)
    await tb.set_flood(1)
    dropped = 0
    for turn in range(2 * BYTES + 20):
        source = tb.choice.randrange(PORTS)
        mac = tb.choice.choice([address(tb.choice.randrange(10)), 0xFFFFFFFFFFFF])
        # Few under way at a time: this is not about full queues.
        dropped += tb.send(source, mac, 14 + turn) == 0
        if turn % 4 == 3:
            while any(tb.queues):
                await RisingEdge(dut.clk)
            for _ in range(4 * DEPTH // 8 if backpressure != "never" else 40):
                await RisingEdge(dut.clk)
    await tb.done(dropped)
    assert dropped  # both happened: frames without a port to go to, and others


@cocotb.test
async def entries_can_be_changed_and_freed(dut) -> None:
    tb = TB(dut)
    await tb.start()
    await tb.write(0, address(0), 0b10)
    assert tb.send(0, address(0), 60) == 0b10
    await tb.done()
    await tb.write(0, address(0), 0)  # freed: an unknown address again
    assert tb.send(0, address(0), 60) == 0
    await tb.done(1)
    await tb.set_flood(ALL)
    assert tb.send(0, address(0), 60) == ALL & ~1
    await tb.write(255, address(0), 0b01)  # not an entry, as long as the table has fewer
    if MACS < 256:
        assert tb.send(0, address(0), 60) == ALL & ~1
    await tb.done(1)


@cocotb.test
async def a_port_that_stands_still_holds_up_nobody(dut) -> None:
    """Given a port that takes nothing, then what is for it is lost when its queue is full, and the rest goes on."""
    tb = TB(dut)
    await tb.start()
    await tb.write(0, address(0), 0b01)
    await tb.write(1, address(1), 0b10)
    tb.held = {0}
    size = 10 * BYTES  # 11 beats with the 6 bytes
    # A queue of DEPTH words and the two registers behind it.
    fits = [(DEPTH + extra) // 11 for extra in (0, 1, 2)]
    for _ in range(fits[-1] + 5):
        assert tb.send(1, address(0), size) == 1
    while any(tb.queues):
        await RisingEdge(dut.clk)
    for _ in range(20):
        tb.send(0, address(1), size)
    for _ in range(20 * 12 + 50):
        await RisingEdge(dut.clk)
    assert len(tb.received[1]) == 20, "the other port's frames"
    lost = tb.dropped
    assert fits[-1] + 5 - lost in fits, (lost, fits)
    for _ in range(lost):  # the last ones found no room
        tb.expected[0][1].pop()
    tb.held.clear()
    await tb.done(lost)


@cocotb.test
async def room_that_comes_back_in_mid_frame_does_not_mend_it(dut) -> None:
    """Given a full queue that drains while a frame comes in, then the frame, whose middle is lost, is lost."""
    tb = TB(dut)
    await tb.start()
    await tb.write(0, address(0), 0b01)
    tb.held = {0}
    tb.send(1, address(0), (DEPTH - 3) * BYTES - 6)
    tb.send(1, address(0), DEPTH // 2 * BYTES, lost_at=1)
    while len(tb.queues[1]) > DEPTH // 4:
        await RisingEdge(dut.clk)
    tb.held.clear()
    await tb.done(1)
    tb.dropped = 0
    tb.send(1, address(0), 60)
    await tb.done()


@cocotb.test
async def a_frame_longer_than_a_queue_is_lost_and_the_next_is_not(dut) -> None:
    tb = TB(dut)
    await tb.start()
    await tb.write(0, address(0), 0b01)
    tb.held = {0}
    for size in (60, (DEPTH + 2) * BYTES, 60):
        tb.send(1, address(0), size, lost_at=1 if size > 60 else 0)
    while any(tb.queues):
        await RisingEdge(dut.clk)
    for _ in range(10):
        await RisingEdge(dut.clk)
    tb.held.clear()
    await tb.done(1)


@cocotb.test
async def the_bus_takes_a_beat_a_cycle(dut) -> None:
    """Given all ports busy with minimal frames, then a beat is taken each cycle, the ports in turn."""
    tb = TB(dut)
    await tb.start()
    for port in range(PORTS):
        await tb.write(port % MACS, address(port), 1 << port)
    start = tb.now
    beats = 0
    for _ in range(20):
        for port in range(PORTS):
            if (port + 1) % PORTS < MACS:
                tb.send(port, address((port + 1) % PORTS), 60)
                beats += -(-66 // BYTES)
    await tb.done()
    assert tb.last_taken - start <= beats + 3
    record("bus_beats_a_cycle", beats / (tb.last_taken - start))


@cocotb.test
async def runts_do_no_harm(dut) -> None:
    """Given a frame that ends before its address does, then it is dropped and the next one goes its way."""
    tb = TB(dut)
    await tb.start()
    await tb.write(0, address(0), 0b01)
    counts: Counter[str] = Counter()
    for _ in range(5):
        tb.send(1, address(0), 60)
        if BYTES == 8:  # with wider beats the address is always in the first
            tb.queues[1].append((0, 0xFF, 1))
            counts["runt"] += 1
    tb.send(1, address(0), 60)
    await tb.done(counts["runt"])
