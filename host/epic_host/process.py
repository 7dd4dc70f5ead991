"""Life and death of the processes that a run starts."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

# From <linux/prctl.h>.
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(sig: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send `sig` to this process when its parent ends, however it ends.

    The parent is, to the kernel, the thread that started this process: it should be one that stays.
    Ends the process at once when the parent ended while this was being arranged.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit(1)
