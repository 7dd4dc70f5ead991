"""The whole state of a simulation as a few arrays of records, which compiled code works on.

Times are whole picoseconds (int64) where they order events, and seconds (float64) where the protocol computes with
them, as the reference does. Indices are int32, -1 is none. A group's cells, an edge's packets and messages are numbered
without bound; what wraps on the wire is the reference's concern.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

PS: Final = 1e-12

# What travels. ACK, NAK and RNR are AETHs of a reliable connection; PLAIN is background traffic.
DATA, ACK, NAK, RNR, PLAIN = range(5)
# Flags of a packet and of a message.
CE, NULL, LAST, ACKREQ = 1, 2, 4, 8
# What an end belongs to.
AGENT, ENGINE, FLOW, SINK = range(4)
# How a group runs. The first three are EPIC's modes by their numbers.
MODE1, MODE2, MODE3, HOSTS = 1, 2, 3, 4
# What an event is, in the order in which events of one time happen.
ARRIVE, SENT, PAUSE, LATE, WAKE, TIMER, CHANGE, SOURCE, SAMPLE = range(9)
# Primitives, as masks of cells (protocol.md, section 2).
ALL_REDUCE, REDUCE, BROADCAST, BARRIER, REDUCE_SCATTER, ALL_GATHER = range(6)
# How a flow's limit follows from those it waits for.
PIPELINED, WHOLE = 0, 1
# What a flow's segment does to the receiver's elements.
ADD, COPY = 0, 1

SIM = np.dtype(
    [
        ("now", "i8"), ("order", "i8"), ("events", "i8"), ("hops", "i8"), ("seed", "u8"),
        ("heap", "i4"), ("free_packet", "i4"), ("free_row", "i4"), ("in_flight", "i4"), ("most_in_flight", "i4"),
        ("unfinished", "i4"), ("wrong", "i8"), ("checked", "i8"), ("pfc", "u1"), ("lanes", "i4"),
        ("log_used", "i4"), ("log_on", "u1"), ("full", "u1"), ("samples", "i4"), ("sample_every", "i8"),
    ]
)  # fmt: skip

LINK = np.dtype(
    [
        ("to", "i4"), ("from_", "i4"), ("ps_per_byte", "f8"), ("delay", "i8"), ("free_at", "i8"),
        ("capacity", "i8"), ("mark_above", "i8"), ("first", "i4"), ("last", "i4"),
        ("waiting", "i4"), ("waiting_last", "i4"), ("queued", "i8"), ("busy", "u1"), ("paused", "u1"), ("up", "u1"),
        ("ingress", "i8"), ("asked_pause", "u1"), ("xoff", "i8"), ("xon", "i8"),
        ("loss", "f8"), ("duplicate", "f8"), ("reorder", "f8"), ("hold", "i8"), ("offered", "i8"),
        ("packets", "i8"), ("bytes", "i8"), ("dropped", "i8"), ("lost", "i8"), ("duplicated", "i8"),
        ("reordered", "i8"), ("marked", "i8"), ("deepest", "i8"), ("pauses", "i8"),
    ]
)  # fmt: skip

PACKET = np.dtype(
    [
        ("order", "i8"), ("time", "i8"), ("number", "i8"), ("next", "i4"), ("end", "i4"), ("at", "i4"), ("stop", "i4"),
        ("size", "i4"), ("row", "i4"), ("message", "i4"), ("ingress", "i4"), ("kind", "u1"), ("flags", "u1"),
    ]
)  # fmt: skip

# One end of a reliable or plain edge. Requester and responder as in epic_models.reference.rc.
END = np.dtype(
    [
        ("owner_kind", "u1"), ("owner", "i4"), ("child", "i4"), ("peer", "i4"), ("group", "i4"), ("node", "i4"),
        ("path", "i4"), ("path_stop", "i4"), ("low", "i4"), ("high", "i4"),
        # requester
        ("next", "i8"), ("una", "i8"), ("messages", "i8"), ("ring", "i8"), ("ring_size", "i4"), ("failed", "u1"),
        ("retries", "i4"), ("deadline", "f8"), ("not_ready_until", "f8"), ("nak_served", "i8"),
        ("srtt", "f8"), ("rttvar", "f8"), ("base", "f8"), ("backoff", "i8"), ("timer_at", "i8"),
        # responder and reassembly
        ("expected", "i8"), ("received", "i8"), ("nak_sent", "u1"), ("parts", "i4"), ("part_bytes", "i4"),
        ("part_ce", "u1"), ("part_row", "i4"),
        # counters
        ("retransmissions", "i8"), ("first_sent", "i8"),
    ]
)  # fmt: skip

# A packet of a requester that is not acknowledged, or a cell of a Mode III agent.
PENDING = np.dtype(
    [
        ("message", "i8"), ("sent", "f8"), ("last", "f8"), ("transmissions", "i4"), ("size", "i4"), ("row", "i4"),
        ("flags", "u1"), ("state", "u1"),
    ]
)  # fmt: skip

# One rank's agent on its tree, or its part in a host algorithm.
AGENT_ = np.dtype(
    [
        ("group", "i4"), ("rank", "i4"), ("end", "i4"), ("node", "i4"), ("next", "i8"), ("delivered", "i8"),
        ("newest", "i8"), ("available", "i8"), ("size", "f8"), ("recover", "i8"), ("iteration", "i4"),
        ("flows", "i4"), ("flow_count", "i4"),
        ("retransmissions", "i8"), ("failed", "u1"),
    ]
)  # fmt: skip

# One group's entry on one engine.
ENTRY = np.dtype(
    [
        ("group", "i4"), ("node", "i4"), ("children", "i4"), ("fan_in", "i4"), ("parent", "i4"), ("slots", "i8"),
        ("slot_count", "i4"), ("full", "u8"), ("passed", "i8"), ("stale", "i8"), ("duplicate", "i8"), ("replay", "i8"),
        ("resend", "i8"), ("refused", "i8"), ("completed", "i8"),
    ]
)  # fmt: skip

SLOT = np.dtype(
    [
        ("tag", "i8"), ("bitmap", "u8"), ("row", "i4"), ("done", "u1"), ("served", "u1"), ("null", "u1"), ("ce", "u1"),
        ("result_ce", "u1"), ("live", "u1"),
    ]
)  # fmt: skip

GROUP = np.dtype(
    [
        ("how", "u1"), ("ranks", "i4"), ("window", "i4"), ("slot_count", "i4"), ("payload", "i4"),
        ("cell_bytes", "i4"), ("bytes", "i8"), ("cells", "i8"), ("iterations", "i4"), ("primitive", "u1"),
        ("root", "i4"), ("rto_initial", "f8"), ("rto_min", "f8"), ("rto_max", "f8"), ("retry_limit", "i4"),
        ("rnr", "f8"), ("guard", "u1"), ("ecn", "u1"), ("header", "i4"), ("starts", "i8"),
        ("expected", "i8"), ("ack_every", "i4"), ("elements", "i8"), ("data", "i8"), ("delays", "i8"),
    ]
)  # fmt: skip

FLOW_ = np.dtype(
    [
        ("group", "i4"), ("end", "i4"), ("sender", "i4"), ("receiver", "i4"), ("total", "i8"), ("offset", "i8"),
        ("rule", "u1"), ("waits", "i4"), ("wait_count", "i4"), ("wakes", "i4"), ("wake_count", "i4"),
        ("segments", "i4"), ("segment_count", "i4"), ("limit", "i8"), ("got", "i8"), ("window", "i4"),
    ]
)  # fmt: skip

SEGMENT = np.dtype([("first", "i8"), ("place", "i8"), ("what", "u1")])

# A change at a given time: a link or a node fails or comes back.
CHANGE_ = np.dtype([("time", "i8"), ("link", "i4"), ("node", "i4"), ("up", "u1")])

# Background traffic: packets of one size at random intervals (exponential) over a path, while on.
SOURCE_ = np.dtype(
    [
        ("end", "i4"), ("size", "i4"), ("mean", "f8"), ("stop", "i8"), ("count", "i8"), ("arrived", "i8"),
        ("on", "f8"), ("off", "f8"), ("until", "i8"), ("is_on", "u1"), ("stream", "u8"),
    ]
)  # fmt: skip

# What was received where, in order, for comparison with the reference.
LOG = np.dtype(
    [("time", "i8"), ("end", "i4"), ("number", "i8"), ("kind", "u1"), ("flags", "u1"), ("size", "i4")]
)

Records = NDArray[Any]


class World(NamedTuple):
    """Everything. Made by `build.build`, changed by `loop.run`."""

    sim: Records
    heap_time: NDArray[np.int64]
    heap_key: NDArray[np.int64]
    heap_what: NDArray[np.int64]
    links: Records
    packets: Records
    paths: NDArray[np.int32]
    ends: Records
    pending: Records
    agents: Records
    entries: Records
    children: NDArray[np.int32]
    slots: Records
    groups: Records
    starts: NDArray[np.int64]
    leaf: NDArray[np.int32]
    finish: NDArray[np.int64]
    flows: Records
    flow_list: NDArray[np.int32]
    segments: Records
    data: NDArray[np.int32]
    rows: NDArray[np.int32]
    row_next: NDArray[np.int32]
    expected: NDArray[np.int32]
    expected_cell: NDArray[np.int64]
    changes: Records
    node_up: NDArray[np.uint8]
    sources: Records
    log: Records
    samples: NDArray[np.int64]
    script: NDArray[np.int64]


def record(dtype: np.dtype[Any], count: int) -> Records:
    """`count` records of zeros; at least one, for compiled code has to see the type."""
    return np.zeros(max(1, count), dtype)
