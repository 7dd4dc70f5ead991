"""The time without a result, and what follows from it: an early warning, a question who is missing, a verdict."""

from __future__ import annotations

from typing import Final

from epic_host.missing import Asker, Inquiry
from epic_models.reference.diagnosis import Diagnosis
from epic_models.reference.interfaces import Stalled

# Parts of the deadline without progress after which we warn whom we may have to ask, and say who is missing.
_EARLY: Final = 0.3
_VERDICT: Final = 0.95
_LEAST_ASKING: Final = 0.05


class StallWatch:
    """Watches one rank's results while it waits for any. Times are those of `time.monotonic`.

    `deadline` in seconds without progress ends everything; `asker` knows who is missing then. `since` is when there
    was progress last.
    """

    def __init__(self, asker: Asker, deadline: float) -> None:
        self.deadline = deadline
        self.since = 0.0
        self._asker = asker
        self._inquiry: Inquiry | None = None
        # Whether the asker was warned since then.
        self._warned = False

    def progress(self, now: float) -> None:
        """There was a result, or there is something to wait for again."""
        self.since = now
        self._warned = False
        if self._inquiry is not None:
            self.forget()

    def forget(self) -> None:
        """What was asked is of no use any more."""
        if self._inquiry is not None:
            self._inquiry.cancel()
            self._inquiry = None

    def stalled(self, event: Stalled, now: float) -> None:
        """The agent has waited for long: find out why."""
        if self._inquiry is None:
            # Where this process was stopped and the time is over already, there is a moment still to ask in.
            needed = max(now - event.seconds + self.deadline * _VERDICT, now + self.deadline * _LEAST_ASKING)
            self._inquiry = self._asker.inquire(event.cell, needed)

    def verdict(self, results: int, now: float) -> Diagnosis | None:
        """Who is missing, when it is time to say that; `results` so far. None: there is reason to wait on."""
        if not self._warned and now - self.since >= self.deadline * _EARLY:
            self._warned = True
            self._asker.early(results, now - self.since)
        inquiry = self._inquiry
        if inquiry is None or now < inquiry.needed:
            return None
        found = inquiry.answer()
        if found is None and inquiry.needed <= now:
            self.forget()
        return found

    def wake_time(self) -> float | None:
        """When `verdict` has something to do."""
        if self._inquiry is not None:
            return self._inquiry.needed
        return None if self._warned else self.since + self.deadline * _EARLY
