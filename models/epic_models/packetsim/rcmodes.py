"""Modes I and II: `epic_models.reference.rc_group`, `mode1`, `mode2` and `rc_agent`, compiled.

The two differ in what a cell is (a message, or a packet) and in what happens without a free buffer: Mode I answers RNR
NAK. `buffers` is B in Mode I and W in Mode II.
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import cells, ranks, rc
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.net import copy_row, free_row
from epic_models.packetsim.world import ACKREQ, CE, DATA, MODE1, NULL

# ------------------------------------------------------------------------------------------------------------- engine


@kernel
def _slot(w, entry, cell):  # type: ignore[no-untyped-def]
    return w.slots[entry.slots + cell % entry.slot_count]


@kernel
def _complete(w, entry, cell):  # type: ignore[no-untyped-def]
    slot = _slot(w, entry, cell)
    return slot.live and slot.tag == cell and slot.bitmap == entry.full


@kernel
def _bcast_free(w, entry):  # type: ignore[no-untyped-def]
    """Whether every child has acknowledged the result whose buffer the next one takes."""
    oldest = entry.passed - entry.slot_count
    for child in range(entry.fan_in):
        if rc.acknowledged_messages(w, w.children[entry.children + child]) <= oldest:
            return False
    return True


@kernel
def on_child(w, entry_index, child, p):  # type: ignore[no-untyped-def]
    """A packet has come from a child."""
    entry = w.entries[entry_index]
    group = w.groups[entry.group]
    index = w.children[entry.children + child]
    end = w.ends[index]
    if end.failed:
        return
    if p.kind != DATA:
        rc.on_ack(w, index, p.kind, p.number)
        if group.how == MODE1:
            publish_completed(w, entry_index)
        return
    arrival = rc.classify(end, p.number)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, index, arrival)
        return
    if group.how == MODE1:
        if end.parts == 0 and end.received >= entry.passed + entry.slot_count:
            entry.refused += 1
            rc.not_ready(w, index)
            return
        whole = rc.reassemble(w, index, p)
        rc.accept(w, index, whole, p.flags & ACKREQ, 0)
        if not whole:
            return
        cell = end.received - 1
        _store(w, entry_index, child, cell, end.part_bytes, end.part_ce, end.part_row)
    else:
        if end.expected >= entry.passed + group.window:
            entry.refused += 1
            return
        cell = end.expected
        row = p.row
        p.row = -1
        _store(w, entry_index, child, cell, p.size - group.header, p.flags & CE, row)
        rc.accept(w, index, True, p.flags & ACKREQ, 0)
    if _complete(w, entry, cell):
        entry.completed += 1
        if entry.parent >= 0:
            _send_partial(w, entry_index, cell)
        elif group.how == MODE1:
            publish_completed(w, entry_index)
        else:
            _publish_own(w, entry_index)


@kernel
def _store(w, entry_index, child, cell, size, congested, row):  # type: ignore[no-untyped-def]
    """Count a contribution into its slot. `row` becomes the slot's."""
    entry = w.entries[entry_index]
    slot = _slot(w, entry, cell)
    if not slot.live or slot.tag != cell:
        free_row(w, slot.row)
        slot.live, slot.tag, slot.bitmap, slot.row, slot.null, slot.ce = 1, cell, np.uint64(0), -1, 1, 0
    slot.ce |= congested
    if size > 0:
        slot.null = 0
        if slot.row < 0:
            slot.row = row
        else:
            for lane in range(w.sim[0].lanes):
                w.rows[slot.row, lane] += w.rows[row, lane]
            free_row(w, row)
    slot.bitmap |= np.uint64(1) << np.uint64(child)
    # Contribution s proves that this child has result s - W.
    window = w.groups[entry.group].window
    rc.acknowledge_messages(w, w.children[entry.children + child], cell - window + 1)


@kernel
def _send_partial(w, entry_index, cell):  # type: ignore[no-untyped-def]
    entry = w.entries[entry_index]
    slot = _slot(w, entry, cell)
    size = np.int64(0) if slot.null else cells.size(w.groups[entry.group], cell)
    rc.send(w, entry.parent, _flags(w, entry, slot.null, slot.ce), size, copy_row(w, slot.row))


@kernel
def _flags(w, entry, null, congested):  # type: ignore[no-untyped-def]
    flags = NULL if null else 0
    if congested and w.groups[entry.group].ecn:
        flags |= CE
    return flags


