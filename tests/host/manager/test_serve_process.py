"""`epic manager serve` as a process: ready, what it says, SIGTERM, kill -9 and the same groups again; the commands."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from epic_host.cli import register
from epic_host.grants import Grant
from epic_host.manager.client import ManagerClient
from epic_host.manager.errors import RefusedError
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_spec.command import build_app, run
from host.manager.served import spec
from host.worlds import EPIC, World, single

WAIT = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A manager process over a real switch with two hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder, tree=single(2))
        self.world.start()
        switch = self.world.switches["s0"]
        switch.call(lambda: switch.remove(1), 5.0)
        net = self.world.address["s0"].rsplit(".", 1)[0]
        links = "".join(
            f'[[links]]\nlow = "h{rank}"\nhigh = "s0"\nhigh_port = {rank}\nmtu = 65535\n' for rank in (0, 1)
        )
        (folder / "fabric.toml").write_text(
            f'[hosts.h0]\npool = "{net}.10, {net}.20"\n[hosts.h1]\npool = "{net}.11, {net}.21"\n'
            f'[engines.s0]\ncontrol = "{self.world.plan.control["s0"]}"\naddress = "{self.world.address["s0"]}"\n'
            f"{links}"
        )
        self.metrics = free_port()
        self.address = f"unix:{folder}/m.sock"
        self.file = folder / "manager.toml"
        self.file.write_text(
            f'fabric = "fabric.toml"\nlisten = ["{self.address}"]\ndatabase = "m.db"\n'
            f'admin_token = "admin.token"\nmetrics = "127.0.0.1:{self.metrics}"\n'
            # The switch is in this process, which may be busy.
            "[times]\ncall_timeout = 10.0\ninstall_timeout = 10.0\n"
        )
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*EPIC, "manager", "serve", "--config", str(self.file), "--verbose"],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("a"),
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.log()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(number)
        code = self.process.wait(WAIT)
        self.process.stdout.close()
        self.process = None
        return code

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def installed(self) -> list[int]:
        switch = self.world.switches["s0"]
        return list(switch.call(switch.groups, 5.0))

    def close(self) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)
        self.world.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests that leave it running."""
    made = Served(tmp_path_factory.mktemp("steady"))
    try:
        made.start()
        yield made
    finally:
        made.close()


def granted(stream: Any) -> Grant:
    event = next(e for e in stream if e.WhichOneof("what") == "granted")
    return Grant.from_dict(json.loads(event.granted.grant))


def test_after_kill_9_the_same_groups_are_there_and_sigterm_leaves_nothing(served: Served) -> None:
    client = ManagerClient(served.address, timeout=WAIT, patient=True)
    made = client.create_group(spec=spec(lease=30.0, deadline=30.0), request_id="r1")
    tokens = [
        client.join_group(
            group=made.group, rank=rank, join_token=made.join_token, incarnation=f"i{rank}"
        ).token
        for rank in (0, 1)
    ]
    streams = [client.watch(group=made.group, rank=rank, token=token) for rank, token in enumerate(tokens)]
    before = [granted(stream) for stream in streams]
    assert len(served.installed()) == 1
    assert served.stop(signal.SIGKILL) == -signal.SIGKILL
    served.start()
    assert [granted(stream) for stream in streams] == before
    assert client.create_group(spec=spec(lease=30.0, deadline=30.0), request_id="r1") == made
    beats = [
        pb.MemberBeat(group=made.group, rank=rank, token=token, epoch=1) for rank, token in enumerate(tokens)
    ]
    assert list(client.heartbeat(members=beats).notices) == []
    assert len(served.installed()) == 1
    for rank, token in enumerate(tokens):
        client.leave_group(group=made.group, rank=rank, token=token)
    # The end of the other kind: nothing of it is left but the store.
    assert served.stop() == 0
    for stream in streams:
        stream.close()
    client.close()
    assert [path.name for path in served.folder.iterdir() if path.name.startswith("m.")] == ["m.db"]
    assert served.log().count(f"plain text on {served.address}") == 2
    assert "Traceback" not in served.log()
    assert all(secret not in served.log() for secret in (made.join_token, *tokens))


