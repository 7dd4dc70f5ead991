"""The compiled loop: it goes round as `BatchLoop` does, and comes back for all that it cannot do itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
import pytest

from epic_host.fast.compiled import Word, compiled
from epic_host.fast.driver import BatchDriver
from epic_host.fast.frames import EDGE, Departures, departures
from epic_host.fast.node import FastNode
from epic_host.fast.pump import (
    DUE,
    DUE_AT,
    EVENTS,
    FED,
    FEED,
    NOTHING,
    SLICE,
    START,
    STRANGERS,
    TURN,
    WOKEN,
    WORK,
    Kernels,
    Pump,
)
from epic_host.fast.queues import DEPARTURES
from epic_host.fast.udp import FastUdpTransport
from epic_host.fast.wire import ACK, depart
from epic_host.fast.world import Shape, World
from epic_models.reference.group import Edge, Endpoint, GroupParams
from epic_models.reference.interfaces import EdgeFailed
from epic_spec import codec
from epic_spec.errors import EpicError
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import Opcode, Operator, Primitive
from host.fast.batches import Sending, addresses, drain, edge_table, send, udp

_ROOM = 64
_SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM).pack()
# What the node below is told, and what it says: frames that it takes a call; whether it has events after each; when its
# timer is due, in milliseconds (0: never); cells that are left, and those that the window takes at a time; frames that
# it took, calls, whether it has events now, cells that it started, whether it answers each frame, and the generation of
# the departures at its last call.
STEP, TELLS, DUE_MS, LEFT, ROOM, TOOK, CALLS, ATTENTION, STARTED, ANSWERS, GENERATION = range(11)
_SHAPE = Shape("Pumped", {"words": np.int64, "generation": np.int64, "edges": EDGE, "departures": DEPARTURES})
_at = _SHAPE.at


@compiled
def work(address: Word, arena: Word, first: Word, stop: Word, now: float) -> Word:
    w = _at(address)
    w.words[CALLS] += 1
    last = min(stop, first + w.words[STEP])
    w.words[TOOK] += last - first
    w.words[ATTENTION] = w.words[TELLS]
    w.words[GENERATION] = w.generation[0]
    if w.words[ANSWERS]:
        for i in range(first, last):
            depart(w.departures, w.edges, 0, ACK, i, 0, False, 0, 0, 0, False)
    return last


@compiled
def due(address: Word) -> Word:
    w = _at(address)
    return w.words[DUE_MS] * 1e-3 if w.words[DUE_MS] else np.inf


@compiled
def feed(address: Word, limit: Word) -> Word:
    w = _at(address)
    if not w.words[LEFT]:
        return -1
    count = min(limit, w.words[LEFT], w.words[ROOM])
    w.words[LEFT] -= count
    return count


@compiled
def start(address: Word, count: Word, now: float) -> None:
    _at(address).words[STARTED] += count


class Node(FastNode):
    """Takes frames as it is told, and notes what it is asked."""

    def __init__(self, ip: str, peer: str) -> None:
        super().__init__()
        self.edges = edge_table(ip, [peer])
        self.words = np.zeros(11, np.int64)
        self.words[STEP] = 1 << 30
        # Frames that it had taken whenever it was asked for events.
        self.settled: list[int] = []
        self.polls = 0

    @property
    def burst(self) -> int:
        return 1

    def kernels(self, departures: Departures) -> Kernels:
        address = self._world(departures).address
        return Kernels(
            WORK.address(work), address, DUE_AT.address(due), address, FEED.address(feed), START.address(start),
            int(self.words.ctypes.data) + 8 * ATTENTION,
        )  # fmt: skip

    def settle(self) -> None:
        self.settled.append(int(self.words[TOOK]))
        if self.words[ATTENTION]:
            self.words[ATTENTION] = 0
            self._events.append(EdgeFailed(int(self.words[TOOK]), "e", ""))

    def _work(self, arena: int, first: int, stop: int, departures: Departures, now: float) -> int:
        raise AssertionError("not by steps of Python")

    def _make_world(self, departures: World) -> World:
        return _SHAPE.make(
            words=self.words, generation=self.generation, edges=self.edges.rows, departures=departures
        )

    def poll_batch(self, departures: Departures, now: float) -> None:
        self.polls += 1
        self.words[DUE_MS] = 0

    def next_deadline(self) -> float | None:
        return self.words[DUE_MS] * 1e-3 if self.words[DUE_MS] else None


class Bench:
    def __init__(self) -> None:
        self.ip, self.peer_ip = addresses(2)
        self.transport = FastUdpTransport(udp(self.ip, {self.peer_ip: 0}))
        self.peer = FastUdpTransport(udp(self.peer_ip, {self.ip: 0}))
        # One datagram a message, 16 messages a batch.
        self.peer._outbox.limits[0] = 1
        self.node = Node(self.ip, self.peer_ip)
        arrivals = self.transport.arrivals()
        self.pump = Pump(self.node, self.transport, arrivals, departures(_ROOM))
        self.events: list[Any] = []
        self.driver = BatchDriver(self.node, self.transport, self.events.extend)
        self.wake = os.eventfd(0, os.EFD_NONBLOCK)
        self.epoll = self.driver._epoll.fileno()
        self.send(1)
        assert self.pump.run() == STRANGERS
        assert self.pump.run() == NOTHING
        assert self.words[TOOK] == 1
        self.words[[TOOK, CALLS]] = 0
        self.node.settled.clear()

    @property
    def words(self) -> Any:
        return self.node.words

    def send(self, count: int, qpn: int = 100) -> None:
        packets = [
            Packet(Opcode.SEND_ONLY_IMM, self.peer_ip, self.ip, qpn, i, b"word", _SUM) for i in range(count)
        ]
        frames = [Sending(0, 2, codec.encode_datagram(p)) for p in packets]
        send(self.peer, edge_table(self.peer_ip, [self.ip]), frames)

    def close(self) -> None:
        os.close(self.wake)
        self.driver.close()
        self.transport.close()
        self.peer.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    b = Bench()
    yield b
    b.close()


# ------------------------------------------------------------------------------------------------- arrivals


@pytest.mark.parametrize("step", [1, 7, 1 << 30])
def test_all_arrivals_are_worked_on_once_however_far_the_node_goes(bench: Bench, step: int) -> None:
    bench.words[STEP] = step
    before = bench.transport.counters()["rx_frames"]
    bench.send(60)
    assert bench.pump.run() == NOTHING
    assert bench.words[TOOK] == 60
    assert bench.words[CALLS] == sum(-(-n // step) for n in (16, 16, 16, 12))
    assert bench.node.counters()["rx_frames"] == 61
    assert bench.transport.counters()["rx_frames"] == before + 60


def test_what_is_not_admitted_is_counted_by_reason_and_not_worked_on(bench: Bench) -> None:
    bench.send(3, qpn=999)
    other_ip = addresses(1)[0]
    other = FastUdpTransport(udp(other_ip, {bench.ip: 0}))
    packet = Packet(Opcode.SEND_ONLY_IMM, other_ip, bench.ip, 100, 1, b"word", _SUM)
    send(other, edge_table(other_ip, [bench.ip]), [Sending(0, 2, codec.encode_datagram(packet))])
    while bench.pump.run() == STRANGERS:
        pass
    other.close()
    counts = bench.node.counters()
    assert (counts["drop_unknown_qpn"], counts["drop_wrong_port"]) == (3, 1)


def test_what_a_batch_causes_leaves_once_and_is_a_generation_of_its_own(bench: Bench) -> None:
    bench.words[ANSWERS] = 1
    before = int(bench.words[GENERATION])
    bench.send(40)
    assert bench.pump.run() == NOTHING
    assert bench.words[GENERATION] == before + 3
    assert len(drain(bench.peer)) == 40
    assert bench.transport.counters()["tx_frames"] == 40
    assert not bench.pump.departures.count[0]


def test_a_node_that_does_not_go_on_is_an_error_and_no_endless_loop(bench: Bench) -> None:
    bench.words[STEP] = 0
    bench.send(3)
    with pytest.raises(EpicError, match="arrival 0 of 3"):
        bench.pump.run()


def test_events_are_taken_before_the_memory_of_their_frames_is_used_again(bench: Bench) -> None:
    bench.words[TELLS] = 1
    bench.words[STEP] = 10
    bench.send(40)
    assert [bench.pump.run() for _ in range(5)] == [EVENTS] * 5
    # Ten and six of the first batch, then of the second, then the rest.
    assert bench.node.settled == [10, 16, 26, 32, 40]
    assert not bench.pump.pending


def test_a_driver_hands_events_on_and_goes_to_the_end_of_a_batch(bench: Bench) -> None:
    bench.words[TELLS] = 1
    bench.words[STEP] = 5
    bench.send(16)
    bench.driver.step(time.monotonic() + 5)
    assert [e.group for e in bench.events] == [5, 10, 15, 16]


def test_a_socket_that_is_closed_is_an_error(bench: Bench) -> None:
    bench.transport.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        bench.pump.run()


def test_nobody_asks_for_an_icrc_where_the_node_says_so(bench: Bench) -> None:
    packet = Packet(Opcode.SEND_ONLY_IMM, bench.peer_ip, bench.ip, 100, 0, b"word", _SUM)
    spoilt = codec.encode_datagram(packet)[:-1] + b"\0"
    table = edge_table(bench.peer_ip, [bench.ip])
    send(bench.peer, table, [Sending(0, 2, spoilt)])
    bench.pump.run()
    assert bench.node.counters()["drop_icrc"] == 1
    bench.pump._s["trusted"] = 1
    send(bench.peer, table, [Sending(0, 2, spoilt)])
    bench.pump.run()
    assert bench.node.counters()["drop_icrc"] == 1
    assert bench.words[TOOK] == 2


def test_tables_that_are_replaced_are_used(bench: Bench) -> None:
    params = GroupParams(1, 3, 2)
    edge = Edge("late", 0, Endpoint(bench.ip, 777), Endpoint(bench.peer_ip, 200), 0, 0)
    for _ in range(8):
        # The table of edges has room for eight; the next ones make it another.
        edge = Edge("late", 0, Endpoint(bench.ip, edge.local.qpn + 1), edge.peer, 0, 0)
        bench.node.edges.add(edge, params, 0, 0)
    bench.node._tables_changed()
    bench.send(2, qpn=edge.local.qpn)
    bench.pump.run()
    assert bench.node.counters()["drop_unknown_qpn"] == 0
    assert bench.words[TOOK] == 2


# ------------------------------------------------------------------------------------------------- time and others


def test_a_timer_gets_its_turn_in_a_flood(bench: Bench) -> None:
    bench.words[DUE_MS] = 1
    bench.send(60)
    assert bench.pump.run() == DUE
    assert bench.words[TOOK] == 16
    bench.driver.step()
    assert bench.node.polls == 1


def test_a_timer_ends_the_sleep(bench: Bench) -> None:
    begin = time.monotonic()
    bench.words[DUE_MS] = int(begin * 1e3) + 50
    assert bench.pump.run(begin + 5, bench.epoll, bench.wake) == DUE
    assert begin + 0.045 <= time.monotonic() < begin + 4
    bench.words[DUE_MS] = 0
    assert bench.pump.run(time.monotonic() + 0.02, bench.epoll, bench.wake) == DUE


def test_another_thread_gets_its_turn_after_a_batch(bench: Bench) -> None:
    bench.send(60)
    bench.pump.stop()
    assert bench.pump.run() == TURN
    assert bench.words[TOOK] == 16
    assert bench.pump.run() == NOTHING
    assert bench.words[TOOK] == 60


def test_it_never_sleeps_long_once_it_has_worked(bench: Bench) -> None:
    """A signal may have come meanwhile, which nobody looks at here."""
    bench.send(1)
    begin = time.monotonic()
    assert bench.pump.run(begin + 30, bench.epoll, bench.wake) == TURN
    assert SLICE <= time.monotonic() - begin < 10
    assert bench.words[TOOK] == 1


def test_a_nap_ends_it_though_nothing_came(bench: Bench) -> None:
    begin = time.monotonic()
    assert bench.pump.run(begin + 30, bench.epoll, bench.wake, nap=0.01) == NOTHING
    assert 0.01 <= time.monotonic() - begin < 10


def test_a_descriptor_a_datagram_and_a_signal_end_the_sleep(bench: Bench) -> None:
    wake = bench.driver._wake_fd
    bench.driver.wake()
    assert bench.pump.run(time.monotonic() + 30, bench.epoll, wake) == WOKEN
    # Once.
    assert bench.pump.run(time.monotonic() + 0.01, bench.epoll, wake) == DUE
    timer = threading.Timer(0.05, lambda: bench.send(1))
    timer.start()
    assert bench.pump.run(time.monotonic() + 30, bench.epoll, wake) == TURN
    assert bench.words[TOOK] == 1
    timer.join()
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert bench.pump.run(time.monotonic() + 30, bench.epoll, wake) == WOKEN
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung


# ------------------------------------------------------------------------------------------------- supply


def test_the_supply_goes_out_as_the_window_takes_it(bench: Bench) -> None:
    bench.words[[LEFT, ROOM]] = 30, 8
    bench.send(60)
    # Eight, eight, eight and six, a batch each; then it is all gone.
    assert bench.pump.run(feeds=True) == NOTHING
    assert bench.words[STARTED] == 30
    bench.send(1)
    assert bench.pump.run(feeds=True) == FED
    bench.send(1)
    assert bench.pump.run() == NOTHING


def test_it_contributes_no_more_than_departures_have_room_for(bench: Bench) -> None:
    bench.words[[LEFT, ROOM, ANSWERS]] = 100, 200, 1
    bench.send(5)
    assert bench.pump.run(feeds=True) == NOTHING
    assert bench.words[STARTED] == _ROOM - 5


def test_processor_time_is_added_up_where_somebody_wants_to_know(bench: Bench) -> None:
    bench.transport.clock = spent = dict.fromkeys(("receive", "send", "kernels"), 0.0)
    bench.send(60)
    bench.pump.run()
    assert spent["receive"] > 0
    assert spent["kernels"] > 0
    assert spent["send"] == 0


def test_without_a_bound_it_would_wait_for_ever(bench: Bench) -> None:
    timer = threading.Timer(0.05, bench.driver.wake)
    timer.start()
    assert bench.pump.run(inf, bench.epoll, bench.driver._wake_fd) == WOKEN
    timer.join()
