"""Verdicts: what the results of cases say about a clause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.tables import CLAUSES
from epic_testbed.conformance.case import Case, unmet
from epic_testbed.conformance.results import (
    UDP_REASON,
    CaseResult,
    ClauseResult,
    Request,
    Run,
    Status,
    bound,
    judge,
)
from epic_testbed.dut import DutTraits
from testbed import broken_duts as duts

PASS, FAIL, NA = Status.PASS, Status.FAIL, Status.NA
MUST = "EPIC-M3-02"
ECN = next(i for i, c in CLAUSES.items() if c.capability == "ecn" and c.subject == "engine")
SHOULD = next(i for i, c in CLAUSES.items() if c.level == "SHOULD" and c.subject == "both")
ETHERNET = DutTraits("own", EngineCapabilities(3))
UDP = replace(ETHERNET, binding="udp")
WITHOUT_ECN = replace(ETHERNET, capabilities=EngineCapabilities(3, ecn=False))
NO_COUNTERS = replace(ETHERNET, reads_counters=False)

Need = tuple[str, Any]
NEEDS_ETHERNET: Need = ("binding", "ethernet")
NEEDS_ECN: Need = ("ecn", True)
NEEDS_COUNTERS: Need = ("reads_counters", True)


def case(clause: str, name: str, *needs: Need) -> Case:
    return duts.make(duts.one_cell, name, clause, needs=needs)


def result(of: Case, status: Status, traits: DutTraits = ETHERNET) -> CaseResult:
    """What the runner makes of a case: not applicable where it says so by itself."""
    missing = unmet(of, traits)
    return CaseResult(
        of, NA if missing else status, 1, reason="; ".join(map(str, missing)), unmet=tuple(missing)
    )


def verdict(clause: str, cases: list[tuple[Status, tuple[Need, ...]]], traits: DutTraits) -> ClauseResult:
    own = [case(clause, f"n{i}", *needs) for i, (_, needs) in enumerate(cases)]
    results = [result(c, s, traits) for c, (s, _) in zip(own, cases, strict=True)]
    return next(c for c in judge(results, own, "engine", 3, traits) if c.id == clause)


@pytest.mark.parametrize(
    ("cases", "expected"),
    [([PASS], PASS), ([PASS, PASS], PASS), ([PASS, FAIL], FAIL), ([FAIL, FAIL], FAIL)],
)
def test_one_failed_case_fails_a_clause(cases: list[Status], expected: Status) -> None:
    assert verdict(MUST, [(s, ()) for s in cases], ETHERNET).status is expected


def test_a_clause_passes_when_one_case_passes_and_the_rest_do_not_apply() -> None:
    found = verdict(MUST, [(PASS, ()), (PASS, (NEEDS_COUNTERS,))], NO_COUNTERS)
    assert (found.status, found.reason) == (PASS, "")


def test_a_clause_fails_when_one_case_fails_and_the_rest_do_not_apply() -> None:
    found = verdict(MUST, [(FAIL, ()), (PASS, (NEEDS_COUNTERS,))], NO_COUNTERS)
    assert (found.status, found.reason) == (FAIL, "failed: own/n0")


def test_a_must_that_no_case_could_show_has_failed() -> None:
    found = verdict(MUST, [(PASS, (NEEDS_COUNTERS,))], NO_COUNTERS)
    assert (found.status, found.not_shown) == (FAIL, True)
    assert found.reason == "not shown: reads_counters = false, the case needs true"


def test_a_clause_does_not_apply_without_its_own_capability() -> None:
    found = verdict(ECN, [(PASS, (NEEDS_ECN,)), (PASS, (NEEDS_ECN, NEEDS_COUNTERS))], WITHOUT_ECN)
    assert (found.status, found.reason) == (NA, "ecn = false")


def test_a_capability_that_is_offered_excuses_nothing() -> None:
    found = verdict(ECN, [(PASS, (NEEDS_ECN, NEEDS_COUNTERS))], NO_COUNTERS)
    assert (found.status, found.not_shown) == (FAIL, True)


def test_over_udp_a_clause_whose_cases_all_need_ethernet_does_not_apply() -> None:
    found = verdict(MUST, [(PASS, (NEEDS_ETHERNET,)), (PASS, (NEEDS_COUNTERS, NEEDS_ETHERNET))], UDP)
    assert (found.status, found.reason) == (NA, UDP_REASON)


def test_over_udp_a_clause_that_fails_to_apply_for_another_reason_has_failed() -> None:
    without = replace(UDP, reads_counters=False)
    found = verdict(MUST, [(PASS, (NEEDS_ETHERNET,)), (PASS, (NEEDS_COUNTERS,))], without)
    assert (found.status, found.not_shown) == (FAIL, True)


def test_on_ethernet_the_binding_excuses_nothing() -> None:
    found = verdict(MUST, [(PASS, (("binding", "udp"),))], ETHERNET)
    assert (found.status, found.not_shown) == (FAIL, True)


def test_a_should_that_no_case_could_show_is_not_applicable() -> None:
    assert verdict(SHOULD, [(PASS, (NEEDS_COUNTERS,))], NO_COUNTERS).status is NA


def test_a_clause_of_which_a_filter_left_out_cases_is_not_failed_for_what_was_not_shown() -> None:
    chosen, other = case(MUST, "n0", NEEDS_COUNTERS), case(MUST, "n1")
    (found,) = judge([result(chosen, PASS, NO_COUNTERS)], [chosen, other], "engine", 3, NO_COUNTERS)
    assert (found.status, found.known, len(found.cases)) == (NA, 2, 1)


def test_only_clauses_that_bind_the_side_and_mode_are_judged() -> None:
    cited = duts.make(duts.one_cell, "n0", "EPIC-M1-02", "EPIC-H-02", "EPIC-W-02", MUST)
    found = judge([result(cited, PASS)], [cited], "engine", 3, ETHERNET)
    assert {c.id for c in found} == {"EPIC-W-02", MUST}


def test_what_binds_a_side_is_what_the_specification_says() -> None:
    assert "EPIC-M3-02" in bound("engine", 3)
    assert "EPIC-M3-02" not in bound("agent", 3)
    assert "EPIC-M3-02" not in bound("engine", 1)
    assert {"EPIC-W-02"} <= set(bound("engine", 2)) & set(bound("agent", 2))
    assert not {i for i, c in CLAUSES.items() if c.subject == "manager"} & set(bound("engine", 3))


def test_a_run_is_not_ok_for_a_clause_that_was_not_shown_alone() -> None:
    of = case(MUST, "n0", NEEDS_COUNTERS)
    results = [result(of, PASS, NO_COUNTERS)]
    clauses = judge(results, [of], "engine", 3, NO_COUNTERS)
    run = Run(Request("own", 3), "engine", NO_COUNTERS, "2026-01-01T00:00:00+00:00", results, clauses)
    assert (run.count(FAIL), run.ok) == (0, False)


def test_the_command_of_a_case_makes_the_same_device_and_seed() -> None:
    request = Request(
        "ethernet", 3, 7, "wire/*", None, "my file.toml", ("--port", "0=veth 0", "--option", "hook=./x a")
    )
    assert request.command("m3_slots/one") == (
        "epic conformance --dut ethernet --mode 3 --port '0=veth 0' --option 'hook=./x a' --case m3_slots/one "
        "--deviations 'my file.toml' --seed 7"
    )
    assert "--case 'wire/*'" in request.command()
