"""One group of Mode II, compiled: `epic_models.reference.rc_group` and `mode2`. Realizes EPIC-M2-01 to EPIC-M2-16.

Cells complete, and results pass, in order. So message n of the parent's requester is the partial of cell n, and message
n of every child's requester its result. All of them are in one store of W rows, the partial of cell n and then its
result in row n modulo W, their bodies in the same row of the group's `outputs`:
- the result of n may take the place of the partial, for it acknowledges it (EPIC-M2-11);
- the partial of n + W may take the place of the result of n, for when n + W is complete every child has contributed to
  it, and so has acknowledged the result of n (EPIC-M2-10). A child in error keeps nothing and completes nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import calls, rc, value
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import EDGE, FRAME, INDEX, NO_EDGE
from epic_host.fast.groups import CHILD, GROUP
from epic_host.fast.queues import DEPARTURES
from epic_host.fast.value import VALUE
from epic_host.fast.wire import ACK
from epic_host.fast.world import Shape

# `passed`: results that have gone down. `ends`: the first of the group's, the children's in order, then the parent's;
# `rows`: the first of its W rows of `slots` and of `messages`.
TREE: Final = np.dtype([("passed", "i8"), ("ends", "i4"), ("rows", "i4")])

# An agg slot: a cell on its way up. It is free again when the cell's result has passed.
SLOT: Final = np.dtype([("cell", "i8"), ("bitmap", "u8"), ("live", "u1"), *VALUE.descr])

_RX_CONTRIBUTION: Final = INDEX["rx_contribution"]
_RX_RESULT: Final = INDEX["rx_result"]
_COMPLETED: Final = INDEX["cells_completed"]
_POISONED: Final = INDEX["cells_poisoned"]
_EDGE_ERROR: Final = INDEX["drop_edge_error"]
_OVERSIZE: Final = INDEX["drop_oversize"]
_ELEMENT: Final = INDEX["drop_element"]
_WINDOW: Final = INDEX["drop_window"]
_UNEXPECTED: Final = INDEX["drop_unexpected"]
_FITS: Final = -1


# What the kernels work on. `order`: the groups in the order of their installation; `failures`: rows of `ends` that have
# failed, behind their number.
WORLD: Final = Shape(
    "Mode2",
    {
        "groups": GROUP, "trees": TREE, "ends": rc.END, "flights": rc.FLIGHT, "messages": rc.MESSAGE, "slots": SLOT,
        "children": CHILD, "ranks": np.int32, "order": np.int32, "failures": np.int32, "generation": np.int64,
        "frames": FRAME, "edges": EDGE, "counters": np.int64, "departures": DEPARTURES,
    },
)  # fmt: skip
_world_at: Final = WORLD.at


@compiled
def work(address: int, arena: Word, first: Word, stop: Word, now: float) -> int:
    """Handle admitted frames `first` to `stop` of the world at an address; their bytes are at the address `arena`.

    Returns `stop`, or the frame that has to wait until the departures have been sent.
    """
    w = _world_at(address)
    for i in range(first, stop):
        frame = w.frames[i]
        if frame.edge == NO_EDGE:
            continue
        edge = w.edges[frame.edge]
        group = w.groups[edge.group]
        tree = w.trees[group.first]
        if edge.child >= 0:
            done = _on_child(w, group, tree, frame, edge, np.uint64(arena), now)
        else:
            done = _on_parent(w, group, tree, frame, np.uint64(arena), now)
        if not done:
            return int(i)
    return int(stop)


@compiled
def next_deadline(address: int) -> float:
    """When the first timer of an edge is due; infinite for never."""
    w = _world_at(address)
    first = rc.NEVER
    for i in range(len(w.ends)):
        first = min(first, rc.next_deadline(w.ends[i]))
    return first


@compiled
def poll(address: int, now: float) -> None:
    """Run the timers that are due, until the departures have no room for what the next one repeats."""
    w = _world_at(address)
    for group_row in w.order:
        group = w.groups[group_row]
        tree = w.trees[group.first]
        for i in range(tree.ends, tree.ends + group.fan_in + (group.parent >= 0)):
            end = w.ends[i]
            if rc.next_deadline(end) <= now:
                if _free(w) < end.next - end.una:
                    return
                if rc.poll(w, end, now):
                    _failed(w, i)


@compiled
def _free(w: Any) -> int:
    return int(len(w.departures.body) - w.departures.count[0])


@compiled
def _failed(w: Any, row: Word) -> None:
    w.failures[0] += 1
    w.failures[w.failures[0]] = row


@compiled
def _acknowledged(w: Any, row: Word, frame: Any, now: float) -> bool:
    """An ACK, NAK or RNR NAK. False when what it may repeat has no room."""
    end = w.ends[row]
    if _free(w) < end.next - end.una:
        return False
    if rc.on_ack(w, end, frame.psn, frame.word, now):
        _failed(w, row)
    return True


@compiled
def _waits(w: Any, group: Any, m: Any) -> bool:
    """Whether the departures must be sent first: they lack room, or have message `m`, which is to be replaced."""
    return bool(m.queued == w.generation[0] or _free(w) < group.fan_in + 1)


# ---------------------------------------------------------------------------------------------------- from a child


@compiled
def _on_child(w: Any, group: Any, tree: Any, frame: Any, edge: Any, arena: Word, now: float) -> bool:
    row = tree.ends + edge.child
    end = w.ends[row]
    if end.failed:
        w.counters[_EDGE_ERROR] += 1
        return True
    if frame.opcode == ACK:
        return _acknowledged(w, row, frame, now)
    if _free(w) < 1:
        return False
    arrival = rc.classify(w, end, frame.psn)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, end, arrival)
        return True
    reason = _refusal(group, tree, end, frame, edge.engine_peer)
    if reason != _FITS:
        w.counters[reason] += 1
        return True
    return _contribution(w, group, tree, end, frame, edge, arena, now)


@compiled
def _refusal(group: Any, tree: Any, end: Any, frame: Any, between: bool) -> int:
    """The counter of why the expected contribution is not taken (and not acknowledged), or _FITS."""
    if frame.length > group.payload_bytes:
        return _OVERSIZE
    if frame.length and not value.whole_elements(group, frame.word, frame.length, between):
        return _ELEMENT
    if end.expected >= tree.passed + group.window:
        return _WINDOW
    return _FITS


@compiled
def _contribution(
    w: Any, group: Any, tree: Any, end: Any, frame: Any, edge: Any, arena: Word, now: float
) -> bool:
    """The expected contribution of a child. False when it has to wait."""
    cell = end.expected
    at = cell & (group.window - 1)
    slot = w.slots[tree.rows + at]
    bit = np.uint64(1) << np.uint64(edge.child)
    anew = not slot.live or slot.cell != cell
    completes = (bit if anew else slot.bitmap | bit) == group.full
    root = group.parent < 0
    m = w.messages[tree.rows + at]
    if completes and _waits(w, group, m):
        return False
    if anew:
        slot.live, slot.cell, slot.bitmap = 1, cell, np.uint64(0)
        value.reset(slot)
    w.counters[_RX_CONTRIBUTION] += 1
    poisoned = slot.err
    payload = arena + np.uint64(frame.offset)
    value.add(group, slot, at, edge.child, edge.engine_peer, frame.word, payload, frame.length, frame.ce)
    w.counters[_POISONED] += slot.err and not poisoned
    slot.bitmap |= bit
    # Contribution s proves that this child has result s - W, even when its ACK was lost.
    rc.acknowledge_messages(w, end, cell - group.window + 1, now)
    rc.accept(w, end, frame.ackreq)
    if completes:
        w.counters[_COMPLETED] += 1
        m.imm, m.length = value.output(group, slot, at, not root)
        m.ce = slot.congested
        if root:
            _publish(w, group, tree, m, now)
        else:
            m.rank = -1
            _seal(w, end, m)
            rc.send(w, w.ends[tree.ends + group.fan_in], now)
    return True


@compiled
def _seal(w: Any, end: Any, m: Any) -> None:
    """The body of a message is there: its share of the ICRC, where the group has one."""
    if m.length and w.edges[end.edge].icrc:
        m.crc = calls.crc_update(np.uint32(0), m.body, m.length + (-m.length & 3))


@compiled
def _publish(w: Any, group: Any, tree: Any, m: Any, now: float) -> None:
    """Send the next result, which is in its row, to every child."""
    _seal(w, w.ends[tree.ends], m)
    m.rank = np.int32(m.imm >> 16) if value.is_for_one(m.imm) else np.int32(-1)
    for child in range(group.fan_in):
        rc.send(w, w.ends[tree.ends + child], now)
    tree.passed += 1


# -------------------------------------------------------------------------------------------------- from the parent


@compiled
def _on_parent(w: Any, group: Any, tree: Any, frame: Any, arena: Word, now: float) -> bool:
    row = tree.ends + group.fan_in
    end = w.ends[row]
    if end.failed:
        w.counters[_EDGE_ERROR] += 1
        return True
    if frame.opcode == ACK:
        return _acknowledged(w, row, frame, now)
    if _free(w) < 1:
        return False
    arrival = rc.classify(w, end, frame.psn)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, end, arrival)
        return True
    if frame.length > group.payload_bytes:
        w.counters[_OVERSIZE] += 1
        return True
    at = tree.passed & (group.window - 1)
    slot = w.slots[tree.rows + at]
    if not slot.live or slot.cell != tree.passed or slot.bitmap != group.full:
        w.counters[_UNEXPECTED] += 1
        return True
    m = w.messages[tree.rows + at]
    if _waits(w, group, m):
        return False
    # The result of a cell acknowledges the partial of it and of all before it.
    rc.acknowledge_messages(w, end, tree.passed + 1, now)
    w.counters[_RX_RESULT] += 1
    # The acknowledgement goes before the results; they go to other edges.
    rc.accept(w, end, frame.ackreq)
    m.imm, m.length, m.ce = frame.word, frame.length, frame.ce or slot.congested
    calls.copy(m.body, arena + np.uint64(frame.offset), frame.length)
    value.pad(m.body, frame.length)
    _publish(w, group, tree, m, now)
    return True
