"""Reliable connections: `epic_models.reference.rc`, compiled. A requester's packets wait in a ring of records.

Realizes EPIC-F-01, EPIC-F-02 and the edge rules of Modes I and II.
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import rto
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.net import copy_row, free_row, transmit
from epic_models.packetsim.timers import arm, seconds
from epic_models.packetsim.world import ACK, ACKREQ, CE, DATA, LAST, NAK, RNR

EXPECTED, DUPLICATE, GAP = 0, 1, 2
# What an ACK or NAK takes on the wire: Ethernet 14 + 4 and 20 between frames, IPv4 20, UDP 8, BTH 12, AETH 4, ICRC 4.
ACK_BYTES = 86


@kernel
def next_deadline(end):  # type: ignore[no-untyped-def]
    """When `poll` is due, in seconds, or infinity."""
    if end.failed or end.una == end.next:
        return np.inf
    return end.deadline if end.not_ready_until < 0.0 else end.not_ready_until


@kernel
def _pending(w, end, number):  # type: ignore[no-untyped-def]
    return w.pending[end.ring + number % end.ring_size]


@kernel
def send(w, index, flags, size, row):  # type: ignore[no-untyped-def]
    """Segment a message of `size` bytes and send it, or queue it behind a pause. `row` becomes the connection's."""
    end = w.ends[index]
    group = w.groups[end.group]
    message = end.messages
    end.messages += 1
    if end.failed:
        free_row(w, row)
        return
    first = end.next
    left = np.int64(size)
    while True:
        part = min(left, np.int64(group.payload))
        left -= part
        p = _pending(w, end, end.next)
        p.message, p.sent, p.transmissions, p.size, p.row = message, seconds(w), 0, part, -1
        p.flags = flags & ~LAST
        end.next += 1
        if left <= 0:
            p.flags |= LAST
            p.row = row
            break
    if end.deadline == np.inf:
        end.deadline = seconds(w) + rto.value(end, group)
    if end.not_ready_until < 0.0:
        _transmit(w, index, first)
    arm(w, index, next_deadline(end))


@kernel
def _transmit(w, index, first):  # type: ignore[no-untyped-def]
    """Send all packets from number `first` on."""
    end = w.ends[index]
    group = w.groups[end.group]
    for number in range(first, end.next):
        p = _pending(w, end, number)
        p.transmissions += 1
        if p.transmissions > 1:
            end.retransmissions += 1
        elif p.flags & LAST:
            end.first_sent += 1
        flags = p.flags
        if (flags & LAST and (number + 1) % group.ack_every == 0) or number + 1 == end.next:
            flags |= ACKREQ
        transmit(w, index, DATA, number, flags, p.size + group.header, copy_row(w, p.row), p.message)


@kernel
def on_ack(w, index, kind, number):  # type: ignore[no-untyped-def]
    """An ACK, NAK or RNR NAK that names packet `number` of this direction. False when it was unexpected."""
    end = w.ends[index]
    if number >= end.next:
        return False
    if kind == ACK:
        paused = end.not_ready_until >= 0.0
        acknowledge(w, index, number + 1)
        if paused and end.not_ready_until < 0.0:
            _go_back(w, index)
        return True
    acknowledge(w, index, number)
    if kind == RNR:
        if end.una < end.next and end.una == number:
            end.not_ready_until = seconds(w) + w.groups[end.group].rnr
            end.retries = 0
            arm(w, index, next_deadline(end))
        return True
    if number <= end.nak_served:
        return True
    end.nak_served = number
    _go_back(w, index)
    return True


@kernel
def acknowledge(w, index, before):  # type: ignore[no-untyped-def]
    """All packets with numbers below `before` have arrived."""
    end = w.ends[index]
    group = w.groups[end.group]
    if before <= end.una or end.una == end.next:
        return
    while end.una < before and end.una < end.next:
        p = _pending(w, end, end.una)
        if end.una == before - 1 and p.transmissions == 1:
            rto.sample(end, group, seconds(w) - p.sent)
        free_row(w, p.row)
        p.row = -1
        end.una += 1
    end.retries = 0
    end.not_ready_until = -1.0
    end.backoff = 1
    end.deadline = seconds(w) + rto.value(end, group) if end.una < end.next else np.inf
    arm(w, index, next_deadline(end))


