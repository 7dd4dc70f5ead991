"""The background thread of a communicator: pulls cells from operations in call order, delivers their results.

The state below `_lock` is shared with the callers. The thread holds the lock while it writes results, so that
nothing is written to a caller's array after `fail` has returned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from epic_host.driver import Driver
from epic_host.handle import Handle
from epic_host.missing import Asker, Inquiry
from epic_host.transport import Transport
from epic_models.reference.collectives import Operation, describe_mismatch
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Event,
    Output,
    Stalled,
)
from epic_spec.errors import AbortedError, EpicError, MismatchError, PeerLostError

log = logging.getLogger(__name__)

# Cells taken before the sockets get their turn again.
_BATCH: Final = 64
# Parts of the deadline without progress after which we warn whom we may have to ask, and say who is missing.
_EARLY: Final = 0.3
_VERDICT: Final = 0.95
_LEAST_ASKING: Final = 0.05
_JOIN_SECONDS: Final = 5.0


@dataclass(slots=True)
class _Started:
    """A collective and the handle that its caller has."""

    operation: Operation
    handle: Handle


class Runtime:
    """Drives `agent` over `transport` until `close`. `deadline` in seconds without progress fails it.

    `asker` knows who is missing then.
    """

    def __init__(self, agent: Agent, transport: Transport, asker: Asker, deadline: float, rank: int) -> None:
        self._agent = agent
        self._transport = transport
        self._asker = asker
        self._deadline = deadline
        self._driver = Driver(agent, transport, self._on_events)
        self._lock = threading.Lock()
        self._failure: EpicError | None = None
        self._closing = False
        # Not all cells pulled; all that are not finished, in call order. The first is in both.
        self._pulling: deque[_Started] = deque()
        self._active: deque[_Started] = deque()
        self._poison: Cell | None = None
        self._inquiry: Inquiry | None = None
        self._progress = 0.0
        # Results so far, and how many there were at the last early warning.
        self._results = 0
        self._warned = -1
        self._thread = threading.Thread(target=self._run, name=f"epic rank {rank}", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def failure(self) -> EpicError | None:
        """What ended the communicator, or None."""
        return self._failure

    def start(self, operation: Operation, handle: Handle) -> None:
        """Queue a collective. Raises the failure when there is one."""
        with self._lock:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if not self._active:
                self._progress = time.monotonic()
            started = _Started(operation, handle)
            self._pulling.append(started)
            self._active.append(started)
        self._driver.wake()

    def fail(self, error: EpicError) -> None:
        """End all collectives, now and later, with `error`; the first one stays. From any thread."""
        with self._lock:
            self._fail(error)

    def close(self) -> None:
        """End everything and the thread. Collectives that are not finished get AbortedError."""
        self.fail(AbortedError("the communicator was closed"))
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._driver.wake()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)
        self._driver.close()
        self._transport.close()

    def _fail(self, error: EpicError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._drop_inquiry()
        for started in self._active:
            started.handle._end(error)
        self._active.clear()
        self._pulling.clear()

    def _run(self) -> None:
        try:
            more = False
            while not self._closing:
                self._driver.step(time.monotonic() if more else self._wake_time())
                self._between_steps()
                with self._lock:
                    more = self._fill()
                    self._watch(time.monotonic())
        except Exception as error:
            log.exception("communicator thread")
            self.fail(EpicError(f"the communicator's thread ended: {error!r}"))

    def _between_steps(self) -> None:
        """What others want done in this thread."""

    # ---------------------------------------------------------------------- cells out, results in

    def _fill(self) -> bool:
        """Contribute what the window takes. True when there is more to contribute at once."""
        if self._poison is not None and self._agent.room():
            cell, self._poison = self._poison, None
            self._submit([cell])
        room = min(self._agent.room(), _BATCH)
        cells: list[Cell] = []
        while self._pulling and len(cells) < room:
            operation = self._pulling[0].operation
            cell_or_none = operation.pull()
            if cell_or_none is not None:
                cells.append(cell_or_none)
            if operation.pulled_all:
                self._pulling.popleft()
            elif cell_or_none is None:
                # Its next cells depend on results that are not here yet.
                break
        if cells:
            self._submit(cells)
        return len(cells) == _BATCH

    def _submit(self, cells: list[Cell]) -> None:
        now = time.monotonic()
        self._put(self._agent.submit(cells, now), now)

    def _put(self, output: Output, now: float) -> None:
        """Send and handle what a call of the agent caused."""
        # The lock is held here, so the driver must not be the one to hand on the events.
        events, output.events = output.events, []
        self._driver.put(output, now)
        self._handle(events)

    def _on_events(self, events: Sequence[Event]) -> None:
        with self._lock:
            self._handle(events)

    def _handle(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._failure is not None:
                return
            if isinstance(event, CellDelivered):
                self._deliver(event)
            elif isinstance(event, CellFailed):
                description = self._active[0].operation.description
                line = describe_mismatch(description, event.sent, event.held, event.record)
                self._fail(MismatchError(line))
            elif isinstance(event, Stalled):
                self._stalled(event)
            else:
                self._edge_failed(event)

    def _deliver(self, event: CellDelivered) -> None:
        self._progress = time.monotonic()
        self._results += 1
        self._drop_inquiry()
        started = self._active[0]
        try:
            started.operation.deliver(event.payload)
        except MismatchError as error:
            self._poison = started.operation.poison()
            self._fail(error)
            return
        if started.operation.finished:
            self._active.popleft()
            started.handle._end()

    # ---------------------------------------------------------------------- who is missing

    def _stalled(self, event: Stalled) -> None:
        if self._inquiry is None and self._active:
            now = time.monotonic()
            # Where this process was stopped and the time is over already, there is a moment still to ask in.
            needed = max(
                now - event.seconds + self._deadline * _VERDICT, now + self._deadline * _LEAST_ASKING
            )
            self._inquiry = self._asker.inquire(event.cell, needed)

    def _edge_failed(self, event: EdgeFailed) -> None:
        error = self._asker.edge_failed(event)
        if error is not None:
            self._fail(error)

    def _drop_inquiry(self) -> None:
        if self._inquiry is not None:
            self._inquiry.cancel()
            self._inquiry = None

    def _watch(self, now: float) -> None:
        """Prepare for, and say, that somebody is missing."""
        if not self._active:
            return
        if self._warned != self._results and now - self._progress >= self._deadline * _EARLY:
            self._warned = self._results
            self._asker.early(self._results, now - self._progress)
        inquiry = self._inquiry
        if inquiry is not None and now >= inquiry.needed:
            found = inquiry.answer()
            if found is None:
                if inquiry.needed <= now:
                    self._drop_inquiry()
                return
            what = f"{self._active[0].operation.description}: no result for {now - self._progress:.1f} s"
            self._fail(PeerLostError(f"{what}, {found.text}", found.ranks, found.edges))

    def _wake_time(self) -> float | None:
        """When `_watch` has something to do."""
        if not self._active:
            return None
        if self._inquiry is not None:
            return self._inquiry.needed
        return None if self._warned == self._results else self._progress + self._deadline * _EARLY
