"""Runs cases on a device, each on a reset device, and survives whatever the device does.

Cases run in a thread of their own within limits (see `guard`). When one does not come back, because a call of the
adapter blocks, the thread is left behind: its device is closed, and the next case gets a new one. A device that cannot
be reset or opened again ends the run: the cases that are left fail with that line, and the report is still written.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from epic_spec.errors import ConfigError, EpicError
from epic_testbed.conformance.bench import Bench
from epic_testbed.conformance.case import Case, Unmet, all_cases, select, unmet
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.guard import Limits, Overrun, guarded, one_line
from epic_testbed.conformance.record import Failure, Step
from epic_testbed.conformance.results import (
    CaseResult,
    LogLine,
    Request,
    Run,
    Status,
    bound,
    case_seed,
    judge,
)
from epic_testbed.dut import AgentDut, Dut, DutError, DutTraits

CASE_SECONDS = 60.0
# How long making a device may take: starting processes, loading a program.
OPEN_SECONDS = 300.0
# How long a call of the adapter may go on after the case's time is over, and how long closing may take.
GRACE_SECONDS = 5.0
# Cases in a row that run out of time until the device is given up.
PATIENCE = 3
# Steps of a case that the report keeps, the first and the last: of one that failed, and of another.
LOG_FAILED, LOG_OTHER = (100, 300), (60, 40)

Opener = Callable[[], Dut | AgentDut]
Progress = Callable[[int, int, CaseResult], None]


class _Worker:
    """A thread that does one task after another, and that can be left behind when a task does not come back.

    It outlives the cases: what an adapter starts (processes that die with the thread that made them, say) lives on.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Callable[[], None], threading.Event] | None] = SimpleQueue()
        self.busy = False
        threading.Thread(target=self._work, name="device", daemon=True).start()

    def do(self, task: Callable[[], None], seconds: float) -> bool:
        """Whether the task came back within `seconds`. A task must not raise."""
        done = threading.Event()
        self.busy = True
        self._tasks.put((task, done))
        self.busy = not done.wait(seconds)
        return not self.busy

    def stop(self) -> None:
        """No more tasks."""
        self._tasks.put(None)

    def _work(self) -> None:
        while (item := self._tasks.get()) is not None:
            item[0]()
            item[1].set()


class _Attempt:
    """One case on one device. `phase` says how far it got: reset, case, done."""

    def __init__(
        self, case: Case, seed: int, device: Dut | AgentDut, deviations: Deviations, limits: Limits
    ) -> None:
        self.phase = "reset"
        self.error: BaseException | None = None
        self.log: list[Step] = []
        self.limits = limits
        self._case = case
        self._seed = seed
        self._device = device
        self._deviations = deviations

    def work(self) -> None:
        """Run the case. Never raises."""
        try:
            dut = guarded(self._device, self.limits)
            dut.reset()
            self.phase = "case"
            bench = make_bench(dut, self._deviations, self._seed)
            self.log = bench.log
            self._case.function(bench)
            bench.finish()
            self.phase = "done"
        except BaseException as error:
            self.error = error


def make_bench(dut: Dut | AgentDut, deviations: Deviations, seed: int) -> Any:
    """The bench of a device's side."""
    if isinstance(dut, Dut):
        return Bench(dut, deviations, seed)
    from epic_testbed.conformance.host_bench import HostBench

    return HostBench(dut, deviations, seed)


