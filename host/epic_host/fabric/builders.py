"""Fabrics of the usual shapes, with names and ports that follow from the shape.

`engine` and `host` make the nodes from their names, so that addresses, capacity and offers are the caller's. Ports of
an engine: those to nodes below it first, in order, then those up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_spec.errors import ConfigError

MakeHost = Callable[[str], HostNode]
MakeEngine = Callable[[str], EngineNode]


@dataclass(frozen=True, slots=True)
class Cables:
    """What all links of a built fabric are like."""

    rate_gbps: float = 10.0
    mtu: int = 1500
    delay_us: float = 1.0


@dataclass(slots=True)
class _Wiring:
    """Gathers links and gives each end the next free port of its node."""

    cables: Cables
    links: list[Link] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    def connect(self, low: str, high: str) -> None:
        low_port, high_port = self.ports.get(low, 0), self.ports.get(high, 0)
        self.ports[low], self.ports[high] = low_port + 1, high_port + 1
        cable = self.cables
        self.links.append(Link(low, high, low_port, high_port, cable.rate_gbps, cable.mtu, cable.delay_us))

    def fabric(
        self, hosts: Sequence[str], engines: Sequence[str], host: MakeHost, engine: MakeEngine
    ) -> Fabric:
        return Fabric({h: host(h) for h in hosts}, {e: engine(e) for e in engines}, tuple(self.links))


def single(
    hosts: int, *, host: MakeHost = HostNode, engine: MakeEngine = EngineNode, cables: Cables = Cables()
) -> Fabric:
    """One engine `s0` with hosts `h0`, `h1`, …"""
    return tree((hosts,), host=host, engine=engine, cables=cables)


def tree(
    widths: Sequence[int],
    *,
    host: MakeHost = HostNode,
    engine: MakeEngine = EngineNode,
    cables: Cables = Cables(),
) -> Fabric:
    """A tree: `widths[i]` children for each engine of level i, the last ones are hosts. `s0` is the root.

    `tree((2, 2))` is one root `s0`, engines `s1` and `s2`, hosts `h0` to `h3`.
    """
    if not widths or any(width < 1 for width in widths):
        raise ConfigError(f"tree: widths = {tuple(widths)!r}, expected one or more numbers from 1")
    wiring, engines, level = _Wiring(cables), ["s0"], ["s0"]
    rows: list[list[tuple[str, str]]] = []
    for width in widths[:-1]:
        below: list[str] = []
        rows.append([])
        for parent in level:
            for _ in range(width):
                name = f"s{len(engines) + len(below)}"
                below.append(name)
                rows[-1].append((name, parent))
        engines += below
        level = below
    hosts = [f"h{i}" for i in range(len(level) * widths[-1])]
    for i, name in enumerate(hosts):
        wiring.connect(name, level[i // widths[-1]])
    # From the bottom up: an engine's ports to what is below it come first.
    for row in reversed(rows):
        for name, parent in row:
            wiring.connect(name, parent)
    return wiring.fabric(hosts, engines, host, engine)


def spine_leaf(
    spines: int,
    leaves: int,
    hosts_per_leaf: int,
    *,
    host: MakeHost = HostNode,
    engine: MakeEngine = EngineNode,
    cables: Cables = Cables(),
) -> Fabric:
    """Every leaf `l0`, … has a link to every spine `p0`, …; hosts `h0`, … are below the leaves in order."""
    if min(spines, leaves, hosts_per_leaf) < 1:
        raise ConfigError(f"spine_leaf: {(spines, leaves, hosts_per_leaf)!r}, expected three numbers from 1")
    wiring = _Wiring(cables)
    hosts = [f"h{i}" for i in range(leaves * hosts_per_leaf)]
    leaf_names, spine_names = [f"l{i}" for i in range(leaves)], [f"p{i}" for i in range(spines)]
    for i, name in enumerate(hosts):
        wiring.connect(name, leaf_names[i // hosts_per_leaf])
    for leaf in leaf_names:
        for spine in spine_names:
            wiring.connect(leaf, spine)
    return wiring.fabric(hosts, leaf_names + spine_names, host, engine)


def fat_tree(
    k: int, *, host: MakeHost = HostNode, engine: MakeEngine = EngineNode, cables: Cables = Cables()
) -> Fabric:
    """The k-ary fat tree: k pods of k/2 edge (`e`) and k/2 aggregation engines (`a`), (k/2)^2 cores (`c`).

    k^3/4 hosts (1,024 for k = 16). Aggregation engine i of every pod has links to cores i·k/2 … (i+1)·k/2 - 1.
    (Al-Fares, Loukissas, Vahdat: A scalable, commodity data center network architecture, SIGCOMM 2008, section 3.)
    """
    if k < 2 or k % 2:
        raise ConfigError(f"fat_tree: k = {k}, expected an even number from 2")
    half, wiring = k // 2, _Wiring(cables)
    hosts = [f"h{i}" for i in range(k * half * half)]
    edges, aggs = [f"e{i}" for i in range(k * half)], [f"a{i}" for i in range(k * half)]
    cores = [f"c{i}" for i in range(half * half)]
    for i, name in enumerate(hosts):
        wiring.connect(name, edges[i // half])
    for i, edge in enumerate(edges):
        for j in range(half):
            wiring.connect(edge, aggs[i // half * half + j])
    for i, agg in enumerate(aggs):
        for j in range(half):
            wiring.connect(agg, cores[i % half * half + j])
    return wiring.fabric(hosts, edges + aggs + cores, host, engine)
