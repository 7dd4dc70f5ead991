"""An engine's control service with certificates: the manager and admins only, whoever else has what certificate."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from epic_host.control import EngineClient, EngineUnreachableError
from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_host.proto.epic.v1 import engine_pb2_grpc
from epic_host.security import pki
from epic_host.security.roles import Role, utc_now
from epic_host.security.tls import Tls, server_name
from epic_host.switch import Switch, SwitchConfig
from epic_spec.errors import ConfigError, EpicError
from host.worlds import World, single, subnet

NAMES = (
    (Role.ENGINE, "s0"),
    (Role.ENGINE, "s1"),
    (Role.MANAGER, "m0"),
    (Role.ADMIN, "alice"),
    (Role.JOB, "train"),
    (Role.NODE, "h0"),
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    pki.init(folder)
    for role, name in NAMES:
        pki.issue(folder, role, name)
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another authority, whose certificates say the same."""
    folder = tmp_path_factory.mktemp("strangers")
    pki.init(folder)
    for role, name in NAMES:
        pki.issue(folder, role, name)
    return folder


def tls_of(folder: Path, role: Role, name: str) -> Tls:
    return Tls.of_folder(folder, role, name)


def _serving(files: Tls, name: str, control: str) -> SwitchConfig:
    return SwitchConfig.from_dict(
        {
            "name": name,
            "engine": "reference-m3",
            "control": control,
            "transport": {"kind": "udp", "address": f"{subnet()}.1", "ports": {"127.0.0.2": 0}},
            "tls": {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)},
        }
    )


@contextmanager
def running(config: SwitchConfig) -> Iterator[Switch]:
    switch = Switch(config)
    thread = threading.Thread(target=switch.run)
    thread.start()
    try:
        yield switch
    finally:
        switch.stop()
        thread.join(5)
        switch.close()


class Served(NamedTuple):
    """A switch with certificates, where it is controlled, and a group that fits it."""

    switch: Switch
    control: str
    entry: Any


@pytest.fixture(scope="module")
def served(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    world = World(tmp_path_factory.mktemp("world"), tree=single(2))
    files = tls_of(certificates, Role.ENGINE, "s0")
    tls = {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)}
    config = world.switch_config("s0") | {"tls": tls}
    with running(SwitchConfig.from_dict(config)) as switch:
        yield Served(switch, config["control"], world.plan.engines["s0"])


def groups(switch: Switch) -> tuple[int, ...]:
    return switch.call(switch.groups, 5.0)


@pytest.mark.parametrize(("role", "name"), [(Role.MANAGER, "m0"), (Role.ADMIN, "alice")])
def test_the_manager_and_admins_install_and_remove(
    served: Served, certificates: Path, role: Role, name: str
) -> None:
    switch = served.switch
    with EngineClient(served.control, 5.0, tls_of(certificates, role, name), "s0") as client:
        client.install(served.entry)
        assert groups(switch) == (1,)
        client.remove(1)
        assert groups(switch) == ()


@pytest.mark.parametrize(("role", "name"), [(Role.JOB, "train"), (Role.NODE, "h0")])
def test_others_may_call_nothing(served: Served, certificates: Path, role: Role, name: str) -> None:
    switch = served.switch
    with EngineClient(served.control, 5.0, tls_of(certificates, role, name), "s0") as client:
        calls: list[Any] = [
            lambda: client.install(served.entry),
            lambda: client.remove(1),
            lambda: client.status(1),
            client.counters,
            client.capabilities,
            client.installed,
            client.health,
        ]
        for call in calls:
            with pytest.raises(ConfigError, match=f"{role} '{name}' may not call it"):
                call()
    assert groups(switch) == ()


def test_the_refusal_says_who_and_why(served: Served, certificates: Path) -> None:
    files = tls_of(certificates, Role.JOB, "train")
    options = [("grpc.ssl_target_name_override", server_name("engine"))]
    with grpc.secure_channel(served.control, files.channel_credentials(), options) as channel:
        stub = engine_pb2_grpc.EngineStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError) as caught:
            stub.Health(pb.HealthRequest(), timeout=5)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert error.details() == "engine s0: job 'train' may not call it, expected one of admin, manager"
    assert dict(error.trailing_metadata())["epic-reason"] == "not_yours"


