"""The programs do what the golden engine does, frame by frame: same frames out, same counters, same slots."""

from __future__ import annotations

import pytest

from p4.program.scripts import SCRIPTS, V1MODEL_ONLY, World

CASES = [
    (arch, name)
    for arch in ("v1model", "tna", "tna1")
    for name in SCRIPTS
    if not (arch != "v1model" and name in V1MODEL_ONLY)
]


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_script(arch: str, name: str) -> None:
    SCRIPTS[name](World(arch, 64))


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        ("v1model", 16),
        ("v1model", 32),
        ("v1model", 128),
        ("v1model", 256),
        ("tna", 16),
        ("tna", 48),
        ("tna1", 16),
    ],
)
@pytest.mark.parametrize(
    "name", ["sums_of_every_length", "broadcast_of_any_length", "a_replay_goes_to_one_child_alone"]
)
def test_script_with_another_number_of_words(arch: str, words: int, name: str) -> None:
    SCRIPTS[name](World(arch, words))
