"""epic_edge_table: the entry of each key, STEPS steps later; no hit for keys that are not there, or not any more."""

from __future__ import annotations

import random
from collections import deque

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter
from common.streams import reset, start_clock

BENCH = Bench(
    top="epic_edge_table",
    sources=("epic_edge_table.v", "epic_ram.v"),
    small=((ICARUS, {"EDGES": 8, "ENTRY_W": 40}), (VERILATOR, {"EDGES": 37, "ENTRY_W": 40, "STEPS": 3})),
    configurations=tuple(
        (simulator, {"EDGES": edges, "ENTRY_W": 40})
        for simulator in (ICARUS, VERILATOR)
        for edges in (2, 8, 37, 256)
    )
    + tuple((ICARUS, {"EDGES": edges, "ENTRY_W": 40, "STEPS": 3}) for edges in (2, 8, 256)),
)

EDGES, STEPS = parameter("EDGES", 8), parameter("STEPS", 2)


@cocotb.test()
async def lookups_while_edges_come_and_go(dut) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    for name in ("write", "write_index", "write_used", "write_qpn", "write_entry", "step", "qpn"):
        getattr(dut, name).value = 0
    start_clock(dut)
    await reset(dut)
    table: dict[int, tuple[int, int]] = {}  # index -> (key, entry)
    keys = [choice.randrange(1 << 24) for _ in range(2 * EDGES)]
    # What is under way: None before the first. An entry that changes meanwhile may be seen either way, so none does.
    asked: deque[int | None] = deque([None] * STEPS)
    hits = misses = 0
    next_key = choice.choice(keys)  # a key is found two cycles after it was written
    for _ in range(4000):
        step = choice.random() < 0.8
        key, next_key = next_key, choice.choice(keys)
        index, used = choice.randrange(EDGES), choice.random() < 0.7
        under_way = {*asked, key, next_key}
        new = choice.choice(keys)
        free = new not in {k for i, (k, _) in table.items() if i != index}
        quiet = free and not {new, table.get(index, (None,))[0]} & under_way
        entry = choice.randrange(1 << 40)
        dut.write.value, dut.write_index.value, dut.write_used.value = int(quiet), index, int(used)
        dut.write_qpn.value, dut.write_entry.value = new, entry
        dut.step.value, dut.qpn.value = int(step), key
        await ReadOnly()
        oldest = asked[0]
        if oldest is not None:
            found = [(i, e) for i, (k, e) in table.items() if k == oldest]
            assert int(dut.hit.value) == len(found)
            if found:
                assert (int(dut.index.value), int(dut.entry.value)) == found[0]
                hits += 1
            else:
                misses += 1
        if step:
            asked.popleft()
            asked.append(key)
        if quiet and used:
            table[index] = (new, entry)
        elif quiet:
            table.pop(index, None)
        await RisingEdge(dut.clk)
    assert min(hits, misses) > 200
