"""`epic doctor`: each check is well where all is well, fails where it is not, and says what to do."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from epic_host import checkup
from epic_host.checkup import CHECKS, EXAMPLES, TOOLS, Finding, Patient
from epic_host.cli import register
from epic_host.security import pki
from epic_host.security.roles import Role, utc_now
from epic_spec import codec
from epic_spec.command import build_app, run
from epic_spec.errors import ConfigError
from epic_spec.loader import SPEC_DIR
from host.worlds import subnet


class System:
    """A folder that looks like the files of a system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.interface("lo", operstate="unknown", mtu="65536", flags="0x9")
        self.interface("eth0", operstate="up", carrier="1", mtu="1500", flags="0x1003", speed="10000")
        self.write("proc/net/route", "Iface Destination\neth0 00000000\neth1 0000000A\n")
        for name in ("rmem_max", "wmem_max"):
            self.write(f"proc/sys/net/core/{name}", str(1 << 26))
        self.write("proc/self/status", "Name: x\nCapEff:\t0000000000000000\n")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def interface(self, name: str, **files: str) -> None:
        for file, text in files.items():
            self.write(f"sys/class/net/{name}/{file}", text)

    def look(self, check: str, **patient: Any) -> list[Finding]:
        return list(CHECKS[check](Patient(system=self.folder, **patient)))


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def words(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.thing, finding.status) for finding in findings]


# ------------------------------------------------------------------------------------------------ network


def test_links_that_are_up_are_well(system: System) -> None:
    assert words(system.look("link")) == [("eth0", "ok"), ("lo", "ok")]
    assert "10000 Mbit/s" in system.look("link")[0].text


def test_a_link_that_is_down_or_not_there_is_told_from_one_without_a_carrier(system: System) -> None:
    system.interface("down0", operstate="down", flags="0x1002")
    system.interface("dark0", operstate="down", carrier="0", flags="0x1003")
    down, dark, none = system.look("link", interfaces=("down0", "dark0", "none0"))
    assert (down.status, down.remedy) == ("fail", "ip link set down0 up")
    assert (dark.status, "no carrier" in dark.text) == ("fail", True)
    assert (none.status, none.remedy) == ("fail", "one of dark0, down0, eth0, lo")


@pytest.mark.parametrize(("payload", "status"), [(1408, "ok"), (1440, "ok"), (1472, "fail"), (4096, "fail")])
def test_the_mtu_must_hold_the_payload(system: System, payload: int, status: str) -> None:
    (finding,) = system.look("mtu", interfaces=("eth0",), payload=payload)
    assert finding.status == status
    assert "payloads of up to 1408 bytes" in finding.text
    if status == "fail":
        assert f"ip link set eth0 mtu {payload + 60}" in finding.remedy


def test_the_mtu_to_a_peer_is_that_of_its_route() -> None:
    (finding,) = [f for f in CHECKS["mtu"](Patient(peers=("127.0.0.1",))) if f.thing == "to 127.0.0.1"]
    assert finding.status == "ok"
    (finding,) = CHECKS["mtu"](Patient(interfaces=("none",), peers=("127.0.0.1",), payload=65536))
    assert finding.status == "fail"


def test_an_address_of_another_host_is_found(system: System) -> None:
    mine, theirs = system.look("addresses", addresses=("127.0.0.1", "192.0.2.1"))
    assert (mine.status, theirs.status) == ("ok", "fail")
    assert theirs.remedy == "ip address add 192.0.2.1/… dev INTERFACE"


def test_a_port_in_use_names_its_holder() -> None:
    address = f"{subnet()}.9"
    (free,) = CHECKS["port"](Patient(addresses=(address,)))
    assert free.status == "ok"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind((address, 4791))
        (taken,) = CHECKS["port"](Patient(addresses=(address,)))
    assert taken.status == "fail"
    assert "(process " in taken.text


# -------------------------------------------------------------------------------------------------- icrc


def test_the_examples_are_those_of_the_specification() -> None:
    blocks = (SPEC_DIR / "epic.md").read_text().split("```frame\n")[1:]
    frames = ["".join(block.split("```")[0].split()) for block in blocks]
    assert list(EXAMPLES) == frames[:3]


def test_a_codec_with_another_crc_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {finding.status for finding in checkup.icrc(Patient())} == {"ok"}
    right = codec.icrc
    monkeypatch.setattr(codec, "icrc", lambda frame: bytes(4))
    assert {finding.status for finding in checkup.icrc(Patient())} == {"fail"}
    monkeypatch.setattr(codec, "icrc", right)
    monkeypatch.setattr(codec, "decode", lambda frame, icrc: None)
    assert [f.text for f in checkup.icrc(Patient())] == ["a frame with a wrong bit is taken"] * 3


# ------------------------------------------------------------------------------------------------ system


