"""No case fails a right engine, and every broken one is failed by a case that cites the rule it breaks."""

from __future__ import annotations

import pytest

from epic_spec.errors import ConfigError, ResourceError
from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import Case, Unmet, all_cases
from testbed.conformance_mutants import MUTANTS
from testbed.conformance_mutants_rc import MUTANTS as RC_MUTANTS

# Directed cases first: they are quick, and their names say more.
CASES = sorted((c for c in all_cases() if c.side == "engine"), key=lambda c: c.group == "random_scripts")
BY_MODE = {mode: [c for c in CASES if mode in c.modes] for mode in (1, 2, 3)}


def passes(case: Case, mode: int, seed: int) -> bool:
    """Run a case on the reference engine as it is patched now."""
    bench = Bench(ReferenceDut(mode), seed=seed)
    try:
        case.function(bench)
        bench.finish()
    except Unmet:
        return True
    except (Failure, AssertionError, ConfigError, ResourceError):
        # An engine that trips over its own invariant is as broken as one that sends a wrong frame.
        return False
    return True


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_engine_fails_a_case_that_cites_the_broken_rule(name: str) -> None:
    clause, modes, patch = MUTANTS[name]
    with patch():
        for mode in modes:
            cited = [c for c in BY_MODE[mode] if clause in c.clauses]
            if any(not passes(c, mode, seed=3) for c in cited):
                return
    cited_names = sorted({c.name for m in modes for c in BY_MODE[m] if clause in c.clauses})
    pytest.fail(f"mutant {name!r} survives the cases of {clause}: {cited_names}")


@pytest.mark.parametrize("name", RC_MUTANTS)
def test_a_broken_reliable_connection_fails_the_case_named_for_it(name: str) -> None:
    clause, mode, case_name, patch = RC_MUTANTS[name]
    case = next(c for c in BY_MODE[mode] if c.name == case_name)
    assert clause in case.clauses
    assert passes(case, mode, seed=3), "without the fault"
    with patch():
        assert not passes(case, mode, seed=3)
