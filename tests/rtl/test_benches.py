"""The benches of rtl/tb, each in the configurations that it calls small; the full matrix is `epic check rtl`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

TB = Path(__file__).resolve().parents[2] / "rtl" / "tb"
sys.path.insert(0, str(TB))
pytest.importorskip("cocotb", reason="cocotb is not installed")

from common.runner import ICARUS, run  # noqa: E402

from common import mutants  # noqa: E402

FOLDERS = sorted(path.parent.name for path in TB.glob("*/test_*.py") if "BENCH = " in path.read_text())
RUNS = [
    pytest.param(
        folder, simulator, parameters, id=f"{folder}-{simulator}-{'-'.join(map(str, parameters.values()))}"
    )
    for folder in FOLDERS
    for simulator, parameters in mutants.bench_of(folder).small
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(560)]


def _needs(simulator: str) -> None:
    program = "iverilog" if simulator == ICARUS else "g++"
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize(("folder", "simulator", "parameters"), RUNS)
def test_bench(folder, simulator, parameters) -> None:
    _needs(simulator)
    assert run(mutants.bench_of(folder), parameters, simulator).passed


@pytest.mark.parametrize("case", mutants.every(), ids=lambda case: case.mutant.name)
def test_mutant_is_killed(case) -> None:
    _needs(case.simulator)
    result = mutants.try_to_kill(case)
    assert result.failed, (
        f"{case.killed_by} of {case.bench} did not notice: {case.mutant.name} (log: {result.log})"
    )
