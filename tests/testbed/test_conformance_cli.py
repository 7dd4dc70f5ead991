"""`epic conformance`, `list` and `merge` from the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from epic_spec import command
from epic_testbed import dut
from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance import cli, runner
from epic_testbed.conformance.case import all_cases
from epic_testbed.conformance.cli import adapter_options
from epic_testbed.conformance.display import Display
from epic_testbed.conformance.results import Run
from testbed import broken_duts as duts

CASE = "m3_slots/late-duplicate-of-an-older-cell"
DEVICES = {
    "reference": "epic_testbed.adapters.reference:ReferenceDut",
    "garbage": "testbed.broken_duts:TalksGarbage",
    "dead": "testbed.broken_duts:StaysDead",
    "blocked": "testbed.broken_duts:Blocks",
    "ported": f"{__name__}:Ported",
}


class Ported(ReferenceDut):
    """Takes options as an adapter of real ports does."""

    def __init__(self, mode: int, *, port: dict[int, str], hook: str = "") -> None:
        super().__init__(mode, name=f"{port} {hook}")


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices by name, whatever is installed."""
    points = [EntryPoint(name, value, "epic.duts") for name, value in DEVICES.items()]
    monkeypatch.setattr(dut, "entry_points", lambda group: points if group == "epic.duts" else [])
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.2)
    yield


def epic(*words: str) -> int:
    """The exit code of `epic conformance …`."""
    return command.run(command.build_app([cli.register]), ["conformance", *words])


def on(device: str, *words: str) -> int:
    return epic("--dut", device, "--mode", "3", *words)


# -------------------------------------------------------------------------------------------------------- run


def test_a_device_that_conforms_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert on("reference", "--case", "m3_slots/*") == 0
    out = capsys.readouterr().out
    assert f"pass {CASE}\n" in out
    assert out.splitlines()[-1].startswith("Passed: ")


def test_a_device_that_does_not_conform_exits_1_and_says_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert on("garbage", "--case", CASE, "--seed", "9") == 1
    out = capsys.readouterr().out
    assert f"fail {CASE}: " in out
    assert f"  replay   epic conformance --dut garbage --mode 3 --case {CASE} --seed 9\n" in out
    assert out.splitlines()[-1].startswith("Failed: 1 of 1 cases")


