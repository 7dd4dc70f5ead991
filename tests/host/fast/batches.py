"""Departures and sockets for the tests of the batch transport."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.frames import Arrivals, Departures, EdgeTable, departures
from epic_host.fast.udp import FastUdpTransport
from epic_host.transport import transport_config
from epic_models.reference.group import Edge, Endpoint, GroupParams
from epic_spec.addresses import ip_number, ip_text

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
# Of this process alone; tests of one process use subnets of their own.
_NETWORK = 20 + os.getpid() % 230
_subnets = itertools.count(200)


def addresses(count: int) -> list[str]:
    """Loopback addresses that no other test uses."""
    subnet = f"127.{_NETWORK}.{200 + next(_subnets) % 50}"
    return [f"{subnet}.{1 + i}" for i in range(count)]


def udp(address: str, ports: dict[str, int], **more: Any) -> Any:
    return transport_config({"kind": "udp", "address": address, "ports": ports, **more})


def edge_table(local: str, peers: Sequence[str]) -> EdgeTable:
    """Row i is an edge to peer i, on port i."""
    table = EdgeTable()
    params = GroupParams(1, 3, len(peers))
    for i, peer in enumerate(peers):
        edge = Edge(f"e{i}", i, Endpoint(local, 100 + i), Endpoint(peer, 200 + i), 0, 0)
        assert table.add(edge, params, 0, i) == i
    return table


@dataclass
class Sending:
    """One datagram: the edge it leaves by, its ECN codepoint, and all its bytes."""

    edge: int
    ecn: int
    data: bytes


def fill(out: Departures, frames: Sequence[Sending]) -> NDArray[np.uint8]:
    """Put frames into departures. Returns the memory of their bodies, which must live until they are sent."""
    memory = np.frombuffer(b"".join(f.data[16:-4] for f in frames) + b"\0", np.uint8).copy()
    at = memory.ctypes.data
    for i, frame in enumerate(frames):
        out.head[i] = np.frombuffer(frame.data[:16], np.uint8)
        out.tail[i] = np.frombuffer(frame.data[-4:], np.uint8)
        out.body[i], out.length[i] = at, len(frame.data) - 20
        out.edge[i], out.ecn[i] = frame.edge, frame.ecn
        at += len(frame.data) - 20
    out.count[0] = len(frames)
    return memory


def send(transport: FastUdpTransport, table: EdgeTable, frames: Sequence[Sending], now: float = 0.0) -> None:
    """Send frames as one batch."""
    out = departures(max(1, len(frames)))
    memory = fill(out, frames)
    transport.send_batch(out, table, now)
    del memory


@dataclass(frozen=True)
class Got:
    """An arrival, with its bytes."""

    data: bytes
    source: str
    port: int
    sport: int
    ecn: int


def contents(arrivals: Arrivals) -> list[Got]:
    """What a batch holds."""
    return [
        Got(
            arrivals.arena[r["offset"] : r["offset"] + r["length"]].tobytes(),
            ip_text(int(r["source"])),
            int(r["port"]),
            int(r["sport"]),
            int(r["ecn"]),
        )
        for r in arrivals.records[: arrivals.count]
    ]


def drain(transport: FastUdpTransport, now: float = 0.0) -> list[Got]:
    """All that waits."""
    arrivals, got = transport.arrivals(), []
    while transport.receive_batch(arrivals, now):
        got += contents(arrivals)
    return got


__all__ = [
    "SCALE",
    "Got",
    "Sending",
    "addresses",
    "contents",
    "drain",
    "edge_table",
    "fill",
    "ip_number",
    "send",
    "udp",
]
