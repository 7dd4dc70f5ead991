"""Several reports as one matrix, realization by clause."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from epic_spec.errors import ConfigError
from epic_spec.tables import CLAUSES
from epic_testbed import conformance
from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance import merge, report_files
from epic_testbed.conformance.results import Request
from epic_testbed.conformance.runner import run_suite
from testbed import broken_duts as duts
from testbed.test_conformance_reports import Page

# Put together here, so that the linter does not take it for a reference.
ABSENT = "-".join(("EPIC", "W", "99"))


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The reference passes Mode III and Mode I, another device fails a clause of Mode III."""
    good = [duts.make(duts.two_cells, "passes", "EPIC-M3-02", "EPIC-W-14", modes=(1, 3))]
    bad = [*good, duts.make(duts.wrong, "fails", "EPIC-W-14")]
    made = []
    for dut, mode, cases in (("reference", 3, good), ("acme", 3, bad), ("reference", 1, good)):
        monkeypatch.setattr("epic_testbed.conformance.case.all_cases", lambda cases=cases: cases)
        monkeypatch.setattr("epic_testbed.conformance.runner.all_cases", lambda cases=cases: cases)
        run = run_suite(lambda mode=mode: ReferenceDut(mode), Request(dut, mode))
        made.append(tmp_path / f"{dut}-{mode}")
        report_files.write(run, made[-1])
    return made


def write(reports: list[Path], to: Path) -> tuple[dict[str, Any], Page]:
    merge.write(merge.columns(reports), to)
    return json.loads((to / "matrix.json").read_text()), Page((to / "matrix.html").read_text())


def test_each_report_is_a_realization_with_a_status_for_each_clause_that_binds_it(
    reports: list[Path], tmp_path: Path
) -> None:
    data, _ = write(reports, tmp_path / "matrix")
    assert [r["name"] for r in data["realizations"]] == ["acme III", "reference I", "reference III"]
    assert data["clauses"]["EPIC-W-14"]["results"] == {
        "acme III": "fail", "reference I": "pass", "reference III": "pass",
    }  # fmt: skip
    assert data["clauses"]["EPIC-M3-02"]["results"] == {"acme III": "pass", "reference III": "pass"}
    assert data["clauses"]["EPIC-M1-02"]["results"] == {"reference I": "none"}
    assert "EPIC-H-01" not in data["clauses"]


def test_the_matrix_has_the_form_of_the_committed_schema(reports: list[Path], tmp_path: Path) -> None:
    data, _ = write(reports, tmp_path / "matrix")
    schema = json.loads((Path(conformance.__file__).parent / "matrix.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)


@pytest.mark.parametrize(("chosen", "ok"), [((0, 2), True), ((0, 1, 2), False), ((1,), False)])
def test_the_matrix_is_ok_when_every_report_is(
    chosen: tuple[int, ...], ok: bool, reports: list[Path], tmp_path: Path
) -> None:
    data, page = write([reports[i] for i in chosen], tmp_path / "matrix")
    assert data["ok"] is ok
    assert ("failed: acme III" in page.text) is not ok


def test_the_page_leads_to_the_reports(reports: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "some/where/matrix"
    _, page = write(reports, to)
    assert page.outside == []
    assert len(page.links) > len(reports)
    for link in page.links:
        file, _, clause = link.partition("#")
        target = to / file
        assert target.is_file(), link
        assert not clause or clause in Page(target.read_text()).ids, link


def test_the_page_shows_every_clause_that_binds_some_realization(reports: list[Path], tmp_path: Path) -> None:
    data, page = write(reports, tmp_path / "matrix")
    for clause in CLAUSES:
        assert (clause in page.text) is (clause in data["clauses"])


def test_two_reports_of_one_realization_are_told_apart(reports: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(reports[0], again)
    data, _ = write([reports[0], again], tmp_path / "matrix")
    assert [r["name"] for r in data["realizations"]] == [f"reference III ({d})" for d in (reports[0], again)]


def test_one_report_twice_is_refused(reports: list[Path]) -> None:
    with pytest.raises(ConfigError, match="given twice"):
        merge.columns([reports[0], reports[0].parent / "." / reports[0].name])


def change(**values: Any) -> Any:
    return lambda data: data.update(values)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change(format="other"), "expected an object with format = 'epic-conformance-report'"),
        (change(version=2), "version = 2, expected 1"),
        (change(passed="many"), "passed = 'many'"),
        (change(mode=7), "mode 7, side 'engine', expected 1, 2 or 3"),
        (change(side="middle"), "side 'middle'"),
        (change(clauses={"EPIC-W-14": "perhaps"}), "clauses.EPIC-W-14 = 'perhaps'"),
        (
            change(clauses={ABSENT: "pass"}, clause_details={ABSENT: {}}),
            f"clause '{ABSENT}' is not in epic.toml",
        ),
        (lambda data: data.pop("uncovered"), "uncovered = None"),
    ],
)
def test_a_file_that_is_no_report_is_named_with_what_was_expected(
    spoil: Any, message: str, reports: list[Path]
) -> None:
    file = reports[1] / "report.json"
    data = json.loads(file.read_text())
    spoil(data)
    file.write_text(json.dumps(data))
    with pytest.raises(ConfigError) as caught:
        merge.columns(reports)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_not_json_is_named(text: str, reports: list[Path]) -> None:
    (reports[0] / "report.json").write_text(text)
    with pytest.raises(ConfigError, match=r"reference-3/report\.json: "):
        merge.columns(reports)


def test_a_directory_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected the report of `epic conformance`"):
        merge.columns([tmp_path])
