"""Fault injection: repeatable by seed, each fault independent of the others, rates as asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_models.reference.faults import MAX_OVERTAKERS, FaultInjector, FaultRates
from epic_spec.errors import ConfigError

FRAMES = [i.to_bytes(4, "big") * 8 for i in range(2000)]


def run(rates: FaultRates, seed: int, frames: list[bytes] = FRAMES, first: int = 0) -> list[bytes]:
    injector: FaultInjector[int] = FaultInjector(rates, seed)
    out: list[bytes] = []
    for frame in frames:
        out += [f for _, f in injector.push(0, frame, 0.0, first=first)]
    return out + [f for _, f in injector.poll(1.0)]


def test_without_faults_every_frame_leaves_at_once_and_as_it_came() -> None:
    injector: FaultInjector[int] = FaultInjector(FaultRates(), seed=1)
    assert all(injector.push(7, frame, 0.0) == [(7, frame)] for frame in FRAMES)
    assert injector.next_deadline() is None
    assert injector.counts.to_dict() == {"lost": 0, "duplicated": 0, "reordered": 0, "corrupted": 0}


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    rates = FaultRates(0.1, 0.1, 0.1, 0.1)
    assert run(rates, 5) == run(rates, 5)
    assert run(rates, 5) != run(rates, 6)


def test_loss_hits_the_same_frames_whatever_the_other_rates_are() -> None:
    alone = set(run(FaultRates(loss=0.2), 3))
    beside = set(run(FaultRates(loss=0.2, duplicate=0.3, reorder=0.3), 3))
    assert alone == beside


def test_corruption_hits_the_same_frames_with_and_without_duplication() -> None:
    alone = run(FaultRates(corrupt=0.2), 3)
    beside = run(FaultRates(corrupt=0.2, duplicate=0.5), 3)
    assert set(alone) <= set(beside)


@pytest.mark.parametrize("kind", ["loss", "duplicate", "reorder", "corrupt"])
def test_each_fault_comes_about_as_often_as_its_rate(kind: str) -> None:
    injector: FaultInjector[int] = FaultInjector(FaultRates(**{kind: 0.1}), seed=9)
    for frame in FRAMES:
        injector.push(0, frame, 0.0)
    counts = injector.counts.to_dict()
    hit = {"loss": "lost", "duplicate": "duplicated", "reorder": "reordered", "corrupt": "corrupted"}[kind]
    assert 140 < counts.pop(hit) < 260
    assert set(counts.values()) == {0}


@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_the_counts_account_for_every_frame(
    seed: int, loss: float, dup: float, reorder: float, corrupt: float
) -> None:
    frames = FRAMES[:100]
    injector: FaultInjector[int] = FaultInjector(FaultRates(loss, dup, reorder, corrupt), seed)
    out = []
    for frame in frames:
        out += injector.push(0, frame, 0.0)
    out += injector.poll(1.0)
    counts = injector.counts
    assert len(out) == len(frames) - counts.lost + counts.duplicated
    assert sum(f not in frames for _, f in out) == counts.corrupted
    assert injector.next_deadline() is None


def test_a_reordered_frame_is_overtaken_by_one_to_eight_frames() -> None:
    out = run(FaultRates(reorder=0.05), 4)
    assert sorted(out) == FRAMES
    distances = [i - FRAMES.index(frame) for i, frame in enumerate(out)]
    assert max(distances) <= MAX_OVERTAKERS
    assert max(distances) > 0


def test_a_reordered_frame_waits_for_its_own_link_only() -> None:
    injector: FaultInjector[str] = FaultInjector(FaultRates(reorder=1.0), seed=1)
    assert injector.push("a", b"x", 0.0) == []
    for _ in range(2 * MAX_OVERTAKERS):
        assert ("a", b"x") not in injector.push("b", b"y", 0.0)


def test_a_reordered_frame_without_followers_leaves_when_its_hold_is_over() -> None:
    injector: FaultInjector[int] = FaultInjector(FaultRates(reorder=1.0), seed=1, hold=0.5)
    assert injector.push(0, b"x", 10.0) == []
    assert injector.next_deadline() == 10.5
    assert injector.poll(10.4) == []
    assert injector.poll(10.5) == [(0, b"x")]


def test_corruption_flips_one_to_three_bits_behind_the_offset() -> None:
    frames = [bytes(32)] * 500
    flips = [int.from_bytes(f, "big").bit_count() for f in run(FaultRates(corrupt=1.0), 2, frames, first=14)]
    assert set(flips) == {1, 2, 3}
    assert all(not any(f[:14]) for f in run(FaultRates(corrupt=1.0), 2, frames, first=14))
    assert any(any(f[:14]) for f in run(FaultRates(corrupt=1.0), 2, frames))


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", True, float("nan")])
def test_a_rate_outside_0_to_1_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"faults: loss = .*, expected a number from 0 to 1"):
        FaultRates(loss=value)  # type: ignore[arg-type]
