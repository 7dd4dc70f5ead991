"""Faults planted in what moves batches are each seen by a test, with `EPIC_EXAMPLES` above 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host.fast.test_fast_mutants import check_fault

ALL = int(os.environ.get("EPIC_EXAMPLES", "1")) > 1

SOCKETS, UDP, DRIVER = "test_sockets.py", "test_udp.py", "test_batch_driver.py"

# What is wrong: (module, text, what stands there instead, the tests that see it).
MUTANTS = {
    "a run goes on behind a shorter datagram": (
        "outbox", "                and last == segment\n", "", SOCKETS,
    ),
    "marks are mixed in a run": ("outbox", "                and out.ecn[i] == ecn\n", "", SOCKETS),
    "a run of too many": ("outbox", "and frames < most", "and frames <= most", SOCKETS),
    "a run of too many bytes": ("outbox", "<= box.limits[1])", "<= box.limits[1] + 500)", SOCKETS),
    "destinations of one hash are one": (
        "outbox", " and box.names[box.table[row]].address != address:", " and False:", SOCKETS,
    ),
    "the table keeps destinations": ("outbox", "        box.table[box.rows[d]] = -1\n", "        pass\n", SOCKETS),
    "a refused run is lost": ("outbox", "            _one_by_one(fd, box, at)\n", "            pass\n", SOCKETS),
    "refused runs are made again": ("outbox", "min(box.limits[2], length)", "box.limits[2]", SOCKETS),
    "the mark of a refused run is lost": (
        "outbox", "_message(box, single, destination, iovec + 3 * k, 1, 0, ecn)",
        "_message(box, single, destination, iovec + 3 * k, 1, 0, ECN_ECT0)", SOCKETS,
    ),
    "what is refused is not counted": (
        "outbox", "            box.tally[1] += box.counts[at]\n", "            pass\n", UDP,
    ),
    "an empty datagram is none": ("inbox", "(at < size or at == 0)", "at < size", UDP),
    "the mark is not read": ("inbox", "ecn = i8(control.value & u4(3))", "ecn = 0", UDP),
    "a run is one datagram": ("inbox", "if segment > 0 and segment < length:", "if False:", UDP),
    "a forgotten port stays": ("inbox", "        inbox.used[0] = 0\n", "        pass\n", UDP),
    "cuts are counted once a batch": (
        "udp", "self._cut.dropped += int(here.sum()) - 1", "pass", UDP,
    ),
    "faults are passed by": ("udp", "if self._faulty or blocked is not None:", "if blocked is not None:", UDP),
    "the rest of a batch is forgotten": ("driver", "while done < count:", "if done < count:", DRIVER),
    "departures stay small": (
        "driver", "if len(self.departures.body) < self._node.burst + _ROOM:", "if False:", DRIVER,
    ),
    "timers of the transport do not count": (
        "driver", "return own if others is None else others if own is None else min(own, others)", "return own",
        DRIVER,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS if ALL else [])
def test_fault_is_seen(name: str, tmp_path: Path) -> None:
    check_fault(tmp_path, *MUTANTS[name])
