"""The fast data path: frames in batches, state in arrays, work in compiled kernels.

It stands behind the same interfaces as the reference path (`Agent`, `Engine`) and gives the same frames, events and
counters for the same frames. A datagram crosses it without a Python object of its own: the transport fills `Arrivals`,
a node's kernels check them, work on slots and users' memory, and fill `Departures`, which the transport sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# What `--datapath` chooses from.
DATAPATHS: Final = ("reference", "fast")


def prepare(modes: Iterable[int]) -> None:
    """Compile the kernels of these modes, or load them, in this process; its children load what it has compiled.

    Takes seconds to minutes the first time and after a change, else a moment.
    """
    # Here, so that nobody who does not need it imports a compiler.
    from epic_host.fast.warm import prepare as prepare_all

    prepare_all(modes)
