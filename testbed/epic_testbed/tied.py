"""Run a command that dies with the process that starts it: `Popen(tied(["java", ...]))`.

The kernel kills the command when its parent ends, however that ends (PR_SET_PDEATHSIG). It is asked for by this file,
run as a program that becomes the command. Popen's `preexec_fn` would do without, but it forks: handlers of libraries
then run in the copy, and gRPC's write to what is the command's standard error already when its descriptors are closed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit at once when that has happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def tied(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` tied to this process. Raises FileNotFoundError for an unknown program."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]}: no such program")
    # -I -S: no package of the environment is looked at, which makes the detour short.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), program, *command[1:]]


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - what tied() was given
