"""Transports over loopback sockets: what is sent arrives as the same packet, and what cannot is told."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_host.transport import Transport, open_transport
from epic_spec import codec, pcap
from epic_spec.errors import ConfigError
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Opcode, Operator, Primitive
from host.worlds import NETWORK

A, B, C = (f"127.{NETWORK}.250.{i}" for i in (1, 2, 3))
IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM).pack()

Opener = Callable[[dict[str, Any]], Transport]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens transports and closes them after the test."""
    transports: list[Transport] = []

    def open_one(config: dict[str, Any]) -> Transport:
        transports.append(open_transport(config))
        return transports[-1]

    yield open_one
    for transport in transports:
        transport.close()


def udp(address: str, ports: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"kind": "udp", "address": address, "ports": ports, **more}


def packet(psn: int = 0, payload: bytes = b"payload!", **changes: Any) -> Packet:
    """A contribution from A to B as it will arrive: the binding has MACs and a source port of its own."""
    made = Packet(
        Opcode.SEND_ONLY_IMM, A, B, 0x1234, psn, payload, IMM,
        src_mac=codec.mac_of_ip(A), dst_mac=codec.mac_of_ip(B), sport=4791,
    )  # fmt: skip
    return made.but(**changes)


def receive(transport: Transport, count: int, timeout: float = 2.0) -> list[tuple[int, Packet]]:
    """At least `count` packets, or those that came before the timeout."""
    got: list[tuple[int, Packet]] = []
    end = time.monotonic() + timeout
    while len(got) < count and (left := end - time.monotonic()) > 0:
        if select.select(transport.filenos(), [], [], left)[0]:
            got += transport.receive(time.monotonic())
    return got


def test_a_packet_arrives_unchanged_on_the_port_of_its_sender(opened: Opener) -> None:
    a, b = opened(udp(A, {B: 0})), opened(udp(B, {A: 7}))
    ack = Packet(
        Opcode.ACK, A, B, 5, 6, aeth=Aeth(0x1F, 3),
        src_mac=codec.mac_of_ip(A), dst_mac=codec.mac_of_ip(B), sport=4791,
    )  # fmt: skip
    sent = [packet(1), packet(2, b""  # a NULL contribution
            ).but(imm=IMM | 0x80), packet(3, bytes(8192)), packet(4, b"odd"), ack]  # fmt: skip
    for p in sent:
        a.send(0, p, 0.0)
    assert receive(b, len(sent)) == [(7, p) for p in sent]
    assert b.counters()["rx_frames"] == a.counters()["tx_frames"] == len(sent)


@pytest.mark.parametrize("ecn", [0, 1, 2, 3])
def test_the_congestion_mark_travels_in_the_ip_header(opened: Opener, ecn: int) -> None:
    a, b = opened(udp(A, {B: 0})), opened(udp(B, {A: 0}))
    a.send(0, packet(ecn=ecn), 0.0)
    ((_, got),) = receive(b, 1)
    assert got.ecn == ecn


def test_a_packet_without_icrc_is_told_from_one_with_it(opened: Opener) -> None:
    a, b = opened(udp(A, {B: 0})), opened(udp(B, {A: 0}))
    a.send(0, packet(icrc_ok=False), 0.0)
    a.send(0, packet(), 0.0)
    assert [p.icrc_ok for _, p in receive(b, 2)] == [False, True]


def test_many_packets_come_in_batches(opened: Opener) -> None:
    a, b = opened(udp(A, {B: 0})), opened(udp(B, {A: 0}))
    for i in range(100):
        a.send(0, packet(i), 0.0)
    first = b.receive(0.0)
    assert len(first) == 64
    assert [p.psn for _, p in first + b.receive(0.0)] == list(range(100))
    assert b.receive(0.0) == []


def test_a_datagram_from_an_unknown_address_is_counted_and_dropped(opened: Opener) -> None:
    b, stranger = opened(udp(B, {A: 0})), opened(udp(C, {B: 0}))
    stranger.send(0, packet(src_ip=C), 0.0)
    assert receive(b, 1, 0.2) == []
    assert b.counters()["drop_wrong_port"] == 1


def test_what_cannot_be_decoded_is_counted_by_reason(opened: Opener) -> None:
    b = opened(udp(B, {A: 0}))
    good = codec.encode_datagram(packet())
    bad = {"truncated": good[:10], "opcode": b"\x77" + good[1:], "tver": good[:1] + b"\x05" + good[2:]}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.bind((A, 4791))
        for data in bad.values():
            raw.sendto(data, (B, 4791))
    assert receive(b, 1, 0.2) == []
    counters = b.counters()
    assert {reason: counters.get(f"drop_{reason}") for reason in bad} == dict.fromkeys(bad, 1)


