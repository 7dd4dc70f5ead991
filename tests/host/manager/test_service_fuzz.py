"""Fuzzed input: a method called with whatever bytes or values answers with a code and a word, and nothing changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_host.proto.epic.v1 import manager_pb2 as pb
from host.manager.served import Running, config_of, managed, spec

SERVICE = pb.DESCRIPTOR.services_by_name["Manager"]
METHODS = sorted(SERVICE.methods_by_name)
WORDS = {
    "INVALID_ARGUMENT": {"invalid"},
    "ALREADY_EXISTS": {"exists"},
    "NOT_FOUND": {"not_found"},
    "PERMISSION_DENIED": {"not_yours"},
    "UNAUTHENTICATED": {"who"},
    "RESOURCE_EXHAUSTED": {"no_resource", "rate"},
    "FAILED_PRECONDITION": {"state"},
    "ABORTED": {"epoch"},
}
SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = {"local_requests_per_second": 1e6, "local_creates_per_second": 1e6}
    with managed(config_of(tmp_path_factory.mktemp("manager"), limits=limits)) as made:
        yield made


@pytest.fixture(scope="module")
def group(running: Running) -> Iterator[tuple[str, str]]:
    """A group that is there, so that calls can be nearly right, and its join token."""
    with running.client() as client:
        made = client.create_group(spec=spec(name="victim", deadline=3600.0))
        yield made.group, made.join_token


@pytest.fixture(scope="module")
def channel(running: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(running.config.listen[0]) as made:
        yield made


def state(running: Running) -> Any:
    """What no call of the fuzz may change: groups, members, engines, links. (Hosts it may register.)"""

    def look(now: float) -> Any:
        topology = running.core.topology(now)
        groups = [
            (g.group, g.job, g.state, g.epoch, [(m.rank, m.state, m.address, m.delivered) for m in g.members])
            for g in running.core.groups(now)
        ]
        engines = [(e.name, e.state, e.groups_used, e.slot_bytes_used) for e in topology.engines]
        return groups, engines, [(link.name, link.state) for link in topology.links]

    return running.do(look)


def call(channel: grpc.Channel, method: str, request: bytes) -> tuple[str, str]:
    """The code of a method called with these bytes, and the word beside it."""
    path, options = f"/epic.v1.Manager/{method}", {"timeout": 10.0}
    try:
        if SERVICE.methods_by_name[method].server_streaming:
            stream = channel.unary_stream(path)(request, **options)
            next(stream)
            stream.cancel()
        else:
            channel.unary_unary(path)(request, **options)
    except grpc.RpcError as error:
        caught: Any = error
        return caught.code().name, dict(caught.trailing_metadata() or ()).get("epic-reason", "")
    return "OK", ""


# ------------------------------------------------------------------------------------------------- bytes


@given(method=st.sampled_from(METHODS), request=st.binary(min_size=1, max_size=300))
@settings(max_examples=150 * SCALE, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_are_no_message_are_refused(
    running: Running, channel: grpc.Channel, group: tuple[str, str], method: str, request: bytes
) -> None:
    before = state(running)
    code, word = call(channel, method, request)
    # Bytes can be a message: fields that nobody knows are left out, so the call is one without any.
    assert code == "OK" or word in WORDS[code], f"{method}: {code} {word!r}"
    assert state(running) == before


def test_bytes_that_are_no_message_are_called_so(
    channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    for method in METHODS:
        assert call(channel, method, b"\xff") == ("INVALID_ARGUMENT", "invalid")
    assert caplog.text == ""


def test_a_method_that_is_none_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/epic.v1.Manager/Reboot")(b"", timeout=10.0)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_too_large_is_refused(running: Running, channel: grpc.Channel) -> None:
    request = pb.CreateGroupRequest(spec=pb.GroupSpec(hosts=["h0"] * 200_000))
    code, _ = call(channel, "CreateGroup", request.SerializeToString())
    assert code == "RESOURCE_EXHAUSTED"
    assert call(channel, "ListGroups", b"") == ("OK", "")


# ------------------------------------------------------------------------------------------------- values

TEXTS = st.one_of(
    st.sampled_from(
        ["", "victim", "h0", "h1", "s0", "h0-s0", "network", "host", "INT32", "SUM", "big", "group-1"]
    ),
    st.text(max_size=40),
    st.text(max_size=3000),
)
_KINDS: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_STRING: TEXTS,
    FieldDescriptor.CPPTYPE_UINT32: st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)),
    FieldDescriptor.CPPTYPE_UINT64: st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1)),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


@st.composite
def messages(draw: st.DrawFn, kind: type[Message]) -> Message:
    """A message with any of its fields, to any value."""
    made = kind()
    for field in made.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        if field.message_type is not None:
            values = messages(field.message_type._concrete_class)
        else:
            values = _KINDS[field.cpp_type]
        if field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(values, max_size=4)))
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(draw(values))
        else:
            setattr(made, field.name, draw(values))
    return made


def requests(method: str) -> st.SearchStrategy[tuple[str, Message]]:
    kind = SERVICE.methods_by_name[method].input_type._concrete_class
    return messages(kind).map(lambda made: (method, made))


@given(called=st.sampled_from(METHODS).flatmap(requests))
@settings(
    max_examples=300 * SCALE,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_values_get_an_answer_or_a_code_and_a_word(
    running: Running, channel: grpc.Channel, group: tuple[str, str], called: tuple[str, Message]
) -> None:
    method, request = called
    before = state(running)
    code, word = call(channel, method, request.SerializeToString())
    assert code == "OK" or word in WORDS[code], f"{method}: {code} {word!r}"
    if code == "OK" and method == "CreateGroup":
        # A request that can be granted was drawn: end the group, and see that nothing else came of it.
        groups = {g[0] for g in state(running)[0]} - {g[0] for g in before[0]}
        assert len(groups) == 1
        running.do(lambda now: running.core.destroy(groups.pop(), "", admin=True, now=now))
    else:
        assert state(running) == before


# --------------------------------------------------------------------------------------- nearly right ones


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("JoinGroup", {"group": "victim", "rank": 2, "join_token": "JOIN", "incarnation": "x"}),
        ("JoinGroup", {"group": "victim", "rank": 0, "join_token": "JOIN", "incarnation": ""}),
        ("JoinGroup", {"group": "victim", "rank": 0, "join_token": "JOIN ", "incarnation": "x"}),
        ("JoinGroup", {"group": "victim", "rank": 0, "join_token": "JOIN", "incarnation": "x" * 129}),
        ("LeaveGroup", {"group": "victim", "rank": 0, "token": "JOIN"}),
        ("ShrinkGroup", {"group": "victim", "rank": 0, "token": "JOIN"}),
        ("ReportEpoch", {"group": "victim", "rank": 0, "token": "JOIN", "epoch": 1}),
        ("DestroyGroup", {"group": "victim", "token": ""}),
        ("Watch", {"group": "victim", "rank": 0, "token": "JOIN"}),
        ("SetUsable", {"engine": "s0", "usable": False}),
        ("RegisterNode", {"host": "h0", "mtu": 1}),
        ("RegisterNode", {"host": "h2"}),
    ],
)
def test_nearly_right_is_wrong(
    running: Running, channel: grpc.Channel, group: tuple[str, str], method: str, fields: dict[str, Any]
) -> None:
    values = {k: v.replace("JOIN", group[1]) if isinstance(v, str) else v for k, v in fields.items()}
    request = SERVICE.methods_by_name[method].input_type._concrete_class(**values)
    before = state(running)
    code, word = call(channel, method, request.SerializeToString())
    assert code != "OK"
    assert word in WORDS[code]
    assert state(running) == before
