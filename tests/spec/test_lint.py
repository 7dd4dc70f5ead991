"""`epic spec lint`: this checkout is clean, and each thing it looks for is found when planted."""

from __future__ import annotations

import copy
import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from epic_spec import cli, command, errors, lint
from epic_spec.loader import load
from spec.wire import REPO

SPEC = load()
ABSENT = "-".join(("EPIC", "Q9", "77"))
GOOD = "-".join(("EPIC", "Q9", "01"))
CLAUSE = {
    "id": GOOD,
    "level": "MUST",
    "subject": "engine",
    "modes": [3],
    "capability": "ecn",
    "text": "It does.",
}


def row(spec: dict[str, Any], table: str, name: str) -> dict[str, Any]:
    return next(r for r in spec[table] if r["name"] == name)


def findings(spec: dict[str, Any], repo: Path) -> list[str]:
    return [finding.what for finding in lint.lint(spec, repo)]


@pytest.fixture
def spec() -> dict[str, Any]:
    """The data of this checkout with one clause of a part that has no other."""
    data = copy.deepcopy(SPEC)
    data["clause"] = [dict(CLAUSE)]
    return data


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A checkout whose text refers to that clause."""
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec/epic.md").write_text(f"{GOOD}: an engine counts `rx_ce` and `drop_icrc`.\n")
    return tmp_path


def test_this_checkout_is_clean() -> None:
    assert lint.lint(SPEC, REPO) == []


def test_the_small_checkout_is_clean(spec: dict[str, Any], repo: Path) -> None:
    assert lint.lint(spec, repo) == []


def test_a_checkout_without_text_is_not_an_error(spec: dict[str, Any], repo: Path) -> None:
    (repo / "spec/epic.md").unlink()
    assert lint.lint(spec, repo) == []


def doubled(table: str) -> Any:
    return lambda spec: spec[table].append(dict(spec[table][0]))


def changed(table: str, which: str, /, **values: Any) -> Any:
    return lambda spec: row(spec, table, which).update(values)


PLANTED = {
    "counter twice": (doubled("counter"), "[[counter]] 'rx_frames' is there twice"),
    "clause twice": (doubled("clause"), f"[[clause]] '{GOOD}' is there twice"),
    "opcode twice": (doubled("opcode"), "[[opcode]] code 0x00 is there twice"),
    "code twice": (changed("operator", "MIN", code=2), "[[operator]] code 0x02 is there twice"),
    "counter called like a drop": (
        changed("counter", "rx_ce", name="drop_icrc"),
        "counter 'drop_icrc' is there twice",
    ),
    "code too wide": (
        changed("datatype", "FP64", code=16),
        "[[datatype]] 'FP64': code 16 does not fit 4 bits",
    ),
    "header of 33 bits": (
        lambda spec: row(spec, "header", "immdt")["fields"][0].update(bits=17),
        "[[header]] 'immdt' has 33 bits, expected whole bytes",
    ),
    "field in two headers": (
        lambda spec: row(spec, "header", "aeth")["fields"][1].update(name="psn"),
        "field 'psn' is in two headers",
    ),
    "field of codes gone": (
        lambda spec: row(spec, "header", "aeth")["fields"][0].update(name="other"),
        "no field aeth.syndrome, which holds the codes of [[nak]]",
    ),
    "unknown extension": (
        changed("opcode", "ACK", extended=["reth"]),
        "[[opcode]] 'ACK': extension 'reth' is not a header",
    ),
    "syndrome overlap": (changed("syndrome", "NAK", value=0x20), "[[syndrome]] 'RNR_NAK' and 'NAK' overlap"),
    "syndrome outside mask": (
        changed("syndrome", "NAK", value=0x61),
        "[[syndrome]] 'NAK': value 0x61 has bits outside",
    ),
    "default above range": (
        changed("capability", "children", default=65),
        "'children': default 65, expected 1 to 64",
    ),
    "default no power of two": (
        changed("capability", "window", default=65),
        "'window': default 65, expected a power",
    ),
    "range no power of two": (
        changed("capability", "window", range=[1, 100]),
        "upper end 100, expected a power of two",
    ),
    "default no multiple": (
        changed("capability", "payload_bytes", default=100),
        "default 100, expected a multiple of 64",
    ),
    "default no choice": (
        changed("capability", "icrc", default="half"),
        "default 'half', expected one of full, none",
    ),
    "default not in set": (
        changed("capability", "operators", default=["XOR"]),
        "expected some of SUM, MAX, MIN",
    ),
    "default no bool": (changed("capability", "ecn", default=1), "'ecn': default 1, expected true or false"),
    "unknown kind": (
        changed("capability", "ecn", kind="maybe"),
        "kind 'maybe', expected int, bool, choice or set",
    ),
    "parameter out of range": (
        changed("parameter", "retry_limit", default=256),
        "'retry_limit': default 256",
    ),
    "clause id": (lambda spec: spec["clause"][0].update(id="EPIC_1"), "EPIC_1: expected an id like"),
    "clause level": (
        lambda spec: spec["clause"][0].update(level="SHALL"),
        "level 'SHALL', expected MUST, SHOULD, MAY",
    ),
    "clause level in text": (
        lambda spec: spec["clause"][0].update(text="It MAY do so."),
        "level MUST, but its text says MAY",
    ),
    "clause subject": (
        lambda spec: spec["clause"][0].update(subject="host"),
        "subject 'host', expected engine",
    ),
    "clause modes": (lambda spec: spec["clause"][0].update(modes=[4]), "modes [4], expected some of 1, 2, 3"),
    "clause capability": (
        lambda spec: spec["clause"][0].update(capability="x"),
        "capability 'x' is not in the table",
    ),
    "clause key": (lambda spec: spec["clause"][0].pop("text"), "no text"),
    "error without class": (
        lambda spec: spec["error"].append({"name": "OtherError", "parent": "EpicError", "text": ""}),
        "[[error]] 'OtherError' is not a class of errors.py",
    ),
    "class without error": (
        lambda spec: spec["error"].remove(row(spec, "error", "WireError")),
        "class WireError of errors.py is not in [[error]]",
    ),
    "other parent": (
        changed("error", "MismatchError", parent="EpicError"),
        "[[error]] 'MismatchError' is a EpicError, in errors.py a CollectiveError",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_planted_in_the_data_is_found(name: str, spec: dict[str, Any], repo: Path) -> None:
    plant, message = PLANTED[name]
    plant(spec)
    assert any(message in what for what in findings(spec, repo)), findings(spec, repo)


def test_a_clause_that_only_a_generated_table_names_is_found(spec: dict[str, Any], repo: Path) -> None:
    (repo / "spec/epic.md").write_text(f"Text.\n<!-- gen:clauses.Q9 -->\n| {GOOD} |\n<!-- /gen -->\n")
    assert findings(spec, repo) == [f"{GOOD} of epic.toml is not referred to outside the tables"]


def test_an_unknown_clause_is_found_in_text_and_sources_with_its_line(
    spec: dict[str, Any], repo: Path
) -> None:
    with (repo / "spec/epic.md").open("a") as file:
        file.write(f"See {ABSENT}.\n")
    for name in ("models/a.py", "p4/b.p4", "rtl/src/c.v", "tla/D.tla", "tests/host/e.py"):
        path = repo / name
        path.parent.mkdir(parents=True)
        path.write_text(f"fine: {GOOD}\nnot: {ABSENT}\n")
    (repo / "tests/.cache").mkdir()
    (repo / "tests/.cache/f.py").write_text(ABSENT)
    (repo / "models/g.bin").write_bytes(b"\xff" + ABSENT.encode())
    got = lint.lint(spec, repo)
    assert {finding.what for finding in got} == {f"{ABSENT} is not a clause of epic.toml"}
    places = [
        "spec/epic.md:2",
        "models/a.py:2",
        "p4/b.p4:2",
        "rtl/src/c.v:2",
        "tla/D.tla:2",
        "tests/host/e.py:2",
    ]
    assert [finding.where for finding in got] == places


def test_an_id_that_is_not_well_formed_is_found_in_sources(spec: dict[str, Any], repo: Path) -> None:
    wrong = "-".join(("EPIC", "Q9", "1"))
    (repo / "models").mkdir()
    (repo / "models/a.py").write_text(f"# {wrong}\n")
    assert findings(spec, repo) == [f"{wrong} is not a clause of epic.toml"]


def test_an_unknown_counter_in_the_text_is_found(spec: dict[str, Any], repo: Path) -> None:
    with (repo / "spec/epic.md").open("a") as file:
        file.write("It counts `rx_nonsense`, `tx_ack` and `drop_nonsense`.\n")
    assert findings(spec, repo) == [
        "`drop_nonsense` is not a counter of epic.toml",
        "`rx_nonsense` is not a counter of epic.toml",
    ]


def test_a_class_added_to_errors_is_found(
    spec: dict[str, Any], repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "ExtraError", type("ExtraError", (errors.EpicError,), {}), raising=False)
    assert findings(spec, repo) == ["class ExtraError of errors.py is not in [[error]]"]


# ------------------------------------------------------------------------------------- coverage by the suite

ENGINE_CASE = {GOOD: {"slots/one": ("engine", (1, 2, 3))}}


def coverage_findings(spec: dict[str, Any], repo: Path, coverage: lint.Coverage) -> list[str]:
    found = lint.lint(spec, repo, coverage)
    assert {f.where for f in found} <= {"conformance"}
    return [f.what for f in found]


def test_a_must_with_a_case_for_its_side_and_modes_is_covered(spec: dict[str, Any], repo: Path) -> None:
    assert coverage_findings(spec, repo, ENGINE_CASE) == []


def test_a_must_without_a_case_is_found(spec: dict[str, Any], repo: Path) -> None:
    assert coverage_findings(spec, repo, {}) == [f"{GOOD} (MUST) has no engine case at all"]


def test_a_must_without_a_case_in_one_of_its_modes_is_found(spec: dict[str, Any], repo: Path) -> None:
    spec["clause"][0]["modes"] = [1, 2, 3]
    cases = {GOOD: {"slots/one": ("engine", (1,)), "slots/two": ("engine", (3,))}}
    assert coverage_findings(spec, repo, cases) == [f"{GOOD} (MUST) has no engine case in mode 2"]


def test_a_clause_that_binds_both_needs_a_case_on_each_side(spec: dict[str, Any], repo: Path) -> None:
    spec["clause"][0]["subject"] = "both"
    assert coverage_findings(spec, repo, ENGINE_CASE) == [f"{GOOD} (MUST) has no agent case at all"]


@pytest.mark.parametrize("change", [{"level": "SHOULD"}, {"level": "MAY"}, {"subject": "manager"}])
def test_only_a_must_of_an_engine_or_agent_needs_a_case(
    change: dict[str, str], spec: dict[str, Any], repo: Path
) -> None:
    spec["clause"][0] |= change
    assert coverage_findings(spec, repo, {}) == []


@pytest.mark.parametrize(
    ("side", "modes"),
    [("agent", (3,)), ("engine", (1, 2))],
)
def test_a_case_that_cites_a_clause_which_does_not_bind_what_it_tests_is_found(
    side: str, modes: tuple[int, ...], spec: dict[str, Any], repo: Path
) -> None:
    cases = {GOOD: {"slots/one": ("engine", (3,)), "slots/two": (side, modes)}}
    words = f"case slots/two ({side}, mode {', '.join(map(str, modes))}) cites {GOOD}, which binds engine in mode 3"
    assert coverage_findings(spec, repo, cases) == [words]


def test_a_case_that_cites_a_clause_which_is_gone_is_found(spec: dict[str, Any], repo: Path) -> None:
    cases = ENGINE_CASE | {ABSENT: {"slots/two": ("engine", (3,))}}
    assert coverage_findings(spec, repo, cases) == [f"{ABSENT} has cases and is not a clause of epic.toml"]


def points(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Install suites: names and where their functions are."""
    group = "epic.clause_coverage"
    found = [EntryPoint(name, value, group) for name, value in values.items()]
    monkeypatch.setattr(lint, "entry_points", lambda **kw: found if kw == {"group": group} else [])


