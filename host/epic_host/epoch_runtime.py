"""The runtime of a rank whose path is the manager's to choose: collectives go on over changes of epoch.

No wait is without a bound. While there is a path the group's deadline counts as ever, from where the epoch resumed;
and over all epochs, and the time between them, no result for the deadline and `patience` more fails the collectives.
"""

from __future__ import annotations

import math
import time

from epic_host.epoch_agent import EpochAgent
from epic_host.epoch_line import EpochLine
from epic_host.handle import Handle
from epic_host.line import Line
from epic_host.missing import Asker
from epic_host.runtime import Runtime
from epic_host.transport import Transport
from epic_models.reference.interfaces import Agent
from epic_models.reference.operation import Operation
from epic_spec.errors import AbortedError, PeerLostError


class EpochRuntime(Runtime):
    """A runtime with an EpochAgent. `prepare` and `resume` are the manager's, from any thread."""

    def __init__(self, transport: Transport, asker: Asker, patience: float, rank: int) -> None:
        self.epochs = EpochAgent()
        self._epoch_line: EpochLine
        # The deadline is the group's, and known with its first grant.
        super().__init__(self.epochs, transport, asker, math.inf, rank)
        self._patience = patience
        self._waiting_since = 0.0

    def _make_line(self, agent: Agent) -> Line:
        self._epoch_line = EpochLine(self.epochs, self._transport, self._handle)
        return self._epoch_line

    # ---------------------------------------------------------------------- changes of epoch

    def prepare(self, epoch: int) -> int | None:
        """As EpochAgent.prepare. Raises AbortedError after `close`."""
        with self._turn():
            self._open()
            delivered = self.epochs.prepare(epoch)
            if delivered is not None:
                self._epoch_line.leave()
                # What was asked about the path that was is of no use any more.
                self._watch.forget()
                self._look_again()
            return delivered

    def resume(self, epoch: int, agent: Agent, base: int, window: int, deadline: float) -> None:
        """As EpochAgent.resume. `deadline` in seconds. Raises AbortedError after `close`, EpicError."""
        with self._turn():
            self._open()
            self._watch.deadline = deadline
            self._epoch_line.resume(epoch, agent, base, window)
            self._watch.progress(time.monotonic())
            self._guarded(self._fill)
            self._look_again()

    def _open(self) -> None:
        if self._closing:
            raise AbortedError("the communicator was closed")

    def _look_again(self) -> None:
        """Whoever sleeps does not know until when."""
        self._front.wake()
        self._behind.wake()

    # ---------------------------------------------------------------------- the bound of all waits

    def _start(self, operation: Operation, handle: Handle) -> None:
        if not self._active:
            self._waiting_since = time.monotonic()
        super()._start(operation, handle)

    def _progress(self) -> None:
        self._waiting_since = time.monotonic()
        super()._progress()

    def _judge(self, now: float) -> None:
        if now >= self._limit():
            what = f"{self._active[0].operation.description}: no result for {now - self._waiting_since:.1f} s"
            state = "no path" if self.epochs.agent is None else "a path without progress"
            self._fail(
                PeerLostError(f"{what}, cell {self.epochs.delivered}, epoch {self.epochs.epoch}: {state}")
            )
        elif self.epochs.agent is not None:
            super()._judge(now)

    def _watch_time(self) -> float | None:
        own = super()._watch_time() if self.epochs.agent is not None else None
        return self._limit() if own is None else min(own, self._limit())

    def _limit(self) -> float:
        """When the collectives fail whatever the manager does."""
        deadline = 0.0 if self._watch.deadline == math.inf else self._watch.deadline
        return self._waiting_since + deadline + self._patience
