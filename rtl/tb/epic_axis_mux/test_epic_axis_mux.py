"""epic_axis_mux: whole frames, each source's in order, none lost, in turn, without lost cycles."""

from __future__ import annotations

import random
from collections import Counter, deque
from itertools import pairwise

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, reset, start_clock, until

BENCH = Bench(
    top="epic_axis_mux",
    sources=("epic_axis_mux.v", "epic_arbiter.v"),
    small=((ICARUS, {"SOURCES": 2, "WIDTH": 64}), (VERILATOR, {"SOURCES": 5, "WIDTH": 32})),
    configurations=tuple(
        (simulator, {"SOURCES": sources, "WIDTH": width})
        for simulator in (ICARUS, VERILATOR)
        for sources, width in ((2, 64), (3, 20), (5, 32), (8, 128))
    ),
)

SOURCES = parameter("SOURCES", 2)
WIDTH = parameter("WIDTH", 64)


class TB:
    """Drives all sources cycle by cycle; a beat's data says whose it is and which, so that any mix-up shows."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.frames: list[deque[int]] = [
            deque() for _ in range(SOURCES)
        ]  # beats of each frame that a source has yet
        self.sent = [0] * SOURCES  # beats that a source has sent
        self.served: list[tuple[int, int]] = []  # (source, cycle of the last beat)
        self.lengths: list[deque[int]] = [deque() for _ in range(SOURCES)]  # frames that must come out
        self.taken = 0
        self.now = 0
        start_clock(dut)

    def give(self, source: int, beats: int) -> None:
        self.frames[source].append(beats)
        self.lengths[source].append(beats)

    def data(self, source: int, number: int) -> int:
        return (number * 8 + source) & (1 << WIDTH) - 1

    async def run(self, idle: str = "never", backpressure: str = "never", reset_first: bool = True) -> None:
        dut = self.dut
        dut.in_valid.value = 0
        dut.in_last.value = 0
        dut.in_data.value = 0
        dut.out_ready.value = 0
        if reset_first:
            await reset(dut)
        cocotb.start_soon(self._sources([PATTERNS[idle](source) for source in range(SOURCES)]))
        cocotb.start_soon(self._sink(PATTERNS[backpressure](99)))

    async def _sources(self, pauses) -> None:
        dut = self.dut
        left = [0] * SOURCES  # beats of the frame under way
        offered = [False] * SOURCES
        while True:
            ready = int(dut.in_ready.value)
            for source in range(SOURCES):
                if offered[source] and ready >> source & 1:
                    offered[source] = False
                    left[source] -= 1
                    self.sent[source] += 1
                if not offered[source] and not next(pauses[source]):
                    if not left[source] and self.frames[source]:
                        left[source] = self.frames[source].popleft()
                    offered[source] = left[source] > 0
            dut.in_valid.value = sum(offered[source] << source for source in range(SOURCES))
            dut.in_last.value = sum((left[source] == 1) << source for source in range(SOURCES))
            dut.in_data.value = sum(self.data(s, self.sent[s]) << s * WIDTH for s in range(SOURCES))
            await RisingEdge(dut.clk)

    async def _sink(self, pause) -> None:
        dut = self.dut
        ready = False
        current: int | None = None
        beats = 0
        received = [0] * SOURCES
        offered = None
        while True:
            ready = not next(pause)
            dut.out_ready.value = int(ready)
            await RisingEdge(dut.clk)
            self.now += 1
            if dut.out_valid.value != 1:
                assert offered is None, "out_valid fell before out_ready"
                continue
            shown = (int(dut.out_data.value), int(dut.out_last.value), int(dut.out_source.value))
            assert offered is None or offered == shown, "a beat changed while it waited"
            offered = shown
            if not ready:
                continue
            offered = None
            data, last, one_hot = shown
            source = one_hot.bit_length() - 1
            assert one_hot == 1 << source, f"out_source {one_hot:#b}"
            assert current in (None, source), f"a beat of {source} in a frame of {current}"
            assert data == self.data(source, received[source]), (
                f"source {source}: beat {received[source]} is {data:#x}"
            )
            received[source] += 1
            beats += 1
            self.taken += 1
            current = source
            if last:
                assert beats == self.lengths[source].popleft()
                self.served.append((source, self.now))
                current, beats = None, 0

    async def done(self, cycles: int) -> None:
        await until(self.dut, lambda: not any(self.lengths), cycles, "all frames")


@cocotb.test
@cocotb.parametrize(idle=["never", "sparse", "bursts"], backpressure=["never", "alternating", "bursts"])
async def whole_frames_in_order(dut, idle: str, backpressure: str) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    tb = TB(dut)
    for source in range(SOURCES):
        for _ in range(25):
            tb.give(source, choice.choice([1, 1, 2, 3, 9]))
    await tb.run(idle, backpressure)
    await tb.done(60_000)


@cocotb.test
async def one_beat_frames_take_turns_without_a_bubble(dut) -> None:
    """Given sources that always wait with frames of one beat, then each cycle serves the next source."""
    tb = TB(dut)
    for source in range(SOURCES):
        for _ in range(64):
            tb.give(source, 1)
    await tb.run()
    await tb.done(2_000)
    sources = [source for source, _ in tb.served]
    cycles = [cycle for _, cycle in tb.served]
    assert cycles == list(range(cycles[0], cycles[0] + 64 * SOURCES))
    assert all(after == (before + 1) % SOURCES for before, after in pairwise(sources))
    record("cycles_a_frame", (cycles[-1] - cycles[0] + 1) / len(cycles))


@cocotb.test
async def nobody_waits_for_more_than_one_frame_of_each_other(dut) -> None:
    """Given one source with few frames among busy ones, then between two of its frames each other has one at most."""
    tb = TB(dut)
    for source in range(SOURCES):
        for _ in range(40):
            tb.give(source, 1 + source % 3)
    await tb.run("never", "sparse")
    await tb.done(8_000)
    for watched in range(SOURCES):
        between: Counter[int] = Counter()
        for source, _ in tb.served[: 30 * SOURCES]:  # all of them still have frames
            if source == watched:
                between.clear()
            else:
                between[source] += 1
                assert between[source] <= 1, f"source {source} went twice before {watched}"


@cocotb.test
async def one_source_alone_has_every_cycle(dut) -> None:
    tb = TB(dut)
    for _ in range(30):
        tb.give(SOURCES - 1, 2)
    await tb.run()
    await tb.done(300)
    assert tb.served[-1][1] - tb.served[0][1] == 2 * 29
