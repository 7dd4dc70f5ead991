"""Who has which address, port and interface: one plan a run, the same every time for the same topology.

Both kinds of transport number their nodes inside one IPv4 subnet: rank r has host number 10 + r, the i-th
switch of the topology 101 + i (so a /25 or wider holds every topology). MAC addresses are 02:00 followed by
the IPv4 address. A node whose address the topology file gives keeps that one.

- udp: every rank and every switch has a loopback address of its own, `127.0.0.10`, …, and port 4791 on it.
  Where another run of this user has that subnet, the next of 127.0.0.0/24, 127.0.1.0/24, … is taken.
- netns: the same, in 10.47.91.0/24. A switch has a veth pair a link, `p0`, `p1`, …, its hosts `eth0`. The
  ranks of one host share its interface and its MAC address and differ in their IP address.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass, field
from typing import Any

from epic_models.reference.tree import LinkEnd, Node, Tree
from epic_spec.codec import mac_of_ip
from epic_spec.errors import ConfigError
from epic_spec.tables import UDP_PORT
from epic_testbed.topology import Topology

DEFAULT_SUBNET = {"udp": "127.0.0.0/24", "netns": "10.47.91.0/24"}
DEFAULT_MTU = {"udp": 65535, "netns": 1500}
_LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")

FIRST_RANK = 10
FIRST_SWITCH = 101

# IPv4 20, UDP 8, BTH 12, ImmDt 4, ICRC 4: what a payload shares its IP packet with.
HEADER_BYTES = 48
_PAYLOADS = (4096, 2048, 1024, 512, 256)
_JUMBO = 9000


@dataclass(frozen=True, slots=True)
class Interface:
    """One end of a veth pair: `name` in the namespace of `node`."""

    node: str
    name: str
    mac: str


@dataclass(frozen=True, slots=True)
class Veth:
    """A veth pair and its MTU in bytes."""

    child: Interface
    parent: Interface
    mtu: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All addresses of a run.

    `ends` is what `tree.build_group` takes; transports are by switch name and by rank.
    """

    kind: str
    tree: Tree
    ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]]
    switches: dict[str, dict[str, Any]]
    ranks: dict[int, dict[str, Any]]
    addresses: dict[Node, str]
    hosts: dict[int, str]
    mtu: int
    subnet: str
    veths: list[Veth] = field(default_factory=list)


def payload_for(mtu: int, payload: int | None) -> int:
    """P for a path MTU: the largest of 256 to 4096 bytes that fits (8192 with jumbo frames of 9000 and up,
    loopback excepted), or `payload` when it fits. Raises ConfigError.
    """
    room = mtu - HEADER_BYTES
    if payload is not None:
        if payload > room:
            raise ConfigError(
                f"payload = {payload} bytes, expected at most {room}: MTU {mtu} less {HEADER_BYTES}"
            )
        return payload
    if _JUMBO <= mtu < DEFAULT_MTU["udp"]:
        return 8192
    for size in _PAYLOADS:
        if size <= room:
            return size
    raise ConfigError(
        f"mtu = {mtu} bytes, expected at least {_PAYLOADS[-1] + HEADER_BYTES} (or a smaller payload)"
    )


def path_mtu(topology: Topology, ranks: int, default: int) -> int:
    """The smallest MTU of the links in use; `default` is that of links that do not say."""
    return min(link.mtu or default for link in topology.used_links(ranks))


def plan(
    topology: Topology, ranks: int, kind: str, subnet: str | None = None, mtu: int | None = None
) -> Plan:
    """Addresses for `ranks` ranks over transport `kind` ("udp" or "netns").

    `subnet` as `a.b.c.d/n`; `mtu` in bytes for links whose file entry has none. Raises ConfigError.
    """
    network = _subnet(subnet or DEFAULT_SUBNET[kind], kind)
    default_mtu = mtu or DEFAULT_MTU[kind]
    tree = topology.tree(ranks)
    addresses = _addresses(topology, tree, ranks, network, kind)
    ports = _ports(topology, tree, ranks)
    build = _udp if kind == "udp" else _netns
    return build(topology, tree, ranks, addresses, ports, default_mtu, str(network))


def _subnet(text: str, kind: str) -> ipaddress.IPv4Network:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise ConfigError(
            f"subnet = {text!r}, expected an IPv4 subnet such as {DEFAULT_SUBNET[kind]}"
        ) from None
    if kind == "udp" and not network.subnet_of(_LOOPBACK):
        raise ConfigError(f"subnet = {text!r}, expected one inside 127.0.0.0/8 for transport udp")
    if kind == "netns" and (network.overlaps(_LOOPBACK) or network.is_multicast or network.is_reserved):
        raise ConfigError(f"subnet = {text!r}, expected unicast addresses outside 127.0.0.0/8")
    return network


