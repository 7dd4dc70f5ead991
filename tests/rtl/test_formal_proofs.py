"""The proofs themselves: the quick ones hold, and every quick mutant is caught by an assertion (the rest: verify)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from epic_testbed.proofs.scratch import scratch
from epic_testbed.rtl.check import display, proof, runner
from epic_testbed.rtl.check.model import Check, Result
from rtl.needs import FULL, need

need("yosys")

# Seconds each, not minutes; with EPIC_RTL=full all of them.
QUICK = (
    "epic_arbiter-4",
    "epic_axis_mux",
    "epic_delay_fifo",
    "epic_fifo-plain",
    "epic_m3_slots",
    "epic_regs",
)

MUTATED = ("epic_fifo-plain", "epic_arbiter-4")


def judge(check: Check, tmp_path: Path) -> Result:
    with scratch("check") as files:
        (result,) = asyncio.run(runner.run([check], files, 1, display.Silent(), tmp_path))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", [p.name for p in proof.rows() if FULL or p.name in QUICK])
def test_holds(name: str, tmp_path: Path) -> None:
    (check,) = (c for c in proof.checks() if c.name == f"proof/{name}")
    result = judge(check, tmp_path)
    assert result.ok, result.message
    assert result.figures["covers"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [f"{m.proof}/{m.name}" for m in proof.mutants() if FULL or m.proof in MUTATED]
)
def test_catches(name: str, tmp_path: Path) -> None:
    (check,) = (c for c in proof.mutant_checks() if c.name == f"mutant/{name}")
    result = judge(check, tmp_path)
    assert result.ok, result.message
    assert "a_" in result.figures["caught_by"]


def test_a_counterexample_has_waves(tmp_path: Path) -> None:
    """Given a property that does not hold, then the assertion is named and the trace can be opened."""
    mutant = next(m for m in proof.mutants() if m.name == "never-full")
    (row,) = (p for p in proof.rows() if p.name == mutant.proof)

    async def work(context):
        await proof._prepare(row, mutant, context)
        return await proof._hold(row, context)

    check = Check("proof/broken", proof.Kind.PROOF, "test", 60.0, work)
    result = judge(check, tmp_path)
    assert not result.ok and "a_room" in result.message
    assert result.look == f"gtkwave {tmp_path}/proof/broken/trace.vcd"
    assert "$enddefinitions" in (tmp_path / "proof/broken/trace.vcd").read_text()
