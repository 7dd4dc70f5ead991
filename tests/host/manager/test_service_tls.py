"""The manager with certificates: who may call what, hostile certificates, plain text, and secrets that stay secret."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from epic_host.manager.client import ADMIN_TOKEN, ManagerClient
from epic_host.manager.config import ManagerConfig
from epic_host.manager.errors import ManagerUnreachableError, NotAllowedError, RefusedError
from epic_host.manager.server import ManagerServer
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.proto.epic.v1 import manager_pb2_grpc
from epic_host.security import pki
from epic_host.security.roles import MANAGER_METHODS, Role, utc_now
from epic_host.security.tls import Tls, server_name
from epic_spec.errors import ConfigError
from host.manager.served import Running, beats, config_of, managed, spec

NAMES = (
    (Role.MANAGER, "m0"),
    (Role.ADMIN, "alice"),
    (Role.JOB, "train"),
    (Role.JOB, "spy"),
    (Role.NODE, "h0"),
    (Role.ENGINE, "s0"),
)


def _authority(folder: Path) -> Path:
    pki.init(folder)
    for role, name in NAMES:
        pki.issue(folder, role, name)
    return folder


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _authority(tmp_path_factory.mktemp("pki"))


def _config(folder: Path, certificates: Path, **changes: Any) -> ManagerConfig:
    files = Tls.of_folder(certificates, "manager", "m0")
    tls = {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)}
    return config_of(folder, tls=tls, **changes)


@pytest.fixture(scope="module")
def running(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with managed(_config(tmp_path_factory.mktemp("manager"), certificates)) as made:
        yield made


@pytest.fixture
def as_(running: Running, certificates: Path) -> Iterator[Callable[..., ManagerClient]]:
    """Makes clients with a certificate."""
    clients: list[ManagerClient] = []

    def make(role: Role, name: str, folder: Path = certificates) -> ManagerClient:
        clients.append(running.client(credentials=Tls.of_folder(folder, role, name), timeout=5.0))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def snapshot(running: Running) -> Any:
    """What of the manager no refused call may change."""

    def look(now: float) -> Any:
        groups = [(g.group, g.state, g.epoch, [m.state for m in g.members]) for g in running.core.groups(now)]
        topology = running.core.topology(now)
        return (
            groups,
            [(h.name, h.state) for h in topology.hosts],
            [(e.name, e.state) for e in topology.engines],
        )

    return running.do(look)


def every_call(client: ManagerClient, host: str = "") -> dict[str, Callable[[], Any]]:
    """One call of every method, by its name; what they are about need not be there."""
    member: dict[str, Any] = {"group": "none", "rank": 0, "token": "x"}
    return {
        "RegisterNode": lambda: client.register_node(host="h0"),
        "Heartbeat": lambda: client.heartbeat(host=host),
        "CreateGroup": lambda: client.create_group(spec=pb.GroupSpec()),
        "JoinGroup": lambda: client.join_group(group="none", rank=0, join_token="x", incarnation="y"),
        "ReportEpoch": lambda: client.report_epoch(**member, epoch=1, delivered=0),
        "ReportFault": lambda: client.report_fault(**member, epoch=1, delivered=0),
        "LeaveGroup": lambda: client.leave_group(**member),
        "DestroyGroup": lambda: client.destroy_group(group="none", token="x"),
        "ShrinkGroup": lambda: client.shrink_group(**member),
        "ListGroups": client.list_groups,
        "Explain": lambda: client.explain(group="none"),
        "GetTopology": client.get_topology,
        "Watch": lambda: next(client.watch(**member)),
        "SetUsable": lambda: client.set_usable(engine="none", usable=True),
    }


# --------------------------------------------------------------------------------------------------- roles


def test_the_table_of_roles_has_every_method() -> None:
    assert set(MANAGER_METHODS) == set(pb.DESCRIPTOR.services_by_name["Manager"].methods_by_name)


@pytest.mark.parametrize(("role", "name"), [(r, n) for r, n in NAMES if n != "spy" and r is not Role.ENGINE])
def test_each_role_may_call_its_methods_and_no_other(
    as_: Callable[..., ManagerClient], role: Role, name: str
) -> None:
    for method, call in every_call(as_(role, name), host=name if role is Role.NODE else "").items():
        try:
            call()
            reason = "ok"
        except RefusedError as error:
            reason = error.reason
        except ManagerUnreachableError as error:
            pytest.fail(f"{method}: {error}")
        allowed = role is Role.ADMIN or role in MANAGER_METHODS[method]
        assert (reason != "not_yours") == allowed, f"{method} by {role}: {reason}"


def test_an_engines_certificate_is_for_no_caller(running: Running, as_: Callable[..., ManagerClient]) -> None:
    before = snapshot(running)
    with pytest.raises((ManagerUnreachableError, NotAllowedError)):
        as_(Role.ENGINE, "s0").list_groups()
    assert snapshot(running) == before


def test_a_node_speaks_for_itself_only(as_: Callable[..., ManagerClient]) -> None:
    node = as_(Role.NODE, "h0")
    assert node.register_node(host="h0").lease > 0
    assert node.heartbeat(host="h0").node_known
    for call in (
        lambda: node.register_node(host="h1"),
        lambda: node.heartbeat(host="h1"),
        lambda: node.heartbeat(host=""),
        lambda: node.heartbeat(host="h0", members=beats({0: "x"}, "g")),
        lambda: as_(Role.JOB, "train").heartbeat(host="h0"),
    ):
        with pytest.raises(NotAllowedError) as caught:
            call()
        assert caught.value.reason == "not_yours"


def test_a_job_cannot_touch_anothers_group_with_the_others_tokens_either(
    running: Running, as_: Callable[..., ManagerClient]
) -> None:
    owner, spy = as_(Role.JOB, "train"), as_(Role.JOB, "spy")
    made = owner.create_group(spec=spec(name="private"))
    token = owner.join_group(group="private", rank=0, join_token=made.join_token, incarnation="process").token
    before = snapshot(running)
    stolen: dict[str, Any] = {"group": "private", "rank": 0, "token": token}
    for call in (
        lambda: spy.join_group(group="private", rank=1, join_token=made.join_token, incarnation="other"),
        lambda: spy.report_epoch(**stolen, epoch=1, delivered=0),
        lambda: spy.report_fault(**stolen, epoch=1, delivered=0),
        lambda: spy.leave_group(**stolen),
        lambda: spy.shrink_group(**stolen),
        lambda: spy.destroy_group(group="private", token=made.join_token),
        lambda: spy.explain(group="private"),
        lambda: next(spy.watch(**stolen)),
    ):
        with pytest.raises(NotAllowedError) as caught:
            call()
        assert caught.value.reason == "not_yours"
    assert [notice.what for notice in spy.heartbeat(members=beats({0: token}, "private")).notices] == ["gone"]
    assert list(spy.list_groups().groups) == []
    assert snapshot(running) == before
    assert [group.job for group in owner.list_groups().groups] == ["train"]
    with pytest.raises(RefusedError) as caught:
        spy.create_group(spec=spec(name="private"))
    assert caught.value.reason == "exists"
    as_(Role.ADMIN, "alice").destroy_group(group="private")


def test_request_ids_are_each_jobs_own(as_: Callable[..., ManagerClient]) -> None:
    one, other = as_(Role.JOB, "train"), as_(Role.JOB, "spy")
    first = one.create_group(spec=spec(), request_id="same")
    second = other.create_group(spec=spec(), request_id="same")
    assert first.group != second.group
    for client, made in ((one, first), (other, second)):
        client.destroy_group(group=made.group, token=made.join_token)


def test_the_admin_token_is_worth_nothing_where_there_are_certificates(
    running: Running, certificates: Path
) -> None:
    assert running.config.admin_token is not None
    token = running.config.admin_token.read_text().strip()
    files = Tls.of_folder(certificates, Role.JOB, "train")
    with (
        ManagerClient(running.config.listen[0], files, admin_token=token) as client,
        pytest.raises(NotAllowedError, match="expected admin"),
    ):
        client.set_usable(engine="s0", usable=False)


# ------------------------------------------------------------------------------------ hostile certificates


def test_a_certificate_of_another_authority_is_refused(
    running: Running, certificates: Path, as_: Callable[..., ManagerClient], tmp_path: Path
) -> None:
    _authority(tmp_path / "strangers")
    shutil.copy(certificates / "ca.crt", tmp_path / "strangers" / "ca.crt")
    before = snapshot(running)
    with pytest.raises(ManagerUnreachableError):
        as_(Role.ADMIN, "alice", tmp_path / "strangers").set_usable(engine="s0", usable=False)
    assert snapshot(running) == before


def test_a_certificate_that_ended_or_has_not_begun_is_refused(
    running: Running, certificates: Path, as_: Callable[..., ManagerClient], tmp_path: Path
) -> None:
    for name in ("ca.crt", "ca.key"):
        shutil.copy(certificates / name, tmp_path)
    pki.issue(tmp_path, Role.ADMIN, "past", hours=1, now=utc_now() - timedelta(hours=2))
    pki.issue(tmp_path, Role.ADMIN, "future", hours=1, now=utc_now() + timedelta(hours=2))
    before = snapshot(running)
    for name in ("past", "future"):
        with pytest.raises((ManagerUnreachableError, NotAllowedError)):
            as_(Role.ADMIN, name, tmp_path).set_usable(engine="s0", usable=False)
    assert snapshot(running) == before


def test_a_connection_ends_with_its_certificate(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(_config(tmp_path, certificates)) as running:
        files = Tls.of_folder(certificates, Role.JOB, "train")
        with running.client(credentials=files) as client:
            client.list_groups()
            tomorrow = utc_now() + timedelta(hours=25)
            monkeypatch.setattr("epic_host.security.server.utc_now", lambda: tomorrow)
            with pytest.raises(NotAllowedError, match="certificate of job 'train': valid from") as caught:
                client.list_groups()
    assert caught.value.reason == "who"


def test_a_watch_ends_with_its_certificate(certificates: Path, tmp_path: Path) -> None:
    for name in ("ca.crt", "ca.key"):
        shutil.copy(certificates / name, tmp_path)
    with managed(_config(tmp_path, certificates)) as running:
        with running.client(credentials=Tls.of_folder(certificates, Role.JOB, "train")) as owner:
            made = owner.create_group(spec=spec("h0"))
            token = owner.join_group(
                group=made.group, rank=0, join_token=made.join_token, incarnation="i"
            ).token
        # A second: what certificates count in.
        pki.issue(tmp_path, Role.JOB, "train", hours=1.5 / 3600)
        with running.client(credentials=Tls.of_folder(tmp_path, Role.JOB, "train")) as client:
            stream = client.watch(group=made.group, rank=0, token=token)
            next(stream)
            with pytest.raises(NotAllowedError, match="its certificate has ended") as caught:
                list(stream)
        assert caught.value.reason == "who"


def test_a_job_cannot_pose_as_the_manager(certificates: Path, tmp_path: Path) -> None:
    """A server with a job's certificate: no client of the authority talks to it."""
    files = Tls.of_folder(certificates, Role.JOB, "train")
    tls = {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)}
    alice = Tls.of_folder(certificates, Role.ADMIN, "alice")
    with (
        managed(config_of(tmp_path, tls=tls)) as fake,
        fake.client(credentials=alice, timeout=2.0) as client,
        pytest.raises(ManagerUnreachableError),
    ):
        client.list_groups()


