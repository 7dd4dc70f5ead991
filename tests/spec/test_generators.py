"""Generated files are current, say so on line 1, and hold what epic.toml says."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from epic_spec import cli, command, tables
from epic_spec.errors import ConfigError
from epic_spec.gen import NOTICE, counter_names, files, lua, markdown, p4, python, tla, verilog
from epic_spec.loader import load
from spec.wire import REPO

SPEC = load()
PREFIXES = {".py": "# ", ".p4": "// ", ".vh": "// ", ".tla": "\\* ", ".lua": "-- "}


# ---------------------------------------------------------------------------------------------------- current


def test_generated_files_are_current() -> None:
    assert [str(path.relative_to(REPO)) for path in files.changed(SPEC, REPO)] == []


@pytest.mark.parametrize("path", files.GENERATORS, ids=str)
def test_line_1_says_that_the_file_is_generated(path: Path) -> None:
    first = files.GENERATORS[path](SPEC).splitlines()[0]
    assert first == PREFIXES[path.suffix] + NOTICE


MUTANTS = {
    "opcode": lambda spec: spec["opcode"][0].update(code=0x3F),
    "counter": lambda spec: spec["counter"][-1].update(name="rx_other"),
    "field": lambda spec: spec["header"][3]["fields"][-2].update(name="other"),
    "primitive": lambda spec: spec["primitive"][-1].update(name="OTHER"),
}
# What a file holds nothing of.
FREE_OF = {".lua": {"opcode", "counter", "field"}, ".tla": {"field"}}


@pytest.mark.parametrize(
    ("path", "mutant"),
    [
        (path, name)
        for path in files.GENERATORS
        for name in MUTANTS
        if name not in FREE_OF.get(path.suffix, ())
    ],
    ids=str,
)
def test_mutant_data_changes_every_file_that_holds_it(path: Path, mutant: str) -> None:
    spec = copy.deepcopy(SPEC)
    MUTANTS[mutant](spec)
    assert files.GENERATORS[path](spec) != files.GENERATORS[path](SPEC)


def test_gen_writes_what_check_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(cli, "REPO", tmp_path)
    app: typer.Typer = command.build_app([cli.register])
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec/epic.md").write_text("# EPIC\n\n<!-- gen:opcodes -->\n<!-- /gen -->\n")
    assert command.run(app, ["spec", "gen", "--check"]) == 1
    named = capsys.readouterr().out
    for path in [*files.GENERATORS, files.TEXT]:
        assert f"{path}: would change" in named
    assert not (tmp_path / "tla").exists()
    assert command.run(app, ["spec", "gen"]) == 0
    assert command.run(app, ["spec", "gen", "--check"]) == 0
    capsys.readouterr()
    (tmp_path / "spec/epic.lua").write_text("-- edited by hand\n")
    assert command.run(app, ["spec", "gen", "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"ok": False, "changed": ["spec/epic.lua"]}


def test_data_without_a_table_is_named() -> None:
    spec = {key: rows for key, rows in SPEC.items() if key != "syndrome"}
    with pytest.raises(ConfigError, match=r"^spec/epic.toml: no 'syndrome', which "):
        files.outputs(spec, REPO)


# --------------------------------------------------------------------------------------------------- contents


def test_python_tables_are_the_data() -> None:
    space: dict[str, Any] = {}
    exec(python.generate(SPEC), {"__name__": "generated"}, space)
    assert {o.name: o.value for o in space["Opcode"]} == {r["name"]: r["code"] for r in SPEC["opcode"]}
    assert list(space["COUNTERS"]) == counter_names(SPEC)
    assert list(space["CLAUSES"]) == [r["id"] for r in SPEC.get("clause", [])]
    assert space["CAPABILITIES"].keys() == tables.CAPABILITIES.keys()


def test_p4_headers_have_the_bits_of_the_data() -> None:
    text = p4.generate(SPEC)
    types = {name: int(bits) for bits, name in re.findall(r"typedef bit<(\d+)> (\w+);", text)}
    for header in SPEC["header"]:
        body = re.search(rf"header {header['name']}_h {{\n(.*?)\n}}", text, re.DOTALL)
        assert body is not None
        fields = re.findall(r"^    (?:bit<(\d+)>|(\w+_t)) (\w+);", body[1], re.MULTILINE)
        got = [(name, int(bits) if bits else types[kind]) for bits, kind, name in fields]
        assert got == [(field["name"], field["bits"]) for field in header["fields"]]
    for row in SPEC["opcode"]:
        assert f"const bit<8> OPCODE_{row['name']} = {row['code']:#04x};" in text
    names = re.findall(r"^(?:const \S+|typedef \S+|header) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names))


def test_verilog_parameters_place_the_fields_of_the_data() -> None:
    text = verilog.generate(SPEC)
    values = {name: int(value) for name, value in re.findall(r"localparam integer (\w+) = (\d+);", text)}
    for header in SPEC["header"]:
        name = header["name"].upper()
        end = values[f"{name}_BITS"]
        for field in header["fields"]:
            prefix = f"{name}_{field['name'].upper()}"
            assert values[f"{prefix}_WIDTH"] == field["bits"]
            assert values[f"{prefix}_LSB"] + field["bits"] == end
            end = values[f"{prefix}_LSB"]
        assert end == 0
    assert (values["BTH_BYTE"], values["AETH_BYTE"], values["IMMDT_BYTE"]) == (42, 54, 54)
    codes = re.findall(r"localparam \[(\d+):0\] (\w+) = (\d+)'h([0-9a-f]+);", text)
    by_name = {name: int(value, 16) for _, name, _, value in codes}
    assert all(
        int(top) + 1 == int(width) and int(value, 16) >> int(width) == 0 for top, _, width, value in codes
    )
    assert by_name["OPCODE_ACK"] == 0x11
    assert by_name["COUNTER_RX_FRAMES"] == 0
    assert by_name["COUNTERS"] == len(counter_names(SPEC))
    names = re.findall(r"localparam \S+ (\w+)", text)
    assert len(names) == len(set(names))


def test_tla_module_defines_each_name_once() -> None:
    text = tla.generate(SPEC)
    assert "MODULE EpicConstants" in text.splitlines()[1]
    assert text.rstrip().endswith("=" * 78)
    names = re.findall(r"^(\w+) ==", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert "    SEND_ONLY_IMM |-> 5" in text
    assert '    "drop_icrc"' in text


def test_lua_masks_cover_the_immediate_once() -> None:
    masks = [int(mask, 16) for mask in re.findall(r"(0x[0-9a-f]{8}),", lua.generate(SPEC))]
    assert sum(masks) == 0xFFFFFFFF
    assert len(masks) == 7


# --------------------------------------------------------------------------------------------------- markdown


def filled(name: str) -> list[str]:
    return markdown.generate(SPEC, f"<!-- gen:{name} -->\nold\n<!-- /gen -->\n").splitlines()


def test_a_marked_place_is_made_anew_and_the_rest_stays() -> None:
    text = "# Title\n\nBefore.\n<!-- gen:opcodes -->\nold\n\n<!-- /gen -->\nAfter `code` | pipe.\n"
    made = markdown.generate(SPEC, text)
    assert made.splitlines()[0].startswith("<!-- ")
    assert "old" not in made
    assert made.splitlines()[1:4] == ["# Title", "", "Before."]
    assert made.splitlines()[-1] == "After `code` | pipe."
    assert "| 0x05 | `SEND_ONLY_IMM` | immdt | 1, 2, 3 | " in made
    assert markdown.generate(SPEC, made) == made


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((f"headers.{h['name']}", h["fields"]) for h in SPEC["header"]),
        ("opcodes", SPEC["opcode"]),
        ("syndromes", SPEC["syndrome"]),
        ("naks", SPEC["nak"]),
        ("primitives", SPEC["primitive"]),
        ("operators", SPEC["operator"]),
        ("datatypes", SPEC["datatype"]),
        ("capabilities", SPEC["capability"]),
        ("parameters", SPEC["parameter"]),
        ("counters", SPEC["counter"]),
        ("drops", SPEC["drop"]),
        ("errors", SPEC["error"]),
        ("constants", SPEC["constants"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_has_a_line_a_row(name: str, table: Any) -> None:
    lines = [line for line in filled(name) if line.startswith("|")]
    assert len(lines) == 2 + len(table)
    columns = {len(re.split(r"(?<!\\)\|", line)) for line in lines}
    assert len(columns) == 1
    for row, line in zip(table, lines[2:], strict=True):
        assert f"`{row if isinstance(row, str) else row['name']}`" in line


def test_clauses_are_listed_by_part() -> None:
    spec = SPEC | {"clause": [a_clause("W", 1), a_clause("M3", 2, capability="ecn"), a_clause("W", 3)]}
    lines = markdown.table(spec, "clauses.W")
    assert [line.split()[1] for line in lines[2:]] == [a_clause("W", 1)["id"], a_clause("W", 3)["id"]]
    assert "| `ecn` |" in markdown.table(spec, "clauses.M3")[2]


def a_clause(part: str, number: int, **more: str) -> dict[str, Any]:
    clause = "-".join(("EPIC", part, f"{number:02}"))
    return {"id": clause, "level": "MUST", "subject": "both", "modes": [3], "text": "It does."} | more


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- gen:nope -->\n<!-- /gen -->\n", r"^spec/epic.md:1: no table is named 'nope', expected one of"),
        ("<!-- gen:headers.nope -->\n<!-- /gen -->\n", r"^spec/epic.md:1: no table is named 'headers.nope'"),
        ("a\n<!-- gen:drops -->\n", r"^spec/epic.md: <!-- gen:drops --> is not closed"),
        ("a\n<!-- /gen -->\n", r"^spec/epic.md:2: <!-- /gen --> without an open marker"),
        (
            "<!-- gen:drops -->\n<!-- gen:naks -->\n<!-- /gen -->\n",
            r"^spec/epic.md:2: .* inside <!-- gen:drops",
        ),
    ],
)
def test_a_wrong_marker_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        markdown.generate(SPEC, text)
