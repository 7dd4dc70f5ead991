"""Transport configurations: the JSON that names sockets, ports, faults and a capture, and their checks.

    {"kind": "udp", "address": "127.0.0.10", "ports": {"127.0.0.11": 0, "127.0.0.12": 1}}
    {"kind": "packet", "ports": {"0": "veth0", "1": "veth1"}, "address": "10.0.0.2"}

A peer of udp may be a network, `"127.20.1.0/24": 2`: all its addresses are reached by that port, but for those that a
longer prefix or the address itself gives another. (A raw socket takes frames by their port, whoever sends them.)

Both take "faults": {"loss", "duplicate", "reorder", "corrupt", "seed"} and "capture": FILE; udp takes "cuts": FILE,
which names the peers that a cut link keeps away (`epic_host.transport.cut`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from epic_models.reference.faults import FaultRates
from epic_spec.errors import ConfigError

MAX_PORT = 0xFFFF


def take(
    data: object, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """`data` as a dict that has all `required` keys and no key beyond `optional`. Raises ConfigError."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: {data!r}, expected an object")
    known = (*required, *optional)
    for key in data:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(known)}")
    for key in required:
        if key not in data:
            raise ConfigError(f"{where}: no {key!r}, expected one of each: {', '.join(required)}")
    return dict(data)


def _address(value: object, where: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value if isinstance(value, str) else ""))
    except ValueError:
        raise ConfigError(f"{where} = {value!r}, expected an IPv4 address like 127.0.0.10") from None


def _peer(value: object, where: str) -> str:
    """An address, or a network in its one way of writing."""
    if not isinstance(value, str) or "/" not in value:
        return _address(value, where)
    try:
        network = ipaddress.IPv4Network(value)
    except ValueError:
        raise ConfigError(f"{where} = {value!r}, expected an IPv4 network like 127.20.1.0/24") from None
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _peers(ports: object, where: str) -> dict[str, int]:
    """Port numbers by peer."""
    if not isinstance(ports, Mapping):
        raise ConfigError(f"{where}: ports = {ports!r}, expected an object of peer address to port number")
    found: dict[str, int] = {}
    for key, port in ports.items():
        peer = _peer(key, f"{where}: peer")
        if peer in found:
            raise ConfigError(f"{where}: peer {key} is there twice, expected each address or network once")
        found[peer] = _port_number(port, f"{where}: peer {key}")
    return found


def _port_number(value: object, where: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) > MAX_PORT:
        raise ConfigError(f"{where}: port {value!r}, expected a whole number from 0 to {MAX_PORT}")
    return int(text)


@dataclass(frozen=True, slots=True)
class FaultConfig:
    """Faults injected into what a node sends, and the seed that makes them repeatable."""

    rates: FaultRates = field(default_factory=FaultRates)
    seed: int = 0

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = take(data, "faults", (), (*(f.name for f in fields(FaultRates)), "seed"))
        seed = values.pop("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ConfigError(f"faults: seed = {seed!r}, expected a whole number")
        return cls(FaultRates(**values), seed)


@dataclass(frozen=True, slots=True)
class UdpConfig:
    """One UDP socket bound to (`address`, 4791); `ports` maps a peer's address or network to the local port number.

    Several peers may share a port number: ranks on one host, each with its own address, share its link.
    """

    address: str
    ports: Mapping[str, int]
    faults: FaultConfig = field(default_factory=FaultConfig)
    capture: str | None = None
    cuts: str | None = None

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """From the JSON form. Raises ConfigError."""
        where = "udp transport"
        values = take(data, where, ("kind", "address", "ports"), ("faults", "capture", "cuts"))
        return cls(
            address=_address(values["address"], f"{where}: address"),
            ports=_peers(values["ports"], where),
            faults=FaultConfig.from_dict(values.get("faults", {})),
            capture=_file(values, "capture", where),
            cuts=_file(values, "cuts", where),
        )


@dataclass(frozen=True, slots=True)
class PacketConfig:
    """Raw Ethernet frames on network interfaces; `ports` maps port numbers to interface names.

    With `address`, only frames to that IP address are received, so that several processes share an interface.
    """

    ports: Mapping[int, str]
    address: str | None = None
    faults: FaultConfig = field(default_factory=FaultConfig)
    capture: str | None = None

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """From the JSON form. Raises ConfigError."""
        where = "packet transport"
        values = take(data, where, ("kind", "ports"), ("address", "faults", "capture"))
        ports = values["ports"]
        if not isinstance(ports, Mapping) or not ports:
            raise ConfigError(
                f"{where}: ports = {ports!r}, expected an object of port number to interface name"
            )
        for port, interface in ports.items():
            if not isinstance(interface, str) or not interface:
                raise ConfigError(f"{where}: port {port} = {interface!r}, expected the name of an interface")
        address = values.get("address")
        return cls(
            ports={_port_number(port, where): interface for port, interface in ports.items()},
            address=None if address is None else _address(address, f"{where}: address"),
            faults=FaultConfig.from_dict(values.get("faults", {})),
            capture=_file(values, "capture", where),
        )


def _file(values: Mapping[str, Any], key: str, where: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{where}: {key} = {value!r}, expected a file name")
    return value


TransportConfig = UdpConfig | PacketConfig
_KINDS: dict[str, type[UdpConfig] | type[PacketConfig]] = {"udp": UdpConfig, "packet": PacketConfig}


def transport_config(data: object) -> TransportConfig:
    """The configuration of either kind from its JSON form. Raises ConfigError."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"transport: kind = {kind!r}, expected one of {', '.join(_KINDS)}")
    return _KINDS[kind].from_dict(data)
