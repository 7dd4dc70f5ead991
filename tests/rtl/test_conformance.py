"""The conformance suite of Modes II and III on the simulated RTL; EPIC_RTL=full runs all of Mode II."""

from __future__ import annotations

from collections import Counter

import pytest

from epic_spec.errors import ConfigError
from epic_testbed.adapters.rtl import RtlDut
from epic_testbed.conformance.case import select
from epic_testbed.conformance.results import Status
from epic_testbed.conformance.runner import Runner
from epic_testbed.rtl import build, parameters
from rtl.needs import FULL, need

# What no engine in Verilog offers; a case that does not apply must say one of these.
NOT_OFFERED = {"ordered", "partial_format", "datatypes"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", [2, 3])
def test_the_conformance_suite(mode: int) -> None:
    need("verilator")
    # Once before: each case opens a device.
    build.library(parameters.top_of(mode), parameters.complete(mode, {}))
    cases = list(select(mode, "engine"))
    if mode == 2 and not FULL:
        # Its timers make a simulation of Mode II slow: a third of the cases.
        cases = cases[::3]
    with Runner(lambda: RtlDut(mode)) as runner:
        results = list(runner.run(cases))
    assert len(results) == len(cases)
    assert [(r.case.name, r.reason) for r in results if r.status is Status.FAIL] == []
    assert Counter(r.status for r in results)[Status.PASS] > 0.9 * len(cases)
    assert {u.capability for r in results if r.status is Status.NA for u in r.unmet} <= NOT_OFFERED


def test_mode_1_has_no_rtl() -> None:
    with pytest.raises(ConfigError, match="mode = 1, expected 2 or 3"):
        RtlDut(1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not FULL, reason="builds two more libraries; EPIC_RTL=full runs it")
@pytest.mark.parametrize("mode", [2, 3])
def test_half_precision_where_it_is_built_in(mode: int) -> None:
    need("verilator")
    cases = [case for case in select(mode, "engine") if "half-precision" in case.name]
    assert len(cases) >= 2
    with Runner(lambda: RtlDut(mode, FP16=1)) as runner:
        results = list(runner.run(cases))
    assert [(r.case.name, r.status.value, r.reason) for r in results if r.status is not Status.PASS] == []
