"""What runs a communicator: pulls cells from operations in call order, delivers their results.

Two kinds of threads work here, one at a time, under `_lock`. A caller that waits for its collective serves the sockets
itself (`serve`): no switch of threads lies between a packet and the caller. When nobody waits, the background thread
does: for asynchronous collectives, for what others need of an idle rank, and for timers. Which of them sleeps on the
sockets is a matter of speed alone; all state changes under the lock, whoever sleeps where.

The cells of a caller's own array go by `Line.stream`, where there is one: compiled code that sleeps and works for a
slice of time under the lock. Who wants the lock meanwhile says so (`_turn`), and the caller lets it have it.

Nothing is written to a caller's array after `fail` has returned, for results are taken under the lock. A signal
handler of a caller that is at work gets through it (it is reentrant), so `fail` may come at any place there; what goes
on behind it finds no collective any more. One that raises, as KeyboardInterrupt, between two steps of the work ends the
communicator, since what was half done cannot be told; while the caller sleeps, which is nearly always, it ends the
waiting only.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from epic_host.handle import Handle
from epic_host.line import Line, Outlet, make_line
from epic_host.missing import Asker
from epic_host.sleeper import Sleeper
from epic_host.stall import StallWatch
from epic_host.transport import Transport
from epic_models.reference.collectives import Operation, describe_mismatch
from epic_models.reference.diagnosis import Diagnosis
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Event,
    Stalled,
)
from epic_spec.errors import AbortedError, EpicError, MismatchError, PeerLostError

log = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 5.0
_TICK: Final = 0.001
# A caller that serves looks around at least so often. One that has not for much longer is not there any more (an
# exception may come anywhere): the background thread serves again.
_LOOK_SECONDS: Final = 1.0
_GONE_SECONDS: Final = 3.0
# How long a caller leaves the lock to others that want it, before it looks whether they still do.
_GIVE_WAY_SECONDS: Final = 50e-6


@dataclass(slots=True)
class _Started:
    """A collective, its way into the line, and the handle that its caller has."""

    operation: Operation
    outlet: Outlet
    handle: Handle


class Runtime:
    """Drives `agent` over `transport` until `close`. `deadline` in seconds without progress fails it.

    `asker` knows who is missing then.
    """

    def __init__(self, agent: Agent, transport: Transport, asker: Asker, deadline: float, rank: int) -> None:
        self._transport = transport
        self._asker = asker
        self._line = self._make_line(agent)
        self._watch = StallWatch(asker, deadline)
        self._lock = threading.RLock()
        self._until: float | None = None
        self._failure: EpicError | None = None
        self._closing = False
        # Not all cells pulled; all that are not finished, in call order. The first is in both.
        self._pulling: deque[_Started] = deque()
        self._active: deque[_Started] = deque()
        self._poison: Cell | None = None
        self._results = 0
        # There is more to contribute than the last step did.
        self._more = False
        # The last step slept and worked by `Line.stream`. The other threads that want the lock.
        self._streamed = False
        self._waiting: set[int] = set()
        # Where the background thread sleeps and when it wakes; where a caller sleeps and when one looked last.
        self._behind = Sleeper(transport.filenos())
        self._planned = math.inf
        self._front = Sleeper(transport.filenos())
        self._server: int | None = None
        self._looked = 0.0
        self._thread = threading.Thread(target=self._run, name=f"epic rank {rank}", daemon=True)

    def _make_line(self, agent: Agent) -> Line:
        return make_line(agent, self._transport, self._handle)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def failure(self) -> EpicError | None:
        """What ended the communicator, or None."""
        return self._failure

    # ---------------------------------------------------------------------- for callers, from any thread

    def start(self, operation: Operation, handle: Handle, waits: bool = False) -> None:
        """Begin a collective. `waits`: the caller calls `serve` at once, or else `waits_no_more`.

        Raises the failure when there is one.
        """
        with self._turn():
            if waits and self._server is None and not self._closing:
                # Before anything is sent, so that its result wakes nobody else.
                self._sit_down()
            self._start(operation, handle)
            if self._server != threading.get_ident():
                self._see_to_it()

    def serve(self, handle: Handle, until: float | None) -> None:
        """Work in this thread until a collective has ended, or until a time; not when another caller does already."""
        try:
            with self._turn():
                if self._server is None and not self._closing and not handle.done():
                    self._sit_down()
            if self._server == threading.get_ident():
                self._serve(handle, until)
        finally:
            self.waits_no_more()

    def waits_no_more(self) -> None:
        """This thread does not serve any more, if it did."""
        if self._server == threading.get_ident():
            with self._lock:
                self._get_up()

    def fail(self, error: EpicError) -> None:
        """End all collectives, now and later, with `error`; the first one stays. From any thread."""
        with self._turn():
            self._fail(error)
            if not self._closing:
                self._front.wake()

    def close(self) -> None:
        """End everything and the thread. Collectives that are not finished get AbortedError."""
        with self._turn():
            if self._closing:
                return
            self._fail(AbortedError("the communicator was closed"))
            self._closing = True
            self._behind.wake()
            self._front.wake()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)
        until = time.monotonic() + _JOIN_SECONDS
        while self._server not in (None, threading.get_ident()) and time.monotonic() < until:
            time.sleep(_TICK)
        self._behind.close()
        self._front.close()
        self._transport.close()

    # ---------------------------------------------------------------------- who works

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The lock, soon, though a caller may be at work under it."""
        if not self._lock.acquire(blocking=False):
            me = threading.get_ident()
            self._waiting.add(me)
            try:
                self._line.interrupt()
                if not self._closing:
                    self._front.wake()
                self._lock.acquire()
            finally:
                self._waiting.discard(me)
        try:
            yield
        finally:
            self._lock.release()

    def _give_way(self) -> None:
        """Let other threads have the lock that want it; a lock goes to whoever comes, not to who waited longest."""
        until = time.monotonic() + _TICK
        while self._waiting and time.monotonic() < until:
            time.sleep(_GIVE_WAY_SECONDS)

    def _run(self) -> None:
        """The background thread."""
        wake = math.inf
        while True:
            self._behind.sleep(None if wake == math.inf else wake)
            with self._turn():
                if self._closing:
                    return
                now = time.monotonic()
                if self._server is not None and now < self._looked + _GONE_SECONDS:
                    wake = self._looked + _GONE_SECONDS
                else:
                    if self._server is not None:
                        self._server = None
                        self._behind.watch()
                    if not self._work():
                        return
                    wake = self._wake_time()
                self._planned = wake

    def _sit_down(self) -> None:
        """This thread serves from now on."""
        self._server = threading.get_ident()
        self._looked = time.monotonic()
        self._behind.ignore()

    def _serve(self, handle: Handle, until: float | None) -> None:
        """Sleep and work."""
        lock, latest = self._lock, math.inf if until is None else until
        try:
            with lock:
                wake = self._wake_time()
            self._streamed = False
            while not handle.done():
                latest_look = min(self._looked + _LOOK_SECONDS, latest)
                if not self._streamed:
                    self._front.sleep(min(wake, latest_look))
                self._give_way()
                with lock:
                    if self._closing:
                        return
                    self._work(latest_look)
                    self._looked = now = time.monotonic()
                    if handle.done() or now >= latest:
                        return
                    wake = self._wake_time()
        except (OSError, ValueError):
            # A signal handler may have closed what this thread sleeps on.
            if not self._closing:
                raise

    def _get_up(self) -> None:
        """Another thread may serve."""
        self._server = None
        if not self._closing:
            self._behind.watch()
            self._see_to_it()

    def _see_to_it(self) -> None:
        """See to it that somebody wakes in time for what is to be done next."""
        if self._server is not None:
            if self._more:
                self._front.wake()
        elif self._wake_time() < self._planned:
            self._behind.wake()

    def _wake_time(self) -> float:
        """When `_work` has something to do though nothing arrives."""
        if self._more:
            return 0.0
        due = self._line.next_deadline()
        if self._active:
            watched = self._watch_time()
            if watched is not None and (due is None or watched < due):
                return watched
        return math.inf if due is None else due

    # ---------------------------------------------------------------------- the work, under the lock

    def _start(self, operation: Operation, handle: Handle) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if not self._active:
            self._watch.progress(time.monotonic())
        started = _Started(operation, self._line.outlet(operation), handle)
        self._pulling.append(started)
        self._active.append(started)
        if len(self._pulling) == 1:
            self._guarded(self._fill)

    def _work(self, until: float | None = None) -> bool:
        """What has arrived, what is due, and what can be contributed then. False after an error that has no name.

        With `until` it may sleep where callers do, for a moment, until that time at most.
        """
        self._until = until
        return self._guarded(self._step)

    def _step(self) -> None:
        self._streamed = self._until is not None and self._stream(self._until)
        if not self._streamed:
            self._line.work()
        self._take_landed()
        if self._pulling or self._poison is not None:
            self._fill()
        if self._active:
            self._judge(time.monotonic())

    def _stream(self, until: float) -> bool:
        """Sleep and work in the line, where the only collective under way lets it."""
        if not self._pulling or self._poison is not None or self._pulling[0] is not self._active[0]:
            return False
        watched = self._watch_time()
        return self._line.stream(
            self._pulling[0].outlet, self._front, until if watched is None else min(until, watched)
        )

    def _guarded(self, step: Callable[[], None]) -> bool:
        """Do a step; whatever it raises ends the communicator. False when that is no error of EPIC's own."""
        try:
            step()
        except Exception as error:
            if self._failure is None or not isinstance(self._failure, AbortedError):
                log.exception("communicator")
            self._fail(EpicError(f"the communicator's thread ended: {error!r}"))
            return False
        except BaseException as error:
            self._fail(AbortedError(f"the communicator was interrupted at work: {error!r}"))
            raise
        finally:
            if self._failure is not None:
                # A signal handler's `fail` may have come before the step contributed: that must not land either.
                self._line.forget()
        return True

    def _fail(self, error: EpicError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._line.forget()
        self._watch.forget()
        for started in self._active:
            started.handle._end(error)
        self._active.clear()
        self._pulling.clear()
        self._more = False

    # ---------------------------------------------------------------------- cells out

    def _fill(self) -> None:
        """Contribute what the window takes; `_more` says whether there is more at once."""
        line, pulling = self._line, self._pulling
        left = line.batch
        if self._poison is not None and line.room():
            cell, self._poison = self._poison, None
            line.submit([cell])
        while pulling and left > 0 and (room := line.room()):
            started = pulling[0]
            count = line.contribute(started.outlet, min(room, left))
            left -= count
            if started.operation.pulled_all:
                pulling.popleft()
            elif not count:
                # Its next cells depend on results that are not here yet.
                break
        line.flush()
        self._more = left <= 0 and bool(pulling) and line.room() > 0

    # ---------------------------------------------------------------------- results in

    def _handle(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._failure is not None:
                return
            if isinstance(event, CellDelivered):
                self._landed(event.cell)
                self._deliver(event)
            elif isinstance(event, CellFailed):
                self._landed(event.cell)
                self._results += 1
                if self._active:
                    description = self._active[0].operation.description
                    line = describe_mismatch(description, event.sent, event.held, event.record)
                    self._fail(MismatchError(line))
            elif isinstance(event, Stalled):
                if self._active:
                    self._watch.stalled(event, time.monotonic())
            else:
                self._edge_failed(event)

    def _take_landed(self) -> None:
        if self._failure is None and self._line.delivered > self._results:
            self._landed(self._line.delivered)

    def _landed(self, end: int) -> None:
        """Results up to number `end` are where they belong."""
        count = end - self._results
        if count <= 0:
            return
        self._progress()
        while count and self._active:
            started = self._active[0]
            operation = started.operation
            some = max(1, min(count, operation.cells_pulled - operation.cells_delivered))
            try:
                started.outlet.landed(some)
            except MismatchError as error:
                self._disagreed(started, error)
                return
            count -= some
            self._results += some
            self._end_if_done(started)

    def _deliver(self, event: CellDelivered) -> None:
        self._progress()
        started = self._active[0]
        self._results += 1
        try:
            started.outlet.deliver(event.payload)
        except MismatchError as error:
            self._disagreed(started, error)
            return
        self._end_if_done(started)

    def _progress(self) -> None:
        self._watch.progress(time.monotonic())

    def _end_if_done(self, started: _Started) -> None:
        if started.operation.finished and self._active:
            self._active.popleft()
            started.handle._end()

    def _disagreed(self, started: _Started, error: MismatchError) -> None:
        self._poison = started.operation.poison()
        self._fail(error)

    # ---------------------------------------------------------------------- who is missing

    def _edge_failed(self, event: EdgeFailed) -> None:
        error = self._asker.edge_failed(event)
        if error is not None:
            self._fail(error)

    def _judge(self, now: float) -> None:
        """Prepare for, and say, that somebody is missing."""
        found = self._watch.verdict(self._results, now)
        if found is not None:
            self._fail(self._lost(found, now - self._watch.since))

    def _lost(self, found: Diagnosis, seconds: float) -> PeerLostError:
        what = f"{self._active[0].operation.description}: no result for {seconds:.1f} s"
        return PeerLostError(f"{what}, {found.text}", found.ranks, found.edges)

    def _watch_time(self) -> float | None:
        """When `_judge` has something to do."""
        return self._watch.wake_time()
