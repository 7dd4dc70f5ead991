"""Which clauses have cases, for `epic spec lint` (entry point group `epic.clause_coverage`)."""

from __future__ import annotations

from epic_testbed.conformance.case import all_cases


def clause_coverage() -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
    """For each clause the cases that cite it, by name: the side that each tests and the modes it runs in."""
    found: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
    for case in all_cases():
        for clause in case.clauses:
            found.setdefault(clause, {})[case.name] = (case.side, case.modes)
    return found
