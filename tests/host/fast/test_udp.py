"""The batch transport: the datagrams, counts, faults and captures of the reference transport, in fewer calls."""

from __future__ import annotations

import random
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host.fast import sockets
from epic_host.fast.frames import departures
from epic_host.fast.udp import FastUdpTransport
from epic_host.transport import UdpTransport
from epic_host.transport.cut import write_cuts
from epic_spec import codec, pcap
from epic_spec.addresses import ip_number
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Opcode, Operator, Primitive
from host.fast.batches import SCALE, Got, Sending, addresses, drain, edge_table, fill, send, udp

IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM).pack()
Opener = Callable[..., Any]


class NoSegmentation(FastUdpTransport):
    """As on a kernel without UDP_SEGMENT."""

    SEGMENTATION = False


class NoCoalescing(FastUdpTransport):
    """As on a kernel without UDP_GRO."""

    COALESCING = False


class Neither(FastUdpTransport):
    """Many datagrams a call, but each by itself."""

    SEGMENTATION = COALESCING = False


KINDS = [FastUdpTransport, NoSegmentation, NoCoalescing, Neither]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens transports and closes them after the test."""
    transports: list[Any] = []

    def open_one(kind: type[UdpTransport], address: str, ports: dict[str, int], **more: Any) -> Any:
        transports.append(kind(udp(address, ports, **more)))
        return transports[-1]

    yield open_one
    for transport in transports:
        transport.close()


def packet(
    source: str, destination: str, psn: int = 0, payload: bytes = b"payload!", **changes: Any
) -> Packet:
    made = Packet(
        Opcode.SEND_ONLY_IMM, source, destination, 0x1234, psn, payload, IMM,
        src_mac=codec.mac_of_ip(source), dst_mac=codec.mac_of_ip(destination), sport=4791,
    )  # fmt: skip
    return made.but(**changes)


def sending(made: Packet, edge: int = 0) -> Sending:
    return Sending(edge, made.ecn, codec.encode_datagram(made, icrc=made.icrc_ok))


def received(transport: UdpTransport, count: int, timeout: float = 2.0) -> list[tuple[int, Packet]]:
    """At least `count` packets, or those that came before the timeout."""
    got: list[tuple[int, Packet]] = []
    end = time.monotonic() + timeout
    while len(got) < count and (left := end - time.monotonic()) > 0:
        if select.select(transport.filenos(), [], [], left)[0]:
            got += transport.receive(time.monotonic())
    return got


# ---------------------------------------------------------------------- bytes and their order


@pytest.mark.parametrize("sender", KINDS)
@pytest.mark.parametrize("receiver", KINDS)
def test_a_long_stream_of_mixed_frames_arrives_byte_for_byte_in_order(
    opened: Opener, sender: type[FastUdpTransport], receiver: type[FastUdpTransport]
) -> None:
    """Two destinations; runs and loners of every size, in batches of every size. EPIC_EXAMPLES=16 sends 100,000."""
    a_ip, *peers = addresses(3)
    a = opened(sender, a_ip, {peer: i for i, peer in enumerate(peers)})
    others = [opened(receiver, peer, {a_ip: 7}) for peer in peers]
    assert (a.segments, others[0].coalesces) == (
        sockets.SEGMENTS if a.SEGMENTATION else 1,
        receiver.COALESCING,
    )
    rng = random.Random(f"{sender}{receiver}")
    table, out, total = edge_table(a_ip, peers), departures(1000), 6400 * SCALE
    inboxes = [other.arrivals() for other in others]
    number = 0
    while number < total:
        frames: list[Sending] = []
        size = rng.choice((1, 3, 40, 400, 1000))
        while len(frames) < size:
            length = rng.choice((0, 4, 8, 64, 1024, 1024, 4096, 8192))
            for _ in range(rng.choice((1, 2, 30, 200))):
                filling = (number + len(frames)).to_bytes(8, "big") * (3 + length // 8)
                frames.append(Sending(rng.randrange(2), 2, filling[: 20 + length]))
        frames = frames[:size]
        memory = fill(out, frames)
        a.send_batch(out, table, 0.0)
        del memory
        for peer, (other, arrivals) in enumerate(zip(others, inboxes, strict=True)):
            sent = b"".join(f.data for f in frames if f.edge == peer)
            lengths = [len(f.data) for f in frames if f.edge == peer]
            taken: list[bytes] = []
            taken_lengths: list[int] = []
            while other.receive_batch(arrivals, 0.0):
                records = arrivals.records[: arrivals.count]
                assert set(records["port"].tolist()) == {7}
                assert set(records["ecn"].tolist()) == {2}
                taken_lengths += records["length"].tolist()
                taken += [
                    arrivals.arena[start : start + length].tobytes()
                    for start, length in zip(records["offset"], records["length"], strict=True)
                ]
            assert taken_lengths == lengths
            assert b"".join(taken) == sent
        number += len(frames)
    assert a.counters()["tx_frames"] == number
    assert a.counters()["tx_failed"] == 0
    assert sum(other.counters()["rx_frames"] for other in others) == number


def test_frames_for_one_destination_share_system_calls(opened: Opener) -> None:
    """What a full socket buffer keeps counts runs, not datagrams: 64 of them fit where one is allowed."""
    a_ip, b_ip = addresses(2)
    a, b = opened(FastUdpTransport, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 0})
    send(a, edge_table(a_ip, [b_ip]), [Sending(0, 2, bytes(1000)) for _ in range(sockets.SEGMENTS)])
    arrivals = b.arrivals()
    assert b.receive_batch(arrivals, 0.0) == sockets.SEGMENTS
    assert arrivals.address == ip_number(b_ip)
    # One run takes one place of the arena.
    assert arrivals.records[sockets.SEGMENTS - 1]["offset"] == (sockets.SEGMENTS - 1) * 1000
    assert not b.more


@pytest.mark.parametrize("ecn", [2, 3])
@pytest.mark.parametrize("count", [1, 5])
def test_the_congestion_mark_travels_alone_and_in_runs(opened: Opener, ecn: int, count: int) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(FastUdpTransport, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 0})
    send(a, edge_table(a_ip, [b_ip]), [Sending(0, ecn, bytes(40)) for _ in range(count)])
    assert [got.ecn for got in drain(b)] == [ecn] * count


def test_empty_and_odd_datagrams_are_datagrams(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    b = opened(FastUdpTransport, b_ip, {a_ip: 3})
    datas = [b"", b"x", b"abc" * 7, b"", bytes(65_507), b"end"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.bind((a_ip, 0))
        sport = raw.getsockname()[1]
        for data in datas:
            raw.sendto(data, (b_ip, 4791))
        # A run whose last datagram is shorter.
        segment = (socket.IPPROTO_UDP, sockets.UDP_SEGMENT, (10).to_bytes(2, "little"))
        raw.sendmsg([bytes(25)], [segment], 0, (b_ip, 4791))
    expected = [*datas, bytes(10), bytes(10), bytes(5)]
    assert drain(b) == [Got(data, a_ip, 3, sport, 0) for data in expected]


def test_more_waits_than_one_batch_takes_is_said(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    b = opened(FastUdpTransport, b_ip, {a_ip: 3})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.bind((a_ip, 4791))
        for i in range(40):
            raw.sendto(bytes([i]), (b_ip, 4791))
    arrivals, got = b.arrivals(), []
    while b.receive_batch(arrivals, 0.0):
        assert b.more == (len(got) + arrivals.count < 40)
        got += arrivals.arena[arrivals.records[: arrivals.count]["offset"]].tolist()
    assert got == list(range(40))
    assert b.receive_batch(arrivals, 0.0) == 0


# ---------------------------------------------------------------------- with the reference transport


def traffic(source: str, destination: str) -> list[Packet]:
    rng = random.Random(5)
    lengths = [0, 4, 8192, 3, 1024, 1024, 1024, 17]
    made = [packet(source, destination, i, rng.randbytes(lengths[i % 8]) or b"12") for i in range(150)]
    made += [packet(source, destination, 7, b"", imm=IMM | 0x80), packet(source, destination, 8, ecn=3)]
    ack = Packet(
        Opcode.ACK, source, destination, 5, 6, aeth=Aeth(0x1F, 3), sport=4791,
        src_mac=codec.mac_of_ip(source), dst_mac=codec.mac_of_ip(destination),
    )  # fmt: skip
    return [*made, ack]


@pytest.mark.parametrize("kind", [FastUdpTransport, Neither])
def test_a_reference_transport_hears_what_a_batch_sends(opened: Opener, kind: type[FastUdpTransport]) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(kind, a_ip, {b_ip: 0}), opened(UdpTransport, b_ip, {a_ip: 7})
    made = traffic(a_ip, b_ip)
    send(a, edge_table(a_ip, [b_ip]), [sending(p) for p in made])
    assert received(b, len(made)) == [(7, p) for p in made]


@pytest.mark.parametrize("sender", [UdpTransport, FastUdpTransport])
def test_a_batch_hears_what_packets_send(opened: Opener, sender: type[UdpTransport]) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(sender, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 7})
    made = traffic(a_ip, b_ip)
    for p in made:
        a.send(0, p, 0.0)
    assert drain(b) == [Got(sending(p).data, a_ip, 7, 4791, p.ecn) for p in made]
    for p in made:
        a.send(0, p, 0.0)
    # And as packets, for nodes that take those.
    assert received(b, len(made)) == [(7, p) for p in made]
    assert b.counters()["rx_frames"] == a.counters()["tx_frames"] == 2 * len(made)


def test_packets_of_a_run_are_counted_by_reason_as_in_the_reference(opened: Opener) -> None:
    a_ip, b_ip, c_ip = addresses(3)
    counted = []
    good = codec.encode_datagram(packet(a_ip, b_ip))
    wrong = good[:-1] + bytes([good[-1] ^ 1])
    bad = [good, good[:10], b"\x77" + good[1:], good[:1] + b"\x05" + good[2:], b"", good + b"x", wrong]
    for kind in (UdpTransport, FastUdpTransport):
        b = opened(kind, b_ip, {a_ip: 0})
        for sender in (a_ip, c_ip):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
                raw.bind((sender, 4791))
                for data in bad:
                    raw.sendto(data, (b_ip, 4791))
        got = received(b, 14, 0.1)
        counted.append((b.counters(), [(port, p, p.icrc_ok) for port, p in got]))
        b.close()
    assert counted[0] == counted[1]
    assert counted[0][0]["drop_wrong_port"] == 2


# ---------------------------------------------------------------------- who it comes from


def test_an_unknown_sender_has_no_port_and_a_network_has_one(opened: Opener) -> None:
    a_ip, b_ip, c_ip = addresses(3)
    network = a_ip.rsplit(".", 1)[0]
    b = opened(FastUdpTransport, b_ip, {f"{network}.0/31": 4, a_ip: 5})
    for source in (c_ip, a_ip, c_ip):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
            raw.bind((source, 0))
            raw.sendto(b"x", (b_ip, 4791))
    assert [(got.source, got.port) for got in drain(b)] == [(c_ip, -1), (a_ip, 5), (c_ip, -1)]


def test_ports_stay_right_when_more_senders_come_than_are_remembered(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_ip, b_ip = addresses(2)
    first = int.from_bytes(socket.inet_aton(a_ip), "big") & ~0xFF
    b = opened(
        FastUdpTransport, b_ip, {socket.inet_ntoa((first + i).to_bytes(4, "big")): i for i in range(200)}
    )
    world = b._inbox.address(b.arrivals())
    for address in range(1 << 24, (1 << 24) + sockets.CACHED - 100):
        sockets.learn(world, address, -1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        pass
    for i in range(3, 200):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
            raw.bind((socket.inet_ntoa((first + i).to_bytes(4, "big")), 0))
            raw.sendto(bytes([i]), (b_ip, 4791))
    assert [(g.data[0], g.port) for g in drain(b)] == [(i, i) for i in range(3, 200)]
    assert b._inbox.used[0] < 200


# ---------------------------------------------------------------------- what goes wrong


def test_a_destination_that_the_kernel_refuses_is_counted_and_the_others_get_theirs(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(FastUdpTransport, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 0})
    # The limited broadcast address needs SO_BROADCAST.
    table = edge_table(a_ip, ["255.255.255.255", b_ip])
    frames = [Sending(i % 2, 2, bytes(20 + 4 * (i % 5))) for i in range(50)]
    send(a, table, frames)
    assert [g.data for g in drain(b)] == [f.data for f in frames if f.edge == 1]
    assert a.counters() == {"rx_frames": 0, "tx_frames": 25, "tx_failed": 25}


def test_a_frame_that_is_too_long_for_any_packet_is_counted(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(FastUdpTransport, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 0})
    send(a, edge_table(a_ip, [b_ip]), [Sending(0, 2, bytes(n)) for n in (65_508, 65_507, 28)])
    assert [len(g.data) for g in drain(b)] == [65_507, 28]
    assert a.counters()["tx_failed"] == 1


def test_nobody_listening_is_no_error(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    a = opened(FastUdpTransport, a_ip, {b_ip: 0})
    for _ in range(3):
        send(a, edge_table(a_ip, [b_ip]), [Sending(0, 2, bytes(28))] * 3)
        assert drain(a) == []


def test_a_refusal_that_waits_in_the_socket_is_no_error(opened: Opener) -> None:
    """With IP_RECVERR the ICMP answer of a closed port becomes the error of a later call."""
    a_ip, b_ip = addresses(2)
    a = opened(FastUdpTransport, a_ip, {b_ip: 0})
    a._socket.setsockopt(socket.IPPROTO_IP, 11, 1)
    table = edge_table(a_ip, [b_ip])
    send(a, table, [Sending(0, 2, bytes(28))])
    assert drain(a) == []
    send(a, table, [Sending(0, 2, bytes(28))])
    b = opened(FastUdpTransport, b_ip, {a_ip: 0})
    send(a, table, [Sending(0, 2, bytes(28))])
    send(a, table, [Sending(0, 2, bytes(28))])
    assert drain(b)


# ---------------------------------------------------------------------- faults, captures, cuts


FAULTS = {"loss": 0.1, "duplicate": 0.15, "reorder": 0.2, "corrupt": 0.1, "seed": 9}


def test_faults_are_those_of_the_reference_frame_by_frame(opened: Opener) -> None:
    outcomes = []
    a_ip, b_ip, c_ip = addresses(3)
    made = [
        packet(a_ip, (b_ip, c_ip)[i % 3 == 0], i, bytes(8 * (i % 4 + 1)), ecn=2 + (i % 7 == 0))
        for i in range(400)
    ]
    table = edge_table(a_ip, [b_ip, c_ip])
    for kind in (UdpTransport, FastUdpTransport):
        a = opened(kind, a_ip, {b_ip: 0, c_ip: 1}, faults=FAULTS)
        b, c = opened(FastUdpTransport, b_ip, {a_ip: 0}), opened(FastUdpTransport, c_ip, {a_ip: 0})
        if kind is UdpTransport:
            for p in made:
                a.send(0, p, 1.0)
        else:
            send(a, table, [sending(p, int(p.dst_ip == c_ip)) for p in made], 1.0)
        held = a.next_deadline()
        a.poll(2.0)
        assert a.next_deadline() is None
        outcomes.append((drain(b), drain(c), a.faults(), a.counters(), held))
        for transport in (a, b, c):
            transport.close()
    assert outcomes[0] == outcomes[1]
    assert min(outcomes[0][2].values()) > 10


def test_a_capture_is_that_of_the_reference(opened: Opener, tmp_path: Path) -> None:
    shown = []
    a_ip, b_ip, c_ip = addresses(3)
    made, answers = traffic(a_ip, b_ip), traffic(b_ip, a_ip)
    for kind in (UdpTransport, FastUdpTransport):
        file = tmp_path / f"{kind.__name__}.pcap"
        a, b = opened(kind, a_ip, {b_ip: 0}, capture=str(file)), opened(FastUdpTransport, b_ip, {a_ip: 0})
        stranger = opened(FastUdpTransport, c_ip, {})
        send(b, edge_table(b_ip, [a_ip]), [sending(p) for p in answers])
        send(stranger, edge_table(c_ip, [a_ip]), [Sending(0, 2, bytes(30))])
        if kind is UdpTransport:
            received(a, 1000, 0.1)
            for p in made:
                a.send(0, p, 0.0)
        else:
            drain(a)
            send(a, edge_table(a_ip, [b_ip]), [sending(p) for p in made])
        shown.append([record.data for record in pcap.read(file)])
        for transport in (a, b, stranger):
            transport.close()
    assert len(shown[0]) == len(made) + len(answers) + 1
    assert shown[0] == shown[1]


def test_cut_links_keep_frames_away_both_ways_and_are_counted(opened: Opener, tmp_path: Path) -> None:
    counted = []
    a_ip, b_ip, c_ip = addresses(3)
    table = edge_table(a_ip, [b_ip, c_ip])
    frames = [sending(packet(a_ip, (b_ip, c_ip)[i % 2], i), i % 2) for i in range(40)]
    for kind in (UdpTransport, FastUdpTransport):
        cuts = tmp_path / f"{kind.__name__}.json"
        a = opened(kind, a_ip, {b_ip: 0, c_ip: 1}, cuts=str(cuts))
        b, c = opened(FastUdpTransport, b_ip, {a_ip: 0}), opened(FastUdpTransport, c_ip, {a_ip: 0})
        got = []
        for now, cut in ((1.0, []), (2.0, [f"{b_ip}/32"]), (3.0, [f"{b_ip}/32", f"{c_ip}/32"]), (4.0, [])):
            write_cuts(cuts, cut)
            if kind is UdpTransport:
                for i, f in enumerate(frames):
                    a.send(0, packet(a_ip, (b_ip, c_ip)[f.edge], i), now)
            else:
                send(a, table, frames, now)
            for other, ip in ((b, b_ip), (c, c_ip)):
                send(other, edge_table(ip, [a_ip]), [sending(packet(ip, a_ip, i)) for i in range(9)])
            came = []
            while some := a.receive(now):
                came += some
            got.append((len(drain(b)), len(drain(c)), [(p.src_ip, p.psn) for _, p in came]))
        counted.append((got, a.faults(), a.counters()))
        for transport in (a, b, c):
            transport.close()
    assert [row[:2] for row in counted[0][0]] == [(20, 20), (0, 20), (0, 0), (20, 20)]
    assert counted[0] == counted[1]
    assert counted[0][1]["cut"] == 3 * 20 + 3 * 9


def test_faults_spare_what_a_cut_keeps_away(opened: Opener, tmp_path: Path) -> None:
    a_ip, b_ip, c_ip = addresses(3)
    write_cuts(tmp_path / "cuts", [f"{b_ip}/32"])
    a = opened(FastUdpTransport, a_ip, {b_ip: 0, c_ip: 1}, cuts=str(tmp_path / "cuts"), faults={"loss": 1.0})
    send(a, edge_table(a_ip, [b_ip, c_ip]), [Sending(i % 2, 2, bytes(28)) for i in range(40)])
    assert a.faults() | a.counters() == {
        "lost": 20, "duplicated": 0, "reordered": 0, "corrupted": 0, "cut": 20,
        "rx_frames": 0, "tx_frames": 0, "tx_failed": 0,
    }  # fmt: skip


def test_larger_batches_than_before_keep_the_counts(opened: Opener) -> None:
    a_ip, b_ip = addresses(2)
    a, b = opened(FastUdpTransport, a_ip, {b_ip: 0}), opened(FastUdpTransport, b_ip, {a_ip: 0})
    table = edge_table(a_ip, [b_ip])
    for count in (1, 50, 5, 700):
        send(a, table, [Sending(0, 2, np.full(28, i & 255, np.uint8).tobytes()) for i in range(count)])
        assert [g.data[0] for g in drain(b)] == [i & 255 for i in range(count)]
    assert a.counters()["tx_frames"] == 756
