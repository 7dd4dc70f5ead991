"""The event loop that every node has: a sans-I/O agent or engine, a transport, and one thread.

Time is `time.monotonic`. The loop sleeps until a socket is readable, a timer is due or another thread wakes
it.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from epic_host.transport import Transport
from epic_host.transport.base import BATCH
from epic_models.reference.interfaces import Event, Output
from epic_spec.packets import Packet

# Batches received before the timers and the other threads' requests get their turn.
_BATCHES: Final = 8


class Node(Protocol):
    """What the loop needs of an agent or engine."""

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`."""

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""


class Loop:
    """What is done over and over for `node` and `transport`; whoever calls `work` does the sleeping.

    `on_events` gets the node's events, in order, in the thread that calls.
    """

    def __init__(
        self, node: Node, transport: Transport, on_events: Callable[[Sequence[Event]], None]
    ) -> None:
        self._node = node
        self._transport = transport
        self._on_events = on_events

    def work(self) -> None:
        """Take what has arrived and run the timers that are due. Nothing here waits."""
        self._receive()
        now = time.monotonic()
        due = self._node.next_deadline()
        if due is not None and due <= now:
            self.put(self._node.poll(now), now)
        due = self._transport.next_deadline()
        if due is not None and due <= now:
            self._transport.poll(now)

    def next_deadline(self) -> float | None:
        """When `work` wants to be called next though nothing has arrived, or None."""
        node, transport = self._node.next_deadline(), self._transport.next_deadline()
        return node if transport is None else transport if node is None else min(node, transport)

    def put(self, output: Output, now: float) -> None:
        """Send what a call of the node caused, and hand on its events."""
        send = self._transport.send
        for port, packet in output.sends:
            send(port, packet, now)
        if output.events:
            self._on_events(output.events)

    def _receive(self) -> None:
        receive, put = self._node.receive, self.put
        # What waits in the sockets goes before the timers: it may be what they wait for. But not for ever.
        for _ in range(_BATCHES):
            now = time.monotonic()
            arrived = self._transport.receive(now)
            for port, packet in arrived:
                output = receive(port, packet, now)
                if output.sends or output.events:
                    put(output, now)
            if len(arrived) < BATCH:
                return


class Driver(Loop):
    """Drives `node` over `transport`, sleeping between."""

    def __init__(
        self, node: Node, transport: Transport, on_events: Callable[[Sequence[Event]], None]
    ) -> None:
        super().__init__(node, transport, on_events)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_fd, selectors.EVENT_READ)
        for fd in transport.filenos():
            self._selector.register(fd, selectors.EVENT_READ)

    def wake(self) -> None:
        """End the sleep of `step`, the next one if it is not asleep. From any thread or signal handler."""
        os.eventfd_write(self._wake_fd, 1)

    def step(self, until: float | None = None) -> None:
        """Sleep until there is something to do, at most until the time `until`; then do it."""
        ready = self._selector.select(self._timeout(until))
        if any(key.fd == self._wake_fd for key, _ in ready):
            os.eventfd_read(self._wake_fd)
        self.work()

    def close(self) -> None:
        """Close the wake-up descriptor; the transport stays open."""
        self._selector.close()
        os.close(self._wake_fd)

    def _timeout(self, until: float | None) -> float | None:
        nearest = min((d for d in (until, self.next_deadline()) if d is not None), default=None)
        return None if nearest is None else max(0.0, nearest - time.monotonic())
