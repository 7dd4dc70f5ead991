"""`ethernet`: a real device behind network interfaces of this machine.

    epic conformance --dut ethernet --mode 3 --port 0=eth1 --port 1=eth2 --option hook=./acme-hook

Options:

- `port`: the interface behind each of the device's ports, from 0 on.
- `hook` (a command) or `grpc` (an address of the `epic.v1.Engine` service): how groups are installed; one of them.
- `addresses`: a TOML file of IP and MAC addresses; see `load_addresses` for what a port has without.
- `quiet`: seconds without a frame after which the device is taken to have nothing to say, default 0.2.
- `timeout`: seconds that a call of the control plane may take, default 10.
- `netns`: the named network namespace that the interfaces are in.

Needs root (CAP_NET_RAW, and CAP_SYS_ADMIN for `netns`). testbed/CONFORMANCE.md is the guide for vendors.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from epic_host.transport.base import PACKET_OVERHEAD
from epic_host.transport.raw import interface_mtu
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.loader import read_toml
from epic_testbed.adapters.control import GrpcControl, check_mode, number, offered
from epic_testbed.adapters.hook import HookControl
from epic_testbed.adapters.live import LiveDut
from epic_testbed.adapters.ports import EthernetPorts
from epic_testbed.dut import DutError, DutTraits

QUIET_SECONDS: Final = 0.2
CALL_SECONDS: Final = 10.0
_MAC: Final = re.compile("([0-9a-f]{2}:){5}[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class PortAddresses:
    """The device's addresses on a port, and the suite's behind it."""

    ip: str
    mac: str
    peer_ip: str
    peer_mac: str


class EthernetDut(LiveDut):
    """A device on real ports. What it was sent has had its effect when it was `quiet` for a while."""

    def __init__(
        self,
        mode: int,
        *,
        port: Mapping[int, str],
        hook: str | None = None,
        grpc: str | None = None,
        addresses: str | None = None,
        quiet: str | float = QUIET_SECONDS,
        timeout: str | float = CALL_SECONDS,
        netns: str | None = None,
    ) -> None:
        self._mode = check_mode(mode)
        _check_ports(port)
        self._quiet = number(quiet, "quiet", 0.001, 60)
        seconds = number(timeout, "timeout", 0.1, 600)
        self._addresses = load_addresses(Path(addresses) if addresses is not None else None, port)
        if (hook is None) == (grpc is None):
            raise ConfigError("option hook or grpc: exactly one of them must say how groups are installed")
        control = GrpcControl(grpc, seconds) if grpc is not None else HookControl(hook or "", mode, seconds)
        try:
            engine = offered(control.capabilities(), mode)
            ports = EthernetPorts(port, netns)
        except BaseException:
            control.close()
            raise
        super().__init__(ports, control)
        self._last_sent = time.monotonic() - self._quiet
        self._traits = self._declare(engine, control, port, grpc or hook or "")

    def _declare(
        self,
        engine: EngineCapabilities,
        control: GrpcControl | HookControl,
        port: Mapping[int, str],
        way: str,
    ) -> DutTraits:
        mtu = min(interface_mtu(sock, port[p]) for p, sock in self._ports.sockets.items())
        room = max(64, (mtu - PACKET_OVERHEAD) // 64 * 64)
        hook = control if isinstance(control, HookControl) else None
        return DutTraits(
            hook.name if hook else "ethernet",
            replace(engine, payload_bytes=min(engine.payload_bytes, room)),
            binding="ethernet",
            virtual_time=False,
            quiet=self._quiet,
            ports=len(port),
            reads_counters=hook is None or hook.reads("counters"),
            reads_status=hook is None or hook.reads("status"),
            details={
                "ports": ", ".join(f"{p}={name}" for p, name in sorted(port.items())),
                "control": way,
                "mtu": str(mtu),
            },
        )

    def traits(self) -> DutTraits:
        """What the device says it offers, with payloads as the interfaces' MTU allows."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The device's address on a port."""
        return self._addresses[port].ip, self._addresses[port].mac

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        return self._addresses[port].peer_ip, self._addresses[port].peer_mac

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame on a port's interface."""
        super().send(port, frame)
        self._last_sent = time.monotonic()

    def reset(self) -> None:
        """Have the device forget its groups. Raises DutError when it does not."""
        try:
            self._control.reset()
        except (ConfigError, ResourceError) as error:
            raise DutError(f"cannot be reset: {error}") from None
        self._settle()
        self._discard()

    def _settle(self) -> None:
        """Let `quiet` seconds pass since the last frame that was sent to the device."""
        while (left := self._last_sent + self._quiet - time.monotonic()) > 0:
            self._collect(left)


def _check_ports(port: Mapping[int, str]) -> None:
    if not isinstance(port, Mapping) or len(port) < 2:
        raise ConfigError(f"option port = {port!r}, expected an interface for two ports or more")
    if sorted(port) != list(range(len(port))):
        raise ConfigError(f"option port: numbers {sorted(port)}, expected 0 to {len(port) - 1} without a gap")
    if len(set(port.values())) != len(port):
        raise ConfigError(f"option port: {', '.join(port.values())}, expected each interface once")


def load_addresses(path: Path | None, ports: Mapping[int, str]) -> dict[int, PortAddresses]:
    """Addresses of every port: those of the file, for the rest those of the convention.

        [port.0]
        ip = "10.1.0.1"                # the device's, default 10.77.P.1
        mac = "02:00:0a:01:00:01"      # default 02:00:4d:00:PP:01 (PP: the port in hex)
        peer_ip = "10.1.0.2"           # the suite's, default 10.77.P.2
        peer_mac = "02:00:0a:01:00:02" # default 02:00:4d:00:PP:02

    Raises ConfigError naming file, key, value and what was expected.
    """
    tables = _port_tables(path)
    found = {}
    for port in ports:
        own = {
            "ip": f"10.77.{port}.1",
            "mac": f"02:00:4d:00:{port:02x}:01",
            "peer_ip": f"10.77.{port}.2",
            "peer_mac": f"02:00:4d:00:{port:02x}:02",
        }
        found[port] = PortAddresses(**own | tables.pop(str(port), {}))
    if tables:
        raise ConfigError(
            f"{path}: port.{min(tables)}, expected ports 0 to {len(ports) - 1} (those of option port)"
        )
    return found


def _port_tables(path: Path | None) -> dict[str, dict[str, str]]:
    if path is None:
        return {}
    data = read_toml(path, "a TOML file of addresses")
    for key in data:
        if key != "port":
            raise ConfigError(f"{path}: {key!r}, expected tables [port.0], [port.1], …")
    tables = data.get("port", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: port = {tables!r}, expected tables [port.0], [port.1], …")
    return {str(number): _checked(path, f"port.{number}", table) for number, table in tables.items()}


def _checked(path: Path, where: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {where} = {table!r}, expected a table")
    names = [f.name for f in fields(PortAddresses)]
    values = {}
    for name, value in table.items():
        if name not in names:
            raise ConfigError(f"{path}: {where}.{name}, expected one of {', '.join(names)}")
        text = value if isinstance(value, str) else ""
        if name.endswith("mac"):
            if not _MAC.fullmatch(text.lower()):
                raise ConfigError(
                    f"{path}: {where}.{name} = {value!r}, expected a MAC address like 02:00:0a:01:00:01"
                )
            values[name] = text.lower()
            continue
        try:
            values[name] = str(ipaddress.IPv4Address(text))
        except ValueError:
            raise ConfigError(
                f"{path}: {where}.{name} = {value!r}, expected an IPv4 address like 10.1.0.1"
            ) from None
    return values
