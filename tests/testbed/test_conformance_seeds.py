"""No case fails a right device, whatever the seed: PSN bases, QPNs and random scripts change, verdicts do not."""

from __future__ import annotations

import os

import pytest

from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.adapters.reference_agent import ReferenceAgentDut
from epic_testbed.conformance.case import select
from epic_testbed.conformance.results import Status
from epic_testbed.conformance.runner import Runner

# `make verify` tries 40 times as many.
SEEDS = range(int(os.environ.get("EPIC_EXAMPLES", "1")))
DEVICES = {"engine": ReferenceDut, "agent": ReferenceAgentDut}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("side", ["engine", "agent"])
def test_every_case_passes_on_the_reference(side: str, mode: int, seed: int) -> None:
    with Runner(lambda: DEVICES[side](mode), seed=seed) as runner:
        failed = [
            (r.case.name, r.reason) for r in runner.run(list(select(mode, side))) if r.status is Status.FAIL
        ]
    assert failed == []
