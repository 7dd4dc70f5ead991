"""Timers of ends: at most one event each, never later than the deadline; one that comes early is scheduled again."""

from __future__ import annotations

import math

import numpy as np

from epic_models.packetsim.heap import push
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.world import PS, TIMER

NEVER = np.int64(1) << np.int64(62)


@kernel
def seconds(w):  # type: ignore[no-untyped-def]
    """The time now, in seconds."""
    return w.sim[0].now * PS


@kernel
def arm(w, index, deadline):  # type: ignore[no-untyped-def]
    """Have end `index` looked at by `deadline` (seconds; infinity: not at all)."""
    if deadline == np.inf:
        return
    end = w.ends[index]
    at = max(np.int64(math.ceil(deadline / PS)), w.sim[0].now)
    if at < end.timer_at:
        end.timer_at = at
        push(w, at, TIMER, np.int64(index), index)
