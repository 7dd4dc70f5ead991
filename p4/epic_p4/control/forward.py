"""Entries of plain forwarding, for what is not EPIC's: an INC switch is still a switch (p4/README.md, `forward`)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from epic_p4.control import program as names
from epic_p4.control.entries import MulticastGroup
from epic_p4.runtime.match import Exact, Lpm, TableEntry
from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.errors import ConfigError

TO_PORT = f"{names.INGRESS}.forward.to_port"
FLOOD = f"{names.INGRESS}.forward.flood"
ROUTE = f"{names.INGRESS}.forward.route"
NEXT_HOP = f"{names.INGRESS}.forward.next_hop"
LOCAL = f"{names.INGRESS}.forward.local"
BROADCAST = "ff:ff:ff:ff:ff:ff"


def station(mac: str, port: int) -> TableEntry:
    """Frames to this MAC address leave by this port."""
    return TableEntry(names.L2, {"dst_mac": _mac(mac)}, TO_PORT, {"port": port})


def own_address(mac: str) -> TableEntry:
    """Frames to this MAC address are the switch's: it routes them."""
    return TableEntry(names.L2, {"dst_mac": _mac(mac)}, ROUTE)


def flood(mac: str, group: int) -> TableEntry:
    """Frames to this MAC address, a broadcast or multicast one, go to a flood group."""
    return TableEntry(names.L2, {"dst_mac": _mac(mac)}, FLOOD, {"group": group})


def flood_group(number: int, ports: Iterable[int]) -> MulticastGroup:
    """A flood group: every port but the one that a frame came from."""
    if not names.FIRST_FLOOD <= number <= names.LAST_FLOOD:
        raise ConfigError(
            f"flood group {number:#x}: expected {names.FIRST_FLOOD:#x} to {names.LAST_FLOOD:#x}"
        )
    return MulticastGroup(number, tuple((port, 0) for port in ports))


def route(prefix: str, port: int, src_mac: str, dst_mac: str) -> TableEntry:
    """Packets to this prefix ("10.0.0.0/8") leave by this port to this next hop."""
    try:
        network = ipaddress.IPv4Network(prefix)
    except ValueError as error:
        raise ConfigError(f"prefix {prefix!r}: {error}, expected one like 10.0.0.0/8") from None
    match = {"dst_ip": Lpm(int(network.network_address), network.prefixlen)}
    values = {"src_mac": _mac(src_mac).value, "dst_mac": _mac(dst_mac).value, "port": port}
    return TableEntry(names.IPV4, match if network.prefixlen else {}, NEXT_HOP, values)


def local_address(ip: str) -> TableEntry:
    """An address of the switch itself: packets to it are not routed."""
    try:
        return TableEntry(names.IPV4, {"dst_ip": Lpm(ip_number(ip), 32)}, LOCAL)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _mac(text: str) -> Exact:
    try:
        return Exact(int.from_bytes(mac_bytes(text), "big"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
