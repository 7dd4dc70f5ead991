"""Faults planted in the compiled loop are each seen by a test; all of them with `EPIC_EXAMPLES` above 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host.fast.test_fast_mutants import check_fault

ALL = int(os.environ.get("EPIC_EXAMPLES", "1")) > 1

PUMP = "test_pump.py"
BLOCKS, OUTLET = "test_blocks.py", "test_outlet.py"

# What is wrong: (module, text, what stands there instead, the tests that see it).
MUTANTS = {
    "events wait for the next batch": ("pump", "    if told:\n        return EVENTS\n", "", PUMP),
    "a batch is admitted at every call": ("pump", "        s.fresh = 0\n", "", PUMP),
    "the first of a batch is not admitted": ("pump", "s.arena, 0, s.count,", "s.arena, 1, s.count,", PUMP),
    "departures are one generation": ("pump", "        w.generation[0] += 1\n", "        pass\n", PUMP),
    "departures are sent twice": ("pump", "        out.count[0] = 0\n", "", PUMP),
    "timers wait for the end of a flood": ("pump", "        if _due(w) <= now:\n            return DUE\n", "", PUMP),
    "the node's timer does not end the sleep": (
        "pump", "return min(s.until, _call_due(s.due, (s.cells,))) if s.due else s.until", "return s.until", PUMP,
    ),
    "nobody else gets a turn": ("pump", "if s.stop or now > begun", "if now > begun", PUMP),
    "a signal is slept over": ("pump", "min(due, begun + SLICE) if worked else due", "due", PUMP),
    "a wake-up stays": ("pump", "            read(s.wake, w.clock.ctypes.data, u8(8))\n", "", PUMP),
    "a wake-up is a datagram": ("pump", "            code = -1\n", "            code = 1\n", PUMP),
    "a nap is a sleep": ("pump", "min(latest - now, s.nap)", "latest - now", PUMP),
    "strangers are nobody's": ("pump", "return STRANGERS if w.found[1] else _TAKEN", "return _TAKEN", PUMP),
    "a closed socket is a quiet one": ("pump", "            if -taken == code:", "            if False:", PUMP),
    "departures overflow": ("pump", "(s.cells, free))", "(s.cells, 1 << 20))", PUMP),
    "a supply never ends": ("pump", "    return count < 0\n", "    return False\n", PUMP),
    "arrivals are not counted": ("pump", "    s.received += s.count\n", "", PUMP),
    "an ICRC is asked for all the same": ("pump", "        if s.trusted:\n", "        if False:\n", PUMP),
    "old tables are used": ("pump", "if node.tables is self._seen and self", "if self", PUMP),
    "time is not added up": ("pump", "    s.receiving += _spent(w) - begun\n", "", PUMP),
    "the supply begins anew": ("landing", "    b.taken += count\n", "", BLOCKS),
    "the window takes all": ("landing", "b.cells - b.taken, room(a)))", "b.cells - b.taken))", BLOCKS),
    "a supply outlives what is forgotten": (
        "agent", """        self._supply["cells"] = self._supply["taken"]\n""", "", BLOCKS,
    ),
    "a cell less is told than was contributed": (
        "outlet", "self._operation.take(cells) if cells", "self._operation.take(max(1, cells - 1)) if cells", OUTLET,
    ),
    "what comes next is taken": ("outlet", "part = self._operation.ahead()", "part = self._operation.take(9)", OUTLET),
}  # fmt: skip
ALWAYS = "events wait for the next batch"


@pytest.mark.parametrize("name", MUTANTS if ALL else [ALWAYS])
def test_fault_is_seen(name: str, tmp_path: Path) -> None:
    check_fault(tmp_path, *MUTANTS[name])
