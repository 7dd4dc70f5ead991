"""Between packets and datagrams: the packet interface of fast nodes is a batch of one."""

from __future__ import annotations

import ctypes
import struct
from typing import Final

from epic_host.fast.frames import RIGHT, WRONG, Arrivals, Departures, EdgeTable
from epic_models.reference.group import Edge
from epic_spec.addresses import ip_number
from epic_spec.packets import Aeth, Packet
from epic_spec.tables import ICRC_BYTES, Opcode

# BTH: opcode, SE to transport version, P_Key, FECN to QPN, AckReq to PSN.
_BTH: Final = struct.Struct(">BBHII")
_WORD: Final = struct.Struct(">I")
_NO_ICRC: Final = bytes(ICRC_BYTES)
# The largest IP packet is shorter.
DATAGRAM_BYTES: Final = 1 << 16


def arrive(arrivals: Arrivals, port: int, packet: Packet, edge: Edge | None) -> None:
    """Put a packet in as the only arrival. `edge` is the one that has its QPN.

    MACs, which a datagram's receiver does not see, are compared here: a packet with others is given a source that is
    nobody's.
    """
    fits = edge is None or (packet.src_mac == edge.peer.mac and packet.dst_mac == edge.local.mac)
    pad = -len(packet.payload) & 3
    bth = _BTH.pack(
        packet.opcode,
        packet.se << 7 | packet.migreq << 6 | pad << 4,
        packet.pkey,
        packet.fecn << 31 | packet.becn << 30 | packet.resv8a << 24 | packet.qpn,
        packet.ackreq << 31 | packet.resv7 << 24 | packet.psn,
    )
    word = b""
    if packet.imm is not None:
        word = _WORD.pack(packet.imm)
    elif packet.aeth is not None:
        word = _WORD.pack(packet.aeth.syndrome << 24 | packet.aeth.msn)
    datagram = b"".join((bth, word, packet.payload, bytes(pad), _NO_ICRC))
    arrivals.clear()
    arrivals.address = ip_number(packet.dst_ip)
    source = ip_number(packet.src_ip) if fits else 0
    icrc = RIGHT if packet.icrc_ok else WRONG
    arrivals.append(datagram, source, port, packet.sport, packet.ecn, icrc)


def departed(departures: Departures, edges: EdgeTable) -> list[tuple[int, Packet]]:
    """The queued frames as packets, each with its port."""
    return [_packet(departures, i, edges) for i in range(departures.count[0])]


def _packet(departures: Departures, i: int, edges: EdgeTable) -> tuple[int, Packet]:
    row = int(departures.edge[i])
    edge, record = edges.edges[row], edges.rows[row]
    assert edge is not None
    code, bits, pkey, qpn, last = _BTH.unpack_from(departures.head[i])
    (word,) = _WORD.unpack_from(departures.head[i], _BTH.size)
    size = int(departures.length[i]) - (bits >> 4 & 3)
    packet = Packet(
        Opcode(code),
        edge.local.ip,
        edge.peer.ip,
        qpn & 0xFFFFFF,
        last & 0xFFFFFF,
        ctypes.string_at(int(departures.body[i]), size) if size else b"",
        None if code == Opcode.ACK else word,
        Aeth(word >> 24, word & 0xFFFFFF) if code == Opcode.ACK else None,
        last >> 31 == 1,
        pkey,
        edge.local.mac,
        edge.peer.mac,
        edge.sport,
        ecn=int(departures.ecn[i]),
        icrc_ok=bool(record["icrc"]),
    )
    return edge.port, packet
