"""The control service: values cross unchanged, errors come with their reason, nothing waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.control import ControlServer, EngineClient, EngineUnreachableError, messages
from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_host.proto.epic.v1 import engine_pb2_grpc
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup, GroupParams
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import ConfigError, EpicError, ResourceError
from host.worlds import World, single, subnet, two_level

MakeWorld = Callable[..., World]


@pytest.fixture
def here(world: MakeWorld) -> World:
    """A switch of Mode III whose group 1 has been removed again."""
    made: World = world(tree=single(2))
    switch = made.switches["s0"]
    switch.call(lambda: switch.remove(1), 5.0)
    return made


@pytest.fixture
def client(here: World) -> Iterator[EngineClient]:
    with EngineClient(here.plan.control["s0"]) as made:
        yield made


# ------------------------------------------------------------------------------------------------- values


def test_an_installed_group_arrives_as_it_was_sent(here: World, client: EngineClient) -> None:
    entry = here.plan.engines["s0"]
    client.install(entry)
    switch = here.switches["s0"]
    assert switch.call(switch.groups, 5.0) == (1,)
    assert client.health() == ("s0", "epic_models.reference.mode3:Mode3Engine", (1,))
    client.remove(1)
    assert client.health()[2] == ()


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_every_group_survives_its_message(data: st.DataObject) -> None:
    params = GroupParams(
        group=data.draw(st.integers(0, 2**32 - 1)),
        mode=data.draw(st.integers(1, 3)),
        world_size=3,
        epoch=data.draw(st.integers(0, 2**32 - 1)),
        window=data.draw(st.sampled_from([1, 16])),
        message_buffers=1,
        operators=tuple(data.draw(st.sets(st.sampled_from(["SUM", "MAX", "MIN"])))),
        datatypes=tuple(data.draw(st.sets(st.sampled_from(["INT32", "FP32"])))),
        icrc=data.draw(st.sampled_from(["full", "none"])),
        ecn=data.draw(st.booleans()),
        retry_limit=data.draw(st.integers(0, 255)),
    )
    tree = Tree("s0", {"s0": (0, "s1"), "s1": (1, 2)})
    plan = build_group(tree, params, seed=data.draw(st.integers(0, 1000)))
    for entry in plan.engines.values():
        wire = messages.group_message(entry).SerializeToString()
        assert messages.group_value(pb.EngineGroup.FromString(wire)) == entry


def test_an_absent_parameter_has_its_default() -> None:
    entry = build_group(single(2), GroupParams(1, 3, 2)).engines["s0"]
    message = messages.group_message(entry)
    message.params.ClearField("window")
    message.params.ClearField("ecn")
    assert messages.group_value(message) == entry


def test_status_and_capabilities_survive_their_messages() -> None:
    status = GroupStatus(7, 3, (SlotStatus(2**24 - 1, 2**64 - 1, True), SlotStatus(0, 0, False)), ("r0-s0",))
    assert messages.status_value(messages.status_message(status)) == status
    offered = EngineCapabilities(mode=2, window=8, operators=("SUM",), icrc=("none",), ecn=False)
    assert messages.capabilities_value(messages.capabilities_message(offered)) == offered


def test_the_messages_have_a_field_for_every_value() -> None:
    for value, message in ((GroupParams, pb.GroupParams), (EngineCapabilities, pb.Capabilities)):
        assert {f.name for f in fields(value)} == set(message.DESCRIPTOR.fields_by_name)


def test_status_shows_who_has_contributed(world: MakeWorld) -> None:
    here = world(tree=single(3))
    handle = here.join(1).barrier(async_op=True)
    with EngineClient(here.plan.control["s0"]) as client:
        end = time.monotonic() + 5
        while not client.status(1).slots and time.monotonic() < end:
            time.sleep(0.01)
        assert client.status(1).slots == (SlotStatus(0, 0b010, False),)
        here.run(lambda c: c.barrier(), ranks=(0, 2))
        handle.wait(5)
        assert client.status(1).slots == (SlotStatus(0, 0b111, True),)


def test_counters_are_those_of_the_engine_and_its_transport(world: MakeWorld) -> None:
    here = world(tree=two_level(2))
    here.run(lambda c: c.barrier())
    with EngineClient(here.plan.control["s0"]) as client:
        counters = client.counters()
    assert counters["cells_completed"] == 1
    assert counters["rx_contribution"] == counters["tx_result"] == counters["tx_frames"] == 2
    assert counters["fault_lost"] == counters["drop_icrc"] == counters["tx_failed"] == 0


def test_capabilities_say_what_the_engine_was_limited_to(here: World, tmp_path: Path) -> None:
    config = here.switch_config("s0") | {
        "control": f"unix:{tmp_path}/limited",
        "capabilities": {"window": 8, "operators": ["SUM"], "icrc": ["full"], "ecn": False},
        "transport": {"kind": "udp", "address": f"{subnet()}.1", "ports": {}},
    }
    switch = Switch(SwitchConfig.from_dict(config))
    thread = threading.Thread(target=switch.run)
    thread.start()
    try:
        with EngineClient(f"unix:{tmp_path}/limited") as client:
            offered = client.capabilities()
        assert (offered.window, offered.operators, offered.icrc, offered.ecn) == (
            8,
            ("SUM",),
            ("full",),
            False,
        )
        assert offered.slots == EngineCapabilities(mode=3).slots
    finally:
        switch.stop()
        thread.join(5)
        switch.close()


# ------------------------------------------------------------------------------------------------- errors


def reason_of(call: Callable[[], Any], kind: type[EpicError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(getattr(caught.value, "reason", ""))


def test_errors_carry_a_reason_for_programs(here: World, client: EngineClient) -> None:
    entry = here.plan.engines["s0"]
    assert reason_of(lambda: client.status(1), ConfigError) == "not_installed"
    assert reason_of(lambda: client.remove(1), ConfigError) == "not_installed"
    other_mode = replace(entry, params=replace(entry.params, mode=2))
    assert reason_of(lambda: client.install(other_mode), ResourceError) == "no_resource"
    client.install(entry)
    assert reason_of(lambda: client.install(entry), ConfigError) == "already_installed"
    same_qpns = replace(entry, params=replace(entry.params, group=2))
    assert reason_of(lambda: client.install(same_qpns), ConfigError) == "invalid"
    assert client.health()[2] == (1,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.ClearField("params"), "engine group: no params"),
        (lambda m: setattr(m.params, "window", 3), "window = 3, expected a power of two"),
        (lambda m: setattr(m.children[0].peer, "ip", "x"), "peer: ip = 'x', expected an IPv4 address"),
        (lambda m: setattr(m.children[0].peer, "mac", "x"), "peer: mac = 'x', expected six hex bytes"),
        (lambda m: setattr(m.children[0].local, "qpn", 2**24), "local: qpn = 16777216, expected 0 to"),
        (lambda m: setattr(m.children[0], "psn_tx", 2**24), "psn_tx = 16777216, expected 0 to"),
        (lambda m: setattr(m.children[0], "sport", 2**16), "sport = 65536, expected 0 to 65535"),
        (lambda m: setattr(m.children[0], "name", ""), "edge: name is empty"),
        (lambda m: setattr(m.children[1], "port", 9), "on port 9, expected one on port 1"),
        (lambda m: setattr(m.children[1].peer, "ip", "127.1.1.1"), "on port 1, expected an address"),
        (lambda m: setattr(m.children[1].local, "ip", "127.1.1.1"), "local address 127.1.1.1, expected"),
    ],
)  # fmt: skip
def test_a_group_that_does_not_fit_is_refused_and_nothing_has_changed(
    here: World, client: EngineClient, change: Callable[[pb.EngineGroup], None], message: str
) -> None:
    request = messages.group_message(here.plan.engines["s0"])
    change(request)
    stub: Any = engine_pb2_grpc.EngineStub(grpc.insecure_channel(here.plan.control["s0"]))
    with pytest.raises(grpc.RpcError) as caught:
        stub.InstallGroup(pb.InstallGroupRequest(group=request), timeout=5)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert dict(error.trailing_metadata())["epic-reason"] == "invalid"
    assert message in error.details()
    assert client.health()[2] == ()


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_group_or_a_config_error(wire: bytes) -> None:
    try:
        message = pb.EngineGroup.FromString(wire)
    except Exception as error:
        # What is not a message at all the library refuses itself.
        assert type(error).__name__ == "DecodeError"
        return
    try:
        assert isinstance(messages.group_value(message), EngineGroup)
    except ConfigError as error:
        assert "\n" not in str(error)


def test_an_engine_that_is_not_there_is_unreachable_at_once(tmp_path: Path) -> None:
    begin = time.monotonic()
    with (
        EngineClient(f"unix:{tmp_path}/none", 5.0) as client,
        pytest.raises(EngineUnreachableError) as caught,
    ):
        client.health()
    assert time.monotonic() - begin < 2
    assert str(caught.value) == f"engine at unix:{tmp_path}/none: unavailable, expected a running switch"


def test_a_call_ends_at_its_deadline_when_the_loop_is_stuck_and_is_not_run_later(here: World) -> None:
    switch, free = here.switches["s0"], threading.Event()
    stuck = threading.Thread(target=lambda: switch.call(lambda: free.wait(10), 10.0))
    stuck.start()
    time.sleep(0.1)
    begin = time.monotonic()
    with (
        EngineClient(here.plan.control["s0"], 0.3) as client,
        pytest.raises(EngineUnreachableError, match=r"0.3 s"),
    ):
        client.install(here.plan.engines["s0"])
    assert time.monotonic() - begin < 1
    free.set()
    stuck.join(5)
    time.sleep(0.1)
    assert switch.call(switch.groups, 5.0) == ()


# ----------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost:1", "expected unix:/path or 127.x.y.z:port"),
        ("0.0.0.0:5000", "expected unix:/path or 127.x.y.z:port"),
        ("127.0.0.1:0", "expected unix:/path or 127.x.y.z:port"),
        ("unix:relative", "expected an absolute one of at most 107 bytes"),
        ("unix:/" + "x" * 107, "expected an absolute one of at most 107 bytes"),
        ("unix:/nowhere/s", "folder /nowhere does not exist"),
        ("unix:/etc/passwd", "/etc/passwd is not a socket, expected a free path"),
    ],
)
def test_an_address_that_cannot_be_served_is_refused_in_one_line(
    here: World, address: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ControlServer(address, here.switches["s0"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_in_use_is_refused_and_one_left_behind_is_taken(here: World, tmp_path: Path) -> None:
    path = here.plan.control["s0"].removeprefix("unix:")
    with pytest.raises(ConfigError, match="is in use by another process"):
        ControlServer(f"unix:{path}", here.switches["s0"])
    import socket

    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{tmp_path}/left")
    left.close()
    server = ControlServer(f"unix:{tmp_path}/left", here.switches["s0"])
    with EngineClient(f"unix:{tmp_path}/left") as client:
        assert client.health()[0] == "s0"
    server.close()
    assert not Path(f"{tmp_path}/left").exists()


def test_a_loopback_port_serves_too_and_is_not_shared(here: World) -> None:
    address = f"{subnet()}.1:50431"
    server = ControlServer(address, here.switches["s0"])
    try:
        with EngineClient(address) as client:
            assert client.health()[0] == "s0"
        with pytest.raises(ConfigError, match=f"address {address} cannot be bound"):
            ControlServer(address, here.switches["s0"])
    finally:
        server.close()
