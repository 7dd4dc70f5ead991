"""`epic check rtl`: what a check gives becomes a verdict, whatever way it ends, and nothing is left running."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from epic_testbed.proofs.scratch import scratch
from epic_testbed.rtl.check import display, runner, tools
from epic_testbed.rtl.check.model import (
    Check,
    CheckFailed,
    Context,
    Figures,
    Kind,
    Outcome,
    Result,
    ToolMissing,
)


def run(work, tmp_path: Path, deadline: float = 20.0) -> Result:
    check = Check("lint/one", Kind.LINT, "test", deadline, work)
    with scratch("check") as files:
        (result,) = asyncio.run(runner.run([check], files, 2, display.Silent(), tmp_path / "keep"))
    return result


def test_figures_of_a_check_that_passes(tmp_path: Path) -> None:
    async def work(context: Context) -> Figures:
        done = await context.execute([sys.executable, "-c", "print(40 + 2)"])
        return {"answer": int(done.output)}

    result = run(work, tmp_path)
    assert result.ok and result.figures == {"answer": 42}
    assert not (tmp_path / "keep").exists()


def test_a_failure_keeps_its_folder_and_says_how_to_look(tmp_path: Path) -> None:
    async def work(context: Context) -> Figures:
        (context.folder / "trace.vcd").write_text("$end")
        raise CheckFailed("a_order does not hold", {"depth": 3}, "gtkwave {folder}/trace.vcd")

    result = run(work, tmp_path)
    assert result.outcome is Outcome.FAIL and result.figures == {"depth": 3}
    assert result.look == f"gtkwave {tmp_path}/keep/lint/one/trace.vcd"
    assert (tmp_path / "keep/lint/one/trace.vcd").read_text() == "$end"


def test_a_pass_removes_what_an_earlier_failure_kept(tmp_path: Path) -> None:
    (tmp_path / "keep/lint/one").mkdir(parents=True)

    async def work(context: Context) -> Figures:
        return {}

    assert run(work, tmp_path).ok
    assert not (tmp_path / "keep/lint/one").exists()


def test_a_deadline_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(marker)!r}).touch()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"

    async def work(context: Context) -> Figures:
        await context.execute([sys.executable, "-c", parent])
        return {}

    begun = time.monotonic()
    result = run(work, tmp_path, deadline=0.5)
    assert result.outcome is Outcome.TIMEOUT
    assert re.fullmatch(r"python: not finished after 0\.[5-9] s \(deadline 0\.5 s\)", result.message)
    assert time.monotonic() - begun < 1.4
    time.sleep(1.6)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/opt/bin/yosys-abc", "-c", "pdr"], "yosys-abc"),
        ([sys.executable, "-m", "epic_testbed.rtl.check.yosys", "a.ys"], "yosys"),
        ([sys.executable, "/opt/share/smtbmc.py", "-t", "3"], "smtbmc"),
        ([sys.executable, "-c", "pass"], "python"),
    ],
)
def test_a_tool_has_a_name(command: list[str], name: str) -> None:
    assert tools.name_of(command) == name


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    async def work(context: Context) -> Figures:
        raise ToolMissing("iverilog is not on PATH: apt-get install iverilog")

    result = run(work, tmp_path)
    assert result.outcome is Outcome.MISSING and not result.ok
    assert result.to_dict()["message"] == "iverilog is not on PATH: apt-get install iverilog"


def test_checks_overlap_up_to_the_slots(tmp_path: Path) -> None:
    running, most = 0, 0

    async def work(context: Context) -> Figures:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return {}

    checks = [Check(f"lint/{i}", Kind.LINT, "test", 5.0, work) for i in range(6)]
    with scratch("check") as files:
        results = asyncio.run(runner.run(checks, files, 2, display.Silent(), tmp_path / "keep"))
    assert most == 2
    assert [r.check.name for r in results] == [c.name for c in checks]


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.MISSING, Outcome.TIMEOUT])
def test_the_summary_says_what_is_wrong(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(context: Context) -> Figures:
        return {}

    check = Check("syn/icrc-128", Kind.SYNTH, "verify", 5.0, work)
    display.summary(display.console(), [Result(check, outcome, 1.0, {"fmax": 99.5}, "too slow")], 1.0)
    said = capsys.readouterr().out
    assert "syn/icrc-128: too slow" in said and "FAILED: 1 of 1 checks" in said and "fmax 99.5" in said
