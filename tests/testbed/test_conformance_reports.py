"""What `--report` writes: JSON of the committed schema, JUnit XML, a page that needs nothing else, captures."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from epic_spec import pcap
from epic_testbed import conformance
from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance import report_files, report_html, report_json, report_junit
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.html_page import prose
from epic_testbed.conformance.results import CaseResult, LogLine, Request, Run, Status
from epic_testbed.conformance.runner import run_suite
from testbed import broken_duts as duts

FOLDER = Path(conformance.__file__).parent
BAD = "<script>alert('&')</script>"


def hostile(bench: Bench) -> None:
    """Says `<b>things</b>` that are markup & not text."""
    duts.one_cell(bench)
    bench.note(BAD)
    raise Failure(BAD, [BAD], [BAD, "\x00\x1b[31m"])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A pass, two failures, a case that does not apply, and a clause that is not shown for it."""
    cases = [
        duts.make(duts.two_cells, "passes", "EPIC-M3-02", "EPIC-W-14"),
        duts.make(duts.wrong, "fails", "EPIC-M3-08", "EPIC-W-14", "EPIC-M1-02"),
        duts.make(hostile, "hostile", "EPIC-M3-01"),
        duts.make(duts.one_cell, "cannot", "EPIC-M3-05", needs=(("datatypes", "FP64"),)),
    ]

    class Small(ReferenceDut):
        def __init__(self) -> None:
            super().__init__(3, name=f"acme {BAD}")
            offered = replace(self._traits.capabilities, datatypes=("INT32",))
            self._traits = replace(self._traits, capabilities=offered, details={"firmware": f"1.2 {BAD}"})

    return duts.run(monkeypatch, cases, Small, adapter=("--option", f"x={BAD}"))


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    report_files.write(run, tmp_path / "report")
    return tmp_path / "report"


# ------------------------------------------------------------------------------------------------------- JSON


def schema(name: str) -> jsonschema.Draft202012Validator:
    data = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(data)
    return jsonschema.Draft202012Validator(data)


def test_the_json_report_has_the_form_of_the_committed_schema(folder: Path) -> None:
    schema("report").validate(json.loads((folder / "report.json").read_text()))


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_run_on_the_reference_has_the_form_of_the_schema(mode: int) -> None:
    run = run_suite(lambda: ReferenceDut(mode), Request("reference", mode, pattern="wire/p*"))
    assert run.results
    schema("report").validate(json.loads(json.dumps(report_json.report(run))))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"clauses": {"EPIC-M3-02": "maybe"}},
        {"clauses": {"M3-02": "pass"}},
        {"mode": 4},
        {"passed": "3"},
        {"cases": {"a/b": {"status": "pass"}}},
    ],
)
def test_the_schema_refuses_what_is_not_a_report(change: dict[str, Any], run: Run) -> None:
    with pytest.raises(jsonschema.ValidationError):
        schema("report").validate(report_json.report(run) | change)


def test_the_schema_has_no_key_that_reports_do_not_have(run: Run) -> None:
    data, top = report_json.report(run), schema("report").schema
    assert set(top["properties"]) == set(data)
    assert set(top["$defs"]["case"]["properties"]) == set(next(iter(data["cases"].values())))
    assert set(top["$defs"]["clause"]["properties"]) == set(next(iter(data["clause_details"].values())))


def test_the_json_report_says_what_was_found(folder: Path) -> None:
    data = json.loads((folder / "report.json").read_text())
    assert (data["passed"], data["failed"], data["not_applicable"], data["ok"]) == (1, 2, 1, False)
    assert data["clauses"] == {
        "EPIC-W-14": "fail", "EPIC-M3-01": "fail", "EPIC-M3-02": "pass", "EPIC-M3-05": "fail", "EPIC-M3-08": "fail",
    }  # fmt: skip
    assert data["clause_details"]["EPIC-M3-05"]["reason"].startswith("not shown: datatypes = INT32")
    assert data["cases"]["own/fails"]["pcap"] == "pcap/own.fails.pcap"
    assert "EPIC-M3-03" in data["uncovered"]


def test_what_json_prints_is_part_of_the_report(run: Run) -> None:
    whole, short = report_json.report(run), run.to_dict()
    for name, case in short.pop("cases").items():
        assert case.items() <= whole["cases"][name].items()
    assert {key: whole[key] for key in short} == short


# ------------------------------------------------------------------------------------------------------ JUnit


def test_junit_has_failures_skips_and_clauses_that_were_not_shown(folder: Path) -> None:
    top = ET.parse(folder / "junit.xml").getroot()
    counts = {key: top.get(key) for key in ("tests", "failures", "skipped")}
    assert counts == {"tests": "5", "failures": "3", "skipped": "1"}
    cases = {c.get("name"): c for c in top.iter("testcase")}
    assert set(cases) == {"passes", "fails", "hostile", "cannot", "EPIC-M3-05"}
    assert list(cases["passes"]) == []
    assert cases["cannot"].find("skipped") is not None
    failure = cases["fails"].find("failure")
    assert failure is not None
    assert "replay: epic conformance --dut own --mode 3" in (failure.text or "")
    assert "expected: cell 0" in (failure.text or "")


