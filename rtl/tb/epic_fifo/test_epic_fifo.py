"""epic_fifo: what goes in comes out, in order, once it is committed; what is rewound never does; `room` is exact."""

from __future__ import annotations

import random
from collections import deque

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_fifo",
    sources=("epic_fifo.v", "epic_ram.v"),
    small=(
        (ICARUS, {"WIDTH": 16, "DEPTH": 8, "PACKET": 1}),
        (VERILATOR, {"WIDTH": 16, "DEPTH": 8, "PACKET": 0}),
        (ICARUS, {"WIDTH": 16, "DEPTH": 8, "PACKET": 1, "REGISTER": 1}),
        (VERILATOR, {"WIDTH": 16, "DEPTH": 8, "PACKET": 0, "REGISTER": 2}),
    ),
    configurations=tuple(
        (simulator, {"WIDTH": 16, "DEPTH": depth, "PACKET": packet, "REGISTER": register})
        for simulator in (ICARUS, VERILATOR)
        for depth in (2, 8, 64)
        for packet in (0, 1)
        for register in (0, 1, 2)
    ),
)

DEPTH, PACKET, REGISTER = parameter("DEPTH", 8), parameter("PACKET", 0), parameter("REGISTER", 0)


class TB:
    """Drives one cycle at a time beside a model: words not committed, words in memory, those in registers behind it."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.open: list[int] = []
        self.stored: deque[int] = deque()  # committed, those in registers included
        # Which registers have a word: the memory's own, then those behind it, the last of which is the output.
        self.full = [False] * (REGISTER + 1)
        self.no_room = False  # with packets: of the cycle before, without the word that was read then
        self.taken = self.rewound = self.refused = 0
        start_clock(dut)

    async def start(self) -> None:
        for name in ("in_valid", "in_data", "commit", "rewind", "out_ready"):
            getattr(self.dut, name).value = 0
        await reset(self.dut)

    async def cycle(self, valid: bool, commit: bool, rewind: bool, ready: bool) -> None:
        dut, word = self.dut, self.choice.randrange(1 << 16)
        dut.in_valid.value, dut.in_data.value, dut.out_ready.value = int(valid), word, int(ready)
        dut.commit.value, dut.rewind.value = int(commit), int(rewind)
        await ReadOnly()
        # Words in registers are not in memory any more.
        memory = len(self.stored) - sum(self.full)
        shown = self.full[-1]
        room = DEPTH - len(self.open) - memory
        assert int(dut.room.value) == room
        accepts = not self.no_room if PACKET else room > 0
        assert int(dut.in_ready.value) == accepts
        assert int(dut.out_valid.value) == shown
        if shown:
            assert int(dut.out_data.value) == self.stored[0], f"word {self.taken}"
        if shown and ready:
            self.stored.popleft()
            self.taken += 1
        # A word moves on when there is none in front of it, or that one moves on.
        moves = ready
        for place in reversed(range(REGISTER + 1)):
            moves = moves or not self.full[place]
            if moves:
                self.full[place] = self.full[place - 1] if place else memory > 0
        if valid and accepts:
            self.open.append(word)
        self.refused += valid and not accepts
        self.no_room = memory + (0 if rewind else len(self.open)) == DEPTH
        if rewind and PACKET:
            self.rewound += len(self.open)
            self.open = []
        elif commit or not PACKET:
            self.stored += self.open
            self.open = []
        await RisingEdge(dut.clk)


@cocotb.test()
async def random_traffic(dut) -> None:
    tb = TB(dut)
    await tb.start()
    for phase in range(12):
        writes, reads = ((0.9, 0.2), (0.3, 0.9), (0.7, 0.7), (1.0, 1.0))[phase % 4]
        for _ in range(400):
            # A packet that fills the memory can only be taken back.
            stuck = PACKET and len(tb.open) >= DEPTH - 1
            await tb.cycle(
                tb.choice.random() < writes,
                tb.choice.random() < 0.3,
                bool(stuck) or tb.choice.random() < 0.1,
                tb.choice.random() < reads,
            )
    assert tb.taken > 300
    assert tb.refused > 0
    assert tb.rewound > 0 or not PACKET


@cocotb.test()
async def one_word_a_cycle(dut) -> None:
    """Written and read all the time it never pauses."""
    tb = TB(dut)
    await tb.start()
    for _ in range(200):
        await tb.cycle(True, True, False, True)
    # Cycles from a word's writing to its being shown: two and REGISTER; a memory of two words holds it up at times.
    assert tb.taken >= (197 - REGISTER if DEPTH > 2 else 130)


@cocotb.test()
async def reset_forgets(dut) -> None:
    tb = TB(dut)
    await tb.start()
    for _ in range(DEPTH):
        await tb.cycle(True, True, False, False)
    dut.in_valid.value = dut.commit.value = 0
    await reset(dut)
    tb.open, tb.stored, tb.full = [], deque(), [False] * (REGISTER + 1)
    tb.no_room = False
    for _ in range(10):
        await tb.cycle(False, True, False, True)
