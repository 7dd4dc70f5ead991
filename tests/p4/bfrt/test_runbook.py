"""The run book's own commands and scripts are run, as far as they need no Tofino."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from epic_p4.bfrt import names
from epic_p4.bfrt.cli import register
from epic_p4.control.plain import read_group
from p4.bfrt.bfrt_helpers import FakeSwitch
from p4.control.programs import FILES, program_schema

RUNBOOK = FILES["tna"].with_name("RUNBOOK.md")
ROOT = FILES["tna"].parents[2]


def blocks(language: str) -> list[str]:
    """The blocks of the run book in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)


def test_every_epic_command_of_the_run_book_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = FakeSwitch(program_schema("tna"))
    monkeypatch.setattr("epic_p4.bfrt.sde.connect", lambda program, address: switch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p4").symlink_to(ROOT / "p4")
    (tmp_path / "build").mkdir()
    exec(compile(blocks("python")[0], "RUNBOOK.md", "exec"), {})
    app = typer.Typer()
    register(app)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("epic tofino")]
    assert [line.split()[2] for line in lines] == [
        "describe", "ports", "apply", "check", "counters", "status", "apply",
    ]  # fmt: skip
    schema = CliRunner().invoke(app, ["tofino", "describe", "--program", "p4/tofino/epic.p4"])
    (tmp_path / "build" / "bf-rt.json").write_text(schema.output)
    for line in lines:
        for entry in switch.tables[names.PORTS].entries.values():
            entry[names.PORT_UP] = True
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit)
        bad = [row for row in result.output.splitlines() if row.startswith("NO") and "clock" not in row]
        assert (bad, result.exit_code in (0, 1 if "check" in line else 0)) == ([], True), line
    assert not switch.tables["pipe.EpicIngress.admission.edge"].entries


def test_the_scripts_group_fits_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "RUNBOOK.md", "exec"), {})
    group = read_group(tmp_path / "group.json", "s0")
    assert [edge.port for edge in group.children] == [132, 140]
    assert json.loads((tmp_path / "group.json").read_text())["params"]["payload_bytes"] == 256


def test_the_hosts_script_names_what_exists() -> None:
    script = blocks("python")[1]
    compile(script, "RUNBOOK.md", "exec")
    from epic_host.transport.config import transport_config

    transport = re.search(r"\{\"kind\".*\}\}", script)
    assert transport is not None
    transport_config(json.loads(transport[0]))
