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
# Bytes of a cache line.
LINE: Final = 64

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


def _layout(*fields: tuple[str, str]) -> np.dtype[Any]:
    """Records of whole cache lines, or of parts that a line has several of, with fields in the order in which they are
    given: those of every packet come first. A record that straddles lines costs a load from memory more.
    """
    plain = np.dtype(list(fields), align=True)
    size = next((s for s in (8, 16, 32) if plain.itemsize <= s), -(-plain.itemsize // LINE) * LINE)
    offsets = [int(plain.fields[name][1]) for name, _ in fields] if plain.fields else []
    formats = [kind for _, kind in fields]
    return np.dtype(
        {"names": [name for name, _ in fields], "formats": formats, "offsets": offsets, "itemsize": size},
        align=True,
    )


SIM = _layout(
    ("now", "i8"), ("order", "i8"), ("events", "i8"), ("hops", "i8"), ("free_packet", "i4"), ("in_flight", "i4"),
    ("most_in_flight", "i4"), ("unfinished", "i4"), ("heap", "i4"), ("lanes", "i4"), ("pfc", "u1"), ("log_on", "u1"),
    ("full", "u1"), ("wheel_shift", "u1"), ("free_row", "i4"),
    ("wheel", "u8"), ("seed", "u8"), ("wrong", "i8"), ("checked", "i8"), ("log_used", "i4"), ("samples", "i4"),
    ("sample_every", "i8"),
)  # fmt: skip

LINK = _layout(
    ("first", "i4"), ("last", "i4"), ("free_at", "i8"), ("delay", "i8"), ("ps_per_byte", "f8"), ("capacity", "i8"),
    ("mark_above", "i8"), ("deepest", "i8"), ("to", "i4"), ("up", "u1"), ("faulty", "u1"), ("busy", "u1"),
    ("paused", "u1"), ("packets", "i8"), ("bytes", "i8"), ("offered", "i8"), ("dropped", "i8"), ("lost", "i8"),
    ("marked", "i8"), ("queued", "i8"), ("waiting", "i4"), ("waiting_last", "i4"),
    ("ingress", "i8"), ("xoff", "i8"), ("xon", "i8"), ("pauses", "i8"), ("from_", "i4"), ("asked_pause", "u1"),
    ("loss", "f8"), ("duplicate", "f8"), ("reorder", "f8"), ("hold", "i8"), ("duplicated", "i8"), ("reordered", "i8"),
)  # fmt: skip

# A link's entry in the timing wheel (`wheel`): when its first packet arrives.
WHEEL = _layout(("time", "i8"), ("order", "i8"), ("next", "i4"))

PACKET = _layout(
    ("order", "i8"), ("time", "i8"), ("number", "i8"), ("next", "i4"), ("end", "i4"), ("at", "i4"), ("stop", "i4"),
    ("size", "i4"), ("row", "i4"), ("message", "i4"), ("ingress", "i4"), ("kind", "u1"), ("flags", "u1"),
)  # fmt: skip

# One end of a reliable or plain edge. Requester and responder as in epic_models.reference.rc.
END = _layout(
    ("owner_kind", "u1"), ("failed", "u1"), ("nak_sent", "u1"), ("part_ce", "u1"), ("owner", "i4"), ("child", "i4"),
    ("group", "i4"), ("peer", "i4"), ("path", "i4"), ("path_stop", "i4"), ("low", "i4"), ("high", "i4"),
    ("ring_size", "i4"), ("ring", "i8"), ("first_sent", "i8"), ("parts", "i4"), ("node", "i4"),
    # requester, and responder's reassembly
    ("next", "i8"), ("una", "i8"), ("messages", "i8"), ("expected", "i8"), ("received", "i8"), ("nak_served", "i8"),
    ("deadline", "f8"), ("not_ready_until", "f8"),
    # timer
    ("srtt", "f8"), ("rttvar", "f8"), ("base", "f8"), ("backoff", "i8"), ("timer_at", "i8"), ("retries", "i4"),
    ("part_bytes", "i4"), ("part_row", "i4"), ("retransmissions", "i8"),
)  # fmt: skip

# A packet of a requester that is not acknowledged, or a cell of a Mode III agent; `sent` is when it last was.
PENDING = _layout(
    ("message", "i8"), ("sent", "f8"), ("transmissions", "i4"), ("size", "i4"), ("row", "i4"), ("flags", "u1"),
    ("state", "u1"),
)  # fmt: skip

# One rank's agent on its tree, or its part in a host algorithm.
AGENT_ = _layout(
    ("group", "i4"), ("rank", "i4"), ("end", "i4"), ("node", "i4"), ("next", "i8"), ("delivered", "i8"),
    ("newest", "i8"), ("available", "i8"), ("size", "f8"), ("recover", "i8"), ("iteration", "i4"),
    ("flows", "i4"), ("flow_count", "i4"), ("failed", "u1"), ("retransmissions", "i8"),
)  # fmt: skip

# One group's entry on one engine.
ENTRY = _layout(
    ("group", "i4"), ("node", "i4"), ("children", "i4"), ("fan_in", "i4"), ("parent", "i4"), ("slot_count", "i4"),
    ("slots", "i8"), ("full", "u8"), ("completed", "i8"), ("passed", "i8"), ("duplicate", "i8"),
    ("stale", "i8"), ("replay", "i8"), ("resend", "i8"), ("refused", "i8"),
)  # fmt: skip

SLOT = _layout(
    ("tag", "i8"), ("bitmap", "u8"), ("row", "i4"), ("done", "u1"), ("served", "u1"), ("null", "u1"), ("ce", "u1"),
    ("result_ce", "u1"), ("live", "u1"),
)  # fmt: skip

GROUP = _layout(
    ("how", "u1"), ("ranks", "i4"), ("window", "i4"), ("slot_count", "i4"), ("payload", "i4"),
    ("cell_bytes", "i4"), ("bytes", "i8"), ("cells", "i8"), ("iterations", "i4"), ("primitive", "u1"),
    ("root", "i4"), ("rto_initial", "f8"), ("rto_min", "f8"), ("rto_max", "f8"), ("retry_limit", "i4"),
    ("rnr", "f8"), ("guard", "u1"), ("ecn", "u1"), ("header", "i4"), ("starts", "i8"),
    ("expected", "i8"), ("ack_every", "i4"), ("elements", "i8"), ("data", "i8"), ("delays", "i8"),
)  # fmt: skip

FLOW_ = _layout(
    ("group", "i4"), ("end", "i4"), ("sender", "i4"), ("receiver", "i4"), ("total", "i8"), ("offset", "i8"),
    ("rule", "u1"), ("waits", "i4"), ("wait_count", "i4"), ("wakes", "i4"), ("wake_count", "i4"),
    ("segments", "i4"), ("segment_count", "i4"), ("limit", "i8"), ("got", "i8"), ("window", "i4"), ("size", "f8"),
    ("recover", "i8"),
)  # fmt: skip

SEGMENT = np.dtype([("first", "i8"), ("place", "i8"), ("what", "u1")])

# A change at a given time: a link or a node fails or comes back.
CHANGE_ = np.dtype([("time", "i8"), ("link", "i4"), ("node", "i4"), ("up", "u1")])

# Background traffic: packets of one size at random intervals (exponential) over a path, while on.
SOURCE_ = _layout(
    ("end", "i4"), ("size", "i4"), ("mean", "f8"), ("stop", "i8"), ("count", "i8"), ("arrived", "i8"),
    ("on", "f8"), ("off", "f8"), ("until", "i8"), ("is_on", "u1"), ("stream", "u8"),
)  # fmt: skip

# What was received where, in order, for comparison with the reference.
LOG = np.dtype(
    [
        ("time", "i8"),
        ("end", "i4"),
        ("number", "i8"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("size", "i4"),
    ]
)

Records = NDArray[Any]


class World(NamedTuple):
    """Everything. Made by `build.build`, changed by `loop.run`."""

    sim: Records
    wheel: Records
    wheel_first: NDArray[np.int32]
    wheel_last: NDArray[np.int32]
    wheel_words: NDArray[np.uint64]
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
    """`count` records of zeros, on cache lines; at least one, for compiled code has to see the type."""
    size = max(1, count) * dtype.itemsize
    memory = np.zeros(size + LINE, np.uint8)
    skip = -memory.ctypes.data % LINE
    return memory[skip : skip + size].view(dtype)
