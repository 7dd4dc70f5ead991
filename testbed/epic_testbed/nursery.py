"""The process that forks the processes of a run: `python -m epic_testbed.nursery PARENT FD MODULES CALLS ROOM`.

It imports once what all of them need (NumPy, gRPC, ours, compiled kernels), which takes longer than the rest of their
start, and forks at each request. A copy is as good as a process of its own: here is one thread, and no event loop, no
object of gRPC and no socket but the one that requests come by. Should a library have started a thread all the same,
copies become a new interpreter.

`epic_testbed.forked` is the other end of the socket FD. When that closes, processes that still run are killed, unless
they were to be left. The kernel kills this process when PARENT ends, 0 for none. MODULES are imported, then CALLS are
made, "module:function" with arguments; both are lists in JSON. ROOM is what copies write their own command line over.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epic_testbed import child
from epic_testbed.tied import die_with

# A request is its length, with the descriptors of DESCRIPTORS, and as many bytes of JSON; length 0 says that processes
# are to be left. The answer is a pid with the descriptor of that process, or -errno. An exit code as Popen.returncode.
NUMBER_BYTES: Final = 4
DESCRIPTORS: Final = ("standard input", "standard output", "standard error", "where the exit code goes")
_PR_SET_NAME: Final = 15


@dataclass(frozen=True, slots=True)
class Request:
    """What a copy is to be: a name for `ps`, the arguments of `epic_testbed.child`, its directory and environment."""

    name: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]


def pack(number: int) -> bytes:
    """A number as it goes over the socket and the pipes."""
    return number.to_bytes(NUMBER_BYTES, "little", signed=True)


def unpack(data: bytes) -> int:
    """The number of `pack`."""
    return int.from_bytes(data, "little", signed=True)


class Nursery:
    """Serves the requests that come by a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # By descriptor of the process: its pid, and where its exit code goes.
        self._living: dict[int, tuple[int, int]] = {}
        self._leave = False
        # Unlike epoll's, what the kernel keeps of it is not shared with copies: nothing.
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def serve(self) -> Request | None:
        """Fork as asked. Returns the request in its copy, and None here when no more come."""
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._sock.fileno():
                    self._bury(fd)
                elif (got := self._receive()) is None:
                    self._end()
                    return None
                elif (request := self._fork(*got)) is not None:
                    return request

    def _receive(self) -> tuple[Request, list[int]] | None:
        """A request and its descriptors; None when no more come."""
        try:
            head, fds, _, _ = socket.recv_fds(self._sock, NUMBER_BYTES, len(DESCRIPTORS))
        except ConnectionResetError:
            # The other end has gone without reading the last answer.
            return None
        length = unpack(head)
        if length == 0:
            self._leave = bool(head)
            return None
        data = self._sock.recv(length, socket.MSG_WAITALL)
        return Request(**json.loads(data)), fds

    def _fork(self, request: Request, fds: list[int]) -> Request | None:
        """The request in the copy, None here."""
        alone = len(list(Path("/proc/self/task").iterdir())) == 1
        try:
            pid = os.fork()
        except OSError as error:
            self._answer(-(error.errno or 1))
            _close(fds)
            return None
        if pid == 0:
            self._become(request, fds, alone)
            return request
        process = os.pidfd_open(pid)
        self._living[process] = (pid, fds[3])
        self._poll.register(process, select.POLLIN)
        _close(fds[:3])
        self._answer(pid, process)
        return None

    def _answer(self, number: int, *fds: int) -> None:
        # When nobody is there any more, the next thing that is read says so.
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(self._sock, [pack(number)], fds)

    def _become(self, request: Request, fds: list[int], alone: bool) -> None:
        """Make this copy the process that is asked for."""
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        _close([*fds, *self._living, *(status for _, status in self._living.values())])
        self._sock.close()
        os.setsid()
        os.chdir(request.directory)
        _call_it(request)
        for name in os.environ.keys() - request.environment.keys():
            del os.environ[name]
        os.environ.update({k: v for k, v in request.environment.items() if os.environ.get(k) != v})
        if not alone:
            os.execv(sys.executable, _command(request))  # noqa: S606

    def _bury(self, process: int) -> None:
        """Say how a process ended."""
        pid, status = self._living.pop(process)
        self._poll.unregister(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            os.write(status, pack(code))
        _close([process, status])

    def _end(self) -> None:
        if not self._leave:
            for process in self._living:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _command(request: Request) -> list[str]:
    return [sys.executable, "-m", child.__name__, *request.arguments]


def _call_it(request: Request) -> None:
    """Let `ps` and `top` show the process as what it is."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, f"epic {request.name}".encode()[:15])
    # proc(5): fields 48 and 49 are where the command line begins and ends; the 3rd is the first after the name.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[48 - 3]), int(fields[49 - 3])
    words = "\0".join(_command(request)).encode()[: end - begin - 1]
    if begin:
        ctypes.memmove(begin, words.ljust(end - begin, b"\0"), end - begin)


def main(parent: str, fd: str, modules: str, calls: str, room: str) -> Request | None:
    """Load, and serve. As `Nursery.serve`."""
    if int(parent):
        die_with(int(parent))
    # A Ctrl-C is for the command.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in json.loads(modules):
        importlib.import_module(module)
    for name, *arguments in json.loads(calls):
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)(*arguments)
    # Copies share what nobody writes to, and a collection writes to all that it looks at.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(fd)) as sock:
        return Nursery(sock).serve()


if __name__ == "__main__":
    _request = main(*sys.argv[1:])
    if _request is not None:
        child.main(_request.arguments)
