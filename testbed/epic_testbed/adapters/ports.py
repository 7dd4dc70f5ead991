"""The suite's ends of a real device's links: sockets that carry the suite's Ethernet frames to it and back.

`EthernetPorts` puts them on network interfaces as they are. `UdpPorts` is the socket binding: of each frame the
UDP payload crosses, from a socket of the peer whose frame it is.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final

from epic_host.transport.base import FRAME_BYTES, enlarge_buffers
from epic_host.transport.raw import IFF_RUNNING, IFF_UP, LINK_ERRORS, interface_flags, open_raw, receive_raw
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.layout import BTH_END, DF, ETHER_IPV4, ETHER_VLAN, ETHERNET_BYTES, IPV4_END, UDP_END
from epic_spec.packets import ECN_ECT0
from epic_spec.tables import ICRC_BYTES, UDP_PORT
from epic_testbed import netns
from epic_testbed.dut import DutError, Received

# A frame that the kernel does not take for this long is not going to be sent.
SEND_SECONDS: Final = 2.0
CARRIER_SECONDS: Final = 10.0

_TOS: Final = struct.Struct("i")
_ANCILLARY: Final = socket.CMSG_SPACE(_TOS.size)
_LOWER: Final = struct.Struct("!6s6sH BBHHHBBH4s4s HHHH")
_NO_ICRC: Final = bytes(ICRC_BYTES)


class Ports(ABC):
    """Sockets by port number. `sent` and `received` count all frames since the beginning."""

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.sent = 0
        self.received = 0

    @abstractmethod
    def send(self, port: int, frame: bytes) -> None:
        """Send a frame. Raises DutError for one that cannot cross, naming why."""

    @abstractmethod
    def take(self, port: int) -> Received | None:
        """The next frame waiting at a port, None for one that is not the suite's business.

        Raises BlockingIOError when none waits.
        """

    def drain(self) -> None:
        """Throw away what waits, of a device that floods only so much."""
        for port in self.sockets:
            for _ in self.waiting(port, 100_000):
                pass

    def waiting(self, port: int, most: int = 256) -> Iterator[Received]:
        """Frames that wait at a port, at most `most` of them."""
        for _ in range(most):
            try:
                got = self.take(port)
            except BlockingIOError:
                return
            if got is not None:
                yield got

    def close(self) -> None:
        """Close the sockets."""
        for sock in self.sockets.values():
            sock.close()

    def _socket(self, port: int) -> socket.socket:
        if port not in self.sockets:
            known = ", ".join(map(str, self.sockets))
            raise DutError(f"port {port}: no such port of the device, expected one of {known}")
        return self.sockets[port]


# ----------------------------------------------------------------------------------------------- Ethernet


class EthernetPorts(Ports):
    """One interface a port, in the network namespace `namespace` where one is named.

    Frames that are not IPv4 (or VLAN-tagged IPv4) to UDP port 4791 are what a real port says for itself (LLDP,
    spanning tree, IPv6 neighbours): they are not handed on.
    """

    def __init__(self, interfaces: Mapping[int, str], namespace: str | None = None) -> None:
        """Raises ConfigError for an interface that is missing, down or without carrier."""
        super().__init__()
        self._names = dict(interfaces)
        try:
            _inside(namespace, self._open)
            self._await_carriers()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        for port, interface in self._names.items():
            self.sockets[port] = open_raw(interface, promiscuous=True, where=f"port {port}")

    def _await_carriers(self) -> None:
        deadline = time.monotonic() + CARRIER_SECONDS
        for port, interface in self._names.items():
            while not (flags := interface_flags(self.sockets[port], interface)) & IFF_RUNNING:
                if not flags & IFF_UP:
                    raise ConfigError(f"port {port}: interface {interface} is down, expected it up")
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"port {port}: interface {interface} has no carrier after {CARRIER_SECONDS:g} s"
                    )
                time.sleep(0.01)

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame as it is. The kernel takes no frame below 14 bytes or beyond the interface's MTU."""
        sock = self._socket(port)
        where = f"port {port} ({self._names[port]})"
        deadline = time.monotonic() + SEND_SECONDS
        while True:
            try:
                sock.send(frame)
                break
            except OSError as error:
                full = error.errno in (errno.EAGAIN, errno.ENOBUFS)
                if not full:
                    raise DutError(
                        f"{where}: frame of {len(frame)} bytes not sent: {error.strerror}"
                    ) from None
                if time.monotonic() > deadline:
                    raise DutError(f"{where}: nothing could be sent for {SEND_SECONDS:g} s") from None
                time.sleep(0.001)
        self.sent += 1

    def take(self, port: int) -> Received | None:
        """The next frame at an interface."""
        try:
            frame = receive_raw(self.sockets[port])
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno in LINK_ERRORS:
                raise DutError(f"port {port} ({self._names[port]}): {error.strerror}") from None
            raise
        self.received += 1
        return Received(port, frame) if _is_rocev2(frame) else None


def _is_rocev2(frame: bytes) -> bool:
    """Whether it is meant to be RoCEv2, well formed or not, VLAN tags skipped."""
    at = ETHERNET_BYTES - 2
    while frame[at : at + 2] in _VLAN_TYPES:
        at += 4
    header = frame[at + 2 :]
    if frame[at : at + 2] != _IPV4_TYPE or len(header) < 20:
        return False
    start = (header[0] & 15) * 4
    return header[9] == 17 and header[start + 2 : start + 4] == UDP_PORT.to_bytes(2, "big")


_IPV4_TYPE: Final = ETHER_IPV4.to_bytes(2, "big")
_VLAN_TYPES: Final = frozenset(kind.to_bytes(2, "big") for kind in ETHER_VLAN)


