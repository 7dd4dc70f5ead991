"""epic_arbiter: at most one grant, to one that asks; who waits is served after all others once; fair at full load."""

from __future__ import annotations

import random
from collections import Counter

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_arbiter",
    sources=("epic_arbiter.v",),
    small=((ICARUS, {"PORTS": 5}), (VERILATOR, {"PORTS": 8})),
    configurations=tuple(
        (simulator, {"PORTS": ports}) for simulator in (ICARUS, VERILATOR) for ports in range(2, 9)
    ),
)

PORTS = parameter("PORTS", 4)


async def start(dut) -> None:
    dut.request.value = dut.take.value = 0
    start_clock(dut)
    await reset(dut)


@cocotb.test()
async def random_requests(dut) -> None:
    await start(dut)
    choice = random.Random(cocotb.RANDOM_SEED)
    waiting = [0] * PORTS  # grants to others that were used while this one asked
    request = last = 0
    for _ in range(3000):
        request |= choice.randrange(1 << PORTS) & choice.randrange(1 << PORTS)
        take = choice.random() < 0.7
        dut.request.value, dut.take.value = request, int(take)
        await ReadOnly()
        grant = int(dut.grant.value)
        assert grant & ~request == 0
        assert grant.bit_count() == (request != 0)
        if grant:
            port = grant.bit_length() - 1
            assert int(dut.index.value) == port
            # The first after the one that was served last.
            assert port == next(p % PORTS for p in range(last, last + PORTS) if request >> p % PORTS & 1)
            if take:
                waiting = [n + 1 if request >> p & 1 else 0 for p, n in enumerate(waiting)]
                waiting[port] = 0
                assert max(waiting) < PORTS
                last = port + 1
                request &= ~grant
        await RisingEdge(dut.clk)


@cocotb.test()
async def full_load_is_shared_alike(dut) -> None:
    await start(dut)
    dut.request.value, dut.take.value = (1 << PORTS) - 1, 1
    served: Counter[int] = Counter()
    for _ in range(20 * PORTS):
        await ReadOnly()
        served[int(dut.index.value)] += 1
        await RisingEdge(dut.clk)
    assert set(served.values()) == {20}
    assert len(served) == PORTS