def test_small_buffers_are_found_unless_this_user_may_go_beyond(system: System) -> None:
    system.write("proc/sys/net/core/rmem_max", "212992")
    receive, send = system.look("buffers")
    assert (receive.status, send.status) == ("fail", "ok")
    assert receive.remedy.startswith("sysctl net.core.rmem_max=")
    system.write("proc/self/status", "CapEff:\t0000000000001000")
    assert system.look("buffers")[0].status == "ok"


def test_raw_sockets_are_needed_only_where_they_are(system: System) -> None:
    assert [system.look("frames")[0].status] == ["skip"]
    assert [system.look("frames", needed=frozenset({"frames"}))[0].status] == ["fail"]
    system.write("proc/self/status", "CapEff:\t0000000000002000")
    assert [system.look("frames")[0].status] == ["ok"]


def test_a_clock_that_nobody_keeps_fails_where_certificates_are_used(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "_adjtimex", lambda: (True, ""))
    assert system.look("time")[0].status == "skip"
    assert system.look("time", certificates=lambda: iter(()))[0].status == "fail"
    monkeypatch.setattr(checkup, "_adjtimex", lambda: (False, ""))
    assert system.look("time")[0].status == "ok"
    monkeypatch.setattr(checkup, "_adjtimex", lambda: (False, "not permitted"))
    assert system.look("time")[0].status == "skip"


def test_tools_that_are_missing_or_do_not_run_are_found(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("ip", "echo 'ip 1.2'"), ("java", "echo broken >&2; exit 3")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    found = {finding.thing: finding for finding in system.look("tools", needed=frozenset({"make"}))}
    assert (found["ip"].status, found["ip"].text) == ("ok", "ip 1.2")
    assert (found["java"].status, found["java"].text) == ("fail", "ends with 3: broken")
    assert (found["make"].status, found["make"].remedy) == ("fail", "apt-get install make")
    assert found["iverilog"].status == "skip"
    assert set(found) == {tool[0] for tool in TOOLS}


def test_an_error_of_the_manager_is_a_finding(system: System) -> None:
    def fails() -> Iterator[Finding]:
        raise ConfigError("no such thing")
        yield

    (finding,) = system.look("manager", ask_manager=fails)
    assert (finding.status, finding.text) == ("fail", "no such thing")
    assert system.look("manager")[0].status == "skip"


# ----------------------------------------------------------------------------------------------- command


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> list[dict[str, str]]:
    assert run(build_app([register]), ["doctor", *arguments, "--json"]) == code
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


def test_the_exit_code_says_whether_something_failed(capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--only", "icrc", "--only", "addresses")
    assert {f["status"] for f in doctor(capsys, *only, code=0)} == {"ok"}
    found = doctor(capsys, *only, "--address", "192.0.2.1", code=1)
    assert [f["status"] for f in found] == ["ok", "ok", "ok", "fail"]


def test_a_line_for_people_has_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build_app([register]), ["doctor", "--only", "link", "--interface", "no[such]"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fail  link no[such]: no such interface; remedy: one of ")
    assert lines[-1] == "1 looked at, 1 failed"


def test_certificates_are_looked_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pki.init(tmp_path / "a")
    pki.init(tmp_path / "b")
    for folder in ("a", "b"):
        pki.issue(tmp_path / folder, Role.NODE, "h0")
    pki.issue(tmp_path / "a", Role.NODE, "old", hours=1, now=utc_now() - timedelta(hours=2))

    def found(name: str, folder: str, code: int) -> list[str]:
        arguments = ("--only", "certificates", "--tls", str(tmp_path / folder), "--as", f"node/{name}")
        return [f["status"] for f in doctor(capsys, *arguments, code=code)]

    assert found("h0", "a", 0) == ["ok"] * 3
    assert found("old", "a", 1) == ["fail", "ok", "ok"]
    assert found("none", "a", 1) == ["fail"]
    shutil.copy(tmp_path / "a" / "ca.crt", tmp_path / "b" / "ca.crt")
    assert found("h0", "b", 1) == ["ok", "fail", "ok"]
    shutil.copy(tmp_path / "b" / "node-h0.key", tmp_path / "a" / "node-h0.key")
    (tmp_path / "a" / "node-h0.key").chmod(0o640)
    assert found("h0", "a", 1) == ["ok", "fail", "fail"]


def test_the_pki_commands_make_what_the_doctor_finds_well(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = str(tmp_path / "pki")
    app = build_app([register])
    assert run(app, ["pki", "init", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ca"] == f"{folder}/ca.crt"
    assert (
        run(app, ["pki", "issue", folder, "--role", "job", "--name", "train", "--hours", "2", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["uri"] == "epic://job/train"
    look = ("--only", "certificates", "--tls", folder, "--as", "job/train")
    assert {f["status"] for f in doctor(capsys, *look, code=0)} == {"ok"}
    for arguments, says in (
        (["pki", "init", folder], "expected a folder without an authority"),
        (
            ["pki", "issue", folder, "--role", "king", "--name", "x"],
            "--role = 'king', expected one of node, job",
        ),
        (["pki", "issue", folder, "--role", "job", "--name", "../x"], "name = '../x', expected 1 to 63"),
    ):
        assert run(app, arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert says in error
