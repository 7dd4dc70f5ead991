"""Child processes with their output as lines: started, watched together, and always ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_TERM_SECONDS = 3.0
_STDERR_CHARS = 4000


@dataclass(slots=True, eq=False)
class Child:
    """A running child: `node` is its name in the topology (ranks r0, r1, …)."""

    node: str
    popen: subprocess.Popen[bytes]
    stderr_path: Path
    finished: bool = False
    _pending: bytes = b""
    lines: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    def tell(self, line: str) -> None:
        """Write a line to its standard input; a child that has ended does not hear it."""
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(line.encode() + b"\n")
            self.popen.stdin.flush()

    def complaint(self) -> str:
        """The last line it wrote on standard error, or how it ended."""
        with contextlib.suppress(OSError):
            lines = [
                x
                for x in self.stderr_path.read_text(errors="replace")[-_STDERR_CHARS:].splitlines()
                if x.strip()
            ]
            if lines:
                return lines[-1].strip()
        return self.ending()

    def ending(self) -> str:
        """How it ended, in words."""
        code = self.popen.poll()
        if code is None:
            return "still running"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def take(self, data: bytes) -> list[str]:
        """Whole lines among the bytes that it has written so far."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


class Children:
    """All children of a run. `wait` gives their lines as they come; `stop` ends them all."""

    def __init__(self, directory: Path, die_with_parent: bool = True) -> None:
        self._directory = directory
        self._die_with_parent = die_with_parent
        self._selector = selectors.DefaultSelector()
        self.all: list[Child] = []

    def spawn(self, node: str, what: str, config: Path, namespace: str | None = None) -> Child:
        """Start `epic_testbed.child`. Its standard error goes to a file in the run's directory."""
        command = [sys.executable, "-m", "epic_testbed.child"]
        if self._die_with_parent:
            command += ["--parent", str(os.getpid())]
        if namespace is not None:
            command += ["--netns", namespace]
        command += [what, str(config)]
        stderr_path = self._directory / f"{node}.log"
        # One thread a process: the NumPy work is small, and a run has many processes on few cores.
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        with stderr_path.open("wb") as stderr:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                start_new_session=True,
            )
        child = Child(node, popen, stderr_path)
        self.all.append(child)
        assert popen.stdout is not None
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, child)
        return child

    def wait(self, timeout: float) -> list[tuple[Child, str | None]]:
        """Lines that children have written, waiting for the first at most `timeout` seconds.

        None instead of a line says that the child's output has ended, which comes once, after its last line.
        """
        events: list[tuple[Child, str | None]] = []
        for key, _ in self._selector.select(max(0.0, timeout)):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            child: Child = key.data
            try:
                data = os.read(stream.fileno(), 1 << 16)
            except BlockingIOError:
                continue
            events += [(child, line) for line in child.take(data)]
            if not data:
                self._selector.unregister(stream)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.popen.wait(1.0)
                child.finished = True
                events.append((child, None))
        return events

    def stop(self, children: Iterable[Child] | None = None) -> None:
        """End children (all by default):
        SIGTERM, and SIGKILL for those that take longer than 3 s. No zombie stays.
        """
        chosen = list(self.all if children is None else children)
        for child in chosen:
            with contextlib.suppress(OSError):
                if child.popen.stdin:
                    child.popen.stdin.close()
            if child.popen.poll() is None:
                child.popen.terminate()
        deadline = time.monotonic() + _TERM_SECONDS
        for child in chosen:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.popen.wait(max(0.0, deadline - time.monotonic()))
        for child in chosen:
            if child.popen.poll() is None:
                child.popen.kill()
                child.popen.wait()

    def close(self) -> None:
        """Stop everything and close the pipes."""
        self.stop()
        self._selector.close()
        for child in self.all:
            if child.popen.stdout:
                child.popen.stdout.close()
