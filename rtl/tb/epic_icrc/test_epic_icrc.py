"""epic_icrc against the codec of the spec and zlib: every tail, beats behind the end, back to back, idle cycles."""

from __future__ import annotations

import random
import zlib
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge
from common.frames import cell, random_packet
from common.runner import ICARUS, VERILATOR, Bench, parameter, record, steps
from common.streams import PATTERNS, reset, start_clock, until

from epic_spec.codec import encode, icrc

BENCH = Bench(
    top="epic_icrc",
    sources=("epic_icrc.v",),
    small=(
        (ICARUS, {"DATA_W": 128, "FIRST": 6, "LEVELS": 2}),
        (VERILATOR, {"DATA_W": 64, "FIRST": 6, "LEVELS": 1}),
        (VERILATOR, {"DATA_W": 512, "FIRST": 0, "LEVELS": 2}),
        (ICARUS, {"DATA_W": 128, "FIRST": 0, "LEVELS": 1, "CHECK": 1}),
        (VERILATOR, {"DATA_W": 128, "FIRST": 6, "LEVELS": 1, "GRAIN": 4}),
    ),
    configurations=tuple(
        (simulator, {"DATA_W": width, "FIRST": first, "LEVELS": levels, **variant})
        for simulator, widths in ((ICARUS, (64, 512)), (VERILATOR, (64, 128, 256, 512)))
        for width in widths
        for first, variant in (
            (0, {}),
            (6, {}),
            (0, {"CHECK": 1}),
            (6, {"GRAIN": 4}),
            (6, {"CHECK": 1, "GRAIN": 4}),
        )
        for levels in (1, 2, 3)
    ),
)

WIDTH = parameter("DATA_W", 64)
FIRST = parameter("FIRST", 6)
LEVELS = parameter("LEVELS", 1)
CHECK = parameter("CHECK", 0)
GRAIN = parameter("GRAIN", 1)
BYTES = WIDTH // 8


