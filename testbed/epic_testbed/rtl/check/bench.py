"""Benches: the cocotb tests of rtl/tb/<module>, one check for each simulator and parameter set that a bench names.

A folder whose tests are plain pytest (arithmetic, on Verilated units) is one check. A bench that fails is run again
with its waves dumped, into the same folder.
"""

from __future__ import annotations

import json
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from functools import cache, partial
from pathlib import Path
from typing import Any

from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.manifest import Parameters, label
from epic_testbed.rtl.check.model import Check, CheckFailed, Context, Figures, Kind
from epic_testbed.rtl.check.sources import RTL

TB = RTL / "tb"
_DEADLINE = 560.0
# Seconds in which a process of its own reads all benches.
_LIST_DEADLINE = 120.0
LISTING = "bench/list"
_NO_BENCH = ("common", "mutants")
_MUTANTS = "test_mutants.py"
_WORKER = Path(__file__).with_name("bench_worker.py")


def folders() -> list[Path]:
    """The folders of rtl/tb that hold tests."""
    return sorted({p.parent for p in TB.glob("*/test_*.py")} - {TB / name for name in _NO_BENCH})


def checks() -> list[Check]:
    """The benches. The first that a bench names as small is in level test, with fewer random steps where it has many
    (common.runner.steps); for the rest there is pytest (tests/rtl).

    Where they can't be read there is one check instead, LISTING, that fails and says why.
    """
    found = []
    try:
        rows = listed()
    except CheckFailed as error:
        return [Check(LISTING, Kind.BENCH, "test", _DEADLINE, partial(_unreadable, str(error)))]
    for row in rows:
        if "error" in row:
            name = f"bench/{row['folder']}"
            found.append(Check(name, Kind.BENCH, "test", _DEADLINE, partial(_unreadable, row["error"])))
            continue
        if row["simulator"] is None:
            found += _plain(TB / row["folder"])
            continue
        parameters: Parameters = row["parameters"]
        name = f"bench/{row['folder']}/{row['simulator']}/{label(parameters)}"
        level = "test" if row["first"] else "verify"
        found.append(Check(name, Kind.BENCH, level, _DEADLINE, partial(_cocotb, row)))
    return found


def listed() -> list[dict[str, Any]]:
    """What the benches say of themselves; they are read by a process of their own. Raises CheckFailed in one line."""
    if not folders():
        return []
    tools.require_package("cocotb", "cocotb==2.1.0")
    return json.loads(_listed(_WORKER, _LIST_DEADLINE, tuple(folders())))  # type: ignore[no-any-return]


@cache
def _listed(worker: Path, deadline: float, found: tuple[Path, ...]) -> str:
    """It imports every bench, and the benches stay what they are while a process runs."""
    command = [tools.python(), str(worker), "list", *map(str, found)]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired:
        raise CheckFailed(
            f"{tools.name_of(command)} list: not finished after {time.monotonic() - begun:.1f} s "
            f"(deadline {deadline:g} s)"
        ) from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
        raise CheckFailed(f"rtl/tb: the benches can't be listed: {last}")
    return done.stdout.splitlines()[-1]


async def _unreadable(error: str, context: Context) -> Figures:
    raise CheckFailed(error)


async def _cocotb(row: dict[str, Any], context: Context) -> Figures:
    tools.require_package("cocotb", "cocotb==2.1.0")
    _simulator(row["simulator"])
    outcome = context.folder / "outcome.json"
    command = [tools.python(), str(_WORKER), "run", json.dumps(row), str(outcome)]
    done = await context.execute(command)
    found = json.loads(outcome.read_text()) if outcome.exists() else {"failed": {"bench": done.tail()}}
    figures = {"tests": len(found.get("passed", [])), **found.get("figures", {})}
    if not found["failed"]:
        return figures
    # Once more, to see it.
    await context.execute([*command, "waves"])
    again = json.loads(outcome.read_text()) if outcome.exists() else {}
    (context.folder / "output.txt").write_text(done.output)
    text = "; ".join(f"{test}: {why}" for test, why in found["failed"].items())
    log = found.get("log", "")
    look = f"gtkwave {again['waves']}" if again.get("waves") else f"less {log or '{folder}/output.txt'}"
    raise CheckFailed(f"{text} (log: {log or 'output.txt'})", figures, look)


def _simulator(name: str) -> None:
    """Raises ToolMissing where the simulator is not there."""
    if name == "icarus":
        tools.icarus()
    else:
        tools.verilator()


def _plain(folder: Path) -> list[Check]:
    """A folder of plain pytest: its tests, and at level verify its mutants, each a unit to be built."""
    mutants = folder / _MUTANTS
    tests = sorted(path for path in folder.glob("test_*.py") if path != mutants)
    found = [Check(f"bench/{folder.name}", Kind.BENCH, "test", _DEADLINE, partial(_pytest, tests))]
    if mutants.exists():
        work = partial(_pytest, [mutants])
        found.append(Check(f"mutant/{folder.name}", Kind.MUTANT, "verify", 2 * _DEADLINE, work))
    return found


async def _pytest(files: list[Path], context: Context) -> Figures:
    report = context.folder / "report.xml"
    _simulator("verilator")
    command = [tools.python(), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, files)]
    done = await context.execute([*command, f"--junitxml={report}", f"--basetemp={context.folder / 'temp'}"])
    (context.folder / "output.txt").write_text(done.output)
    tree = ElementTree.parse(report) if report.exists() else None  # noqa: S314 (pytest wrote it)
    cases = list(tree.getroot().iter("testcase")) if tree is not None else []
    figures = {"tests": len(cases)}
    if done.code or not cases:
        raise CheckFailed(done.tail(3) or f"exit code {done.code}", figures, "less {folder}/output.txt")
    return figures
