"""Child processes with their output as lines: started, watched together, and always ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from epic_testbed.forked import Forked, Forks, NurseryCall

_TERM_SECONDS = 3.0
_STDERR_CHARS = 4000
# What every child needs: a switch, and a rank too.
MODULES: Final = ("epic_host.serving", "epic_testbed.worker")


@dataclass(slots=True, eq=False)
class Child:
    """A running child: `node` is its name in the topology (ranks r0, r1, …)."""

    node: str
    popen: Forked
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
    """All children of a run. `wait` gives their lines as they come; `stop` ends them all.

    `modules` are what they need, `calls` load what else they need. `prepare`, or the first `spawn`, starts the process
    that does so and forks them.
    """

    def __init__(
        self,
        directory: Path,
        die_with_parent: bool = True,
        modules: Sequence[str] = MODULES,
        calls: Sequence[NurseryCall] = (),
    ) -> None:
        self._directory = directory
        self._die_with_parent = die_with_parent
        self._load = (modules, calls)
        self._forks: Forks | None = None
        self._selector = selectors.DefaultSelector()
        self.all: list[Child] = []

    def prepare(self) -> Forks:
        """Begin to load what children need, in the background."""
        if self._forks is None:
            self._forks = Forks(*self._load, tied=self._die_with_parent)
        return self._forks

    def spawn(self, node: str, what: str, config: Path, namespace: str | None = None) -> Child:
        """Start `epic_testbed.child`. Its standard error goes to a file in the run's directory.

        Raises OSError, EpicError as `Forks.fork`.
        """
        forks = self.prepare()
        arguments = ["--parent", str(forks.pid)] if self._die_with_parent else []
        if namespace is not None:
            arguments += ["--netns", namespace]
        stderr_path = self._directory / f"{node}.log"
        with stderr_path.open("wb") as stderr:
            popen = forks.fork(node, [*arguments, what, str(config)], stderr.fileno())
        child = Child(node, popen, stderr_path)
        self.all.append(child)
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, child)
        return child

    def wait(self, timeout: float) -> list[tuple[Child, str | None]]:
        """Lines that children have written, waiting for the first at most `timeout` seconds.

        None instead of a line says that the child's output has ended, which comes once, after its last line.
        """
        events: list[tuple[Child, str | None]] = []
        for key, _ in self._selector.select(max(0.0, timeout)):
            child: Child = key.data
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            events += [(child, line) for line in child.take(data)]
            if not data:
                self._selector.unregister(key.fileobj)
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

    def leave(self) -> None:
        """Let the children go on without this process, which has asked for that (`die_with_parent` False)."""
        if self._forks is not None:
            self._forks.leave()

    def close(self) -> None:
        """Stop everything and close the pipes."""
        self.stop()
        self._selector.close()
        for child in self.all:
            child.popen.stdout.close()
        if self._forks is not None:
            self._forks.close()