def test_json_is_one_object_on_stdout_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert on("reference", "--clause", "EPIC-M3-02", "--seed", "3", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["clauses"] == {"EPIC-M3-02": "pass"}
    assert (data["dut"], data["mode"], data["seed"], data["failed"]) == ("reference", 3, 3, 0)
    assert data["passed"] == len(data["cases"]) > 0


def test_the_same_seed_finds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        assert on("garbage", "--case", "m3_slots/*", "--seed", "4", "--json") == 1
        found.append(json.loads(capsys.readouterr().out) | {"seconds": 0})
    assert found[0] == found[1]


@pytest.mark.parametrize("device", ["garbage", "dead", "blocked"])
def test_a_device_that_misbehaves_gives_a_report(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quick.toml").write_text("[timeouts]\ncase = 0.3\n")
    words = ["--deviations", str(tmp_path / "quick.toml"), "--report", str(tmp_path / "report")]
    assert on(device, "--case", "m3_slots/*", *words) == 1
    assert {"report.html", "report.json", "junit.xml"} <= {p.name for p in (tmp_path / "report").iterdir()}
    data = json.loads((tmp_path / "report/report.json").read_text())
    assert data["failed"] == len(data["cases"])
    assert data["deviations"] == ["timeouts.case = 0.3"]
    assert f"report: {tmp_path}/report/report.html" in capsys.readouterr().out


def test_ports_and_options_reach_the_adapter_and_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--port", "0=veth0", "--port", "1=veth1", "--option", "hook=./load it"]
    assert on("ported", "--case", CASE, *words, "--json") == 0
    replay = json.loads(capsys.readouterr().out)["cases"][CASE]["replay"]
    assert "--port 0=veth0 --port 1=veth1 --option 'hook=./load it'" in replay


def test_options_become_keyword_arguments() -> None:
    assert adapter_options([], []) == {}
    assert adapter_options(["0=veth0", "12=eth1"], ["hook=a=b", "empty="]) == {
        "port": {0: "veth0", 12: "eth1"}, "hook": "a=b", "empty": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--dut NAME and --mode M missing"),
        (["--dut", "reference"], "--mode M missing"),
        (["--dut", "reference", "--mode", "4"], "--mode 4, expected 1, 2 or 3"),
        (["--dut", "reference", "--mode", "x"], "--mode"),
        (["--dut", "nothing", "--mode", "3"], "dut 'nothing': unknown, expected one of blocked, dead, "),
        (["--dut", "reference", "--mode", "3", "--seed", "-1"], "--seed -1"),
        (["--dut", "reference", "--mode", "3", "--case", "no/such"], "no case for mode 3"),
        (["--dut", "reference", "--mode", "3", "--clause", "M3-02"], "clause 'M3-02': unknown"),
        (["--dut", "reference", "--mode", "3", "--deviations", "/no/such"], "/no/such: No such file"),
        (
            ["--dut", "reference", "--mode", "3", "--report", "/dev/null/x"],
            "expected a directory for the report",
        ),
        (["--dut", "ported", "--mode", "3", "--port", "veth0"], "--port 'veth0', expected N=NAME"),
        (["--dut", "ported", "--mode", "3", "--port", "0=a", "--port", "00=b"], "port 0 is given twice"),
        (["--dut", "ported", "--mode", "3", "--option", "hook"], "--option 'hook', expected KEY=VALUE"),
        (["--dut", "ported", "--mode", "3", "--option", "a=1", "--option", "a=2"], "given twice"),
        (["--dut", "ported", "--mode", "3"], "option 'port' is missing, its options are port, hook"),
        (
            ["--dut", "reference", "--mode", "3", "--option", "x=1"],
            "no option 'x', its options are engine, name",
        ),
        (["list", "--mode", "0"], "--mode 0"),
        (["list", "--side", "left"], "--side 'left', expected engine or agent"),
        (["merge", "/no/such", "--report", "x"], "/no/such/report.json: No such file"),
        (["merge"], "Missing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epic(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


# ---------------------------------------------------------------------------------------------- list and merge


def test_the_list_has_every_case_of_a_mode_and_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert epic("list", "--mode", "3", "--side", "engine", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["cases"]
    expected = [c.name for c in all_cases() if 3 in c.modes and c.side == "engine"]
    assert [r["name"] for r in rows] == expected
    assert all(r["procedure"] and r["clauses"] for r in rows)


def test_the_list_is_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert epic("list") == 0
    out = capsys.readouterr().out
    assert "m3_slots/" in out
    assert f"{len(all_cases())} cases" in out


def test_reports_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for device in ("reference", "garbage"):
        reports.append(str(tmp_path / device))
        on(device, "--case", "m3_slots/*", "--report", reports[-1])
    capsys.readouterr()
    assert epic("merge", reports[0], "--report", str(tmp_path / "good"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert epic("merge", *reports, "--report", str(tmp_path / "both")) == 1
    out = capsys.readouterr().out
    assert "garbage III: clauses: 0 passed" in out
    assert (tmp_path / "both/matrix.html").is_file()
    assert json.loads((tmp_path / "both/matrix.json").read_text())["ok"] is False


# ------------------------------------------------------------------------------------------------ progress bar


def shown(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> tuple[str, Run]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    cases = [duts.make(duts.one_cell, "good"), duts.make(duts.wrong, "bad")]
    display: Any = Display(console, lines=True)
    monkeypatch.setattr("epic_testbed.conformance.case.all_cases", lambda: cases)
    monkeypatch.setattr(runner, "all_cases", lambda: cases)
    with display:
        run = runner.run_suite(lambda: ReferenceDut(3), duts.Request("own", 3), progress=display.progress)
    return file.getvalue(), run


def test_without_a_terminal_each_case_is_a_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown(monkeypatch, terminal=False)
    assert text == "pass own/good\nfail own/bad: child 0: wrong cell 0\n"


def test_on_a_terminal_there_is_a_bar_and_a_line_for_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown(monkeypatch, terminal=True)
    assert "fail own/bad: child 0: wrong cell 0" in text
    assert "pass own/good" not in text
    assert "2/2" in text
