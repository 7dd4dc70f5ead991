"""epic_counters: every counter by its index, many events in one cycle, all zero after reset."""

from __future__ import annotations

import random
from collections import Counter

import cocotb
from cocotb.triggers import RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

from epic_spec.tables import COUNTERS

BENCH = Bench(
    top="epic_counters",
    sources=("epic_counters.v",),
    small=((ICARUS, {"PORTS": 4}), (VERILATOR, {"PORTS": 8})),
    configurations=tuple(
        (simulator, {"PORTS": ports}) for simulator in (ICARUS, VERILATOR) for ports in (2, 4, 8)
    ),
)

PORTS = parameter("PORTS", 4)
NAMES = list(COUNTERS)
BOTH = ("tx_ack", "tx_nak", "edge_errors")  # as an outcome and as what is sent because of one
SENDS = ("tx_partial", "tx_result", "tx_replay", "tx_resend", "tx_reflected", *BOTH)
RECEIVED = ("rx_contribution", "rx_duplicate", "rx_stale", "rx_result")
OUTCOMES = [n for n in NAMES if n.startswith("drop_") or n in (*RECEIVED, *BOTH)]
SINGLE = {"frame": "rx_frames", "ce": "rx_ce", "completed": "cells_completed", "poisoned": "cells_poisoned"}


async def read_all(dut) -> dict[str, int]:
    values = {}
    for index, name in enumerate(NAMES):
        dut.read_index.value = index
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        values[name] = int(dut.read_value.value)
    return values


async def start(dut) -> None:
    quiet(dut)
    for name in ("outcome_index", "send_index", "send_count", "read_index"):
        getattr(dut, name).value = 0
    await reset(dut)
    assert int(dut.ready.value) == 0
    for _ in range(70):
        await RisingEdge(dut.clk)
    assert int(dut.ready.value) == 1


def quiet(dut) -> None:
    for name in (*SINGLE, "outcome", "send", "sent", "failed"):
        getattr(dut, name).value = 0


@cocotb.test()
async def events_are_counted(dut) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    start_clock(dut)
    await start(dut)
    assert set((await read_all(dut)).values()) == {0}
    expected: Counter[str] = Counter()
    for _ in range(2000):
        for port, name in SINGLE.items():
            bit = choice.getrandbits(1)
            getattr(dut, port).value = bit
            expected[name] += bit
        outcome, name = choice.getrandbits(1), choice.choice(OUTCOMES)
        dut.outcome.value, dut.outcome_index.value = outcome, NAMES.index(name)
        expected[name] += outcome
        send, name, count = choice.getrandbits(1), choice.choice(SENDS), choice.randrange(1, 65)
        dut.send.value, dut.send_index.value, dut.send_count.value = send, NAMES.index(name), count
        expected[name] += send * count
        for port, name in (("sent", "tx_frames"), ("failed", "tx_failed")):
            bits = choice.getrandbits(PORTS)
            getattr(dut, port).value = bits
            expected[name] += bits.bit_count()
        await RisingEdge(dut.clk)
    quiet(dut)
    assert await read_all(dut) == {name: expected[name] for name in NAMES}
    await start(dut)
    assert set((await read_all(dut)).values()) == {0}
