"""Benches: that their figures are what they are called, on small instances; and that the seed decides all but times."""

from __future__ import annotations

import pytest

from epic_host.fabric.bench import gap, jain, placement
from epic_host.fabric.bench_sharing import SharingFigures, sharing
from epic_host.fabric.policies import load


def test_jain_is_one_for_equal_shares_and_one_nth_for_a_single_one() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0, 3.0]) == pytest.approx(16 / 20)
    assert jain([0.0, 0.0]) == 1.0


def test_placement_figures_add_up() -> None:
    figures = placement(k=4, requests=150, live=20, seed=3)
    assert (figures.hosts, figures.engines) == (16, 20)
    assert figures.admitted + sum(figures.refused.values()) == 150
    assert 0 < figures.utilization <= figures.peak <= 1
    assert figures.seconds > 0 and figures.rate == pytest.approx(150 / figures.seconds)
    assert set(figures.balance) == {"tier 1", "tier 2", "tier 3"}
    again = placement(k=4, requests=150, live=20, seed=3)
    assert (again.admitted, again.utilization, again.balance) == (
        figures.admitted,
        figures.utilization,
        figures.balance,
    )
    assert placement(k=4, requests=150, live=20, seed=4).utilization != figures.utilization


def test_gap_figures_compare_with_the_best() -> None:
    figures = gap(instances=6, seed=2)
    assert figures.instances == 6 and figures.unsolved == 0
    assert figures.online <= figures.best and figures.batch <= figures.best <= figures.groups
    assert 0 <= figures.batch_gap <= figures.batch_worst < 1
    assert figures.online_met <= 1 and figures.batch_met <= 1


def test_turns_are_fairer_than_first_come_first_served() -> None:
    by_name: dict[str, SharingFigures] = {
        name: sharing(load(name), groups=40, load=2.0, seed=5)
        for name in ("best_effort", "spatial", "temporal")
    }
    assert by_name["temporal"].fairness > by_name["spatial"].fairness
    assert by_name["temporal"].starved < by_name["best_effort"].starved
    assert by_name["temporal"].moves > by_name["spatial"].moves
    for figures in by_name.values():
        assert figures.groups == 40 and 0 < figures.utilization < 1 and 0 < figures.mean_share < 1
