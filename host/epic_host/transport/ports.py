"""Which local port a peer is reached by, from its address: exact, or by the longest prefix that covers it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

# Addresses whose port was found by prefix are remembered, so many at most: anybody may send from any address.
_REMEMBERED: Final = 4096
_BITS: Final = 32


class PortMap:
    """Ports by IPv4 address (`127.20.1.7`) or network (`127.20.1.0/24`); `0.0.0.0/0` is everybody else."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._exact = {peer: port for peer, port in ports.items() if "/" not in peer}
        networks = [(ipaddress.IPv4Network(peer), port) for peer, port in ports.items() if "/" in peer]
        networks.sort(key=lambda row: row[0].prefixlen, reverse=True)
        # (network address, shift, port): longest prefix first.
        self._prefixes = [
            (int(network.network_address) >> _BITS - network.prefixlen, _BITS - network.prefixlen, port)
            for network, port in networks
        ]
        self._find = lru_cache(_REMEMBERED)(self._search)

    def get(self, address: str) -> int | None:
        """The port of a peer, None for one that is nobody's."""
        port = self._exact.get(address)
        return port if port is not None or not self._prefixes else self._find(address)

    def _search(self, address: str) -> int | None:
        number = int(ipaddress.IPv4Address(address))
        for prefix, shift, port in self._prefixes:
            if number >> shift == prefix:
                return port
        return None
