"""Raw Ethernet frames on named interfaces (AF_PACKET), every header the protocol's own. Needs CAP_NET_RAW."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Sequence
from typing import Final

from epic_host.transport.base import BATCH, FRAME_BYTES, BaseTransport, enlarge_buffers
from epic_host.transport.config import PacketConfig
from epic_models.reference.group import Edge
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet

# From <linux/if_packet.h>, <linux/if_ether.h>, <asm-generic/socket.h>, <linux/sockios.h>.
SOL_PACKET: Final = 263
PACKET_IGNORE_OUTGOING: Final = 23
ETH_P_IP: Final = 0x0800
SO_ATTACH_FILTER: Final = 26
SIOCGIFMTU: Final = 0x8921

# Faults leave the Ethernet header alone: on a real link the frame check sequence would catch them.
_ETHERNET_BYTES: Final = 14
_IP_DST_OFFSET: Final = 30


class PacketTransport(BaseTransport[int]):
    """One raw socket a port."""

    def __init__(self, config: PacketConfig) -> None:
        self._address = config.address
        self._sockets: dict[int, socket.socket] = {}
        try:
            for port, interface in config.ports.items():
                self._sockets[port] = _bound(interface, config.address)
            self._mtu = min(_interface_mtu(sock, config.ports[port]) for port, sock in self._sockets.items())
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
                    frame = sock.recv(FRAME_BYTES)
                except BlockingIOError:
                    break
                except OSError as error:
                    # The interface went down or away; its silence is found like that of any link.
                    if error.errno not in (errno.ENETDOWN, errno.ENXIO, errno.ENODEV):
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


def _bound(interface: str, address: str | None) -> socket.socket:
    where = f"packet transport: interface {interface}"
    try:
        # Protocol 0 receives nothing until bind, so no frame passes before the filter is there.
        sock = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0
        )
    except PermissionError:
        raise ConfigError(f"{where}: raw sockets need root (CAP_NET_RAW)") from None
    try:
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        if address is not None:
            _accept_only(sock, address)
        enlarge_buffers(sock)
        sock.bind((interface, ETH_P_IP))
    except OSError as error:
        sock.close()
        if error.errno in (errno.ENODEV, errno.ENXIO):
            raise ConfigError(f"{where} does not exist in this network namespace") from None
        raise ConfigError(f"{where}: {error.strerror}") from None
    return sock


def _interface_mtu(sock: socket.socket, interface: str) -> int:
    request = struct.pack("16si20x", interface.encode()[:15], 0)
    return int(struct.unpack_from("i", fcntl.ioctl(sock.fileno(), SIOCGIFMTU, request), 16)[0])


def _accept_only(sock: socket.socket, address: str) -> None:
    """Attach a classic BPF program that passes only frames whose IPv4 destination is `address`."""
    (wanted,) = struct.unpack("!I", socket.inet_aton(address))
    instructions = (
        (0x20, 0, 0, _IP_DST_OFFSET),  # A = word at the destination address
        (0x15, 0, 1, wanted),  # if A == wanted fall through, else skip one
        (0x06, 0, 0, 0xFFFFFFFF),  # return the whole frame
        (0x06, 0, 0, 0),  # return nothing
    )
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    memory = ctypes.create_string_buffer(program)
    header = struct.pack("HL", len(instructions), ctypes.addressof(memory))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)