def test_nobody_comes_without_a_certificate(running: Running, certificates: Path) -> None:
    before = snapshot(running)
    with running.client(timeout=1.0) as plain, pytest.raises(ManagerUnreachableError):
        plain.register_node(host="h1")
    ca = (certificates / "ca.crt").read_bytes()
    options = [("grpc.ssl_target_name_override", server_name("manager"))]
    with grpc.secure_channel(running.config.listen[0], grpc.ssl_channel_credentials(ca), options) as channel:
        stub: Any = manager_pb2_grpc.ManagerStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError) as caught:
            stub.RegisterNode(pb.RegisterNodeRequest(host="h1"), timeout=2)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert snapshot(running) == before


def test_bytes_that_are_no_tls_do_no_harm(running: Running, as_: Callable[..., ManagerClient]) -> None:
    path = running.config.listen[0].removeprefix("unix:")
    for garbage in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64, b"\x16\x03\x01" + b"\xff" * 4096):
        with socket.socket(socket.AF_UNIX) as hostile:
            hostile.connect(path)
            with contextlib.suppress(BrokenPipeError):
                hostile.sendall(garbage)
    as_(Role.JOB, "train").list_groups()


# ---------------------------------------------------------------------------------------------- plain text


@pytest.mark.parametrize("address", ["0.0.0.0:4792", "192.0.2.1:4792", "manager.example:4792"])
def test_plain_text_off_loopback_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="plain text stays on this machine"):
        config_of(tmp_path, listen=[address])
    with pytest.raises(ConfigError, match="without TLS"):
        ManagerClient(address)


