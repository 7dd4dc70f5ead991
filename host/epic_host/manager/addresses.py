"""Addresses of members on their hosts: never two members with one, and none again before its quarantine is over.

A member's address is its identity to engines and other ranks, so one that was given up a moment ago could still be sent
to. Which are given away is in the store (members, and addresses in quarantine); this only knows the pools.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator

from epic_host.fabric.topology import Fabric
from epic_host.manager.errors import INVALID, NO_RESOURCE, refused


def addresses_of(pool: str) -> Iterator[str]:
    """The addresses of a host's pool, in order: hosts of IPv4 networks, or single ones, parted by commas."""
    for part in filter(None, (part.strip() for part in pool.split(","))):
        yield from map(str, ipaddress.IPv4Network(part).hosts())


def allocate(fabric: Fabric, hosts: Iterable[str], is_taken: Callable[[str], bool]) -> list[str]:
    """An address for each of `hosts` (a host may be there several times), the first ones that are not taken.

    Raises RefusedError when a host is unknown or its pool has not enough.
    """
    given: list[str] = []
    engines = {engine.address for engine in fabric.engines.values()}
    free: dict[str, Iterator[str]] = {}
    for host in hosts:
        if host not in fabric.hosts:
            raise refused(INVALID, f"host {host!r} is not of the fabric, expected one of its hosts")
        pool = fabric.hosts[host].pool
        if not pool:
            raise refused(
                NO_RESOURCE, f"host {host}: no pool of addresses, expected one in the fabric's file"
            )
        left = free.setdefault(host, addresses_of(pool))
        address = next((a for a in left if not is_taken(a) and a not in engines and a not in given), None)
        if address is None:
            raise refused(
                NO_RESOURCE,
                f"host {host}: no address of its pool {pool} is free, expected one for each member "
                "(addresses are free again a few seconds after their members left)",
            )
        given.append(address)
    return given


def transport_of(fabric: Fabric, host: str, address: str) -> dict[str, object]:
    """The configuration of the transport of a member on `host`: engines by their link's port, other members by the
    first.

    The form is that of `epic_host.transport.config`; longest prefix matches.
    """
    links = fabric.up[host]
    ports: dict[str, int] = {"0.0.0.0/0": links[0].low_port if links else 0}
    for link in links:
        engine = fabric.engines[link.high].address
        if engine:
            ports[engine] = link.low_port
    return {"kind": "udp", "address": address, "ports": ports}
