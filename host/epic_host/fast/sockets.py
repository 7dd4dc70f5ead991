"""Datagrams in and out of a UDP socket, a batch at a time, from compiled code.

One `sendmsg` with UDP_SEGMENT carries a run of datagrams of one length (the last may be shorter) to one destination;
with UDP_GRO the kernel hands such a run over whole, and `receive` takes it apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epic_host.fast.frames import EDGE, Arrivals, departures
from epic_host.fast.inbox import CACHED, UNRESOLVED, Inbox, learn, receive, resolve
from epic_host.fast.outbox import Outbox, arrange, transmit
from epic_host.fast.syscalls import (
    RUN_BYTES,
    RUN_SEGMENTS,
    SEGMENTS,
    SLOT_BYTES,
    UDP_GRO,
    UDP_SEGMENT,
    Records,
    supports,
)

__all__ = [
    "CACHED",
    "RUN_BYTES",
    "RUN_SEGMENTS",
    "SEGMENTS",
    "SLOT_BYTES",
    "UDP_GRO",
    "UDP_SEGMENT",
    "UNRESOLVED",
    "Inbox",
    "Outbox",
    "Records",
    "arrange",
    "compiled_before",
    "learn",
    "load",
    "receive",
    "resolve",
    "supports",
    "transmit",
]


def load() -> None:
    """Load what is compiled here, or compile it. Nothing is received or sent."""
    # Named, for kernels do not keep what they are given the address of.
    inbox, outbox, arrivals, queue = Inbox(1), Outbox(1, 1), Arrivals(1, SLOT_BYTES), departures(1)
    world = inbox.address(arrivals)
    receive(-1, world)
    learn(world, 0, 0)
    resolve(world, 0)
    transmit(-1, outbox.address(queue, np.zeros(1, EDGE)))


def compiled_before() -> bool:
    """Whether what takes the longest to compile here is kept from an earlier time, for sources as they are."""
    kept: Any = transmit
    return bool(kept._cache._cache_file._load_index())
