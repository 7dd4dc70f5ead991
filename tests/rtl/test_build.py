"""Building the library of a simulated engine: once, whoever asks; and what is said when it can't be."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from epic_spec.errors import ConfigError
from epic_testbed.dut import DutError
from epic_testbed.rtl import build, parameters
from rtl.needs import need

TOP = "epic_mode3"
SMALL = {"DATA_W": 64, "PORTS": 2, "MTU": 64}


def slow_build(home: Path, target: Path, top: str, values: Mapping[str, int], *, trace: bool) -> None:
    """Stands for the compiler: takes its time, and notes that it ran."""
    with (home / "built").open("a") as note:
        note.write("x")
    time.sleep(0.3)
    target.write_text("library")


def ask(folder: str) -> str:
    build.CACHE, build._build, build.require = Path(folder), slow_build, lambda: None
    return build.library(TOP, SMALL).read_text()


def test_processes_that_start_together_build_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(ask, [str(tmp_path)] * 4) == ["library"] * 4
    (home,) = tmp_path.iterdir()
    assert (home / "built").read_text() == "x"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "CACHE", tmp_path)
    monkeypatch.setattr(build, "require", lambda: None)
    monkeypatch.setattr(build, "_build", slow_build)
    return tmp_path


def test_another_parameter_or_source_is_another_library(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = build.sources_of(TOP)
    first = build.library(TOP, SMALL)
    assert build.library(TOP, SMALL) == first
    assert build.library(TOP, {**SMALL, "MTU": 128}) != first
    assert build.library(TOP, SMALL, trace=True) != first
    monkeypatch.setattr(build, "sources_of", lambda top: sources[:-1])
    assert build.library(TOP, SMALL) != first


def test_a_tool_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_DEADLINE", 0.1)
    begun = time.monotonic()
    with pytest.raises(DutError, match=r"RTL build failed: sleep: not finished after 0\.1 s"):
        build._run(["sleep", "20"], tmp_path / "build.log", tmp_path, SMALL)
    assert time.monotonic() - begun < 5


def test_a_build_that_fails_leaves_nothing_to_load(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(home: Path, target: Path, *_: object, trace: bool) -> None:
        target.with_suffix(".partial").write_text("half")
        raise DutError("RTL build failed")

    monkeypatch.setattr(build, "_build", failing)
    with pytest.raises(DutError):
        build.library(TOP, SMALL)
    monkeypatch.setattr(build, "_build", slow_build)
    assert build.library(TOP, SMALL).read_text() == "library"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [({"PORTS": 9}, "PORTS is 9, expected 2 to 8"), ({"EDGES": 1}, "EDGES is 1, expected 2 to 256")],
)
def test_a_value_that_the_design_refuses_is_told_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, int], complaint: str
) -> None:
    need("verilator")
    monkeypatch.setattr(build, "CACHE", tmp_path)
    with pytest.raises(DutError, match=rf"RTL build failed, see .*build\.log: epic_\w+: {complaint}"):
        build.library(TOP, {**SMALL, **values})


@pytest.mark.parametrize(
    ("mode", "chosen", "message"),
    [
        (3, {"LANES": 4}, "epic_mode3: no parameter 'LANES', expected one of DATA_W, PORTS, CORE_W"),
        (2, {"ROWS": 4}, "epic_mode2: no parameter 'ROWS'"),
        (3, {"MTU": "big"}, "epic_mode3: MTU = 'big', expected a whole number"),
        (2, {"CLOCK_MHZ": 100}, "epic_mode2: CLOCK_MHZ = 100, expected 0"),
        (1, {}, "mode = 1, expected 2 or 3: the RTL has no other"),
    ],
)
def test_parameters_that_no_engine_has(mode: int, chosen: dict[str, int | str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parameters.complete(mode, chosen)
    assert str(caught.value).startswith(message)


def test_the_core_is_never_narrower_than_a_port() -> None:
    assert parameters.complete(3, {"DATA_W": "512"})["CORE_W"] == 512
    assert parameters.complete(3, {"DATA_W": 512, "CORE_W": 1024})["CORE_W"] == 1024
    assert parameters.complete(3, {})["CORE_W"] >= parameters.complete(3, {})["DATA_W"]
