"""Benches of rtl/tb and mutants that they kill: a sample, with fewer random steps, or with EPIC_RTL=full all that are
small, whole (needs.py).

The full matrix of configurations is `epic check rtl --level verify`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rtl.needs import FULL, need

TB = Path(__file__).resolve().parents[2] / "rtl" / "tb"
sys.path.insert(0, str(TB))
need("cocotb")

from common.runner import ICARUS, run  # noqa: E402

from common import mutants, runner  # noqa: E402

FOLDERS = sorted(path.parent.name for path in TB.glob("*/test_*.py") if "BENCH = " in path.read_text())
# A second or two each: the way in and out, memory, tables, arithmetic, timers.
SAMPLE = (
    "epic_fifo",
    "epic_align",
    "epic_icrc",
    "epic_rx",
    "epic_lanes",
    "epic_edge_table",
    "epic_m2_timers",
    "epic_regs",
)
MUTANTS_OF = ("epic_fifo", "epic_edge_table", "epic_regs", "epic_align", "epic_m2_cell")
RUNS = [
    pytest.param(
        folder, simulator, parameters, id=f"{folder}-{simulator}-{'-'.join(map(str, parameters.values()))}"
    )
    for folder in FOLDERS
    if FULL or folder in SAMPLE
    for simulator, parameters in mutants.bench_of(folder).small[: None if FULL else 1]
]
CASES = [case for case in mutants.every() if FULL or (case.simulator == ICARUS and case.bench in MUTANTS_OF)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(560)]


@pytest.mark.parametrize(("folder", "simulator", "parameters"), RUNS)
def test_bench(folder, simulator, parameters) -> None:
    need(simulator)
    assert run(mutants.bench_of(folder), parameters, simulator, brief=not FULL).passed


def test_the_sample_names_benches_that_exist() -> None:
    assert set(SAMPLE) | set(MUTANTS_OF) <= set(FOLDERS)
    assert len(CASES) >= 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mutant.name)
def test_mutant_is_killed(case) -> None:
    need(case.simulator)
    result = mutants.try_to_kill(case)
    assert result.failed, (
        f"{case.killed_by} of {case.bench} did not notice: {case.mutant.name} (log: {result.log})"
    )


def test_a_build_that_was_cut_off_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a compiler that is killed, then what it left is not taken for its work; what is built whole is kept."""
    unit = mutants.bench_of("epic_fifo")
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    build = runner.folder(unit, {}, ICARUS)
    found: list[bool] = []

    class Simulator:
        def build(self, **arguments: object) -> None:
            found.append((build / "half.o").exists())
            (build / "half.o").touch()
            if len(found) == 1:
                raise KeyboardInterrupt

        def test(self, **arguments: object) -> None: ...

    monkeypatch.setattr(runner, "get_runner", lambda name: Simulator())
    with pytest.raises(KeyboardInterrupt):
        runner.run(unit, {}, ICARUS)
    for _ in range(2):
        assert runner.run(unit, {}, ICARUS, must_pass=False).failed == {"simulation": "ended without results"}
    assert found == [False, False, True]
