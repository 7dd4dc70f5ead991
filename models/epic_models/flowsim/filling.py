"""Max-min fair rates, brought up to date after some transfers have begun or ended.

Rates are max-min fair iff every transfer is at its bound, or on a full link where nobody has a higher rate (Bertsekas
and Gallager, Data Networks, 6.5.2; the proof holds for weights too). So only some transfers are filled anew, with the
others as they are: those that began, and those whose limiting link has lost somebody. Then every link that these touch
is looked at: whoever is not limited there as the condition says is taken in, and all are filled again. When nobody is,
the condition holds everywhere, however few were looked at.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from epic_models.flowsim import ends
from epic_models.flowsim.state import UNLIMITED

# Relative differences of rates that count as none: rounding.
_SAME = 1e-9
_FULL = 1.0 + 1e-9


@njit(cache=True)
def seed(s, t):  # type: ignore[no-untyped-def]
    """The rate of a transfer is to be found anew."""
    if not s.transfers[t].seeded:
        s.transfers[t].seeded = 1
        s.seeds[s.sim[0].seeds] = t
        s.sim[0].seeds += 1


@njit(cache=True)
def contended(link):  # type: ignore[no-untyped-def]
    """Whether a link can limit anybody."""
    return link.offered > link.capacity * _FULL


@njit(cache=True)
def settle(s, now):  # type: ignore[no-untyped-def]
    """Bring all rates up to date. After it every running transfer has a finish."""
    sim = s.sim[0]
    sim.mark += 1
    chosen = 0
    for i in range(sim.seeds):
        t = s.seeds[i]
        s.transfers[t].seeded = 0
        if s.transfers[t].place >= 0:
            chosen = _choose(s, t, chosen)
    sim.seeds = 0
    before, touched = 0, 0
    while before < chosen:
        for i in range(before, chosen):
            touched = _touch(s, s.chosen[i], touched)
        before = chosen
        _fill(s, chosen, touched)
        sim.fillings += 1
        sim.looked_at += chosen
        for i in range(touched):
            chosen = _take_in(s, s.touched[i], chosen)
    for i in range(chosen):
        _commit(s, s.chosen[i], now)


@njit(cache=True)
def _choose(s, t, chosen):  # type: ignore[no-untyped-def]
    s.transfers[t].mark = s.sim[0].mark
    s.chosen[chosen] = t
    return chosen + 1


@njit(cache=True)
def _touch(s, t, touched):  # type: ignore[no-untyped-def]
    """Note the links that may limit a transfer."""
    mark = s.sim[0].mark
    for e in range(s.transfers[t].first, s.transfers[t].first + s.transfers[t].count):
        link = s.links[s.entries[e].link]
        if link.mark != mark and contended(link):
            link.mark = mark
            s.touched[touched] = s.entries[e].link
            touched += 1
    return touched


@njit(cache=True)
def _fill(s, chosen, touched):  # type: ignore[no-untyped-def]
    """Rates of the chosen in what the others leave: all rise together, whoever meets a full link or its bound stays."""
    mark, links = s.sim[0].mark, len(s.links)
    size = 0
    for i in range(chosen):
        t = s.chosen[i]
        s.transfers[t].fresh = -1.0
        size = _push(s, size, s.transfers[t].bound, links + t)
    for i in range(touched):
        link = s.links[s.touched[i]]
        left, weight, count = link.capacity, 0.0, 0
        e = link.first
        while e >= 0:
            entry = s.entries[e]
            other = s.transfers[entry.owner]
            if other.mark == mark:
                weight += entry.weight
                count += 1
            else:
                left -= entry.weight * other.rate
            e = entry.next
        link.left, link.weight, link.open = max(left, 0.0), weight, count
        size = _push(s, size, link.left / weight, s.touched[i])
    while size > 0:
        key, name = s.keys[0], s.names[0]
        size = _pop(s, size)
        if name >= links:
            if s.transfers[name - links].fresh < 0.0:
                _freeze(s, name - links, key, UNLIMITED)
            continue
        link = s.links[name]
        if link.open == 0:
            continue
        level = link.left / link.weight
        if level > key * (1.0 + 1e-13):
            # Others on it have stayed behind since; levels only rise.
            size = _push(s, size, level, name)
            continue
        e = link.first
        while e >= 0:
            entry = s.entries[e]
            t = s.transfers[entry.owner]
            if t.mark == mark and t.fresh < 0.0:
                _freeze(s, entry.owner, level, name)
            e = entry.next


@njit(cache=True)
def _freeze(s, index, rate, limit):  # type: ignore[no-untyped-def]
    t = s.transfers[index]
    t.fresh, t.limit = rate, limit
    for e in range(t.first, t.first + t.count):
        link = s.links[s.entries[e].link]
        if link.mark == s.sim[0].mark:
            link.left = max(link.left - s.entries[e].weight * rate, 0.0)
            link.weight -= s.entries[e].weight
            link.open -= 1


@njit(cache=True)
def _take_in(s, index, chosen):  # type: ignore[no-untyped-def]
    """Choose those on a link who are limited by it no longer, and those who have more than one who is."""
    mark, link = s.sim[0].mark, s.links[index]
    load, top, low, outside = 0.0, 0.0, np.inf, 0
    e = link.first
    while e >= 0:
        entry = s.entries[e]
        t = s.transfers[entry.owner]
        mine = t.mark == mark and t.fresh >= 0.0
        rate = t.fresh if mine else t.rate
        load += entry.weight * rate
        top = max(top, rate)
        if mine and t.limit == index:
            low = min(low, rate)
        outside += t.mark != mark
        e = entry.next
    if outside == 0:
        return chosen
    slack = load < link.capacity * (1.0 - _SAME)
    e = link.first
    while e >= 0:
        entry = s.entries[e]
        t = s.transfers[entry.owner]
        if t.mark != mark:
            freed = t.limit == index and (slack or t.rate < top * (1.0 - _SAME))
            if freed or t.rate > low * (1.0 + _SAME):
                chosen = _choose(s, entry.owner, chosen)
                t.fresh = -1.0
        e = entry.next
    return chosen


@njit(cache=True)
def _commit(s, index, now):  # type: ignore[no-untyped-def]
    """The transfer goes on at its new rate."""
    t = s.transfers[index]
    if abs(t.fresh - t.rate) <= 1e-13 * t.rate:
        return
    t.left = max(t.left - t.rate * (now - t.since), 0.0)
    t.since, t.rate = now, t.fresh
    t.finish = now + t.left / t.rate if t.rate > 0.0 else np.inf
    ends.moved(s, index)


@njit(cache=True)
def _push(s, size, key, name):  # type: ignore[no-untyped-def]
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if s.keys[above] < key or (s.keys[above] == key and s.names[above] <= name):
            break
        s.keys[at], s.names[at] = s.keys[above], s.names[above]
        at = above
    s.keys[at], s.names[at] = key, name
    return size + 1


@njit(cache=True)
def _pop(s, size):  # type: ignore[no-untyped-def]
    size -= 1
    key, name = s.keys[size], s.names[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and (
            s.keys[below + 1] < s.keys[below]
            or (s.keys[below + 1] == s.keys[below] and s.names[below + 1] < s.names[below])
        ):
            below += 1
        if key < s.keys[below] or (key == s.keys[below] and name <= s.names[below]):
            break
        s.keys[at], s.names[at] = s.keys[below], s.names[below]
        at = below
    s.keys[at], s.names[at] = key, name
    return size
