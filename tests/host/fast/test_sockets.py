"""Messages to the kernel: laid out as it has them, as few as can be, none that it would refuse."""

from __future__ import annotations

import ctypes
import itertools
import random
import socket
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.fast import sockets, syscalls
from epic_host.fast.frames import EDGE, Arrivals, EdgeTable, departures
from epic_host.fast.udp import FastUdpTransport
from epic_spec.addresses import ip_number, ip_text
from host.fast.batches import Sending, addresses, drain, edge_table, fill, send, udp


class _Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("iovecs", ctypes.c_void_p),
        ("iovec_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Mmsghdr(ctypes.Structure):
    _fields_ = (("header", _Msghdr), ("length", ctypes.c_uint))


class _Cmsghdr(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("level", ctypes.c_int), ("kind", ctypes.c_int))


def test_records_are_laid_out_as_the_c_compiler_does() -> None:
    fields = syscalls.MESSAGE.fields
    assert fields is not None
    assert syscalls.MESSAGE.itemsize == ctypes.sizeof(_Mmsghdr)
    for name, _ in _Msghdr._fields_:
        assert fields[name][1] == getattr(_Msghdr, name).offset
    assert fields["length"][1] == _Mmsghdr.length.offset
    control = syscalls.CONTROL.fields
    assert control is not None
    for name, _ in _Cmsghdr._fields_:
        assert control[name][1] == getattr(_Cmsghdr, name).offset
    assert syscalls.CONTROL.itemsize == socket.CMSG_SPACE(4)
    assert syscalls.NAME.itemsize == 16


Composed = list[tuple[int, int, int, list[int]]]


def compose(frames: list[Sending], peers: list[str], segments: int = sockets.SEGMENTS) -> Composed:
    """(destination, datagram length of a run or 0, ECN, frame numbers) of each message that would be sent."""
    out = departures(max(1, len(frames)))
    memory = fill(out, frames)
    box = sockets.Outbox(len(out.body), segments)
    edges = np.zeros(len(peers), EDGE)
    edges["peer_ip"] = [ip_number(peer) for peer in peers]
    count = sockets.arrange(box.address(out, edges))
    assert (box.table == -1).all()
    index = {peer: i for i, peer in reversed(list(enumerate(peers)))}
    made: Composed = []
    for k in range(count):
        message = box.messages[k]
        name = box.names[(int(message["name"]) - box.names.ctypes.data) // 16]
        assert name["family"] == socket.AF_INET
        assert socket.ntohs(int(name["port"])) == 4791
        peer = index[socket.inet_ntoa(int(name["address"]).to_bytes(4, "little"))]
        first = (int(message["iovecs"]) - box.iovecs.ctypes.data) // 16
        numbers = []
        for j in range(first, first + int(message["iovec_count"]), 3):
            head, body, tail = box.iovecs[j : j + 3]
            i = (int(head["base"]) - out.head.ctypes.data) // 16
            assert head["length"] == 16
            assert tail["length"] == 4
            assert (int(tail["base"]) - out.tail.ctypes.data) // 4 == i
            assert (int(body["base"]), int(body["length"])) == (int(out.body[i]), int(out.length[i]))
            numbers.append(i)
        assert box.counts[k] == len(numbers)
        said = {}
        for j in range(int(message["control_length"]) // 24):
            control = box.controls[2 * k + j]
            said[int(control["level"]), int(control["kind"])] = int(control["value"])
        run = said.pop((socket.IPPROTO_UDP, sockets.UDP_SEGMENT), 0)
        made.append((peer, run, said.pop((socket.IPPROTO_IP, socket.IP_TOS), 2), numbers))
        assert not said
    del memory
    return made


def frame(edge: int, length: int, ecn: int = 2) -> Sending:
    return Sending(edge, ecn, bytes(20 + length))


PEERS = [f"10.0.0.{i}" for i in range(1, 6)]


def test_results_for_many_children_are_one_message_a_child() -> None:
    frames = [frame(child, 1024) for _ in range(60) for child in range(4)]
    made = compose(frames, PEERS[:4])
    assert [(peer, run) for peer, run, _, _ in made] == [(child, 1044) for child in range(4)]
    assert [numbers for *_, numbers in made] == [list(range(child, 240, 4)) for child in range(4)]


def test_a_run_ends_with_a_shorter_datagram_and_before_a_longer_one() -> None:
    lengths = [8, 8, 4, 8, 8, 16, 16]
    made = compose([frame(0, n) for n in lengths], PEERS[:1])
    assert [numbers for *_, numbers in made] == [[0, 1, 2], [3, 4], [5, 6]]


def test_a_run_ends_before_it_is_longer_than_an_ip_packet() -> None:
    made = compose([frame(0, n) for n in (32_000, 32_000, 1024, 32_000)], PEERS[:1])
    assert [numbers for *_, numbers in made] == [[0, 1], [2], [3]]
    made = compose([frame(0, 1024)] * 63, PEERS[:1])
    assert [len(numbers) for *_, numbers in made] == [62, 1]


def test_a_mark_has_a_message_of_its_own_in_its_place() -> None:
    made = compose([frame(0, 8), frame(0, 8, 3), frame(0, 8, 3), frame(0, 8)], PEERS[:1])
    assert made == [(0, 0, 2, [0]), (0, 28, 3, [1, 2]), (0, 0, 2, [3])]


def test_two_edges_to_one_address_keep_their_common_order() -> None:
    made = compose([frame(0, 8), frame(1, 8), frame(0, 8)], [PEERS[0], PEERS[0]])
    assert made == [(0, 28, 2, [0, 1, 2])]


sendings = st.lists(
    st.builds(
        frame,
        st.integers(0, 4),
        st.sampled_from([0, 4, 8, 1024, 8192, 32_000, 65_480]),
        st.sampled_from([2, 2, 2, 3]),
    ),
    max_size=300,
)


@given(sendings, st.sampled_from([1, 2, sockets.SEGMENTS]))
@settings(deadline=None, max_examples=60)
def test_every_frame_is_in_one_message_that_the_kernel_takes(frames: list[Sending], segments: int) -> None:
    made = compose(frames, PEERS, segments)
    assert sorted(i for *_, numbers in made for i in numbers) == list(range(len(frames)))
    for peer in range(len(PEERS)):
        order = [i for at, _, _, numbers in made if at == peer for i in numbers]
        assert order == [i for i, f in enumerate(frames) if f.edge == peer]
    for _, run, ecn, numbers in made:
        sizes = [len(frames[i].data) for i in numbers]
        assert {frames[i].ecn for i in numbers} == {ecn}
        assert run == (sizes[0] if len(sizes) > 1 else 0)
        assert set(sizes[:-1]) <= {sizes[0]}
        assert sizes[-1] <= sizes[0]
        assert len(sizes) <= segments
        assert len(sizes) == 1 or sum(sizes) <= sockets.RUN_BYTES


@given(sendings)
@settings(deadline=None, max_examples=30)
def test_no_two_messages_could_have_been_one(frames: list[Sending]) -> None:
    made = compose(frames, PEERS)
    for peer in range(len(PEERS)):
        mine = [m for m in made if m[0] == peer]
        for (_, _, ecn, numbers), (_, _, next_ecn, following) in itertools.pairwise(mine):
            sizes, after = [len(frames[i].data) for i in numbers], len(frames[following[0]].data)
            assert (
                ecn != next_ecn
                or after > sizes[0]
                or sizes[-1] < sizes[0]
                or len(sizes) == sockets.SEGMENTS
                or sum(sizes) + after > sockets.RUN_BYTES
            )


def test_thousands_of_destinations_are_told_apart() -> None:
    peers = [ip_text(ip_number("10.1.0.0") + 256 * i) for i in range(3000)]
    frames = [frame(i, 8) for i in range(3000)] * 2
    made = compose(frames, peers)
    assert len(made) == 3000
    assert {numbers[1] - numbers[0] for *_, numbers in made} == {3000}


# ---------------------------------------------------------------------- with a kernel


Pair = tuple[FastUdpTransport, FastUdpTransport, EdgeTable]


@pytest.fixture
def pair() -> Iterator[Pair]:
    a_ip, b_ip = addresses(2)
    a, b = FastUdpTransport(udp(a_ip, {b_ip: 0})), FastUdpTransport(udp(b_ip, {a_ip: 0}))
    yield a, b, edge_table(a_ip, [b_ip])
    a.close()
    b.close()


def numbered(count: int, length: int, ecn: int = 2) -> list[Sending]:
    return [Sending(0, ecn, i.to_bytes(20 + length, "big")) for i in range(count)]


def test_a_run_that_the_kernel_refuses_is_sent_one_by_one_and_no_more_are_made(pair: Pair) -> None:
    a, b, table = pair
    # More than any kernel takes (UDP_MAX_SEGMENTS is 128); the refusal is that of a link whose MTU is too small.
    a._outbox.limits[0] = 1000
    for ecn in (2, 3):
        a._outbox.limits[2] = sockets.SLOT_BYTES
        frames = numbered(300, 8, ecn)
        send(a, table, frames)
        got = drain(b)
        assert [g.data for g in got] == [f.data for f in frames]
        assert {g.ecn for g in got} == {ecn}
    assert a.counters()["tx_frames"] == 600
    assert a.counters()["tx_failed"] == 0
    assert a._outbox.limits[2] == 28
    # Shorter ones go on in runs.
    a._outbox.limits[0] = sockets.SEGMENTS
    send(a, table, numbered(10, 0))
    assert len(drain(b)) == 10
    assert a._outbox.limits[2] == 28


def test_a_socket_that_is_closed_is_an_error(pair: Pair) -> None:
    a, _, table = pair
    a.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        send(a, table, numbered(3, 8))
    with pytest.raises(OSError, match="Bad file descriptor"):
        a.receive_batch(a.arrivals(), 0.0)


def test_ports_of_addresses_are_remembered_up_to_a_bound() -> None:
    inbox, arrivals = sockets.Inbox(1), Arrivals(1, sockets.SLOT_BYTES)
    world, record = inbox.address(arrivals), arrivals.records[0]
    for number, address in enumerate(random.Random(1).sample(range(1 << 32), 3 * sockets.CACHED)):
        sockets.learn(world, address, number)
        record["source"], record["port"] = address, sockets.UNRESOLVED
        assert sockets.resolve(world, 1) == -1
        assert record["port"] == number
    assert inbox.used[0] <= sockets.CACHED
    assert (inbox.ports != sockets.UNRESOLVED).sum() == inbox.used[0]
