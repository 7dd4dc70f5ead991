"""The runtime of a rank whose path is the manager's to choose: collectives go on over changes of epoch.

No wait is without a bound. While there is a path the group's deadline counts as ever, from where the epoch resumed;
and over all epochs, and the time between them, no result for the deadline and `patience` more fails the collectives.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from epic_host.epoch_agent import EpochAgent
from epic_host.handle import Handle
from epic_host.missing import Asker
from epic_host.runtime import Runtime
from epic_host.transport import Transport
from epic_models.reference.interfaces import Agent, CellDelivered
from epic_models.reference.operation import Operation
from epic_spec.errors import AbortedError, EpicError, PeerLostError

T = TypeVar("T")

# What a call from another thread waits for the loop, which never works for long.
CALL_SECONDS: Final = 5.0


class EpochRuntime(Runtime):
    """A runtime with an EpochAgent. `prepare` and `resume` are the manager's, from any thread."""

    def __init__(self, transport: Transport, asker: Asker, patience: float, rank: int) -> None:
        self.epochs = EpochAgent()
        # The deadline is the group's, and known with its first grant.
        super().__init__(self.epochs, transport, asker, float("inf"), rank)
        self._patience = patience
        self._waiting_since = 0.0
        self._requests: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def prepare(self, epoch: int) -> int | None:
        """As EpochAgent.prepare, in the loop's thread. Raises AbortedError after `close`."""
        return self._call(lambda: self._prepare(epoch))

    def resume(self, epoch: int, agent: Agent, base: int, window: int, deadline: float) -> None:
        """As EpochAgent.resume, in the loop's thread. `deadline` in seconds. Raises AbortedError after `close`."""
        self._call(lambda: self._resume(epoch, agent, base, window, deadline))

    def start(self, operation: Operation, handle: Handle) -> None:
        """Queue a collective. Raises the failure when there is one."""
        if not self._active:
            self._waiting_since = time.monotonic()
        super().start(operation, handle)

    def close(self) -> None:
        """End everything and the thread. Collectives that are not finished get AbortedError."""
        super().close()
        self._refuse()

    # ---------------------------------------------------------------------- in the loop's thread

    def _prepare(self, epoch: int) -> int | None:
        with self._lock:
            delivered = self.epochs.prepare(epoch)
            if delivered is not None:
                # What was asked about the path that was is of no use any more.
                self._drop_inquiry()
            return delivered

    def _resume(self, epoch: int, agent: Agent, base: int, window: int, deadline: float) -> None:
        with self._lock:
            now = time.monotonic()
            self._deadline = deadline
            output = self.epochs.resume(epoch, agent, base, window, now)
            self._progress = now
            self._warned = -1
            self._put(output, now)

    def _deliver(self, event: CellDelivered) -> None:
        self._waiting_since = time.monotonic()
        super()._deliver(event)

    def _watch(self, now: float) -> None:
        if not self._active:
            return
        if now >= self._limit():
            what = f"{self._active[0].operation.description}: no result for {now - self._waiting_since:.1f} s"
            state = "no path" if self.epochs.agent is None else "a path without progress"
            self._fail(
                PeerLostError(f"{what}, cell {self.epochs.delivered}, epoch {self.epochs.epoch}: {state}")
            )
        elif self.epochs.agent is not None:
            super()._watch(now)

    def _wake_time(self) -> float | None:
        if not self._active:
            return None
        own = super()._wake_time() if self.epochs.agent is not None else None
        return self._limit() if own is None else min(own, self._limit())

    def _limit(self) -> float:
        """When the collectives fail whatever the manager does."""
        deadline = 0.0 if self._deadline == float("inf") else self._deadline
        return self._waiting_since + deadline + self._patience

    def _between_steps(self) -> None:
        while self._requests:
            work, future = self._requests.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)

    def _call(self, work: Callable[[], T]) -> T:
        """Run `work` in the loop's thread; its outcome."""
        future: Future[T] = Future()
        # `close` takes the lock before it closes what `wake` uses.
        with self._lock:
            if self._closing:
                raise AbortedError("the communicator was closed")
            self._requests.append((work, future))
            self._driver.wake()
        try:
            return future.result(CALL_SECONDS)
        except TimeoutError:
            future.cancel()
            raise EpicError(f"the communicator's thread did not answer within {CALL_SECONDS:g} s") from None

    def _refuse(self) -> None:
        while self._requests:
            try:
                _, future = self._requests.popleft()
            except IndexError:
                return
            if future.set_running_or_notify_cancel():
                future.set_exception(AbortedError("the communicator was closed"))