def first_suite() -> lint.Coverage:
    return {GOOD: {"slots/one": ("engine", (3,))}}


def second_suite() -> lint.Coverage:
    return {GOOD: {"slots/two": ("engine", (3,))}, ABSENT: {"slots/two": ("engine", (3,))}}


def broken_suite() -> lint.Coverage:
    raise errors.ConfigError("case slots/one: has no procedure")


def test_the_cases_of_all_installed_suites_count(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, a=f"{__name__}:first_suite", b=f"{__name__}:second_suite")
    assert lint.load_coverage() == {
        GOOD: {"slots/one": ("engine", (3,)), "slots/two": ("engine", (3,))},
        ABSENT: {"slots/two": ("engine", (3,))},
    }


def test_without_a_suite_there_is_no_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch)
    assert lint.load_coverage() is None


@pytest.mark.parametrize(
    "value", ["no_such_module:f", f"{__name__}:no_such_function", f"{__name__}:broken_suite"]
)
def test_a_suite_that_does_not_load_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, mine=value)
    with pytest.raises(errors.ConfigError, match=r"coverage of 'mine' \("):
        lint.load_coverage()


def test_the_command_says_that_coverage_was_not_checked(
    spec: dict[str, Any], repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(cli, "REPO", repo)
    monkeypatch.setattr(cli, "load", lambda: spec)
    points(monkeypatch)
    app = command.build_app([cli.register])
    assert command.run(app, ["spec", "lint"]) == 0
    assert (
        "coverage by the conformance suite was not checked: no suite is installed" in capsys.readouterr().out
    )
    assert command.run(app, ["spec", "lint", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "coverage_checked": False, "findings": []}


def test_the_command_lists_findings_and_exits_1(
    spec: dict[str, Any], repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(cli, "REPO", repo)
    monkeypatch.setattr(cli, "load", lambda: spec)
    monkeypatch.setattr(lint, "load_coverage", lambda: ENGINE_CASE)
    app = command.build_app([cli.register])
    assert command.run(app, ["spec", "lint"]) == 0
    assert capsys.readouterr().out == "no findings\n"
    row(spec, "operator", "MIN")["code"] = 2
    assert command.run(app, ["spec", "lint"]) == 1
    assert "spec/epic.toml: [[operator]] code 0x02 is there twice\n" in capsys.readouterr().out
    assert command.run(app, ["spec", "lint", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["coverage_checked"] is True
    assert report["findings"][0]["where"] == "spec/epic.toml"
