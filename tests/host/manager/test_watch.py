"""Watch streams: order, bounds, readers that are too slow, and a manager that is restarted while they are open."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from epic_host.manager.effects import Event, Prepare
from epic_host.manager.errors import ManagerUnreachableError, RefusedError
from epic_host.manager.watch import ALL, Watcher, Watchers
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.proto.epic.v1 import manager_pb2_grpc
from host.manager.served import Engines, Running, config_of, managed, spec


def event(number: int, group: str = "g", text: str = "") -> Event:
    return Prepare(group, number, "reason", text)


def epochs(watcher: Watcher, count: int) -> list[int]:
    async def read() -> list[int]:
        return [getattr(await asyncio.wait_for(watcher.next(), 5), "epoch", -1) for _ in range(count)]

    return asyncio.run(read())


# ---------------------------------------------------------------------------------------------- in memory


def test_events_come_in_order_to_those_who_watch_the_group_or_all() -> None:
    watchers = Watchers(10, 10, 10)
    mine, other, every = (
        watchers.open(group, "c", lambda: [event(0)], bounded=True) for group in ("g", "h", ALL)
    )
    for number in (1, 2):
        watchers.publish(event(number))
    assert epochs(mine, 3) == epochs(every, 3) == [0, 1, 2]
    assert epochs(other, 1) == [0]
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(other.next(), 0.05))


def test_a_slow_reader_is_cut_off_and_nobody_else_is() -> None:
    watchers = Watchers(10, 10, 3)
    slow, quick = (watchers.open("g", "c", list, bounded=True) for _ in range(2))
    for number in range(4):
        watchers.publish(event(number))
        assert epochs(quick, 1) == [number]
    assert (slow.cut.is_set(), quick.cut.is_set(), watchers.cut_off) == (True, False, 1)
    with pytest.raises(RefusedError, match="more than 3 events unread") as caught:
        epochs(slow, 1)
    assert caught.value.reason == "slow"


def test_a_manager_that_stops_says_so_to_all() -> None:
    watchers = Watchers(10, 10, 3)
    streams = [watchers.open(group, "c", list, bounded=True) for group in ("g", "h", ALL)]
    watchers.end()
    for stream in streams:
        with pytest.raises(RefusedError, match="is shutting down") as caught:
            epochs(stream, 1)
        assert caught.value.reason == "stopping"


def test_what_is_true_at_the_start_does_not_count_as_slowness() -> None:
    watchers = Watchers(10, 10, 2)
    watcher = watchers.open("g", "c", lambda: [event(n) for n in range(50)], bounded=True)
    for number in (50, 51):
        watchers.publish(event(number))
    assert epochs(watcher, 52) == list(range(52))


def test_streams_are_bounded_altogether_and_each_clients_too() -> None:
    watchers = Watchers(limit=3, client_limit=2, bound=1)
    first = watchers.open("g", "a", list, bounded=True)
    watchers.open("h", "a", list, bounded=True)
    with pytest.raises(RefusedError, match="a has 2 open, expected at most that many"):
        watchers.open("g", "a", list, bounded=True)
    watchers.open("g", "b", list, bounded=True)
    with pytest.raises(RefusedError, match="3 are open, expected at most 3"):
        watchers.open("g", "c", list, bounded=True)
    watchers.close(first)
    watchers.open("g", "a", list, bounded=True)
    assert len(watchers) == 3


def test_one_that_was_refused_leaves_nothing() -> None:
    watchers = Watchers(10, 10, 10)

    def fails() -> list[Event]:
        raise RefusedError("who", "nobody")

    with pytest.raises(RefusedError):
        watchers.open("g", "c", fails, bounded=True)
    assert len(watchers) == 0


# ---------------------------------------------------------------------------------------------- over gRPC


@pytest.fixture
def config(tmp_path: Path) -> Any:
    return config_of(tmp_path, limits={"watch_events": 20, "watches": 30})


def member(running: Running, lease: float = 30.0) -> dict[str, Any]:
    """A group of one rank that has joined: what its watch is called with."""
    with running.client() as client:
        made = client.create_group(spec=spec("h0", lease=lease))
        joined = client.join_group(
            group=made.group, rank=0, join_token=made.join_token, incarnation="process"
        )
    return {"group": made.group, "rank": 0, "token": joined.token}


def flood(running: Running, group: str, count: int, size: int = 20_000) -> None:
    """Many large events, in single steps, so that those who read get their turn."""
    for number in range(count):
        running.do(lambda now, n=number: running.server.runner.watchers.publish(event(n, group, "x" * size)))


def test_a_reader_that_does_not_read_is_cut_off_with_a_reason(config: Any) -> None:
    with managed(config) as running, grpc.insecure_channel(config.listen[0]) as channel:
        who = member(running)
        stub: Any = manager_pb2_grpc.ManagerStub(channel)  # type: ignore[no-untyped-call]
        stream = stub.Watch(pb.WatchRequest(**who), timeout=30)
        next(stream)
        flood(running, who["group"], 400)
        end = time.monotonic() + 10
        while running.do(lambda now: len(running.server.runner.watchers)) and time.monotonic() < end:
            time.sleep(0.01)
        assert running.do(lambda now: len(running.server.runner.watchers)) == 0
        assert running.server.runner.watchers.cut_off == 1
        seen: list[int] = []
        with pytest.raises(grpc.RpcError) as caught:
            seen.extend(received.prepare.epoch for received in stream)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(error.trailing_metadata())["epic-reason"] == "slow"
        assert seen == list(range(len(seen)))
        assert len(seen) < 400


def test_a_reader_that_reads_gets_all(config: Any) -> None:
    with managed(config) as running, running.client() as client:
        who = member(running)
        stream = client.watch(**who)
        next(stream)
        seen: list[int] = []
        for batch in range(20):
            flood(running, who["group"], 10)
            while len(seen) < 10 * (batch + 1):
                received = next(stream)
                if received.WhichOneof("what") == "prepare" and received.prepare.text:
                    seen.append(received.prepare.epoch)
        stream.close()
        assert seen == list(range(10)) * 20
        assert stream.connections == 1


def test_our_client_that_was_cut_off_watches_again(config: Any) -> None:
    with managed(config) as running, running.client() as client:
        who = member(running)
        stream = client.watch(**who)
        next(stream)
        flood(running, who["group"], 400)
        while stream.connections == 1:
            next(stream)
        # What is true now comes first.
        assert stream.connections == 2
        stream.close()


def test_watches_beyond_the_bound_are_refused(config: Any) -> None:
    with managed(config) as running, running.client() as client:
        who = member(running)
        streams = [client.watch(**who) for _ in range(30)]
        for stream in streams:
            next(stream)
        with grpc.insecure_channel(config.listen[0]) as channel:
            stub: Any = manager_pb2_grpc.ManagerStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.RpcError) as caught:
                next(stub.Watch(pb.WatchRequest(**who), timeout=10))
        error: Any = caught.value
        assert dict(error.trailing_metadata())["epic-reason"] == "rate"
        for stream in streams:
            stream.close()


def _granted(stream: Iterator[pb.WatchEvent]) -> pb.WatchEvent:
    return next(e for e in stream if e.WhichOneof("what") == "granted")


def test_clients_watch_on_over_a_restart_of_the_manager(config: Any) -> None:
    engines = Engines()
    with managed(config, engines) as running:
        who = member(running)
        client = running.client(patient=True)
        stream = client.watch(**who, patience=20.0)
        before = _granted(stream)
    with managed(config, engines) as again:
        after = _granted(stream)
        assert after.granted == before.granted
        assert stream.connections > 1
        beat = pb.MemberBeat(group=who["group"], rank=0, token=who["token"], epoch=1)
        assert list(client.heartbeat(members=[beat]).notices) == []
        with again.admin() as admin:
            admin.destroy_group(group=who["group"])
        assert [e.WhichOneof("what") for e in stream if e.WhichOneof("what") != "decision"] == ["ended"]
    client.close()


def test_without_a_manager_a_watch_ends_after_its_patience(config: Any) -> None:
    with managed(config) as running:
        who = member(running)
        client = running.client()
        stream = client.watch(**who, patience=0.3)
        next(stream)
    with pytest.raises(ManagerUnreachableError, match=r"no connection for 0.3 s"):
        list(stream)
    client.close()


def test_a_patient_call_waits_for_the_manager(config: Any) -> None:
    with managed(config) as running:
        client = running.client(patient=True, timeout=20.0)
        client.list_groups()
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(client.list_groups()))
    thread.start()
    time.sleep(0.1)
    assert answers == []
    with managed(config):
        thread.join(20)
    assert len(answers) == 1
    client.close()
