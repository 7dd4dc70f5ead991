"""`epic bench manager` on a small site: every group is made, used and gone, and the figures are of them."""

from __future__ import annotations

import json

import pytest

from epic_host.bench_manager import _quantile
from epic_host.cli import register
from epic_spec.command import build_app, run


def test_the_figures_are_of_the_groups_that_were_made(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nodes", "40", "--groups", "4", "--ranks", "3", "--requests", "50", "--instances", "1"]
    assert run(build_app([register]), ["bench", "manager", *arguments, "--at-once", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["at_once"] for row in result["runs"]] == [1]
    for row in result["runs"]:
        assert 0 < row["create_ms"]["p50"] <= row["ready_ms"]["p99"] <= row["ready_ms"]["max"]
        assert row["freed_ms"]["p50"] > 0
        assert row["groups_per_second"] > 0
        # Three ranks on hosts of one leaf have one engine, of two leaves three.
        assert 4 <= row["installs"] <= 16
    assert result["placement"]["heuristic"]["requests"] == 50
    assert result["placement"]["gap"]["instances"] == 1


def test_more_ranks_than_nodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build_app([register]), ["bench", "manager", "--nodes", "2", "--ranks", "3"]) == 2
    assert "--ranks = 3, expected at most --nodes (2)" in capsys.readouterr().err


def test_a_quantile_is_a_time_that_was_measured() -> None:
    seconds = [n / 1000 for n in range(1, 101)]
    assert (_quantile(seconds, 0.5), _quantile(seconds, 0.99), _quantile(seconds, 1.0)) == (50.0, 99.0, 100.0)
    assert _quantile([], 0.5) is None
