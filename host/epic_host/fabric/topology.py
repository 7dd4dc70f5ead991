"""A fabric: hosts, engines and the links between them, and the TOML file that says so.

    [hosts.h0]
    pool = "127.20.1.0/28"              # addresses of members on this host
    [engines.s0]
    control = "unix:/run/s0.sock"
    address = "127.20.0.1"
    slot_bytes = 1048576                # optional limits; what the engine offers limits it too
    [[links]]
    low = "h0"                          # the end nearer to hosts
    high = "s0"
    low_port = 0
    high_port = 1
    rate_gbps = 10
    mtu = 1500                          # bytes of the largest IP packet
    delay_us = 1

    low_mac = "02:00:00:00:00:01"       # optional, as high_mac: of ports with addresses of their own

What an engine offers (`offer`) is asked of the engine, or stands in the file as [engines.s0.offer].
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final

from epic_host.fabric.resources import Capacity
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import check_value
from epic_spec.errors import ConfigError
from epic_spec.loader import parse_toml
from epic_spec.tables import CAPABILITIES

DEFAULT_RATE_GBPS: Final = 10.0
DEFAULT_MTU: Final = 1500
DEFAULT_DELAY_US: Final = 1.0

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Edges are named child-parent, ranks r0, r1, …
_ENGINE = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")
_RANK = re.compile(r"r[0-9]+")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class HostNode:
    """A host. `pool`: an IPv4 network or a comma list of addresses, of which members on it get theirs."""

    name: str
    pool: str = ""
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class EngineNode:
    """An engine: its control plane's address, its own, what it has, and what it offers (None: it is asked)."""

    name: str
    control: str = ""
    address: str = ""
    mac: str | None = None
    capacity: Capacity = field(default_factory=Capacity)
    offer: EngineCapabilities | None = None

    def limits(self) -> Capacity:
        """Its capacity under what it offers, as far as that is known."""
        if self.offer is None:
            return self.capacity
        return self.capacity.under(self.offer.groups, self.offer.children)


@dataclass(frozen=True, slots=True)
class Link:
    """A cable; `low` is the end nearer to hosts. Rate in each direction, delay one way, MTU of IP packets.

    `low_mac` and `high_mac` are for nodes whose ports have MAC addresses of their own; None: the node's.
    """

    low: str
    high: str
    low_port: int = 0
    high_port: int = 0
    rate_gbps: float = DEFAULT_RATE_GBPS
    mtu: int = DEFAULT_MTU
    delay_us: float = DEFAULT_DELAY_US
    low_mac: str | None = None
    high_mac: str | None = None
    name: str = field(init=False, compare=False, repr=False)  # low-high

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.low}-{self.high}")


_LINK_KEYS: Final = tuple(f.name for f in fields(Link) if f.init)


