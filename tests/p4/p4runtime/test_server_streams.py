"""Streams of the server: arbitration between clients, what is refused, many clients, and the end of it all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4r

from epic_p4.p4runtime.server import P4RuntimeServer
from epic_p4.p4runtime.status import Code
from epic_spec.errors import ConfigError
from p4.p4runtime.p4rt_helpers import INSERT, RawClient, device, host, refusal, serve, update


@pytest.fixture
def server() -> Iterator[P4RuntimeServer]:
    """A server that runs small.p4."""
    with serve(device(), most_clients=3) as running:
        yield running


def test_two_clients_hand_the_switch_over(server: P4RuntimeServer) -> None:
    with RawClient(server.address) as old, RawClient(server.address) as new:
        assert old.arbitrate(1) == Code.OK
        assert new.arbitrate(2) == Code.OK
        assert old.hear().arbitration.status.code == Code.ALREADY_EXISTS
        with pytest.raises(grpc.RpcError) as error:
            old.write(update(INSERT, host(1)))
        assert refusal(error)[0] is grpc.StatusCode.PERMISSION_DENIED
        new.write(update(INSERT, host(1)))
        new.hang_up()
        assert old.hear().arbitration.status.code == Code.NOT_FOUND
        with pytest.raises(grpc.RpcError) as error:
            new.write(update(INSERT, host(2)))
        assert refusal(error)[0] is grpc.StatusCode.PERMISSION_DENIED
        assert old.arbitrate(2) == Code.OK
        old.write(update(INSERT, host(2)))


def test_a_client_that_breaks_off_is_no_longer_primary(server: P4RuntimeServer) -> None:
    with RawClient(server.address) as watcher:
        lost = RawClient(server.address)
        assert lost.arbitrate(9) == Code.OK
        assert watcher.arbitrate(1) == Code.ALREADY_EXISTS
        lost.stream.cancel()  # type: ignore[attr-defined]
        assert watcher.hear().arbitration.status.code == Code.NOT_FOUND
        lost.close()


def test_reading_needs_no_stream_and_writing_does(server: P4RuntimeServer) -> None:
    with RawClient(server.address) as client:
        assert client.read() == []
        with pytest.raises(grpc.RpcError) as error:
            client.write(update(INSERT, host(1)), election=1)
        assert refusal(error) == (
            grpc.StatusCode.PERMISSION_DENIED,
            "election id 1: there is no primary client",
        )


@pytest.mark.parametrize(
    ("election", "device_id", "code"),
    [(1, 1, grpc.StatusCode.INVALID_ARGUMENT), (2, 9, grpc.StatusCode.NOT_FOUND)],
)
def test_a_bad_arbitration_ends_the_stream(
    server: P4RuntimeServer, election: int, device_id: int, code: grpc.StatusCode
) -> None:
    with RawClient(server.address) as first, RawClient(server.address) as second:
        first.arbitrate(1)
        with pytest.raises(grpc.RpcError) as error:
            second.arbitrate(election, device_id)
        assert refusal(error)[0] is code
        first.write(update(INSERT, host(1)))


def test_stream_messages_that_are_not_supported_are_answered_by_name(server: P4RuntimeServer) -> None:
    with RawClient(server.address) as client:
        client.arbitrate(1)
        packet = p4r.PacketOut(payload=b"x")
        client.say(p4r.StreamMessageRequest(packet=packet))
        client.say(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=3)))
        client.say(p4r.StreamMessageRequest())
        answers = [client.hear().error for _ in range(3)]
        assert [a.canonical_code for a in answers] == [12, 12, 3]
        assert answers[0].packet_out.packet_out == packet
        assert "packet I/O is not supported" in answers[0].message
        assert answers[1].WhichOneof("details") == "digest_list_ack"
        client.write(update(INSERT, host(1)))


def test_streams_are_limited_and_calls_go_on_beside_them(server: P4RuntimeServer) -> None:
    clients = [RawClient(server.address) for _ in range(4)]
    try:
        for number, client in enumerate(clients[:3], 1):
            client.arbitrate(number)
        with pytest.raises(grpc.RpcError) as error:
            clients[3].arbitrate(4)
        assert refusal(error)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert clients[3].read() == []
        clients[0].hang_up()
        assert [r.arbitration.status.code for r in clients[0].stream] != []
        last = RawClient(server.address)
        assert last.arbitrate(5) == Code.OK
        last.close()
    finally:
        for client in clients:
            client.close()


def test_stopping_ends_open_streams_and_frees_the_port() -> None:
    server = serve(device())
    server.start()
    with RawClient(server.address) as client:
        client.arbitrate(1)
        heard: list[object] = []

        def listen() -> None:
            try:
                heard.extend(client.stream)
            except grpc.RpcError as error:
                heard.append(error)

        listener = threading.Thread(target=listen)
        listener.start()
        begin = time.monotonic()
        server.stop(grace=0.5)
        listener.join(5)
        assert not listener.is_alive()
        assert time.monotonic() - begin < 5
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", server.port))
    deadline = time.monotonic() + 5
    while left := [t for t in threading.enumerate() if t.name.startswith("p4runtime-stream")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_stopping_twice_is_fine() -> None:
    server = serve(device())
    server.start()
    server.stop()
    server.stop()


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "nowhere.invalid:1"])
def test_an_address_that_cannot_be_used_is_refused_in_one_line(server: P4RuntimeServer, address: str) -> None:
    with pytest.raises(
        ConfigError, match=r"P4Runtime address '.*': cannot listen there, expected a free HOST:PORT"
    ):
        P4RuntimeServer(device(), address.format(port=server.port))
