"""Load for an engine without a network: datagrams of its children, window after window, as sockets give them.

The children of a root contribute a window of cells each, in runs as UDP_SEGMENT makes them; in Mode II they acknowledge
the results of the window before. Before a batch is handed over its packets are numbered, so that its bytes are in the
cache as they are behind recvmmsg.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast import sockets
from epic_host.fast.compiled import compiled, store32, swapped32
from epic_host.fast.frames import Arrivals, Records
from epic_host.fast.wire import icrc_of
from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_models.reference.numerics import element_dtype
from epic_spec import codec
from epic_spec.addresses import ip_number
from epic_spec.packets import Aeth, Descriptor
from epic_spec.psn import MASK
from epic_spec.tables import UDP_PORT, Datatype, Opcode, Operator, Primitive, Syndrome

_SWITCH: Final = "10.0.0.1"
# Messages of a batch, as many as FastUdpTransport takes at once.
_MESSAGES: Final = 16
_u8: Final[Any] = np.uint64


@compiled
def _number(
    arena: int, records: Records, count: int, address: int, first: int, psns: NDArray[np.uint32]
) -> None:
    """Give each datagram its PSN, AckReq set, counted from `first` on top of its base, and its ICRC."""
    for i in range(count):
        at = _u8(arena) + _u8(records[i].offset)
        length = records[i].length
        last = np.uint32((psns[i] + first) & MASK)
        store32(at + _u8(8), swapped32(np.uint32(last | np.uint32(0x80000000))))
        icrc = icrc_of(at, length, records[i].source, address, UDP_PORT)
        store32(at + _u8(length - 4), np.uint32(icrc))


@dataclass
class _Batch:
    """Arrivals of one batch, and the PSN of each for the first window."""

    arrivals: Arrivals
    psns: NDArray[np.uint32]

    def number(self, first: int) -> Arrivals:
        """As the packets whose cells come `first` later."""
        a = self.arrivals
        _number(a.arena.ctypes.data, a.records, a.count, a.address, first, self.psns)
        return a


class Load:
    """Contributions of `fan_in` children of a root to a group of `params`, whose first datatype they have, SUM."""

    def __init__(self, params: GroupParams, fan_in: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.params = params
        self.datatype = Datatype[params.datatypes[0]]
        self.edges = [
            Edge(
                f"r{i}-s0",
                i,
                Endpoint(_SWITCH, 0x100 + i, codec.mac_of_ip(_SWITCH)),
                Endpoint(f"10.0.1.{1 + i}", 0x200 + i, codec.mac_of_ip(f"10.0.1.{1 + i}")),
                int(rng.integers(MASK)),
                int(rng.integers(MASK)),
                (i,),
                sport=UDP_PORT,
            )
            for i in range(fan_in)
        ]
        self.group = EngineGroup(params, tuple(self.edges))
        kind = element_dtype(self.datatype, params.byte_order)
        count = params.payload_bytes // kind.itemsize
        shape = (fan_in, params.window, count)
        values = rng.integers(-99, 99, shape) if kind.kind == "i" else rng.standard_normal(shape)
        self._payloads = values.astype(kind)
        self.imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, self.datatype).pack()
        self._data = list(self._batches(self._contributions()))
        self._acks = list(self._batches(self._acknowledgements())) if params.mode == 2 else []

    @property
    def contributions(self) -> int:
        """How many a window has, of all children."""
        return len(self.edges) * self.params.window

    def window(self, number: int) -> Iterator[Arrivals]:
        """The batches of a window; each must be done with before the next is asked for."""
        first = number * self.params.window
        if number:
            for batch in self._acks:
                yield batch.number(first - self.params.window)
        for batch in self._data:
            yield batch.number(first)

    def results(self) -> list[bytes]:
        """The payload of each result of a window: contributions added in the order of the children."""
        total = self._payloads[0].copy()
        for payload in self._payloads[1:]:
            total = (total + payload).astype(total.dtype)
        return [row.tobytes() for row in total]

    def _contributions(self) -> Iterator[tuple[int, int, bytes]]:
        """(child, PSN, datagram), a run of each child after the other."""
        size = self.params.payload_bytes + 20
        run = max(1, min(sockets.SEGMENTS, sockets.RUN_BYTES // size, self.params.window))
        for first in range(0, self.params.window, run):
            for child, edge in enumerate(self.edges):
                for cell in range(first, min(first + run, self.params.window)):
                    mirrored = _mirror(edge)
                    packet = mirrored.packet(
                        Opcode.SEND_ONLY_IMM,
                        cell,
                        imm=self.imm,
                        payload=self._payloads[child, cell].tobytes(),
                    )
                    yield child, packet.psn, codec.encode_datagram(packet)

    def _acknowledgements(self) -> Iterator[tuple[int, int, bytes]]:
        for child, edge in enumerate(self.edges):
            for cell in range(self.params.window):
                packet = _mirror(edge).packet(Opcode.ACK, cell, aeth=Aeth(Syndrome.ACK | 0x1F, 0))
                yield child, packet.psn, codec.encode_datagram(packet)

    def _batches(self, datagrams: Iterator[tuple[int, int, bytes]]) -> Iterator[_Batch]:
        """Cut into what one recvmmsg takes: messages of one child's run each, at places of their own."""
        arrivals: Arrivals | None = None
        psns: list[int] = []
        place, used, last = -1, 0, -1
        for child, psn, data in datagrams:
            size = len(data)
            if last != child or used + size > sockets.RUN_BYTES:
                place, used, last = place + 1, 0, child
                if arrivals is None or place == _MESSAGES:
                    if arrivals is not None:
                        yield _Batch(arrivals, np.array(psns, np.uint32))
                    arrivals, psns, place = self._arrivals(), [], 0
            assert arrivals is not None
            offset = place * sockets.SLOT_BYTES + used
            arrivals.arena[offset : offset + size] = np.frombuffer(data, np.uint8)
            edge = self.edges[child]
            arrivals.records[arrivals.count] = (
                offset,
                size,
                ip_number(edge.peer.ip),
                edge.port,
                UDP_PORT,
                2,
                0,
            )
            arrivals.count += 1
            used += size
            psns.append(psn)
        if arrivals is not None:
            yield _Batch(arrivals, np.array(psns, np.uint32))

    @staticmethod
    def _arrivals() -> Arrivals:
        arrivals = Arrivals(_MESSAGES * sockets.RUN_SEGMENTS, _MESSAGES * sockets.SLOT_BYTES)
        arrivals.address = ip_number(_SWITCH)
        return arrivals


def _mirror(edge: Edge) -> Edge:
    """The edge as its child sees it."""
    return Edge(edge.name, 0, edge.peer, edge.local, edge.psn_rx, edge.psn_tx, edge.ranks, True, UDP_PORT)
