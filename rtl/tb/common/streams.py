"""Drivers and monitors of the interfaces, and patterns that hold them up.

Frames (AXI-Stream) use cocotbext-axi; what is only valid, data, ready (META, payload, jobs) has `Source` and `Sink`.
A pause pattern yields True for a cycle in which the sender is idle or the receiver not ready.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import cycle

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

CLOCK_NS = 4

Pattern = Callable[[int], Iterator[bool]]


def never(seed: int) -> Iterator[bool]:
    return cycle((False,))


def alternating(seed: int) -> Iterator[bool]:
    return cycle((True, True, True, False))


def sparse(seed: int) -> Iterator[bool]:
    """Paused one cycle in four, at random."""
    choice = random.Random(seed)
    while True:
        yield choice.random() < 0.25


def bursts(seed: int) -> Iterator[bool]:
    """Long runs of both, as from a switch that serves others."""
    choice = random.Random(seed)
    while True:
        for _ in range(choice.randrange(1, 40)):
            yield False
        for _ in range(choice.randrange(1, 40)):
            yield True


PATTERNS: dict[str, Pattern] = {
    "never": never,
    "alternating": alternating,
    "sparse": sparse,
    "bursts": bursts,
}


def start_clock(dut, nanoseconds: float = CLOCK_NS) -> None:
    cocotb.start_soon(Clock(dut.clk, nanoseconds, "ns").start())


async def reset(dut, cycles: int = 4) -> None:
    """Holds `rst` for some cycles."""
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


def axis_source(dut, prefix: str, pause: Iterator[bool] | None = None) -> AxiStreamSource:
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, prefix), dut.clk, dut.rst)
    source.log.setLevel("WARNING")
    if pause is not None:
        source.set_pause_generator(pause)
    return source


def axis_sink(dut, prefix: str, pause: Iterator[bool] | None = None) -> AxiStreamSink:
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, prefix), dut.clk, dut.rst)
    sink.log.setLevel("WARNING")
    if pause is not None:
        sink.set_pause_generator(pause)
    return sink


def axis_frame(data: bytes, bad_at: int | None = None) -> AxiStreamFrame:
    """A frame for a source; `tuser` is 1 in the beat that holds byte `bad_at`."""
    if bad_at is None:
        return AxiStreamFrame(data, tuser=0)
    # The source takes the tuser of the last byte of a beat: it stays up from there to the end.
    return AxiStreamFrame(data, tuser=[int(at >= bad_at) for at in range(len(data))])


async def axis_rules(dut, prefix: str) -> None:
    """Asserts, for ever, that a transfer once offered stays as it is until it is taken (reset excepted)."""
    signals = [getattr(dut, f"{prefix}_t{name}") for name in ("data", "keep", "last")]
    valid, ready = getattr(dut, f"{prefix}_tvalid"), getattr(dut, f"{prefix}_tready")
    offered: list[int] | None = None
    while True:
        await RisingEdge(dut.clk)
        if dut.rst.value == 1:
            offered = None
            continue
        if valid.value != 1:
            assert offered is None, f"{prefix}: tvalid fell before tready"
            continue
        now = [int(signal.value) for signal in signals]
        assert offered is None or now == offered, f"{prefix}: changed while waiting"
        offered = None if ready.value == 1 else now


class Sink:
    """Takes words from `<prefix>_valid/data/ready`, and asserts that valid and data stay until ready."""

    def __init__(self, dut, prefix: str, pause: Iterator[bool] | None = None) -> None:
        self.words: deque[int] = deque()
        self.cycles: deque[int] = deque()  # when each was taken
        self.pause = pause
        self.now = 0
        self._clk = dut.clk
        self._rst = dut.rst
        self._prefix = prefix
        self._valid = getattr(dut, f"{prefix}_valid")
        self._data = getattr(dut, f"{prefix}_data")
        self._ready = getattr(dut, f"{prefix}_ready")
        self._ready.value = 0
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        ready = False
        offered: int | None = None
        while True:
            await RisingEdge(self._clk)
            self.now += 1
            valid = self._valid.value == 1 and self._rst.value == 0
            if valid:
                data = int(self._data.value)
                assert offered is None or data == offered, f"{self._prefix}: data changed while waiting"
                if ready:
                    self.words.append(data)
                    self.cycles.append(self.now)
                    offered = None
                else:
                    offered = data
            elif self._rst.value == 1:
                offered = None
            else:
                assert offered is None, f"{self._prefix}: valid fell before ready"
            ready = self.pause is None or not next(self.pause)
            self._ready.value = int(ready)


class Source:
    """Gives words to `<prefix>_valid/data/ready`."""

    def __init__(self, dut, prefix: str, pause: Iterator[bool] | None = None) -> None:
        self.queue: deque[int] = deque()
        self.pause = pause
        self._clk = dut.clk
        self._valid = getattr(dut, f"{prefix}_valid")
        self._data = getattr(dut, f"{prefix}_data")
        self._ready = getattr(dut, f"{prefix}_ready")
        self._valid.value = 0
        self._offered = False
        cocotb.start_soon(self._run())

    @property
    def idle(self) -> bool:
        return not self.queue and not self._offered

    async def _run(self) -> None:
        while True:
            await RisingEdge(self._clk)
            if self._offered and self._ready.value == 1:
                self._offered = False
            paused = self.pause is not None and next(self.pause)
            if not self._offered and self.queue and not paused:
                self._data.value = self.queue.popleft()
                self._offered = True
            self._valid.value = int(self._offered)


async def until(dut, condition: Callable[[], bool], cycles: int, what: str) -> None:
    """Waits for `condition`, at most `cycles` clock cycles."""
    for _ in range(cycles):
        if condition():
            return
        await RisingEdge(dut.clk)
    raise AssertionError(f"not within {cycles} cycles: {what}")
