"""scapy's RoCE layer as an independent oracle: it and the codec agree on random frames, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from epic_spec.codec import decode, encode
from epic_spec.packets import Packet
from spec.wire import packets

scapy_roce = pytest.importorskip("scapy.contrib.roce")
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402


def built_by_scapy(packet: Packet) -> bytes:
    """The frame that scapy builds from the fields of a packet, lengths, checksums and ICRC its own."""
    padded = packet.payload + bytes(-len(packet.payload) % 4)
    bth = scapy_roce.BTH(
        opcode=int(packet.opcode),
        solicited=packet.se,
        migreq=packet.migreq,
        padcount=-len(packet.payload) % 4,
        pkey=packet.pkey,
        fecn=packet.fecn,
        becn=packet.becn,
        resv6=packet.resv8a,
        dqpn=packet.qpn,
        ackreq=packet.ackreq,
        resv7=packet.resv7,
        psn=packet.psn,
    )
    body = b"" if packet.imm is None else packet.imm.to_bytes(4, "big")
    if packet.aeth is not None:
        body = packet.aeth.syndrome.to_bytes(1, "big") + packet.aeth.msn.to_bytes(3, "big")
    frame = (
        Ether(src=packet.src_mac, dst=packet.dst_mac)
        / IP(
            src=packet.src_ip,
            dst=packet.dst_ip,
            tos=packet.dscp << 2 | packet.ecn,
            ttl=packet.ttl,
            id=packet.ident,
            flags="DF" if packet.dont_fragment else 0,
        )
        / UDP(sport=packet.sport, dport=4791, chksum=0)
        / bth
        / Raw(body + padded)
    )
    return bytes(frame)


@settings(max_examples=150, deadline=None)
@given(packets())
def test_scapy_builds_the_same_frame(packet: Packet) -> None:
    frame = built_by_scapy(packet)
    assert frame == encode(packet)
    assert decode(frame) == packet


@settings(max_examples=150, deadline=None)
@given(packets())
def test_scapy_reads_the_same_fields(packet: Packet) -> None:
    frame = Ether(encode(packet))
    bth = frame[scapy_roce.BTH]
    assert (bth.opcode, bth.dqpn, bth.psn, bth.pkey) == (packet.opcode, packet.qpn, packet.psn, packet.pkey)
    assert (bth.ackreq, bth.padcount) == (packet.ackreq, -len(packet.payload) % 4)
    assert (frame[IP].src, frame[IP].dst, frame[UDP].sport) == (packet.src_ip, packet.dst_ip, packet.sport)
    # Sent as numbers in wire order: scapy takes the four bytes as a big-endian number.
    assert bth.icrc == int.from_bytes(encode(packet)[-4:], "big")
    if packet.aeth is not None:
        aeth = frame[scapy_roce.AETH]
        assert (aeth.syndrome, aeth.msn) == (packet.aeth.syndrome, packet.aeth.msn)