@kernel
def acknowledge_messages(w, index, count):  # type: ignore[no-untyped-def]
    """All messages before number `count` are known to have arrived."""
    end = w.ends[index]
    before = end.una
    while before < end.next and _pending(w, end, before).message < count:
        before += 1
    if before > end.una:
        acknowledge(w, index, before)


@kernel
def acknowledged_messages(w, index):  # type: ignore[no-untyped-def]
    """Messages that are acknowledged as a whole."""
    end = w.ends[index]
    return _pending(w, end, end.una).message if end.una < end.next else end.messages


@kernel
def _go_back(w, index):  # type: ignore[no-untyped-def]
    end = w.ends[index]
    end.deadline = seconds(w) + rto.value(end, w.groups[end.group]) if end.una < end.next else np.inf
    _transmit(w, index, end.una)
    arm(w, index, next_deadline(end))


@kernel
def poll(w, index):  # type: ignore[no-untyped-def]
    """The timer is due: repeat all, or give the edge up. True when the edge has gone into error."""
    end = w.ends[index]
    group = w.groups[end.group]
    if end.not_ready_until >= 0.0:
        end.not_ready_until = -1.0
        _go_back(w, index)
        return False
    end.retries += 1
    if end.retries > group.retry_limit:
        end.failed = 1
        while end.una < end.next:
            p = _pending(w, end, end.una)
            free_row(w, p.row)
            p.row = -1
            end.una += 1
        return True
    rto.expired(end, group)
    end.nak_served = -1
    _go_back(w, index)
    return False


# ---------------------------------------------------------------------------------------------------- receiving side


@kernel
def classify(end, number):  # type: ignore[no-untyped-def]
    """Compare with the expected packet number."""
    if number == end.expected:
        return EXPECTED
    return DUPLICATE if number < end.expected else GAP


@kernel
def out_of_order(w, index, arrival):  # type: ignore[no-untyped-def]
    """Answer a packet that is not the expected one: an older one is acknowledged again, a newer gets one NAK a gap."""
    if arrival == DUPLICATE:
        _answer(w, index, ACK, w.ends[index].expected - 1)
    elif not w.ends[index].nak_sent:
        w.ends[index].nak_sent = 1
        _answer(w, index, NAK, w.ends[index].expected)


@kernel
def accept(w, index, completes, ackreq, flags):  # type: ignore[no-untyped-def]
    """The expected packet was stored. `flags` are those of its acknowledgement."""
    end = w.ends[index]
    end.expected += 1
    end.received += completes
    end.nak_sent = 0
    if ackreq:
        transmit(w, index, ACK, end.expected - 1, flags, ACK_BYTES, -1, 0)


@kernel
def not_ready(w, index):  # type: ignore[no-untyped-def]
    """There is no buffer for the expected packet now."""
    w.ends[index].nak_sent = 1
    _answer(w, index, RNR, w.ends[index].expected)


@kernel
def _answer(w, index, kind, number):  # type: ignore[no-untyped-def]
    transmit(w, index, kind, number, 0, ACK_BYTES, -1, 0)


@kernel
def reassemble(w, index, p):  # type: ignore[no-untyped-def]
    """Take a packet in order. True when the message is whole: then `part_bytes`, `part_ce` and `part_row` have it."""
    end = w.ends[index]
    if end.parts == 0:
        end.part_bytes, end.part_ce = 0, 0
    end.parts += 1
    end.part_bytes += p.size - w.groups[end.group].header
    end.part_ce |= p.flags & CE
    if not p.flags & LAST:
        return False
    end.parts = 0
    end.part_row = p.row
    p.row = -1
    return True
