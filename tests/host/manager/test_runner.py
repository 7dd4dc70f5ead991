"""The runner: what the core causes is begun, timers ring, verdicts find who waits, and a core that failed ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_host.manager.effects import Answered, CallDone, EngineCall, Event, Prepare, Verdict
from epic_host.manager.errors import RefusedError, refused
from epic_host.manager.runner import Runner
from epic_host.manager.server import FailedError
from epic_host.manager.store import StoreError
from epic_host.manager.watch import Watchers
from host.manager.served import Engines, config_of, managed, spec


class Core:
    """A core that does as it is told."""

    def __init__(self) -> None:
        self.calls: list[EngineCall] = []
        self.events: list[Event] = []
        self.deadline: float | None = None
        self.polls = 0
        self.done: list[tuple[int, Any]] = []
        self.on_poll: Callable[[], None] = lambda: None

    def poll(self, now: float) -> None:
        self.polls += 1
        self.deadline = None
        self.on_poll()

    def next_deadline(self) -> float | None:
        return self.deadline

    def take_calls(self) -> list[EngineCall]:
        taken, self.calls = self.calls, []
        return taken

    def take_events(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    def engine_done(self, call: EngineCall, outcome: Any, now: float) -> None:
        self.done.append((call.id, outcome))


def ran(test: Callable[[Core, Runner], Any]) -> None:
    """A test with a core and its runner, in a loop."""

    async def main() -> None:
        core = Core()
        runner = Runner(core, Watchers(10, 10, 10), Engines().opened, 4)  # type: ignore[arg-type]
        try:
            await asyncio.wait_for(test(core, runner), 10)
        finally:
            await runner.stop()

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def test_calls_are_made_and_their_outcomes_handed_back() -> None:
    async def test(core: Core, runner: Runner) -> None:
        core.calls = [EngineCall(7, "s0", "", "installed", 5.0)]
        runner.run(lambda now: None)
        await until(lambda: bool(core.done))
        ((number, outcome),) = core.done
        assert number == 7
        assert isinstance(outcome, CallDone)

    ran(test)


def test_the_timer_rings_when_the_core_wants_it_to() -> None:
    async def test(core: Core, runner: Runner) -> None:
        def soon(now: float) -> None:
            core.deadline = now + 0.02

        runner.run(soon)
        assert core.polls == 0
        await until(lambda: core.polls == 1)

    ran(test)


def test_a_core_that_always_wants_to_be_called_does_not_stop_the_loop() -> None:
    async def test(core: Core, runner: Runner) -> None:
        def at_once() -> None:
            core.deadline = 0.0

        core.on_poll = at_once
        core.deadline = 0.0
        runner.run(lambda now: None)
        # That this ends is what is shown: others get their turn between two polls.
        await until(lambda: core.polls > 3)

    ran(test)


def test_a_verdict_finds_who_waits_whether_it_comes_first_or_last() -> None:
    async def test(core: Core, runner: Runner) -> None:
        first, last = Verdict("wait", text="first"), Verdict("lost", (3,))
        core.events = [Answered("g", 1, first)]
        runner.run(lambda now: None)
        assert await runner.verdict(1, 1.0) == first
        waiting = asyncio.ensure_future(runner.verdict(2, 5.0))
        await asyncio.sleep(0)
        core.events = [Answered("g", 2, last)]
        runner.run(lambda now: None)
        assert await waiting == last
        with pytest.raises(RefusedError, match="no verdict within") as caught:
            await runner.verdict(3, 0.02)
        assert caught.value.reason == "busy"

    ran(test)


def test_verdicts_that_nobody_asks_for_are_bounded() -> None:
    async def test(core: Core, runner: Runner) -> None:
        core.events = [Answered("g", number) for number in range(5000)]
        runner.run(lambda now: None)
        assert len(runner._answers) == 256

    ran(test)


def test_what_work_raises_is_raised_and_its_effects_are_begun_all_the_same() -> None:
    async def test(core: Core, runner: Runner) -> None:
        watcher = runner.watchers.open("g", "c", list, bounded=True)
        core.events = [Prepare("g", 1, "", "")]

        def fails(now: float) -> None:
            raise refused("state", "no")

        with pytest.raises(RefusedError, match="no"):
            runner.run(fails)
        assert (await watcher.next()) == Prepare("g", 1, "", "")

    ran(test)


@pytest.mark.parametrize(
    "error", [StoreError("disk is full"), ZeroDivisionError("a fault"), refused("state", "x")]
)
def test_a_core_that_fails_by_itself_ends_the_runner(error: Exception) -> None:
    async def test(core: Core, runner: Runner) -> None:
        def fails() -> None:
            raise error

        core.on_poll = fails
        core.deadline = 0.0
        runner.run(lambda now: None)
        assert await runner.failure is error
        with pytest.raises(RefusedError) as caught:
            runner.run(lambda now: None)
        assert caught.value.reason == "stopping"

    ran(test)


# ------------------------------------------------------------------------------------------ in a manager


def test_a_fault_in_one_request_is_one_callers_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with managed(config_of(tmp_path)) as running, running.client() as client:

        def broken(*_: object) -> None:
            raise ZeroDivisionError("deep inside")

        monkeypatch.setattr(running.core, "explain", broken)
        with caplog.at_level(logging.ERROR), pytest.raises(RefusedError) as caught:
            client.explain(group="x")
        assert caught.value.reason == "failed"
        assert "deep inside" not in str(caught.value)
        assert "deep inside" in caplog.text
        assert client.create_group(spec=spec()).group


def test_a_fault_in_the_core_ends_the_manager_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(config_of(tmp_path)) as running:

        def broken(now: float) -> None:
            raise ZeroDivisionError("deep inside")

        monkeypatch.setattr(running.core, "poll", broken)
        running.do(lambda now: None)
        ended = running.server.runner.failure
        waited = asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(asyncio.shield(ended), 10), ended.get_loop()
        )
        assert isinstance(waited.result(10), ZeroDivisionError)
    assert [type(failure) for failure in running.failures] == [FailedError]
