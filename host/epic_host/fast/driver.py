"""The event loop of a node that works in batches: `epic_host.driver.Driver`, without a Python object a packet.

What one batch of arrivals causes leaves in one batch, so that what goes to one destination shares system calls. Where
nothing but the kernel stands between a node and its peers the loop itself is compiled (`pump`); with faults to inject,
links that are cut or a capture it is the one here, step by step.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, Protocol, runtime_checkable

from epic_host.fast import pump, sockets
from epic_host.fast.frames import Arrivals, Departures, EdgeTable, departures
from epic_host.fast.node import FastNode
from epic_host.fast.pump import NOTHING, STRANGERS, Pump
from epic_host.fast.udp import FastUdpTransport
from epic_models.reference.interfaces import Event
from epic_spec.errors import EpicError

# Batches received before the timers and the other threads' requests get their turn.
_BATCHES: Final = 8
# A caller whose collective goes on sleeps no longer than this in compiled code, where no signal handler gets at it.
_NAP_SECONDS: Final = 0.02
# A loop sleeps no longer than this there: a signal that came just before the sleep would be slept over.
_LOOK_SECONDS: Final = 1.0
# Departures beside those of the largest burst.
_ROOM: Final = 2048


@runtime_checkable
class BatchNode(Protocol):
    """What the loop needs of an engine or agent that works in batches.

    `burst`: how many departures one arrival or one timer may cause. It may change between calls.
    """

    edges: EdgeTable
    burst: int

    def receive_batch(self, arrivals: Arrivals, first: int, departures: Departures, now: float) -> int:
        """Work on arrivals from number `first` on. Returns the number up to which they are done.

        That is fewer than there are when `departures` must be sent before it can go on.
        """

    def poll_batch(self, departures: Departures, now: float) -> None:
        """Run the timers that are due. Some stay due when `departures` must be sent first."""

    def next_deadline(self) -> float | None:
        """When `poll_batch` wants to be called next, or None."""

    def take_events(self) -> list[Event]:
        """What has happened since the last call, in order."""


def load(node: BatchNode) -> None:
    """Load, or compile, what the first datagrams of a node would otherwise wait for. Its loop may not have begun."""
    sockets.load()
    pump.load()
    queue, now = departures(node.burst + 1), time.monotonic()
    node.receive_batch(Arrivals(1, sockets.SLOT_BYTES), 0, queue, now)
    node.poll_batch(queue, now)
    if isinstance(node, FastNode):
        node.kernels(queue)


class BatchLoop:
    """Works for `node` over `transport` without ever sleeping; `on_events` gets the node's events, in order.

    `departures` is what `flush` sends: whoever lets the node queue something else there calls it afterwards.
    """

    def __init__(
        self, node: BatchNode, transport: FastUdpTransport, on_events: Callable[[Sequence[Event]], None]
    ) -> None:
        self._node = node
        self._transport = transport
        self._on_events = on_events
        self._arrivals = transport.arrivals()
        self.departures = departures(node.burst + _ROOM)
        self._pump: Pump | None = None

    def work(self, arrived: bool = True) -> None:
        """Do what there is to do: take what waits in the socket (not if nothing has `arrived`), run what is due."""
        if arrived and not self.pump():
            self._receive()
        self.run_due()

    def pump(self, until: float = inf, epoll: int = -1, wake: int = -1) -> bool:
        """Let compiled code do what there is to do; False where node or transport cannot.

        With an `epoll` descriptor it sleeps there, up to the time `until`, or until the eventfd `wake` ends it.
        """
        pump = self._pumped()
        if pump is None:
            return False
        code = pump.run(until, epoll, wake)
        self._tell()
        self._finish(pump, code)
        return True

    def stream(self, until: float, epoll: int, wake: int, fed: Callable[[], object]) -> bool:
        """As `pump`, where it `pumps`, while the node contributes from its supply. False when nothing has come lately.

        `fed` is called before events are told; it ends the supply.
        """
        pump = self._pumped()
        assert pump is not None
        code = pump.run(until, epoll, wake, _NAP_SECONDS, feeds=True)
        fed()
        self._tell()
        self._finish(pump, code)
        return code != NOTHING

    def _finish(self, pump: Pump, code: int) -> None:
        """Go on to the end of a batch that Python had to look at."""
        while pump.pending or code == STRANGERS:
            # Not with another one, which may be for the supply.
            pump.stop()
            code = pump.run()
            self._tell()

    @property
    def pumps(self) -> bool:
        """Whether `pump` does anything."""
        return self._pumped() is not None

    def interrupt(self) -> None:
        """Let `pump` come back soon. From any thread; it does not end a sleep."""
        if (pump := self._pump) is not None:
            pump.stop()

    def _pumped(self) -> Pump | None:
        node: FastNode | None = getattr(self._node, "pumped", None)
        if node is None or not getattr(self._transport, "plain", False):
            return None
        self.make_room()
        if self._pump is None or self._pump.node is not node or self._pump.departures is not self.departures:
            self._pump = Pump(node, self._transport, self._arrivals, self.departures)
        return self._pump

    def run_due(self) -> None:
        """Run the timers that are due."""
        now = time.monotonic()
        due = self._node.next_deadline()
        if due is not None and due <= now:
            self.make_room()
            self._node.poll_batch(self.departures, now)
            self.flush(now)
        due = self._transport.next_deadline()
        if due is not None and due <= now:
            self._transport.poll(now)

    def load(self) -> None:
        """See `load`."""
        load(self._node)

    def next_deadline(self) -> float | None:
        """When `work` has something to do although nothing arrives, or None."""
        own, others = self._node.next_deadline(), self._transport.next_deadline()
        return own if others is None else others if own is None else min(own, others)

    def make_room(self) -> None:
        """See to it that the largest burst fits; nothing may be queued."""
        if len(self.departures.body) < self._node.burst + _ROOM:
            self.departures = departures(self._node.burst + _ROOM)

    def flush(self, now: float) -> None:
        """Send what is queued, and hand on the node's events."""
        if self.departures.count[0]:
            self._transport.send_batch(self.departures, self._node.edges, now)
            self.departures.clear()
        self._tell()

    def _tell(self) -> None:
        events = self._node.take_events()
        if events:
            self._on_events(events)

    def _receive(self) -> None:
        # What waits in the sockets goes before the timers: it may be what they wait for. But not for ever.
        for _ in range(_BATCHES):
            now = time.monotonic()
            count = self._transport.receive_batch(self._arrivals, now)
            self.make_room()
            done = 0
            while done < count:
                before, done = done, self._node.receive_batch(self._arrivals, done, self.departures, now)
                if done == before and not self.departures.count[0]:
                    raise EpicError(
                        f"arrival {done} of {count} is not worked on, expected it with an empty queue"
                    )
                self.flush(now)
            if not self._transport.more:
                return


