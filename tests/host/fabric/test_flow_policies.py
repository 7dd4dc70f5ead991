"""The manager's policies in the flow-level simulator: found by name, on its links, deciding as they do elsewhere."""

from __future__ import annotations

import random
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest

from epic_host.fabric.decision import Path
from epic_host.fabric.flow_policies import FabricSharing, fabric_of
from epic_models.flowsim import sharing
from epic_models.flowsim.collectives import Cut
from epic_models.flowsim.config import parse
from epic_models.flowsim.result import Result, simulate
from epic_models.flowsim.sharing import Ask, Grant, Limits
from epic_models.flowsim.topology import FatTree, SpineLeaf, Topology
from epic_models.packetsim.topology import dragonfly
from epic_spec.errors import ConfigError

TOPOLOGIES: list[Topology] = [FatTree(4, 100.0, 500.0), SpineLeaf(2, 4, 4, 100.0, 500.0, 100.0)]


def ask(name: str, *hosts: int, window: int = 64) -> Ask:
    return Ask(name, hosts, 3, Cut(window=window))


def test_the_simulator_finds_them() -> None:
    (point,) = entry_points(group=sharing.GROUP)
    assert point.load() is FabricSharing
    assert sharing.maker(Limits("spatial")) is FabricSharing


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits("fair"), "policy 'fair' is not known, expected one of best_effort, spatial, temporal"),
        (Limits("spatial", options={"quantum": 1.0}), "policy spatial: options quantum"),
        (Limits("temporal", options={"quantum": -1.0}), "quantum = -1.0, expected seconds above 0"),
    ],
)
def test_unknown_policies_and_options_are_refused_at_once(limits: Limits, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sharing.maker(limits)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_grants_are_trees_on_the_links_of_the_simulator(topology: Topology) -> None:
    """Every rank climbs over joined links to one switch, and where two ways meet they go on together."""
    network = topology.network
    policy = FabricSharing(network, Limits("spatial", slot_bytes=1 << 30))
    rng = random.Random(1)
    for k in range(30):
        hosts = rng.sample(range(topology.hosts), rng.randint(2, 9))
        grant = policy.join(ask(f"g{k}", *hosts), 0.0)
        assert isinstance(grant, Grant)
        above: dict[int, int] = {}
        ends = set()
        for host, row in zip(hosts, grant.climbs.tolist(), strict=True):
            at = host
            for link in (link for link in row if link >= 0):
                wire = network.wires[link >> 1]
                low, high = (wire.b, wire.a) if link & 1 else (wire.a, wire.b)
                assert low == at
                assert above.setdefault(low, link) == link
                at = high
            ends.add(at)
        assert len(ends) == 1
        policy.leave(f"g{k}", 0.0)


def test_memory_is_given_out_once_and_taken_back() -> None:
    """A group with window 64 has 2 x 64 slots of 1 KiB: three fit into 400 KiB, and the fourth when one has gone."""
    network = TOPOLOGIES[0].network
    policy = FabricSharing(network, Limits("spatial", slot_bytes=400 << 10))
    granted = [policy.join(ask(f"g{k}", 0, 1), float(k)) for k in range(5)]
    assert [grant is not None for grant in granted] == [True, True, True, False, False]
    assert policy.moves(5.0) == []
    policy.leave("g1", 6.0)
    moves = policy.moves(6.0)
    assert [(move.group, move.grant is not None) for move in moves] == [("g3", True)]
    assert policy.moves(6.0) == []


def test_best_effort_gives_a_smaller_window() -> None:
    policy = FabricSharing(TOPOLOGIES[0].network, Limits("best_effort", slot_bytes=200 << 10))
    first, second = (policy.join(ask(name, 0, 1), 0.0) for name in ("a", "b"))
    assert first is not None
    assert second is not None
    assert (first.window, second.window) == (64, 32)


def test_turns_of_temporal_and_nobody_returns_before_it_has_left() -> None:
    limits = Limits("temporal", slot_bytes=130 << 10, options={"quantum": 2.0})
    policy = FabricSharing(TOPOLOGIES[0].network, limits)
    assert policy.join(ask("a", 0, 1), 0.0) is not None
    assert policy.join(ask("b", 0, 1), 0.5) is None
    assert policy.next_turn(0.5) == 2.0
    assert policy.moves(1.9) == []
    assert [(move.group, move.grant) for move in policy.moves(2.0)] == [("a", None)]
    # a still holds its place; b comes when it is free, a waits for its turn.
    assert policy.moves(2.0) == []
    assert policy._views["a"].path is Path.HOST
    policy.freed("a", 2.1)
    assert [(move.group, move.grant is not None) for move in policy.moves(2.1)] == [("b", True)]
    assert policy.next_turn(2.1) == pytest.approx(4.1)


def test_what_no_tree_can_serve_stays_on_its_hosts() -> None:
    """Switches work in Mode III, so a group of Mode II has no tree."""
    policy = FabricSharing(TOPOLOGIES[0].network, Limits("spatial"))
    assert policy.join(Ask("two", (0, 1), 2, Cut()), 0.0) is None
    assert policy.moves(1.0) == []
    policy.leave("two", 2.0)


def test_networks_without_an_up_are_fabrics_too() -> None:
    fabric, up = fabric_of(dragonfly(3, 3, 2, 100.0, 500.0), Limits("spatial"))
    assert len(fabric.links) == len(up) == 18 + 9 + 3
    assert {link.low for link in fabric.links} >= set(fabric.hosts)


# --------------------------------------------------------------------------------------------------- whole simulations


def overload(policy: str, **switches: Any) -> Result:
    data = {
        "seed": 1,
        "topology": {"kind": "spine_leaf", "spines": 2, "leaves": 4, "hosts_per_leaf": 4},
        "switches": {"slot_kib": 128, "policy": policy, "change_us": 1000.0, **switches},
        "generate": {
            "jobs": 12, "rate_per_s": 40.0, "ranks": [2, 4, 8], "placement": "random", "algorithm": "mode3",
            "iterations": [2, 6], "compute_us": [2000.0, 20000.0], "gradients": ["64MiB", "512MiB"], "window": 64,
        },
    }  # fmt: skip
    # Not exclusive: many jobs on a host, so that switches have many groups.
    config = parse(data, "overload")
    jobs = [{**job.to_table(), "exclusive": False} for job in config.jobs()]
    del data["generate"]
    return simulate(parse(data | {"job": jobs}, "overload"))


@pytest.mark.parametrize("policy", ["spatial", "temporal", "best_effort"])
def test_memory_is_never_more_than_there_is(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource library refuses what does not fit; at the end everything is given back."""
    made: list[FabricSharing] = []
    real = FabricSharing.__init__

    def noted(self: FabricSharing, *args: Any) -> None:
        real(self, *args)
        made.append(self)

    monkeypatch.setattr(FabricSharing, "__init__", noted)
    options = {"quantum_ms": 50.0} if policy == "temporal" else {}
    result = overload(policy, **options)
    row = result.to_dict()
    assert row["jobs_done"] == 12
    assert 0 < row["network_share"] < 1
    assert row["path_changes"] > 0
    usage = made[-1]._state.usage
    assert usage == usage.emptied()
    assert not made[-1]._views
    again = overload(policy, **options).to_dict()
    for name in ("wall_s", "events_per_s"):
        row.pop(name), again.pop(name)
    assert again == row


def test_turns_reach_more_groups() -> None:
    """What the policies are for: by turns fewer groups never have the network than with places for life."""
    spatial = overload("spatial").to_dict()
    temporal = overload("temporal", quantum_ms=50.0).to_dict()
    assert temporal["never_in_network"] < spatial["never_in_network"]
    assert temporal["path_changes"] > spatial["path_changes"]


def test_room_for_all_is_as_no_limits() -> None:
    data = {
        "topology": {"kind": "fat_tree", "k": 4},
        "job": [
            {"name": f"j{i}", "hosts": [f"h{4 * i + k}" for k in range(4)], "size": "16MiB"} for i in range(4)
        ],
    }
    free = simulate(parse(data, "x"))
    limited = simulate(parse(data | {"switches": {"slot_kib": 1 << 20, "policy": "spatial"}}, "x"))
    assert limited.to_dict()["never_in_network"] == 0
    a, b = ({end.job.name: end.end for end in result.ends} for result in (free, limited))
    # Windows and roots are the policy's, so times differ by latency at most.
    assert np.allclose([a[name] for name in a], [b[name] for name in a], rtol=1e-3)
