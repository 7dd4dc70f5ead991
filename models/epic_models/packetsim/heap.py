"""The events that are not in the timing wheel (`wheel`): a binary heap over three arrays, ordered by time, then kind of
event, then order of scheduling.

A link has one entry, for its next arrival, here or in the wheel: packets on a link come in order and wait in a list of
their own (`net`), so the heap is as large as the timers that run and what the wheel does not reach.
"""

from __future__ import annotations

from typing import Final

from epic_models.packetsim.kernel import kernel

# An event's kind in the high bits of its key, so that kinds of one time have an order of their own.
KIND: Final = 1 << 56
ORDER: Final = KIND - 1


@kernel
def push(w, time, kind, order, what):  # type: ignore[no-untyped-def]
    """Schedule `what` (an index that `kind` explains) at `time`."""
    key = kind * KIND + (order & ORDER)
    times, keys, whats = w.heap_time, w.heap_key, w.heap_what
    i = w.sim[0].heap
    if i >= times.shape[0]:
        w.sim[0].full = 1
        return
    w.sim[0].heap = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if times[parent] < time or (times[parent] == time and keys[parent] <= key):
            break
        times[i], keys[i], whats[i] = times[parent], keys[parent], whats[parent]
        i = parent
    times[i], keys[i], whats[i] = time, key, what


@kernel
def drop_first(w):  # type: ignore[no-untyped-def]
    """Take the first event out; its fields are read before."""
    times, keys, whats = w.heap_time, w.heap_key, w.heap_what
    count = w.sim[0].heap - 1
    w.sim[0].heap = count
    if count == 0:
        return
    time, key, what = times[count], keys[count], whats[count]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        right = child + 1
        if right < count and (
            times[right] < times[child] or (times[right] == times[child] and keys[right] < keys[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and key <= keys[child]):
            break
        times[i], keys[i], whats[i] = times[child], keys[child], whats[child]
        i = child
    times[i], keys[i], whats[i] = time, key, what
