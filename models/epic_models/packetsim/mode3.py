"""Mode III: `epic_models.reference.mode3`, compiled. Realizes EPIC-M3-01 to EPIC-M3-25 as far as good frames go."""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import cells, ranks, rto
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.net import copy_row, free_row, transmit
from epic_models.packetsim.timers import arm, seconds
from epic_models.packetsim.world import ACKREQ, CE, DATA, LAST, NULL

REORDER_THRESHOLD = 3
_OUTSTANDING, _EARLY = 1, 2


@kernel
def _send(w, end, cell, size, row, congested):  # type: ignore[no-untyped-def]
    """A cell's packet from an end; `size` 0 is NULL."""
    flags = LAST | ACKREQ
    if size == 0:
        flags |= NULL
    group = w.groups[w.ends[end].group]
    if congested and group.ecn:
        flags |= CE
    transmit(w, end, DATA, cell, flags, size + group.header, row, 0)


# ------------------------------------------------------------------------------------------------------------- engine


@kernel
def on_child(w, entry_index, child, p):  # type: ignore[no-untyped-def]
    """A contribution has come from a child."""
    entry = w.entries[entry_index]
    group = w.groups[entry.group]
    slot = w.slots[entry.slots + p.number % entry.slot_count]
    age = p.number - slot.tag
    if age < 0:
        entry.stale += 1
        return
    bit = np.uint64(1) << np.uint64(child)
    if age > 0:
        if group.guard and not (slot.done and age == entry.slot_count):
            entry.refused += 1
            return
        free_row(w, slot.row)
        slot.tag, slot.bitmap, slot.row = p.number, np.uint64(0), -1
        slot.done, slot.served, slot.null, slot.ce = 0, 0, 1, 0
    elif slot.bitmap & bit:
        _duplicate(w, entry_index, child, p.number)
        return
    slot.ce |= p.flags & CE
    if not p.flags & NULL:
        slot.null = 0
        if slot.row < 0:
            slot.row = p.row
            p.row = -1
        else:
            for lane in range(w.sim[0].lanes):
                w.rows[slot.row, lane] += w.rows[p.row, lane]
    slot.bitmap |= bit
    if slot.bitmap != entry.full:
        return
    entry.completed += 1
    slot.result_ce = slot.ce
    if entry.parent < 0:
        _finish(w, entry_index, p.number)
    else:
        _partial(w, entry_index, p.number)


@kernel
def _duplicate(w, entry_index, child, cell):  # type: ignore[no-untyped-def]
    entry = w.entries[entry_index]
    slot = w.slots[entry.slots + cell % entry.slot_count]
    entry.duplicate += 1
    if slot.done:
        if slot.served:
            entry.replay += 1
            _result(w, entry_index, child, cell)
    elif slot.bitmap == entry.full and child == 0:
        # One child is enough, for none of them can have the result.
        entry.resend += 1
        _partial(w, entry_index, cell)


@kernel
def _partial(w, entry_index, cell):  # type: ignore[no-untyped-def]
    entry = w.entries[entry_index]
    slot = w.slots[entry.slots + cell % entry.slot_count]
    size = np.int64(0) if slot.null else cells.size(w.groups[entry.group], cell)
    _send(w, entry.parent, cell, size, copy_row(w, slot.row), slot.result_ce)


@kernel
def on_parent(w, entry_index, p):  # type: ignore[no-untyped-def]
    """A result has come from the parent."""
    entry = w.entries[entry_index]
    slot = w.slots[entry.slots + p.number % entry.slot_count]
    age = p.number - slot.tag
    if age < 0:
        entry.stale += 1
    elif age > 0 or slot.bitmap != entry.full:
        entry.refused += 1
    elif slot.done:
        entry.duplicate += 1
    else:
        slot.result_ce |= p.flags & CE
        free_row(w, slot.row)
        slot.row = p.row
        p.row = -1
        slot.null = 1 if p.flags & NULL else 0
        _finish(w, entry_index, p.number)


@kernel
def _finish(w, entry_index, cell):  # type: ignore[no-untyped-def]
    """The result is known: keep it for replays and multicast it."""
    entry = w.entries[entry_index]
    slot = w.slots[entry.slots + cell % entry.slot_count]
    slot.done, slot.served = 1, 1
    for child in range(entry.fan_in):
        _result(w, entry_index, child, cell)


