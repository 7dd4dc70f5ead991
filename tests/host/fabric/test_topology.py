"""Fabrics: shapes, files, and what is said of files that are wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from epic_host.fabric.builders import Cables, fat_tree, single, spine_leaf, tree
from epic_host.fabric.resources import Capacity
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_spec.errors import ConfigError
from host.fabric.fabrics import TOFINO, engines, error_of

GOOD = """
[hosts.h0]
pool = "127.20.1.0/28"
[hosts.node-1]
pool = "127.20.2.1, 127.20.2.7"
mac = "02:00:00:00:00:01"
[engines.s0]
control = "unix:/run/s0.sock"
address = "127.20.0.1"
slot_bytes = 1048576
groups = 8
[engines."s1.x".offer]
mode = 2
window = 16
datatypes = ["INT32"]
icrc = ["full"]
[[links]]
low = "h0"
high = "s0"
rate_gbps = 25
[[links]]
low = "node-1"
high = "s0"
high_port = 1
mtu = 9000
delay_us = 0.5
high_mac = "02:00:00:00:00:09"
[[links]]
low = "s0"
high = "s1.x"
low_port = 2
"""


def test_a_file_says_all_there_is() -> None:
    fabric = Fabric.from_toml(GOOD, "f.toml")
    assert fabric.hosts["node-1"] == HostNode("node-1", "127.20.2.1, 127.20.2.7", "02:00:00:00:00:01")
    assert fabric.engines["s0"].capacity == Capacity(slot_bytes=1048576, groups=8)
    offer = fabric.engines["s1.x"].offer
    assert offer is not None and (offer.mode, offer.window, offer.datatypes) == (2, 16, ("INT32",))
    assert fabric.link("node-1-s0") == Link("node-1", "s0", 0, 1, 10.0, 9000, 0.5, None, "02:00:00:00:00:09")
    assert fabric.tiers == {"h0": 0, "node-1": 0, "s0": 1, "s1.x": 2}
    assert Fabric.from_toml(fabric.to_toml()) == fabric


@pytest.mark.parametrize(
    "fabric",
    [
        single(3, engine=engines(Capacity(rate_gbps=12.5))),
        tree((2, 3, 2), cables=Cables(25.0, 9000, 0.25)),
        spine_leaf(3, 4, 2, engine=engines(offer=TOFINO)),
        fat_tree(4),
    ],
    ids=["single", "tree", "spine_leaf", "fat_tree"],
)
def test_every_shape_goes_into_a_file_and_back(fabric: Fabric) -> None:
    assert Fabric.from_toml(fabric.to_toml()) == fabric


def test_the_fat_tree_of_16_ports_has_1024_hosts() -> None:
    fabric = fat_tree(16)
    assert len(fabric.hosts) == 1024
    assert Counter(fabric.tiers.values()) == {0: 1024, 1: 128, 2: 128, 3: 64}
    degrees = {len(fabric.down[e]) + len(fabric.up[e]) for e in fabric.engines}
    assert degrees == {16}
    for engine in fabric.engines:
        ports = [link.high_port for link in fabric.down[engine]] + [
            link.low_port for link in fabric.up[engine]
        ]
        assert sorted(ports) == list(range(16))


def test_shapes_are_what_they_are_called() -> None:
    assert set(spine_leaf(2, 3, 4).link_names) >= {
        f"l{leaf}-p{spine}" for leaf in range(3) for spine in range(2)
    }
    assert tree((2, 2)).link_names.keys() == {"h0-s1", "h1-s1", "h2-s2", "h3-s2", "s1-s0", "s2-s0"}
    assert single(2).link_names.keys() == {"h0-s0", "h1-s0"}
    for wrong in (lambda: tree(()), lambda: tree((0,)), lambda: spine_leaf(0, 1, 1), lambda: fat_tree(3)):
        with pytest.raises(ConfigError, match="expected"):
            wrong()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[hosts.h0]", "[hosts.h0"), "f.toml: "),
        (
            ('pool = "127.20.1.0/28"', 'pool = "127.20.1.0/99"'),
            "f.toml: hosts.h0: pool = '127.20.1.0/99', expected an",
        ),
        (('pool = "127.20.1.0/28"', "pool = 5"), "f.toml: hosts.h0: pool = 5, expected an IPv4 network"),
        (
            ('pool = "127.20.1.0/28"', "plan = 5"),
            "f.toml: hosts.h0: unknown key 'plan', expected one of pool, mac",
        ),
        (("02:00:00:00:00:01", "02:00"), "f.toml: hosts.node-1: mac = '02:00', expected a MAC address"),
        (('"127.20.0.1"', '"::1"'), "f.toml: engines.s0: address = '::1', expected an IPv4 address"),
        (("groups = 8", "groups = -1"), "f.toml: engines.s0: groups = -1, expected a whole number from 0"),
        (
            ("groups = 8", "groups = true"),
            "f.toml: engines.s0: groups = True, expected a whole number from 0",
        ),
        (
            ("groups = 8", "slot = 1"),
            "f.toml: engines.s0: unknown key 'slot', expected one of control, address",
        ),
        (
            ("mode = 2", "mode = 4"),
            "f.toml: engines.s1.x.offer: mode = 4, expected a whole number from 1 to 3",
        ),
        (("mode = 2\n", ""), "f.toml: engines.s1.x.offer: no mode, expected one of 1, 2, 3"),
        (
            ('["full"]', '"full"'),
            "f.toml: engines.s1.x.offer: icrc = 'full', expected a list of what is offered",
        ),
        (('["full"]', '["half"]'), "f.toml: engines.s1.x.offer: icrc = 'half', expected one of full, none"),
        (('low = "h0"', 'low = "h7"'), "f.toml: link h7-s0: low = 'h7', expected a host or an engine"),
        (('high = "s1.x"', 'high = "h0"'), "f.toml: link s0-h0: high = 'h0', expected an engine"),
        (('low = "h0"\n', ""), "f.toml: links[0]: low = None, expected the name of a node"),
        (("00:00:09", "09"), "f.toml: link node-1-s0: high_mac = '02:00:00:09', expected a MAC address"),
        (("rate_gbps = 25", "rate_gbps = 0"), "f.toml: link h0-s0: rate_gbps = 0, expected Gbit/s above 0"),
        (("mtu = 9000", "mtu = 99"), "f.toml: link node-1-s0: mtu = 99, expected 124 to 65535 bytes"),
        (
            ("delay_us = 0.5", "delay_us = -1"),
            "f.toml: link node-1-s0: delay_us = -1, expected microseconds from 0",
        ),
        (("delay_us = 0.5", "delay = 1"), "f.toml: links[1]: unknown key 'delay', expected one of low, high"),
        (
            ("high_port = 1", "high_port = 0"),
            "f.toml: link node-1-s0: port 0 of s0 is that of link h0-s0, expected a",
        ),
        (("[hosts.h0]", "[hosts.s0]"), "f.toml: 's0' is a host and an engine, expected one of the two"),
        (
            ('[engines."s1.x".offer]', "[engines.r1.offer]"),
            "f.toml: engine 'r1', expected a letter, then letters",
        ),
        (
            ('low = "node-1"', 'low = "h0"'),
            "f.toml: link h0-s0: there twice, expected one link between two nodes",
        ),
        (("[[links]]", "[[cables]]"), "f.toml: unknown key 'cables', expected one of hosts, engines, links"),
    ],
)
def test_a_wrong_file_is_refused_by_file_key_value_and_expected(change: tuple[str, str], said: str) -> None:
    assert change[0] in GOOD
    message = error_of(GOOD.replace(*change))
    assert message.startswith(said), message
    assert "\n" not in message


def test_links_lead_up_only() -> None:
    links = (Link("a", "b", 0, 0), Link("b", "c", 1, 0), Link("c", "a", 1, 1))
    with pytest.raises(ConfigError, match="is above itself by its links, expected links that lead up only"):
        Fabric({}, {name: EngineNode(name) for name in "abc"}, links)
    with pytest.raises(ConfigError, match="there twice, expected one link between two nodes"):
        Fabric(
            {}, {name: EngineNode(name) for name in "ab"}, (links[0], replace(links[0], low="b", high="a"))
        )
    with pytest.raises(ConfigError, match="link 'x-y' is not of the fabric, expected low-high"):
        single(1).link("x-y")
