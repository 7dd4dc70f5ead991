"""The next arrivals of links: a timing wheel, so that an event costs the same however many links are in use.

Buckets of `2^wheel_shift` picoseconds, a turn of the wheel longer than most packets are on their way. A bucket is a
list of links in the order of their arrivals; a bit says whether it has any, and a bit of `sim.wheel` whether one of
64 buckets has. What a turn does not reach, or what would take long to insert, goes to the heap (`heap`); the earlier
of the two firsts is the next event, so where an event waits changes nothing but the time it takes.

(Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987.)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba.cpython.unsafe import numbers

from epic_models.packetsim.heap import push
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.world import ARRIVE

# The number of the lowest bit that is set; for compiled code only.
_lowest: Any = numbers.trailing_zeros

BUCKETS: Final = 4096
_MASK: Final = BUCKETS - 1
# Entries that an insertion goes past before the heap is the better place.
_STEPS: Final = 8
_NONE, _ONE = np.uint64(0), np.uint64(1)
_ALL = np.uint64(2**64 - 1)


@kernel
def insert(w, link, time, order):  # type: ignore[no-untyped-def]
    """Schedule the arrival of a link's first packet."""
    s = w.sim[0]
    tick = time >> np.int64(s.wheel_shift)
    if tick - (s.now >> np.int64(s.wheel_shift)) >= BUCKETS:
        push(w, time, ARRIVE, order, link)
        return
    bucket = tick & _MASK
    mine = w.wheel[link]
    mine.time, mine.order, mine.next = time, order, -1
    first = w.wheel_first[bucket]
    if first < 0:
        w.wheel_first[bucket] = link
        w.wheel_last[bucket] = link
        word = bucket >> 6
        w.wheel_words[word] |= _ONE << np.uint64(bucket & 63)
        s.wheel |= _ONE << np.uint64(word)
        return
    last = w.wheel[w.wheel_last[bucket]]
    if last.time < time or (last.time == time and last.order < order):
        last.next = link
        w.wheel_last[bucket] = link
        return
    head = w.wheel[first]
    if time < head.time or (time == head.time and order < head.order):
        mine.next = first
        w.wheel_first[bucket] = link
        return
    at = head
    for _ in range(_STEPS):
        following = w.wheel[at.next]
        if time < following.time or (time == following.time and order < following.order):
            mine.next = at.next
            at.next = link
            return
        at = following
    push(w, time, ARRIVE, order, link)


@kernel
def first(w):  # type: ignore[no-untyped-def]
    """The link whose arrival is the earliest of those in the wheel, or -1."""
    s = w.sim[0]
    if s.wheel == _NONE:
        return np.int32(-1)
    bucket = (s.now >> np.int64(s.wheel_shift)) & _MASK
    word = bucket >> 6
    bits = w.wheel_words[word] & (_ALL << np.uint64(bucket & 63))
    if bits == _NONE:
        # The next word that has any, around the wheel; this one comes last, with the buckets before the current one.
        words = s.wheel & ((_ALL << np.uint64(word)) << _ONE)
        if words == _NONE:
            words = s.wheel
        word = np.int64(_lowest(words))
        bits = w.wheel_words[word]
    return w.wheel_first[(word << 6) + np.int64(_lowest(bits))]


@kernel
def drop(w, link):  # type: ignore[no-untyped-def]
    """Take out the entry that `first` gave."""
    s, mine = w.sim[0], w.wheel[link]
    bucket = (mine.time >> np.int64(s.wheel_shift)) & _MASK
    w.wheel_first[bucket] = mine.next
    if mine.next < 0:
        word = bucket >> 6
        w.wheel_words[word] &= ~(_ONE << np.uint64(bucket & 63))
        if w.wheel_words[word] == _NONE:
            s.wheel &= ~(_ONE << np.uint64(word))