def test_a_store_that_cannot_be_written_ends_it_with_one_line(served: Served) -> None:
    """What is true cannot be kept: it stops, instead of going on with what nobody will remember."""
    served.stop(signal.SIGKILL)
    with closing(sqlite3.connect(served.folder / "m.db")) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON out_of_use BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    served.start()
    token = (served.folder / "admin.token").read_text().strip()
    with ManagerClient(served.address, admin_token=token) as client:
        with pytest.raises(RefusedError, match="its store failed, it is shutting down") as caught:
            client.set_usable(engine="s0", usable=False)
        assert caught.value.reason == "stopping"
    assert served.process is not None
    assert served.process.stdout is not None
    assert served.process.wait(WAIT) == 2
    served.process.stdout.close()
    served.process = None
    lines = [line for line in served.log().splitlines() if not line.startswith("manager: plain text")]
    assert len(lines) == 1
    assert lines[0].startswith("epic: manager: StoreError: store ")
    assert "disk is full" in lines[0]


# ---------------------------------------------------------------------------------------------- commands


class Epic:
    """The command, in this process: starting one takes longer than what it does."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it prints: on stderr where it ends with another code than 0."""
        assert run(build_app([register]), arguments) == code
        out, err = self.capsys.readouterr()
        return err if code else out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def epic(capsys: pytest.CaptureFixture[str]) -> Epic:
    return Epic(capsys)


