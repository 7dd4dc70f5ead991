"""Packets, links and queues.

A link is an output queue, a wire and its delay. Without PFC the time at which a packet has left is known when it comes
(first in, first out), so that a packet costs one event a hop. With PFC a link may be told to pause, so that each packet
has a second event, at the end of its transmission.
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import wheel
from epic_models.packetsim.heap import push
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.world import CE, DATA, LATE, PAUSE, PLAIN, SENT

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TWO_53 = float(1 << 53)

LOST, DUPLICATED, HELD = 1, 2, 3


@kernel
def mix(a, b, c, d):  # type: ignore[no-untyped-def]
    """A 64-bit hash of four numbers (steps of splitmix64, Steele et al. 2014): randomness without a state."""
    x = np.uint64(a)
    for part in (np.uint64(b), np.uint64(c), np.uint64(d)):
        x = (x ^ part) + _GOLDEN
        x = (x ^ (x >> _S30)) * _MIX_1
        x = (x ^ (x >> _S27)) * _MIX_2
        x = x ^ (x >> _S31)
    return x


@kernel
def uniform(a, b, c, d):  # type: ignore[no-untyped-def]
    """A number from [0, 1) that the four numbers give."""
    return float(mix(a, b, c, d) >> _S11) / _TWO_53


# ------------------------------------------------------------------------------------------------------------ pools


@kernel
def new_packet(w):  # type: ignore[no-untyped-def]
    """A packet from the pool, or -1 when it is used up."""
    s = w.sim[0]
    i = s.free_packet
    if i < 0:
        s.full = 1
        return i
    s.free_packet = w.packets[i].next
    s.in_flight += 1
    if s.in_flight > s.most_in_flight:
        s.most_in_flight = s.in_flight
    return i


@kernel
def free_packet(w, i):  # type: ignore[no-untyped-def]
    """Give a packet back, with its row of values."""
    s, p = w.sim[0], w.packets[i]
    free_row(w, p.row)
    p.row = -1
    p.next = s.free_packet
    s.free_packet = i
    s.in_flight -= 1


@kernel
def new_row(w):  # type: ignore[no-untyped-def]
    """A row for a payload's values; -1 where none are simulated."""
    s = w.sim[0]
    if s.lanes == 0:
        return -1
    i = s.free_row
    if i < 0:
        s.full = 1
        return i
    s.free_row = w.row_next[i]
    return i


@kernel
def free_row(w, row):  # type: ignore[no-untyped-def]
    """Give a row back."""
    if row >= 0:
        w.row_next[row] = w.sim[0].free_row
        w.sim[0].free_row = row


@kernel
def copy_row(w, row):  # type: ignore[no-untyped-def]
    """Another row with the same values; -1 of -1."""
    if row < 0:
        return row
    new = new_row(w)
    if new >= 0:
        for lane in range(w.sim[0].lanes):
            w.rows[new, lane] = w.rows[row, lane]
    return new


# ------------------------------------------------------------------------------------------------------------- links


@kernel
def transmit(w, end_index, kind, number, flags, size, row, message):  # type: ignore[no-untyped-def]
    """Send a packet from an end to its peer. `size` is that on the wire; `row` becomes the packet's."""
    i = new_packet(w)
    if i < 0:
        free_row(w, row)
        return
    end, p = w.ends[end_index], w.packets[i]
    p.kind, p.number, p.flags, p.size, p.row, p.message = kind, number, flags, size, row, message
    p.end, p.at, p.stop, p.ingress = end.peer, end.path, end.path_stop, -1
    forward(w, i)


@kernel
def forward(w, i):  # type: ignore[no-untyped-def]
    """Put a packet on the next link of its path, through that link's faults."""
    p = w.packets[i]
    index = w.paths[p.at]
    link = w.links[index]
    k = link.offered
    link.offered = k + 1
    fate, hold = 0, link.hold
    if w.script.shape[0]:
        fate, hold = scripted(w, index, k)
    elif link.faulty:
        x = uniform(w.sim[0].seed, index, k, 1)
        if x < link.loss:
            fate = LOST
        elif x < link.loss + link.duplicate:
            fate = DUPLICATED
        elif x < link.loss + link.duplicate + link.reorder:
            fate = HELD
            hold = np.int64(link.hold * uniform(w.sim[0].seed, index, k, 2))
    if fate == LOST or not link.up:
        link.lost += 1
        leave_ingress(w, i)
        free_packet(w, i)
        return
    if fate == DUPLICATED:
        link.duplicated += 1
        twin = new_packet(w)
        if twin >= 0:
            t = w.packets[twin]
            t.kind, t.number, t.flags, t.size, t.message = p.kind, p.number, p.flags, p.size, p.message
            t.end, t.at, t.stop, t.ingress, t.row = p.end, p.at, p.stop, -1, copy_row(w, p.row)
            enqueue(w, index, i)
            enqueue(w, index, twin)
            return
    if fate == HELD:
        # As in a node that holds a packet back: others overtake it, then it goes its way.
        link.reordered += 1
        s = w.sim[0]
        s.order += 1
        push(w, s.now + hold, LATE, s.order, i)
        return
    enqueue(w, index, i)


