"""The chaos test's fabric: eight hosts below three levels of engines with two ways up from every leaf and pod.

      c0    c1          each core has a link to every aggregation engine
    a0 a1  a2 a3        two to a pod
    e0 e1  e2 e3        each leaf has a link to both of its pod
    h0.h1 … h6.h7       two hosts to a leaf

Everything has an address in one /16 of the loopback network: engines in x.y.0.0/24, host i's members in x.y.(i+1).0/24.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epic_host.fabric.resources import Capacity
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_spec.codec import mac_of_ip
from epic_spec.errors import ConfigError
from epic_spec.tables import UDP_PORT
from epic_testbed import registry

HOSTS = tuple(f"h{i}" for i in range(8))
LEAVES = tuple(f"e{i}" for i in range(4))
AGGREGATES = tuple(f"a{i}" for i in range(4))
CORES = ("c0", "c1")
SWITCHES = (*LEAVES, *AGGREGATES, *CORES)
# 127.1.0.0/16 and up; `epic run` is in 127.0.0.0/16.
BLOCKS = range(1, 20)
_MTU = 65535
_RATE_GBPS = 10.0


def pairs() -> tuple[tuple[str, str], ...]:
    """Both ends of every link, the lower first."""
    up = [(host, LEAVES[i // 2]) for i, host in enumerate(HOSTS)]
    up += [(leaf, AGGREGATES[i // 2 * 2 + j]) for i, leaf in enumerate(LEAVES) for j in range(2)]
    up += [(low, core) for low in AGGREGATES for core in CORES]
    return tuple(up)


LINKS = tuple(f"{low}-{high}" for low, high in pairs())


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is. `block` is the second byte of all addresses."""

    block: int
    folder: Path
    capacity: Capacity

    @property
    def subnet(self) -> str:
        """All addresses."""
        return f"127.{self.block}.0.0/16"

    def address(self, switch: str) -> str:
        """The address of a switch."""
        return f"127.{self.block}.0.{SWITCHES.index(switch) + 1}"

    def pool(self, host: str) -> str:
        """The addresses of a host's members."""
        return f"127.{self.block}.{HOSTS.index(host) + 1}.0/24"

    def control(self, switch: str) -> str:
        """The control address of a switch."""
        return f"unix:{self.folder}/{switch}.sock"

    def cuts(self, switch: str) -> Path:
        """The file that tells a switch which of its links are cut."""
        return self.folder / f"{switch}.cuts"

    def network(self, node: str) -> str:
        """The addresses behind a link to `node`."""
        return self.pool(node) if node in HOSTS else f"{self.address(node)}/32"

    def fabric(self) -> Fabric:
        """For the manager. Every engine has the same capacity."""
        ports = self._ports()
        engines = {
            name: EngineNode(
                name,
                control=self.control(name),
                address=self.address(name),
                mac=mac_of_ip(self.address(name)),
                capacity=self.capacity,
            )
            for name in SWITCHES
        }
        links = tuple(
            Link(low, high, ports[low, high], ports[high, low], _RATE_GBPS, _MTU, 1.0)
            for low, high in pairs()
        )
        hosts = {name: HostNode(name, self.pool(name)) for name in HOSTS}
        return Fabric(hosts, engines, links, "chaos fabric")

    def switch(self, name: str, engine: str) -> dict[str, Any]:
        """The configuration of a switch's process."""
        ports = {self.network(peer): port for (node, peer), port in self._ports().items() if node == name}
        transport = {
            "kind": "udp",
            "address": self.address(name),
            "ports": {network.removesuffix("/32"): port for network, port in ports.items()},
            "cuts": str(self.cuts(name)),
        }
        return {"name": name, "engine": engine, "control": self.control(name), "transport": transport}

    def _ports(self) -> dict[tuple[str, str], int]:
        """Port numbers by (node, neighbour); a host has one link."""
        ports: dict[tuple[str, str], int] = {}
        count = dict.fromkeys((*HOSTS, *SWITCHES), 0)
        for low, high in pairs():
            for node, peer in ((low, high), (high, low)):
                ports[node, peer] = count[node]
                count[node] += 1
        return ports


def free_block() -> int:
    """The first block that no living run of this user has, and whose first address can be bound.

    Raises ConfigError when there is none.
    """
    taken = {run.about.get("subnet") for run in registry.runs() if run.alive()}
    for block in BLOCKS:
        if f"127.{block}.0.0/16" not in taken and _bindable(f"127.{block}.0.1"):
            return block
    raise ConfigError("every block from 127.1.0.0/16 on has a run, expected a free one (epic testbed status)")


def _bindable(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, UDP_PORT))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                return False
            raise
    return True