class BatchDriver(BatchLoop):
    """A loop that sleeps until a datagram is there, a timer is due or another thread wakes it."""

    def __init__(
        self, node: BatchNode, transport: FastUdpTransport, on_events: Callable[[Sequence[Event]], None]
    ) -> None:
        super().__init__(node, transport, on_events)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        for fd in (self._wake_fd, *transport.filenos()):
            self._epoll.register(fd, select.EPOLLIN)

    def wake(self) -> None:
        """End `step` soon, asleep or not, or the next one. From any thread or signal handler."""
        self.interrupt()
        os.eventfd_write(self._wake_fd, 1)

    def step(self, until: float | None = None) -> None:
        """Sleep until there is something to do, at most until the time `until`; then do it."""
        latest = time.monotonic() + _LOOK_SECONDS
        if self.pump(latest if until is None else min(until, latest), self._epoll.fileno(), self._wake_fd):
            self.run_due()
            return
        arrived = False
        for fd, _ in self._epoll.poll(self._timeout(until)):
            if fd == self._wake_fd:
                os.eventfd_read(fd)
            else:
                arrived = True
        self.work(arrived)

    def close(self) -> None:
        """Close the wake-up descriptor; the transport stays open."""
        self._epoll.close()
        os.close(self._wake_fd)

    def _timeout(self, until: float | None) -> float | None:
        due = self.next_deadline()
        nearest = until if due is None else due if until is None else min(due, until)
        return None if nearest is None else max(0.0, nearest - time.monotonic())
