"""Calls to engines on their way: one at a time for each purpose, given up after a time, made again after a while."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from epic_host.manager.effects import CallKind, EngineCall
from epic_models.reference.group import EngineGroup

# What a call is for: engine, kind, number, epoch.
Purpose = tuple[str, CallKind, int, int]


@dataclass(slots=True)
class _Try:
    """The last call for a purpose. `until`: when it is given up; `again`: before it no other one is made."""

    id: int
    until: float | None
    again: float


class Outbox:
    """Makes calls and remembers which are out. `timeout` and `pause` (before the next try) in seconds."""

    def __init__(self, timeout: float, pause: float) -> None:
        self._timeout = timeout
        self._pause = pause
        self._ids = itertools.count(1)
        self._tries: dict[Purpose, _Try] = {}
        self.calls: list[EngineCall] = []

    @property
    def newest(self) -> int:
        """The id of the newest call: what is seen by a call with a larger one happened after now."""
        return next(self._ids)

    def make(
        self,
        purpose: Purpose,
        control: str,
        now: float,
        *,
        entry: EngineGroup | None = None,
        instance: str = "",
    ) -> bool:
        """Make a call for this purpose, unless one is out or the last one was too short a time ago."""
        last = self._tries.get(purpose)
        if last is not None and ((last.until is not None and now < last.until) or now < last.again):
            return False
        call_id = next(self._ids)
        self._tries[purpose] = _Try(call_id, now + self._timeout, now + self._pause)
        engine, kind, number, epoch = purpose
        self.calls.append(
            EngineCall(call_id, engine, control, kind, self._timeout, number, epoch, instance, entry)
        )
        return True

    def done(self, call: EngineCall) -> None:
        """An answer came."""
        last = self._tries.get((call.engine, call.kind, call.number, call.epoch))
        if last is not None and last.id == call.id:
            last.until = None

    def expired(self, purpose: Purpose, now: float) -> bool:
        """Whether the call that is out has had its time; it is out no more then."""
        last = self._tries.get(purpose)
        if last is None or last.until is None or now < last.until:
            return False
        last.until = None
        return True

    def forget(self, purpose: Purpose) -> None:
        """There is nothing to call for any more."""
        self._tries.pop(purpose, None)

    def when(self, purpose: Purpose) -> float:
        """When a call for this purpose may be made; minus infinity: at once."""
        last = self._tries.get(purpose)
        if last is None:
            return float("-inf")
        return max(last.again, last.until if last.until is not None else last.again)

    def __len__(self) -> int:
        return len(self._tries)