def _inside(namespace: str | None, work: object) -> None:
    """Run `work` in a network namespace: in a thread of its own, so that this one stays where it is."""
    assert callable(work)
    if namespace is None:
        work()
        return
    raised: list[Exception] = []

    def run() -> None:
        try:
            netns.enter(namespace)
        except OSError as error:
            raised.append(ConfigError(f"network namespace {namespace!r}: {error.strerror}"))
            return
        try:
            work()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


# ----------------------------------------------------------------------------------------------------- UDP


class UdpPorts(Ports):
    """One UDP socket a port, bound to the address of the peer behind it and port 4791.

    A peer's address tells the device the port. The kernel writes all headers up to UDP's, so a frame that has
    others cannot be sent; ECN and DSCP can.
    """

    def __init__(self, device: str, peers: Mapping[int, str]) -> None:
        """`device` is the device's address. Raises ConfigError for an address that cannot be bound."""
        super().__init__()
        self._device = device
        self._peers = dict(peers)
        self._buffer = memoryview(bytearray(FRAME_BYTES * 4))
        try:
            for port, address in peers.items():
                self.sockets[port] = _bound(address)
        except BaseException:
            self.close()
            raise

    def send(self, port: int, frame: bytes) -> None:
        """Send the part of a frame from BTH to ICRC from the peer's socket."""
        sock = self._socket(port)
        try:
            data, tos = datagram_of_frame(frame, self._peers[port], self._device)
        except ValueError as error:
            raise DutError(f"port {port}: {error}, which the udp binding cannot carry") from None
        mark = (socket.IPPROTO_IP, socket.IP_TOS, _TOS.pack(tos))
        deadline = time.monotonic() + SEND_SECONDS
        while True:
            try:
                sock.sendmsg([data], [mark], 0, (self._device, UDP_PORT))
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DutError(f"port {port}: nothing could be sent for {SEND_SECONDS:g} s") from None
                select.select([], [sock], [], 0.01)
            except ConnectionRefusedError:
                # What an earlier datagram met; this one has not been sent.
                continue
            except OSError as error:
                raise DutError(f"port {port}: {len(data)} bytes not sent: {error.strerror}") from None
        self.sent += 1

    def take(self, port: int) -> Received | None:
        """The next datagram to a peer, as the frame that a capture would show."""
        try:
            size, ancillary, _, (address, sport) = self.sockets[port].recvmsg_into([self._buffer], _ANCILLARY)
        except ConnectionRefusedError:
            return None
        self.received += 1
        ecn = ancillary[0][2][0] & 3 if ancillary else ECN_ECT0
        frame = codec.frame_of_datagram(self._buffer[:size], address, self._peers[port], sport, ecn=ecn)
        return Received(port, frame)


def _bound(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.bind((address, UDP_PORT))
        enlarge_buffers(sock)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    except OSError as error:
        sock.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound ({error.strerror})"
        raise ConfigError(f"{address}:{UDP_PORT} {why}, expected a free loopback address") from None
    return sock


def datagram_of_frame(frame: bytes, src_ip: str, dst_ip: str) -> tuple[bytes, int]:
    """The UDP payload and the TOS byte with which a socket of (`src_ip`, 4791) sends a frame to `dst_ip`.

    The ICRC covers headers that the kernel writes otherwise than the frame has them (source port,
    identification): a right one stays right, one of zeros stays zeros, and a wrong one stays wrong by the same
    bits. Raises ValueError for a frame whose headers up to UDP's are not those of a datagram between the two.
    """
    if len(frame) < UDP_END:
        raise ValueError(f"frame of {len(frame)} bytes, shorter than its headers up to UDP's")
    fields = _LOWER.unpack_from(frame)
    macs, (ether_type, version, tos, total, _, fragment, _, protocol, _), ips = (
        fields[:2], fields[2:11], fields[11:13],
    )  # fmt: skip
    end = ETHERNET_BYTES + total
    mac_pair = tuple(bytes.fromhex(codec.mac_of_ip(ip).replace(":", "")) for ip in (dst_ip, src_ip))
    ip_pair = tuple(socket.inet_aton(ip) for ip in (src_ip, dst_ip))
    for name, right in (
        ("EtherType", ether_type == ETHER_IPV4),
        ("version or header length", version == 0x45),
        ("IP checksum", int.from_bytes(frame[ETHERNET_BYTES:IPV4_END], "big") % 0xFFFF == 0),
        ("IP total length", UDP_END <= end <= len(frame)),
        ("fragmentation", not fragment & ~DF),
        ("protocol", protocol == 17),
        ("UDP destination port", fields[14] == UDP_PORT),
        ("UDP length", fields[15] == total - 20),
        ("MAC address", macs == mac_pair),
        ("IP address", ips == ip_pair),
    ):
        if not right:
            raise ValueError(f"frame with another {name}")
    data = frame[UDP_END:end]
    if end >= BTH_END + ICRC_BYTES:
        data = data[:-ICRC_BYTES] + _moved_icrc(frame[:end], data, src_ip, dst_ip)
    return data, tos


def _moved_icrc(frame: bytes, data: bytes, src_ip: str, dst_ip: str) -> bytes:
    found = data[-ICRC_BYTES:]
    if found == _NO_ICRC:
        return found
    before = codec.icrc(frame[:-ICRC_BYTES])
    after = codec.icrc(codec.frame_of_datagram(data, src_ip, dst_ip)[:-ICRC_BYTES])
    return bytes(f ^ b ^ a for f, b, a in zip(found, before, after, strict=True))
