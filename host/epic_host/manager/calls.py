"""Engine calls of the core, made: engines concurrently, one engine's calls one after the other.

A call may be lost (the core makes it again), so nothing here is repeated and what waited too long is dropped. An
engine that does not answer holds up nobody but itself: once a call of it has timed out, those that waited behind it
end with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from epic_host.control import EngineClient, EngineUnreachableError
from epic_host.manager.effects import CallDone, CallFailed, EngineCall, Outcome
from epic_host.security.tls import Tls
from epic_spec.errors import ConfigError, EpicError

log = logging.getLogger(__name__)

UNREACHABLE: Final = "unreachable"


class EngineDriver(Protocol):
    """What the manager asks of an engine, however it is reached; the methods of `EngineClient`."""

    timeout: float

    def installed(self) -> Any:
        """What is installed, and in which process of the engine."""

    def capabilities(self) -> Any:
        """What it offers."""

    def install(self, entry: Any, instance: str = "") -> str:
        """Install a group; the engine's instance."""

    def remove(self, group: int, epoch: int | None = None) -> str:
        """Remove a group; the engine's instance."""

    def status(self, group: int) -> Any:
        """Slots and failed edges of a group."""

    def close(self) -> None:
        """Close the connection."""


OpenDriver = Callable[[str, str, float], EngineDriver]


def grpc_driver(tls: Tls | None) -> OpenDriver:
    """Drivers for engines that serve `epic.v1.Engine`: software, P4 and RTL ones alike."""

    def opened(engine: str, control: str, timeout: float) -> EngineDriver:
        return EngineClient(control, timeout, tls, engine)

    return opened


class EngineCalls:
    """Makes calls on `workers` engines at once; `done` gets each outcome in the event loop's thread."""

    def __init__(
        self, opened: OpenDriver, done: Callable[[EngineCall, Outcome], None], workers: int = 64
    ) -> None:
        self._open = opened
        self._done = done
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="engine")
        self._waiting: dict[str, deque[tuple[EngineCall, float]]] = {}
        self._drivers: dict[str, tuple[str, EngineDriver]] = {}
        self._closed = False
        # Calls by kind and how they ended, "lost" for those that waited too long.
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def start(self, call: EngineCall) -> None:
        """Make a call when the engine's calls before it have ended. In the event loop's thread."""
        if self._closed:
            return
        now = asyncio.get_running_loop().time()
        if (queue := self._waiting.get(call.engine)) is not None:
            queue.append((call, now))
            return
        self._waiting[call.engine] = deque()
        self._submit(call)

    def waiting(self) -> int:
        """Calls that have not begun."""
        return sum(len(queue) for queue in self._waiting.values())

    async def close(self) -> None:
        """Make no more calls; wait for those that run (each ends by its timeout)."""
        self._closed = True
        self._waiting.clear()
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
        for _, driver in self._drivers.values():
            driver.close()

    def _submit(self, call: EngineCall) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, self._make, call)
        future.add_done_callback(lambda ended: self._ended(call, ended))

    def _ended(self, call: EngineCall, future: asyncio.Future[Outcome]) -> None:
        if future.cancelled() or self._closed:
            return
        outcome = future.result()
        failing = [call]
        if isinstance(outcome, CallFailed) and outcome.reason == UNREACHABLE:
            failing += [other for other, _ in self._waiting[call.engine]]
            self._waiting[call.engine].clear()
        # What the core asks for anew when it is told goes behind, and is tried.
        for ended in failing:
            self._tell(ended, outcome)
        self._next(call.engine, self._waiting[call.engine])

    def _next(self, engine: str, queue: deque[tuple[EngineCall, float]]) -> None:
        now = asyncio.get_running_loop().time()
        while queue:
            call, since = queue.popleft()
            if now - since < call.timeout:
                self._submit(call)
                return
            self.outcomes[call.kind, "lost"] += 1
        del self._waiting[engine]

    def _tell(self, call: EngineCall, outcome: Outcome) -> None:
        self.outcomes[call.kind, outcome.reason if isinstance(outcome, CallFailed) else "ok"] += 1
        self._done(call, outcome)

    def _make(self, call: EngineCall) -> Outcome:
        """In a thread of the pool."""
        try:
            return CallDone(self._ask(self._driver(call), call))
        except EpicError as error:
            unreachable = UNREACHABLE if isinstance(error, EngineUnreachableError) else "invalid"
            return CallFailed(getattr(error, "reason", unreachable), str(error))
        except Exception as error:
            log.exception("engine %s: %s", call.engine, call.kind)
            return CallFailed("failed", f"engine {call.engine}: {type(error).__name__}: {error}")

    def _driver(self, call: EngineCall) -> EngineDriver:
        """The driver of a call's engine. One thread at a time asks for one engine."""
        known = self._drivers.get(call.engine)
        if known is not None and known[0] == call.control:
            driver = known[1]
        else:
            if known is not None:
                known[1].close()
            driver = self._open(call.engine, call.control, call.timeout)
            self._drivers[call.engine] = (call.control, driver)
        driver.timeout = call.timeout
        return driver

    @staticmethod
    def _ask(driver: EngineDriver, call: EngineCall) -> Any:
        match call.kind:
            case "install":
                if call.entry is None:
                    raise ConfigError(f"engine {call.engine}: install without an entry, expected one")
                return driver.install(call.entry, call.instance)
            case "remove":
                return driver.remove(call.number, call.epoch)
            case "status":
                return driver.status(call.number)
            case "installed":
                return driver.installed()
            case "capabilities":
                return driver.capabilities()