def levels_latency(count: int) -> int:
    return -(-count // LEVELS)


LATENCY = 2 + levels_latency((WIDTH // 32).bit_length() - 1)
LATENCY += 1 if CHECK else levels_latency((BYTES // GRAIN).bit_length() - 1)


class TB:
    """Sends frames of which a number of bytes is covered, and compares the CRCs with those expected, in order."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.expected: deque[tuple[int, bool]] = deque()
        self.ends: deque[int] = deque()  # cycle of each in_last
        self.compared = 0
        self.now = 0
        self.choice = random.Random(cocotb.RANDOM_SEED)
        dut.in_valid.value = 0
        start_clock(dut)

    async def start(self) -> None:
        await reset(self.dut)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            self.now += 1
            if self.dut.in_valid.value == 1 and self.dut.in_last.value == 1:
                self.ends.append(self.now)
            if self.dut.crc_valid.value == 1:
                crc, right = self.expected.popleft()
                assert int(self.dut.crc.value) == (0 if CHECK else crc), f"frame {self.compared}"
                assert bool(self.dut.crc_ok.value) == right, f"frame {self.compared}"
                assert self.now - self.ends.popleft() == LATENCY
                self.compared += 1

    async def send(self, frame: bytes, covered: int, behind: bytes = b"", pause=None) -> None:
        """`covered` bytes of the frame count; `behind` are bytes after the frame."""
        stream = self.choice.randbytes(FIRST) + frame + behind
        end = FIRST + covered
        for at in range(0, len(stream), BYTES):
            while pause is not None and next(pause):
                self.dut.in_valid.value = 0
                self.dut.in_last.value = self.choice.randrange(2)
                await RisingEdge(self.dut.clk)
            beat = stream[at : at + BYTES]
            self.dut.in_valid.value = 1
            # What is not covered is junk, and must not matter.
            self.dut.in_data.value = int.from_bytes(beat + self.choice.randbytes(BYTES - len(beat)), "little")
            self.dut.in_bytes.value = min(max(end - at, 0), BYTES)
            self.dut.in_last.value = int(at + BYTES >= len(stream))
            await RisingEdge(self.dut.clk)
        self.dut.in_valid.value = 0

    def expect(self, frame: bytes, covered: int) -> None:
        crc = int.from_bytes(icrc(frame[:covered]), "little")
        self.expected.append((crc, crc == 0x2144DF1C))

    async def done(self) -> None:
        await until(self.dut, lambda: not self.expected, 64, "the last CRC")
        assert not self.ends


@cocotb.test
async def every_length_generated_and_checked(dut) -> None:
    """Whole words as frames have them, and every byte count where GRAIN is 1, without and with the ICRC covered."""
    tb = TB(dut)
    await tb.start()
    sizes = [size for size in range(54, 54 + 2 * BYTES + 72) if (FIRST + size) % GRAIN == 0]
    for size in sizes:
        frame = encode(cell(b""))[:54] + tb.choice.randbytes(size - 54)
        frame += icrc(frame)
        tb.expect(frame, size)
        await tb.send(frame, size)
        tb.expect(frame, size + 4)
        assert tb.expected[-1][1]
        await tb.send(frame, size + 4)
    await tb.done()
    assert tb.compared == 2 * len(sizes) == 2 * (2 * BYTES + 72) // GRAIN


def before(state: int, zeros: int) -> int:
    """The register that `zeros` bytes of zeros take to `state`."""
    for _ in range(8 * zeros):
        top = state >> 31
        state = ((state ^ top * 0xEDB88320) << 1 | top) & 0xFFFFFFFF
    return state


@cocotb.test
async def every_bit_of_the_register_counts(dut) -> None:
    """An ICRC that leaves the register one bit from what a right one does, each bit at each tail, is not right."""
    tb = TB(dut)
    await tb.start()
    for size in (size for size in range(58, 58 + BYTES) if (FIRST + size) % GRAIN == 0):
        frame = encode(cell(b""))[:54] + tb.choice.randbytes(size - 54)
        behind = -(FIRST + size + 4) % BYTES  # bytes of zeros that fill the last beat
        right = int.from_bytes(icrc(frame), "little")
        for bit in range(32):
            wrong = frame + (right ^ before(1 << bit, behind + 4)).to_bytes(4, "little")
            tb.expect(wrong, len(wrong))
            assert not tb.expected[-1][1]
            await tb.send(wrong, len(wrong))
        frame += right.to_bytes(4, "little")
        tb.expect(frame, len(frame))
        await tb.send(frame, len(frame))
    await tb.done()


@cocotb.test
async def random_frames_with_bytes_behind(dut) -> None:
    """All header fields at random, Ethernet padding of up to 3 beats behind, a flipped bit in one frame of four."""
    tb = TB(dut)
    await tb.start()
    right, turns = 0, steps(400)
    for turn in range(turns):
        frame = bytearray(encode(random_packet(tb.choice, tb.choice.randrange(0, 300))))
        if turn % 4 == 0:
            bit = tb.choice.randrange(14 * 8, len(frame) * 8)
            frame[bit // 8] ^= 1 << bit % 8
        tb.expect(bytes(frame), len(frame))
        right += tb.expected[-1][1]
        pause = PATTERNS["sparse"](turn) if turn % 2 else None
        await tb.send(bytes(frame), len(frame), tb.choice.randbytes(tb.choice.randrange(3 * BYTES)), pause)
    await tb.done()
    assert turns * 3 // 4 <= right < turns


@cocotb.test
async def variant_fields_do_not_matter_and_all_others_do(dut) -> None:
    """One flipped bit at a time over the headers, against zlib on a view made here by the table of the spec."""
    tb = TB(dut)
    await tb.start()
    good = encode(cell(bytes(range(16))))
    variant = {15, 22, 24, 25, 40, 41, 46}
    for bit in range(0, 58 * 8, 3):
        frame = bytearray(good)
        frame[bit // 8] ^= 1 << bit % 8
        view = b"\xff" * 8 + bytes(0xFF if at in variant else frame[at] for at in range(14, len(frame)))
        tb.expected.append((zlib.crc32(view), bit // 8 in variant or bit // 8 < 14))
        await tb.send(bytes(frame), len(frame))
    await tb.done()


@cocotb.test
async def one_beat_a_cycle(dut) -> None:
    """64 frames of the shortest kind back to back, then 8 KB: as many cycles as beats."""
    tb = TB(dut)
    await tb.start()
    await RisingEdge(dut.clk)
    start = tb.now
    beats = 0
    for turn in range(64):
        frame = encode(cell(b"", psn=turn))
        tb.expect(frame, len(frame))
        await tb.send(frame, len(frame))
        beats += -(-(FIRST + len(frame)) // BYTES)
    frame = encode(cell(tb.choice.randbytes(8192)))
    tb.expect(frame, len(frame))
    await tb.send(frame, len(frame))
    beats += -(-(FIRST + len(frame)) // BYTES)
    assert tb.now - start == beats
    await tb.done()
    record("latency_cycles", LATENCY)


@cocotb.test
async def reset_in_mid_frame(dut) -> None:
    """What was in the pipeline is forgotten, and the next frame is right."""
    tb = TB(dut)
    await tb.start()
    frame = encode(cell(tb.choice.randbytes(64)))
    for cut in range(1, 2 * LATENCY):
        tb.dut.in_last.value = 0
        for _ in range(cut):
            tb.dut.in_valid.value = 1
            tb.dut.in_bytes.value = BYTES
            tb.dut.in_data.value = tb.choice.getrandbits(WIDTH)
            await RisingEdge(dut.clk)
        tb.dut.in_valid.value = 0
        await reset(dut, 1)
        tb.expect(frame, len(frame))
        await tb.send(frame, len(frame))
        await tb.done()
