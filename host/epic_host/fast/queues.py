"""The departures as kernels see them: a World of frames.Departures."""

from __future__ import annotations

from typing import Final

import numpy as np

from epic_host.fast.frames import Departures
from epic_host.fast.world import Shape, World

# Heads and tails are bytes in a row.
DEPARTURES: Final = Shape(
    "Departures",
    {
        "head": np.uint8,
        "tail": np.uint8,
        "body": np.uint64,
        "length": np.int32,
        "edge": np.int32,
        "ecn": np.uint8,
        "count": np.int64,
    },
)


def departures_world(departures: Departures) -> World:
    """The World of the departures, which it shares."""
    head, tail, *rest = departures
    names = DEPARTURES.order[2:]
    return DEPARTURES.make(
        head=head.reshape(-1), tail=tail.reshape(-1), **dict(zip(names, rest, strict=True))
    )
