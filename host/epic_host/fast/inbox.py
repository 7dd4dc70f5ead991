"""Datagrams that arrive: one recvmmsg a batch, runs of UDP_GRO taken apart, local ports looked up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.compiled import compiled, load32, swapped16, swapped32
from epic_host.fast.frames import ARRIVAL, UNVERIFIED, Arrivals
from epic_host.fast.syscalls import (
    CMSG_HEADER,
    CONTROL,
    DONTWAIT,
    EINTR,
    IOVEC,
    IP_TOS,
    MESSAGE,
    NAME,
    SLOT_BYTES,
    SOL_IP,
    SOL_UDP,
    UDP_GRO,
    Records,
    errno_address,
    i8,
    recvmmsg,
    u4,
    u8,
)
from epic_host.fast.world import Shape, World

# Entries of a port cache, a power of two, and how many are used at most: it is emptied then.
CACHE: Final = 8192
CACHED: Final = 4096
# What the records of an address have as port that the cache lacks; Arrivals have no such port otherwise.
UNRESOLVED: Final = -2

# Control messages of one message: UDP_GRO, IP_TOS, and room for one that nobody asked for.
_CONTROLS: Final = 3

_INBOX: Final = Shape(
    "Inbox",
    {
        "messages": MESSAGE, "iovecs": IOVEC, "names": NAME, "controls": CONTROL, "addresses": np.uint32,
        "ports": np.int32, "used": np.int64, "found": np.int64, "arena": np.uint8, "records": ARRIVAL,
    },
)  # fmt: skip
_inbox_at: Final = _INBOX.at


class Inbox:
    """Where `receive` puts headers of up to `slots` messages, and what is known of their senders.

    `addresses` and `ports` are the local port by the sender's address, a hash table with open addressing of which
    `used`[0] rows are taken. `found`: datagrams of the last batch, and how many of them have an UNRESOLVED port.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.messages: Records = np.zeros(slots, MESSAGE)
        self.iovecs: Records = np.zeros(slots, IOVEC)
        self.names: Records = np.zeros(slots, NAME)
        self.controls: Records = np.zeros(slots * _CONTROLS, CONTROL)
        self.addresses: NDArray[np.uint32] = np.zeros(CACHE, np.uint32)
        self.ports: NDArray[np.int32] = np.full(CACHE, UNRESOLVED, np.int32)
        self.used: NDArray[np.int64] = np.zeros(1, np.int64)
        self.found: NDArray[np.int64] = np.zeros(2, np.int64)
        self._arrivals: Arrivals | None = None
        self._world: World | None = None

    def address(self, arrivals: Arrivals) -> int:
        """What kernels take: this inbox with the arrivals that they fill."""
        if self._world is None or arrivals is not self._arrivals:
            self._arrivals = arrivals
            names = ("messages", "iovecs", "names", "controls", "addresses", "ports", "used", "found")
            own = {name: getattr(self, name) for name in names}
            self._world = _INBOX.make(arena=arrivals.arena, records=arrivals.records, **own)
        return self._world.address


@compiled
def _cache_row(inbox: Any, address: int) -> Any:
    """The row of an address in the cache, or the free one where it belongs."""
    row = u4(u4(address) * u4(2654435761)) >> u4(19)
    while inbox.ports[row] != UNRESOLVED and inbox.addresses[row] != address:
        row = (row + u4(1)) & u4(CACHE - 1)
    return i8(row)


@compiled
def learn(world: int, address: int, port: int) -> None:
    """Remember the local port (-1: none) of an address. Anybody may send from any address, so memory is bounded."""
    inbox = _inbox_at(world)
    if inbox.used[0] >= CACHED:
        inbox.ports[:] = UNRESOLVED
        inbox.used[0] = 0
    row = _cache_row(inbox, address)
    if inbox.ports[row] == UNRESOLVED:
        inbox.used[0] += 1
    inbox.addresses[row] = address
    inbox.ports[row] = port


@compiled
def resolve(world: int, count: int) -> int:
    """Give records the port that the cache has by now; the row of one that still lacks it, or -1."""
    inbox = _inbox_at(world)
    for i in range(count):
        if inbox.records[i].port == UNRESOLVED:
            port = inbox.ports[_cache_row(inbox, inbox.records[i].source)]
            if port == UNRESOLVED:
                return i
            inbox.records[i].port = port
    return -1


@compiled
def _ready(inbox: Any) -> None:
    """Headers for the next batch: the kernel overwrites the lengths."""
    arena = u8(inbox.arena.ctypes.data)
    names, iovecs = u8(inbox.names.ctypes.data), u8(inbox.iovecs.ctypes.data)
    controls = u8(inbox.controls.ctypes.data)
    for i in range(len(inbox.messages)):
        message, iovec = inbox.messages[i], inbox.iovecs[i]
        iovec.base = arena + u8(i * SLOT_BYTES)
        iovec.length = SLOT_BYTES
        message.name = names + u8(i * 16)
        message.name_length = 16
        message.iovecs = iovecs + u8(i * 16)
        message.iovec_count = 1
        message.control = controls + u8(i * (_CONTROLS * 24))
        message.control_length = _CONTROLS * 24
        message.flags = 0


@compiled
def _take(inbox: Any, i: int, count: int) -> Any:
    """Records of message `i`, number `count` the first; how many there are then."""
    size = i8(inbox.messages[i].length)
    segment, ecn = size, 0
    left = i8(inbox.messages[i].control_length)
    for k in range(_CONTROLS):
        control = inbox.controls[i * _CONTROLS + k]
        if left < CMSG_HEADER or control.length < CMSG_HEADER:
            break
        # Every control message that is asked for has a value of at most 8 bytes, so they are 24 bytes apart.
        if control.level == SOL_UDP and control.kind == UDP_GRO:
            segment = i8(control.value & u4(0xFFFF))
        elif control.level == SOL_IP and control.kind == IP_TOS:
            ecn = i8(control.value & u4(3))
        left -= 24
    source = swapped32(inbox.names[i].address)
    sport = swapped16(inbox.names[i].port)
    port = inbox.ports[_cache_row(inbox, source)]
    at = i8(0)
    # A datagram may be empty: it is one all the same.
    while (at < size or at == 0) and count < len(inbox.records):
        record = inbox.records[count]
        length = size - at
        if segment > 0 and segment < length:
            length = segment
        record.offset = i * SLOT_BYTES + at
        record.length = length
        record.source = source
        record.port = port
        record.sport = sport
        record.ecn = ecn
        record.icrc = UNVERIFIED
        inbox.found[1] += port == UNRESOLVED
        count += 1
        at += length if length else 1
    return count


@compiled
def receive(fd: int, world: int) -> Any:
    """Take one batch: how many messages there were, or -errno where the kernel gave none; `found` has the datagrams.

    Datagrams beyond the end of the records are lost, as on a network card that has no descriptor left.
    """
    inbox = _inbox_at(world)
    inbox.found[:] = 0
    _ready(inbox)
    while True:
        taken = i8(recvmmsg(fd, inbox.messages.ctypes.data, u4(len(inbox.messages)), DONTWAIT, u8(0)))
        if taken >= 0:
            break
        code = i8(load32(errno_address()))
        if code != EINTR:
            return -code
    count = 0
    for i in range(taken):
        count = _take(inbox, i, count)
    inbox.found[0] = count
    return taken
