"""The loop of batch nodes: everything that arrives is worked on once and in order, timers get their turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from epic_host.driver import Driver
from epic_host.fast.driver import BatchDriver, BatchNode
from epic_host.fast.frames import Arrivals, Departures, EdgeTable
from epic_host.fast.udp import FastUdpTransport
from epic_models.reference.interfaces import EdgeFailed, Event, Output
from epic_spec import codec
from epic_spec.errors import EpicError
from epic_spec.packets import Packet
from epic_spec.tables import Opcode
from host.fast.batches import Sending, addresses, drain, edge_table, send, udp


class Echo:
    """Sends each arrival back by edge 0, `step` of them a call at most, and has an event for each."""

    burst = 1

    def __init__(self, edges: EdgeTable, step: int = 1 << 30) -> None:
        self.edges = edges
        self.step = step
        self.calls = 0
        self.polls: list[float] = []
        self.deadline: float | None = None
        self.rooms: set[int] = set()
        self._events: list[Event] = []

    def receive_batch(self, arrivals: Arrivals, first: int, departures: Departures, now: float) -> int:
        self.calls += 1
        self.rooms.add(len(departures.body))
        stop = min(arrivals.count, first + self.step)
        for i in range(first, stop):
            record = arrivals.records[i]
            start, length, n = int(record["offset"]), int(record["length"]), int(departures.count[0])
            data = arrivals.arena[start : start + length]
            departures.head[n], departures.tail[n] = data[:16], data[-4:]
            departures.body[n] = data.ctypes.data + 16
            departures.length[n], departures.edge[n], departures.ecn[n] = length - 20, 0, 2
            departures.count[0] += 1
            self._events.append(EdgeFailed(int.from_bytes(data[:4].tobytes(), "big"), "e", ""))
        return stop

    def poll_batch(self, departures: Departures, now: float) -> None:
        self.polls.append(now)
        self.deadline = None

    def next_deadline(self) -> float | None:
        return self.deadline

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events


class Bench:
    """A node under a driver, and a peer that it answers."""

    def __init__(self, step: int = 1 << 30, **faults: float) -> None:
        self.ip, self.peer_ip = addresses(2)
        self.transport = FastUdpTransport(udp(self.ip, {self.peer_ip: 0}, faults=faults))
        self.peer = FastUdpTransport(udp(self.peer_ip, {self.ip: 0}))
        self.node = Echo(edge_table(self.ip, [self.peer_ip]), step)
        self.events: list[Event] = []
        self.driver = BatchDriver(self.node, self.transport, self.events.extend)

    def send(self, count: int, length: int = 28) -> list[bytes]:
        datas = [i.to_bytes(4, "big") + bytes(length - 4) for i in range(count)]
        send(self.peer, edge_table(self.peer_ip, [self.ip]), [Sending(0, 2, data) for data in datas])
        return datas

    def run(self, until: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not until():
            assert time.monotonic() < end
            self.driver.step(time.monotonic() + 0.01)

    def close(self) -> None:
        self.driver.close()
        self.transport.close()
        self.peer.close()


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(step: int = 1 << 30, **faults: float) -> Bench:
        made.append(Bench(step, **faults))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_protocol_of_nodes_is_met_by_this_one(bench: Callable[..., Bench]) -> None:
    assert isinstance(bench().node, BatchNode)
    assert not isinstance(object(), BatchNode)


@pytest.mark.parametrize("step", [1, 7, 1 << 30])
def test_all_arrivals_are_worked_on_once_in_order_however_far_the_node_goes(
    bench: Callable[..., Bench], step: int
) -> None:
    b = bench(step)
    datas = b.send(1500)
    b.run(lambda: len(b.events) >= 1500)
    assert [g.data for g in drain(b.peer)] == datas
    assert [e.group for e in b.events if isinstance(e, EdgeFailed)] == list(range(1500))


def test_what_a_batch_causes_leaves_in_one_batch(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.send(60)
    b.run(lambda: len(b.events) == 60)
    assert b.node.calls == 1
    arrivals = b.peer.arrivals()
    assert b.peer.receive_batch(arrivals, 0.0) == 60
    assert arrivals.records[59]["offset"] == 59 * 28


def test_a_node_that_does_not_go_on_is_an_error_and_no_endless_loop(bench: Callable[..., Bench]) -> None:
    b = bench(step=0)
    b.send(3)
    with pytest.raises(EpicError, match="arrival 0 of 3"):
        b.run(lambda: False)


def test_departures_hold_the_nodes_largest_burst_also_after_it_grew(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.send(1)
    b.run(lambda: len(b.events) == 1)
    b.node.burst = 5000
    b.send(1)
    b.run(lambda: len(b.events) == 2)
    rooms = sorted(b.node.rooms)
    assert [room > 5000 for room in rooms] == [False, True]
    assert len(drain(b.peer)) == 2


def test_a_timer_is_run_when_it_is_due_and_not_before(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.node.deadline = time.monotonic() + 0.05
    due = b.node.deadline
    b.run(lambda: bool(b.node.polls))
    assert due <= b.node.polls[0] < due + 1
    assert len(b.node.polls) == 1


def test_a_timer_gets_its_turn_in_a_flood(bench: Callable[..., Bench]) -> None:
    b = bench()
    # The node hears itself: there is always something more.
    b.node.edges = edge_table(b.ip, [b.ip])
    b.send(2000)
    b.node.deadline = time.monotonic()
    b.driver.step()
    b.driver.step()
    assert len(b.node.polls) == 1
    assert b.node.calls <= 16


def test_it_sleeps_until_a_time_or_a_datagram_or_another_thread(bench: Callable[..., Bench]) -> None:
    b = bench()
    begin = time.monotonic()
    b.driver.step(begin + 0.05)
    assert time.monotonic() - begin >= 0.045
    for wake in (b.driver.wake, lambda: b.send(1)):
        timer = threading.Timer(0.05, wake)
        timer.start()
        begin = time.monotonic()
        b.driver.step(begin + 5)
        assert time.monotonic() - begin < 4
        timer.join()
    # A wake-up before the sleep ends it too, once.
    b.driver.wake()
    b.driver.step(time.monotonic() + 5)
    assert len(b.events) == 1


def test_the_next_timer_is_the_nodes_or_the_transports(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    assert b.driver.next_deadline() is None
    b.node.deadline = 5.0
    assert b.driver.next_deadline() == 5.0
    monkeypatch.setattr(b.transport, "next_deadline", lambda: 3.0)
    assert b.driver.next_deadline() == 3.0
    b.node.deadline = None
    assert b.driver.next_deadline() == 3.0


def test_what_faults_hold_back_leaves_by_the_loop(bench: Callable[..., Bench]) -> None:
    b = bench(reorder=1.0, seed=1)
    b.send(1)
    b.run(lambda: len(b.events) == 1)
    b.run(lambda: b.transport.next_deadline() is None)
    assert len(drain(b.peer)) == 1


class PacketEcho:
    """The same for packets."""

    def __init__(self) -> None:
        self.psns: list[int] = []

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        self.psns.append(packet.psn)
        back = packet.but(src_ip=packet.dst_ip, dst_ip=packet.src_ip)
        return Output([(port, back)])

    def poll(self, now: float) -> Output:
        return Output()

    def next_deadline(self) -> float | None:
        return None


def test_a_packet_node_may_have_the_transport_too() -> None:
    """Hosts that do without the network take packets; they use the socket that batches used."""
    a_ip, b_ip = addresses(2)
    a, b = FastUdpTransport(udp(a_ip, {b_ip: 0})), FastUdpTransport(udp(b_ip, {a_ip: 0}))
    node = PacketEcho()
    driver = Driver(node, a, lambda events: None)
    packets = [Packet(Opcode.SEND_ONLY_IMM, b_ip, a_ip, 5, i, bytes(64), 0x1000) for i in range(500)]
    frames = [Sending(0, 2, codec.encode_datagram(p)) for p in packets]
    send(b, edge_table(b_ip, [a_ip]), frames)
    end = time.monotonic() + 10
    while len(node.psns) < 500:
        assert time.monotonic() < end
        driver.step(time.monotonic() + 0.01)
    assert node.psns == list(range(500))
    assert len(drain(b)) == 500
    driver.close()
    a.close()
    b.close()
