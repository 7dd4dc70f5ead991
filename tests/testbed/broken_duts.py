"""Devices that misbehave in the middle of a case: each is the reference engine with one thing gone wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance.bench import Bench
from epic_testbed.conformance.case import Case
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.results import Request, Run
from epic_testbed.conformance.runner import run_suite
from epic_testbed.dut import Dut, DutError, Received

CLAUSE = "EPIC-M3-02"
OTHER = "EPIC-M3-08"
# As many sends as a case of two cells has before its last frame.
SOON = 3


class DiesOnce(ReferenceDut):
    """Dies at its third frame, the first time, and comes back at the next reset."""

    def __init__(self, mode: int) -> None:
        super().__init__(mode)
        self.sent = 0

    def send(self, port: int, frame: bytes) -> None:
        self.sent += 1
        if self.sent == SOON:
            raise DutError("the process was killed by SIGSEGV")
        super().send(port, frame)


class StaysDead(DiesOnce):
    """Dies at its third frame, and cannot be reset."""

    def reset(self) -> None:
        if self.sent >= SOON:
            raise DutError("no answer to the reset")
        super().reset()


class Floods(ReferenceDut):
    """Sends the first frame it ever sent again and again."""

    def __init__(self, mode: int) -> None:
        super().__init__(mode)
        self.frame: Received | None = None

    def receive(self, timeout: float) -> Received | None:
        if self.frame is None:
            self.frame = super().receive(timeout)
        return self.frame

    def reset(self) -> None:
        self.frame = None
        super().reset()


class TalksGarbage(ReferenceDut):
    """Every frame it sends is bytes of no meaning."""

    def receive(self, timeout: float) -> Received | None:
        got = super().receive(timeout)
        return got and Received(got.port, b"\xde\xad\xbe\xef" * 20)


class TalksNonsense(ReferenceDut):
    """Every frame it sends is a good RoCEv2 frame for nobody."""

    def receive(self, timeout: float) -> Received | None:
        got = super().receive(timeout)
        return got and Received(got.port + 7, got.frame)


class Blocks(ReferenceDut):
    """Never comes back from `receive`. Closing it does not help before the test ends."""

    def __init__(self, mode: int, opened: list[Blocks] | None = None) -> None:
        super().__init__(mode)
        self.released = threading.Event()
        self.closed = 0
        if opened is not None:
            opened.append(self)

    def receive(self, timeout: float) -> Received | None:
        self.released.wait()
        return None

    def close(self) -> None:
        self.closed += 1


class BlocksUntilClosed(Blocks):
    """Closing wakes it, as closing a socket does."""

    def close(self) -> None:
        super().close()
        self.released.set()


class Raises(ReferenceDut):
    """Its adapter has a bug."""

    def receive(self, timeout: float) -> NoReturn:
        raise KeyError("no\nsuch\nport")


class Exits(ReferenceDut):
    """Its adapter wants to end the process."""

    def receive(self, timeout: float) -> NoReturn:
        raise SystemExit(3)


class Refuses(ReferenceDut):
    """Has no room for any group."""

    def configure(self, group: Any) -> NoReturn:
        from epic_spec.errors import ResourceError

        raise ResourceError(f"group {group.params.group}: no slots left")


def one_cell(bench: Bench) -> None:
    """Two children contribute to a cell and receive the sum."""
    bench.install(2)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))


def two_cells(bench: Bench) -> None:
    """Two children contribute to two cells and receive the sums."""
    one_cell(bench)
    bench.contribute_all(1, [(10,), (20,)])
    bench.expect_result(1, (30,))


def wrong(bench: Bench) -> None:
    """Expects a sum that is not the sum."""
    bench.install(2)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (4,))


def make(
    function: Callable[[Any], None],
    name: str = "",
    *clauses: str,
    needs: tuple[tuple[str, Any], ...] = (),
    modes: tuple[int, ...] = (3,),
) -> Case:
    """A case of the tests' own."""
    doc = " ".join((function.__doc__ or "").split())
    title = f"own/{name or function.__name__.replace('_', '-')}"
    return Case(title, "own", clauses or (CLAUSE,), modes, "engine", doc or "A test.", needs, function)


def run(
    monkeypatch: Any,
    cases: list[Case],
    opener: Callable[[], Dut] = lambda: ReferenceDut(3),
    *,
    limit: float | None = 20.0,
    seed: int = 0,
    allowed: Deviations | None = None,
    **request: Any,
) -> Run:
    """What a run of just these cases finds."""
    from epic_testbed.conformance import case, runner

    monkeypatch.setattr(case, "all_cases", lambda: cases)
    monkeypatch.setattr(runner, "all_cases", lambda: cases)
    return run_suite(opener, Request("own", 3, seed, **request), allowed, limit=limit)
