"""What devices in real time have in common: frames wait in sockets, and time passes by itself."""

from __future__ import annotations

import selectors
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Final

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_testbed.adapters.control import Control
from epic_testbed.adapters.ports import Ports
from epic_testbed.dut import Dut, Received

# A device that floods: beyond this many frames, more stay in the sockets until some were looked at.
QUEUE: Final = 20_000


class LiveDut(Dut):
    """A device behind sockets (`Ports`) and a control plane (`Control`).

    Frames and the control plane go different ways, so that one could overtake the other. `_settle`, which a kind
    of device implements, makes them one order: it returns when the device has handled what was sent to it, and
    what it sent in answer is in the sockets. It is called before every request to the control plane, and before
    `receive` says that nothing comes.
    """

    def __init__(self, ports: Ports, control: Control) -> None:
        self._ports = ports
        self._control = control
        self._queue: deque[Received] = deque()
        self._selector = selectors.DefaultSelector()
        for port, sock in ports.sockets.items():
            self._selector.register(sock, selectors.EVENT_READ, port)

    @abstractmethod
    def _settle(self) -> None:
        """Wait, up to a deadline, until what was sent has had its effect. Raises DutError."""

    def _check(self) -> None:
        """Raise DutError when the device is known to be gone."""

    def configure(self, group: EngineGroup) -> None:
        """Install a group."""
        self._settle()
        self._control.install(group)

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._settle()
        self._control.remove(group)

    def counters(self) -> Mapping[str, int]:
        """The device's counters, all that was sent before included."""
        self._settle()
        return self._control.counters()

    def status(self, group: int) -> GroupStatus:
        """The device's slots, all that was sent before included."""
        self._settle()
        return self._control.status(group)

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame to a port."""
        self._check()
        self._ports.send(port, frame)

    def receive(self, timeout: float) -> Received | None:
        """The next frame; None when none came for `timeout` seconds and the device is done with what was sent."""
        if not self._queue:
            self._collect(timeout)
        if not self._queue:
            self._settle()
        return self._queue.popleft() if self._queue else None

    def advance(self, seconds: float) -> None:
        """Wait, keeping what arrives."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if len(self._queue) < QUEUE:
                self._collect(left)
            else:
                time.sleep(left)
        self._check()

    def close(self) -> None:
        """Close sockets and control plane."""
        self._selector.close()
        self._ports.close()
        self._control.close()

    def _discard(self) -> None:
        """Forget frames that have arrived."""
        self._queue.clear()
        self._ports.drain()

    def _collect(self, timeout: float) -> None:
        """Take what waits in the sockets into the queue; when nothing does, wait for it `timeout` seconds."""
        if len(self._queue) >= QUEUE:
            return
        for key, _ in self._selector.select(max(0.0, timeout)):
            if isinstance(key.data, int):
                self._queue.extend(self._ports.waiting(key.data))
            else:
                self._check()
