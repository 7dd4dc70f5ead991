"""Paths and trees by arithmetic are those that the packet-level simulator searches."""

from __future__ import annotations

import random

import numpy as np
import pytest

from epic_models.flowsim.topology import FatTree, Searched, SpineLeaf, Topology
from epic_models.packetsim.topology import dragonfly

SMALL: list[Topology] = [
    FatTree(2, 10.0, 5.0),
    FatTree(4, 100.0, 500.0),
    FatTree(8, 25.0, 100.0),
    SpineLeaf(3, 5, 4, 100.0, 500.0, 200.0),
    SpineLeaf(1, 2, 1, 1.0, 1.0, 1.0),
    SpineLeaf(0, 1, 7, 1.0, 1.0, 1.0),
]


@pytest.mark.parametrize("topology", SMALL, ids=lambda t: f"{t.name}-{t.hosts}")
def test_links_paths_and_trees_are_the_searched_ones(topology: Topology) -> None:
    searched = Searched(topology.network)
    assert searched.hosts == topology.hosts
    assert searched.rate.tolist() == topology.rate.tolist()
    assert searched.delay == pytest.approx(topology.delay)
    rng = random.Random(1)
    pairs = np.array([rng.sample(range(topology.hosts), 2) for _ in range(60)], np.int32)
    salts = [f"{i}/3" for i in range(60)]
    found = topology.routes(pairs[:, 0], pairs[:, 1], salts)
    wanted = searched.routes(pairs[:, 0], pairs[:, 1], salts)
    for row, other in zip(found, wanted, strict=True):
        assert row[row >= 0].tolist() == other[other >= 0].tolist()
    for i in range(60):
        members = np.array(
            rng.sample(range(topology.hosts), rng.randint(1, min(topology.hosts, 12))), np.int32
        )
        assert topology.climbs(members, f"{i}/9").tolist() == searched.climbs(members, f"{i}/9").tolist()


def test_ways_spread_over_equal_paths() -> None:
    """ECMP: 256 flows between two pods of 16 cores use all of them, none far more than others."""
    topology = FatTree(8, 100.0, 500.0)
    a, b = np.zeros(256, np.int32), np.full(256, 127, np.int32)
    cores = topology.routes(a, b, [str(i) for i in range(256)])[:, 2]
    counts = np.unique(cores, return_counts=True)[1]
    assert len(counts) == 16
    assert counts.max() < 40


def test_a_datacenter_takes_no_time() -> None:
    """101,306 hosts and 607,836 directed links without a node object; the network itself is made only if asked for."""
    topology = FatTree(74, 100.0, 500.0)
    assert topology.hosts == 101_306
    assert len(topology.rate) == 6 * 101_306
    members = np.arange(0, topology.hosts, 997, dtype=np.int32)
    climbs = topology.climbs(members, "x")
    assert climbs.shape == (len(members), 3)
    assert climbs.max() < len(topology.rate)
    assert "network" not in vars(topology)


def test_other_networks_are_searched() -> None:
    topology = Searched(dragonfly(4, 3, 2, 100.0, 500.0))
    path = topology.routes(np.array([0]), np.array([23]), ["a"])[0]
    names = [topology.network.link_name(int(link)) for link in path if link >= 0]
    assert names[0].startswith("h0-")
    assert names[-1].endswith("-h23")
