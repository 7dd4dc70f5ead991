"""Processes that a nursery forks (`epic_testbed.nursery`), with what `subprocess.Popen` offers of a process."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from epic_spec.errors import EpicError
from epic_testbed import nursery
from epic_testbed.nursery import NUMBER_BYTES, Request, pack, unpack

# Until the first answer it may have to compile all kernels of a mode beside others that do the same.
_SECONDS: Final = 900.0
_END_SECONDS: Final = 3.0
# It has nothing else to do than to say how a process ended.
_SAID_SECONDS: Final = 60.0
# Longer than command lines of children are.
_ROOM: Final = "." * 256


# "module:function", and arguments that JSON has.
NurseryCall = tuple[str, *tuple[str | int, ...]]


class Forked:
    """A process that a nursery has forked. What is named as in Popen is as there; `stdout` does not buffer."""

    def __init__(self, name: str, pid: int, process: int, status: int, stdin: int, stdout: int) -> None:
        self.name = name
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = io.BufferedWriter(io.FileIO(stdin, "w"))
        self.stdout = io.FileIO(stdout)
        self._process: int | None = process
        self._status = status

    def poll(self) -> int | None:
        """The exit code, -N after signal N; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code once it has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            assert self._process is not None
            ready = select.poll()
            ready.register(self._process, select.POLLIN)
            if not ready.poll(None if timeout is None else timeout * 1e3):
                raise subprocess.TimeoutExpired(self.name, timeout or 0.0)
            # The nursery says so next. Whoever ends it ends its processes, of which nobody can be asked then.
            said = _heard(self._status)
            self.returncode = unpack(said) if said else -signal.SIGKILL
            self._forget()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it; one that has ended does not hear it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def descriptor(self) -> int:
        """A descriptor for the caller, readable when the process has ended.

        Raises ProcessLookupError when it has, and somebody has seen it.
        """
        if self._process is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), self.name)
        return os.dup(self._process)

    def _forget(self) -> None:
        if self._process is not None:
            os.close(self._process)
            os.close(self._status)
        self._process = None

    def __del__(self) -> None:
        self._forget()


def _heard(status: int) -> bytes:
    """An exit code as the nursery says it; nothing when it is gone, or stands still."""
    ready = select.poll()
    ready.register(status, select.POLLIN)
    return os.read(status, NUMBER_BYTES) if ready.poll(_SAID_SECONDS * 1e3) else b""


class Forks:
    """A nursery and what is asked of it. It loads in the background from here on.

    `modules` are imported and `calls` made before the first process is forked. `tied`: the kernel kills the nursery,
    and with it what it forked, when this process ends, however that ends.
    """

    def __init__(self, modules: Sequence[str], calls: Sequence[NurseryCall], tied: bool) -> None:
        # One thread a process: the NumPy work is small, and a run has many processes on few cores.
        self._environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self._sock, theirs = socket.socketpair()
        self._sock.settimeout(_SECONDS)
        parent = os.getpid() if tied else 0
        numbers = [str(parent), str(theirs.fileno())]
        with theirs:
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-m", nursery.__name__),
                    *(*numbers, json.dumps(modules), json.dumps(calls), _ROOM),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The nursery's, the parent of all that it forks."""
        return self._popen.pid

    def fork(self, name: str, arguments: Sequence[str], stderr: int) -> Forked:
        """A process that runs `epic_testbed.child` with these arguments here and now: directory and environment.

        `stderr` is a descriptor for its standard error; the others are pipes. Raises OSError as a fork does, EpicError
        when there is no nursery any more.
        """
        request = Request(name, list(arguments), str(Path.cwd()), {**os.environ, **self._environment})
        data = json.dumps(asdict(request)).encode()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            pipes = [os.pipe() for _ in range(3)]
            (stdin, into), (out, stdout), (status, said) = pipes
            for fd in (stdin, stdout, said):
                theirs.callback(os.close, fd)
            for fd in (into, out, status):
                ours.callback(os.close, fd)
            number, processes = self._ask(name, data, [stdin, stdout, stderr, said])
            if not processes:
                raise OSError(-number, os.strerror(-number), name)
            ours.pop_all()
        return Forked(name, number, processes[0], status, into, out)

    def _ask(self, name: str, data: bytes, fds: list[int]) -> tuple[int, list[int]]:
        """The answer to a request with these descriptors: a pid and a descriptor of the process, or -errno."""
        try:
            socket.send_fds(self._sock, [pack(len(data))], fds)
            self._sock.sendall(data)
            answer, processes, _, _ = socket.recv_fds(self._sock, NUMBER_BYTES, 1)
        except ConnectionError:
            answer = b""
        if not answer:
            raise EpicError(f"{name}: the process that forks it {self._ending()}, expected it to stay")
        return unpack(answer), processes

    def leave(self) -> None:
        """End the nursery; what it forked goes on."""
        with contextlib.suppress(ConnectionError):
            self._sock.sendall(pack(0))
        self.close()

    def close(self) -> None:
        """End the nursery, and what it forked. More than one call is allowed."""
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_END_SECONDS)
        # It may be loading still.
        self._popen.kill()
        self._popen.wait()

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"ended with code {self._popen.wait(_END_SECONDS)}"
        return "does not answer"
