"""epic_m2_timers: each deadline is found once it is reached, within a scan and never before, also where time wraps."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import FallingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_m2_timers",
    sources=("epic_m2_timers.v", "epic_ram.v"),
    small=((ICARUS, {"EDGES": 12}),),
    configurations=((VERILATOR, {"EDGES": 12}), (ICARUS, {"EDGES": 2}), (VERILATOR, {"EDGES": 256})),
)

EDGES = parameter("EDGES", 32)
WORD = 1 << 32


class TB:
    """Writes deadlines, moves time by one a few cycles, takes what is due, beside a model."""

    def __init__(self, dut, start: int) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED + start)
        self.now = start
        self.armed: dict[int, int] = {}
        self.found = 0
        start_clock(dut)

    async def start(self) -> None:
        dut = self.dut
        dut.write.value = dut.take.value = 0
        dut.write_edge.value = dut.write_armed.value = dut.write_deadline.value = 0
        dut.now.value = self.now % WORD
        await reset(dut)
        await FallingEdge(dut.clk)  # between edges everything is settled

    async def cycle(self, write: tuple[int, int | None] | None, take: bool) -> None:
        """One cycle; `write` is (edge, deadline or None to stop it)."""
        dut = self.dut
        dut.write.value = write is not None
        if write is not None:
            edge, deadline = write
            dut.write_edge.value, dut.write_armed.value = edge, deadline is not None
            dut.write_deadline.value = (deadline or 0) % WORD
        dut.take.value = take
        dut.now.value = self.now % WORD
        await FallingEdge(dut.clk)
        if write is not None:
            self.armed.pop(write[0], None)
            if write[1] is not None:
                self.armed[write[0]] = write[1]


async def random_run(dut, start: int) -> None:
    tb = TB(dut, start)
    await tb.start()
    since: dict[int, int] = {}  # cycles that a timer has been due
    for at in range(6000):
        write = None
        if tb.choice.random() < 0.05:
            edge = tb.choice.randrange(EDGES)
            write = (
                edge,
                None if tb.choice.random() < 0.2 else tb.now + tb.choice.choice((0, 3, 40, 300, 1 << 30)),
            )
            since.pop(edge, None)
        due = dut.due.value == 1
        edge = int(dut.due_edge.value) if due else -1
        # The reader takes at once, or lets it wait; it must stay the same.
        take = due and tb.choice.random() < 0.5
        await tb.cycle(write, take)
        if take:
            tb.found += 1
            # What was due may have been written anew since: the reader looks at the deadline itself.
            if edge in tb.armed and tb.armed[edge] <= tb.now:
                tb.armed.pop(edge)
                since.pop(edge, None)
                await tb.cycle((edge, None), False)
        elif due:
            assert dut.due.value == 1 and int(dut.due_edge.value) == edge, "what is due went away untaken"
        for e, deadline in tb.armed.items():
            if deadline <= tb.now:
                since[e] = since.get(e, 0) + 1
                # All edges before it may be due too, each taken in a few cycles, and half of the cycles are lost.
                assert since[e] < 30 * EDGES + 200, f"edge {e} is due and not found"
        if at % 7 == 0:
            tb.now += 1
    assert tb.found > 10


@cocotb.test
async def deadlines_are_found(dut) -> None:
    await random_run(dut, 1000)


@cocotb.test
async def across_the_wrap(dut) -> None:
    await random_run(dut, WORD - 300)


@cocotb.test
async def never_early(dut) -> None:
    """A single timer: nothing before its deadline, then within a scan."""
    tb = TB(dut, WORD - 50)
    await tb.start()
    for wait in (1, 2, 30, 100):
        edge, deadline = tb.choice.randrange(EDGES), tb.now + wait
        await tb.cycle((edge, deadline), False)
        while tb.now < deadline:
            for _ in range(EDGES + 4):
                await tb.cycle(None, False)
                assert dut.due.value == 0, f"due {deadline - tb.now} before the deadline"
            tb.now += 1
        for _ in range(EDGES + 4):
            await tb.cycle(None, False)
        assert dut.due.value == 1 and int(dut.due_edge.value) == edge
        await tb.cycle((edge, None), True)
        for _ in range(EDGES + 4):
            await tb.cycle(None, False)
            assert dut.due.value == 0, "found again although it was stopped"