@kernel
def scripted(w, index, k):  # type: ignore[no-untyped-def]
    """The fate that a script has for packet number k of a link: rows of link, k, fate, hold."""
    for r in range(w.script.shape[0]):
        if w.script[r, 0] == index and w.script[r, 1] == k:
            return w.script[r, 2], w.script[r, 3]
    return np.int64(0), np.int64(0)


@kernel
def enqueue(w, index, i):  # type: ignore[no-untyped-def]
    """A packet joins a link's queue: dropped at the tail when there is no room, marked when the queue is long."""
    s, link, p = w.sim[0], w.links[index], w.packets[i]
    took = np.int64(p.size * link.ps_per_byte)
    if s.pfc:
        depth = link.queued
    else:
        depth = np.int64((link.free_at - s.now) / link.ps_per_byte) if link.free_at > s.now else np.int64(0)
    if depth + p.size > link.capacity:
        link.dropped += 1
        leave_ingress(w, i)
        free_packet(w, i)
        return
    if depth + p.size > link.deepest:
        link.deepest = depth + p.size
    if depth > link.mark_above and (p.kind == DATA or p.kind == PLAIN):
        p.flags |= CE
        link.marked += 1
    link.packets += 1
    link.bytes += p.size
    s.order += 1
    p.order = s.order
    if s.pfc:
        p.next = -1
        link.queued += p.size
        if link.waiting < 0:
            link.waiting = i
        else:
            w.packets[link.waiting_last].next = i
        link.waiting_last = i
        start(w, index)
        return
    gone = max(link.free_at, s.now) + took
    link.free_at = gone
    fly(w, index, i, gone + link.delay)


@kernel
def fly(w, index, i, time):  # type: ignore[no-untyped-def]
    """A packet is on the wire until `time`; packets of one link arrive in order."""
    link, p = w.links[index], w.packets[i]
    p.time, p.next = time, -1
    if link.first < 0:
        link.first = i
        wheel.insert(w, index, time, p.order)
    else:
        w.packets[link.last].next = i
    link.last = i


@kernel
def start(w, index):  # type: ignore[no-untyped-def]
    """With PFC: begin to send the next packet of a link that is neither busy nor paused."""
    s, link = w.sim[0], w.links[index]
    if link.busy or link.paused or link.waiting < 0:
        return
    link.busy = 1
    p = w.packets[link.waiting]
    s.order += 1
    push(w, s.now + np.int64(p.size * link.ps_per_byte), SENT, s.order, index)


@kernel
def sent(w, index):  # type: ignore[no-untyped-def]
    """With PFC: the first packet of a link has left."""
    link = w.links[index]
    i = link.waiting
    p = w.packets[i]
    link.waiting = p.next
    link.queued -= p.size
    link.busy = 0
    leave_ingress(w, i)
    fly(w, index, i, w.sim[0].now + link.delay)
    start(w, index)


@kernel
def enter_ingress(w, i, index):  # type: ignore[no-untyped-def]
    """With PFC: a switch holds a packet that came over link `index`; it asks for a pause when it holds many."""
    p, link = w.packets[i], w.links[index]
    p.ingress = index
    link.ingress += p.size
    if link.ingress > link.xoff and not link.asked_pause:
        link.asked_pause = 1
        link.pauses += 1
        _ask(w, index, 1)


@kernel
def leave_ingress(w, i):  # type: ignore[no-untyped-def]
    """With PFC: a packet has left the switch, or was dropped there."""
    p = w.packets[i]
    if p.ingress < 0:
        return
    link = w.links[p.ingress]
    link.ingress -= p.size
    if link.asked_pause and link.ingress < link.xon:
        link.asked_pause = 0
        _ask(w, p.ingress, 0)
    p.ingress = -1


@kernel
def _ask(w, index, pause):  # type: ignore[no-untyped-def]
    """The pause frame takes the link's delay back."""
    s = w.sim[0]
    s.order += 1
    push(w, s.now + w.links[index].delay, PAUSE, s.order, 2 * index + pause)


@kernel
def paused(w, what):  # type: ignore[no-untyped-def]
    """A pause frame has come, or its end."""
    index = what >> 1
    w.links[index].paused = what & 1
    start(w, index)