def test_a_packet_that_the_kernel_refuses_is_counted_as_failed(opened: Opener) -> None:
    a = opened(udp(A, {B: 0}))
    # The limited broadcast address needs SO_BROADCAST.
    a.send(0, packet(dst_ip="255.255.255.255"), 0.0)
    assert a.counters() == {"rx_frames": 0, "tx_frames": 0, "tx_failed": 1}


def test_injected_faults_hit_sent_packets_and_are_counted(opened: Opener) -> None:
    faults = {"loss": 0.2, "duplicate": 0.2, "reorder": 0.2, "corrupt": 0.2, "seed": 3}
    a, b = opened(udp(A, {B: 0}, faults=faults)), opened(udp(B, {A: 0}))
    for i in range(200):
        a.send(0, packet(i, bytes(64)), 0.0)
    a.poll(1.0)
    assert a.next_deadline() is None
    hit = a.faults()
    assert min(hit.values()) > 10
    arrived = receive(b, 200 - hit["lost"] + hit["duplicated"], 0.5)
    dropped = sum(v for k, v in b.counters().items() if k.startswith("drop_"))
    assert len(arrived) + dropped == 200 - hit["lost"] + hit["duplicated"]
    psns = [p.psn for _, p in arrived if p.icrc_ok]
    assert psns != sorted(psns)
    # A flipped bit is found, except in the byte that the ICRC leaves out.
    harmed = dropped + sum(not p.icrc_ok for _, p in arrived)
    assert hit["corrupted"] - 5 <= harmed <= hit["corrupted"]


def test_a_capture_shows_whole_frames_both_ways_while_it_is_being_written(
    opened: Opener, tmp_path: Path
) -> None:
    file = tmp_path / "a.pcap"
    a, b = opened(udp(A, {B: 0}, capture=str(file))), opened(udp(B, {A: 0}))
    a.send(0, packet(1, ecn=3), 0.0)
    answer = packet(2, src_ip=B, dst_ip=A, src_mac=codec.mac_of_ip(B), dst_mac=codec.mac_of_ip(A))
    b.send(0, answer, 0.0)
    receive(a, 1)
    shown = [codec.decode(record.data) for record in pcap.read(file)]
    assert shown == [packet(1, ecn=3), answer]


def test_a_capture_shows_frames_as_the_faults_left_them(opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    a = opened(udp(A, {B: 0}, capture=str(file), faults={"loss": 1.0}))
    a.send(0, packet(), 0.0)
    assert list(pcap.read(file)) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "transport: kind = None, expected one of udp, packet"),
        ({"kind": "tcp"}, "transport: kind = 'tcp'"),
        ({"kind": "udp", "ports": {}}, "udp transport: no 'address'"),
        (udp("localhost", {}), "udp transport: address = 'localhost', expected an IPv4 address"),
        (udp(A, {"x": 0}), "udp transport: peer = 'x', expected an IPv4 address"),
        (udp(A, {B: -1}), ": port -1, expected a whole number"),
        (udp(A, {}, speed=1), "udp transport: unknown key 'speed', expected one of kind, address, ports"),
        (udp(A, {}, faults={"lose": 1}), "faults: unknown key 'lose'"),
        (udp(A, {}, faults={"loss": 2}), "faults: loss = 2, expected a number from 0 to 1"),
        (udp(A, {}, faults={"seed": "x"}), "faults: seed = 'x', expected a whole number"),
        (udp(A, {}, capture=3), "udp transport: capture = 3, expected a file name"),
        (udp(A, {}, capture="/nowhere/a.pcap"), "/nowhere/a.pcap: No such file"),
        (udp("192.0.2.1", {}), "udp transport: address 192.0.2.1:4791 is not an address of this machine"),
        ({"kind": "packet", "ports": {}}, "packet transport: ports = {}, expected an object"),
        ({"kind": "packet", "ports": {"x": "eth0"}}, "packet transport: port 'x', expected a whole number"),
        ({"kind": "packet", "ports": {"0": 3}}, "packet transport: port 0 = 3, expected the name"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_transport(config).close()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_in_use_is_named(opened: Opener) -> None:
    opened(udp(A, {}))
    with pytest.raises(ConfigError, match=f"address {A}:4791 is in use"):
        open_transport(udp(A, {}))


def test_a_transport_that_failed_to_open_leaves_its_address_free(opened: Opener) -> None:
    with pytest.raises(ConfigError):
        open_transport(udp(A, {}, capture="/nowhere/a.pcap"))
    opened(udp(A, {}))


def test_the_file_header_of_a_capture_is_there_before_the_first_frame(opened: Opener, tmp_path: Path) -> None:
    opened(udp(A, {}, capture=str(tmp_path / "a.pcap")))
    assert struct.unpack("<I", (tmp_path / "a.pcap").read_bytes()[:4]) == (0xA1B23C4D,)
