"""When transfers end: a heap of those that run, in which each knows its place, so that a new rate moves one entry."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def _before(s, a, b):  # type: ignore[no-untyped-def]
    """By time, then by number: what ends first must not hang on the order of insertion."""
    x, y = s.transfers[a].finish, s.transfers[b].finish
    return x < y or (x == y and a < b)


@njit(cache=True)
def _put(s, place, t):  # type: ignore[no-untyped-def]
    s.ends[place] = t
    s.transfers[t].place = place


@njit(cache=True)
def moved(s, t):  # type: ignore[no-untyped-def]
    """The finish of a transfer in the heap has changed."""
    place = s.transfers[t].place
    while place > 0:
        above = (place - 1) >> 1
        if not _before(s, t, s.ends[above]):
            break
        _put(s, place, s.ends[above])
        place = above
    count = s.sim[0].ends
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and _before(s, s.ends[below + 1], s.ends[below]):
            below += 1
        if not _before(s, s.ends[below], t):
            break
        _put(s, place, s.ends[below])
        place = below
    _put(s, place, t)


@njit(cache=True)
def push(s, t):  # type: ignore[no-untyped-def]
    """A transfer begins."""
    s.sim[0].ends += 1
    s.transfers[t].place = s.sim[0].ends - 1
    moved(s, t)


@njit(cache=True)
def remove(s, t):  # type: ignore[no-untyped-def]
    """A transfer does not run any more."""
    sim = s.sim[0]
    place = s.transfers[t].place
    sim.ends -= 1
    last = s.ends[sim.ends]
    if last != t:
        _put(s, place, last)
        moved(s, last)
    s.transfers[t].place = -1
