"""Faults planted in the compiled rules of Mode II are each seen by a test.

Compiling a fault takes seconds, so they are for `EPIC_EXAMPLES` above 1; one of Mode III (test_mode3_mutants.py) always
is planted.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
ALL = int(os.environ.get("EPIC_EXAMPLES", "1")) > 1

RC = "test_rc.py"
ENGINE = "test_mode2_frames.py"
AGENT = "test_rc_agent.py"

# What is wrong: (module, text, what stands there instead, the tests that see it).
MUTANTS = {
    "Karn's rule is forgotten": (
        "rc", "if flight.transmissions == 1:", "if flight.transmissions >= 1:", RC,
    ),
    "a NAK is answered each time": ("rc", "if number > end.nak_served:", "if number >= end.una:", RC),
    "an expiry leaves the answered NAK": ("rc", "    end.nak_served = -1\n    _go_back", "    _go_back", RC),
    "an RNR NAK is a NAK": ("rc", "end.ready_at = now + _RNR_SECONDS", "end.deadline = now + _RNR_SECONDS", RC),
    "a pause counts as silence": ("rc", "end.retries = 0  # the peer lives", "pass", RC),
    "an ACK of a packet that was not sent": ("rc", "if number >= end.next:", "if number > end.next:", RC),
    "patience is forgotten": ("rc", " and not end.patient:", ":", RC),
    "every gap is answered": ("rc", "    if not end.nak_sent:\n", "    if True:\n", RC),
    "an edge in error keeps its messages": ("rc", "    end.una = end.next\n    w.counters", "    w.counters", RC),
    "a repeated result shows all": ("rc", "if m.rank >= 0 and not below(", "if False and not below(", RC),
    "the window guard is open": (
        "mode2_kernels", ">= tree.passed + group.window:", "> tree.passed + 2 * group.window:", ENGINE,
    ),
    "a queued body is overwritten": ("mode2_kernels", "m.queued == w.generation[0] or ", "", ENGINE),
    "departures are thought to be full": (
        "mode2_kernels", "or _free(w) < group.fan_in + 1", "or _free(w) < group.fan_in + 9", ENGINE,
    ),
    "a contribution acknowledges too much": (
        "mode2_kernels", "cell - group.window + 1, now", "cell - group.window + 2, now", ENGINE,
    ),
    "a contribution acknowledges nothing": (
        "mode2_kernels", "    rc.acknowledge_messages(w, end, cell - group.window + 1, now)\n", "", ENGINE,
    ),
    "a result acknowledges no partial": (
        "mode2_kernels", "    rc.acknowledge_messages(w, end, tree.passed + 1, now)\n", "", ENGINE,
    ),
    "a result is taken before its cell is complete": (
        "mode2_kernels", " or slot.bitmap != group.full:", ":", ENGINE,
    ),
    "a slot keeps the value of an older cell": ("mode2_kernels", "        value.reset(slot)\n", "", ENGINE),
    "a mark of the parent's result is lost": (
        "mode2_kernels", "frame.ce or slot.congested", "slot.congested", ENGINE,
    ),
    "an edge in error is heard": (
        "mode2_kernels", "row = tree.ends + edge.child\n    end = w.ends[row]\n    if end.failed:",
        "row = tree.ends + edge.child\n    end = w.ends[row]\n    if False:", ENGINE,
    ),
    "a result acknowledges nothing at the host": (
        "rc_agent_kernels", "    rc.acknowledge_messages(w, end, number + 1, now)\n", "", AGENT,
    ),
    "a NULL result has a payload": (
        "rc_agent_kernels", "0 if frame.word & np.uint32(NULL_BIT) else frame.length", "frame.length", AGENT,
    ),
    "a cell is overwritten before it left": (
        "rc_agent_kernels", "w.messages[number & end.mask].queued == w.generation[0] or ", "", AGENT,
    ),
    "a long result is dropped in silence": ("rc_agent_kernels", "        rc.refuse(w, end, _INVALID)\n", "", AGENT),
    "the timer is not set again": (
        "rc_agent_kernels", "    w.cells.agent[0].timer = rc.next_deadline(end)\n    fence()\n",
        "    fence()\n", AGENT,
    ),
}  # fmt: skip


def check_fault(folder: Path, module: str, old: str, new: str, tests: str) -> None:
    """Plant a fault and see the tests fail. `folder` takes the changed module and what is compiled."""
    given = folder / "plant.json"
    given.write_text(json.dumps({"module": module, "old": old, "new": new}))
    environment = os.environ | {"EPIC_EXAMPLES": "1", "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-m", "host.fast.mutated", str(given), str(TESTS / "host" / "fast" / tests)],
        cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    # One of the tests failed, by what it compares or expects to be refused, or for an event that came twice (KeyError):
    # a fault that does not compile would prove nothing.
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(
        r"AssertionError|^E +assert|^E +KeyError|^E +Failed: DID NOT RAISE", done.stdout, re.MULTILINE
    ), done.stdout


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", MUTANTS if ALL else [])
def test_fault_is_seen(name: str, tmp_path: Path) -> None:
    check_fault(tmp_path, *MUTANTS[name])
