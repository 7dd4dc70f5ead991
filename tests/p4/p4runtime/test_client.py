"""The driver on finsy against the server: what it writes and reads, and how it fails."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from google.protobuf import text_format

from epic_p4.control import BackendError, MulticastGroup, RegisterFill
from epic_p4.p4runtime.client import P4RuntimeBackend, PipelineConfig
from epic_p4.p4runtime.device import Device
from epic_p4.p4runtime.server import P4RuntimeServer
from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.runtime.match import Exact, Lpm, Range, TableEntry, Ternary
from p4.p4runtime.p4rt_helpers import (
    HOSTS,
    INSERT,
    RawClient,
    device,
    frame,
    group,
    host,
    serve,
    small_document,
    small_info,
    table_entry,
    update,
)

ENTRY = TableEntry("SmallIngress.hosts", {"dst": Exact(2)}, "SmallIngress.forward", {"port": 5})
ROUTE = TableEntry(
    "SmallIngress.routes", {"dst": Lpm(0x0A000000, 8)}, "SmallIngress.route", {"next": 2, "port": 3}
)
CLASS = TableEntry(
    "SmallIngress.classes",
    {"src": Ternary(1, 0xF), "type": Exact(0x1234), "port": Range(1, 4)},
    "SmallIngress.classify",
    {"value": 42},
    7,
)


@pytest.fixture
def server() -> Iterator[P4RuntimeServer]:
    """A server that runs small.p4."""
    with serve(device()) as running:
        yield running


@pytest.fixture
def backend(server: P4RuntimeServer) -> Iterator[P4RuntimeBackend]:
    """The driver, connected."""
    with P4RuntimeBackend(server.address) as connected:
        yield connected


def test_a_stage_is_written_works_and_is_erased(server: P4RuntimeServer, backend: P4RuntimeBackend) -> None:
    stage = (ENTRY, ROUTE, CLASS, MulticastGroup(7, ((1, 10), (2, 11))))
    backend.write(stage)
    assert server.process(3, frame(2)) == [(5, frame(2))]
    flood = frame(5, 0x88B5)
    assert server.process(3, flood) == [(1, flood), (2, flood)]
    with RawClient(server.address) as reader:
        assert len(reader.read(table_entry(0))) == 3 + 2
    backend.erase(stage)
    backend.erase(stage)
    assert server.process(3, frame(2)) == []
    with RawClient(server.address) as reader:
        assert len(reader.read(table_entry(0), group(0))) == 2


def test_registers_are_written_and_read_and_counters_read(
    server: P4RuntimeServer, backend: P4RuntimeBackend
) -> None:
    backend.write((RegisterFill("SmallIngress.last_class", 2, (7, 8, 9)),))
    assert backend.register("SmallIngress.last_class", 1, 4) == [0, 7, 8, 9]
    for _ in range(3):
        server.process(4, frame(2))
    assert list(backend.counter("SmallIngress.arrivals", 16)) == [3 * (i == 4) for i in range(16)]


def test_wiping_removes_what_another_client_left(server: P4RuntimeServer, backend: P4RuntimeBackend) -> None:
    backend.write((ENTRY, ROUTE, MulticastGroup(7, ((1, 1),)), MulticastGroup(0x8000, ((1, 0),))))
    backend.wipe(["SmallIngress.hosts"], range(1, 0x8000))
    with RawClient(server.address) as reader:
        left = reader.read(table_entry(HOSTS), table_entry(0x02010002), group(0))
    assert [e.WhichOneof("entity") for e in left] == ["table_entry", "packet_replication_engine_entry"]


def test_a_pipeline_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "info.txt").write_text(text_format.MessageToString(small_info()))
    (tmp_path / "small.bin").write_bytes(small_document())
    config = PipelineConfig.from_files(tmp_path / "info.txt", tmp_path / "small.bin")
    with serve(device(started=False)) as server:
        with P4RuntimeBackend(server.address, pipeline=config) as first:
            first.write((ENTRY,))
        # The cookie says that it runs already, so the state stays.
        with P4RuntimeBackend(server.address, pipeline=config):
            assert server.process(3, frame(2)) == [(5, frame(2))]


def test_files_that_are_no_pipeline_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        BackendError, match=r"nothing\.txt: No such file or directory, expected a readable file"
    ):
        PipelineConfig.from_files(tmp_path / "nothing.txt", tmp_path / "x")
    (tmp_path / "bad.txt").write_text("tables {")
    with pytest.raises(BackendError, match=r"bad\.txt: not a P4Info in text form"):
        PipelineConfig.from_files(tmp_path / "bad.txt", tmp_path / "x")


def test_a_switch_without_a_pipeline_is_refused() -> None:
    with serve(device(started=False)) as server, pytest.raises(BackendError, match="it runs no pipeline"):
        P4RuntimeBackend(server.address)


def test_a_pipeline_that_the_switch_refuses_is_one_line() -> None:
    with (
        serve(device(started=False)) as server,
        pytest.raises(BackendError, match=r"connect: INVALID_ARGUMENT: config\.p4_device_config: not JSON"),
    ):
        P4RuntimeBackend(server.address, pipeline=PipelineConfig(small_info(), b"\x7f"))


def test_a_backup_is_refused_and_leaves_the_primary_alone(server: P4RuntimeServer) -> None:
    with RawClient(server.address) as primary:
        primary.arbitrate(50)
        with pytest.raises(BackendError, match=r"another client is primary \(election id 50\)"):
            P4RuntimeBackend(server.address, election_id=10)
        primary.write(update(INSERT, host(1)))


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ((ENTRY, ENTRY), "insert an entry of table SmallIngress.hosts and 1 more: an entry of table"),
        ((ENTRY, ENTRY), "ALREADY_EXISTS"),
        (
            (MulticastGroup(70000, ((1, 1),)),),
            "multicast group 70000: INVALID_ARGUMENT: multicast group 70000",
        ),
    ],
)
def test_a_refused_update_is_named_with_its_code(
    server: P4RuntimeServer, backend: P4RuntimeBackend, stage: tuple[TableEntry, ...], message: str
) -> None:
    with pytest.raises(BackendError) as error:
        backend.write(stage)
    assert str(error.value).startswith(f"switch {server.address}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_table_is_refused_before_it_is_sent(backend: P4RuntimeBackend) -> None:
    with pytest.raises(Exception, match="table 'nothing': not in the program, expected one of SmallIngress"):
        backend.write((TableEntry("nothing", {}, "x"),))


def test_no_switch_at_all_is_an_error_in_time() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    begin = time.monotonic()
    with pytest.raises(BackendError, match=rf"switch 127\.0\.0\.1:{port}: connect: UNAVAILABLE"):
        P4RuntimeBackend(f"127.0.0.1:{port}", deadline=5)
    assert time.monotonic() - begin < 5


def test_a_switch_that_accepts_and_says_nothing_is_an_error_in_time() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(BackendError, match=r"connect: no answer within 1 s"):
            P4RuntimeBackend(address, deadline=1)
        assert time.monotonic() - begin < 5


def test_a_switch_that_dies_is_an_error_and_closing_still_works() -> None:
    server = serve(device())
    server.start()
    backend = P4RuntimeBackend(server.address, deadline=5)
    server.stop(grace=0)
    with pytest.raises(BackendError) as error:
        backend.write((ENTRY,))
    assert "\n" not in str(error.value)
    backend.close()
    with pytest.raises(BackendError, match="the connection is closed"):
        backend.counter("SmallIngress.arrivals", 16)


def test_no_thread_is_left_behind(server: P4RuntimeServer) -> None:
    with P4RuntimeBackend(server.address):
        pass
    assert not [t for t in threading.enumerate() if t.name.startswith("p4runtime-client")]


def test_registers_can_come_another_way(server: P4RuntimeServer) -> None:
    class Elsewhere:
        def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
            return [len(name)] * count

    with P4RuntimeBackend(server.address, registers=Elsewhere()) as backend:
        assert backend.register("abc", 0, 2) == [3, 3]


def test_a_target_that_cannot_read_registers_says_so(
    backend: P4RuntimeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As BMv2 does: the whole call fails, without details for its parts."""

    def refuse(self: Device, request: object) -> NoReturn:
        raise Refusal(Code.UNIMPLEMENTED, "Register reads are not supported yet")

    monkeypatch.setattr(Device, "read", refuse)
    with pytest.raises(
        BackendError, match=r"read register SmallIngress\.last_class: UNIMPLEMENTED: Register reads"
    ):
        backend.register("SmallIngress.last_class", 0, 1)
