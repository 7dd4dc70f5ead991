"""Setting and getting the pipeline: each action, what a device config is, and what happens to the state."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4i, p4r

from epic_p4.p4runtime.server import P4RuntimeServer
from p4.p4runtime.p4rt_helpers import (
    HOSTS,
    INSERT,
    RawClient,
    device,
    frame,
    host,
    refusal,
    serve,
    small_document,
    small_info,
    table_entry,
    update,
)

KIND = p4r.SetForwardingPipelineConfigRequest
VERIFY, SAVE, VERIFY_AND_COMMIT = KIND.VERIFY, KIND.VERIFY_AND_SAVE, KIND.VERIFY_AND_COMMIT
COMMIT, RECONCILE = KIND.COMMIT, KIND.RECONCILE_AND_COMMIT


@pytest.fixture
def server() -> Iterator[P4RuntimeServer]:
    """A server without a pipeline."""
    with serve(device(started=False)) as running:
        yield running


@pytest.fixture
def client(server: P4RuntimeServer) -> Iterator[RawClient]:
    """Its primary client."""
    with RawClient(server.address) as connected:
        connected.arbitrate(1)
        yield connected


def config(
    cookie: int | None = None, info: p4i.P4Info | None = None, document: bytes | None = None
) -> p4r.ForwardingPipelineConfig:
    """small.p4's configuration, or a changed one."""
    message = p4r.ForwardingPipelineConfig(
        p4info=small_info() if info is None else info,
        p4_device_config=small_document() if document is None else document,
    )
    if cookie is not None:
        message.cookie.cookie = cookie
    return message


def changed(**fields: object) -> bytes:
    """The document of small.p4 with some keys changed."""
    return json.dumps({**json.loads(small_document()), **fields}).encode()


def test_without_a_pipeline_nothing_is_forwarded_written_or_read(
    server: P4RuntimeServer, client: RawClient
) -> None:
    assert server.process(1, frame(2)) == []
    for call in (lambda: client.write(update(INSERT, host(2))), lambda: client.read(table_entry(0))):
        with pytest.raises(grpc.RpcError) as error:
            call()
        assert refusal(error)[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert not client.get_pipeline().HasField("config")


def test_a_pipeline_is_loaded_and_read_back_as_it_was_sent(
    server: P4RuntimeServer, client: RawClient
) -> None:
    sent = config(cookie=42)
    client.set_pipeline(VERIFY_AND_COMMIT, sent)
    assert client.get_pipeline().config == sent
    get = p4r.GetForwardingPipelineConfigRequest
    for kind, fields in (
        (get.COOKIE_ONLY, {"cookie"}),
        (get.P4INFO_AND_COOKIE, {"cookie", "p4info"}),
        (get.DEVICE_CONFIG_AND_COOKIE, {"cookie", "p4_device_config"}),
    ):
        assert {field.name for field, _ in client.get_pipeline(kind).config.ListFields()} == fields
    client.write(update(INSERT, host(2, 3)))
    assert server.process(1, frame(2)) == [(3, frame(2))]


def test_committing_clears_the_forwarding_state(server: P4RuntimeServer, client: RawClient) -> None:
    client.set_pipeline(VERIFY_AND_COMMIT, config())
    client.write(update(INSERT, host(2, 3)))
    client.set_pipeline(VERIFY_AND_COMMIT, config())
    assert client.read(table_entry(HOSTS)) == []
    assert server.process(1, frame(2)) == []


def test_verifying_changes_nothing(client: RawClient) -> None:
    client.set_pipeline(VERIFY, config())
    assert not client.get_pipeline().HasField("config")


def test_a_saved_pipeline_takes_writes_and_runs_when_it_is_committed(
    server: P4RuntimeServer, client: RawClient
) -> None:
    client.set_pipeline(VERIFY_AND_COMMIT, config(cookie=1))
    client.write(update(INSERT, host(2, 3)))
    bigger = changed(defines={"HOSTS": "8"})
    info = p4i.P4Info()
    info.CopyFrom(small_info())
    next(t for t in info.tables if t.preamble.id == HOSTS).size = 8
    client.set_pipeline(SAVE, config(cookie=2, info=info, document=bigger))
    assert client.read(table_entry(HOSTS)) == []
    client.write(*(update(INSERT, host(mac, 7)) for mac in range(1, 9)))
    assert server.process(1, frame(2)) == [(3, frame(2))]
    assert client.get_pipeline().config.cookie.cookie == 1
    client.set_pipeline(COMMIT, None)
    assert server.process(1, frame(2)) == [(7, frame(2))]
    assert client.get_pipeline().config.cookie.cookie == 2
    with pytest.raises(grpc.RpcError) as error:
        client.set_pipeline(COMMIT, None)
    assert refusal(error)[0] is grpc.StatusCode.NOT_FOUND


def test_reconciling_keeps_the_state_of_the_same_program_only(
    server: P4RuntimeServer, client: RawClient
) -> None:
    client.set_pipeline(VERIFY_AND_COMMIT, config(cookie=1))
    client.write(update(INSERT, host(2, 3)))
    client.set_pipeline(RECONCILE, config(cookie=2))
    assert server.process(1, frame(2)) == [(3, frame(2))]
    assert client.get_pipeline().config.cookie.cookie == 2
    with pytest.raises(grpc.RpcError) as error:
        client.set_pipeline(RECONCILE, config(document=changed(defines={"X": "1"})))
    assert refusal(error) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "RECONCILE_AND_COMMIT: the program differs, and state cannot be kept for another one",
    )