@dataclass(frozen=True)
class Fabric:
    """All nodes and links. Raises ConfigError where they do not fit together.

    Links lead up: a node's parents in any tree are among the high ends of its links. So there are no trees through a
    cycle, and tiers follow: hosts have 0, an engine is one above the highest node below it.
    """

    hosts: Mapping[str, HostNode]
    engines: Mapping[str, EngineNode]
    links: tuple[Link, ...]
    source: str = field(default="fabric", compare=False)

    def __post_init__(self) -> None:
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise ConfigError(f"{self.source}: host {name!r}, expected letters, digits, _, . and -")
        for name in self.engines:
            if not _ENGINE.fullmatch(name) or _RANK.fullmatch(name):
                raise ConfigError(
                    f"{self.source}: engine {name!r}, expected a letter, then letters, digits, _ and ., "
                    "and not r0, r1, … (names of ranks)"
                )
        for name in self.hosts.keys() & self.engines.keys():
            raise ConfigError(f"{self.source}: {name!r} is a host and an engine, expected one of the two")
        for host in self.hosts.values():
            _check_host(host, f"{self.source}: hosts.{host.name}")
        for engine in self.engines.values():
            _check_engine(engine, f"{self.source}: engines.{engine.name}")
        self._check_links()
        _ = self.tiers  # refuses cycles

    def _check_links(self) -> None:
        names: set[str] = set()
        ports: dict[tuple[str, int], str] = {}
        for link in self.links:
            where = f"{self.source}: link {link.name}"
            _check_link(link, where)
            if link.low not in self.hosts and link.low not in self.engines:
                raise ConfigError(f"{where}: low = {link.low!r}, expected a host or an engine")
            if link.high not in self.engines:
                raise ConfigError(f"{where}: high = {link.high!r}, expected an engine")
            if link.name in names or f"{link.high}-{link.low}" in names:
                raise ConfigError(f"{where}: there twice, expected one link between two nodes")
            names.add(link.name)
            for node, port in ((link.low, link.low_port), (link.high, link.high_port)):
                if node in self.engines and (node, port) in ports:
                    raise ConfigError(
                        f"{where}: port {port} of {node} is that of link {ports[node, port]}, "
                        "expected a port of its own"
                    )
                ports[node, port] = link.name

    @cached_property
    def link_names(self) -> dict[str, Link]:
        """Links by name."""
        return {link.name: link for link in self.links}

    def link(self, name: str) -> Link:
        """The link of a name. Raises ConfigError."""
        try:
            return self.link_names[name]
        except KeyError:
            raise ConfigError(
                f"link {name!r} is not of the fabric, expected low-high as in its file"
            ) from None

    @cached_property
    def up(self) -> dict[str, tuple[Link, ...]]:
        """The links of each node to nodes above it."""
        found: dict[str, list[Link]] = {name: [] for name in (*self.hosts, *self.engines)}
        for link in self.links:
            found[link.low].append(link)
        return {name: tuple(links) for name, links in found.items()}

    @cached_property
    def down(self) -> dict[str, tuple[Link, ...]]:
        """The links of each engine to nodes below it."""
        found: dict[str, list[Link]] = {name: [] for name in self.engines}
        for link in self.links:
            found[link.high].append(link)
        return {name: tuple(links) for name, links in found.items()}

    @cached_property
    def tiers(self) -> dict[str, int]:
        """Hosts 0, engines one above the highest node that has a link up to them. Raises ConfigError for a cycle."""
        tiers = dict.fromkeys(self.hosts, 0)
        waiting = {name: len(links) for name, links in self.down.items()}
        ready = [*self.hosts, *(name for name, below in waiting.items() if not below)]
        tiers |= {name: 1 for name, below in waiting.items() if not below}
        while ready:
            node = ready.pop()
            for link in self.up[node]:
                tiers[link.high] = max(tiers.get(link.high, 0), tiers[node] + 1)
                waiting[link.high] -= 1
                if not waiting[link.high]:
                    ready.append(link.high)
        for name, below in waiting.items():
            if below:
                raise ConfigError(
                    f"{self.source}: engine {name} is above itself by its links, expected links that lead up only"
                )
        return tiers

    @classmethod
    def from_toml(cls, text: str, source: str = "fabric") -> Fabric:
        """From the file's text. Raises ConfigError naming `source`, key, value and what was expected."""
        data = parse_toml(text, source, "the hosts, engines and links of a fabric")
        _known(data, ("hosts", "engines", "links"), source)
        hosts, engines = _table(data, "hosts", source), _table(data, "engines", source)
        links = data.get("links", [])
        if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
            raise ConfigError(f"{source}: links = {links!r}, expected tables [[links]]")
        return cls(
            {name: _host(name, entry, source) for name, entry in hosts.items()},
            {name: _engine(name, entry, source) for name, entry in engines.items()},
            tuple(_link(i, entry, source) for i, entry in enumerate(links)),
            source,
        )

    def to_toml(self) -> str:
        """The text that `from_toml` takes; what is at its default is left out."""
        lines: list[str] = []
        for host in self.hosts.values():
            lines += [f"[hosts.{_key(host.name)}]", *_pairs(pool=host.pool or None, mac=host.mac), ""]
        for engine in self.engines.values():
            limits = {k: v for k, v in asdict(engine.capacity).items() if v != getattr(Capacity(), k)}
            node = {"control": engine.control or None, "address": engine.address or None, "mac": engine.mac}
            lines += [f"[engines.{_key(engine.name)}]", *_pairs(**node), *_pairs(**limits), ""]
            if engine.offer is not None:
                lines += [f"[engines.{_key(engine.name)}.offer]", *_pairs(**asdict(engine.offer)), ""]
        for link in self.links:
            lines += ["[[links]]", *_pairs(**{key: getattr(link, key) for key in _LINK_KEYS}), ""]
        return "\n".join(lines)


def _key(name: str) -> str:
    return name if "." not in name else json.dumps(name)


