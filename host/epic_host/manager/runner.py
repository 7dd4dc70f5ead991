"""Runs the core: in the thread of one event loop, with a clock, its timer, its engine calls and its events.

The core is what is true, and the store is what it remembers it by. So when the store fails (disk full, file gone)
there is nothing to go on with: the runner stops, and a new process begins from what was written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from epic_host.manager import errors
from epic_host.manager.calls import EngineCalls, OpenDriver
from epic_host.manager.core import Core
from epic_host.manager.effects import Answered, EngineCall, Outcome, Verdict
from epic_host.manager.errors import refused
from epic_host.manager.store import StoreError
from epic_host.manager.watch import Watchers
from epic_spec.errors import EpicError

T = TypeVar("T")

log = logging.getLogger(__name__)

# The longest that a timer sleeps: the wall clock may be set meanwhile.
_LONGEST_SLEEP: Final = 60.0
# How long the core is left alone after a poll at the least, should it want to be called at once again and again.
_SHORTEST_SLEEP: Final = 0.001
# Verdicts kept for those who have not asked for them yet.
_ANSWERS: Final = 256


class Runner:
    """Owns a core. All methods but `from_thread` are for the event loop's thread."""

    def __init__(self, core: Core, watchers: Watchers, opened: OpenDriver, engine_calls: int) -> None:
        self.core = core
        self.watchers = watchers
        self.calls = EngineCalls(opened, self._call_ended, engine_calls)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tickets: dict[int, asyncio.Future[Verdict]] = {}
        self._answers: OrderedDict[int, Verdict] = OrderedDict()
        self._stopping = False
        # What ended the runner, when the core cannot go on.
        self.failure: asyncio.Future[BaseException] = self._loop.create_future()

    @staticmethod
    def now() -> float:
        """The core's time, in seconds: one that never goes back."""
        return time.monotonic()

    def start(self) -> None:
        """Begin: what the core wants to do first."""
        self.run(lambda now: self.core.poll(now))

    def run(self, work: Callable[[float], T]) -> T:
        """The outcome of `work`, called with the time, and all that it causes begun.

        Raises what `work` raises; RefusedError (`stopping`) at the end of the runner.
        """
        if self._stopping:
            raise refused(errors.STOPPING, "manager: is shutting down, expected one that runs")
        try:
            return work(self.now())
        except StoreError as error:
            self._fail(error)
            raise refused(errors.STOPPING, "manager: its store failed, it is shutting down") from None
        finally:
            self._settle()

    def from_thread(self, work: Callable[[float], T], timeout: float) -> T:
        """`run`, from another thread. Raises TimeoutError after `timeout` seconds."""

        async def ran() -> T:
            return self.run(work)

        future = asyncio.run_coroutine_threadsafe(ran(), self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    async def verdict(self, ticket: int, timeout: float) -> Verdict:
        """The answer to a fault report that the core looks into.

        Raises RefusedError (`busy`) after `timeout` seconds.
        """
        if (known := self._answers.pop(ticket, None)) is not None:
            return known
        future = self._tickets[ticket] = self._loop.create_future()
        try:
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise refused(errors.BUSY, f"manager: no verdict within {timeout:g} s, ask again") from None
        finally:
            del self._tickets[ticket]

    async def stop(self) -> None:
        """Make no more calls, run nothing more; calls that are on their way end."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        await self.calls.close()

    def _fail(self, error: BaseException) -> None:
        """The core cannot go on; whoever waits for `failure` says so."""
        self._stopping = True
        if not self.failure.done():
            self.failure.set_result(error)

    def _settle(self) -> None:
        """Begin the calls, hand out the events, set the timer."""
        if self._stopping:
            return
        for call in self.core.take_calls():
            self.calls.start(call)
        for event in self.core.take_events():
            if isinstance(event, Answered):
                self._answer(event)
            else:
                self.watchers.publish(event)
        self._set_timer()

    def _answer(self, event: Answered) -> None:
        future = self._tickets.get(event.ticket)
        if future is None:
            # Before whoever reported could ask for it, or too late.
            self._answers[event.ticket] = event.verdict
            if len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)
        elif not future.done():
            future.set_result(event.verdict)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.core.next_deadline()
        wait = _LONGEST_SLEEP if deadline is None else min(deadline - self.now(), _LONGEST_SLEEP)
        self._timer = self._loop.call_later(max(wait, _SHORTEST_SLEEP), self._poll)

    def _poll(self) -> None:
        self._guarded(lambda now: self.core.poll(now))

    def _call_ended(self, call: EngineCall, outcome: Outcome) -> None:
        self._guarded(lambda now: self.core.engine_done(call, outcome, now))

    def _guarded(self, work: Callable[[float], Any]) -> None:
        """Of the core's own doings nobody waits for the error: what it cannot do ends the runner."""
        if self._stopping:
            return
        try:
            self.run(work)
        except EpicError as error:
            if not self._stopping:
                self._fail(error)
        except Exception as error:
            # A fault of the manager's own: what it was stands in the log.
            log.exception("manager: the core failed")
            self._fail(error)
