"""Datagrams that leave: sorted by destination, runs of one length made one message each, sent by sendmmsg."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.compiled import compiled, load32, swapped16, swapped32
from epic_host.fast.frames import EDGE, Departures
from epic_host.fast.queues import DEPARTURES, departures_world
from epic_host.fast.syscalls import (
    CMSG_HEADER,
    CONTROL,
    DONTWAIT,
    EBADF,
    EINTR,
    EINVAL,
    EIO,
    EMSGSIZE,
    INET,
    IOVEC,
    IP_TOS,
    MESSAGE,
    NAME,
    RUN_BYTES,
    SLOT_BYTES,
    SOL_IP,
    SOL_UDP,
    UDP_SEGMENT,
    Records,
    errno_address,
    i8,
    sendmmsg,
    u4,
    u8,
)
from epic_host.fast.world import Shape, World
from epic_spec.packets import ECN_ECT0
from epic_spec.tables import UDP_PORT

_OUTBOX: Final = Shape(
    "Outbox",
    {
        "messages": MESSAGE, "iovecs": IOVEC, "names": NAME, "controls": CONTROL, "table": np.int32,
        "rows": np.int32, "first": np.int32, "last": np.int32, "following": np.int32, "counts": np.int32,
        "limits": np.int64, "tally": np.int64, "departures": DEPARTURES, "edges": EDGE,
    },
)  # fmt: skip
_outbox_at: Final = _OUTBOX.at


class Outbox:
    """Headers and lists of `transmit`, for batches of up to `frames`.

    `limits`: datagrams of a run (`segments`; 1: there are no runs), bytes of a run, and the frame length from which on
    there are no runs, for the kernel or the link does not take them. `tally`: frames sent, frames that were not taken.

    `table` has the destination by hash of its address, -1 free, and `rows` where each destination stands there.
    `first`, `last` and `following` list the frames of each destination in order; `counts` has the frames of each
    message. `names` has the destinations' addresses.
    """

    def __init__(self, frames: int, segments: int) -> None:
        self.limits: NDArray[np.int64] = np.array([segments, RUN_BYTES, SLOT_BYTES], np.int64)
        self.tally: NDArray[np.int64] = np.zeros(2, np.int64)
        self._departures: Departures | None = None
        self._edges: Records | None = None
        self._world: World | None = None
        self.resize(frames)

    def resize(self, frames: int) -> None:
        """Make room for batches of up to `frames`; limits and tally go on."""
        self.frames = frames
        size = 1 << max(4, (2 * frames - 1).bit_length())
        # One more, for a frame that goes by itself after its run was refused.
        self.messages: Records = np.zeros(frames + 1, MESSAGE)
        self.iovecs: Records = np.zeros(3 * frames, IOVEC)
        self.names: Records = np.zeros(frames, NAME)
        self.controls: Records = np.zeros(2 * frames, CONTROL)
        self.table: NDArray[np.int32] = np.full(size, -1, np.int32)
        self.rows, self.first, self.last, self.following, self.counts = np.zeros((5, frames), np.int32)
        self._world = None

    def address(self, departures: Departures, edges: Records) -> int:
        """What kernels take: this outbox with what it sends and the rows of the edges by which it goes."""
        if len(departures.body) > self.frames:
            self.resize(len(departures.body))
        if self._world is None or departures is not self._departures or edges is not self._edges:
            self._departures, self._edges = departures, edges
            own = {name: getattr(self, name) for name in _OUTBOX.order[:-2]}
            self._world = _OUTBOX.make(departures=departures_world(departures), edges=edges, **own)
        return self._world.address


@compiled
def _sort(box: Any) -> int:
    """List the frames of each destination; how many destinations there are."""
    out = box.departures
    destinations = 0
    mask = u4(len(box.table) - 1)
    known, known_address = -1, u4(0)
    for i in range(out.count[0]):
        address = swapped32(box.edges[out.edge[i]].peer_ip)
        if known < 0 or address != known_address:
            row = i8((address * u4(2654435761) >> u4(8)) & mask)
            while box.table[row] >= 0 and box.names[box.table[row]].address != address:
                row = (row + 1) & i8(mask)
            known, known_address = i8(box.table[row]), address
            if known < 0:
                known = destinations
                destinations += 1
                box.table[row], box.rows[known] = known, row
                name = box.names[known]
                name.family, name.port, name.address = INET, swapped16(np.uint16(UDP_PORT)), address
                box.first[known] = -1
        box.following[i] = -1
        if box.first[known] < 0:
            box.first[known] = i
        else:
            box.following[box.last[known]] = i
        box.last[known] = i
    for d in range(destinations):
        box.table[box.rows[d]] = -1
    return destinations


@compiled
def _control(box: Any, at: int, segment: int, ecn: int) -> int:
    """Control messages of message `at`: length of a run's datagrams (0: none), ECN other than ECT(0). Their bytes."""
    used = 0
    if segment:
        control = box.controls[2 * at + used]
        control.length, control.level, control.kind = CMSG_HEADER + 2, SOL_UDP, UDP_SEGMENT
        control.value = segment
        used += 1
    if ecn != ECN_ECT0:
        control = box.controls[2 * at + used]
        control.length, control.level, control.kind = CMSG_HEADER + 4, SOL_IP, IP_TOS
        control.value = ecn
        used += 1
    return used * 24


