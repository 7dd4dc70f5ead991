"""`junit.xml`: the run for continuous integration. A suite for each case group, one for clauses that were not shown."""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree as ET

from epic_testbed.conformance.results import CaseResult, Run, Status

FILE = "junit.xml"
# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run) -> str:
    """The document. Clauses fail on their own where no case failed: they are test cases of the suite `clauses`."""
    request = run.request
    name = f"epic.{request.dut}.mode{request.mode}.{run.side}"
    missing = [c for c in run.clauses if c.not_shown]
    top = ET.Element(
        "testsuites",
        name=name,
        tests=str(len(run.results) + len(missing)),
        failures=str(run.count(Status.FAIL) + len(missing)),
        skipped=str(run.count(Status.NA)),
        errors="0",
        time=f"{run.seconds:.3f}",
    )
    for group, results in groupby(run.results, key=lambda r: r.case.group):
        _suite(top, run, f"{name}.{group}", list(results))
    if missing:
        suite = ET.SubElement(top, "testsuite", name=f"{name}.clauses", tests=str(len(missing)))
        suite.set("failures", str(len(missing)))
        for clause in missing:
            case = ET.SubElement(suite, "testcase", classname=f"{name}.clauses", name=clause.id)
            ET.SubElement(case, "failure", message=_clean(clause.reason)).text = _clean(clause.clause.text)
    ET.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _suite(top: ET.Element, run: Run, name: str, results: list[CaseResult]) -> None:
    count = {s: sum(r.status is s for r in results) for s in Status}
    suite = ET.SubElement(
        top,
        "testsuite",
        name=name,
        tests=str(len(results)),
        failures=str(count[Status.FAIL]),
        skipped=str(count[Status.NA]),
        errors="0",
        time=f"{sum(r.seconds for r in results):.3f}",
        timestamp=run.started,
    )
    properties = ET.SubElement(suite, "properties")
    values = {"seed": str(run.request.seed), "command": run.request.command()}
    values |= {f"deviation.{i}": d for i, d in enumerate(run.deviations, 1)}
    for key, value in values.items():
        ET.SubElement(properties, "property", name=key, value=_clean(value))
    for result in results:
        _case(suite, run, name, result)


def _case(suite: ET.Element, run: Run, classname: str, result: CaseResult) -> None:
    short = result.case.name.rpartition("/")[2]
    case = ET.SubElement(suite, "testcase", classname=classname, name=short, time=f"{result.seconds:.3f}")
    if result.status is Status.NA:
        ET.SubElement(case, "skipped", message=_clean(result.reason))
    if result.status is Status.FAIL:
        lines = [
            f"clauses: {', '.join(result.case.clauses)}",
            *(f"expected: {line}" for line in result.expected),
            *(f"arrived: {line}" for line in result.arrived),
            *result.notes,
            f"replay: {run.replay(result)}",
            *([f"capture: {result.pcap}"] if result.pcap else []),
        ]
        failure = ET.SubElement(case, "failure", message=_clean(result.reason), type="failed")
        failure.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
