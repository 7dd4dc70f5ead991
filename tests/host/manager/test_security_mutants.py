"""Each check of security is what stops its attack: without the check (a mutant of the code) the attack gets through."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from epic_host.control import ControlServer, EngineClient
from epic_host.manager import access, service, watch
from epic_host.manager.client import ManagerClient
from epic_host.manager.effects import Prepare
from epic_host.manager.limits import RateLimit
from epic_host.manager.load import LightEngine
from epic_host.security import pki, roles
from epic_host.security import server as security_server
from epic_host.security.roles import Caller, Identity, Role, utc_now
from epic_host.security.tls import Tls, server_name
from epic_spec.errors import EpicError
from host.manager.served import Running, config_of, managed, spec

NAMES = (
    (Role.MANAGER, "m0"),
    (Role.ADMIN, "alice"),
    (Role.JOB, "train"),
    (Role.JOB, "spy"),
    (Role.NODE, "h0"),
    (Role.ENGINE, "s0"),
)


class Scene:
    """A folder, an authority, and managers on demand."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.folder = folder
        self.patch = patch
        self.caplog = caplog

    def files(self, role: Role, name: str) -> Tls:
        pki_folder = self.folder / "pki"
        if not pki_folder.exists():
            pki.init(pki_folder)
            for some_role, some_name in NAMES:
                pki.issue(pki_folder, some_role, some_name)
        return Tls.of_folder(pki_folder, role, name)

    def manager(self, role: Role | None = Role.MANAGER, name: str = "m0", **changes: Any) -> Any:
        """A manager with the certificate of a role and name; None: in plain text."""
        if role is not None:
            files = self.files(role, name)
            tls = {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)}
            changes["tls"] = tls
        return managed(config_of(self.folder, **changes))

    def client(self, running: Running, role: Role, name: str) -> ManagerClient:
        return running.client(credentials=self.files(role, name), timeout=5.0)


# ------------------------------------------------------------------------------------------------ attacks


def a_node_makes_a_group(scene: Scene) -> None:
    with scene.manager() as running, scene.client(running, Role.NODE, "h0") as node:
        node.create_group(spec=spec())


def a_node_registers_another_host(scene: Scene) -> None:
    with scene.manager() as running, scene.client(running, Role.NODE, "h0") as node:
        node.register_node(host="h1")


def a_job_ends_anothers_group_with_its_token(scene: Scene) -> None:
    with scene.manager() as running:
        with scene.client(running, Role.JOB, "train") as owner:
            made = owner.create_group(spec=spec())
        with scene.client(running, Role.JOB, "spy") as spy:
            spy.destroy_group(group=made.group, token=made.join_token)


def a_certificate_is_used_after_its_end(scene: Scene) -> None:
    with scene.manager() as running, scene.client(running, Role.JOB, "train") as client:
        client.list_groups()
        scene.patch.setattr(security_server, "utc_now", lambda: utc_now() + timedelta(days=2))
        client.list_groups()


def an_admin_token_is_guessed(scene: Scene) -> None:
    with scene.manager(None) as running, running.client(admin_token="guess" * 9) as client:
        client.set_usable(engine="s0", usable=False)


def anyone_is_admin_in_plain_text(scene: Scene) -> None:
    with scene.manager(None) as running, running.client() as client:
        client.set_usable(engine="s0", usable=False)


def a_job_poses_as_the_manager(scene: Scene) -> None:
    with scene.manager(Role.JOB, "spy") as fake, scene.client(fake, Role.JOB, "train") as victim:
        victim.create_group(spec=spec())


def a_client_asks_without_end(scene: Scene) -> None:
    limits = {"requests_per_second": 5.0, "burst": 1.0}
    with scene.manager(limits=limits) as running, scene.client(running, Role.JOB, "spy") as client:
        for _ in range(50):
            client.list_groups()


def a_reader_that_never_reads_fills_the_memory(scene: Scene) -> None:
    watcher = watch.Watcher("g", "c", 10, ())
    for number in range(1000):
        watcher.push(Prepare("g", number, "", ""))
    if watcher.refusal is not None:
        raise watcher.refusal


def a_job_installs_on_an_engine(scene: Scene) -> None:
    control = f"unix:{scene.folder}/s0"
    server = ControlServer(control, LightEngine("s0"), scene.files(Role.ENGINE, "s0"))
    try:
        with EngineClient(control, 5.0, scene.files(Role.JOB, "spy"), "s0") as client:
            client.installed()
    finally:
        server.close()


def a_key_is_read_by_others(scene: Scene) -> None:
    mode = stat.S_IMODE(scene.files(Role.ADMIN, "alice").key.stat().st_mode)
    if not mode & 0o077:
        raise EpicError("others may not read it")


