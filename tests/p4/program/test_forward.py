"""An INC switch is still a switch: what is not of an edge is bridged and routed, and nothing of it reaches a group."""

from __future__ import annotations

import socket
import struct
from functools import cache

import pytest

from epic_p4.switch import Exact, Lpm
from p4.program.device import Device
from p4.program.frames import SUM, data, make_group, ramp

ARCHES = pytest.mark.parametrize("arch", ["v1model", "tna", "tna1"])
ROUTER, HOST_A, HOST_B = 0x02_00_00_00_00_FE, 0x02_00_00_00_00_0A, 0x02_00_00_00_00_0B
L2, IPV4 = "EpicIngress.forward.l2", "EpicIngress.forward.ipv4"
GROUP = make_group(2, icrc="none", window_guard=False)


@cache
def _made(arch: str) -> Device:
    return Device(arch, 16)


def _device(arch: str) -> Device:
    device = _made(arch)
    device.clear()
    device.install(GROUP)
    return device


def _mac(number: int) -> bytes:
    return number.to_bytes(6, "big")


def _ethernet(dst: int, src: int, kind: int, rest: bytes) -> bytes:
    return _mac(dst) + _mac(src) + kind.to_bytes(2, "big") + rest


def _ipv4(dst: str, payload: bytes, *, ttl: int = 9, protocol: int = 6, wrong: int = 0) -> bytes:
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 7, 0, ttl, protocol, 0,
        socket.inet_aton("192.0.2.1"), socket.inet_aton(dst),
    )  # fmt: skip
    total = sum(struct.unpack(">10H", head))
    checksum = 0xFFFF - total % 0xFFFF ^ wrong
    return head[:10] + struct.pack(">H", checksum) + head[12:] + payload


def _bridge(device: Device) -> None:
    device.switch.insert(L2, {"dst_mac": Exact(HOST_B)}, "EpicIngress.forward.to_port", {"port": 7})
    device.switch.insert(
        L2, {"dst_mac": Exact(0xFFFFFFFFFFFF)}, "EpicIngress.forward.flood", {"group": 0x8001}
    )
    device.switch.insert(L2, {"dst_mac": Exact(ROUTER)}, "EpicIngress.forward.route", {})
    device.switch.multicast_set(0x8001, [(port, 0) for port in (1, 2, 7)])
    device.switch.insert(
        IPV4,
        {"dst_ip": Lpm(0xCB007100, 24)},
        "EpicIngress.forward.next_hop",
        {"src_mac": ROUTER, "dst_mac": HOST_B, "port": 9},
    )
    device.switch.insert(IPV4, {"dst_ip": Lpm(0xCB007101, 32)}, "EpicIngress.forward.local", {})


@ARCHES
@pytest.mark.parametrize("kind", [0x0806, 0x86DD, 0x8100, 0x0800])
def test_a_known_mac_is_bridged_unchanged(arch: str, kind: int) -> None:
    device = _device(arch)
    _bridge(device)
    before = device.counters()
    frame = _ethernet(HOST_B, HOST_A, kind, bytes(range(70)))
    assert device.send(3, frame) == [(7, frame)]
    after = device.counters()
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown == {"rx_frames": 1, "tx_frames": 1}


@ARCHES
def test_a_flood_leaves_out_the_port_of_arrival(arch: str) -> None:
    device = _device(arch)
    _bridge(device)
    frame = _ethernet(0xFFFFFFFFFFFF, HOST_A, 0x0806, bytes(46))
    assert sorted(device.send(2, frame)) == [(1, frame), (7, frame)]


@ARCHES
def test_a_packet_to_the_routers_mac_is_routed(arch: str) -> None:
    device = _device(arch)
    _bridge(device)
    payload = bytes(range(64))
    sent = device.send(3, _ethernet(ROUTER, HOST_A, 0x0800, _ipv4("203.0.113.9", payload)))
    assert sent == [(9, _ethernet(HOST_B, ROUTER, 0x0800, _ipv4("203.0.113.9", payload, ttl=8)))]


@ARCHES
@pytest.mark.parametrize(
    "packet",
    [
        _ipv4("203.0.113.9", bytes(30), ttl=1),
        _ipv4("203.0.113.9", bytes(30), wrong=1),
        _ipv4("203.0.113.1", bytes(30)),
        _ipv4("198.51.100.1", bytes(30)),
    ],
    ids=["no hops left", "wrong checksum", "the router itself", "no route"],
)
def test_what_can_not_be_routed_is_dropped(arch: str, packet: bytes) -> None:
    device = _device(arch)
    _bridge(device)
    assert device.send(3, _ethernet(ROUTER, HOST_A, 0x0800, packet)) == []


@ARCHES
def test_rocev2_between_hosts_passes_although_its_qpn_is_one_of_an_edge(arch: str) -> None:
    """Also opcodes, lengths and descriptors that are none of EPIC's."""
    device = _device(arch)
    _bridge(device)
    before = device.counters()
    for size in (4, 64, 400):
        _, frame = data(GROUP, 0, 0, SUM, ramp(size // 4), dst_mac="02:00:00:00:00:0b", dst_ip="203.0.113.77")
        for opcode in (0x00, 0x05, 0x0A, 0x0C, 0x10):
            changed = frame[:42] + bytes([opcode, 0x30]) + frame[44:-8] + b"\xaa" * 8
            assert device.send(1, changed) == [(7, changed)]
    assert device.counters()["rx_contribution"] == before["rx_contribution"]


@ARCHES
def test_a_frame_of_an_edge_is_never_forwarded(arch: str) -> None:
    """Even when its destination is in the tables: admitted, it is the engine's, whatever becomes of it."""
    device = _device(arch)
    local = int.from_bytes(_mac(0x02_00_0A_01_00_01), "big")
    device.switch.insert(L2, {"dst_mac": Exact(local)}, "EpicIngress.forward.to_port", {"port": 7})
    assert device.send(*data(GROUP, 0, 0, SUM, ramp(4))) == []
    port, frame = data(GROUP, 0, 0, SUM, ramp(4))
    assert device.send(port, frame[:42] + b"\x00" + frame[43:]) == []


@ARCHES
def test_the_default_of_l2_can_be_a_flood(arch: str) -> None:
    device = _device(arch)
    device.switch.multicast_set(0x8002, [(4, 0), (5, 0)])
    device.switch.set_default(L2, "EpicIngress.forward.flood", {"group": 0x8002})
    frame = _ethernet(0x02_00_00_00_00_77, HOST_A, 0x86DD, bytes(60))
    try:
        assert sorted(device.send(4, frame)) == [(5, frame)]
    finally:
        device.switch.reset_default(L2)


@ARCHES
def test_a_removed_group_is_gone(arch: str) -> None:
    device = _device(arch)
    device.clear()
    before = device.counters()["drop_unknown_qpn"]
    assert device.send(*data(GROUP, 0, 0, SUM, ramp(4))) == []
    assert device.counters()["drop_unknown_qpn"] == before + 1
