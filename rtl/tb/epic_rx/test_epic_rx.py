"""epic_rx against the codec of the spec: verdicts, fields, payload, forwarding, losses, and that it never waits."""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiStreamFrame
from common.frames import cell, random_packet, unpack
from common.runner import ICARUS, ROOT, VERILATOR, Bench, parameter, record, steps
from common.streams import (
    PATTERNS,
    Sink,
    axis_frame,
    axis_rules,
    axis_sink,
    axis_source,
    bursts,
    reset,
    start_clock,
    until,
)

from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.codec import decode, encode, with_icrc
from epic_spec.errors import WireError
from epic_spec.tables import COUNTERS, DROPS, Opcode

SOURCES = (
    "epic_rx.v",
    "epic_parse.v",
    "epic_ip_checksum.v",
    "epic_align.v",
    "epic_icrc.v",
    "epic_fifo_gather.v",
    "epic_fifo.v",
    "epic_ram.v",
)
BENCH = Bench(
    top="epic_rx",
    sources=SOURCES,
    small=(
        (ICARUS, {"DATA_W": 128, "MTU": 256}),
        (VERILATOR, {"DATA_W": 512, "MTU": 1024}),
    ),
    configurations=(
        (ICARUS, {"DATA_W": 128, "MTU": 1024}),
        (ICARUS, {"DATA_W": 64, "MTU": 1024, "PAYLOAD_W": 512}),
        *(
            (VERILATOR, {"DATA_W": width, "MTU": mtu, "ICRC_LEVELS": levels})
            for width in (64, 128, 256, 512)
            for mtu, levels in ((64, 1), (1024, 2), (8192, 3))
        ),
    ),
)

WIDTH = parameter("DATA_W", 64)
MTU = parameter("MTU", 1024)
BYTES = WIDTH // 8
OUT = parameter("PAYLOAD_W", WIDTH) // 8  # bytes of a payload beat
META_DEPTH = parameter("META_DEPTH", 32)
FORWARDED = 0xFF
NOT_EPIC = ("ether_type", "vlan", "protocol", "udp_port")


def power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


