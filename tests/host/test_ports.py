"""The port of a peer: its own, or that of the longest prefix."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_host.transport import transport_config
from epic_host.transport.ports import PortMap
from epic_spec.errors import ConfigError

address = st.integers(0, (1 << 32) - 1).map(lambda number: str(ipaddress.IPv4Address(number)))


@st.composite
def peers(draw: Any) -> dict[str, int]:
    """Addresses and networks that lie in each other."""
    found: dict[str, int] = {}
    base = draw(st.integers(0, (1 << 32) - 1))
    for port in range(draw(st.integers(0, 8))):
        length = draw(st.integers(0, 32))
        near = base ^ draw(st.sampled_from([0, 1, 255, 1 << 16]))
        network = ipaddress.IPv4Network((near, length), strict=False)
        found[str(network.network_address) if length == 32 else str(network)] = port
    return found


@given(peers(), st.lists(address), st.integers(0, 8))
def test_the_longest_prefix_wins(ports: dict[str, int], others: list[str], near: int) -> None:
    known = PortMap(ports)
    asked = [
        *others,
        *(str(ipaddress.IPv4Network(p).network_address + near % 2) for p in ports if p != "255.255.255.255"),
    ]
    for peer in asked * 2:
        covering = [p for p in ports if ipaddress.IPv4Address(peer) in ipaddress.IPv4Network(p)]
        best = max(covering, key=lambda p: ipaddress.IPv4Network(p).prefixlen, default=None)
        assert known.get(peer) == (None if best is None else ports[best])


def config(ports: dict[str, Any]) -> Any:
    return transport_config({"kind": "udp", "address": "127.0.0.1", "ports": ports})


def test_a_network_is_written_in_one_way() -> None:
    assert config({"127.0.0.9/32": 3, "10.0.0.0/8": 1}).ports == {"127.0.0.9": 3, "10.0.0.0/8": 1}


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ({"10.0.0.1/8": 0}, "peer = '10.0.0.1/8', expected an IPv4 network like 127.20.1.0/24"),
        ({"10.0.0.0/33": 0}, "expected an IPv4 network"),
        ({"h0": 0}, "peer = 'h0', expected an IPv4 address"),
        ({"10.0.0.1": 0, "10.0.0.1/32": 1}, "peer 10.0.0.1/32 is there twice"),
        ({"10.0.0.0/8": "x"}, "peer 10.0.0.0/8: port 'x', expected a whole number"),
    ],
)
def test_what_is_no_peer_is_refused(ports: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        config(ports)
