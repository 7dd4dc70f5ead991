"""The suite against the specification: every MUST has a case, and every group of cases a plan that says the truth."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from epic_spec.lint import CLAUSE_ID, lint
from epic_spec.loader import REPO, load
from epic_spec.tables import CLAUSES
from epic_testbed.conformance.case import GROUPS, all_cases
from epic_testbed.conformance.coverage import clause_coverage

SECTIONS = ("Purpose", "Topology", "Procedure", "Pass criteria", "Clauses")


def folders() -> list[str]:
    return sorted(p.name for p in GROUPS.iterdir() if (p / "cases.py").is_file() or (p / "plan.md").is_file())


def test_every_must_has_a_case_for_its_sides_and_modes() -> None:
    found = [f.what for f in lint(load(), REPO, clause_coverage()) if f.where == "conformance"]
    assert found == []


def test_coverage_is_what_the_cases_cite() -> None:
    covered = clause_coverage()
    for case in all_cases():
        for clause in case.clauses:
            assert covered[clause][case.name] == (case.side, case.modes)
    assert sum(map(len, covered.values())) == sum(len(set(c.clauses)) for c in all_cases())


def test_names_of_cases_are_unique_and_fit_a_command_line() -> None:
    names = [c.name for c in all_cases()]
    assert len(names) == len(set(names))
    assert [n for n in names if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9-]+", n)] == []


@pytest.mark.parametrize("folder", folders())
def test_a_group_has_a_plan_with_every_section(folder: str) -> None:
    text = (GROUPS / folder / "plan.md").read_text()
    assert [s for s in SECTIONS if f"**{s}.**" not in text] == []
    assert any(c.group == folder for c in all_cases())


@pytest.mark.parametrize("folder", folders())
def test_a_plan_names_the_clauses_of_its_cases(folder: str) -> None:
    cited = {clause for c in all_cases() if c.group == folder for clause in c.clauses}
    named = set(expanded((GROUPS / folder / "plan.md").read_text().rpartition("**Clauses.**")[2]))
    assert cited <= named, f"the plan does not name {', '.join(sorted(cited - named))}"


def expanded(text: str) -> Iterable[str]:
    """Clause ids, also those that `A to B` spans."""
    for first, last in re.findall(rf"({CLAUSE_ID.pattern})\s+to\s+({CLAUSE_ID.pattern})", text):
        part, low = first.rsplit("-", 1)
        for number in range(int(low), int(last.rsplit("-", 1)[1]) + 1):
            if f"{part}-{number:02}" in CLAUSES:
                yield f"{part}-{number:02}"
    yield from CLAUSE_ID.findall(text)
