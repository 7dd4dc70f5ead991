"""The socket binding: RoCEv2 as the payload of UDP datagrams between (address, 4791) sockets.

Needs no privileges. The IP and UDP headers are the kernel's; those parts of them that the ICRC covers are
taken by convention (`codec.decode_datagram`). ECN is carried both ways in the real IP header.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from epic_host.transport.base import BATCH, FRAME_BYTES, BaseTransport, enlarge_buffers
from epic_host.transport.config import UdpConfig
from epic_host.transport.cut import Cut
from epic_host.transport.ports import PortMap
from epic_models.reference.group import Edge
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import ECN_ECT0, Packet
from epic_spec.tables import UDP_PORT

_TOS: Final = struct.Struct("i")
_ANCILLARY: Final = socket.CMSG_SPACE(_TOS.size)
# IPv4's limit; loopback carries it.
_MTU: Final = 0xFFFF

# Where a datagram goes, and its TOS byte.
Destination = tuple[str, int]


class UdpTransport(BaseTransport[Destination]):
    """One UDP socket; a peer's address tells the local port."""

    def __init__(self, config: UdpConfig) -> None:
        self._address = config.address
        self._ports = PortMap(config.ports)
        self._cut = Cut(Path(config.cuts)) if config.cuts else None
        self._socket = _bound(config.address)
        try:
            super().__init__(config)
        except BaseException:
            self._socket.close()
            raise
        self._buffer = bytearray(FRAME_BYTES)
        self._view = memoryview(self._buffer)

    @property
    def mtu(self) -> int:
        """Bytes of the largest IP packet."""
        return _MTU

    def check_edge(self, edge: Edge) -> None:
        """Refuse an edge whose port or address is not this transport's. Raises ConfigError."""
        if edge.local.ip != self._address:
            raise ConfigError(f"edge {edge.name}: local address {edge.local.ip}, expected {self._address}")
        port = self._ports.get(edge.peer.ip)
        if port != edge.port:
            expected = "an address of the configuration" if port is None else f"one on port {port}"
            raise ConfigError(
                f"edge {edge.name}: peer {edge.peer.ip} on port {edge.port}, expected {expected}"
            )

    def filenos(self) -> Sequence[int]:
        """The socket."""
        return (self._socket.fileno(),)

    def send(self, port: int, packet: Packet, now: float) -> None:
        """Send a packet; its destination address, not `port`, says where it goes."""
        if self._cut is not None and self._cut.blocks(packet.dst_ip, now):
            return
        data = codec.encode_datagram(packet, icrc=packet.icrc_ok)
        self._push((packet.dst_ip, packet.dscp << 2 | packet.ecn), data, now, 0)

    def _transmit(self, link: Destination, frame: bytes) -> None:
        address, tos = link
        if tos == ECN_ECT0:
            self._socket.sendto(frame, (address, UDP_PORT))
        else:
            mark = (socket.IPPROTO_IP, socket.IP_TOS, _TOS.pack(tos))
            self._socket.sendmsg([frame], [mark], 0, (address, UDP_PORT))

    def _captured(self, link: Destination, frame: bytes) -> bytes:
        return codec.frame_of_datagram(frame, self._address, link[0], ecn=link[1])

    def receive(self, now: float) -> list[tuple[int, Packet]]:
        """Packets that have arrived; one from an address that is nobody's is counted as `drop_wrong_port`."""
        arrived: list[tuple[int, Packet]] = []
        receive, buffers, view = self._socket.recvmsg_into, [self._buffer], self._view
        for _ in range(BATCH):
            try:
                size, ancillary, _, (address, sport) = receive(buffers, _ANCILLARY)
            except BlockingIOError:
                break
            if self._cut is not None and self._cut.blocks(address, now):
                continue
            self._received += 1
            ecn = ancillary[0][2][0] & 3 if ancillary else 0
            frame = codec.frame_of_datagram(view[:size], address, self._address, sport, ecn=ecn)
            packet = self._decoded(frame)
            if packet is None:
                continue
            port = self._ports.get(address)
            if port is None:
                self._drop("wrong_port")
            else:
                arrived.append((port, packet))
        return arrived

    def faults(self) -> dict[str, int]:
        """As every transport; with `cuts` also how many frames a `cut` link kept away, both ways."""
        return super().faults() | ({} if self._cut is None else {"cut": self._cut.dropped})

    def close(self) -> None:
        """Close the socket and the capture."""
        self._socket.close()
        super().close()


def _bound(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.bind((address, UDP_PORT))
        enlarge_buffers(sock)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECN_ECT0)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    except OSError as error:
        sock.close()
        where = f"udp transport: address {address}:{UDP_PORT}"
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"{where} is in use by another process, expected a free one") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"{where} is not an address of this machine, expected one of its own") from None
        raise ConfigError(f"{where}: {error.strerror}") from None
    return sock