PAYLOAD_DEPTH = power_of_two(4 * MTU // OUT)
FORWARD_DEPTH = power_of_two(2 * max(MTU + 128, 1536) // BYTES)
DROP_INDEX = {reason: list(COUNTERS).index(f"drop_{reason}") for reason in DROPS}


@dataclass
class Expected:
    """What a frame must become."""

    verdict: int
    fields: dict[str, int]
    payload: list[int]
    forwarded: bytes | None


def expected(frame: bytes, *, forward: bool = True) -> Expected:
    try:
        packet = decode(frame, icrc="check")
    except WireError as error:
        if error.reason in NOT_EPIC and forward:
            return Expected(FORWARDED, {}, [], bytes(6) + frame)
        return Expected(DROP_INDEX[error.reason], {}, [], None)
    word = packet.imm if packet.imm is not None else 0
    if packet.aeth is not None:
        word = packet.aeth.syndrome << 24 | packet.aeth.msn
    length = 0 if packet.opcode is Opcode.ACK else len(packet.payload)
    fields = {
        "icrc_ok": int(packet.icrc_ok), "ce": int(packet.ecn == 3), "ackreq": int(packet.ackreq),
        "opcode": int(packet.opcode), "payload_bytes": min(length, (1 << 14) - 1),
        "qpn": packet.qpn, "psn": packet.psn, "pkey": packet.pkey,
        "src_ip": ip_number(packet.src_ip), "dst_ip": ip_number(packet.dst_ip),
        "src_mac": int.from_bytes(mac_bytes(packet.src_mac), "big"),
        "dst_mac": int.from_bytes(mac_bytes(packet.dst_mac), "big"),
    }  # fmt: skip
    if packet.imm is not None or packet.aeth is not None:
        fields["imm"] = word
    beats = []
    if packet.opcode is Opcode.SEND_ONLY_IMM and length <= MTU:
        beats = [int.from_bytes(packet.payload[at : at + OUT], "little") for at in range(0, length, OUT)]
    return Expected(0, fields, beats, None)


class TB:
    """Source of frames, sinks of all outputs, and what must hold in every cycle."""

    def __init__(self, dut, meta=None, payload=None, forward=None) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        start_clock(dut)
        dut.forward.value = 1
        self.source = axis_source(dut, "s_axis")
        self.meta = Sink(dut, "meta", meta)
        self.payload = Sink(dut, "payload", payload)
        self.forwarded = axis_sink(dut, "fwd_axis", forward)
        self.sent: deque[bytes] = deque()
        self.lost = 0
        self.bad = 0
        self.now = 0
        self.beats = 0
        self.first_beat = 0  # cycle
        self.last_beat = 0
        cocotb.start_soon(self._watch())
        cocotb.start_soon(axis_rules(dut, "fwd_axis"))

    async def start(self) -> None:
        await reset(self.dut)
        await RisingEdge(self.dut.clk)

    async def prime(self) -> None:
        """One whole frame: what shorter ones don't hold is left over from it in their META, in place of X."""
        self.send(encode(cell(b"")))
        await self.settle(20)
        self.compare()
        self.beats = self.first_beat = 0

    async def _watch(self) -> None:
        dut = self.dut
        ready_due = False
        while True:
            await RisingEdge(dut.clk)
            self.now += 1
            if dut.rst.value == 1:
                ready_due = False
                continue
            assert not ready_due or dut.s_axis_tready.value == 1, "s_axis_tready fell"
            ready_due = dut.s_axis_tready.value == 1
            if dut.s_axis_tvalid.value == 1 and ready_due:
                self.beats += 1
                self.first_beat = self.first_beat or self.now
                self.last_beat = self.now
            if dut.overflow.value == 1:
                self.lost += 1
            if dut.bad_frame.value == 1:
                self.bad += 1

    def send(self, frame: bytes, bad_at: int | None = None) -> None:
        self.source.send_nowait(axis_frame(frame, bad_at))
        if bad_at is None:
            self.sent.append(frame)

    async def settle(self, cycles: int = 60) -> None:
        """Everything sent has come to its end, and the FIFOs are empty."""
        limit = 200_000
        await until(
            self.dut, lambda: self.source.empty() and self.source.idle(), limit, "the last frame sent"
        )
        quiet = 0
        seen = (-1,)
        while quiet < cycles:
            await RisingEdge(self.dut.clk)
            now = (
                len(self.meta.words), len(self.payload.words), self.forwarded.count(), self.lost, self.bad,
                int(self.dut.meta_valid.value), int(self.dut.payload_valid.value),
                int(self.dut.fwd_axis_tvalid.value) and self.now,
            )  # fmt: skip
            waiting = now[5] or now[6] or now[7]
            quiet = quiet + 1 if now == seen and not waiting else 0
            seen = now

    def compare(self, frames: list[bytes] | None = None, *, forward: bool = True) -> Counter:
        """All METAs, beats and forwarded frames against those of `frames` (default: all sent). Counts verdicts."""
        verdicts: Counter = Counter()
        for at, frame in enumerate(frames if frames is not None else self.sent):
            want = expected(frame, forward=forward)
            where = f"frame {at} ({len(frame)} bytes) {frame[:80].hex()}"
            assert self.meta.words, f"{where}: no META"
            got = unpack("META", self.meta.words.popleft())
            assert got["verdict"] == want.verdict, where
            for name, value in want.fields.items():
                assert got[name] == value, f"{where}: {name}"
            for number, beat in enumerate(want.payload):
                assert self.payload.words, f"{where}: beat {number} is missing"
                assert self.payload.words.popleft() == beat, f"{where}: beat {number}"
            if want.forwarded is not None:
                assert not self.forwarded.empty(), f"{where}: not forwarded"
                assert bytes(self.forwarded.recv_nowait()) == want.forwarded, where
            verdicts[want.verdict] += 1
        assert not self.meta.words
        assert not self.payload.words
        assert self.forwarded.empty()
        self.sent.clear()
        self.meta.cycles.clear()
        self.payload.cycles.clear()
        return verdicts


def lengths() -> list[int]:
    """Payloads around every boundary that matters, and some between."""
    near = {0, 1, 2, 3, 4, 5, 7, 8}
    for boundary in (BYTES, 2 * BYTES, 3 * BYTES, 64, 128, MTU - BYTES, MTU, MTU + BYTES, 8192):
        near |= {boundary + less for less in range(-7, 8)}
    return sorted(length for length in near if 0 <= length <= max(8192, MTU) + 4)


def not_epic_frame(choice: random.Random, size: int) -> bytes:
    """An ARP-like, VLAN, TCP or DNS frame of at least 42 bytes."""
    frame = bytearray(encode(cell(choice.randbytes(max(size - 62, 0) & ~3 | 4))))
    kind = choice.randrange(4)
    if kind == 0:
        frame[12:14] = b"\x08\x06"
    elif kind == 1:
        frame[12:14] = choice.choice([b"\x81\x00", b"\x88\xa8", b"\x91\x00"])
    elif kind == 2:
        frame[23] = 6
    else:
        frame[36:38] = b"\x00\x35"
    frame = good_checksum(frame)
    return bytes(frame) + choice.randbytes(max(0, size - len(frame)))


def good_checksum(frame: bytearray) -> bytearray:
    frame[24:26] = b"\0\0"
    words = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2)) % 0xFFFF
    frame[24:26] = (0xFFFF - words if words else 0).to_bytes(2, "big")
    return frame


