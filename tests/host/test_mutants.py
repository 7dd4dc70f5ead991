"""Planted faults: each must make the test that guards against it fail."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from epic_host import missing
from epic_host.runtime import Runtime
from epic_host.sleeper import Sleeper
from epic_host.transport import open_transport
from epic_host.transport.ports import PortMap
from epic_host.transport.udp import UdpTransport
from epic_spec.errors import EpicError
from epic_spec.pcap import PcapWriter
from host import test_communicator, test_control, test_transport
from host.worlds import World, single

MakeWorld = Callable[..., World]


def must_fail(check: Callable[..., Any], *arguments: Any) -> None:
    """A check that passes, planted fault or not, checks nothing."""
    with pytest.raises((AssertionError, EpicError)):
        check(*arguments)


def test_a_loop_that_never_runs_its_timers(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_models.reference.mode3.Mode3Agent._timer_deadline", lambda self: None)
    monkeypatch.setattr("epic_models.reference.mode3.Mode3Agent._fast_retransmissions", lambda self, now: [])

    def quicker(**options: Any) -> World:
        return world(**options | {"deadline_us": 1_000_000})

    must_fail(
        test_communicator.test_results_are_right_while_every_node_loses_doubles_swaps_and_spoils_frames,
        quicker,
        3,
    )


def test_a_thread_that_does_not_wake_for_the_timers_of_what_another_started(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = test_communicator.test_what_nobody_waits_for_is_repeated_all_the_same
    check(world)
    monkeypatch.setattr(Sleeper, "wake", lambda self: None)
    must_fail(check, world)
    monkeypatch.undo()


def test_collectives_that_overtake_each_other(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stack(deque[Any]):
        def append(self, item: Any) -> None:
            self.appendleft(item)

    init = Runtime.__init__

    def swapped(self: Runtime, *arguments: Any) -> None:
        init(self, *arguments)
        # One rank only: where all swap alike nobody disagrees.
        if arguments[-1] == 1:
            self._pulling, self._active = Stack(), Stack()

    monkeypatch.setattr(Runtime, "__init__", swapped)
    must_fail(
        test_communicator.test_many_collectives_in_flight_end_in_call_order_with_their_own_results, world
    )


def test_a_verdict_from_the_first_answer_only(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = missing.ask
    answers: dict[int, Any] = {}

    def once(plan: Any, cell: int, timeout: float) -> Any:
        """Each inquiry is a thread."""
        inquiry = threading.get_ident()
        if inquiry not in answers:
            answers[inquiry] = ask(plan, cell, timeout)
        return answers[inquiry]

    monkeypatch.setattr(missing, "ask", once)
    must_fail(test_communicator.test_a_rank_that_came_late_is_not_named_beside_the_one_that_never_came, world)


def test_a_verdict_that_does_not_wait_for_the_deadline(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epic_host.stall._VERDICT", 0.5)
    must_fail(test_communicator.test_a_rank_that_comes_just_in_time_is_waited_for, world)


def test_an_abort_that_lets_results_through(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaky(self: Runtime, error: EpicError) -> None:
        for started in self._active:
            started.handle._end(error)

    monkeypatch.setattr(Runtime, "_fail", leaky)
    must_fail(test_communicator.test_after_abort_no_array_is_written, world)


def test_a_transport_that_takes_datagrams_from_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Anybody(PortMap):
        def get(self, address: str) -> int | None:
            return super().get(address) or 0

    opened = []

    def opener(config: dict[str, Any]) -> Any:
        transport = open_transport(config)
        assert isinstance(transport, UdpTransport)
        transport._ports = Anybody(config["ports"])
        opened.append(transport)
        return transport

    must_fail(test_transport.test_a_datagram_from_an_unknown_address_is_counted_and_dropped, opener)
    for transport in opened:
        transport.close()


def test_a_transport_that_forgets_the_congestion_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_host.transport.udp.ECN_ECT0", 3)
    opened = []

    def opener(config: dict[str, Any]) -> Any:
        opened.append(open_transport(config))
        return opened[-1]

    monkeypatch.setattr(
        UdpTransport,
        "_transmit",
        lambda self, link, frame: self._socket.sendto(frame, (link[0], 4791)),
    )
    must_fail(test_transport.test_the_congestion_mark_travels_in_the_ip_header, opener, 1)
    for transport in opened:
        transport.close()


def test_a_capture_that_keeps_frames_to_itself(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def opener(config: dict[str, Any]) -> Any:
        opened.append(open_transport(config))
        monkeypatch.setattr(PcapWriter, "flush", lambda self: None)
        return opened[-1]

    check = test_transport.test_a_capture_shows_whole_frames_both_ways_while_it_is_being_written
    must_fail(check, opener, tmp_path)
    monkeypatch.undo()
    for transport in opened:
        transport.close()


def test_a_request_that_runs_after_its_deadline(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tree=single(2))
    switch = made.switches["s0"]
    switch.call(lambda: switch.remove(1), 5.0)
    monkeypatch.setattr(Future, "cancel", lambda self: True)
    must_fail(test_control.test_a_call_ends_at_its_deadline_when_the_loop_is_stuck_and_is_not_run_later, made)
