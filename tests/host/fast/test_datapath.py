"""Which data path is used: the fast one where there is one, unless somebody says otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from epic_host.fast import DATAPATHS
from epic_host.fast.datapath import choose, engine_on
from epic_spec.errors import ConfigError


@pytest.mark.parametrize(
    ("asked", "mode", "recorded", "path"),
    [
        (None, 3, False, "fast"),
        (None, 2, False, "fast"),
        (None, 1, False, "reference"),
        (None, 3, True, "reference"),
        ("reference", 3, False, "reference"),
        ("reference", 1, True, "reference"),
        ("fast", 2, False, "fast"),
    ],
)
def test_without_a_wish_it_is_the_fast_one_where_there_is_one(
    asked: str | None, mode: int, recorded: bool, path: str
) -> None:
    assert choose(asked, mode, recorded=recorded) == path
    assert path in DATAPATHS


@pytest.mark.parametrize(
    ("asked", "mode", "recorded", "message"),
    [
        ("fast", 1, False, "datapath = fast with mode = 1, expected reference"),
        ("fast", 3, True, "datapath = fast with trace, expected reference"),
        ("quick", 3, False, "datapath = 'quick', expected one of reference, fast"),
    ],
)
def test_one_that_cannot_be_is_refused(asked: str, mode: int, recorded: bool, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose(asked, mode, recorded=recorded)


def test_raw_ethernet_has_the_reference_path() -> None:
    assert choose(None, 3, transport="netns") == "reference"
    with pytest.raises(ConfigError, match="datapath = fast with transport = netns, expected reference"):
        choose("fast", 3, transport="netns")


def test_an_engine_is_moved_to_the_other_path() -> None:
    assert engine_on("fast", "reference-m2") == "fast-m2"
    assert engine_on("reference", "fast-m3") == "reference-m3"
    assert engine_on("fast", "fast-m3") == "fast-m3"
    for engine, message in [
        ("rtl-m3", "datapath = fast with engine rtl-m3, expected an engine reference-mN or fast-mN"),
        ("reference-m1", "datapath = fast with mode = 1, expected reference"),
        ("module:Class", "with engine module:Class, expected"),
    ]:
        with pytest.raises(ConfigError, match=message):
            engine_on("fast", engine)
    with pytest.raises(ConfigError, match="datapath = 'slow', expected one of"):
        engine_on("slow", "reference-m3")


def test_asking_imports_nothing_that_compiles() -> None:
    code = "import sys, epic_host.fast.datapath; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