def _addresses(
    topology: Topology, tree: Tree, ranks: int, network: ipaddress.IPv4Network, kind: str
) -> dict[Node, str]:
    """The address of every rank and switch in use: the file's, else the planned one. Raises ConfigError."""
    given = dict(topology.addresses)
    for name, address in given.items():
        if (ipaddress.IPv4Address(address) in _LOOPBACK) != (kind == "udp"):
            where = "inside" if kind == "udp" else "outside"
            raise ConfigError(
                f"{topology.source}: {name}.address = {address!r}, expected one {where} 127.0.0.0/8 "
                f"for transport {kind}"
            )
    wanted: dict[Node, tuple[str | None, int]] = {}
    for rank in range(ranks):
        wanted[rank] = (given.pop(topology.host_of(rank), None), FIRST_RANK + rank)
    for i, name in enumerate(topology.switches):
        if name in tree.children:
            wanted[name] = (given.pop(name, None), FIRST_SWITCH + i)
    result: dict[Node, str] = {}
    owner: dict[str, Node] = {}
    for node, (fixed, number) in wanted.items():
        if fixed is None and number >= network.num_addresses - 1:
            raise ConfigError(
                f"subnet = {str(network)!r} has no address {number} for {_word(node)}, expected a larger one"
            )
        address = fixed or str(network[number])
        if address in owner:
            raise ConfigError(
                f"{topology.source}: address {address} of {_word(owner[address])} is also planned for "
                f"{_word(node)}, expected each address once (give both, or another subnet)"
            )
        result[node], owner[address] = address, node
    return result


def _word(node: Node) -> str:
    return f"rank {node}" if isinstance(node, int) else f"switch {node}"


def _ports(topology: Topology, tree: Tree, ranks: int) -> dict[tuple[str, str], int]:
    """Port numbers of every switch in use, by (switch, neighbour):
    its parent first, then children in file order.
    """
    ports: dict[tuple[str, str], int] = {}
    count = dict.fromkeys(tree.children, 0)
    links = topology.used_links(ranks)
    for upward in (True, False):
        for link in links:
            switch, neighbour = (link.child, link.parent) if upward else (link.parent, link.child)
            if switch in count:
                ports[switch, neighbour] = count[switch]
                count[switch] += 1
    return ports


def _udp(
    topology: Topology,
    tree: Tree,
    ranks: int,
    addresses: dict[Node, str],
    ports: dict[tuple[str, str], int],
    default_mtu: int,
    subnet: str,
) -> Plan:
    ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
    switches = {s: {"kind": "udp", "address": addresses[s], "ports": {}} for s in tree.children}
    transports: dict[int, dict[str, Any]] = {}
    for parent, children in tree.children.items():
        for child in children:
            at_parent = ports[parent, topology.host_of(child) if isinstance(child, int) else child]
            at_child = 0 if isinstance(child, int) else ports[child, parent]
            low, high = addresses[child], addresses[parent]
            ends[child, parent] = (
                LinkEnd(at_child, low, mac_of_ip(low)),
                LinkEnd(at_parent, high, mac_of_ip(high)),
            )
            switches[parent]["ports"][low] = at_parent  # type: ignore[index]
            if isinstance(child, int):
                transports[child] = {"kind": "udp", "address": low, "ports": {high: 0}}
            else:
                switches[child]["ports"][high] = at_child  # type: ignore[index]
    hosts = {rank: topology.host_of(rank) for rank in range(ranks)}
    mtu = path_mtu(topology, ranks, default_mtu)
    return Plan("udp", tree, ends, switches, transports, addresses, hosts, mtu, subnet)


def _netns(
    topology: Topology,
    tree: Tree,
    ranks: int,
    addresses: dict[Node, str],
    ports: dict[tuple[str, str], int],
    default_mtu: int,
    subnet: str,
) -> Plan:
    hosts = {rank: topology.host_of(rank) for rank in range(ranks)}
    first_rank = {host: rank for rank, host in reversed(hosts.items())}
    veths: dict[str, Veth] = {}
    for link in topology.used_links(ranks):
        is_host = link.child in first_rank
        low = mac_of_ip(addresses[first_rank[link.child] if is_host else link.child])
        name_at_child = "eth0" if is_host else f"p{ports[link.child, link.parent]}"
        number = ports[link.parent, link.child]
        # A switch's interfaces need MAC addresses of their own: its port number is in the second byte.
        high = mac_of_ip(addresses[link.parent])
        veths[link.child] = Veth(
            Interface(
                link.child, name_at_child, low if is_host else _port_mac(low, ports[link.child, link.parent])
            ),
            Interface(link.parent, f"p{number}", _port_mac(high, number)),
            link.mtu or default_mtu,
        )
    ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
    for parent, children in tree.children.items():
        for child in children:
            name = hosts[child] if isinstance(child, int) else child
            veth = veths[name]
            at_child = 0 if isinstance(child, int) else ports[child, parent]
            ends[child, parent] = (
                LinkEnd(at_child, addresses[child], veth.child.mac),
                LinkEnd(ports[parent, name], addresses[parent], veth.parent.mac),
            )
    interfaces: dict[str, dict[str, str]] = {s: {} for s in tree.children}
    for veth in veths.values():
        for end in (veth.child, veth.parent):
            if end.node in interfaces:
                interfaces[end.node][end.name[1:]] = end.name
    return Plan(
        "netns",
        tree,
        ends,
        {s: {"kind": "packet", "address": None, "ports": interfaces[s]} for s in tree.children},
        {r: {"kind": "packet", "address": addresses[r], "ports": {"0": "eth0"}} for r in hosts},
        addresses,
        hosts,
        path_mtu(topology, ranks, default_mtu),
        subnet,
        list(veths.values()),
    )


def _port_mac(mac: str, port: int) -> str:
    return f"02:{port + 1:02x}{mac[5:]}"


def check_free(addresses: dict[Node, str]) -> None:
    """Check that UDP port 4791 of every address can be bound.

    Raises ConfigError naming the first that cannot.
    """
    for node, address in addresses.items():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, UDP_PORT))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    why = "in use, expected it free (another run? --subnet chooses other addresses)"
                else:
                    why = f"cannot be bound ({error.strerror}), expected a free local address"
                raise ConfigError(f"{address}:{UDP_PORT} for {_word(node)} is {why}") from None
