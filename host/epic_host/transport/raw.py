"""Raw Ethernet sockets (AF_PACKET): every frame of an interface as it was on the wire, VLAN tags included.

Needs CAP_NET_RAW. The kernel takes the outer VLAN tag off a frame before a packet socket sees it; a socket for
one EtherType gets such a frame as if it had never had a tag. So sockets here are open for all EtherTypes, and
the tag, which the kernel reports beside the frame, is put back (EPIC-W-03).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
from typing import Final

from epic_host.transport.base import FRAME_BYTES, enlarge_buffers
from epic_spec.errors import ConfigError

# From <linux/if_packet.h>, <linux/if_ether.h>, <linux/if.h>, <asm-generic/socket.h>, <linux/sockios.h>.
SOL_PACKET: Final = 263
PACKET_ADD_MEMBERSHIP: Final = 1
PACKET_AUXDATA: Final = 8
PACKET_IGNORE_OUTGOING: Final = 23
PACKET_MR_PROMISC: Final = 1
TP_STATUS_VLAN_VALID: Final = 1 << 4
ETH_P_ALL: Final = 0x0003
SO_ATTACH_FILTER: Final = 26
SIOCGIFFLAGS: Final = 0x8913
SIOCGIFMTU: Final = 0x8921
IFF_UP: Final = 1 << 0
IFF_RUNNING: Final = 1 << 6

# struct tpacket_auxdata: status, lengths, offsets, VLAN tag and its EtherType.
_AUXDATA: Final = struct.Struct("IIIHHHH")
_ANCILLARY: Final = socket.CMSG_SPACE(_AUXDATA.size)
_TAG: Final = struct.Struct("!HH")
_MACS_BYTES: Final = 12
_IP_DST_OFFSET: Final = 30
# The interface is down or gone.
LINK_ERRORS: Final = (errno.ENETDOWN, errno.ENXIO, errno.ENODEV)


def open_raw(
    interface: str, address: str | None = None, *, promiscuous: bool = False, where: str = "packet transport"
) -> socket.socket:
    """A socket, not blocking, that sends and receives whole frames on `interface`.

    With `address`, only IPv4 packets to it are received; `promiscuous` takes frames to any MAC address. Raises
    ConfigError, beginning with `where`, when there is no such interface or privilege.
    """
    where = f"{where}: interface {interface}"
    try:
        # Protocol 0 receives nothing until bind, so no frame passes before the filter is there.
        sock = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0
        )
    except PermissionError:
        raise ConfigError(f"{where}: raw sockets need root (CAP_NET_RAW)") from None
    try:
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        if address is not None:
            _accept_only(sock, address)
        enlarge_buffers(sock)
        sock.bind((interface, ETH_P_ALL))
        if promiscuous:
            request = struct.pack("iHH8x", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0)
            sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    except OSError as error:
        sock.close()
        if error.errno in (errno.ENODEV, errno.ENXIO):
            raise ConfigError(f"{where} does not exist in this network namespace") from None
        raise ConfigError(f"{where}: {error.strerror}") from None
    return sock


def receive_raw(sock: socket.socket) -> bytes:
    """The next frame, its VLAN tag in place. Raises BlockingIOError when there is none."""
    frame, ancillary, _, _ = sock.recvmsg(FRAME_BYTES, _ANCILLARY)
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tag, ether_type = _AUXDATA.unpack_from(data)
            if status & TP_STATUS_VLAN_VALID:
                return frame[:_MACS_BYTES] + _TAG.pack(ether_type, tag) + frame[_MACS_BYTES:]
    return frame


def interface_mtu(sock: socket.socket, interface: str) -> int:
    """Bytes of the largest IP packet of an interface, in the namespace of `sock`."""
    (mtu,) = struct.unpack_from("i", _ask(sock, SIOCGIFMTU, interface), 16)
    return int(mtu)


def interface_flags(sock: socket.socket, interface: str) -> int:
    """IFF_UP, IFF_RUNNING (there is a carrier) and others, in the namespace of `sock`."""
    (flags,) = struct.unpack_from("H", _ask(sock, SIOCGIFFLAGS, interface), 16)
    return int(flags)


def _ask(sock: socket.socket, request: int, interface: str) -> bytes:
    return fcntl.ioctl(sock.fileno(), request, struct.pack("16s24x", interface.encode()[:15]))


def _accept_only(sock: socket.socket, address: str) -> None:
    """Attach a classic BPF program that passes only frames whose IPv4 destination is `address`."""
    (wanted,) = struct.unpack("!I", socket.inet_aton(address))
    instructions = (
        (0x28, 0, 0, _MACS_BYTES),  # A = half-word at the EtherType
        (0x15, 0, 3, 0x0800),  # if A == IPv4 fall through, else skip three
        (0x20, 0, 0, _IP_DST_OFFSET),  # A = word at the destination address
        (0x15, 0, 1, wanted),  # if A == wanted fall through, else skip one
        (0x06, 0, 0, 0xFFFFFFFF),  # return the whole frame
        (0x06, 0, 0, 0),  # return nothing
    )
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    memory = ctypes.create_string_buffer(program)
    header = struct.pack("HL", len(instructions), ctypes.addressof(memory))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)
