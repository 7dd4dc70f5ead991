"""Address plans: deterministic, inside the subnet, each address once, and payloads that fit the MTU."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from epic_models.reference.group import GroupParams
from epic_models.reference.tree import build_group
from epic_spec.errors import ConfigError
from epic_spec.tables import UDP_PORT
from epic_testbed import addressing, topology

KINDS = ("udp", "netns")


def plan_of(name: str, ranks: int, kind: str, **more: object) -> addressing.Plan:
    """The plan of a built-in topology."""
    return addressing.plan(topology.load(name, ranks)[0], ranks, kind, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", topology.BUILT_IN)
@pytest.mark.parametrize("ranks", [1, 5, 64])
def test_every_node_has_its_own_address_in_the_subnet(name: str, ranks: int, kind: str) -> None:
    plan = plan_of(name, ranks, kind)
    addresses = list(plan.addresses.values())
    assert len(set(addresses)) == len(addresses) == ranks + len(plan.switches)
    subnet = ipaddress.IPv4Network(addressing.DEFAULT_SUBNET[kind])
    assert all(ipaddress.IPv4Address(a) in subnet for a in addresses)
    assert plan == plan_of(name, ranks, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_can_be_built_on_the_plan(kind: str) -> None:
    plan = plan_of("3-level", 11, kind)
    group = build_group(plan.tree, GroupParams(group=1, mode=3, world_size=11), plan.ends)
    for name, engine in group.engines.items():
        for edge in (*engine.children, *([engine.parent] if engine.parent else [])):
            ports = plan.switches[name]["ports"]
            if kind == "udp":
                assert ports[edge.peer.ip] == edge.port
                assert plan.switches[name]["address"] == edge.local.ip
            else:
                assert ports[str(edge.port)] == f"p{edge.port}"


def test_ranks_of_one_host_share_its_port_and_its_interface() -> None:
    plan = plan_of("single", 10, "netns")
    first, third = plan.ends[0, "s0"], plan.ends[8, "s0"]
    assert plan.hosts[0] == plan.hosts[8] == "h0"
    assert first[1] == third[1]
    assert first[0].mac == third[0].mac
    assert first[0].ip != third[0].ip


def test_interfaces_have_their_own_mac_addresses() -> None:
    plan = plan_of("3-level", 16, "netns")
    ends = [end for veth in plan.veths for end in (veth.child, veth.parent)]
    assert len({end.mac for end in ends}) == len(ends) == len({(end.node, end.name) for end in ends})
    assert all(int(end.mac[:2], 16) & 3 == 2 for end in ends), "locally administered, unicast"


@pytest.mark.parametrize(
    ("mtu", "payload"),
    [(65535, 4096), (9000, 8192), (4144, 4096), (4143, 2048), (1500, 1024), (560, 512), (304, 256)],
)
def test_the_largest_payload_that_fits_the_mtu_is_taken(mtu: int, payload: int) -> None:
    assert addressing.payload_for(mtu, None) == payload


def test_a_payload_that_does_not_fit_is_refused() -> None:
    assert addressing.payload_for(1500, 1452) == 1452
    with pytest.raises(ConfigError, match="payload = 1453 bytes, expected at most 1452: MTU 1500"):
        addressing.payload_for(1500, 1453)
    with pytest.raises(ConfigError, match="mtu = 300 bytes, expected at least 304"):
        addressing.payload_for(300, None)


def test_the_smallest_mtu_of_the_links_in_use_counts() -> None:
    text = topology.parse(
        '[hosts]\nh0 = {}\nh1 = {}\n[switches]\ns0 = {}\n[[links]]\nchild = "h0"\nparent = "s0"\nmtu = 9000\n'
        '[[links]]\nchild = "h1"\nparent = "s0"\nmtu = 1280\n',
        "t",
    )[0]
    assert addressing.path_mtu(text, 1, 1500) == 9000
    assert addressing.path_mtu(text, 2, 1500) == 1280
    assert [veth.mtu for veth in addressing.plan(text, 2, "netns").veths] == [9000, 1280]


def test_the_files_own_addresses_are_kept_and_must_fit_the_transport() -> None:
    text = (
        '[hosts]\nh0 = { address = "127.1.2.3" }\n'
        "[switches]\ns0 = {}\n"
        '[[links]]\nchild = "h0"\nparent = "s0"\n'
    )
    found = topology.parse(text, "t")[0]
    plan = addressing.plan(found, 2, "udp")
    assert plan.addresses == {0: "127.1.2.3", 1: "127.0.0.11", "s0": "127.0.0.101"}
    with pytest.raises(ConfigError, match=r"expected one outside 127\.0\.0\.0/8 for transport netns"):
        addressing.plan(found, 1, "netns")
    clash = topology.parse(text.replace("127.1.2.3", "127.0.0.101"), "t")[0]
    with pytest.raises(ConfigError, match=r"address 127\.0\.0\.101 of rank 0 is also planned for switch s0"):
        addressing.plan(clash, 1, "udp")


@pytest.mark.parametrize(
    ("kind", "subnet", "expected"),
    [
        ("udp", "10.0.0.0/24", "expected one inside 127.0.0.0/8"),
        ("udp", "127.0.0.1/24", "expected an IPv4 subnet"),
        ("udp", "127.0.0.0/30", "has no address 10 for rank 0"),
        ("netns", "127.0.0.0/24", "expected unicast addresses outside"),
        ("netns", "239.0.0.0/24", "expected unicast addresses outside"),
        ("udp", "x", "expected an IPv4 subnet"),
    ],
)
def test_a_wrong_subnet_is_refused(kind: str, subnet: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        plan_of("single", 4, kind, subnet=subnet)


def test_a_port_in_use_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.9.11", UDP_PORT))
        with pytest.raises(ConfigError, match=r"127\.0\.9\.11:4791 for rank 1 is in use"):
            addressing.check_free(plan_of("single", 2, "udp", subnet="127.0.9.0/24").addresses)
    addressing.check_free(plan_of("single", 2, "udp", subnet="127.0.9.0/24").addresses)