def broken_sources() -> bytes:
    """small.p4 with an unknown name in line 3 of its headers."""
    files = json.loads(small_document())["files"]
    headers = files["small_headers.p4"].replace("bit<48> src;", "missing_t src;")
    return changed(files={**files, "small_headers.p4": headers})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"\x7fELF", "config.p4_device_config: not JSON"),
        (b"{}", "format None, expected a JSON document of format 'epic-p4-sources'"),
        (b'{"program": "bmv2"}', "format None, expected"),
        (changed(extra=1), "key 'extra': unknown"),
        (changed(main="other.p4"), "main 'other.p4': expected one of small.p4, small_headers.p4"),
        (changed(files={"../x.p4": ""}), "name '../x.p4': expected a path below"),
        (changed(files={"/etc/x.p4": ""}), "name '/etc/x.p4': expected a path below"),
        (changed(defines={"HOSTS": 5}), "defines: expected texts by name"),
        (broken_sources(), "config.p4_device_config: small_headers.p4:3:5: "),
    ],
)
def test_a_device_config_that_cannot_be_realized_is_refused(
    client: RawClient, document: bytes, message: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.set_pipeline(VERIFY_AND_COMMIT, config(document=document))
    code, text = refusal(error)
    assert (code, message in text, "\n" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True, False), text
    assert not client.get_pipeline().HasField("config")


def test_a_p4info_of_another_program_is_refused_by_its_first_difference(client: RawClient) -> None:
    info = p4i.P4Info()
    info.CopyFrom(small_info())
    next(a for a in info.actions if a.preamble.id == 0x01010002).params[0].bitwidth = 8
    with pytest.raises(grpc.RpcError) as error:
        client.set_pipeline(VERIFY_AND_COMMIT, config(info=info))
    code, text = refusal(error)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("config.p4info is not that of the program: action SmallIngress.forward: params is")
    del info.tables[:]
    with pytest.raises(grpc.RpcError, match=r"table SmallIngress\.hosts \(id 0x2010001\) is missing"):
        client.set_pipeline(VERIFY_AND_COMMIT, config(info=info))


def test_requests_that_say_too_little_or_too_much(client: RawClient) -> None:
    for action, given, part in (
        (VERIFY, None, "config: missing"),
        (0, config(), "action 0: unknown"),
        (COMMIT, config(), "config: given, expected none"),
        (RECONCILE, config(), "no configuration is running"),
        (VERIFY, p4r.ForwardingPipelineConfig(p4_device_config=small_document()), "config.p4info: missing"),
    ):
        with pytest.raises(grpc.RpcError) as error:
            client.set_pipeline(action, given)
        code, text = refusal(error)
        assert (code, part in text) == (grpc.StatusCode.INVALID_ARGUMENT, True), text


def test_only_the_primary_sets_the_pipeline_and_only_of_this_device(client: RawClient) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.set_pipeline(VERIFY_AND_COMMIT, config(), election=0)
    assert refusal(error)[0] is grpc.StatusCode.PERMISSION_DENIED
    for call in (
        lambda: client.stub.GetForwardingPipelineConfig(
            p4r.GetForwardingPipelineConfigRequest(device_id=9), timeout=5
        ),
        lambda: list(client.stub.Read(p4r.ReadRequest(device_id=9), timeout=5)),
        lambda: client.stub.Write(p4r.WriteRequest(device_id=9), timeout=5),
    ):
        with pytest.raises(grpc.RpcError) as error:
            call()
        assert refusal(error)[0] is grpc.StatusCode.NOT_FOUND


def test_the_version_of_p4runtime(client: RawClient) -> None:
    answer = client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=5)
    assert answer.p4runtime_api_version == "1.4.1"
