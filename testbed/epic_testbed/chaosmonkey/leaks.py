"""What a run leaves although all its jobs have left: asked of the manager, of every engine, and of /proc.

Each check gives lines of what is left, none where all is well. The manager and the engines have a bound to free things
in; `settled` asks again until then.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from epic_host.manager.client import ManagerClient
from epic_spec.errors import EpicError
from epic_testbed.chaosmonkey import layout
from epic_testbed.chaosmonkey.cluster import Cluster

_ASK_SECONDS = 0.5
_UDP = Path("/proc/net/udp")
_UNIX = Path("/proc/net/unix")


def settled(check: Callable[[], list[str]], seconds: float) -> list[str]:
    """What `check` still finds after `seconds` at most; it is asked again until it finds nothing."""
    until = time.monotonic() + seconds
    while (found := check()) and time.monotonic() < until:
        time.sleep(_ASK_SECONDS)
    return found


def resources(cluster: Cluster) -> list[str]:
    """Groups, slots, entries and addresses that the manager or an engine still holds."""
    try:
        with cluster.client() as client:
            found = of_manager(client)
    except EpicError as error:
        found = [f"the manager cannot be asked: {error}"]
    for name in layout.SWITCHES:
        try:
            with cluster.engine(name) as engine:
                groups = engine.installed().entries
        except EpicError as error:
            found.append(f"switch {name} cannot be asked: {error}")
        else:
            found += [f"switch {name} holds group {number} of epoch {epoch}" for number, epoch in groups]
    return found


def of_manager(client: ManagerClient) -> list[str]:
    """What the manager holds for groups. Raises EpicError."""
    found = [
        f"group {group.group} is {group.state}"
        for group in client.list_groups().groups
        if group.state != "ended"
    ]
    topology = client.get_topology()
    for host in topology.hosts:
        if host.members:
            found.append(f"host {host.name} has {host.members} members")
        if host.addresses:
            found.append(f"host {host.name} has given away {', '.join(host.addresses)}")
    for engine in topology.engines:
        used = {
            "slots": engine.slots_used,
            "slot bytes": engine.slot_bytes_used,
            "group entries": engine.groups_used,
        }
        found += [f"engine {engine.name}: {count} {what} given away" for what, count in used.items() if count]
    found += [
        f"link {link.name}: {link.rate_used_gbps:g} Gb/s given away"
        for link in topology.links
        if link.rate_used_gbps > 0
    ]
    return found


def udp_sockets(network: str, text: str | None = None) -> list[str]:
    """Addresses and ports of this machine's UDP sockets inside an IPv4 network, from /proc/net/udp."""
    inside = ipaddress.IPv4Network(network)
    found = []
    for line in (_UDP.read_text() if text is None else text).splitlines()[1:]:
        address, _, port = line.split()[1].partition(":")
        # In the machine's byte order, which is little-endian wherever EPIC's transports run.
        ip = ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(address), "little"))
        if ip in inside:
            found.append(f"{ip}:{int(port, 16)}")
    return found


def rank_sockets(cluster: Cluster) -> list[str]:
    """UDP sockets on addresses of members, when no member is there any more."""
    return [
        f"UDP socket {socket} of host {host}"
        for host in layout.HOSTS
        for socket in udp_sockets(cluster.layout.pool(host))
    ]


def after_close(subnet: str, folder: Path, processes: Iterable[int]) -> list[str]:
    """What is left when everything was taken down: sockets, files and processes."""
    found = [f"UDP socket {socket}" for socket in udp_sockets(subnet)]
    found += [
        f"unix socket {line.split()[-1]}" for line in _UNIX.read_text().splitlines() if str(folder) in line
    ]
    found += [f"process {pid}" for pid in processes if Path(f"/proc/{pid}").exists()]
    if folder.exists():
        found.append(f"directory {folder}")
    return found