class Runner:
    """Runs cases one after another. `traits` are those of the device when it was opened.

    Raises what `opener` raises, or DutError: a device that cannot be opened at all has no report.
    """

    def __init__(
        self, opener: Opener, seed: int = 0, deviations: Deviations | None = None, limit: float | None = None
    ) -> None:
        self._opener = opener
        self._seed = seed
        self._deviations = deviations or Deviations()
        self._limit = limit or self._deviations.timeout("case", CASE_SECONDS)
        self._overruns = 0
        self._limits: Limits | None = None
        self._worker = _Worker()
        self._device: Dut | AgentDut | None = None
        self.broken = ""
        try:
            device = self._open()
            self.side = "engine" if isinstance(device, Dut) else "agent"
            self.traits: DutTraits = device.traits()
        except BaseException:
            self.close()
            raise

    def run(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """The result of each case, as it is there."""
        for case in cases:
            missing = unmet(case, self.traits)
            seed = case_seed(self._seed, case)
            if missing:
                reason = "; ".join(map(str, missing))
                yield CaseResult(case, Status.NA, seed, reason=reason, unmet=tuple(missing))
                continue
            if not self.broken and self._device is None:
                self._reopen()
            if self.broken or self._device is None:
                yield CaseResult(case, Status.FAIL, seed, reason=f"not tried: {self.broken}")
            else:
                yield self._attempt(case, seed, self._device)

    def close(self) -> None:
        """Give the device back. A device that does not close in time is left to the end of the process."""
        device, self._device = self._device, None
        if self._limits is not None:
            self._limits.cancelled = True
        if device is not None:
            # One that blocks its thread is closed from another; its errors are not about conformance.
            closer = _Worker() if self._worker.busy else self._worker
            closer.do(lambda: _quietly(device.close), GRACE_SECONDS)
            closer.stop()
        self._worker.stop()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> Dut | AgentDut:
        """A new device. Raises EpicError or OSError as the adapter does, DutError for all else and when it blocks."""
        raised: list[BaseException] = []

        def task() -> None:
            try:
                self._device = self._opener()
            except BaseException as error:
                raised.append(error)

        if not self._worker.do(task, OPEN_SECONDS):
            raise DutError(f"the device did not open within {OPEN_SECONDS:g} s")
        if raised:
            if isinstance(raised[0], EpicError | OSError):
                raise raised[0]
            raise DutError(f"the device cannot be opened: {one_line(raised[0])}") from raised[0]
        assert self._device is not None
        return self._device

    def _reopen(self) -> None:
        self._worker = _Worker()
        try:
            self._open()
        except (EpicError, OSError) as error:
            self.broken = f"the device did not come back ({one_line(error)})"

    def _attempt(self, case: Case, seed: int, device: Dut | AgentDut) -> CaseResult:
        limits = self._limits = Limits(self._limit)
        attempt = _Attempt(case, seed, device, self._deviations, limits)
        started = time.monotonic()
        returned = self._worker.do(attempt.work, self._limit + min(GRACE_SECONDS, self._limit))
        status, why, failure = _outcome(attempt, returned)
        frames = tuple(limits.trace) if status is Status.FAIL else ()
        log = _shortened(list(attempt.log), *(LOG_FAILED if status is Status.FAIL else LOG_OTHER))
        if not returned:
            self.close()
        self._note(attempt, returned, why)
        error = attempt.error
        return CaseResult(
            case,
            status,
            seed,
            seconds=time.monotonic() - started,
            reason=why,
            expected=failure.expected if failure else (),
            arrived=failure.arrived if failure else (),
            notes=tuple(n for n in getattr(failure or error, "__notes__", ()) if n.strip()),
            log=log,
            frames=frames,
            unmet=(error,) if isinstance(error, Unmet) else (),
        )

    def _note(self, attempt: _Attempt, returned: bool, why: str) -> None:
        """Whether going on makes sense."""
        if returned and attempt.phase == "reset":
            self.broken = f"the device did not come back ({why})"
        self._overruns = self._overruns + 1 if attempt.limits.cancelled else 0
        if self._overruns >= PATIENCE:
            self.broken = f"{PATIENCE} cases in a row ran out of time ({why})"


def _quietly(function: Callable[[], None]) -> None:
    # Closing a broken device fails in its own ways.
    with contextlib.suppress(BaseException):
        function()


def _outcome(attempt: _Attempt, returned: bool) -> tuple[Status, str, Failure | None]:
    """Status, reason in one line, and the Failure behind it."""
    error, limits = attempt.error, attempt.limits
    if not returned:
        where = f"in {limits.calling}" if limits.calling else "in the case itself"
        return Status.FAIL, f"blocked {where}: did not come back within {limits.seconds:g} s", None
    if error is None:
        return Status.PASS, "", None
    if isinstance(error, Unmet):
        return Status.NA, str(error), None
    failure = _failure(error)
    if failure is not None:
        return Status.FAIL, one_line(failure.what), failure
    return Status.FAIL, _words(error, attempt), None


def _failure(error: BaseException) -> Failure | None:
    """The Failure in an exception, also where hypothesis found several at once."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((f for e in error.exceptions if (f := _failure(e)) is not None), None)
    return None


def _words(error: BaseException, attempt: _Attempt) -> str:
    if isinstance(error, Overrun):
        return one_line(str(error))
    if isinstance(error, DutError):
        return f"the device failed{'' if attempt.phase == 'case' else ' at reset'}: {one_line(error)}"
    if error is attempt.limits.raised:
        return f"the device refused: {one_line(error)}"
    if isinstance(error, ConfigError):
        return f"the case cannot be set up: {one_line(error)}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"the suite could not go on: {one_line(error)}{where}"


def _shortened(steps: list[Step], head: int, tail: int) -> tuple[LogLine, ...]:
    lines = [LogLine(s.time, s.who, s.kind, s.text, s.frame) for s in steps]
    left_out = len(lines) - head - tail
    if left_out <= 0:
        return tuple(lines)
    skip = LogLine(lines[head].time, "", "skip", f"{left_out} steps are left out here")
    return (*lines[:head], skip, *lines[-tail:])


def run_suite(
    opener: Opener,
    request: Request,
    deviations: Deviations | None = None,
    *,
    limit: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run what was asked for. Raises ConfigError for filters that match nothing, and what `opener` raises."""
    deviations = deviations or Deviations()
    started = time.monotonic()
    with Runner(opener, request.seed, deviations, limit) as runner:
        mode, side = request.mode, runner.side
        if runner.traits.mode != mode:
            raise ConfigError(f"device {request.dut!r} realizes mode {runner.traits.mode}, not mode {mode}")
        cases = list(select(mode, side, request.pattern, request.clause))
        known = [c for c in all_cases() if mode in c.modes and c.side == side]
        run = Run(request, side, runner.traits, datetime.now(UTC).isoformat(timespec="seconds"))
        for result in runner.run(cases):
            run.results.append(result)
            if progress is not None:
                progress(len(run.results), len(cases), result)
        run.broken = runner.broken
    run.clauses = judge(run.results, known, side, mode, run.traits)
    if request.clause is not None:
        run.clauses = [c for c in run.clauses if c.id == request.clause]
    covered = {clause for c in known for clause in c.clauses}
    run.uncovered = tuple(c for c in bound(side, mode) if c not in covered)
    run.deviations = tuple(sorted(deviations.used))
    run.seconds = time.monotonic() - started
    return run
