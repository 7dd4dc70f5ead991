"""What is not EPIC's is forwarded by the entries made here, on both programs."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from epic_p4.control import DirectBackend
from epic_p4.control.forward import (
    BROADCAST,
    flood,
    flood_group,
    local_address,
    own_address,
    route,
    station,
)
from epic_p4.switch import P4Switch
from epic_spec.errors import ConfigError
from p4.control.programs import FILES, program

HOST, SWITCH, NEXT = "02:00:00:00:00:01", "02:00:00:00:00:aa", "02:00:00:00:00:bb"


@pytest.fixture(params=FILES)
def switch(request: pytest.FixtureRequest) -> P4Switch:
    """A switch with a station, a route, a default route, and a flood of ports 1, 2 and 3."""
    made = P4Switch(program(request.param))
    backend = DirectBackend(made)
    backend.write((flood_group(0x8001, (1, 2, 3)),))
    backend.write(
        (
            station(HOST, 4),
            own_address(SWITCH),
            flood(BROADCAST, 0x8001),
            route("10.2.0.0/16", 5, SWITCH, NEXT),
            route("0.0.0.0/0", 6, SWITCH, NEXT),
            local_address("10.2.0.1"),
        )
    )
    return made


def packet(dst: str, ip: str = "10.2.3.4") -> bytes:
    """A UDP packet that is not RoCE."""
    return bytes(Ether(dst=dst, src=HOST) / IP(src="10.1.0.1", dst=ip, ttl=9) / UDP(dport=53) / b"question")


def test_a_frame_to_a_station_leaves_as_it_came(switch: P4Switch) -> None:
    assert switch.process(1, packet(HOST)) == [(4, packet(HOST))]


def test_an_unknown_station_gets_nothing(switch: P4Switch) -> None:
    assert switch.process(1, packet("02:00:00:00:00:77")) == []


def test_a_broadcast_goes_everywhere_but_back(switch: P4Switch) -> None:
    frame = bytes(Ether(dst=BROADCAST, src=HOST) / ARP(pdst="10.1.0.9"))
    assert sorted(switch.process(2, frame)) == [(1, frame), (3, frame)]


@pytest.mark.parametrize(("ip", "port"), [("10.2.3.4", 5), ("192.0.2.1", 6)])
def test_a_packet_to_the_switchs_mac_is_routed(switch: P4Switch, ip: str, port: int) -> None:
    ((out, frame),) = switch.process(1, packet(SWITCH, ip))
    routed = Ether(frame)
    assert (out, routed.src, routed.dst, routed[IP].ttl) == (port, SWITCH, NEXT, 8)
    checksum = routed[IP].chksum
    del routed[IP].chksum
    assert Ether(bytes(routed))[IP].chksum == checksum


def test_a_packet_to_the_switch_itself_is_not_routed(switch: P4Switch) -> None:
    assert switch.process(1, packet(SWITCH, "10.2.0.1")) == []


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"prefix '10\.0\.0\.1/8': .* has host bits set, expected one like"):
        route("10.0.0.1/8", 1, SWITCH, NEXT)
    with pytest.raises(ConfigError, match="flood group 0x7: expected 0x8000 to 0xffff"):
        flood_group(7, [1])
    with pytest.raises(ConfigError, match="MAC address 'x', expected six hex bytes"):
        station("x", 1)
    with pytest.raises(ConfigError, match=r"IPv4 address '1\.2', expected four decimal bytes"):
        local_address("1.2")
