"""The TNA program of this project against the rules and the stages of the chips it is for."""

from __future__ import annotations

import pytest

from epic_p4.ast import Program
from epic_p4.frontend import compile_file
from epic_p4.rules.command import rules_and_estimate
from epic_p4.rules.target import TARGETS
from epic_spec.loader import REPO


def own(chip: int, words: int) -> Program:
    return compile_file(
        REPO / "p4" / "tofino" / "epic.p4",
        include=[REPO / "p4", REPO / "p4" / "include"],
        defines={"__TARGET_TOFINO__": str(chip), "WORDS": str(words)},
        arch="tna",
    )


@pytest.mark.parametrize(("chip", "words"), [(1, 16), (2, 64)])
def test_it_keeps_the_rules(chip: int, words: int) -> None:
    rules, _ = rules_and_estimate(own(chip, words), TARGETS[f"tofino{chip}"])
    assert [str(finding) for _, findings in rules for finding in findings] == []


def test_64_words_fit_tofino_2() -> None:
    _, found = rules_and_estimate(own(2, 64), TARGETS["tofino2"])
    assert found.problems == []