def a_token_is_found_in_the_log(scene: Scene) -> None:
    scene.caplog.set_level(logging.DEBUG)
    with scene.manager(None) as running, running.client() as client:
        made = client.create_group(spec=spec())
        client.join_group(group=made.group, rank=0, join_token=made.join_token, incarnation="x")
    if made.join_token not in scene.caplog.text:
        raise EpicError("no token is in the log")


def a_certificate_names_two_holders(scene: Scene) -> None:
    """The authority was made to sign a job's certificate with an admin's URI beside it."""
    names = pki._names

    def two(role: Role, name: str) -> x509.SubjectAlternativeName:
        extra = x509.UniformResourceIdentifier("epic://admin/root")
        return x509.SubjectAlternativeName([extra, *names(role, name)])

    with scene.manager() as running:
        scene.patch.setattr(pki, "_names", two)
        pki.issue(scene.folder / "pki", Role.JOB, "spy")
        with scene.client(running, Role.JOB, "spy") as client:
            client.set_usable(engine="s0", usable=False)


# ------------------------------------------------------------------------------------------------ mutants


def roles_table(patch: pytest.MonkeyPatch) -> None:
    everyone = {method: frozenset(Role) for method in roles.MANAGER_METHODS}
    patch.setattr(access, "MANAGER_METHODS", everyone)


def need_host(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access.Access, "need_host", staticmethod(lambda caller, host: None))


def own_job(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Caller, "job", property(lambda self: ""))


def own_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Identity, "check", lambda self, now: None)


def token_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access.hmac, "compare_digest", lambda a, b: True)


def need_admin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access.Access, "need_admin", staticmethod(lambda caller, what: None))


def server_names(patch: pytest.MonkeyPatch) -> None:
    def names(role: Role, name: str) -> x509.SubjectAlternativeName:
        return x509.SubjectAlternativeName(
            [x509.UniformResourceIdentifier(roles.uri(role, name)), x509.DNSName(server_name("manager"))]
        )

    # Of every certificate, and every one is a server's.
    patch.setattr(pki, "_names", names)
    patch.setattr(pki, "_SERVERS", frozenset(Role))


def token_bucket(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RateLimit, "admits", lambda self, client, now: True)


def bounded_queue(patch: pytest.MonkeyPatch) -> None:
    made = watch.Watcher.__init__
    patch.setattr(
        watch.Watcher,
        "__init__",
        lambda self, group, client, bound, first: made(self, group, client, 1 << 30, first),
    )


def engine_roles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("epic_host.control.server.ENGINE_ROLES", frozenset(Role))


def key_mode(patch: pytest.MonkeyPatch) -> None:
    write = pki._write
    patch.setattr(pki, "_write", lambda path, content, mode: write(path, content, 0o644))


def quiet_log(patch: pytest.MonkeyPatch) -> None:
    joined = service.Service.JoinGroup

    async def chatty(self: Any, request: Any, context: Any) -> Any:
        service.log.info("%s", request)
        return await joined(self, request, context)

    patch.setattr(service.Service, "JoinGroup", chatty)


def one_holder(patch: pytest.MonkeyPatch) -> None:
    def first(certificate: bytes) -> Identity:
        parsed = x509.load_pem_x509_certificate(certificate)
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        role, name = roles.parse_uri(names.get_values_for_type(x509.UniformResourceIdentifier)[0])
        return Identity(role, name, parsed.not_valid_before_utc, parsed.not_valid_after_utc)

    patch.setattr(security_server, "identity", first)


CASES: tuple[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[Scene], None]], ...] = (
    (roles_table, a_node_makes_a_group),
    (need_host, a_node_registers_another_host),
    (own_job, a_job_ends_anothers_group_with_its_token),
    (own_time, a_certificate_is_used_after_its_end),
    (token_compared, an_admin_token_is_guessed),
    (need_admin, anyone_is_admin_in_plain_text),
    (server_names, a_job_poses_as_the_manager),
    (token_bucket, a_client_asks_without_end),
    (bounded_queue, a_reader_that_never_reads_fills_the_memory),
    (engine_roles, a_job_installs_on_an_engine),
    (key_mode, a_key_is_read_by_others),
    (quiet_log, a_token_is_found_in_the_log),
    (one_holder, a_certificate_names_two_holders),
)


@pytest.fixture
def scene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Scene]:
    roles.identity.cache_clear()
    yield Scene(tmp_path, monkeypatch, caplog)
    roles.identity.cache_clear()


@pytest.mark.parametrize(("mutant", "attack"), CASES, ids=lambda case: case.__name__)
def test_the_attack_is_stopped_and_without_the_check_it_is_not(
    scene: Scene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
    attack: Callable[[Scene], None],
) -> None:
    scene.folder = tmp_path / "right"
    scene.folder.mkdir()
    with monkeypatch.context() as patch, pytest.raises(EpicError):
        scene.patch = patch
        attack(scene)
    scene.folder = tmp_path / "mutant"
    scene.folder.mkdir()
    with monkeypatch.context() as patch:
        scene.patch = patch
        mutant(patch)
        attack(scene)
