"""Where a thread sleeps until there is something to do."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence


class Sleeper:
    """Sleeps until one of the descriptors `fds` is readable, a time has come, or `wake` is called.

    One thread at a time sleeps here; everything else may be called from any thread.
    """

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = tuple(fds)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        for fd in (self._wake_fd, *self._fds):
            self._epoll.register(fd, select.EPOLLIN)

    def sleep(self, until: float | None) -> None:
        """Sleep, at most until the time `until` of `time.monotonic` (None: for as long as it takes)."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        for fd, _ in self._epoll.poll(timeout):
            if fd == self._wake_fd:
                os.eventfd_read(fd)

    def fileno(self) -> int:
        """The epoll descriptor, for compiled code that sleeps in place of `sleep`."""
        return self._epoll.fileno()

    @property
    def wake_fd(self) -> int:
        """The eventfd that `wake` writes to; who sleeps by `fileno` reads it."""
        return self._wake_fd

    def wake(self) -> None:
        """End the sleep, the next one if nobody sleeps. Also from a signal handler."""
        os.eventfd_write(self._wake_fd, 1)

    def ignore(self) -> None:
        """From now on the descriptors wake nobody here, also one who sleeps already, until `watch`."""
        for fd in self._fds:
            # An error of the descriptor cannot be masked; it wakes once.
            self._epoll.modify(fd, select.EPOLLONESHOT)

    def watch(self) -> None:
        """End of `ignore`. One who sleeps is woken by what has come meanwhile."""
        for fd in self._fds:
            self._epoll.modify(fd, select.EPOLLIN)

    def close(self) -> None:
        """Close what it opened itself. Nobody may sleep here any more."""
        self._epoll.close()
        os.close(self._wake_fd)
