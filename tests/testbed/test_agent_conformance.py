"""The suite for hosts: right hosts pass every case, each broken one fails a case that cites the broken rule."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from epic_spec.tables import CLAUSES
from epic_testbed.adapters.reference_agent import ReferenceAgentDut
from epic_testbed.adapters.soft_agent import SoftAgentDut
from epic_testbed.conformance.case import Case, all_cases, unmet
from epic_testbed.conformance.host_bench import HostBench
from epic_testbed.conformance.record import Failure
from epic_testbed.dut import AgentDut
from testbed import agent_mutants_rc  # noqa: F401 - adds its mutants to the table
from testbed.agent_mutants import MUTANTS

CASES = {c.name: c for c in all_cases() if c.side == "agent"}
MODES = (1, 2, 3)
SEEDS = range(5)
# Cases of real time that together take about ten seconds; `epic conformance` runs them all.
SOFT = (
    "host_errors/abort-is-immediate-and-silent",
    "host_errors/an-err-result-with-a-conflict-record",
    "host_errors/no-result-until-the-deadline",
    "host_errors/the-error-names-the-missing-ranks",
    "host_frames/a-wrong-icrc",
    "host_frames/bth-fields-that-do-not-fit",
    "host_numerics/fp32-sum-as-fixed-point",
    "host_primitives/all-gather-with-uneven-shards",
    "host_primitives/reduce-scatter-with-uneven-shards",
    "host_primitives/broadcast-elsewhere",
    "host_rc/a-nak-repeats-from-its-packet-on",
    "host_rc/one-nak-a-gap",
    "host_rc/the-retry-limit",
    "host_recovery/an-edge-that-loses-a-third",
    "host_recovery/the-timeout-doubles",
    "host_results/a-repeated-result-is-not-delivered-again",
    "host_results/results-out-of-order-are-kept",
    "host_window/no-more-than-a-window-without-results",
)


def run(case: Case, dut: AgentDut, seed: int) -> None:
    """Run a case as the runner does; raises Failure."""
    bench = HostBench(dut, seed=seed)
    case.function(bench)
    bench.finish()


@pytest.mark.parametrize(("name", "mode"), [(c.name, mode) for c in CASES.values() for mode in c.modes])
def test_the_reference_agent_passes(name: str, mode: int) -> None:
    case = CASES[name]
    for seed in SEEDS:
        dut = ReferenceAgentDut(mode)
        assert not unmet(case, dut.traits())
        run(case, dut, seed)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_host_fails_the_case_that_cites_the_broken_rule(name: str) -> None:
    clause, mode, case_name, patch = MUTANTS[name]
    case = CASES[case_name]
    assert clause in CLAUSES
    assert clause in case.clauses
    assert mode in case.modes
    # A crash of the mutant itself would prove nothing, so only a failed check counts.
    with patch(), pytest.raises(Failure):
        run(case, ReferenceAgentDut(mode), seed=3)


def test_every_agent_clause_of_a_mode_has_a_case() -> None:
    missing = {
        (identity, mode)
        for identity, clause in CLAUSES.items()
        if clause.subject in ("agent", "both")
        for mode in clause.modes
        if not any(identity in c.clauses and mode in c.modes for c in CASES.values())
    }
    assert missing == set()


@pytest.fixture(params=MODES)
def soft(request: pytest.FixtureRequest, free_subnet: str) -> Iterator[SoftAgentDut]:
    dut = SoftAgentDut(request.param, subnet=free_subnet, datapath="reference")
    yield dut
    dut.close()


@pytest.fixture
def free_subnet() -> str:
    """Loopback addresses of this test process alone."""
    return f"127.{20 + os.getpid() % 230}.251"


def test_the_host_runtime_passes_over_sockets(soft: SoftAgentDut) -> None:
    failed = {}
    for name in SOFT:
        case = CASES[name]
        if soft.traits().mode not in case.modes:
            continue
        soft.reset()
        try:
            run(case, soft, seed=1)
        except Failure as failure:
            failed[name] = f"{failure.what}: expected {failure.expected}, arrived {failure.arrived}"
    assert not failed