@kernel
def _result(w, entry_index, child, cell):  # type: ignore[no-untyped-def]
    entry = w.entries[entry_index]
    group = w.groups[entry.group]
    slot = w.slots[entry.slots + cell % entry.slot_count]
    index = w.children[entry.children + child]
    end = w.ends[index]
    if slot.null or not cells.receives(w, group, end.low, end.high, cell):
        _send(w, index, cell, np.int64(0), -1, slot.result_ce)
    else:
        _send(w, index, cell, cells.size(group, cell), copy_row(w, slot.row), slot.result_ce)


# -------------------------------------------------------------------------------------------------------------- agent


@kernel
def _place(w, end, cell):  # type: ignore[no-untyped-def]
    return w.pending[end.ring + cell % end.ring_size]


@kernel
def contribute(w, index):  # type: ignore[no-untyped-def]
    """Contribute the next cell."""
    agent = w.agents[index]
    end = w.ends[agent.end]
    cell = agent.next
    agent.next += 1
    waiting = _place(w, end, cell)
    waiting.sent = seconds(w)
    waiting.transmissions, waiting.state, waiting.row = 1, _OUTSTANDING, -1
    size, row = ranks.contribution(w, agent, cell)
    end.first_sent += 1
    _send(w, agent.end, cell, size, row, 0)
    arm(w, agent.end, waiting.sent + rto.value(end, w.groups[agent.group]))


@kernel
def on_result(w, index, p):  # type: ignore[no-untyped-def]
    """A result has come."""
    agent = w.agents[index]
    end = w.ends[agent.end]
    group = w.groups[agent.group]
    cell = p.number
    if cell < agent.delivered or cell >= agent.next:
        return
    waiting = _place(w, end, cell)
    if waiting.state != _OUTSTANDING:
        return
    before = rto.value(end, group)
    if waiting.transmissions == 1:
        rto.sample(end, group, seconds(w) - waiting.sent)
    end.backoff = 1
    waiting.state = _EARLY
    waiting.flags = p.flags
    waiting.row = p.row
    p.row = -1
    agent.newest = max(agent.newest, cell)
    while agent.delivered < agent.next:
        ready = _place(w, end, agent.delivered)
        if ready.state != _EARLY:
            break
        ready.state = 0
        ranks.deliver(w, index, ready.flags, ready.row)
        free_row(w, ready.row)
        ready.row = -1
    for number in range(agent.delivered, agent.newest - REORDER_THRESHOLD + 1):
        late = _place(w, end, number)
        if late.state == _OUTSTANDING and late.transmissions == 1:
            _resend(w, index, number)
    if rto.value(end, group) < before:
        arm(w, agent.end, deadline(w, index))


@kernel
def _resend(w, index, cell):  # type: ignore[no-untyped-def]
    agent = w.agents[index]
    end = w.ends[agent.end]
    waiting = _place(w, end, cell)
    waiting.sent = seconds(w)
    waiting.transmissions += 1
    end.retransmissions += 1
    size, row = ranks.contribution(w, agent, cell)
    _send(w, agent.end, cell, size, row, 0)


@kernel
def deadline(w, index):  # type: ignore[no-untyped-def]
    """When the oldest contribution has to be repeated, in seconds, or infinity."""
    agent = w.agents[index]
    end = w.ends[agent.end]
    oldest = np.inf
    for cell in range(agent.delivered, agent.next):
        waiting = _place(w, end, cell)
        if waiting.state == _OUTSTANDING and waiting.sent < oldest:
            oldest = waiting.sent
    return oldest + rto.value(end, w.groups[agent.group])


@kernel
def timer(w, index, now):  # type: ignore[no-untyped-def]
    """Repeat what is due at `now` (seconds)."""
    agent = w.agents[index]
    end = w.ends[agent.end]
    timeout = rto.value(end, w.groups[agent.group])
    expired = False
    for cell in range(agent.delivered, agent.next):
        waiting = _place(w, end, cell)
        if waiting.state == _OUTSTANDING and waiting.sent + timeout <= now:
            expired = True
            _resend(w, index, cell)
    if expired:
        rto.expired(end, w.groups[agent.group])
