"""The command line: what cannot be is refused in one line, exit code 2, before anything is started."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from epic_spec import command as epic_command
from epic_spec.tables import UDP_PORT
from epic_testbed import cli, registry
from testbed.helpers import epic, subnet


def ends(*args: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error of `epic`, in this process; nothing may be on standard output."""
    code = epic_command.run(epic_command.build_app([cli.register]), args)
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


BAD = [
    (("--mode", "4"), "mode = 4, expected 1, 2 or 3"),
    (("--mode", "x"), "mode"),
    (("--ranks", "0"), "ranks = 0, expected 1 to 64"),
    (("--ranks", "65"), "ranks = 65, expected 1 to 64"),
    (("--topology", "nowhere.toml"), "topology 'nowhere.toml' not found"),
    (("--collective", "all_reduce,gossip"), "collective = 'gossip', expected all or some of all_reduce"),
    (("--op", "product"), "op = 'product', expected all or some of sum, max, min"),
    (("--dtype", "complex64"), "dtype = 'complex64', expected all or some of"),
    (("--size", "1X"), "size = '1x', expected bytes"),
    (("--size", "-1"), "size = '-1', expected bytes"),
    (("--size", "2G"), "expected bytes up to 1G"),
    (("--iterations", "0"), "iterations = 0, expected 1 to 10000"),
    (("--loss", "1.5"), "loss = 1.5, expected a probability from 0 to 1"),
    (("--loss", "1"), "loss = 1.0, expected less than 1"),
    (("--corrupt", "nan"), "corrupt = nan, expected a probability"),
    (("--duplicate", "-0.1"), "duplicate = -0.1, expected a probability"),
    (("--seed", "-1"), "seed = -1, expected 0 to 4294967295"),
    (("--mtu", "10"), "mtu = 10, expected 68 to 65535 bytes"),
    (("--mtu", "100"), "mtu = 100 bytes, expected at least 304"),
    (("--payload", "100"), "payload_bytes = 100, expected a multiple of 64"),
    (("--payload", "2048", "--mtu", "1500"), "payload = 2048 bytes, expected at most 1452"),
    (("--window", "3"), "window = 3, expected a power of two"),
    (("--window", "0"), "window = 0, expected a whole number from 1"),
    (("--subnet", "10.0.0.0/24"), "expected one inside 127.0.0.0/8"),
    (("--deadline", "0"), "deadline = 0.0 s, expected 0.1 to 3600"),
    (("--deadline", "inf"), "deadline = inf s, expected 0.1 to 3600"),
    (("--ack-reflection", "--mode", "1"), "ack_reflection with mode = 1, expected mode 3"),
    (("--icrc", "none", "--corrupt", "0.1"), "with icrc = none, expected icrc = full"),
    (("--icrc", "half"), "icrc"),
    (("--byte-order", "middle"), "byte-order"),
    (("--transport", "smoke"), "transport"),
    (("--switch", "hard"), "switch"),
    (("--kill", "rank:9@1"), "rank '9', expected 0 to 3"),
    (("--kill", "switch:s9@1"), "switch 's9', expected one of s0, s1, s2"),
    (("--kill", "rank:1"), "kill = 'rank:1', expected rank:NUMBER@SECONDS"),
    (("--silent", "switch:s0"), "silent = 'switch:s0', expected rank:NUMBER"),
    (("--op", "max", "--dtype", "fp64"), "op = max, dtype = fp64, mode = 3: group 1: MAX of FP64 cannot"),
    (("--datapath", "fast", "--mode", "1"), "datapath = fast with mode = 1, expected reference"),
    (("--datapath", "fast", "--trace", "/tmp/t"), "datapath = fast with trace, expected reference"),
    (("--datapath", "slow"), "'slow' is not one of 'reference', 'fast'"),
    (("--nonsense",), "nonsense"),
    (("extra",), "extra"),
]


@pytest.mark.parametrize(("options", "expected"), BAD, ids=[" ".join(options) for options, _ in BAD])
def test_impossible_options_are_refused(
    options: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {run.id for run in registry.runs()}
    code, err = ends("run", *options, capsys=capsys)
    assert code == 2
    assert expected.lower() in err.lower()
    assert len(err.splitlines()) == 1
    assert {run.id for run in registry.runs() if run.owner and run.owner.pid == os.getpid()} <= before


def test_a_port_in_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    where = subnet()
    address = where.replace("0/24", "101")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((address, UDP_PORT))
        code, err = ends("run", "--subnet", where, capsys=capsys)
    assert code == 2
    assert err.startswith(f"epic: {address}:4791 for switch s0 is in use, expected it free")


def test_a_capture_directory_that_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code, err = ends("run", "--subnet", subnet(), "--capture", str(tmp_path / "file" / "x"), capsys=capsys)
    assert code == 2
    assert "expected a directory that can be made" in err


def test_netns_without_root_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, err = ends("run", "--transport", "netns", capsys=capsys)
    assert code == 2
    assert "transport netns: running as uid 1000, expected root" in err


def test_netns_without_iproute2_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    code, err = ends("run", "--transport", "netns", capsys=capsys)
    assert code == 2
    assert "command 'ip' not found, expected iproute2" in err


def test_down_of_a_testbed_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = ends("testbed", "down", "zzz", capsys=capsys)
    assert code == 2
    assert "testbed 'zzz' is not up" in err


def test_the_installed_command_says_it_the_same_way() -> None:
    done = epic("run", "--ranks", "99")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "epic: ranks = 99, expected 1 to 64\n"


def test_status_of_nothing_or_something_is_json() -> None:
    done = epic("testbed", "status", "--json")
    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout)["runs"], list)
