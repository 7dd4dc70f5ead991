"""Runs checks, several at a time, each with a deadline and a folder of its own; nothing runs on when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from epic_testbed.proofs.scratch import Scratch
from epic_testbed.registry import Process
from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.model import (
    Check,
    CheckFailed,
    DeadlinePassed,
    Done,
    Outcome,
    Result,
    ToolMissing,
)
from epic_testbed.tied import tied

# Of a tool's output, in memory; the rest is cut away in front.
_OUTPUT_LIMIT = 16 << 20
# Seconds for the pipe of a killed process to close.
_FAREWELL = 2.0


class Watcher(Protocol):
    """Told about checks as they go on."""

    def started(self, check: Check) -> None:
        """A check has begun."""

    def finished(self, result: Result) -> None:
        """A check has ended."""


class _Processes:
    """The processes that run, in the record of the run as well: the next run ends those that a kill left."""

    def __init__(self, scratch: Scratch) -> None:
        self._run = scratch.run
        self._alive: dict[int, Process] = {}

    def add(self, name: str, pid: int) -> None:
        self._alive[pid] = Process.of(name, pid)
        self._save()

    def remove(self, pid: int) -> None:
        self._alive.pop(pid, None)
        self._save()

    def _save(self) -> None:
        self._run.processes = list(self._alive.values())
        self._run.save()


class _Context:
    """The context of one check."""

    def __init__(self, name: str, folder: Path, processes: _Processes) -> None:
        self.folder = folder
        self.tool = ""  # that runs, or ran last
        self._name = name
        self._processes = processes

    async def execute(
        self, command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Done:
        self.tool = tools.name_of(command)
        popen = await asyncio.create_subprocess_exec(
            *tied(command),
            cwd=cwd or self.folder,
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes.add(self._name, popen.pid)
        try:
            assert popen.stdout is not None
            output = bytearray()
            while data := await popen.stdout.read(1 << 16):
                output += data
                if len(output) > _OUTPUT_LIMIT:
                    del output[: len(output) - _OUTPUT_LIMIT // 2]
            code = await popen.wait()
        finally:
            # What a tool has started ends with it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(popen.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await popen.communicate()
            self._processes.remove(popen.pid)
        return Done(code, output.decode(errors="replace"))


async def run(
    checks: Sequence[Check], scratch: Scratch, slots: int, watcher: Watcher, keep: Path
) -> list[Result]:
    """Run the checks, `slots` at a time, the longest deadlines first; results in the order of `checks`.

    The folder of a check that failed is moved to `keep`/NAME.
    """
    room = asyncio.Semaphore(slots)
    processes = _Processes(scratch)

    async def one(number: int, check: Check) -> Result:
        async with room:
            watcher.started(check)
            folder = scratch.folder / f"check{number}"
            folder.mkdir()
            context = _Context(check.name, folder, processes)
            result = await _judge(check, context)
            _put_away(result, folder, keep / check.name)
            watcher.finished(result)
            return result

    order = sorted(range(len(checks)), key=lambda i: -checks[i].deadline)
    tasks = {i: asyncio.create_task(one(i, checks[i])) for i in order}
    try:
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            # Not twice: the first lets a task see its tool off.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return [tasks[i].result() for i in range(len(checks))]


async def _judge(check: Check, context: _Context) -> Result:
    begun = time.monotonic()

    def seconds() -> float:
        return time.monotonic() - begun

    try:
        async with asyncio.timeout(check.deadline):
            figures = await check.work(context)
    except CheckFailed as error:
        return Result(check, Outcome.FAIL, seconds(), error.figures, str(error), look=error.look)
    except ToolMissing as error:
        return Result(check, Outcome.MISSING, seconds(), message=str(error))
    except (TimeoutError, DeadlinePassed):
        message = f"{context.tool or 'the check'}: not finished after {seconds():.1f} s"
        return Result(check, Outcome.TIMEOUT, seconds(), message=f"{message} (deadline {check.deadline:g} s)")
    return Result(check, Outcome.PASS, seconds(), figures)


def _put_away(result: Result, folder: Path, kept: Path) -> None:
    """Keep the folder of a failure, remove any other; what an earlier run kept is gone in either case."""
    shutil.rmtree(kept, ignore_errors=True)
    if result.outcome in (Outcome.PASS, Outcome.MISSING) or not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        result.look = result.look if "{folder}" not in result.look else ""
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder, kept)
    result.folder = str(kept)
    result.look = result.look.replace("{folder}", str(kept))
