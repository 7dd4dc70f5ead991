"""The border to the kernel: system calls of a UDP socket, and what crosses it, as compiled code sees them.

Laid out as Linux has it on 64-bit machines, in NumPy records: `mmsghdr`, `iovec`, `sockaddr_in`, `cmsghdr`
(recvmmsg(2), sendmmsg(2), cmsg(3), udp(7)). Compiled code calls libc itself: numba finds its symbols in the process.
"""

from __future__ import annotations

import errno
import platform
import socket
import time
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

Records = NDArray[Any]

# For compiled code, where numba and mypy do not mean the same by a number's type.
u4: Final[Any] = np.uint32
u8: Final[Any] = np.uint64
i8: Final[Any] = np.int64

# From <linux/udp.h>; the socket module does not have them.
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104

# Datagrams of one sendmsg: UDP_MAX_SEGMENTS of kernels before 6.9 (128 since).
SEGMENTS: Final = 64
# Bytes of one such run. IPv4's limit is 65,507; loopback hands a run on whole up to 65,480 (measured), and a longer one
# is cut into datagrams before it gets there.
RUN_BYTES: Final = 65_000
# Bytes that one message of a received batch may have: the longest datagram or run that there is.
SLOT_BYTES: Final = 65_536
# Datagrams that a received run may have: UDP_MAX_SEGMENTS of kernels since 6.9.
RUN_SEGMENTS: Final = 128

IOVEC: Final = np.dtype([("base", "u8"), ("length", "u8")])
# struct mmsghdr: the fields of msghdr, with the holes that alignment leaves, and how many bytes went.
MESSAGE: Final = np.dtype(
    [
        ("name", "u8"), ("name_length", "u4"), ("hole", "u4"), ("iovecs", "u8"), ("iovec_count", "u8"),
        ("control", "u8"), ("control_length", "u8"), ("flags", "i4"), ("hole2", "u4"),
        ("length", "u4"), ("hole3", "u4"),
    ]
)  # fmt: skip
# struct sockaddr_in; port and address are in network order.
NAME: Final = np.dtype([("family", "u2"), ("port", "u2"), ("address", "u4"), ("zero", "u8")])
# One control message with its data, padded to 8 bytes: struct cmsghdr, then an int or uint16_t.
CONTROL: Final = np.dtype(
    [("length", "u8"), ("level", "i4"), ("kind", "i4"), ("value", "u4"), ("hole", "u4")]
)
CMSG_HEADER: Final = 16
INET: Final = np.uint16(socket.AF_INET)
SOL_IP: Final = socket.IPPROTO_IP
SOL_UDP: Final = socket.IPPROTO_UDP
IP_TOS: Final = socket.IP_TOS
DONTWAIT: Final = np.int32(socket.MSG_DONTWAIT)
EINTR, EBADF = errno.EINTR, errno.EBADF
# Errors of a socket that no later call can be without.
FATAL: Final = (errno.EBADF, errno.ENOTSOCK, errno.EFAULT, errno.EINVAL)
# struct epoll_event, which x86-64 has packed as on 32 bits; `data` is the descriptor, as Python's epoll has it.
EPOLL_EVENT: Final = np.dtype(
    [
        ("events", "u4"),
        *([] if platform.machine() == "x86_64" else [("hole", "u4")]),
        ("data", "i4"),
        ("rest", "u4"),
    ]
)
# struct timespec, and the clocks: that of `time.monotonic`, and the thread's processor time.
TIME: Final = np.dtype([("seconds", "i8"), ("nanoseconds", "i8")])
CLOCK_MONOTONIC, CLOCK_THREAD = time.CLOCK_MONOTONIC, time.CLOCK_THREAD_CPUTIME_ID
EINVAL, EIO, EMSGSIZE = errno.EINVAL, errno.EIO, errno.EMSGSIZE

recvmmsg: Final[Any] = types.ExternalFunction(
    "recvmmsg", types.intc(types.intc, types.uintp, types.uintc, types.intc, types.uintp)
)
sendmmsg: Final[Any] = types.ExternalFunction(
    "sendmmsg", types.intc(types.intc, types.uintp, types.uintc, types.intc)
)
epoll_wait: Final[Any] = types.ExternalFunction(
    "epoll_wait", types.intc(types.intc, types.uintp, types.intc, types.intc)
)
read: Final[Any] = types.ExternalFunction("read", types.intp(types.intc, types.uintp, types.uintp))
clock_gettime: Final[Any] = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.uintp))
errno_address: Final[Any] = types.ExternalFunction("__errno_location", types.uintp())


def supports(sock: socket.socket, option: int) -> bool:
    """Whether the kernel knows UDP_SEGMENT or UDP_GRO; what the socket does stays as it is."""
    try:
        sock.setsockopt(socket.IPPROTO_UDP, option, 0)
    except OSError:
        return False
    return True
