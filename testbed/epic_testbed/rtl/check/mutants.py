"""The mutants of the RTL: where they are, which module each spoils and what notices it; the list in rtl/README.md.

A mutant is one substitution of text in one source. Those of rtl/tb/mutants/*.toml are killed by a test of a bench,
those of rtl/tb/arithmetic/test_mutants.py by the checks of a unit, those of rtl/formal/mutants.py by a proof.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check import proof
from epic_testbed.rtl.check.sources import RTL, modules

BENCHED = RTL / "tb" / "mutants"
ARITHMETIC = RTL / "tb" / "arithmetic" / "test_mutants.py"


@dataclass(frozen=True, slots=True)
class Listed:
    """A mutant of a module: what is wrong, and what kills it."""

    module: str
    wrong: str
    killed_by: str


def every() -> list[Listed]:
    """All mutants: of benches, of arithmetic, of proofs. Raises ConfigError where a list can't be read."""
    return [*_benched(), *_arithmetic(), *_proved()]


def _benched() -> list[Listed]:
    found = []
    for path in sorted(BENCHED.glob("*.toml")):
        try:
            rows = tomllib.loads(path.read_text()).get("mutant", [])
            found += [
                Listed(Path(r["source"]).stem, r["name"], f"`{r['killed_by']}` of {r['bench']}") for r in rows
            ]
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise ConfigError(
                f"{path}: {error!r}, expected [[mutant]] as rtl/tb/common/mutants.py has it"
            ) from None
    return found


def _arithmetic() -> list[Listed]:
    """Those of a list in Python, read without being run."""
    for statement in ast.parse(ARITHMETIC.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "MUTANTS":
            rows = ast.literal_eval(statement.value)
            return [Listed(Path(r[1]).stem, r[2], f"checks of {r[0]} in arithmetic") for r in rows]
    raise ConfigError(f"{ARITHMETIC}: has no MUTANTS, expected a list of them")


def _proved() -> list[Listed]:
    return [Listed(m.source, m.name.replace("-", " "), f"proof {m.proof}") for m in proof.mutants()]


def table() -> str:
    """A line a module: how many mutants it has, and one of them. Raises ConfigError for a module without one."""
    lines = ["| module | mutants | one of them | is killed by |", "| --- | ---: | --- | --- |"]
    found = every()
    for name in modules():
        own = [mutant for mutant in found if mutant.module == name]
        if not own:
            raise ConfigError(f"{name}: no mutant in {BENCHED}, expected one")
        wrong = own[0].wrong.replace("|", "\\|")
        lines.append(f"| `{name}` | {len(own)} | {wrong} | {own[0].killed_by} |")
    lines += ["", f"{len(found)} in all."]
    return "\n".join(lines)
