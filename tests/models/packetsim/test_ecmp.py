"""Equal-cost paths: hashes use all of them alike, and what halving and doubling loses in a fat tree is collisions."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from epic_models import closed_forms
from epic_models.closed_forms import Path
from epic_models.packetsim import topology
from epic_models.packetsim.config import parse
from epic_models.packetsim.result import simulate
from epic_models.packetsim.topology import Network, fat_tree


def chi_square(counts: Counter[tuple[int, ...]], bins: int, free: int) -> float:
    """Of counts that should be equal, per degree of freedom: 1 where they are as chance has it."""
    expected = sum(counts.values()) / bins
    assert len(counts) == bins
    return sum((n - expected) ** 2 / expected for n in counts.values()) / free


def spread() -> tuple[float, float]:
    """Of 20,000 flows between pods of a fat tree with k = 8: links up from edges, and (edge, aggregation) pairs."""
    net = fat_tree(8, 100.0, 500.0)
    first: Counter[tuple[int, ...]] = Counter()
    both: Counter[tuple[int, ...]] = Counter()
    for flow in range(20_000):
        links = net.path(flow * 37 % 128, (flow * 37 + 64) % 128, f"0/{flow}")
        first[links[1],] += 1
        both[links[1], links[2]] += 1
    # 32 edges with 4 links up each, and 4 from each aggregation switch.
    return chi_square(first, 128, 32 * 3), chi_square(both, 512, 32 * 15)


def test_a_hash_uses_all_ways_alike_and_the_second_choice_does_not_hang_on_the_first() -> None:
    for found in spread():
        assert 0.6 < found < 1.5


def test_a_hash_that_is_linear_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """CRC by itself: the choice at the second switch follows from that at the first."""
    monkeypatch.setattr(topology, "choice", lambda salt, node: zlib.crc32(f"{salt}/{node}".encode()))
    with pytest.raises(AssertionError):
        assert max(spread()) < 1.5


def by_destination(net: Network, start: int, stop: int, salt: object) -> list[int]:
    """Links up by the destination's number (D-mod-k): no two flows of an exchange share one in a fat tree."""
    half, level = 2, 0
    switch, link = net._switch_of(stop)
    far = net.distances(switch)
    at, links = start, []
    while at != switch:
        nearer = [(o, k) for o, k in net.neighbours[at] if far[o] == far[at] - 1 and o >= net.hosts]
        turn = 0
        if len(nearer) > 1:
            turn = stop // half**level % half
            level += 1
        at, out = nearer[turn]
        links.append(out)
    return [*links, link ^ 1]


def test_without_collisions_halving_and_doubling_takes_its_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 hosts of a fat tree: with hashes more than twice that."""
    job = {"algorithm": "halving_doubling", "size": "4MiB", "ranks": 16, "window": 4096}
    timers = {"rto_initial_us": 1e6, "rto_min_us": 1e6, "rto_max_us": 1e6}
    shape = {"kind": "fat_tree", "k": 4, "rate_gbps": 100.0, "delay_ns": 500.0, "buffer_kib": 1e6}
    config = {"topology": shape, "job": [job | timers]}
    form = closed_forms.halving_doubling(Path(6, 12.5e9, 500e-9), 16, 4 << 20, 4096)
    hashed = float(simulate(parse(config, "t"), packets=1 << 17).jobs[0].completion[0])
    monkeypatch.setattr(Network, "path", by_destination)
    routed = float(simulate(parse(config, "t"), packets=1 << 17).jobs[0].completion[0])
    assert routed == pytest.approx(form, rel=0.01)
    assert hashed > 2 * form
