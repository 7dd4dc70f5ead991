"""The `epic` command: exit codes, one-line errors, JSON, pipes, and the sub-commands of this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from epic_spec import cli, command
from epic_spec.codec import encode
from epic_spec.errors import ConfigError, MismatchError, PeerLostError, ResourceError, WireError
from epic_spec.pcap import PcapWriter
from epic_spec.tables import CAPABILITIES, CLAUSES, COUNTERS
from spec.malformed import MALFORMED
from spec.wire import cell

ENV = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
EPIC = [sys.executable, "-m", "epic_spec.command"]


@pytest.fixture
def app() -> typer.Typer:
    return command.build_app([cli.register])


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        for i in range(3):
            writer.write(encode(cell(psn=i)), i)
        writer.write(MALFORMED["RDMA WRITE"][1](), 3)
        writer.write(MALFORMED["IPv6"][1](), 4)
    return path


def failing_with(error: BaseException) -> typer.Typer:
    def register(app: typer.Typer) -> None:
        @app.command("fail")
        def fail() -> None:
            raise error

    return command.build_app([cli.register, register])


# ------------------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a.toml: port = 0, expected 1 to 9"), 2),
        (ResourceError("no room"), 2),
        (WireError("pad", "too long"), 2),
        (MismatchError("rank 1 said SUM\n rank 2 said MAX"), 1),
        (PeerLostError("rank 3 is missing", [3]), 1),
        (FileNotFoundError(2, "No such file", "x"), 2),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture
) -> None:
    assert command.run(failing_with(error), ["fail"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"epic: {' '.join(str(error).split())}\n"


def test_an_interrupt_ends_with_130(capsys: pytest.CaptureFixture) -> None:
    assert command.run(failing_with(KeyboardInterrupt()), ["fail"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        command.run(failing_with(ZeroDivisionError()), ["fail"])


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["pcap"],
        ["pcap", "--nope", "x"],
        ["spec", "nope"],
        ["--nope"],
        ["pcap", "x", "--stale", "0"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    app: typer.Typer, args: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert command.run(app, args) == 2
    err = capsys.readouterr().err
    assert err.startswith("epic: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [[], ["--help"], ["spec", "--help"], ["pcap", "-h"]])
def test_help_is_shown(app: typer.Typer, args: list[str], capsys: pytest.CaptureFixture) -> None:
    assert command.run(app, args) == 0
    assert "Usage: epic" in capsys.readouterr().out


def test_an_entry_point_that_does_not_load_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    point = command.EntryPoint("ghost", "epic_no_such_module:register", "epic.commands")
    own = command.EntryPoint("spec", "epic_spec.cli:register", "epic.commands")
    monkeypatch.setattr(command, "entry_points", lambda group: [point, own])
    assert command.run(command.build_app(), ["spec", "show", "rx_ce"]) == 0
    assert "epic: the commands of 'ghost' are left out: No module named" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------- pcap


def test_pcap_prints_one_line_a_frame(app: typer.Typer, capture: Path) -> None:
    result = CliRunner().invoke(app, ["pcap", str(capture)])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) == 1 + 5
    assert "ALLREDUCE SUM INT32 tag=5" in lines[1]
    assert "not EPIC: opcode: 0x0a" in lines[4]
    assert "not EPIC: ether_type: 0x86dd" in lines[5]


def test_pcap_json_is_one_object_a_line(app: typer.Typer, capture: Path) -> None:
    result = CliRunner().invoke(app, ["pcap", str(capture), "--json"])
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert [row["psn"] for row in rows] == [0, 1, 2, 77, None]
    assert rows[0]["descriptor"]["primitive"] == "ALLREDUCE"
    assert [bool(row.get("reason")) for row in rows] == [False, False, False, True, True]


def test_pcap_stale_distance_is_an_option(app: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        for psn in (0, 4, 1):
            writer.write(encode(cell(psn=psn)), psn)
    for stale, flags in ((3, ["out-of-order", "stale"]), (4, ["out-of-order"])):
        result = CliRunner().invoke(app, ["pcap", str(path), "--json", "--stale", str(stale)])
        assert json.loads(result.output.splitlines()[2])["flags"] == flags


def test_pcap_of_a_file_that_is_no_capture_is_one_line_and_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("hello")
    done = subprocess.run([*EPIC, "pcap", str(path)], env=ENV, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"epic: {path}: starts with 68656c6c, expected a pcap or pcapng capture\n"


def test_pcap_of_a_cut_file_prints_the_records_before_the_cut(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-5])
    done = subprocess.run(
        [*EPIC, "pcap", str(capture), "--json"], env=ENV, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 4
    assert "ends in the middle of record 5" in done.stderr


@pytest.mark.parametrize("count", [10, 20000])
def test_a_closed_pipe_is_no_traceback(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        for i in range(count):
            writer.write(encode(cell(psn=i)), i)
    reader, writer_end = os.pipe()
    with subprocess.Popen(
        [*EPIC, "pcap", str(path)], env=ENV, stdout=writer_end, stderr=subprocess.PIPE
    ) as process:
        os.close(writer_end)
        os.close(reader)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


# ------------------------------------------------------------------------------------------------- spec show


def shown(app: typer.Typer, *what: str) -> str:
    result = CliRunner().invoke(app, ["spec", "show", *what])
    assert result.exit_code == 0, result.output
    return result.output


def test_show_lists_tables_and_their_rows(app: typer.Typer) -> None:
    tables = {line.split()[0]: int(line.split()[1]) for line in shown(app).splitlines()}
    assert tables["clauses"] == len(CLAUSES)
    assert tables["capabilities"] == len(CAPABILITIES)
    for table, count in tables.items():
        assert len(shown(app, table).splitlines()) == count
        assert len(json.loads(shown(app, table, "--json"))) == count


def test_show_finds_a_row_by_name_or_id(app: typer.Typer) -> None:
    assert COUNTERS["rx_ce"] in shown(app, "rx_ce")
    assert json.loads(shown(app, "window", "--json")) == {"name": "window"} | CAPABILITIES["window"]
    assert "layer        engine" in shown(app, "drop_window")
    assert shown(app, "drops.window") == shown(app, "DROP_WINDOW")
    assert "layer        wire" in shown(app, "vlan")
    assert "psn              24 bits" in shown(app, "BTH")
    for clause, row in list(CLAUSES.items())[:3]:
        assert json.loads(shown(app, clause.lower(), "--json"))["text"] == row.text


def test_show_of_an_unknown_name_is_refused(app: typer.Typer, capsys: pytest.CaptureFixture) -> None:
    assert command.run(app, ["spec", "show", "nope"]) == 2
    assert capsys.readouterr().err.startswith("epic: 'nope' is not in the specification, expected ")
