"""Every algorithm alone takes what its closed form says, within 1 %; faults of the simulator would be seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from epic_models import closed_cases
from epic_models.closed_cases import CASES, FULL, HOSTS, MEETING, WAY, WINDOW, WITHIN, Case
from epic_models.packetsim import algorithms, build
from epic_models.packetsim.world import WHOLE
from epic_models.sim_cli import sim_app

MIB = 1 << 20


def name(case: Case) -> str:
    return f"{case.algorithm}, {case.limit}, {case.links} links"


def deviation(case: Case) -> float:
    return case.simulated() / case.formula() - 1


def of(algorithm: str, limit: str) -> Case:
    return next(case for case in CASES if (case.algorithm, case.limit) == (algorithm, limit))


@pytest.mark.parametrize("case", CASES, ids=name)
def test_within_a_hundredth_of_the_closed_form(case: Case) -> None:
    assert abs(deviation(case)) < WITHIN <= 0.01


def test_the_command_compares_all_and_fails_beyond_a_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(off: float) -> Iterator[tuple[Case, float, float]]:
        return iter([(CASES[0], 1e-3 * off, 1e-3), (MEETING[0], 1.07e-3, 1e-3)])

    for off, code in ((1.005, 0), (1.02, 1)):
        monkeypatch.setattr(closed_cases, "compared", lambda off=off: found(off))
        ran = CliRunner().invoke(sim_app, ["check"])
        assert ran.exit_code == code
        assert "mode1" in ran.output
        (row, _) = json.loads(CliRunner().invoke(sim_app, ["check", "--json"]).output)
        assert row["deviation"] == pytest.approx(off - 1)


@pytest.mark.parametrize("case", [case for case in CASES if case.algorithm.startswith("mode")], ids=name)
def test_modes_are_as_the_closed_form_to_the_picosecond(case: Case) -> None:
    """Also where the last cell is short, and the first is the only one."""
    for size in (case.size, case.size - 900, 100, 17_000):
        other = replace(case, size=size)
        assert other.simulated() == pytest.approx(other.formula(), rel=1e-6)


@pytest.mark.parametrize("primitive", ["reduce", "broadcast", "barrier", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("algorithm", ["mode1", "mode2", "mode3"])
def test_the_other_primitives_fill_a_link_as_all_reduce_does(algorithm: str, primitive: str) -> None:
    for links, window, delay in ((1, 32, 500.0), (3, 64, 500.0), (3, 4, 20_000.0)):
        case = Case(algorithm, FULL, 8, MIB, window, links, delay, primitive, 4096)
        assert abs(deviation(case)) < 0.01


@pytest.mark.parametrize("ranks", [2, 4, 32])
def test_for_any_number_of_ranks(ranks: int) -> None:
    for algorithm in HOSTS:
        # A packet a shard, or a tree.
        size = 1024 * (2 if algorithm == "double_tree" else ranks)
        assert abs(deviation(replace(of(algorithm, WAY), ranks=ranks, size=size))) < 1e-6
        assert abs(deviation(replace(of(algorithm, WINDOW), ranks=ranks, delay_ns=20_000.0))) < 0.01


@pytest.mark.parametrize("case", MEETING, ids=lambda case: f"{case.ranks} ranks")
def test_a_double_tree_on_full_links_comes_near_its_bound_and_not_below(case: Case) -> None:
    assert 0.0 < deviation(case) < 0.1


# ------------------------------------------------------------------------------------------------ what would be seen


def test_a_wrong_header_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames without the preamble and the gap between frames, 20 bytes."""
    monkeypatch.setattr(build, "HEADER_BYTES", 66)
    for algorithm in ("mode1", "mode2", "mode3", *algorithms.ALGORITHMS):
        assert deviation(of(algorithm, FULL)) < -0.01


def test_a_hop_more_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts behind a switch of their own each, where the formula has one switch between them."""

    def longer(case: Case) -> dict[str, Any]:
        return topology(replace(case, links=case.links + (2 if case.algorithm in HOSTS else 1)))

    topology = Case._topology
    monkeypatch.setattr(Case, "_topology", longer)
    for algorithm in ("mode3", *algorithms.ALGORITHMS):
        assert deviation(of(algorithm, WAY)) > 0.01
        assert deviation(of(algorithm, WINDOW)) > 0.01


@pytest.mark.parametrize("algorithm", ["double_tree", "parameter_server"])
def test_a_lost_pipeline_would_be_seen(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that wait for all of the data before they pass the first packet on."""
    make = algorithms.ALGORITHMS[algorithm]

    def whole(ranks: int, places: int) -> list[algorithms.Flow]:
        flows = list(make(ranks, places))
        for flow in flows:
            flow.rule = WHOLE
        return flows

    monkeypatch.setitem(algorithms.ALGORITHMS, algorithm, whole)
    assert deviation(of(algorithm, FULL)) > 0.01
    assert deviation(of(algorithm, WINDOW)) > 0.01


def test_a_step_too_few_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(ranks: int, places: int) -> list[algorithms.Flow]:
        flows = algorithms.ring(ranks, places)
        for flow in flows:
            del flow.segments[-1]
        return flows

    monkeypatch.setitem(algorithms.ALGORITHMS, "ring", shorter)
    for limit in (FULL, WINDOW, WAY):
        assert deviation(of("ring", limit)) < -0.01


@pytest.mark.parametrize("algorithm", ["mode1", "mode2", "mode3", "ring", "double_tree", "parameter_server"])
def test_a_window_of_one_more_would_be_seen(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = of(algorithm, WINDOW)
    assert abs(deviation(case)) < 0.01
    assert replace(case, window=case.window + 1).simulated() / case.formula() < 0.99


def test_acknowledgements_that_take_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round, for they are compiled in: formulas without them do not fit."""
    path = Case.path.fget  # type: ignore[attr-defined]

    def bare(case: Case) -> Any:
        return replace(path(case), ack=0)

    monkeypatch.setattr(Case, "path", property(bare))
    for algorithm in ("mode2", "ring", "halving_doubling", "double_tree", "parameter_server"):
        assert deviation(of(algorithm, FULL)) > 0.01
