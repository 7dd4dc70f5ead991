"""Where a node's processor time goes: system calls, compiled work, the rest. And how fast kernels are alone.

Methods of a node and its transport are put behind a stopwatch; nothing else of the data path knows of it. Times are
the thread's processor time, so that waiting and other processes do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

from epic_host.fast.compiled import Word, compiled
from epic_host.fast.crc import crc_update
from epic_host.fast.lanes import combine, swap_copy
from epic_spec.tables import Datatype, Operator

# Methods by what they are: system calls that receive and send, and compiled work on what was received or is to be sent.
_TRANSPORT: Final = {"receive_batch": "receive", "send_batch": "send"}
_NODE: Final = {
    "receive_batch": "kernels",
    "poll_batch": "kernels",
    "submit_block": "kernels",
    "submit_cells": "kernels",
}


class Profile:
    """Seconds of processor time of a node by `receive`, `send`, `kernels`, and `rest` of its process."""

    def __init__(self, node: object, transport: Any) -> None:
        self._spent = dict.fromkeys(("receive", "send", "kernels"), 0.0)
        self._begun = time.process_time()
        # A Pump calls none of these methods; it adds up itself.
        if hasattr(transport, "clock"):
            transport.clock = self._spent
        for owner, methods in ((node, _NODE), (transport, _TRANSPORT)):
            for name, what in methods.items():
                if (method := getattr(owner, name, None)) is not None:
                    setattr(owner, name, self._timed(method, what))

    def _timed(self, method: Callable[..., Any], what: str) -> Callable[..., Any]:
        spent, clock = self._spent, time.thread_time

        @wraps(method)
        def timed(*arguments: Any) -> Any:
            begin = clock()
            try:
                return method(*arguments)
            finally:
                spent[what] += clock() - begin

        return timed

    def total(self) -> dict[str, float]:
        """Seconds since the beginning."""
        used = time.process_time() - self._begun
        return self._spent | {"rest": max(0.0, used - sum(self._spent.values()))}


@compiled
def _crcs(address: Word, count: Word, times: Word) -> Word:
    state = np.uint32(0)
    for _ in range(times):
        state = crc_update(state, address, count)
    return state


@compiled
def _additions(acc: Word, payload: Word, n: Word, datatype: Word, scratch: Word, times: Word) -> None:
    for _ in range(times):
        combine(acc, payload, n, datatype, _SUM, True, False, scratch)


@compiled
def _moves(target: Word, source: Word, n: Word, times: Word) -> None:
    for _ in range(times):
        swap_copy(target, source, n, 4)


_SUM: Final = int(Operator.SUM)
_TIMES: Final = 200


def rates(payload: int) -> dict[str, float]:
    """Seconds a byte of the kernels on payloads of so many bytes in the cache: `crc`, `add` (FP32), `move`."""
    memory = np.zeros((3, payload), np.uint8)
    a, b, c = (int(row.ctypes.data) for row in memory)
    tasks: dict[str, Callable[[int], object]] = {
        "crc": lambda times: _crcs(a, payload, times),
        "add": lambda times: _additions(a, b, payload // 4, int(Datatype.FP32), c, times),
        "move": lambda times: _moves(a, b, payload // 4, times),
    }
    found = {}
    for name, task in tasks.items():
        task(1)
        best = float("inf")
        for _ in range(5):
            begin = time.thread_time()
            task(_TIMES)
            best = min(best, time.thread_time() - begin)
        found[name] = best / _TIMES / payload
    return found
