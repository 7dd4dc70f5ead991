"""Runs of TLC: one process each, several at a time, each with a deadline, a memory limit and its own folder."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from epic_testbed.proofs import java
from epic_testbed.proofs.output import Outcome, OutputParser
from epic_testbed.proofs.scratch import Scratch
from epic_testbed.registry import Process
from epic_testbed.tied import tied

# How often deadlines and the display are looked at, seconds.
_TICK = 0.25
_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make: module `module` (a name without suffix) of `folder` with the configuration `config`.

    `libraries` are more folders in which modules are found. `traces` and `depth` choose simulation. `brief`: the run
    is over before code that is optimized more would pay off.
    """

    name: str
    folder: Path
    module: str
    config: Path
    deadline: float
    libraries: tuple[Path, ...] = ()
    workers: int = 1
    memory_mb: int = 2048
    traces: int | None = None
    depth: int | None = None
    seed: int = 1
    check_deadlock: bool = False
    brief: bool = True


@dataclass(slots=True)
class Finished:
    """A run that has ended: what it found and its wall-clock seconds."""

    job: Job
    outcome: Outcome
    seconds: float


class Watcher(Protocol):
    """Told about runs as they go on."""

    def started(self, job: Job) -> None:
        """A run has begun."""

    def progress(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """A run goes on; `outcome` has its counts so far. Called every so often."""

    def finished(self, done: Finished) -> None:
        """A run has ended."""


class Silent:
    """A watcher that says nothing."""

    def started(self, job: Job) -> None:
        """Nothing."""

    def progress(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """Nothing."""

    def finished(self, done: Finished) -> None:
        """Nothing."""


def command(job: Job, folder: Path) -> list[str]:
    """The command line of a run whose temporary files all go into `folder`. Raises ResourceError."""
    line = [java.java(), f"-Xmx{job.memory_mb}m", "-Xss8m", "-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}"]
    # The collector with the least overhead for so many workers.
    line += ["-XX:+UseSerialGC" if job.workers == 1 else "-XX:+UseParallelGC"]
    # The first compiler alone: a run of a few seconds takes half the processor time.
    line += ["-XX:TieredStopAtLevel=1"] if job.brief else []
    if job.libraries:
        line += [f"-DTLA-Library={os.pathsep.join(map(str, job.libraries))}"]
    line += ["-cp", str(java.jar()), "tlc2.TLC", "-tool", "-workers", str(job.workers)]
    if job.traces is not None:
        line += ["-simulate", f"num={job.traces}", "-depth", str(job.depth), "-seed", str(job.seed)]
    # A fixed choice of the fingerprint polynomial makes a run repeatable.
    line += ["-fp", "0", "-metadir", str(folder / "states"), "-config", str(job.config)]
    # The switch turns the check for deadlock off.
    line += [] if job.check_deadlock else ["-deadlock"]
    return [*line, job.module]


@dataclass(slots=True, eq=False)
class _Running:
    job: Job
    popen: subprocess.Popen[bytes]
    folder: Path
    begun: float
    parser: OutputParser = field(default_factory=OutputParser)
    pending: bytes = b""

    def take(self, data: bytes) -> None:
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            self.parser.feed(line.decode(errors="replace"))

    def end(self) -> None:
        """Kill it if it still runs, and remove its files."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pool:
    """Makes runs, as many at a time as `slots` workers allow, with their files in the folder of `scratch`."""

    def __init__(self, scratch: Scratch, slots: int, watcher: Watcher | None = None) -> None:
        self._run = scratch.run
        self._folder = scratch.folder
        self._slots = slots
        self._watcher: Watcher = watcher or Silent()
        self._selector = selectors.DefaultSelector()
        self._running: list[_Running] = []
        self._made = 0

    def run_all(
        self, jobs: Sequence[Job], enough: Callable[[Finished], bool] | None = None
    ) -> list[Finished]:
        """Run the jobs in their order; what each found, in the order of ending.

        When `enough(finished)` holds the rest is stopped or not begun. Nothing runs any more when this returns or
        raises. Raises ResourceError when there is no Java or no TLC.
        """
        waiting, done = deque(jobs), list[Finished]()
        try:
            while waiting or self._running:
                self._fill(waiting)
                for finished in self._wait():
                    done.append(finished)
                    self._watcher.finished(finished)
                    if enough is not None and enough(finished):
                        return done
        finally:
            for running in list(self._running):
                self._forget(running)
                running.end()
            self._record()
        return done

    def close(self) -> None:
        """Free the selector."""
        self._selector.close()

    def _fill(self, waiting: deque[Job]) -> None:
        """Begin jobs while there is room; one that wants more workers than there are gets all of them, alone."""
        while waiting:
            busy = sum(r.job.workers for r in self._running)
            if self._running and busy + waiting[0].workers > self._slots:
                return
            self._start(waiting.popleft())

    def _start(self, job: Job) -> None:
        self._made += 1
        folder = self._folder / f"tlc{self._made}"
        folder.mkdir()
        popen = subprocess.Popen(
            tied(command(job, folder)),
            cwd=job.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running = _Running(job, popen, folder, time.monotonic())
        self._running.append(running)
        self._record()
        assert popen.stdout is not None
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, running)
        self._watcher.started(job)

    def _wait(self) -> list[Finished]:
        """Let the runs go on for a moment; those that ended in it."""
        ended = []
        for key, _ in self._selector.select(_TICK):
            running: _Running = key.data
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            try:
                data = os.read(stream.fileno(), _READ)
            except BlockingIOError:
                continue
            if data:
                running.take(data)
            else:
                ended.append(self._finish(running))
        now = time.monotonic()
        for running in list(self._running):
            seconds = now - running.begun
            if seconds > running.job.deadline:
                self._forget(running)
                running.end()
                outcome = running.parser.outcome
                outcome.result, outcome.message = (
                    "timeout",
                    f"not finished after {running.job.deadline:.0f} s",
                )
                ended.append(Finished(running.job, outcome, seconds))
            else:
                self._watcher.progress(running.job, running.parser.outcome, seconds)
        return ended

    def _finish(self, running: _Running) -> Finished:
        self._forget(running)
        running.take(b"\n")
        # The output has ended, so the process is about to; what does not end is ended.
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.popen.wait(5.0)
        running.end()
        outcome = running.parser.finish(running.popen.returncode)
        self._record()
        return Finished(running.job, outcome, time.monotonic() - running.begun)

    def _forget(self, running: _Running) -> None:
        self._running.remove(running)
        if running.popen.stdout is not None and not running.popen.stdout.closed:
            self._selector.unregister(running.popen.stdout)

    def _record(self) -> None:
        """Note the processes in the run's record, from which they are ended if this process is killed."""
        self._run.processes = [Process.of(r.job.name, r.popen.pid) for r in self._running]
        self._run.save()
