"""epic_unalign: frames with 6 bytes less in front, every length modulo a beat, with and without tail, no bubbles."""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import PATTERNS, reset, start_clock, until

BENCH = Bench(
    top="epic_unalign",
    sources=("epic_unalign.v",),
    small=((ICARUS, {"DATA_W": 64, "USER_W": 8}), (VERILATOR, {"DATA_W": 256, "USER_W": 8})),
    configurations=tuple(
        (simulator, {"DATA_W": width, "USER_W": 8})
        for simulator in (ICARUS, VERILATOR)
        for width in (64, 128, 256, 512)
    ),
)

WIDTH = parameter("DATA_W", 64)
BYTES = WIDTH // 8
CUT = 6


class TB:
    """Gives aligned frames, of which the last bytes may be a tail, and collects what comes out."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.beats: deque[tuple[int, int, int, int, int]] = deque()  # data, last, bytes, tail, user
        self.expected: deque[tuple[bytes, int]] = deque()
        self.frames = 0
        self.cycles: list[int] = []
        self.now = 0
        start_clock(dut)

    def send(self, size: int, tail: int = 0) -> None:
        """A frame of `size` bytes, the last `tail` of them behind a full last beat."""
        frame = self.choice.randbytes(size)
        user = self.choice.randrange(256)
        aligned = self.choice.randbytes(CUT) + frame  # what stands in front does not matter
        held = aligned[: len(aligned) - tail]
        assert not tail or len(held) % BYTES == 0
        for at in range(0, len(held), BYTES):
            beat = held[at : at + BYTES]
            last = at + BYTES >= len(held)
            # Fields that mean nothing in a beat have any value.
            self.beats.append(
                (
                    int.from_bytes(beat.ljust(BYTES, b"\xee"), "little"),
                    int(last),
                    len(beat) + tail if last else self.choice.randrange(BYTES + CUT + 1),
                    int.from_bytes(aligned[len(held) :].ljust(CUT, b"\xdd"), "little"),
                    user if at == 0 else self.choice.randrange(256),
                )
            )
        self.expected.append((frame, user))

    async def run(self, idle: str = "never", backpressure: str = "never") -> None:
        self.dut.in_valid.value = 0
        self.dut.out_ready.value = 0
        await reset(self.dut)
        cocotb.start_soon(self._source(PATTERNS[idle](1)))
        cocotb.start_soon(self._sink(PATTERNS[backpressure](2)))
        await until(self.dut, lambda: not self.expected, 40_000, "all frames")
        for _ in range(5):
            await RisingEdge(self.dut.clk)
        assert not self.beats

    async def _source(self, pause) -> None:
        dut = self.dut
        while True:
            if not self.beats or next(pause):
                dut.in_valid.value = 0
                await RisingEdge(dut.clk)
                continue
            dut.in_valid.value = 1
            for name, value in zip(("data", "last", "bytes", "tail", "user"), self.beats[0], strict=True):
                getattr(dut, f"in_{name}").value = value
            while True:
                await RisingEdge(dut.clk)
                if dut.in_ready.value == 1:
                    self.beats.popleft()
                    break

    async def _sink(self, pause) -> None:
        dut = self.dut
        frame = b""
        waiting = None
        while True:
            ready = not next(pause)
            dut.out_ready.value = int(ready)
            await RisingEdge(dut.clk)
            self.now += 1
            if dut.out_valid.value != 1:
                assert waiting is None, "out_valid fell before out_ready"
                continue
            beat = tuple(int(getattr(dut, f"out_{name}").value) for name in ("data", "keep", "last", "user"))
            assert waiting in (None, beat), "a beat changed while it waited"
            waiting = beat
            if not ready:
                continue
            waiting = None
            self.cycles.append(self.now)
            data, keep, last, user = beat
            assert keep == (1 << BYTES) - 1 or (last and keep and not keep & keep + 1), f"keep {keep:#x}"
            frame += data.to_bytes(BYTES, "little")[: keep.bit_count()]
            if last:
                want = self.expected.popleft()
                assert (frame, user) == want, f"{frame.hex()} {user}, expected {want[0].hex()} {want[1]}"
                frame = b""


def sizes(low: int) -> list[int]:
    return list(range(low, low + 3 * BYTES + 1))


@cocotb.test
@cocotb.parametrize(idle=["never", "sparse", "bursts"], backpressure=["never", "alternating", "bursts"])
async def every_length(dut, idle: str, backpressure: str) -> None:
    """Given frames of any length, and some whose end is in the tail, then they leave whole, with their user bits."""
    tb = TB(dut)
    for size in sizes(1):
        tb.send(size)
    for beats in (1, 2, 3):
        for tail in range(1, CUT + 1):
            tb.send(beats * BYTES - CUT + tail, tail)
    await tb.run(idle, backpressure)


@cocotb.test
async def no_bubbles(dut) -> None:
    """Given frames that have as many beats out as in, then a beat leaves in each cycle, from frame to frame too."""
    tb = TB(dut)
    for turn in range(60):
        beats = 1 + turn % 4
        if turn % 3:
            tb.send(beats * BYTES - CUT + 4, 4)
        else:
            tb.send(beats * BYTES - CUT)
    await tb.run()
    gaps = [after - before - 1 for before, after in pairwise(tb.cycles)]
    assert not any(gaps), gaps
