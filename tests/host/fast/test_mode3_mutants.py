"""Faults planted in the compiled rules of Mode III, of cells and of landing are each seen by a test.

Compiling a fault takes seconds, so all but one of them are for `EPIC_EXAMPLES` above 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from host.fast.test_fast_mutants import ALL, check_fault

FRAMES = "test_mode3_frames.py"
BLOCKS = "test_blocks.py"
ENGINE = "mode3_kernels"
AGENT = "mode3_agent_kernels"

# What is wrong: (module, text, what stands there instead, the tests that see it).
MUTANTS = {
    "no epoch tag": (ENGINE, "    if age < 0:\n        w.counters[_RX_STALE] += 1\n        return True\n    bit",
                     "    age = max(age, 0)\n    bit", FRAMES),
    "the window guard is open": (ENGINE, "if group.guard and not", "if False and not", FRAMES),
    "the guard does not ask for the next": (ENGINE, "(slot.done and age == group.rows)", "slot.done", FRAMES),
    "a queued body is overwritten": (
        ENGINE, "if bitmap | bit == group.full and slot.queued == w.generation[0]:", "if False:", FRAMES,
    ),
    "a queued partial is overwritten by the result": (
        ENGINE, "    elif slot.queued == w.generation[0]:\n        return False\n", "", FRAMES,
    ),
    "a duplicate is counted": (ENGINE, "    elif bitmap & bit:\n", "    elif False:\n", FRAMES),
    "any child has the partial resent": (ENGINE, "slot.bitmap == group.full and child == 0:",
                                         "slot.bitmap == group.full:", FRAMES),
    "a slot that served nothing is replayed": (ENGINE, "        if slot.served:\n", "        if True:\n", FRAMES),
    "a result is taken before the cell is complete": (ENGINE, " or slot.bitmap != group.full:", ":", FRAMES),
    "a second result is taken": (ENGINE, "    elif slot.done:\n        w.counters[_RX_DUPLICATE] += 1\n", "", FRAMES),
    "a mark of the parent's result is lost": (ENGINE, "        slot.congested |= frame.ce\n", "", FRAMES),
    "ACKs of engines are reflected": (ENGINE, "if edge.reflection and not edge.engine_peer:",
                                      "if edge.reflection:", FRAMES),
    "an ACK is reflected as it is": (ENGINE, "- np.int64(edge.psn_tx) + np.int64(edge.psn_rx)", "", FRAMES),
    "a Reduce's result goes to all": (ENGINE, "if value.is_for_one(slot.imm) and", "if False and", FRAMES),
    "the share of the ICRC is old": (
        ENGINE, "        _seal(w, group, slot, row)\n        _finish", "        _finish", FRAMES,
    ),
    "long contributions are taken": (ENGINE, "    if length > group.payload_bytes:", "    if False:", FRAMES),
    "broken elements are added": (
        ENGINE, "if length and not value.whole_elements(", "if False and not value.whole_elements(", FRAMES,
    ),
    "a slot keeps the value of the cell before": (ENGINE, "        value.reset(v)\n", "", FRAMES),
    "descriptors are not compared": ("value", "if descriptor != value.held or (", "if False or (", FRAMES),
    "lengths are not compared": ("value", "(length and length != value.length)", "False", FRAMES),
    "the last conflict is recorded": ("value", "        if not value.recorded:\n", "        if True:\n", FRAMES),
    "a child's conflict record is not read": (
        "value", "if group.record and length == _RECORD_BYTES and not value.recorded:", "if False:", FRAMES,
    ),
    "ERR is not taken": ("value", "        _agree(value, descriptor, 0)\n        value.err = 1\n",
                         "        _agree(value, descriptor, 0)\n", FRAMES),
    "unknown arithmetic is done": ("value", "        value.err = 1\n        return\n    if group.ordered:",
                                   "        pass\n    if group.ordered:", FRAMES),
    "ordered sums are as they come": ("value", "    if group.ordered:\n", "    if False:\n", FRAMES),
    "partials are rounded at every level": (
        "value", "        between and group.wide", "        False and group.wide", FRAMES,
    ),
    "old bytes stand in the padding": ("value", "    pad(out, length)\n", "", FRAMES),
    "the second Broadcast payload wins": ("value", "calls.or_into(total, payload, length)",
                                          "calls.copy(total, payload, length)", FRAMES),
    "a rank is below all children": (
        "value", "return low < first + count and ranks[low] == rank", "return True", FRAMES,
    ),
    "Karn's rule is forgotten": (AGENT, "if not cell.resent:\n        rto", "if True:\n        rto", BLOCKS),
    "backing off never ends": (AGENT, "    rto.progress(a)\n", "", BLOCKS),
    "a timer does not back off": (AGENT, "    rto.expired(a)\n", "", BLOCKS),
    "no fast retransmission": (
        AGENT, "        if cell.state == OUTSTANDING and not cell.resent:", "        if False:", BLOCKS,
    ),
    "fast retransmission twice": (AGENT, "cell.state == OUTSTANDING and not cell.resent:",
                                  "cell.state == OUTSTANDING:", BLOCKS),
    "a result that is here is repeated for": (AGENT, "        if cell.state == OUTSTANDING and cell.last",
                                              "        if cell.last", BLOCKS),
    "a kept result is taken again": (AGENT, "(number < a.next and state != OUTSTANDING)", "False", BLOCKS),
    "a result of a cell to come is taken": (AGENT, "elif number >= a.next:", "elif number > a.next:", BLOCKS),
    "results land whatever they say": ("landing", "if cell.lands and agrees and", "if cell.lands and", BLOCKS),
    "results land at any length": ("landing", "and length == cell.expected:", "and length <= cell.expected:", BLOCKS),
    "results are not swapped": (
        "landing", "calls.swap_copy(cell.sink, payload, length // cell.sink_swap, cell.sink_swap)",
        "calls.swap_copy(cell.sink, payload, length, 1)", BLOCKS,
    ),
    "contributions are not swapped": ("landing", "moved, length // b.swap, b.swap)", "moved, length, 1)", BLOCKS),
    "the last cell is as long as the others": ("landing", "b.last_bytes if at == b.cells - 1 else b.cell_bytes",
                                               "b.cell_bytes", BLOCKS),
    "kept results are told twice": ("landing", "            if number != first:\n", "            if True:\n", BLOCKS),
    "marks do not narrow the window": ("landing", "cell.ce and ecn)", "False)", BLOCKS),
    "poison is not counted": (
        "landing", "                w.counters[_POISONED] += 1\n", "                pass\n", BLOCKS,
    ),
    "the window is halved at every mark": ("window", "elif cell >= r.recover:", "else:", BLOCKS),
}  # fmt: skip
ALWAYS = "a queued body is overwritten"


@pytest.mark.parametrize("name", MUTANTS if ALL else [ALWAYS])
def test_fault_is_seen(name: str, tmp_path: Path) -> None:
    check_fault(tmp_path, *MUTANTS[name])
