"""Mutants of the modules: rtl/tb/mutants/*.toml, each a text substitution and the bench that must notice it.

[[mutant]]
name = "what is wrong with it"
source = "epic_x.v"       # a file of rtl/src
old = "..."               # stands there exactly once
new = "..."
bench = "epic_y"          # a folder of rtl/tb
simulator = "icarus"
parameters = {DATA_W = 64}
killed_by = "a_test"      # a test of that bench, the only one that is run
"""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common.runner import ICARUS, TB, VERILATOR, Bench, BenchError, Mutant, Result, run

_KEYS = {"name", "source", "old", "new", "bench", "simulator", "parameters", "killed_by"}


@dataclass(frozen=True)
class Case:
    """A mutant and the run that kills it."""

    mutant: Mutant
    bench: str
    simulator: str
    parameters: dict[str, int]
    killed_by: str


def bench_of(folder: str) -> Bench:
    """The BENCH of rtl/tb/<folder>. Raises BenchError."""
    path = TB / folder / f"test_{folder}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{folder}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise BenchError(f"{path}: not there, expected the bench of a mutant")
    sys.path[:0] = [str(path.parent), str(TB)]
    try:
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    finally:
        del sys.path[:2]
    return module.BENCH


def load(path: Path) -> list[Case]:
    """The mutants of one file. Raises BenchError where a key is missing or unknown."""
    try:
        rows = tomllib.loads(path.read_text()).get("mutant", [])
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"{path.name}: {error}") from None
    cases = []
    for row in rows:
        wrong = set(row) ^ _KEYS
        if wrong or row["simulator"] not in (ICARUS, VERILATOR):
            raise BenchError(
                f"{path.name}: mutant {row.get('name')!r}: {', '.join(sorted(wrong)) or row['simulator']}"
            )
        mutant = Mutant(row["name"], row["source"], row["old"], row["new"])
        cases.append(Case(mutant, row["bench"], row["simulator"], row["parameters"], row["killed_by"]))
    return cases


def every() -> list[Case]:
    """All mutants of rtl/tb/mutants."""
    return [case for path in sorted((TB / "mutants").glob("*.toml")) for case in load(path)]


def try_to_kill(case: Case) -> Result:
    """Builds the mutant and runs its test. `failed` is not empty when the mutant is killed.

    Raises BenchError when that would prove nothing: the mutant can't be built, its test isn't there, or the test,
    run alone, fails without the mutant too.
    """
    _passes_without(case.bench, case.simulator, tuple(sorted(case.parameters.items())), case.killed_by)
    return run(
        bench_of(case.bench),
        case.parameters,
        case.simulator,
        tests=case.killed_by,
        mutant=case.mutant,
        must_pass=False,
    )


@cache
def _passes_without(bench: str, simulator: str, parameters: tuple[tuple[str, int], ...], test: str) -> None:
    run(bench_of(bench), dict(parameters), simulator, tests=test)