@compiled
def _message(box: Any, at: int, destination: int, iovec: int, frames: int, segment: int, ecn: int) -> None:
    """Message `at`: `frames` frames from iovec number `iovec` on."""
    message = box.messages[at]
    message.name = u8(box.names.ctypes.data) + u8(16 * destination)
    message.name_length = 16
    message.iovecs = u8(box.iovecs.ctypes.data) + u8(16 * iovec)
    message.iovec_count = 3 * frames
    # The last message is of a frame whose run was refused. There are fewer messages than frames then, so that the last
    # control messages are free.
    message.control = u8(box.controls.ctypes.data) + u8(48 * min(at, len(box.names) - 1))
    message.control_length = _control(box, min(at, len(box.names) - 1), segment, ecn)
    message.flags = 0


@compiled
def _compose(box: Any, destinations: int) -> int:
    """Messages of the sorted frames, as few as can be; how many."""
    out = box.departures
    messages = used = 0
    head, tail = u8(out.head.ctypes.data), u8(out.tail.ctypes.data)
    for d in range(destinations):
        i = i8(box.first[d])
        while i >= 0:
            ecn, segment = i8(out.ecn[i]), i8(out.length[i]) + 20
            most = box.limits[0] if segment < box.limits[2] else 1
            start, frames, size, last = used, 0, 0, segment
            # A run ends with the first frame that is shorter than the others.
            while (
                i >= 0
                and frames < most
                and last == segment
                and i8(out.length[i]) + 20 <= segment
                and out.ecn[i] == ecn
                and (frames == 0 or size + out.length[i] + 20 <= box.limits[1])
            ):
                last = i8(out.length[i]) + 20
                a, b, c = box.iovecs[used], box.iovecs[used + 1], box.iovecs[used + 2]
                a.base, a.length = head + u8(16 * i), 16
                b.base, b.length = out.body[i], out.length[i]
                c.base, c.length = tail + u8(4 * i), 4
                used, frames, size = used + 3, frames + 1, size + last
                i = i8(box.following[i])
            _message(box, messages, d, start, frames, segment if frames > 1 else 0, ecn)
            box.counts[messages] = frames
            messages += 1
    return messages


@compiled
def _send(fd: int, box: Any, at: int, count: int) -> Any:
    """How many of `count` messages from number `at` on the kernel took, or -errno of the first."""
    address = u8(box.messages.ctypes.data) + u8(64 * at)
    while True:
        taken = sendmmsg(fd, address, u4(count), DONTWAIT)
        if taken >= 0:
            return i8(taken)
        code = i8(load32(errno_address()))
        if code != EINTR:
            return -i8(code)


@compiled
def _one_by_one(fd: int, box: Any, at: int) -> None:
    """Send the frames of a refused run each by itself. If that works, the link takes no runs of this length."""
    single = len(box.messages) - 1
    message = box.messages[at]
    destination = i8((message.name - u8(box.names.ctypes.data)) >> u8(4))
    iovec = i8((message.iovecs - u8(box.iovecs.ctypes.data)) >> u8(4))
    control = box.controls[2 * at + 1]
    ecn = i8(control.value) if message.control_length > 24 else i8(ECN_ECT0)
    sent = 0
    for k in range(box.counts[at]):
        _message(box, single, destination, iovec + 3 * k, 1, 0, ecn)
        sent += _send(fd, box, single, 1) == 1
    if sent:
        length = i8(box.iovecs[iovec + 1].length) + 20
        box.limits[2] = min(box.limits[2], length)
    box.tally[0] += sent
    box.tally[1] += box.counts[at] - sent


@compiled
def arrange(world: int) -> int:
    """Make the messages of the departures; how many there are."""
    box = _outbox_at(world)
    return _compose(box, _sort(box))


@compiled
def transmit(fd: int, world: int) -> int:
    """Send all departures, those to one destination in their order; 0, or the errno of a socket that is none.

    What the kernel does not take is lost, as on a wire; `tally` counts what went and what did not.
    """
    box = _outbox_at(world)
    messages = arrange(world)
    at = 0
    while at < messages:
        taken = _send(fd, box, at, messages - at)
        if taken > 0:
            for k in range(at, at + taken):
                box.tally[0] += box.counts[k]
            at += taken
            continue
        if taken == -EBADF:
            return EBADF
        if box.counts[at] > 1 and (taken == -EINVAL or taken == -EIO or taken == -EMSGSIZE):
            _one_by_one(fd, box, at)
        else:
            box.tally[1] += box.counts[at]
        at += 1
    return 0