def _pairs(**values: Any) -> list[str]:
    # Strings, numbers, true and false, and lists of strings are written alike in JSON and TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]


def _known(data: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in keys:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(keys)}")


def _table(data: Mapping[str, Any], key: str, source: str) -> dict[str, dict[str, Any]]:
    table = data.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise ConfigError(f"{source}: {key} = {table!r}, expected tables [{key}.NAME]")
    return table


def _host(name: str, entry: dict[str, Any], source: str) -> HostNode:
    _known(entry, ("pool", "mac"), f"{source}: hosts.{name}")
    return HostNode(name, **entry)


def _engine(name: str, entry: dict[str, Any], source: str) -> EngineNode:
    where = f"{source}: engines.{name}"
    limits = tuple(f.name for f in fields(Capacity))
    _known(entry, ("control", "address", "mac", "offer", *limits), where)
    own = {key: entry[key] for key in ("control", "address", "mac") if key in entry}
    offer = entry.get("offer")
    return EngineNode(
        name,
        **own,
        capacity=Capacity(**{key: entry[key] for key in limits if key in entry}),
        offer=None if offer is None else _offer(offer, f"{where}.offer"),
    )


def _offer(entry: object, where: str) -> EngineCapabilities:
    names = tuple(f.name for f in fields(EngineCapabilities))
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} = {entry!r}, expected a table of capabilities")
    _known(entry, names, where)
    if "mode" not in entry:
        raise ConfigError(f"{where}: no mode, expected one of 1, 2, 3")
    for name, value in entry.items():
        if CAPABILITIES[name]["kind"] in ("choice", "set"):
            if not isinstance(value, list):
                raise ConfigError(f"{where}: {name} = {value!r}, expected a list of what is offered")
            for one in value:
                check_value(name, one if CAPABILITIES[name]["kind"] == "choice" else [one], where)
        else:
            check_value(name, value, where)
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return EngineCapabilities(**values)


def _link(number: int, entry: dict[str, Any], source: str) -> Link:
    where = f"{source}: links[{number}]"
    _known(entry, _LINK_KEYS, where)
    for key in ("low", "high"):
        if not isinstance(entry.get(key), str):
            raise ConfigError(f"{where}: {key} = {entry.get(key)!r}, expected the name of a node")
    return Link(**entry)


def _check(where: str, name: str, value: object, good: Callable[[Any], bool], expected: str) -> None:
    try:
        fine = not isinstance(value, bool) and good(value)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise ConfigError(f"{where}: {name} = {value!r}, expected {expected}")


def _is_mac(value: Any) -> bool:
    return value is None or _MAC.fullmatch(value) is not None


def _is_pool(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    for part in value.split(",") if value else ():
        ipaddress.IPv4Network(part.strip())
    return True


def _is_address(value: Any) -> bool:
    return value == "" or (isinstance(value, str) and ipaddress.IPv4Address(value) is not None)


def _check_host(host: HostNode, where: str) -> None:
    _check(
        where, "pool", host.pool, _is_pool, "an IPv4 network such as 127.20.1.0/28, or addresses with commas"
    )
    _check(where, "mac", host.mac, _is_mac, "a MAC address such as 02:00:00:00:00:01")


def _check_engine(engine: EngineNode, where: str) -> None:
    _check(where, "control", engine.control, lambda v: isinstance(v, str), "a control address")
    _check(where, "address", engine.address, _is_address, "an IPv4 address")
    _check(where, "mac", engine.mac, _is_mac, "a MAC address such as 02:00:00:00:00:01")
    engine.capacity.check(where)


def _check_link(link: Link, where: str) -> None:
    for name in ("low_port", "high_port"):
        port = getattr(link, name)
        _check(where, name, port, lambda v: isinstance(v, int) and v >= 0, "a port number from 0")
    for name in ("low_mac", "high_mac"):
        _check(where, name, getattr(link, name), _is_mac, "a MAC address such as 02:00:00:00:00:01")
    _check(where, "rate_gbps", link.rate_gbps, lambda v: 0 < v < float("inf"), "Gbit/s above 0")
    _check(where, "mtu", link.mtu, lambda v: isinstance(v, int) and 124 <= v <= 65535, "124 to 65535 bytes")
    _check(where, "delay_us", link.delay_us, lambda v: 0 <= v < float("inf"), "microseconds from 0")