def test_junit_is_xml_whatever_a_device_sends(run: Run) -> None:
    text = report_junit.junit(run)
    assert "\x00" not in text
    assert "\x1b" not in text
    assert BAD in "".join(ET.fromstring(text.encode()).itertext())


# ------------------------------------------------------------------------------------------------------- HTML


class Page(HTMLParser):
    """Elements, links, ids and text of a page; complains about elements that are not closed."""

    VOID = frozenset({"meta", "br", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.outside: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if found.get("href"):
            self.links.append(str(found["href"]))
        self.outside += [str(found[key]) for key in ("src", "data", "action", "srcset") if key in found]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> out of place"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text())


def test_the_page_needs_nothing_but_itself(folder: Path, page: Page) -> None:
    text = (folder / "report.html").read_text()
    assert page.outside == []
    assert not re.search(r"https?://|@import|url\(", text)
    assert "link" not in page.tags
    assert all(link.startswith(("#", "pcap/")) for link in page.links)


def test_every_link_of_the_page_leads_somewhere(folder: Path, page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids, link
        else:
            assert (folder / link).is_file(), link


def test_the_page_shows_text_as_text(page: Page) -> None:
    assert page.tags.count("script") == 1
    assert BAD in page.text
    assert "<b>things</b>" in page.text


def test_the_page_has_everything_that_a_vendor_asks_for(run: Run, page: Page) -> None:
    words = [
        "Failed: 2 of 4 cases; 4 clauses not met, of these 1 not shown",
        "datatypes = INT32, the case needs FP64",
        *(run.replay(r) for r in run.results if r.status is not Status.NA),
        *(r.case.procedure.replace("`", "") for r in run.results),
        *run.results[1].expected,
        *run.results[1].arrived,
        "SEND_ONLY_IMM, QPN 0x",
        "Clauses without a case",
    ]
    for word in words:
        assert word in page.text, word


def test_deviations_that_were_used_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    deviations = Deviations({"window": 4, "slots": 8, "rnr_timer_us": 640}, {"quiet": 0.25, "case": 90.0})
    case = duts.make(duts.one_cell)
    run = duts.run(monkeypatch, [case], limit=None, allowed=deviations, deviations="d.toml")
    assert run.ok
    assert run.deviations == (
        "setup.rnr_timer_us = 640",
        "setup.slots = 8",
        "setup.window = 4",
        "timeouts.case = 90.0",
        "timeouts.quiet = 0.25",
    )
    text = Page(report_html.html(run)).text
    assert all(d in text for d in run.deviations)
    assert report_json.report(run)["deviations"] == list(run.deviations)


def test_a_frame_that_cannot_be_decoded_is_shown_as_bytes(run: Run) -> None:
    log = (LogLine(0.0, "port 1", "<-", "malformed", b"\xde\xad\xbe\xef"),)
    first: CaseResult = replace(run.results[1], log=log)
    text = Page(report_html.html(replace(run, results=[first]))).text
    assert "not decodable" in text
    assert "deadbeef" in text


def test_test_plans_become_markup() -> None:
    assert prose("# A `b`\n\n**Purpose.** See <x>.\n\n- one\n  more\n- two\n") == (
        "<h4>A <code>b</code></h4><p><b>Purpose.</b> See &lt;x&gt;.</p><ul><li>one more</li><li>two</li></ul>"
    )


# --------------------------------------------------------------------------------------------------- captures


def test_each_failed_case_has_a_capture_of_its_frames(run: Run, folder: Path) -> None:
    assert {p.name for p in (folder / "pcap").iterdir()} == {"own.fails.pcap", "own.hostile.pcap"}
    records = list(pcap.read(folder / "pcap/own.fails.pcap"))
    assert [r.data for r in records] == [f.data for f in run.results[1].frames]
    assert len(records) == 3
    times = [r.time_ns for r in records]
    assert times == sorted(set(times))


def test_a_second_report_replaces_the_captures_of_the_first(run: Run, folder: Path) -> None:
    kept = [r for r in run.results if r.case.name != "own/fails"]
    report_files.write(replace(run, results=kept), folder)
    assert {p.name for p in (folder / "pcap").iterdir()} == {"own.hostile.pcap"}


def test_captures_in_a_directory_that_is_no_report_are_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pcap").mkdir()
    (tmp_path / "pcap/mine.pcap").write_bytes(b"mine")
    report_files.write(run, tmp_path)
    assert (tmp_path / "pcap/mine.pcap").read_bytes() == b"mine"


def test_a_flooded_case_has_a_short_log_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: duts.Floods(3))
    (result,) = run.results
    assert result.status is Status.FAIL
    assert any(line.kind == "skip" and "steps are left out" in line.text for line in result.log)
    assert len(report_html.html(run)) < 2_000_000