def test_the_commands_show_and_end_what_is_there(
    steady: Served, epic: Epic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPIC_MANAGER", steady.address)
    monkeypatch.setenv("EPIC_ADMIN_TOKEN_FILE", str(steady.folder / "admin.token"))
    token = steady.folder / "join.token"
    create = ("group", "create", "--hosts", "h0,h1", "--name", "mine", "--lease", "60")
    assert epic.json(*create, "--token-file", str(token)) == {"group": "mine", "token_file": str(token)}
    assert token.stat().st_mode & 0o777 == 0o600
    with ManagerClient(steady.address) as client:
        show: dict[str, Any] = {"group": "mine", "join_token": token.read_text().strip()}
        tokens = [client.join_group(**show, rank=rank, incarnation=f"i{rank}").token for rank in (0, 1)]
        stream = client.watch(group="mine", rank=0, token=tokens[0])
        granted(stream)
        stream.close()
        beat = {"group": "mine", "epoch": 1, "delivered": 900, "payload_bytes": 1 << 20, "retransmissions": 3}
        client.heartbeat(
            members=[
                pb.MemberBeat(rank=0, token=tokens[0], contributed=1000, **beat),
                pb.MemberBeat(rank=1, token=tokens[1], contributed=903, **beat),
            ]
        )
    (listed,) = (group for group in epic.json("group", "list") if group["group"] == "mine")
    assert (listed["group"], listed["state"], listed["path"]) == ("mine", "active", "network")
    assert [member["payload_bytes"] for member in listed["members"]] == [1 << 20] * 2
    explained = epic.json("explain", "mine")
    assert explained["decisions"][0]["reason"] == "granted"
    assert explained["late"] == {"1": 97}
    text = epic("explain", "mine")
    assert "because granted" in text
    assert "late: rank 1 by 97 cells" in text
    assert "s0" in epic("group", "show", "mine")
    top = epic.json("top", "--once", "--interval", "0.1")
    (row,) = (row for row in top["groups"] if row["group"] == "mine")
    assert (row["retransmissions"], row["gbps"], row["delivered"]) == (6, None, 900)
    assert top["engines"][0]["groups_used"] == 1
    assert "mine" in epic("top", "--once", "--interval", "0.1")
    doctor = epic.json("doctor", "--only", "manager", "--only", "icrc")
    assert {finding["status"] for finding in doctor} == {"ok"}
    assert "is not known" in epic("explain", "yours", code=2)
    assert epic("manager", "use", "s0", "--out") == "s0: out of use\n"
    assert {engine["state"] for engine in epic.json("top", "--once", "--interval", "0.1")["engines"]} == {
        "out"
    }
    assert epic("manager", "use", "s0") == "s0: in use\n"
    assert epic("group", "destroy", "mine", "--token-file", str(token)) == "mine: ended\n"
    assert epic.json("group", "show", "mine")["state"] == "ended"
    assert "path = 'moon', expected one of" in epic(
        "group", "create", "--hosts", "h0", "--path", "moon", code=2
    )


def test_metrics_are_what_prometheus_reads(steady: Served) -> None:
    with ManagerClient(steady.address) as client:
        client.create_group(spec=spec(name="counted"))
        with pytest.raises(RefusedError):
            client.explain(group="none")
    url = f"http://127.0.0.1:{steady.metrics}/metrics"
    families = {
        family.name: family
        for family in text_string_to_metric_families(urllib.request.urlopen(url, timeout=10).read().decode())
    }

    def value(name: str, **labels: str) -> float:
        (sample,) = [s for s in families[name].samples if s.labels == labels]
        return sample.value

    assert value("epic_groups", state="forming", path="none") >= 1
    assert value("epic_engine_up", engine="s0") == 1
    assert value("epic_manager_calls", method="CreateGroup", code="OK") >= 1
    assert value("epic_manager_refusals", method="Explain", reason="not_found") >= 1
    assert value("epic_manager_engine_calls", kind="capabilities", outcome="ok") == 1


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        (
            "fabric.toml",
            "none.toml",
            "none.toml: No such file or directory, expected the TOML file of a fabric",
        ),
        ("m.sock", "none/m.sock", "expected one for the socket"),
        ("metrics", "metric", "unknown key 'metric'"),
        ("m.db", "fabric.toml", "expected a manager's database or a new file"),
    ],
)
def test_what_it_cannot_start_with_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], was: str, becomes: str, says: str
) -> None:
    served = Served(tmp_path)
    try:
        served.file.write_text(served.file.read_text().replace(was, becomes, 1))
        error = Epic(capsys)("manager", "serve", "--config", str(served.file), "--detach", code=2)
        lines = [line for line in error.splitlines() if not line.startswith("manager: plain text")]
        assert len(lines) == 1
        assert lines[0].startswith("epic: ")
        assert says in lines[0]
    finally:
        served.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("group", "list", "--manager", ""), "no manager named, expected --manager ADDRESS or EPIC_MANAGER"),
        (("group", "list", "--manager", "192.0.2.1:1"), "without TLS, expected unix:/path"),
        (
            ("group", "list", "--manager", "unix:/m", "--tls", "/nowhere", "--as", "alice"),
            "--as = 'alice', expected ROLE/NAME",
        ),
        (
            ("top", "--once", "--manager", "unix:/m", "--admin-token", "/nowhere"),
            "/nowhere: No such file or directory, expected a file",
        ),
        (("explain", "x", "--manager", "unix:/nowhere"), "expected a running manager"),
        (("doctor", "--only", "weather"), "--only = 'weather', expected one of link"),
        (("doctor", "--need", "weather"), "--need = 'weather', expected one of"),
    ],
)
def test_a_command_that_cannot_be_is_one_line(epic: Epic, arguments: tuple[str, ...], says: str) -> None:
    error = epic(*arguments, code=2)
    assert error.startswith("epic: ")
    assert error.count("\n") == 1
    assert says in error


def test_a_doctor_without_a_manager_at_the_address_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["doctor", "--only", "manager", "--manager", f"unix:{tmp_path}/none", "--json"]
    assert run(build_app([register]), arguments) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["status"] == "fail"
    assert finding["remedy"] == "epic manager serve --config manager.toml"
