"""epic_tx against the codec of the spec: each JOB's frame equals `encode` of its packet byte for byte, at all lengths
around the beats, with idle senders and a slow MAC; no bubbles; forwarded frames unchanged and in turn."""

from __future__ import annotations

import random
from collections import Counter, deque
from itertools import groupby

import cocotb
from cocotb.triggers import RisingEdge
from common.frames import pack, random_packet
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, Source, axis_sink, axis_source, reset, start_clock, until

from epic_spec.codec import decode, encode
from epic_spec.packets import ECN_CE, ECN_ECT0, Packet
from epic_spec.tables import Opcode

SOURCES = (
    "epic_tx.v", "epic_build.v", "epic_icrc.v", "epic_delay_fifo.v", "epic_axis_mux.v", "epic_arbiter.v",
    "epic_unalign.v", "epic_slice.v",
)  # fmt: skip

BENCH = Bench(
    top="epic_tx",
    sources=SOURCES,
    small=(
        (VERILATOR, {"DATA_W": 64, "MTU": 256}),
        (ICARUS, {"DATA_W": 128, "MTU": 256}),
        (VERILATOR, {"DATA_W": 512, "MTU": 8192}),
    ),
    configurations=tuple(
        (simulator, {"DATA_W": width, "MTU": mtu})
        for simulator, widths in ((ICARUS, (64, 512)), (VERILATOR, (64, 128, 256, 512)))
        for width in widths
        for mtu in (64, 1024, 8192)
    ),
)

WIDTH = parameter("DATA_W", 64)
MTU = parameter("MTU", 1024)
BYTES = WIDTH // 8


