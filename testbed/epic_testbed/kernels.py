"""Compiled code of the fast data path, made before the processes that need it are started.

Without that each of them would compile the same, at the same time, while the others wait for it.
"""

from __future__ import annotations

import sys

from epic_testbed.forked import NurseryCall


def prepare(datapath: str, mode: int) -> None:
    """Have all kernels of a mode compiled; says so on standard error when that is still to be done."""
    if datapath != "fast":
        return
    from epic_host import fast
    from epic_host.fast import sockets

    if not sockets.compiled_before():
        print(
            "epic: compiling the fast data path, once for this installation; it takes a minute",
            file=sys.stderr,
        )
    sockets.load()
    fast.prepare((mode,))


def call(datapath: str, mode: int) -> NurseryCall:
    """`prepare` for those who have it called in another process."""
    return f"{__name__}:{prepare.__name__}", datapath, mode
