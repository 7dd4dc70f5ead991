"""Host plans, and the way from a grant to an agent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from epic_host.agents import GrantAgent, check_transport, edges, make_agents
from epic_host.fallback.agent import HostAgent
from epic_host.fallback.doubling import DoublingAgent
from epic_host.fallback.plan import host_edge_name, host_plan, make_host_agent, neighbours, packet_bytes
from epic_host.fallback.ring import RingAgent
from epic_host.fallback.striped import StripedAgent
from epic_host.grants import Grant, HostPlan
from epic_models.reference.group import Edge
from epic_models.reference.mode3 import Mode3Agent
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.errors import ConfigError
from host.fallback.stripes import stripes
from host.fallback.worlds import ends, params


def grant(host: HostPlan | None = None, **more: object) -> Grant:
    return Grant("job", 1, 0, "granted", 3.0, host=host, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["ring", "doubling"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 33])
def test_both_ends_of_an_edge_fit(algorithm: str, n: int) -> None:
    plan = host_plan(params(n), ends(n), algorithm, 1)
    qpns = [edge.local.qpn for mine in plan.edges.values() for edge in mine.values()]
    assert len(set(qpns)) == len(qpns)
    for rank, mine in plan.edges.items():
        assert tuple(mine) == neighbours(algorithm, rank, n)
        for peer, edge in mine.items():
            other = plan.edges[peer][rank]
            assert (edge.local, edge.peer, edge.psn_tx) == (other.peer, other.local, other.psn_rx)
            assert edge.name == other.name == host_edge_name(rank, peer)
            assert edge.ranks == (peer,)


def test_only_the_edges_that_the_algorithm_needs() -> None:
    assert {len(mine) for mine in host_plan(params(16), ends(16), "ring", 1).edges.values()} == {2}
    assert {len(mine) for mine in host_plan(params(16), ends(16), "doubling", 1).edges.values()} == {4}
    assert host_plan(params(1), ends(1), "ring", 1).edges == {0: {}}


def test_a_plan_is_a_function_of_its_seed_and_epochs_differ() -> None:
    """EPIC-F-05: QPNs of another epoch are others."""
    one, again, other = (host_plan(params(4), ends(4), "ring", seed) for seed in (1, 1, 2))
    assert one == again
    assert {e.local.qpn for m in one.edges.values() for e in m.values()}.isdisjoint(
        e.local.qpn for m in other.edges.values() for e in m.values()
    )


def test_a_plan_survives_json() -> None:
    plan = host_plan(params(5), ends(5), "doubling", 3)
    assert HostPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_bad_plans_are_refused() -> None:
    with pytest.raises(ConfigError, match="host plan: 2 ends, expected one for each of 3 ranks"):
        host_plan(params(3), ends(2), "ring", 1)
    with pytest.raises(ConfigError, match="host plan: algorithm = 'tree', expected one of ring, doubling"):
        host_plan(params(3), ends(3), "tree", 1)
    with pytest.raises(
        ConfigError, match=r"group 1: window x packets of a message = \d+, expected below 2097152"
    ):
        host_plan(
            params(2, mode=1, window=256, message_bytes=1 << 20, message_buffers=1),
            ends(2),
            "ring",
            1,
        )
    with pytest.raises(ConfigError, match=r"host plan: rank = 3, expected one of \[0, 1, 2\]"):
        make_host_agent(host_plan(params(3), ends(3), "ring", 1), 3)


# ------------------------------------------------------------------------------------------------ from a grant


@pytest.mark.parametrize(("algorithm", "kind"), [("ring", RingAgent), ("doubling", DoublingAgent)])
def test_a_rank_needs_its_own_part_of_a_host_plan_only(algorithm: str, kind: type[HostAgent]) -> None:
    plan = host_plan(params(5), ends(5), algorithm, 1)
    part = grant(replace(plan, edges={2: plan.edges[2]}))
    agent = make_agents(part, 2)
    assert type(agent) is kind
    assert isinstance(agent, GrantAgent)
    assert edges(part, 2) == tuple(plan.edges[2].values())
    with pytest.raises(ConfigError, match=r"grant of group job, epoch 1: rank = 1, expected one of \[2\]"):
        make_agents(part, 1)


def test_one_tree_gives_the_reference_agent_and_several_a_striped_one() -> None:
    plans = stripes(params(3), 2)
    one = make_agents(grant(trees=(plans[0],)), 1)
    assert type(one) is Mode3Agent
    assert (one.delivered, one.outstanding) == (0, 0)
    both = grant(trees=tuple(plans))
    assert type(make_agents(both, 1)) is StripedAgent
    assert edges(both, 1) == (plans[0].ranks[1].edge, plans[1].ranks[1].edge)
    with pytest.raises(
        ConfigError, match=r"grant of group job, epoch 1: rank = 7, expected one of \[0, 1, 2\]"
    ):
        make_agents(both, 7)


class _Ports:
    """A transport as far as a grant is checked with it."""

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu
        self.checked: list[Edge] = []

    def check_edge(self, edge: Edge) -> None:
        self.checked.append(edge)


def test_packets_between_hosts_must_fit_the_ports() -> None:
    group = params(3, payload_bytes=1024)
    plan = host_plan(group, ends(3), "ring", 1)
    assert packet_bytes(group) == 1036
    good = _Ports(1036 + 48)
    check_transport(grant(plan), 1, good)  # type: ignore[arg-type]
    assert good.checked == list(plan.edges[1].values())
    with pytest.raises(
        ConfigError, match="group job: payload_bytes = 1024, expected at most 1023 on the host path"
    ):
        check_transport(grant(plan), 1, _Ports(1036 + 47))  # type: ignore[arg-type]
    tree = build_group(Tree("s", {"s": (0, 1, 2)}), group)
    check_transport(grant(trees=(tree,)), 1, _Ports(1024 + 48))  # type: ignore[arg-type]


def test_ranks_on_one_host_may_share_an_address() -> None:
    """QPNs tell them apart, as for ranks of one host on an engine."""
    plan = host_plan(params(2), [LinkEnd(0, "10.0.0.1", "02:00:00:00:00:01")] * 2, "ring", 1)
    assert plan.edges[0][1].local.qpn != plan.edges[1][0].local.qpn
