"""Engine calls of the manager: concurrent between engines, in order at each, and a dead engine holds up nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from epic_host.manager.calls import EngineCalls
from epic_host.manager.effects import CallDone, CallFailed, EngineCall, Outcome
from epic_spec.errors import ConfigError, ResourceError
from host.manager.served import Engines

Done = list[tuple[int, Outcome]]


def call(
    number: int, engine: str, kind: Any = "installed", timeout: float = 5.0, control: str = ""
) -> EngineCall:
    return EngineCall(number, engine, control, kind, timeout, number=1, epoch=1)


def made(
    engines: Engines, start: Callable[[EngineCalls], None], count: int, opened: Any = None, workers: int = 8
) -> Done:
    """The outcomes of calls, in the order in which they came."""
    done: Done = []

    async def main() -> None:
        ended = asyncio.Event()

        def outcome(asked: EngineCall, answer: Outcome) -> None:
            done.append((asked.id, answer))
            if len(done) == count:
                ended.set()

        calls = EngineCalls(opened or engines.opened, outcome, workers)
        start(calls)
        try:
            await asyncio.wait_for(ended.wait(), 10)
        finally:
            await calls.close()

    asyncio.run(main())
    return done


def test_an_engines_calls_are_made_in_order() -> None:
    engines = Engines()
    done = made(engines, lambda calls: [calls.start(call(n, "s0")) for n in range(20)], 20)  # type: ignore[func-returns-value]
    assert [number for number, _ in done] == list(range(20))
    assert all(isinstance(answer, CallDone) for _, answer in done)


def test_engines_are_called_at_once() -> None:
    engines, together = Engines(), threading.Barrier(5, timeout=5)
    for n in range(5):
        engines[f"s{n}"].before = lambda _: together.wait()  # type: ignore[assignment,return-value]
    done = made(engines, lambda calls: [calls.start(call(n, f"s{n}")) for n in range(5)], 5)  # type: ignore[func-returns-value]
    assert all(isinstance(answer, CallDone) for _, answer in done)


def test_what_waits_behind_a_call_without_answer_ends_with_it() -> None:
    engines, tries = Engines(), []
    engines["dead"].up = False
    engines["dead"].before = tries.append
    done = made(engines, lambda calls: [calls.start(call(n, "dead")) for n in range(30)], 30)  # type: ignore[func-returns-value]
    assert len(tries) == 1
    assert {answer.reason for _, answer in done if isinstance(answer, CallFailed)} == {"unreachable"}
    assert len(done) == 30


def test_a_call_made_while_others_fail_is_tried() -> None:
    """The core asks again as soon as it hears: that call is not swept away with those that waited."""
    engines = Engines()
    engines["s0"].up = False
    again: list[EngineCalls] = []

    def start(calls: EngineCalls) -> None:
        again.append(calls)
        for number in range(3):
            calls.start(call(number, "s0"))

    done: Done = []

    async def main() -> None:
        ended = asyncio.Event()

        def outcome(asked: EngineCall, answer: Outcome) -> None:
            done.append((asked.id, answer))
            if asked.id == 0:
                engines["s0"].up = True
                again[0].start(call(10, "s0"))
            if asked.id == 10:
                ended.set()

        calls = EngineCalls(engines.opened, outcome, 2)
        start(calls)
        await asyncio.wait_for(ended.wait(), 10)
        await calls.close()

    asyncio.run(main())
    assert [number for number, _ in done] == [0, 1, 2, 10]
    assert isinstance(done[-1][1], CallDone)


def test_a_slow_engine_does_not_hold_up_another() -> None:
    engines, release = Engines(), threading.Event()
    engines["slow"].before = lambda _: release.wait(5)  # type: ignore[assignment,return-value]
    order: list[str] = []

    def start(calls: EngineCalls) -> None:
        for number in range(3):
            calls.start(call(number, "slow"))
        for number in range(3, 6):
            calls.start(call(number, "quick"))

    engines["quick"].before = lambda _: order.append("quick") or (release.set() if len(order) == 3 else None)  # type: ignore[func-returns-value]
    done = made(engines, start, 6, workers=2)
    assert [number for number, _ in done[:3]] == [3, 4, 5]


def test_what_waited_longer_than_its_timeout_is_lost() -> None:
    engines = Engines()
    engines["s0"].before = lambda _: time.sleep(0.1)
    kept: list[EngineCalls] = []

    def start(calls: EngineCalls) -> None:
        kept.append(calls)
        calls.start(call(0, "s0"))
        calls.start(call(1, "s0", timeout=0.01))
        calls.start(call(2, "s0"))

    done = made(engines, start, 2)
    assert [number for number, _ in done] == [0, 2]
    assert kept[0].outcomes["installed", "lost"] == 1


def test_errors_come_with_the_engines_word() -> None:
    class Refusing:
        timeout = 1.0

        def installed(self) -> Any:
            error = ResourceError("no room")
            error.reason = "no_resource"  # type: ignore[attr-defined]
            raise error

        def capabilities(self) -> Any:
            raise ConfigError("not that")

        def status(self, group: int) -> Any:
            raise ZeroDivisionError("a driver's own fault")

        def close(self) -> None:
            pass

    def start(calls: EngineCalls) -> None:
        for number, kind in enumerate(("installed", "capabilities", "status", "install")):
            calls.start(call(number, f"s{number}", kind))

    done = dict(made(Engines(), start, 4, opened=lambda *_: Refusing()))
    words = {number: answer.reason for number, answer in done.items() if isinstance(answer, CallFailed)}
    assert words == {0: "no_resource", 1: "invalid", 2: "failed", 3: "invalid"}


def test_an_engine_that_moved_is_called_at_its_new_address() -> None:
    engines, opened = Engines(), []

    def opening(engine: str, control: str, timeout: float) -> Any:
        opened.append(control)
        return engines.opened(engine, control, timeout)

    def start(calls: EngineCalls) -> None:
        for number, control in enumerate(("a", "a", "b")):
            calls.start(call(number, "s0", control=control))

    made(engines, start, 3, opened=opening)
    assert opened == ["a", "b"]
