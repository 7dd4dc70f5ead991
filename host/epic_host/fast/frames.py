"""What the fast data path works on: arrays of frames that arrived and that are to leave, edges, counters.

A frame is a *datagram*, what UDP carries: BTH (12 bytes), ImmDt or AETH (4), payload padded to whole words, ICRC (4).
Everything is an array of records or words, made once, which compiled code fills and reads.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.compiled import Word, compiled
from epic_models.reference.group import Edge, GroupParams
from epic_spec.addresses import ip_number
from epic_spec.errors import ConfigError
from epic_spec.tables import COUNTERS

# An array of records, whose fields compiled code has as attributes.
Records = Any

HEAD_BYTES: Final = 16
TAIL_BYTES: Final = 4
NO_EDGE: Final = -1
# The child of an edge to the parent.
PARENT: Final = -1

# Whether the ICRC of an arrival has been verified.
UNVERIFIED, RIGHT, WRONG = range(3)

ARRIVAL: Final = np.dtype(
    [
        ("offset", "i8"), ("length", "i4"), ("source", "u4"), ("port", "i4"), ("sport", "u2"), ("ecn", "u1"),
        ("icrc", "u1"),
    ]
)  # fmt: skip

FRAME: Final = np.dtype(
    [
        ("offset", "i8"), ("arrival", "i4"), ("edge", "i4"), ("length", "i4"), ("psn", "u4"), ("word", "u4"),
        ("opcode", "u1"), ("ackreq", "u1"), ("ce", "u1"),
    ]
)  # fmt: skip

EDGE: Final = np.dtype(
    [
        ("local_ip", "u4"), ("peer_ip", "u4"), ("local_qpn", "u4"), ("peer_qpn", "u4"), ("psn_tx", "u4"),
        ("psn_rx", "u4"), ("port", "i4"), ("group", "i4"), ("child", "i4"), ("payload_bytes", "i4"), ("pkey", "u2"),
        ("sport", "u2"), ("mode", "u1"), ("icrc", "u1"), ("engine_peer", "u1"), ("reflection", "u1"), ("ecn", "u1"),
        ("live", "u1"),
    ]
)  # fmt: skip


class Arrivals:
    """Datagrams that arrived: `count` records in order, their bytes in `arena` at `offset`.

    `source` is the sender's IPv4 address as a number, `port` the local port it is reached by (-1: nobody's), `icrc`
    whether the ICRC was looked at already.
    """

    def __init__(self, capacity: int, arena_bytes: int) -> None:
        self.arena: NDArray[np.uint8] = np.zeros(arena_bytes, np.uint8)
        self.arena_address = int(self.arena.ctypes.data)
        self.records: Records = np.zeros(capacity, ARRIVAL)
        self.count = 0
        # The IPv4 address that all of them were sent to, as a number.
        self.address = 0
        self._used = 0

    def clear(self) -> None:
        """Forget all."""
        self.count = self._used = 0

    def append(
        self, datagram: bytes, source: int, port: int, sport: int, ecn: int, icrc: int = UNVERIFIED
    ) -> None:
        """Put a datagram behind the others that did not come by a batch. Raises ValueError when it does not fit."""
        size = len(datagram)
        if self.count == len(self.records) or self._used + size > len(self.arena):
            raise ValueError(f"arrivals: {size} bytes more, expected fewer: {self.count} frames are there")
        self.arena[self._used : self._used + size] = np.frombuffer(datagram, np.uint8)
        self.records[self.count] = (self._used, size, source, port, sport, ecn, icrc)
        # Words of the next datagram stand at multiples of 4, as they do in a batch of whole cells.
        self._used += size + (-size & 3)
        self.count += 1


class Departures(NamedTuple):
    """Frames that are to leave, `count[0]` of them in order.

    The body of frame i is `length[i]` bytes at the address `body[i]`, whole words, and is read when the frame is sent:
    until then it must stay as it is. `edge` is the row of the EdgeTable, `ecn` the codepoint to send.
    """

    head: NDArray[np.uint8]
    tail: NDArray[np.uint8]
    body: NDArray[np.uint64]
    length: NDArray[np.int32]
    edge: NDArray[np.int32]
    ecn: NDArray[np.uint8]
    count: NDArray[np.int64]  # type: ignore[assignment]

    def clear(self) -> None:
        """Forget all: they have been sent."""
        self.count[0] = 0


def departures(capacity: int) -> Departures:
    """Room for `capacity` frames."""
    return Departures(
        np.zeros((capacity, HEAD_BYTES), np.uint8),
        np.zeros((capacity, TAIL_BYTES), np.uint8),
        np.zeros(capacity, np.uint64),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.uint8),
        np.zeros(1, np.int64),
    )


# ---------------------------------------------------------------------- edges

_EMPTY: Final = -1


@compiled
def find_edge(places: NDArray[np.int32], rows: Records, qpn: Word) -> Word:
    """The row of the edge whose local QPN is `qpn`, or NO_EDGE."""
    mask = len(places) - 1
    at = (qpn * 0x9E3779B1 >> 8) & mask
    while places[at] != -1:
        row = places[at]
        if rows[row].local_qpn == qpn:
            return row
        at = (at + 1) & mask
    return -1


class EdgeTable:
    """The edges of a node by row, and the rows by local QPN (`places`, a hash table with open addressing).

    Both arrays are replaced when edges come or go: take them from here for every call.
    """

    def __init__(self, capacity: int = 8) -> None:
        self.rows: Records = np.zeros(capacity, EDGE)
        self.places: NDArray[np.int32] = np.full(4 * capacity, _EMPTY, np.int32)
        # The whole description, for what is not fast.
        self.edges: list[Edge | None] = [None] * capacity

    def add(self, edge: Edge, params: GroupParams, group: int, child: int) -> int:
        """Put an edge in; `group` is the node's own index of the group, `child` PARENT for the edge to the parent.

        Returns its row. Raises ConfigError for a QPN that is in use.
        """
        if self.find(edge.local.qpn) != NO_EDGE:
            raise ConfigError(f"QPN {edge.local.qpn:#x} is in use, expected one that is free")
        if None not in self.edges:
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.edges += [None] * (len(self.rows) - len(self.edges))
        row = self.edges.index(None)
        self.edges[row] = edge
        self.rows[row] = (
            ip_number(edge.local.ip), ip_number(edge.peer.ip), edge.local.qpn, edge.peer.qpn, edge.psn_tx,
            edge.psn_rx, edge.port, group, child, params.payload_bytes, params.pkey,
            edge.sport, params.mode, params.icrc == "full", edge.peer_is_engine, params.ack_reflection, params.ecn,
            1,
        )  # fmt: skip
        self._rebuild()
        return row

    def remove(self, row: int) -> None:
        """Take an edge out; its row is free for another."""
        self.edges[row] = None
        self.rows[row] = np.zeros((), EDGE)
        self._rebuild()

    def find(self, qpn: int) -> int:
        """The row of a local QPN, or NO_EDGE."""
        return next((i for i, e in enumerate(self.edges) if e is not None and e.local.qpn == qpn), NO_EDGE)

    def _rebuild(self) -> None:
        places = np.full(4 * len(self.rows), _EMPTY, np.int32)
        mask = len(places) - 1
        for row, edge in enumerate(self.edges):
            if edge is not None:
                at = (edge.local.qpn * 0x9E3779B1 >> 8) & mask
                while places[at] != _EMPTY:
                    at = (at + 1) & mask
                places[at] = row
        self.places = places


# ---------------------------------------------------------------------- counters

_NAMES: Final = tuple(COUNTERS)
INDEX: Final = {name: i for i, name in enumerate(_NAMES)}


def counters() -> NDArray[np.int64]:
    """All counters of epic.toml in its order, from zero; `INDEX` says where each is."""
    return np.zeros(len(_NAMES), np.int64)


def as_dict(counts: NDArray[np.int64]) -> dict[str, int]:
    """Counters by name."""
    return dict(zip(_NAMES, counts.tolist(), strict=True))
