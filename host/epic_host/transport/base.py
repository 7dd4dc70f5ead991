"""What a transport is, and what every kind does beside moving bytes: faults, capture, counters."""

from __future__ import annotations

import errno
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from epic_host.transport.config import TransportConfig
from epic_models.reference.faults import FaultInjector
from epic_models.reference.group import Edge, GroupParams
from epic_spec import codec
from epic_spec.errors import ConfigError, WireError
from epic_spec.packets import Packet
from epic_spec.pcap import PcapWriter

# Frames taken per wake-up and socket; more wait for the next one, so that timers get their turn.
BATCH: Final = 64
SOCKET_BUFFER: Final = 16 << 20
# A frame of the largest payload is shorter than this.
FRAME_BYTES: Final = 16384

# IPv4, UDP, BTH, ImmDt and ICRC around the payload of a cell.
PACKET_OVERHEAD: Final = 20 + 8 + 12 + 4 + 4

# From <asm-generic/socket.h>; the socket module does not have them.
SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33

Link = TypeVar("Link", bound=Hashable)


class Transport(Protocol):
    """Moves packets between local ports and the network. Nothing blocks; used by one thread."""

    @property
    def mtu(self) -> int:
        """Bytes of the largest IP packet that every port takes."""

    def check_edge(self, edge: Edge) -> None:
        """Refuse an edge whose port or address is not this transport's. Raises ConfigError."""

    def filenos(self) -> Sequence[int]:
        """File descriptors to wait on for reading."""

    def send(self, port: int, packet: Packet, now: float) -> None:
        """Send a packet from `port`. One that the kernel does not take is counted and lost, as on a wire."""

    def receive(self, now: float) -> list[tuple[int, Packet]]:
        """Packets that have arrived, each with its local port, at most `BATCH` a socket; empty when none has.

        `icrc_ok` of a packet tells whether its ICRC is right. What cannot be decoded is counted by reason.
        """

    def poll(self, now: float) -> None:
        """Send what fault injection held back until now."""

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""

    def counters(self) -> dict[str, int]:
        """`rx_frames`, `tx_frames`, `tx_failed` (not taken by the kernel) and `drop_<reason>`."""

    def faults(self) -> dict[str, int]:
        """How many sent frames were `lost`, `duplicated`, `reordered` and `corrupted` on purpose."""

    def close(self) -> None:
        """Close the sockets and the capture. More than one call is allowed."""


class BaseTransport(ABC, Generic[Link]):
    """The common part; a kind of transport adds its sockets. `Link` says where an encoded frame goes."""

    def __init__(self, config: TransportConfig) -> None:
        self._injector: FaultInjector[Link] = FaultInjector(config.faults.rates, config.faults.seed)
        self._capture = PcapWriter(Path(config.capture)) if config.capture else None
        self._received = self._sent = self._failed = 0
        self._drops: dict[str, int] = {}

    @abstractmethod
    def _transmit(self, link: Link, frame: bytes) -> None:
        """Hand a frame to the kernel. Raises OSError when it is not taken."""

    @abstractmethod
    def _captured(self, link: Link, frame: bytes) -> bytes:
        """The Ethernet frame that a capture shows for a sent frame."""

    def _push(self, link: Link, frame: bytes, now: float, first: int) -> None:
        """Send an encoded frame through the faults; corruption spares its first `first` bytes."""
        for leaving_by, leaving in self._injector.push(link, frame, now, first=first):
            self._emit(leaving_by, leaving)

    def poll(self, now: float) -> None:
        """Send what fault injection held back until now."""
        for link, frame in self._injector.poll(now):
            self._emit(link, frame)

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        return self._injector.next_deadline()

    def _emit(self, link: Link, frame: bytes) -> None:
        try:
            self._transmit(link, frame)
        except OSError as error:
            # A full buffer, a link that is down or a frame that is too long: lost, like on a wire.
            if error.errno == errno.EBADF:
                raise
            self._failed += 1
            return
        self._sent += 1
        if self._capture:
            self._record(self._capture, self._captured(link, frame))

    @staticmethod
    def _record(capture: PcapWriter, frame: bytes) -> None:
        capture.write(frame, time.time_ns())
        # Each record at once, so that what a killed process leaves lacks nothing.
        capture.flush()

    def _drop(self, reason: str) -> None:
        self._drops[reason] = self._drops.get(reason, 0) + 1

    def _decoded(self, frame: bytes) -> Packet | None:
        """The packet of a received Ethernet frame, or None after counting why there is none."""
        if self._capture:
            self._record(self._capture, frame)
        return self._packet(frame)

    def _packet(self, frame: bytes) -> Packet | None:
        """The packet of a frame that is captured already, or None after counting why there is none."""
        try:
            return codec.decode(frame, icrc="check")
        except WireError as error:
            self._drop(error.reason)
            return None

    def counters(self) -> dict[str, int]:
        """`rx_frames`, `tx_frames`, `tx_failed` (not taken by the kernel) and `drop_<reason>`."""
        # Asked for by other threads too: a tuple of items is taken in one step.
        counts = {"rx_frames": self._received, "tx_frames": self._sent, "tx_failed": self._failed}
        return counts | {f"drop_{reason}": count for reason, count in tuple(self._drops.items())}

    def faults(self) -> dict[str, int]:
        """How many sent frames were `lost`, `duplicated`, `reordered` and `corrupted` on purpose."""
        return self._injector.counts.to_dict()

    def close(self) -> None:
        """Close the capture; a kind closes its sockets too."""
        if self._capture:
            self._capture.close()


def enlarge_buffers(sock: socket.socket) -> None:
    """Ask for big socket buffers: beyond the system's limit where privileges allow, else up to it."""
    for forced, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BUFFER)


def check_fit(params: GroupParams, edges: Iterable[Edge], transport: Transport) -> None:
    """Refuse packets too long for a port and edges that lead nowhere. Raises ConfigError."""
    needed = params.payload_bytes + PACKET_OVERHEAD
    if needed > transport.mtu:
        raise ConfigError(
            f"group {params.group}: payload_bytes = {params.payload_bytes}, expected at most "
            f"{transport.mtu - PACKET_OVERHEAD} with an MTU of {transport.mtu} bytes"
        )
    for edge in edges:
        transport.check_edge(edge)
