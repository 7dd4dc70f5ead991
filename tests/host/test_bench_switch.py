"""`epic bench switch`: rows of right results, and a wrong one that shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epic_host import bench_switch
from epic_host.cli import register
from epic_host.fast.load import Load
from epic_spec.command import build_app, run

FEW = ["--payload", "256", "--fan-in", "2", "--window", "16", "--seconds", "0.01"]


def rows(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert run(build_app([register]), ["bench", "switch", *FEW, *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("dtype", ["int32", "fp32"])
def test_every_row_is_of_right_results(capsys: pytest.CaptureFixture[str], dtype: str) -> None:
    found = rows(capsys, "--mode", "3,2", "--datapath", "both", "--dtype", dtype)
    assert [(row["mode"], row["datapath"]) for row in found] == [
        (3, "fast"), (3, "reference"), (2, "fast"), (2, "reference"),
    ]  # fmt: skip
    for row in found:
        rates = row["contributions_per_second"]
        assert 0 < rates["min"] <= rates["median"] <= rates["max"]
        assert row["gbytes_per_second"]["median"] == pytest.approx(rates["median"] * 256 / 1e9, rel=1e-3)
        assert row["windows"] >= 3
        assert (row["type"], row["payload_bytes"], row["fan_in"], row["wrong"]) == (dtype, 256, 2, 0)


def test_a_wrong_result_is_counted_and_ends_in_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Load.results
    monkeypatch.setattr(Load, "results", lambda self: [bytes(256), *results(self)[1:]])
    (row,) = rows(capsys, "--mode", "3", code=1)
    # The first cell of two windows, for two children.
    assert row["wrong"] == 4


def test_frames_that_are_dropped_are_counted_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_host.fast.load._number", lambda *_: None)
    assert bench_switch.measure(3, "fast", 2, 256, "int32", 16, 0.001, 1).wrong > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "1"], "--mode '1', expected numbers from 2 to 3"),
        (["--payload", "12"], "--payload '12', expected numbers from 8 to 8192 in steps of 8"),
        (["--fan-in", "2,x"], "--fan-in '2,x', expected numbers from 1 to 64"),
        (["--dtype", "int128"], "--dtype 'int128', expected one of int32"),
        (["--datapath", "slow"], "datapath = 'slow', expected one of"),
        (["--window", "3"], "window = 3, expected a power of two"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(build_app([register]), ["bench", "switch", *FEW, *arguments]) == 2
    assert message in capsys.readouterr().err