def beats_of(frame: bytes) -> int:
    return -(-len(frame) // BYTES)


class TB:
    """Feeds jobs, payload and forwarded frames, plays the edge table, and compares what leaves with what should."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.edges = [self._edge() for _ in range(256)]
        self.expected: deque[bytes] = deque()
        self.expected_forwarded: deque[bytes] = deque()
        self.order: list[str] = []  # which kind each frame that left was
        self.beats: list[
            tuple[int, bool, bool]
        ] = []  # (cycle, first beat of its frame, last) of each at the output
        self.pulses: Counter[str] = Counter()
        self.waste = 0  # cycles between the first beat and the last without one, though the MAC was ready
        self.now = 0
        dut.edge_entry.value = 0
        start_clock(dut)
        self.jobs = Source(dut, "job")
        self.payload = Source(dut, "payload")
        self.forward = axis_source(dut, "fwd_axis")
        self.mac = axis_sink(dut, "m_axis")

    async def start(self, idle: str = "never", backpressure: str = "never") -> None:
        await reset(self.dut)
        cocotb.start_soon(self._table())
        cocotb.start_soon(self._watch())
        self.pause(idle, backpressure)

    def pause(self, idle: str, backpressure: str) -> None:
        """From now on the senders are idle, and the MAC is not ready, by these patterns."""
        self.jobs.pause = PATTERNS[idle](1)
        self.payload.pause = PATTERNS[idle](2)
        self.forward.set_pause_generator(PATTERNS[idle](3))
        self.mac.set_pause_generator(PATTERNS[backpressure](4))

    # ---- what goes in

    def _edge(self) -> dict[str, int]:
        bits = self.choice.getrandbits
        return {
            "peer_mac": bits(48), "own_mac": bits(48), "peer_ip": bits(32), "own_ip": bits(32), "pkey": bits(16),
            "sport": bits(16), "peer_qpn": bits(24), "icrc": int(self.choice.random() < 0.8),
        }  # fmt: skip

    def job(
        self, payload: bytes = b"", *, ack: bool = False, late: bool = False, edge: int | None = None
    ) -> None:
        """Hands over a job with all its fields at random. `late`: the caller gives the payload's beats later."""
        edge = self.choice.randrange(256) if edge is None else edge
        # The codec makes the part of a packet that the job decides: opcode, imm or AETH, PSN, AckReq.
        while True:
            made = random_packet(self.choice, len(payload))
            if (made.opcode is Opcode.ACK) == ack and (ack or made.opcode is Opcode.SEND_ONLY_IMM):
                break
        ce = self.choice.random() < 0.3
        entry = self.edges[edge]
        packet = Packet(
            made.opcode, _ip(entry["own_ip"]), _ip(entry["peer_ip"]), entry["peer_qpn"], made.psn, payload,
            made.imm, made.aeth, made.ackreq, entry["pkey"], _mac(entry["own_mac"]), _mac(entry["peer_mac"]),
            entry["sport"], ecn=ECN_CE if ce else ECN_ECT0, ttl=64,
        )  # fmt: skip
        word = made.imm if made.imm is not None else made.aeth.syndrome << 24 | made.aeth.msn
        frame = encode(packet, icrc=bool(entry["icrc"]))
        decode(frame, icrc="verify" if entry["icrc"] else "ignore")
        self.expected.append(frame)
        if not late:
            self.give(payload)
        self.jobs.queue.append(
            pack(
                "JOB", edge=edge, opcode=int(made.opcode), psn=made.psn, ackreq=made.ackreq, ce=ce,
                has_payload=bool(payload), payload_bytes=len(payload), imm=word,
            )
        )  # fmt: skip

    def give(self, payload: bytes) -> None:
        for at in range(0, len(payload), BYTES):
            self.payload.queue.append(int.from_bytes(payload[at : at + BYTES], "little"))

    def forward_frame(self, frame: bytes) -> None:
        self.expected_forwarded.append(frame)
        self.forward.send_nowait(bytes(6) + frame)

    # ---- what is around the module

    async def _table(self) -> None:
        """The entry of the index that stood there in the cycle before."""
        while True:
            await RisingEdge(self.dut.clk)
            self.dut.edge_entry.value = pack("EDGE", **self.edges[int(self.dut.edge_index.value)])

    async def _watch(self) -> None:
        """Beats and pulses; valid, data, keep and last stay until they are taken."""
        dut = self.dut
        offered = None
        first = True
        empty = 0
        while True:
            await RisingEdge(dut.clk)
            self.now += 1
            if dut.rst.value == 1:
                offered, first = None, True
                continue
            self.pulses["sent"] += int(dut.sent.value)
            self.pulses["forwarded"] += int(dut.forwarded.value)
            if dut.m_axis_tvalid.value != 1:
                assert offered is None, "tvalid fell before tready"
                empty += bool(self.beats) and dut.m_axis_tready.value == 1
                continue
            shown = (int(dut.m_axis_tdata.value), int(dut.m_axis_tkeep.value), int(dut.m_axis_tlast.value))
            assert offered is None or shown == offered, "a beat changed while it waited"
            keep, last = shown[1:]
            assert keep == (1 << BYTES) - 1 or (last and keep and keep & keep + 1 == 0), f"tkeep {keep:#x}"
            offered = shown
            if dut.m_axis_tready.value == 1:
                offered = None
                self.waste += empty
                empty = 0
                self.beats.append((self.now, first, bool(last)))
                first = bool(last)

    # ---- what comes out

    @property
    def idle(self) -> bool:
        return self.jobs.idle and self.payload.idle and self.forward.idle()

    async def done(self, cycles: int) -> None:
        """All frames have left, unchanged, in their order, and were counted; then nothing more comes."""
        want = len(self.expected) + len(self.expected_forwarded)
        sent, forwarded = len(self.expected), len(self.expected_forwarded)
        await until(
            self.dut, lambda: self.mac.count() >= want, cycles, f"{want} frames; {self.mac.count()} came"
        )
        for _ in range(20):
            await RisingEdge(self.dut.clk)
        assert self.mac.count() == want and self.idle
        for _ in range(want):
            got = bytes(self.mac.recv_nowait().tdata)
            if self.expected and got == self.expected[0]:
                self.expected.popleft()
                self.order.append("epic")
            else:
                near = [f.hex() for f in (*list(self.expected)[:1], *list(self.expected_forwarded)[:1])]
                assert self.expected_forwarded and got == self.expected_forwarded[0], (
                    f"{got.hex()}, expected {near}"
                )
                self.expected_forwarded.popleft()
                self.order.append("forwarded")
        assert self.pulses == Counter(sent=sent, forwarded=forwarded)
        self.pulses.clear()

    def gaps(self) -> tuple[int, int]:
        """Cycles without a beat since the first: (within frames, between frames)."""
        within = between = 0
        for (before, _, _), (cycle, first, _) in zip(self.beats, self.beats[1:], strict=False):
            if first:
                between += cycle - before - 1
            else:
                within += cycle - before - 1
        return within, between


def _ip(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def _mac(number: int) -> str:
    return number.to_bytes(6, "big").hex(":")


def lengths() -> list[int]:
    """Every tail of a beat three times over, and what is about MTU."""
    around = {0, *range(1, 2 * BYTES + 6), MTU // 2 - 1, MTU // 2 + 1, MTU - BYTES, *range(MTU - 5, MTU + 1)}
    return sorted(n for n in around if 0 <= n <= MTU)


@cocotb.test
@cocotb.parametrize(
    idle=["never", "alternating", "sparse", "bursts"],
    backpressure=["never", "alternating", "sparse", "bursts"],
)
async def frames_of_all_lengths(dut, idle: str, backpressure: str) -> None:
    """Given jobs of all lengths and ACKs among them, when sender and MAC pause, then the frames are the codec's."""
    tb = TB(dut)
    await tb.start(idle, backpressure)
    order = lengths()
    if (idle, backpressure) != ("never", "never"):
        tb.choice.shuffle(order)
        order = order[:60]
    for length in order:
        tb.job(tb.choice.randbytes(length))
        if tb.choice.random() < 0.3:
            tb.job(ack=True)
    await tb.done(40_000)


@cocotb.test
async def small_frames_back_to_back(dut) -> None:
    """Given 64 frames without payload and a MAC that is ready, then they leave without a single bubble."""
    tb = TB(dut)
    await tb.start()
    for _ in range(64):
        tb.job(ack=tb.choice.random() < 0.5)
    await tb.done(4_000)
    assert len(tb.beats) == 64 * beats_of(bytes(62))
    assert tb.gaps() == (0, 0)
    record("small_frame_cycles", len(tb.beats) / 64)


@cocotb.test
@cocotb.parametrize(backpressure=["alternating", "sparse", "bursts"])
async def small_frames_under_backpressure(dut, backpressure: str) -> None:
    """Given 64 frames without payload (of one beat with 512 bits) and a MAC that pauses, then none is lost or changed,
    and no cycle in which the MAC is ready is lost between the first beat and the last."""
    tb = TB(dut)
    await tb.start("never", backpressure)
    for _ in range(64):
        tb.job()
    await tb.done(20_000)
    assert len(tb.beats) == 64 * beats_of(bytes(62))
    assert tb.waste == 0


@cocotb.test
@cocotb.parametrize(backpressure=["alternating", "sparse", "bursts"])
async def no_cycle_is_lost_under_backpressure(dut, backpressure: str) -> None:
    """Given cells of all sorts and payload that keeps up, when the MAC pauses, then each ready cycle has a beat."""
    tb = TB(dut)
    await tb.start("never", backpressure)
    for length in (MTU, 1, 0, BYTES, MTU - 1, BYTES + 1, 0, 0, 4):
        tb.job(tb.choice.randbytes(length))
    await tb.done(20_000)
    assert tb.waste == 0


@cocotb.test
async def cells_back_to_back(dut) -> None:
    """Given cells of all tails of a beat and payload that keeps up, then a beat leaves in each cycle."""
    tb = TB(dut)
    await tb.start()
    frames = []
    for tail in range(max(1, MTU - 2 * BYTES), MTU + 1):
        tb.job(tb.choice.randbytes(tail) if tail % 5 else b"")
        frames.append(tb.expected[-1])
    await tb.done(60_000)
    assert len(tb.beats) == sum(map(beats_of, frames))
    assert tb.gaps() == (0, 0)


@cocotb.test
async def every_carry_of_the_checksum(dut) -> None:
    """Given addresses that make the sum of the IPv4 header end around 0xFFFF, then its carries are added, twice too."""
    tb = TB(dut)
    await tb.start()
    rest = 0x4500 + 48 + 0x4000 + 0x4011 + 2  # all of a frame without payload but the addresses
    for edge, end in enumerate(range(0xFFEC, 0x10004)):
        entry = tb.edges[edge]
        entry["own_ip"] &= 0xFFFF0000
        words = rest + sum(entry[ip] >> 16 for ip in ("own_ip", "peer_ip")) + (entry["peer_ip"] & 0xFFFF)
        entry["own_ip"] |= (end - words) & 0xFFFF
        tb.job(edge=edge)
    await tb.done(4_000)


@cocotb.test
async def payload_may_be_late(dut) -> None:
    """Given a job whose payload comes 50 cycles later, then its frame starts only then, and has no gap."""
    tb = TB(dut)
    await tb.start()
    payload = tb.choice.randbytes(MTU)
    tb.job(payload, late=True)
    for _ in range(50):
        await RisingEdge(dut.clk)
    assert not tb.beats
    tb.give(payload)
    await tb.done(4_000)
    assert tb.gaps() == (0, 0)


@cocotb.test
async def latency(dut) -> None:
    """From the job's transfer to the first beat: a fixed number of cycles, the same with and without payload."""
    tb = TB(dut)
    await tb.start()
    taken = []
    for payload in (b"", bytes(range(64))):
        tb.beats.clear()
        tb.job(payload)
        await until(
            dut, lambda: dut.job_valid.value == 1 and dut.job_ready.value == 1, 20, "the job is taken"
        )
        start = tb.now
        await until(dut, lambda: bool(tb.beats), 60, "a beat")
        taken.append(tb.beats[0][0] - start)
        await tb.done(400)
    assert taken[0] == taken[1], taken
    record("latency_cycles", taken[0])


@cocotb.test
@cocotb.parametrize(backpressure=["never", "bursts"])
async def forwarded_frames(dut, backpressure: str) -> None:
    """Given forwarded frames of every length modulo a beat, then they leave unchanged."""
    tb = TB(dut)
    await tb.start("never" if backpressure == "never" else "sparse", backpressure)
    for length in [*range(14, 14 + 2 * BYTES), 60, 1514]:
        tb.forward_frame(tb.choice.randbytes(length))
    await tb.done(20_000)
    # Between frames there is a gap where one ends in the 6 bytes: it has a beat less than in the aligned stream.
    if backpressure == "never":
        assert tb.gaps()[0] == 0


@cocotb.test
async def both_take_turns(dut) -> None:
    """Given EPIC and forwarded frames that wait all the time, then they alternate, frame by frame."""
    tb = TB(dut)
    await tb.start()
    for turn in range(40):
        tb.job(tb.choice.randbytes(tb.choice.choice([0, 1, 4, min(MTU, 256)])))
        tb.forward_frame(tb.choice.randbytes(60 + turn))
    await tb.done(60_000)
    runs = [len(list(group)) for _, group in groupby(tb.order)]
    # At the ends one side may be alone: the other has not come yet, or has no more.
    assert max(runs[1:-1]) == 1, runs


@cocotb.test
@cocotb.parametrize(backpressure=["sparse", "bursts"])
async def both_under_backpressure(dut, backpressure: str) -> None:
    tb = TB(dut)
    await tb.start("bursts", backpressure)
    for turn in range(30):
        tb.job(tb.choice.randbytes(tb.choice.randrange(min(MTU, 200) + 1)))
        tb.forward_frame(tb.choice.randbytes(60 + turn))
    await tb.done(60_000)


@cocotb.test
async def reset_in_a_frame(dut) -> None:
    """Given a reset when a frame has left in part and others are under way, then the next ones are whole and right."""
    tb = TB(dut)
    await tb.start()
    for length in (3, 0, 0):
        tb.job(tb.choice.randbytes(length))
    await until(dut, lambda: bool(tb.beats), 100, "a first beat")
    tb.mac.pause = True
    await until(dut, lambda: tb.jobs.idle and tb.payload.idle, 100, "all has been taken in")
    await reset(dut)
    tb.mac.pause = False
    tb.mac.clear()
    tb.expected.clear()
    tb.pulses.clear()
    for length in (0, 5, 64):
        tb.job(tb.choice.randbytes(length))
    await tb.done(4_000)