def corrupted(choice: random.Random) -> bytes:
    """A frame with one or more things wrong with it, or by chance none."""
    frame = bytearray(encode(random_packet(choice, choice.choice([0, 4, choice.randrange(200)]))))
    kind = choice.randrange(8)
    if kind == 0:
        return choice.randbytes(choice.randrange(1, 200))
    if kind == 1:
        del frame[choice.randrange(1, len(frame)) :]
        return bytes(frame)
    if kind == 2:  # bits anywhere
        for _ in range(choice.randrange(1, 4)):
            bit = choice.randrange(8 * len(frame))
            frame[bit // 8] ^= 1 << bit % 8
        return bytes(frame)
    if kind == 3:  # a length field off by some bytes, both or one of them
        total = max(0, len(frame) - 14 + choice.choice([-48, -8, -5, -4, -3, -2, -1, 0, 1, 2, 4, 1000]))
        total = choice.choice([total, choice.randrange(60), 0xFFFF])
        frame[16:18] = total.to_bytes(2, "big")
        if choice.random() < 0.7:
            frame[38:40] = max(0, total - 20).to_bytes(2, "big")
    elif kind == 4:  # a byte of the headers
        frame[choice.choice([12, 13, 14, 20, 21, 23, 36, 37, 38, 39, 42, 43, 43])] = choice.randrange(256)
    elif kind == 5 and len(frame) >= 62:  # descriptor or AETH
        frame[choice.randrange(54, 58)] ^= 1 << choice.randrange(8)
        frame[56:58] = choice.randbytes(2)
        if choice.random() < 0.5:
            frame[54] = choice.randrange(256)
    elif kind == 6:  # flags that a receiver looks at
        frame[20] ^= choice.choice([0x20, 0x40, 0x80, 0x01])
    elif kind == 7:  # what other protocols have there
        if choice.random() < 0.5:
            frame[12:14] = choice.choice([b"\x81\x00", b"\x88\xa8", b"\x91\x00", b"\x86\xdd", b"\x08\x06"])
        else:
            frame[14] = choice.choice([0x46, 0x4F, 0x44, 0x40, 0x65, 0x66, 0x55])
    if choice.random() < 0.9:
        frame = good_checksum(frame)
    if choice.random() < 0.8 and len(frame) >= 58:
        frame = bytearray(with_icrc(frame))
    return bytes(frame) + choice.randbytes(choice.choice([0, 0, 1, 7, choice.randrange(3 * BYTES)]))


@cocotb.test
async def lengths_without_pauses(dut) -> None:
    """Every payload around beat boundaries, MTU-1, MTU, MTU+1 and 8 KB, with the right ICRC and with none."""
    tb = TB(dut)
    await tb.start()
    for at, length in enumerate(lengths()):
        packet = cell(tb.choice.randbytes(length), psn=at, ecn=2 + at % 2)
        frame = bytearray(encode(packet, icrc=at % 3 != 0))
        if at % 2 and length % 4:  # Pad bytes are ignored, and the ICRC covers them as they are
            frame[-4 - -length % 4 : -4] = b"\xff" * (-length % 4)
            frame = with_icrc(frame)
        tb.send(bytes(frame))
        if at % 8 == 7:
            await tb.settle(20)
            tb.compare()
    await tb.settle()
    tb.compare()
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
@cocotb.parametrize(
    (
        ("idle", "meta", "payload", "forward"),
        [
            ("never", "bursts", "never", "bursts"),
            ("alternating", "never", "sparse", "never"),
            ("bursts", "sparse", "bursts", "alternating"),
            ("sparse", "alternating", "alternating", "sparse"),
        ],
    )
)
async def idle_and_back_pressure(dut, idle: str, meta: str, payload: str, forward: str) -> None:
    """Good frames of all kinds and lengths, Ethernet padding behind them and other traffic between them."""
    seed = cocotb.RANDOM_SEED
    tb = TB(dut, PATTERNS[meta](seed), PATTERNS[payload](seed + 1), PATTERNS[forward](seed + 2))
    tb.source.set_pause_generator(PATTERNS[idle](seed + 3))
    await tb.start()
    total = 0
    for turn in range(60):
        if turn % 5 == 4:
            tb.send(not_epic_frame(tb.choice, tb.choice.randrange(60, 60 + 3 * BYTES)))
        else:
            frame = encode(random_packet(tb.choice, tb.choice.randrange(min(MTU, 4 * BYTES) + 1)))
            tb.send(frame + tb.choice.randbytes(tb.choice.choice([0, 0, 1, 6, BYTES])))
        if turn % 6 == 5:
            await tb.settle(80)
            total += tb.compare().total()
    assert total == 60
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
@cocotb.parametrize(
    idle=["never", "alternating", "sparse", "bursts"],
    backpressure=["never", "alternating", "sparse", "bursts"],
)
async def lengths_by_idle_by_back_pressure(dut, idle: str, backpressure: str) -> None:
    """Payloads around a beat, MTU-1, MTU and MTU+1, and a forwarded frame, for each way to pause on both sides."""
    seed = cocotb.RANDOM_SEED
    tb = TB(dut, *(PATTERNS[backpressure](seed + side) for side in range(3)))
    tb.source.set_pause_generator(PATTERNS[idle](seed + 3))
    await tb.start()
    order = [0, 1, 4, BYTES - 1, BYTES, BYTES + 1, 2 * BYTES + 2, MTU - 1, MTU, MTU + 1]
    tb.choice.shuffle(order)
    for at, length in enumerate(order):
        tb.send(encode(cell(tb.choice.randbytes(length), psn=at)))
    tb.send(not_epic_frame(tb.choice, 60 + 2 * BYTES))
    await tb.settle(80)
    verdicts = tb.compare()
    assert verdicts == Counter({0: len(order), FORWARDED: 1})
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
@cocotb.parametrize(backpressure=["alternating", "bursts"])
async def shortest_frames_under_back_pressure(dut, backpressure: str) -> None:
    """64 of the shortest frames without a gap, twice: of one beat each, which can be nothing but runts where a beat is
    short, and of 62 bytes. A frame has its META in its turn or is counted as lost, and none is when there is room."""
    tb = TB(dut, *(PATTERNS[backpressure](cocotb.RANDOM_SEED + side) for side in range(3)))
    await tb.start()
    await tb.prime()
    for size in (min(BYTES, 62), 62):
        start = tb.lost
        tb.first_beat = tb.beats = 0
        frames = [encode(cell(b"", psn=turn))[:size] for turn in range(64)]
        for frame in frames:
            tb.send(frame)
        await tb.settle(80)
        assert tb.beats == 64 * -(-size // BYTES) == tb.last_beat - tb.first_beat + 1, "bubbles at the input"
        assert len(tb.meta.words) == 64 - (tb.lost - start)
        assert len(tb.meta.words) >= META_DEPTH
        if size == 62:  # runts have no PSN to know them by
            kept = {unpack("META", word)["psn"] for word in tb.meta.words}
            tb.compare([frame for turn, frame in enumerate(frames) if turn in kept])
        else:
            tb.compare(frames[: len(tb.meta.words)])
    assert tb.bad == 0


@cocotb.test
async def every_malformed_frame_of_the_spec(dut) -> None:
    """The list that the codec is tested with; forwarding on, then off."""
    sys.path.insert(0, str(ROOT / "tests"))
    from spec.malformed import MALFORMED

    tb = TB(dut)
    await tb.start()
    await tb.prime()
    frames = [make() for _, make in MALFORMED.values() if make()]
    for forward in (True, False):
        dut.forward.value = int(forward)
        for frame in frames:
            tb.send(frame)
            tb.send(encode(cell(b"good")))
            if len(tb.sent) >= 8:
                await tb.settle(30)
                tb.compare(forward=forward)
        await tb.settle(30)
        tb.compare(forward=forward)
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
async def random_corruption(dut) -> None:
    """Each frame has the reason that the codec gives; every wire reason is met; good frames between are untouched."""
    tb = TB(dut)
    await tb.start()
    await tb.prime()
    met: Counter = Counter()
    wire = [reason for reason, layer in DROPS.items() if layer == "wire"]
    missing, forward, turns = wire, True, 0
    while turns < steps(1000) or (missing != ["icrc"] and turns < 1000):
        tb.send(
            corrupted(tb.choice) if turns % 4 else encode(random_packet(tb.choice, tb.choice.randrange(100)))
        )
        turns += 1
        if turns % 20 == 0:
            await tb.settle(30)
            met += tb.compare(forward=forward)
            missing = [reason for reason in wire if not met[DROP_INDEX[reason]]]
            forward = tb.choice.random() < 0.5
            dut.forward.value = int(forward)
    await tb.settle()
    assert (tb.lost, tb.bad) == (0, 0)
    assert missing == ["icrc"], f"not met: {missing}"
    assert met[0] > turns // 4
    assert met[FORWARDED] > turns // 100


@cocotb.test
async def forwarding_turned_on_and_off_in_mid_frame(dut) -> None:
    """A frame is forwarded whole, or dropped by its reason: as `forward` was at its start."""
    tb = TB(dut)
    await tb.start()
    frames = [not_epic_frame(tb.choice, tb.choice.randrange(60, 60 + 4 * BYTES)) for _ in range(80)]
    for frame in frames:
        tb.send(frame)

    async def toggle() -> None:
        while True:
            for _ in range(tb.choice.randrange(1, 8)):
                await RisingEdge(dut.clk)
            dut.forward.value = tb.choice.randrange(2)

    task = cocotb.start_soon(toggle())
    await tb.settle()
    task.cancel()
    forwarded = 0
    for frame in frames:
        verdict = unpack("META", tb.meta.words.popleft())["verdict"]
        assert verdict in (FORWARDED, expected(frame, forward=False).verdict)
        if verdict == FORWARDED:
            assert bytes(tb.forwarded.recv_nowait()) == bytes(6) + frame
            forwarded += 1
    assert tb.forwarded.empty()
    assert 10 < forwarded < 70
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
async def runts_and_giants(dut) -> None:
    """Every size from 1 to 80 bytes of a good frame's bytes; frames above the MTU, 64 KB and 128 KB."""
    tb = TB(dut)
    await tb.start()
    await tb.prime()
    good = encode(cell(bytes(range(64))))
    for size in range(1, 81):
        tb.send(good[:size])
        if size % 10 == 0:
            await tb.settle(30)
            tb.compare()
    whole = encode(cell(tb.choice.randbytes(MTU)))
    for payload in (MTU + 1, 2 * MTU + 64, 20000, 65464):
        tb.send(encode(cell(tb.choice.randbytes(payload))))
        tb.send(whole)
        await tb.settle(30)
        tb.compare()
    # More bytes behind the packet than the longest IP packet has, and than a size of 18 bits can say: it would be 30.
    good = encode(cell(b"", psn=3))
    assert len(good) == 62
    for size in (70_000, (1 << 18) - 32):
        tb.send(good + bytes(size))
        tb.send(whole)
        await tb.settle(30)
        tb.compare()
    # A total length that only such a frame could hold.
    tb.send(bytes(good_checksum(bytearray(good[:16] + b"\xff\xff" + good[18:]))))
    tb.send(whole)
    await tb.settle(30)
    tb.compare()
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
async def bad_frames_of_the_mac(dut) -> None:
    """tuser in any beat, holes in tkeep, a last beat without a byte: no META, no beats, and the next frame is right."""
    tb = TB(dut)
    await tb.start()
    frame = encode(cell(tb.choice.randbytes(min(MTU, 3 * BYTES))))
    other = not_epic_frame(tb.choice, 200)
    bad = 0
    for victim in (frame, other):
        for beat in range(-(-len(victim) // BYTES)):
            tb.send(victim, bad_at=min(beat * BYTES + BYTES - 1, len(victim) - 1))
            # The ICRC of the bad one must not be taken for that of the next, which is wrong every other time.
            tb.send(victim[:-1] + bytes([victim[-1] ^ beat % 2]))
            bad += 1
            if beat % 4 == 3:
                await tb.settle(30)
                tb.compare()
        await tb.settle(30)
        tb.compare()
    # tuser in one beat in the middle only.
    middle = [int(BYTES <= at < 2 * BYTES) for at in range(len(frame))]
    tb.source.send_nowait(AxiStreamFrame(frame, tuser=middle))
    keep = [1] * len(frame)
    keep[BYTES // 2] = 0
    keep[BYTES - 1] = 0
    tb.source.send_nowait(AxiStreamFrame(frame, tkeep=keep, tuser=0))
    short = len(frame) // BYTES * BYTES
    tb.source.send_nowait(
        AxiStreamFrame(frame[:short] + bytes(BYTES), tkeep=[1] * short + [0] * BYTES, tuser=0)
    )
    tb.send(frame)
    await tb.settle(30)
    tb.compare()
    assert tb.bad == bad + 3
    assert tb.lost == 0


@cocotb.test
async def no_room_for_payload(dut) -> None:
    """Frames that find the payload FIFO full are lost whole and counted; ACKs pass; what is stored is right."""
    hold = [True]
    tb = TB(dut, payload=iter(lambda: hold[0], None))
    await tb.start()
    length = MTU
    beats = -(-length // OUT)
    fit = PAYLOAD_DEPTH // beats
    for _ in range(2):
        frames = []
        hold[0] = True
        for turn in range(2 * fit + 4):
            if len(frames) - turn < META_DEPTH - 4:
                frames.append(encode(cell(tb.choice.randbytes(length if turn % 2 else length - 1), psn=turn)))
                tb.send(frames[-1])
        empty = encode(cell(b"", psn=999))
        tb.send(empty)
        lost_before = tb.lost
        await until(dut, lambda: tb.source.empty() and tb.source.idle(), 100_000, "sent")
        for _ in range(40):
            await RisingEdge(dut.clk)
        stored = {unpack("META", word)["psn"] for word in tb.meta.words}
        kept = [frame for frame in frames if int.from_bytes(frame[51:54], "big") in stored]
        assert kept[:fit] == frames[:fit], "lost with room left"
        assert len(kept) <= (PAYLOAD_DEPTH + 2) // beats  # two words are in registers behind the memory
        assert tb.lost - lost_before == len(frames) - len(kept) > 0
        hold[0] = False
        await tb.settle()
        tb.compare([*kept, empty])


@cocotb.test
async def no_room_for_meta(dut) -> None:
    """With the META FIFO full frames are lost whole: no beat of theirs stays behind."""
    hold = [True]
    tb = TB(dut, meta=iter(lambda: hold[0], None))
    await tb.start()
    frames = [encode(cell(tb.choice.randbytes(4), psn=turn)) for turn in range(2 * META_DEPTH)]
    for frame in frames:
        tb.send(frame)
    await until(dut, lambda: tb.source.empty() and tb.source.idle(), 100_000, "sent")
    for _ in range(60):
        await RisingEdge(dut.clk)
    hold[0] = False
    for frame in frames[:4]:
        tb.send(frame)
    await tb.settle()
    kept = len(tb.meta.words) - 4
    assert META_DEPTH <= kept <= META_DEPTH + 2
    assert tb.lost == len(frames) - kept
    tb.compare(frames[:kept] + frames[:4])


@cocotb.test
async def no_room_for_forwarding(dut) -> None:
    """A forwarding stream that stands loses frames that are not EPIC's, and no other."""
    hold = [True]
    tb = TB(dut, forward=iter(lambda: hold[0], None))
    await tb.start()
    others = [not_epic_frame(tb.choice, FORWARD_DEPTH * BYTES // 3) for _ in range(8)]
    cells = [encode(cell(tb.choice.randbytes(64), psn=turn)) for turn in range(8)]
    for other, one in zip(others, cells, strict=True):
        tb.send(other)
        tb.send(one)
    await until(dut, lambda: tb.source.empty() and tb.source.idle(), 100_000, "sent")
    for _ in range(60):
        await RisingEdge(dut.clk)
    assert tb.lost > 0
    kept = len(others) - tb.lost
    assert kept * len(others[0]) + 2 * BYTES >= FORWARD_DEPTH * BYTES - len(others[0])
    hold[0] = False
    await tb.settle()
    # A frame is lost when it finds no room, so those kept are the first.
    frames = [frame for at in range(8) for frame in ((others[at],) if at < kept else ()) + (cells[at],)]
    tb.compare(frames)
    # One that could never fit is lost as well, and does not block the next.
    lost = tb.lost
    tb.send(not_epic_frame(tb.choice, (FORWARD_DEPTH + 8) * BYTES))
    tb.send(others[0])
    await tb.settle()
    assert tb.lost >= lost
    tb.sent.clear()
    tb.meta.words.clear()
    tb.payload.words.clear()
    while not tb.forwarded.empty():
        assert bytes(tb.forwarded.recv_nowait())[:6] == bytes(6)


@cocotb.test
async def back_to_back_at_line_rate(dut) -> None:
    """64 of the shortest frames, then 64 mixed ones without a gap: one beat a cycle, nothing lost, no gap behind."""
    tb = TB(dut)
    await tb.start()
    await tb.prime()
    # 62 bytes: one beat of 512 bits.
    for turn in range(64):
        tb.send(encode(cell(b"", psn=turn)))
    await tb.settle()
    per_frame = -(-62 // BYTES)
    assert tb.beats == 64 * per_frame
    assert tb.last_beat - tb.first_beat + 1 == tb.beats, "bubbles at the input"
    assert tb.meta.cycles[-1] - tb.meta.cycles[0] == 63 * per_frame, "bubbles in META"
    record("cycles_a_frame_of_62_bytes", (tb.meta.cycles[-1] - tb.meta.cycles[0]) / 63)
    record("latency_last_beat_to_meta", tb.meta.cycles[-1] - tb.last_beat)
    tb.compare()
    tb.first_beat = tb.beats = 0
    for turn in range(64):
        kind = turn % 4
        if kind == 0:
            tb.send(encode(cell(tb.choice.randbytes(MTU if turn < 8 else 64), psn=turn)))
        elif kind == 1:
            tb.send(encode(cell(b"", psn=turn)))
        elif kind == 2:
            tb.send(corrupted(tb.choice))
        else:
            tb.send(encode(random_packet(tb.choice, 2)))
    await tb.settle()
    assert tb.last_beat - tb.first_beat + 1 == tb.beats, "bubbles at the input"
    tb.compare()
    assert (tb.lost, tb.bad) == (0, 0)


@cocotb.test
async def largest_payloads_at_line_rate(dut) -> None:
    """Payloads of the MTU back to back; the reader takes them in bursts without a gap in each frame."""
    tb = TB(dut)
    await tb.start()
    for turn in range(8):
        tb.send(encode(cell(tb.choice.randbytes(MTU), psn=turn)))
    await tb.settle()
    assert tb.last_beat - tb.first_beat + 1 == tb.beats, "bubbles at the input"
    beats = MTU // OUT
    cycles = list(tb.payload.cycles)
    for turn in range(8):
        frame = cycles[turn * beats : (turn + 1) * beats]
        assert OUT > BYTES or frame[-1] - frame[0] == beats - 1, f"gap in the beats of frame {turn}"
        assert tb.meta.cycles[turn] >= frame[0] - 1
    tb.compare()
    assert tb.lost == 0


@cocotb.test
async def payload_is_there_with_meta(dut) -> None:
    """A reader that waits for META and then takes the frame's beats gets them without a gap."""
    hold = [True]
    tb = TB(dut, payload=iter(lambda: hold[0], None))
    await tb.start()
    for length in sorted({1, BYTES, min(BYTES + 1, MTU), MTU - 1, MTU}):
        hold[0] = True
        tb.send(encode(cell(tb.choice.randbytes(length))))
        await until(dut, lambda: len(tb.meta.words) == 1, 10_000, "META")
        hold[0] = False
        beats = -(-length // OUT)
        for _ in range(beats + 2):
            await RisingEdge(dut.clk)
        assert len(tb.payload.words) == beats, "a gap in the beats"
        await tb.settle(10)
        tb.compare()


@cocotb.test
async def reset_in_mid_frame(dut) -> None:
    """Nothing of before is left behind, wherever the reset comes."""
    tb = TB(dut, meta=bursts(1))
    await tb.start()
    frame = encode(cell(tb.choice.randbytes(min(MTU, 64))))
    for cut in range(1, 26):
        tb.source.send_nowait(axis_frame(frame))
        tb.source.send_nowait(axis_frame(not_epic_frame(tb.choice, 100)))
        for _ in range(cut):
            await RisingEdge(dut.clk)
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        tb.source.clear()
        tb.meta.words.clear()
        tb.payload.words.clear()
        tb.forwarded.clear()
        dut.rst.value = 0
        await RisingEdge(dut.clk)
        tb.meta.words.clear()
        tb.payload.words.clear()
        tb.send(frame)
        await tb.settle(30)
        tb.compare()
