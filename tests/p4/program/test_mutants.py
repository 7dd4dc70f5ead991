"""A program with a fault is found by the script that is named for it."""

from __future__ import annotations

import pytest

from p4.program.mutants import MUTANTS, Mutant
from p4.program.scripts import SCRIPTS, World
from p4.program.twins import Difference

_WORDS = 32


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.arch}: {m.name}")
def test_mutant_is_killed(mutant: Mutant) -> None:
    with pytest.raises(Difference):
        SCRIPTS[mutant.script](World(mutant.arch, _WORDS, mutant))


def test_scripts_that_kill_pass_without_a_fault() -> None:
    for arch, name in sorted({(mutant.arch, mutant.script) for mutant in MUTANTS}):
        SCRIPTS[name](World(arch, _WORDS))
