"""The manager over real gRPC, in plain text: groups from request to end, who may do what, errors with their words."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from epic_host.grants import Grant
from epic_host.manager.client import ManagerClient, WatchStream
from epic_host.manager.errors import (
    InvalidRequestError,
    ManagerUnreachableError,
    NoResourceError,
    NotAllowedError,
    RefusedError,
)
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.proto.epic.v1 import manager_pb2_grpc
from epic_spec.errors import ConfigError, ResourceError
from host.manager.served import Running, beats, config_of, managed, spec


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with managed(config_of(tmp_path_factory.mktemp("manager"))) as made:
        yield made


@pytest.fixture
def client(running: Running) -> Iterator[ManagerClient]:
    with running.client() as made:
        yield made


class Group:
    """A group whose ranks have joined."""

    def __init__(self, client: ManagerClient, *hosts: str, **fields: Any) -> None:
        made = client.create_group(spec=spec(*hosts, **fields))
        self.name, self.join_token = made.group, made.join_token
        self.joined = [
            client.join_group(
                group=self.name, rank=rank, join_token=self.join_token, incarnation=f"process-{rank}"
            )
            for rank in range(len(hosts) or 2)
        ]
        self.tokens = [answer.token for answer in self.joined]

    def watch(self, client: ManagerClient, rank: int = 0, patience: float = 10.0) -> WatchStream:
        return client.watch(group=self.name, rank=rank, token=self.tokens[rank], patience=patience)

    def end(self, client: ManagerClient) -> None:
        client.destroy_group(group=self.name, token=self.join_token)


def await_event(stream: WatchStream, what: str) -> Any:
    """The next event of a kind; others before it are passed over."""
    for event in stream:
        if event.WhichOneof("what") == what:
            return getattr(event, what)
    raise AssertionError(f"the stream ended without {what}")


# ------------------------------------------------------------------------------------------ a group's life


def test_a_group_gets_the_network_and_its_members_their_part(running: Running, client: ManagerClient) -> None:
    group = Group(client)
    assert [answer.world_size for answer in group.joined] == [2, 2]
    assert json.loads(group.joined[0].transport)["address"] == group.joined[0].address
    with_watch = [group.watch(client, rank) for rank in (0, 1)]
    grants = [Grant.from_dict(json.loads(await_event(stream, "granted").grant)) for stream in with_watch]
    assert [grant.epoch for grant in grants] == [1, 1]
    for rank, grant in enumerate(grants):
        (tree,) = grant.trees
        assert set(tree.ranks) == {rank}
        assert tree.ranks[rank].edge.local.ip == group.joined[rank].address
        assert not tree.engines
    assert len(running.engines["s0"].entries) == 1
    group.end(client)
    for stream in with_watch:
        assert await_event(stream, "ended").reason == "destroyed"
        assert list(stream) == []
    end = time.monotonic() + 10
    while running.engines["s0"].entries and time.monotonic() < end:
        time.sleep(0.01)
    assert running.engines["s0"].entries == {}


def test_the_same_request_again_gives_the_same_group(client: ManagerClient) -> None:
    first = client.create_group(spec=spec(name="again"), request_id="request-1")
    assert client.create_group(spec=spec(name="again"), request_id="request-1") == first
    with pytest.raises(RefusedError) as caught:
        client.create_group(spec=spec(name="again"), request_id="request-2")
    assert caught.value.reason == "exists"
    client.destroy_group(group="again", token=first.join_token)


def test_members_that_are_heard_stay_and_one_that_is_not_is_lost(client: ManagerClient) -> None:
    group = Group(client, lease=0.5)
    stream = group.watch(client, 1)
    await_event(stream, "granted")
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.1):
            client.heartbeat(members=beats({1: group.tokens[1]}, group.name, epoch=1))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        lost = await_event(stream, "lost")
    finally:
        stop.set()
        thread.join()
    assert list(lost.ranks) == [0]
    answer = client.heartbeat(members=beats({0: group.tokens[0]}, group.name))
    assert [(notice.rank, notice.what) for notice in answer.notices] == [(0, "gone")]
    shrunk = client.shrink_group(group=group.name, rank=1, token=group.tokens[1])
    assert (shrunk.rank, shrunk.world_size, list(shrunk.survivors)) == (0, 1, [1])
    client.destroy_group(group=shrunk.group, token=shrunk.join_token)


def test_a_fault_report_gets_its_verdict(client: ManagerClient) -> None:
    group = Group(client)
    stream = group.watch(client)
    await_event(stream, "granted")
    answer = client.report_fault(
        group=group.name, rank=0, token=group.tokens[0], epoch=1, delivered=0, what="no result for 1 s"
    )
    assert answer.verdict in ("wait", "epoch", "lost")
    group.end(client)


def test_nodes_register_and_are_seen(client: ManagerClient) -> None:
    assert client.register_node(host="h1", mtu=1500, version="1").lease > 0
    assert client.heartbeat(host="h1").node_known
    assert {host.name: host.state for host in client.get_topology().hosts}["h1"] == "up"


def test_what_a_group_does_is_explained(client: ManagerClient) -> None:
    group = Group(client)
    await_event(group.watch(client), "granted")
    answer = client.explain(group=group.name)
    assert (answer.group.state, answer.group.path, answer.group.reason) == ("active", "network", "granted")
    assert [decision.reason for decision in answer.decisions] == ["granted"]
    assert abs(answer.decisions[0].at - time.time()) < 60
    assert [share.engine for share in answer.group.shares] == ["s0"]
    assert group.name in [state.group for state in client.list_groups().groups]
    group.end(client)


# -------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"hosts": []}, InvalidRequestError),
        ({"hosts": ["h0", "nowhere"]}, InvalidRequestError),
        ({"path": "moon"}, InvalidRequestError),
        ({"name": "a b"}, InvalidRequestError),
        ({"name": "x" * 5000}, InvalidRequestError),
        ({"lease": float("nan")}, InvalidRequestError),
        ({"rate_gbps": float("inf")}, InvalidRequestError),
        ({"operators": ["CONCATENATE"]}, InvalidRequestError),
        ({"policy": "mine"}, InvalidRequestError),
        ({"hosts": ["h0"] * 5000}, InvalidRequestError),
        ({"path": "network", "modes": [1]}, NoResourceError),
    ],
)
def test_what_cannot_be_is_refused_with_a_word(
    client: ManagerClient, fields: dict[str, Any], kind: type[RefusedError]
) -> None:
    before = len(client.list_groups().groups)
    with pytest.raises(kind) as caught:
        client.create_group(spec=pb.GroupSpec(**({"hosts": ["h0", "h1"]} | fields)))
    assert caught.value.reason == {InvalidRequestError: "invalid", NoResourceError: "no_resource"}[kind]
    assert "\n" not in str(caught.value)
    assert len(client.list_groups().groups) == before


def test_errors_are_those_of_epic() -> None:
    assert issubclass(InvalidRequestError, ConfigError)
    assert issubclass(NoResourceError, ResourceError)


def test_the_codes_are_canonical(running: Running) -> None:
    with grpc.insecure_channel(running.config.listen[0]) as channel:
        stub: Any = manager_pb2_grpc.ManagerStub(channel)  # type: ignore[no-untyped-call]
        for call, code, reason in (
            (lambda: stub.Explain(pb.ExplainRequest(group="none")), "NOT_FOUND", "not_found"),
            (lambda: stub.CreateGroup(pb.CreateGroupRequest()), "INVALID_ARGUMENT", "invalid"),
            (lambda: stub.SetUsable(pb.SetUsableRequest(engine="s0")), "PERMISSION_DENIED", "not_yours"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            error: Any = caught.value
            assert (error.code().name, dict(error.trailing_metadata())["epic-reason"]) == (code, reason)


# ---------------------------------------------------------------------------------------------- who may


def test_a_member_without_its_token_is_nobody(client: ManagerClient) -> None:
    group = Group(client)
    for call in (
        lambda: client.join_group(group=group.name, rank=0, join_token="wrong", incarnation="x"),
        lambda: client.leave_group(group=group.name, rank=0, token=group.tokens[1]),
        lambda: client.report_epoch(group=group.name, rank=0, token="", epoch=1, delivered=0),
        lambda: client.report_fault(group=group.name, rank=0, token="é", epoch=1, delivered=0),
        lambda: client.shrink_group(group=group.name, rank=0, token="x"),
        lambda: client.destroy_group(group=group.name, token="x"),
        lambda: next(client.watch(group=group.name, rank=0, token=group.tokens[1])),
    ):
        with pytest.raises(NotAllowedError) as caught:
            call()
        assert caught.value.reason == "who"
    answer = client.heartbeat(members=beats({0: group.tokens[1]}, group.name))
    assert [notice.what for notice in answer.notices] == ["gone"]
    group.end(client)


def test_without_the_admin_token_engines_stay_in_use(running: Running, client: ManagerClient) -> None:
    for call in (
        lambda: client.set_usable(engine="s0", usable=False),
        lambda: next(client.watch()),
    ):
        with pytest.raises(NotAllowedError, match="expected the admin token"):
            call()
    with running.client(admin_token="x" * 43) as guesser, pytest.raises(NotAllowedError) as caught:
        guesser.set_usable(engine="s0", usable=False)
    assert caught.value.reason == "who"
    assert {engine.state for engine in client.get_topology().engines} == {"up"}


def test_an_admin_takes_engines_out_and_ends_groups(running: Running, client: ManagerClient) -> None:
    group = Group(client)
    stream = group.watch(client)
    await_event(stream, "granted")
    with running.admin() as admin:
        admin.set_usable(engine="s0", usable=False)
        assert await_event(stream, "prepare").epoch == 2
        for rank, token in enumerate(group.tokens):
            client.report_epoch(group=group.name, rank=rank, token=token, epoch=2, delivered=0)
        grant = Grant.from_dict(json.loads(await_event(stream, "granted").grant))
        assert (grant.epoch, grant.trees, grant.host is not None) == (2, (), True)
        admin.set_usable(engine="s0", usable=True)
        admin.destroy_group(group=group.name)
    assert await_event(stream, "ended").reason == "destroyed"


def test_an_admin_sees_all_decisions_and_no_grant(running: Running, client: ManagerClient) -> None:
    before = Group(client)
    await_event(before.watch(client), "granted")
    with running.admin() as admin:
        stream = admin.watch()
        first = next(event for event in stream if event.group == before.name)
        assert "epoch=1 path=network reason=granted" in first.decision
        after = Group(client)
        seen: list[Any] = []
        for event in stream:
            seen.append(event)
            if event.group == after.name and event.WhichOneof("what") == "granted":
                break
        assert seen[-1].granted.grant == ""
        assert [event.sequence for event in seen] == sorted(event.sequence for event in seen)
        stream.close()
    before.end(client)
    after.end(client)


# ------------------------------------------------------------------------------------------ client


def test_nobody_there_is_said_within_the_timeout(tmp_path: Path) -> None:
    with ManagerClient(f"unix:{tmp_path}/none", timeout=0.5) as nobody:
        with pytest.raises(ManagerUnreachableError, match="expected a running manager"):
            nobody.list_groups()
        with pytest.raises(ManagerUnreachableError, match=r"no connection for 0.3 s"):
            next(nobody.watch(group="x", patience=0.3))
    with (
        ManagerClient(f"unix:{tmp_path}/none", timeout=0.5, patient=True) as patient,
        pytest.raises(ManagerUnreachableError, match="no answer within"),
    ):
        patient.list_groups()


def test_closing_a_watch_ends_it_in_another_thread(client: ManagerClient) -> None:
    group = Group(client)
    stream = group.watch(client)
    await_event(stream, "granted")
    ended: list[list[Any]] = []
    thread = threading.Thread(target=lambda: ended.append(list(stream)))
    thread.start()
    stream.close()
    thread.join(5)
    assert ended == [[]]
    group.end(client)


def test_a_closed_client_says_so(running: Running) -> None:
    client = running.client()
    client.close()
    with pytest.raises(ManagerUnreachableError, match="this client is closed"):
        client.list_groups()


def test_a_group_is_placed_exactly_where_that_is_asked_for(tmp_path: Path) -> None:
    with managed(config_of(tmp_path, placement="exact")) as running, running.client() as client:
        group = Group(client)
        assert Grant.from_dict(json.loads(await_event(group.watch(client), "granted").grant)).trees
    with pytest.raises(ConfigError, match="policy"), managed(config_of(tmp_path, policy="mine")):
        pass
