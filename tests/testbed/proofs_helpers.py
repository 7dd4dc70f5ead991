"""What the tests of the proofs share: a small specification with mutants, and TLC where Java is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

HAS_JAVA = shutil.which("java") is not None or bool(os.environ.get("JAVA_HOME"))
needs_java = pytest.mark.skipif(not HAS_JAVA, reason="there is no Java here, which TLC needs")

COUNTER = """---- MODULE Counter ----
(* A counter that goes up to a limit and starts again; every guard has a name. *)
EXTENDS Naturals, TLC
CONSTANTS Limit, Broken
VARIABLES x, log
vars == <<x, log>>
Has(guard) == guard \\notin Broken
Init == x = 0 /\\ log = {}
Up(by) == /\\ x + by <= Limit \\/ ~Has("limit")
          /\\ x < 10 \\/ ("never_needed" \\in Broken /\\ x < 10)
          /\\ x' = x + by
          /\\ log' = log \\cup {[from |-> "a", to |-> "b", n |-> by]}
Restart == x = Limit /\\ x' = 0 /\\ log' = {}
Next == (\\E by \\in 1 .. 2 : Up(by)) \\/ (Restart /\\ Has("restart"))
Spec == Init /\\ [][Next]_vars /\\ WF_vars(Next)
Small == x <= Limit
ComesBack == []<>(x = 0)
Grows == [][x' > x \\/ x' = 0]_vars
Checked == Assert(x < 3, "too big")
====
"""


def model(name: str, checks: str = "INVARIANT Small", limit: int = 4, broken: str = "{}") -> str:
    """A configuration of Counter."""
    return f"CONSTANTS\n  Limit = {limit}\n  Broken = {broken}\nSPECIFICATION Spec\n{checks}\n"


def row(name: str, **fields: object) -> str:
    """A row of the manifest; good values where none are given."""
    values: dict[str, object] = {
        "name": name, "spec": "Counter.tla", "kind": "mutant", "expected": "violation:Small", "level": "test",
        "seconds": 1.0, "text": "a counter",
    }  # fmt: skip
    values |= fields
    words = {True: "true", False: "false"}

    def toml(value: object) -> str:
        if isinstance(value, bool):
            return words[value]
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(toml, value)) + "]"
        return str(value) if isinstance(value, (int, float)) else f'"{value}"'

    return "[[model]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in values.items() if v is not None)


def project(folder: Path, rows: dict[str, str], configs: dict[str, str]) -> Path:
    """A folder with Counter, configurations by name, and a manifest with the rows."""
    folder.mkdir(exist_ok=True)
    (folder / "Counter.tla").write_text(COUNTER)
    for name, text in configs.items():
        (folder / f"{name}.cfg").write_text(text)
    (folder / "manifest.toml").write_text("\n".join(rows.values()))
    return folder


GOOD = row("good", kind="exhaustive", expected="ok", distinct_states=9, depth=5)
BROKEN = row("bad")


def small_project(folder: Path) -> Path:
    """One good model and a mutant."""
    configs = {"good": model("good"), "bad": model("bad", broken='{"limit"}')}
    return project(folder, {"good": GOOD, "bad": BROKEN}, configs)