@kernel
def on_parent(w, entry_index, p):  # type: ignore[no-untyped-def]
    """A packet has come from the parent."""
    entry = w.entries[entry_index]
    group = w.groups[entry.group]
    index = entry.parent
    end = w.ends[index]
    if end.failed:
        return
    if p.kind != DATA:
        rc.on_ack(w, index, p.kind, p.number)
        return
    complete = _complete(w, entry, entry.passed)
    arrival = rc.classify(end, p.number)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, index, arrival)
        return
    if not complete:
        entry.refused += 1
        return
    if group.how == MODE1:
        if end.parts == 0 and not _bcast_free(w, entry):
            rc.not_ready(w, index)
            return
        whole = rc.reassemble(w, index, p)
        rc.accept(w, index, whole, p.flags & ACKREQ, 0)
        if whole:
            _result_arrived(w, entry_index, end.part_bytes, end.part_ce, end.part_row)
    else:
        row = p.row
        p.row = -1
        # The acknowledgement goes before the results, as in the reference; results go to other edges.
        _result_arrived(w, entry_index, p.size - group.header, p.flags & CE, row)
        rc.accept(w, index, True, p.flags & ACKREQ, 0)


@kernel
def _result_arrived(w, entry_index, size, congested, row):  # type: ignore[no-untyped-def]
    entry = w.entries[entry_index]
    slot = _slot(w, entry, entry.passed)
    rc.acknowledge_messages(w, entry.parent, entry.passed + 1)
    _publish(w, entry_index, size, congested | slot.ce, row)
    free_row(w, row)


@kernel
def _publish(w, entry_index, size, congested, row):  # type: ignore[no-untyped-def]
    """Send the next result to every child. `row` stays the caller's."""
    entry = w.entries[entry_index]
    group = w.groups[entry.group]
    for child in range(entry.fan_in):
        index = w.children[entry.children + child]
        end = w.ends[index]
        if size > 0 and cells.receives(w, group, end.low, end.high, entry.passed):
            rc.send(w, index, _flags(w, entry, 0, congested), size, copy_row(w, row))
        else:
            rc.send(w, index, _flags(w, entry, 1, congested), np.int64(0), -1)
    entry.passed += 1


@kernel
def _publish_own(w, entry_index):  # type: ignore[no-untyped-def]
    """Root: the sum of the next cell is the result."""
    entry = w.entries[entry_index]
    slot = _slot(w, entry, entry.passed)
    size = np.int64(0) if slot.null else cells.size(w.groups[entry.group], entry.passed)
    _publish(w, entry_index, size, slot.ce, slot.row)


@kernel
def publish_completed(w, entry_index):  # type: ignore[no-untyped-def]
    """Root of Mode I: publish completed cells in order, as far as there are buffers."""
    entry = w.entries[entry_index]
    while entry.parent < 0 and _bcast_free(w, entry) and _complete(w, entry, entry.passed):
        _publish_own(w, entry_index)


# -------------------------------------------------------------------------------------------------------------- agent


@kernel
def contribute(w, index):  # type: ignore[no-untyped-def]
    """Contribute the next cell."""
    agent = w.agents[index]
    cell = agent.next
    agent.next += 1
    size, row = ranks.contribution(w, agent, cell)
    rc.send(w, agent.end, NULL if size == 0 else 0, size, row)


@kernel
def at_agent(w, index, p):  # type: ignore[no-untyped-def]
    """A packet has come to a rank."""
    agent = w.agents[index]
    end = w.ends[agent.end]
    if end.failed:
        return
    if p.kind != DATA:
        rc.on_ack(w, agent.end, p.kind, p.number)
        return
    arrival = rc.classify(end, p.number)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, agent.end, arrival)
        return
    if agent.next == agent.delivered:
        return
    flags = p.flags
    whole = rc.reassemble(w, agent.end, p)
    rc.accept(w, agent.end, whole, flags & ACKREQ, 0)
    if not whole:
        return
    # The result of a cell acknowledges the contribution to it and to all before it.
    rc.acknowledge_messages(w, agent.end, agent.delivered + 1)
    row = end.part_row
    end.part_row = -1
    result = (NULL if end.part_bytes == 0 else 0) | end.part_ce
    ranks.deliver(w, index, result, row)
    free_row(w, row)
