"""`epic tofino`, step by step as the run book has it, against a switch that checks every call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from epic_models.reference.tree import Tree, build_group
from epic_p4.bfrt import names
from epic_p4.bfrt.cli import register
from epic_p4.bfrt.description import describe
from epic_p4.control.program import BITMAP, FLAGS, TAG
from epic_spec.errors import ConfigError
from epic_spec.tables import COUNTERS
from p4.bfrt.bfrt_helpers import FakeSwitch
from p4.control.control_helpers import params
from p4.control.programs import FILES, program_schema

PROGRAM = ("--program", str(FILES["tna"]))


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> FakeSwitch:
    """The switch that the command reaches."""
    made = FakeSwitch(program_schema("tna"))
    monkeypatch.setattr("epic_p4.bfrt.sde.connect", lambda program, address: made)
    return made


@pytest.fixture
def group_file(tmp_path: Path) -> str:
    """A tree of one switch and two ranks."""
    plan = build_group(
        Tree("s0", {"s0": (0, 1)}),
        params(world_size=2, icrc="none", window_guard=False),
        seed=3,
    )
    path = tmp_path / "group.json"
    path.write_text(json.dumps(plan.to_dict()))
    return str(path)


def epic(*arguments: str) -> Result:
    """Run `epic tofino …`."""
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["tofino", *arguments])


def test_from_ports_to_counters(switch: FakeSwitch, group_file: str) -> None:
    where = ("--group", group_file, "--engine", "s0")
    assert epic("ports", "--port", "0:100", "--port", "1:25", "--fec", "rs").output == "2 ports enabled\n"
    ports = switch.tables[names.PORTS].entries
    assert ports[(names.PORT_ID, 1),][names.PORT_SPEED] == "BF_SPEED_25G"
    before = epic("check", *where)
    assert before.exit_code == 1
    assert "NO  multicast to port 0" in before.output
    assert epic("apply", *where, *PROGRAM).output == "1 groups installed\n"
    for entry in ports.values():
        entry[names.PORT_UP] = True
    checks = json.loads(epic("check", *where, "--json").output)["checks"]
    assert [c["check"] for c in checks if not c["good"] and c["check"] != "clock"] == []
    bank = switch.tables["pipe.EpicIngress.counters_frames"]
    bank.entries[(names.COUNTER_INDEX, list(COUNTERS).index("rx_frames")),] = {names.COUNTER_PACKETS: 12}
    assert epic("counters", *PROGRAM).output.split() == ["rx_frames", "12"]
    assert json.loads(epic("counters", *PROGRAM, "--json").output)["tx_result"] == 0


def test_applying_again_replaces_what_was_there(switch: FakeSwitch, group_file: str) -> None:
    where = ("--group", group_file, "--engine", "s0")
    for _ in range(2):
        assert epic("apply", *where, *PROGRAM).exit_code == 0
    assert len(switch.tables["pipe.EpicIngress.admission.edge"].entries) == 2


def test_live_slots_are_found_where_apply_put_them(switch: FakeSwitch, group_file: str) -> None:
    where = ("--group", group_file, "--engine", "s0")
    epic("apply", *where, *PROGRAM)
    assert json.loads(epic("status", *where, *PROGRAM, "--json").output) == {"slots": []}
    for register_, value in ((TAG, 2 << 8), (BITMAP, 0b11), (FLAGS, 3)):
        cell = switch.tables[f"pipe.{register_}"].entries[(names.REGISTER_INDEX, 2),]
        cell[f"{register_}.f1"] = [value, 0]
    (row,) = json.loads(epic("status", *where, *PROGRAM, "--json").output)["slots"]
    assert row == {"group": 5, "cell": 2, "bitmap": 3, "done": True}
    assert epic("status", *where, *PROGRAM).output.split() == [
        "group",
        "5",
        "cell",
        "2",
        "bitmap",
        "0x3",
        "done",
    ]


def test_the_sdes_description_can_be_compared(tmp_path: Path) -> None:
    theirs = describe(program_schema("tna"))
    path = tmp_path / "bf-rt.json"
    path.write_text(json.dumps(theirs))
    assert epic("describe", *PROGRAM, "--against", str(path)).output == "no difference\n"
    assert json.loads(epic("describe", *PROGRAM).output) == theirs
    theirs["tables"] = [t for t in theirs["tables"] if t["name"] != "pipe.EpicEgress.below"]
    path.write_text(json.dumps(theirs))
    differs = epic("describe", *PROGRAM, "--against", str(path))
    assert (differs.exit_code, differs.output) == (1, "table pipe.EpicEgress.below: missing\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ports", "--port", "x"), "port 'x': expected PORT or PORT:SPEED"),
        (("ports", "--port", "4:7"), "port 4: speed = 7, expected one of"),
        (("counters", *PROGRAM, "-D", "WORDS"), "define 'WORDS': expected NAME=VALUE"),
        (("describe", *PROGRAM, "--against", "/nothing"), "/nothing: No such file or directory"),
        (("check", "--group", "/nothing", "--engine", "s0"), "group file /nothing: No such file"),
    ],
)
def test_bad_input_is_one_line(switch: FakeSwitch, arguments: tuple[str, ...], message: str) -> None:
    result = epic(*arguments)
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


def test_without_the_sde_the_command_says_what_is_missing() -> None:
    result = epic("counters", *PROGRAM)
    assert isinstance(result.exception, ConfigError)
    assert "bfrt_grpc: cannot be imported" in str(result.exception)
