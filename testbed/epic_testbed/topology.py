"""Topologies: hosts, switches, links and where the ranks are, from a small TOML file.

    name = "pair"                    # optional, the file's name otherwise
    root = "s0"                      # optional where only one switch has no parent
    ranks = ["h0", "h1"]             # optional: rank r is on ranks[r mod length]; all hosts otherwise

    [hosts]
    h0 = {}
    h1 = { address = "127.0.0.20" }  # address of the first rank on the host; planned where absent

    [switches]
    s0 = { address = "127.0.0.100" } # planned where absent

    [[links]]
    child = "h0"
    parent = "s0"
    mtu = 1500                       # optional, bytes of IP packet
    rate_gbps = 10.0                 # optional, what the summary compares the measured rate to

The links must form a tree: a host has one link, each switch one link to its parent, and the root none.
Switches and hosts without ranks at or below them take no part.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from epic_models.reference.tree import Node, Tree
from epic_spec.errors import ConfigError
from epic_spec.loader import parse_toml

BUILT_IN = ("single", "1-2-4", "3-level")
MAX_RANKS = 64

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,14}")
_KEYS = {
    "": ("name", "root", "ranks", "hosts", "switches", "links"),
    "hosts": ("address",),
    "switches": ("address",),
    "links": ("child", "parent", "mtu", "rate_gbps"),
}
# The smallest MTU that RFC 791 lets a link have, and the largest IPv4 packet.
_MTU = (68, 65535)


@dataclass(frozen=True, slots=True)
class Link:
    """A child-parent link. `mtu` in bytes, `rate_gbps` in Gb/s; None where the file says nothing."""

    child: str
    parent: str
    mtu: int | None = None
    rate_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """A checked topology.

    `source` names the file in messages; `placement` lists hosts, rank r on item r mod length.
    """

    source: str
    name: str
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    root: str
    placement: tuple[str, ...]
    addresses: Mapping[str, str]

    def host_of(self, rank: int) -> str:
        """The host that a rank is on."""
        return self.placement[rank % len(self.placement)]

    def uplink(self, node: str) -> Link:
        """The link from a host or switch to its parent."""
        return next(link for link in self.links if link.child == node)

    def tree(self, ranks: int) -> Tree:
        """The aggregation tree of `ranks` ranks; switches without a rank below them are left out.

        Children are in the order of the file's links, the ranks of a host in ascending order.
        """
        on_host: dict[str, list[int]] = {}
        for rank in range(ranks):
            on_host.setdefault(self.host_of(rank), []).append(rank)
        children: dict[str, tuple[Node, ...]] = {}

        def fill(switch: str) -> bool:
            below: list[Node] = []
            for link in self.links:
                if link.parent != switch:
                    continue
                if link.child in on_host:
                    below += on_host[link.child]
                elif link.child in self.switches and fill(link.child):
                    below.append(link.child)
            if below:
                children[switch] = tuple(below)
            return bool(below)

        fill(self.root)
        return Tree(self.root, {name: children[name] for name in self.switches if name in children})

    def used_links(self, ranks: int) -> list[Link]:
        """The links that carry traffic of `ranks` ranks, in file order."""
        nodes = {self.host_of(rank) for rank in range(ranks)} | set(self.tree(ranks).children)
        return [link for link in self.links if link.child in nodes]


def load(name: str, ranks: int | None = None) -> tuple[Topology, int]:
    """A built-in topology or a TOML file, checked, with the number of ranks (a file's own, where None is
    given).

    Raises ConfigError: one line naming the file, the key, the value and what was expected.
    """
    if name in BUILT_IN:
        text = resources.files("epic_testbed.topologies").joinpath(f"{name}.toml").read_text()
        source = name
    else:
        source = name
        try:
            text = Path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigError(
                f"topology {name!r} not found, expected {', '.join(BUILT_IN)} or a TOML file"
            ) from None
        except (OSError, UnicodeDecodeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(f"topology {name!r}: {reason}, expected a readable TOML file") from None
    topology, own = parse(text, source)
    if ranks is None:
        ranks = own
    if not 1 <= ranks <= MAX_RANKS:
        raise ConfigError(f"ranks = {ranks}, expected 1 to {MAX_RANKS}")
    return topology, ranks


def parse(text: str, source: str) -> tuple[Topology, int]:
    """A topology from TOML text and the number of ranks it places. Raises ConfigError naming `source`."""
    data = parse_toml(text, source, "a topology")
    _check_keys(data, "", source)
    hosts = _nodes(data, "hosts", source)
    switches = _nodes(data, "switches", source)
    for name in hosts:
        if name in switches:
            raise ConfigError(f"{source}: {name!r} is under [hosts] and [switches], expected one name a node")
    links = _links(data, hosts, switches, source)
    root = _root(data, switches, links, source)
    _check_tree(links, switches, root, source)
    placement = _placement(data, hosts, switches, source)
    _check_reachable(placement, links, root, source)
    addresses = _addresses({**hosts, **switches}, source)
    name = data.get("name", Path(source).stem)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{source}: name = {name!r}, expected a string")
    topology = Topology(source, name, tuple(hosts), tuple(switches), tuple(links), root, placement, addresses)
    return topology, len(placement)


def _check_keys(table: Mapping[str, Any], kind: str, where: str) -> None:
    for key in table:
        if key not in _KEYS[kind]:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(_KEYS[kind])}")


def _nodes(data: Mapping[str, Any], kind: str, source: str) -> dict[str, dict[str, Any]]:
    """The tables of hosts or switches by name, their keys checked."""
    tables = data.get(kind)
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f"{source}: {kind} = {tables!r}, expected a table [{kind}] with at least one name")
    for name, table in tables.items():
        where = f"{source}: {kind}.{name}"
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{source}: {kind} name {name!r}, expected a letter and then up to 14 letters, digits or _"
            )
        if re.fullmatch(r"r[0-9]+", name):
            raise ConfigError(f"{source}: {kind} name {name!r} reads as a rank, expected another name")
        if not isinstance(table, dict):
            raise ConfigError(f"{where} = {table!r}, expected a table such as {{}}")
        _check_keys(table, kind, where)
    return tables


def _links(
    data: Mapping[str, Any], hosts: Mapping[str, Any], switches: Mapping[str, Any], source: str
) -> list[Link]:
    rows = data.get("links")
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f"{source}: links = {rows!r}, expected at least one [[links]] table")
    links: list[Link] = []
    for i, row in enumerate(rows):
        where = f"{source}: links[{i}]"
        if not isinstance(row, dict):
            raise ConfigError(f"{where} = {row!r}, expected a table with child and parent")
        _check_keys(row, "links", where)
        for key in ("child", "parent"):
            value = row.get(key)
            if not isinstance(value, str) or (value not in hosts and value not in switches):
                raise ConfigError(f"{where}: {key} = {value!r}, expected the name of a host or switch")
        if row["parent"] in hosts:
            raise ConfigError(f"{where}: parent = {row['parent']!r} is a host, expected a switch")
        links.append(Link(row["child"], row["parent"], _mtu(row, where), _rate(row, where)))
    return links


def _mtu(row: Mapping[str, Any], where: str) -> int | None:
    mtu = row.get("mtu")
    if mtu is None:
        return None
    return check_mtu(mtu, where)


def check_mtu(mtu: object, where: str) -> int:
    """An MTU in bytes, checked. Raises ConfigError naming `where`."""
    low, high = _MTU
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not low <= mtu <= high:
        raise ConfigError(f"{where}: mtu = {mtu!r}, expected {low} to {high} bytes")
    return mtu


def _rate(row: Mapping[str, Any], where: str) -> float | None:
    rate = row.get("rate_gbps")
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1e6:
        raise ConfigError(f"{where}: rate_gbps = {rate!r}, expected a number of Gb/s above 0")
    return float(rate)


def _root(data: Mapping[str, Any], switches: Mapping[str, Any], links: list[Link], source: str) -> str:
    given = data.get("root")
    if given is not None:
        if not isinstance(given, str) or given not in switches:
            raise ConfigError(f"{source}: root = {given!r}, expected the name of a switch")
        return given
    has_parent = {link.child for link in links}
    tops = [name for name in switches if name not in has_parent]
    if not tops:
        raise ConfigError(f"{source}: the links of {', '.join(switches)} form a cycle, expected a tree")
    if len(tops) > 1:
        raise ConfigError(
            f"{source}: {' and '.join(tops)} have no parent, expected one root (or the key root)"
        )
    return tops[0]


def _check_tree(links: list[Link], switches: Mapping[str, Any], root: str, source: str) -> None:
    """Refuse a second parent and every cycle."""
    parent: dict[str, str] = {}
    for link in links:
        if link.child == link.parent:
            raise ConfigError(
                f"{source}: {link.child!r} is linked to itself, which is a cycle, expected a tree"
            )
        if link.child in parent:
            raise ConfigError(
                f"{source}: {link.child!r} has two parents, {parent[link.child]!r} and {link.parent!r}, "
                "expected one"
            )
        parent[link.child] = link.parent
    for start in switches:
        path = list(_upward(start, parent))
        if path[-1] in path[:-1]:
            cycle = path[path.index(path[-1]) :]
            raise ConfigError(f"{source}: {' - '.join(cycle)} is a cycle, expected a tree")
    if root in parent:
        raise ConfigError(f"{source}: root {root!r} has the parent {parent[root]!r}, expected none")


def _upward(node: str, parent: Mapping[str, str]) -> Iterator[str]:
    """A node and its ancestors; ends after the first that comes twice."""
    seen: set[str] = set()
    while True:
        yield node
        if node in seen or node not in parent:
            return
        seen.add(node)
        node = parent[node]


def _placement(
    data: Mapping[str, Any], hosts: Mapping[str, Any], switches: Mapping[str, Any], source: str
) -> tuple[str, ...]:
    names = data.get("ranks")
    if names is None:
        return tuple(hosts)
    if not isinstance(names, list) or not 1 <= len(names) <= MAX_RANKS:
        raise ConfigError(f"{source}: ranks = {names!r}, expected a list of 1 to {MAX_RANKS} host names")
    for rank, name in enumerate(names):
        if isinstance(name, str) and name in switches:
            raise ConfigError(f"{source}: ranks[{rank}] = {name!r} is a switch, expected a host")
        if not isinstance(name, str) or name not in hosts:
            raise ConfigError(f"{source}: ranks[{rank}] = {name!r}, expected the name of a host")
    return tuple(names)


def _check_reachable(placement: tuple[str, ...], links: list[Link], root: str, source: str) -> None:
    parent = {link.child: link.parent for link in links}
    for rank, host in enumerate(placement):
        if host not in parent:
            raise ConfigError(f"{source}: rank {rank} is on host {host!r}, which has no link, expected one")
        top = list(_upward(host, parent))[-1]
        if top != root:
            raise ConfigError(
                f"{source}: rank {rank} on host {host!r} does not reach root {root!r} (it ends at {top!r}), "
                "expected a path"
            )


def _addresses(nodes: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, str]:
    """The addresses that the file gives, checked and each used once."""
    owner: dict[str, str] = {}
    for name, table in nodes.items():
        value = table.get("address")
        if value is None:
            continue
        try:
            if not isinstance(value, str):
                raise ValueError
            address = ipaddress.IPv4Address(value)
        except ValueError:
            raise ConfigError(f"{source}: {name}.address = {value!r}, expected an IPv4 address") from None
        if address.is_multicast or address.is_unspecified or address.is_reserved:
            raise ConfigError(f"{source}: {name}.address = {value!r}, expected a unicast address")
        if value in owner:
            raise ConfigError(
                f"{source}: {name}.address = {value!r} is also that of {owner[value]!r}, "
                "expected each address once"
            )
        owner[value] = name
    return {name: value for value, name in owner.items()}
