"""Raw Ethernet frames on named interfaces (AF_PACKET), every header the protocol's own. Needs CAP_NET_RAW."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from epic_host.transport.base import BATCH, BaseTransport
from epic_host.transport.config import PacketConfig
from epic_host.transport.raw import LINK_ERRORS, interface_mtu, open_raw, receive_raw
from epic_models.reference.group import Edge
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet

# Faults leave the Ethernet header alone: on a real link the frame check sequence would catch them.
_ETHERNET_BYTES: Final = 14


class PacketTransport(BaseTransport[int]):
    """One raw socket a port."""

    def __init__(self, config: PacketConfig) -> None:
        self._address = config.address
        self._sockets: dict[int, socket.socket] = {}
        try:
            for port, interface in config.ports.items():
                self._sockets[port] = open_raw(interface, config.address)
            self._mtu = min(interface_mtu(sock, config.ports[port]) for port, sock in self._sockets.items())
            super().__init__(config)
        except BaseException:
            self._close_sockets()
            raise

    @property
    def mtu(self) -> int:
        """Bytes of the largest IP packet that every interface takes."""
        return self._mtu

    def check_edge(self, edge: Edge) -> None:
        """Refuse an edge whose port or address is not this transport's. Raises ConfigError."""
        if edge.port not in self._sockets:
            known = ", ".join(map(str, self._sockets))
            raise ConfigError(f"edge {edge.name}: port {edge.port}, expected one of {known}")
        if self._address not in (None, edge.local.ip):
            raise ConfigError(f"edge {edge.name}: local address {edge.local.ip}, expected {self._address}")

    def filenos(self) -> Sequence[int]:
        """One socket a port."""
        return [sock.fileno() for sock in self._sockets.values()]

    def send(self, port: int, packet: Packet, now: float) -> None:
        """Send a packet from `port`. Raises KeyError for a port that the configuration does not have."""
        if port not in self._sockets:
            raise KeyError(f"port {port}, expected one of {', '.join(map(str, self._sockets))}")
        self._push(port, codec.encode(packet, icrc=packet.icrc_ok), now, _ETHERNET_BYTES)

    def _transmit(self, link: int, frame: bytes) -> None:
        self._sockets[link].send(frame)

    def _captured(self, link: int, frame: bytes) -> bytes:
        return frame

    def receive(self, now: float) -> list[tuple[int, Packet]]:
        """Packets that have arrived on any port."""
        arrived: list[tuple[int, Packet]] = []
        for port, sock in self._sockets.items():
            for _ in range(BATCH):
                try:
                    frame = receive_raw(sock)
                except BlockingIOError:
                    break
                except OSError as error:
                    # The interface went down or away; its silence is found like that of any link.
                    if error.errno not in LINK_ERRORS:
                        raise
                    break
                self._received += 1
                packet = self._decoded(frame)
                if packet is not None:
                    arrived.append((port, packet))
        return arrived

    def close(self) -> None:
        """Close the sockets and the capture."""
        self._close_sockets()
        super().close()

    def _close_sockets(self) -> None:
        for sock in self._sockets.values():
            sock.close()