def test_nobody_comes_in_plain_text(served: Served) -> None:
    with EngineClient(served.control, 2.0) as client, pytest.raises(EngineUnreachableError):
        client.installed()
    assert groups(served.switch) == ()


def test_a_certificate_of_another_authority_is_refused(
    served: Served, certificates: Path, strangers: Path, tmp_path: Path
) -> None:
    # The stranger trusts the engine's authority, and shows what its own has issued.
    shutil.copy(certificates / "ca.crt", tmp_path / "ca.crt")
    for ending in ("crt", "key"):
        shutil.copy(strangers / f"manager-m0.{ending}", tmp_path)
    with (
        EngineClient(served.control, 2.0, tls_of(tmp_path, Role.MANAGER, "m0"), "s0") as client,
        pytest.raises(EngineUnreachableError),
    ):
        client.install(served.entry)
    assert groups(served.switch) == ()


def test_a_certificate_that_ended_is_refused(served: Served, certificates: Path, tmp_path: Path) -> None:
    for name in ("ca.crt", "ca.key"):
        shutil.copy(certificates / name, tmp_path)
    pki.issue(tmp_path, Role.MANAGER, "old", hours=1, now=utc_now() - timedelta(hours=2))
    with (
        EngineClient(served.control, 2.0, tls_of(tmp_path, Role.MANAGER, "old"), "s0") as client,
        pytest.raises(EngineUnreachableError),
    ):
        client.install(served.entry)
    assert groups(served.switch) == ()


def test_an_engine_is_not_another_engine(served: Served, certificates: Path) -> None:
    """The manager that means s1 does not install on s0, whoever sits at the address."""
    with (
        EngineClient(served.control, 2.0, tls_of(certificates, Role.MANAGER, "m0"), "s1") as client,
        pytest.raises(EngineUnreachableError),
    ):
        client.install(served.entry)
    assert groups(served.switch) == ()


def test_a_job_cannot_pose_as_an_engine(certificates: Path, tmp_path: Path) -> None:
    control, manager = f"unix:{tmp_path}/fake", tls_of(certificates, Role.MANAGER, "m0")
    with (
        running(_serving(tls_of(certificates, Role.JOB, "train"), "s0", control)),
        EngineClient(control, 2.0, manager) as client,
        pytest.raises(EngineUnreachableError),
    ):
        client.installed()


def test_a_renewed_certificate_is_used_without_a_restart(certificates: Path, tmp_path: Path) -> None:
    """The engine starts with a certificate that has ended; a new one is issued into the same files."""
    for name in ("ca.crt", "ca.key"):
        shutil.copy(certificates / name, tmp_path)
    pki.issue(tmp_path, Role.ENGINE, "s9", hours=1, now=utc_now() - timedelta(hours=2))
    control, manager = f"unix:{tmp_path}/s9", tls_of(certificates, Role.MANAGER, "m0")
    with running(_serving(tls_of(tmp_path, Role.ENGINE, "s9"), "s9", control)):
        with EngineClient(control, 2.0, manager, "s9") as client, pytest.raises(EngineUnreachableError):
            client.installed()
        pki.issue(tmp_path, Role.ENGINE, "s9")
        with EngineClient(control, 5.0, manager, "s9") as client:
            assert client.installed().name == "s9"


# ------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize("address", ["192.0.2.1:4700", "example.org:4700", "[::1]:4700"])
def test_plain_text_stays_on_this_machine(address: str) -> None:
    with pytest.raises(ConfigError, match=r"without TLS, expected unix:/path or 127"):
        EngineClient(address)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca\.crt: No such file or directory, expected a PEM file"):
        Tls.of_folder(tmp_path, "manager", "m0")


def test_a_key_is_not_taken_for_a_certificate(certificates: Path) -> None:
    files = tls_of(certificates, Role.MANAGER, "m0")
    with pytest.raises(ConfigError, match="not a certificate, expected PEM text"):
        Tls(files.ca, files.key, files.key).read()


def test_no_error_of_a_wrong_key_shows_it(certificates: Path, tmp_path: Path) -> None:
    files = tls_of(certificates, Role.MANAGER, "m0")
    secret = files.key.read_text().splitlines()[1]
    with pytest.raises(EpicError) as caught:
        Tls(files.ca, files.key, tmp_path / "none").read()
    assert secret not in str(caught.value)
    assert secret not in repr(files)