def test_plain_text_is_said_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with managed(config_of(tmp_path)) as running:
        assert running.client().list_groups() is not None
    assert f"manager: plain text on unix:{tmp_path}/m.sock" in caplog.text


def test_with_certificates_any_address_serves(certificates: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = _config(tmp_path, certificates, listen=[f"0.0.0.0:{port}"])
    with managed(config):
        files = Tls.of_folder(certificates, Role.ADMIN, "alice")
        with ManagerClient(f"127.0.0.1:{port}", files) as client:
            assert [engine.name for engine in client.get_topology().engines] == ["s0"]


def test_a_second_manager_on_the_same_address_or_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    address, store = (
        config_of(tmp_path / "other", listen=[f"unix:{tmp_path}/m.sock"]),
        config_of(tmp_path, listen=[f"unix:{tmp_path}/other.sock"]),
    )
    with managed(config_of(tmp_path)) as first:
        for config, match in ((address, "in use by another process"), (store, r"store .*m\.db: .*locked")):
            with pytest.raises(ConfigError, match=match), managed(config):
                pass
        with first.client() as client:
            client.list_groups()


# ------------------------------------------------------------------------------------------------- secrets


def test_no_secret_is_in_a_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Everything that a group and its admin do, with logs of every level kept: no token, no key is in them."""
    caplog.set_level(logging.DEBUG)
    with managed(config_of(tmp_path)) as running, running.client() as client, running.admin() as admin:
        made = client.create_group(spec=spec(name="secret"), request_id="id")
        joined = [
            client.join_group(group="secret", rank=r, join_token=made.join_token, incarnation=f"i{r}")
            for r in range(2)
        ]
        stream = client.watch(group="secret", rank=0, token=joined[0].token)
        while next(stream).WhichOneof("what") != "granted":
            pass
        client.heartbeat(members=beats({0: joined[0].token}, "secret", epoch=1))
        for call in (
            lambda: client.leave_group(group="secret", rank=0, token=joined[1].token),
            lambda: client.destroy_group(group="secret", token=joined[0].token + "x"),
            lambda: running.client(admin_token=made.join_token).list_groups(),
        ):
            with pytest.raises(RefusedError) as caught:
                call()
            assert joined[1].token not in str(caught.value)
        admin.set_usable(engine="s0", usable=False)
        client.destroy_group(group="secret", token=made.join_token)
        assert running.config.admin_token is not None
        secrets = [made.join_token, *(answer.token for answer in joined)]
        secrets.append(running.config.admin_token.read_text().strip())
    assert "group=secret" in caplog.text
    for secret in secrets:
        assert secret not in caplog.text


def test_the_admin_token_is_for_its_owner_only(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.admin_token is not None
    with managed(config):
        assert config.admin_token.stat().st_mode & 0o777 == 0o600
        token = config.admin_token.read_text()
    with managed(config):
        assert config.admin_token.read_text() == token
    config.admin_token.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 644, expected 600"), managed(config):
        pass


def test_the_metadata_with_the_token_is_not_echoed(tmp_path: Path) -> None:
    with managed(config_of(tmp_path)) as running, grpc.insecure_channel(running.config.listen[0]) as channel:
        stub: Any = manager_pb2_grpc.ManagerStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListGroups(pb.ListGroupsRequest(), metadata=((ADMIN_TOKEN, "guess-guess-guess"),))
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "guess" not in error.details()


def test_nothing_of_the_server_is_left(tmp_path: Path) -> None:
    threads = threading.active_count()
    with managed(config_of(tmp_path)) as running, running.client() as client:
        client.list_groups()
        assert isinstance(running.server, ManagerServer)
    assert not (tmp_path / "m.sock").exists()
    assert threading.active_count() <= threads + 1
