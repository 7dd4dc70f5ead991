"""Mode III's engine in batches: `epic_models.reference.mode3.Mode3Group`, compiled (EPIC-M3-01 to EPIC-M3-16).

A slot is a SLOT and a VALUE in the engine's arrays, and a row of the group's memory. Its row of `outputs` holds the
partial from when the bitmap is full, and the result from when the slot is done; so it is stored, and its share of the
ICRC computed, once for all children and replays.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import calls, value
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import EDGE, FRAME, INDEX, NO_EDGE, PARENT
from epic_host.fast.groups import CHILD, GROUP
from epic_host.fast.queues import DEPARTURES
from epic_host.fast.value import VALUE
from epic_host.fast.wire import depart
from epic_host.fast.world import Shape
from epic_spec.packets import NULL_BIT
from epic_spec.psn import HALF, MASK
from epic_spec.tables import Opcode

# `tag` is the number of the cell that is served, modulo 2^24; `served`: it is not the one before the slot's first.
# `imm`, `length` and `crc` are of the partial or result in `outputs`; `queued` is the generation of departures in which
# that was queued last.
SLOT: Final = np.dtype(
    [
        ("bitmap", "u8"), ("queued", "i8"), ("tag", "i4"), ("length", "i4"), ("imm", "u4"), ("crc", "u4"),
        ("done", "u1"), ("served", "u1"), ("congested", "u1"),
    ]
)  # fmt: skip

_DATA: Final = int(Opcode.SEND_ONLY_IMM)
_ACK: Final = int(Opcode.ACK)
_RX_CONTRIBUTION, _RX_DUPLICATE = INDEX["rx_contribution"], INDEX["rx_duplicate"]
_RX_STALE, _RX_RESULT = INDEX["rx_stale"], INDEX["rx_result"]
_TX_PARTIAL, _TX_RESULT = INDEX["tx_partial"], INDEX["tx_result"]
_TX_REPLAY, _TX_RESEND, _TX_REFLECTED = INDEX["tx_replay"], INDEX["tx_resend"], INDEX["tx_reflected"]
_COMPLETED, _POISONED = INDEX["cells_completed"], INDEX["cells_poisoned"]
_ROLE, _OVERSIZE, _ELEMENT = INDEX["drop_role"], INDEX["drop_oversize"], INDEX["drop_element"]
_WINDOW, _UNEXPECTED = INDEX["drop_window"], INDEX["drop_unexpected"]


# What the kernels work on.
WORLD: Final = Shape(
    "Mode3",
    {
        "groups": GROUP,
        "children": CHILD,
        "ranks": np.int32,
        "edges": EDGE,
        "slots": SLOT,
        "values": VALUE,
        "frames": FRAME,
        "counters": np.int64,
        "generation": np.int64,
        "departures": DEPARTURES,
    },
)
_world_at: Final = WORLD.at


@compiled
def work(address: Word, arena: Word, first: Word, stop: Word, now: float) -> Word:
    """Handle frames `first` to `stop` of the world at an address; their bytes are at the address `arena`.

    Returns the number of the frame that has to wait for the departures, or `stop`. No rule here asks for the time.
    """
    w = _world_at(address)
    room = len(w.departures.body)
    for i in range(first, stop):
        frame = w.frames[i]
        if frame.edge == NO_EDGE:
            continue
        edge = w.edges[frame.edge]
        if w.departures.count[0] + w.groups[edge.group].fan_in > room:
            return i
        payload = np.uint64(arena) + np.uint64(frame.offset)
        if edge.child == PARENT:
            taken = _on_parent(w, edge, frame, payload)
        elif frame.opcode == _ACK:
            taken = _reflect(w, edge, frame)
        else:
            taken = _on_child(w, edge, frame, payload)
        if not taken:
            return i
    return stop


# ---------------------------------------------------------------------- from a child


@compiled
def _on_child(w: Any, edge: Any, frame: Any, payload: Word) -> Word:
    """A contribution. False when it would change a body that is queued."""
    group = w.groups[edge.group]
    length = frame.length
    if length > group.payload_bytes:
        w.counters[_OVERSIZE] += 1
        return True
    if length and not value.whole_elements(group, frame.word, length, edge.engine_peer):
        w.counters[_ELEMENT] += 1
        return True
    cell = (np.int64(frame.psn) - np.int64(edge.psn_rx)) & MASK
    row = cell & (group.rows - 1)
    slot = w.slots[group.first + row]
    age = ((cell - slot.tag + HALF) & MASK) - HALF
    if age < 0:
        w.counters[_RX_STALE] += 1
        return True
    bit = np.uint64(1) << np.uint64(edge.child)
    bitmap = slot.bitmap
    if age > 0:
        if group.guard and not (slot.done and age == group.rows):
            w.counters[_WINDOW] += 1
            return True
        bitmap = np.uint64(0)
    elif bitmap & bit:
        _duplicate(w, group, edge.child, slot, row)
        return True
    if bitmap | bit == group.full and slot.queued == w.generation[0]:
        return False
    v = w.values[group.first + row]
    if age > 0:
        slot.tag, slot.done, slot.served, slot.congested = cell, 0, 1, 0
        value.reset(v)
    w.counters[_RX_CONTRIBUTION] += 1
    poisoned = v.err
    value.add(group, v, row, edge.child, edge.engine_peer, frame.word, payload, length, frame.ce)
    w.counters[_POISONED] += v.err - poisoned
    slot.bitmap = bitmap | bit
    if slot.bitmap == group.full:
        _complete(w, group, slot, v, row)
    return True


@compiled
def _complete(w: Any, group: Any, slot: Any, v: Any, row: Word) -> None:
    """Every child has contributed: send the partial, or at the root the result."""
    w.counters[_COMPLETED] += 1
    slot.congested = v.congested
    slot.imm, slot.length = value.output(group, v, row, group.parent >= 0)
    _seal(w, group, slot, row)
    if group.parent < 0:
        _finish(w, group, slot, row)
    else:
        w.counters[_TX_PARTIAL] += 1
        _send(w, group, group.parent, slot, row)


@compiled
def _duplicate(w: Any, group: Any, child: Word, slot: Any, row: Word) -> None:
    """A child's contribution that is counted already: it retransmits because it lacks the result."""
    w.counters[_RX_DUPLICATE] += 1
    if slot.done:
        if slot.served:
            w.counters[_TX_REPLAY] += 1
            _send_result(w, group, child, slot, row)
    elif slot.bitmap == group.full and child == 0:
        # One child is enough, for none of them can have the result.
        w.counters[_TX_RESEND] += 1
        _send(w, group, group.parent, slot, row)


@compiled
def _reflect(w: Any, edge: Any, frame: Any) -> Word:
    """A host's ACK or NAK of result s becomes the ACK or NAK of its contribution s (ACK reflection)."""
    if edge.reflection and not edge.engine_peer:
        w.counters[_TX_REFLECTED] += 1
        number = (np.int64(frame.psn) - np.int64(edge.psn_tx) + np.int64(edge.psn_rx)) & MASK
        depart(w.departures, w.edges, frame.edge, _ACK, number, frame.word, False, 0, 0, 0, False)
    else:
        w.counters[_ROLE] += 1
    return True


# ---------------------------------------------------------------------- from the parent


@compiled
def _on_parent(w: Any, edge: Any, frame: Any, payload: Word) -> Word:
    """A result. False when it would change a body that is queued."""
    group = w.groups[edge.group]
    if frame.opcode == _ACK:
        w.counters[_ROLE] += 1
        return True
    if frame.length > group.payload_bytes:
        w.counters[_OVERSIZE] += 1
        return True
    cell = (np.int64(frame.psn) - np.int64(edge.psn_rx)) & MASK
    row = cell & (group.rows - 1)
    slot = w.slots[group.first + row]
    age = ((cell - slot.tag + HALF) & MASK) - HALF
    if age < 0:
        w.counters[_RX_STALE] += 1
    elif age > 0 or slot.bitmap != group.full:
        w.counters[_UNEXPECTED] += 1
    elif slot.done:
        w.counters[_RX_DUPLICATE] += 1
    elif slot.queued == w.generation[0]:
        return False
    else:
        w.counters[_RX_RESULT] += 1
        slot.congested |= frame.ce
        slot.imm, slot.length = frame.word, frame.length
        calls.copy(_output(group, row), payload, frame.length)
        value.pad(_output(group, row), frame.length)
        _seal(w, group, slot, row)
        _finish(w, group, slot, row)
    return True


# ---------------------------------------------------------------------- out


@compiled
def _output(group: Any, row: Word) -> Word:
    return group.outputs + np.uint64(row * group.output_bytes)


@compiled
def _seal(w: Any, group: Any, slot: Any, row: Word) -> None:
    """The share of the ICRC that the slot's output has, where the group has an ICRC."""
    if slot.length and w.edges[w.children[group.first_child].edge].icrc:
        slot.crc = calls.crc_update(np.uint32(0), _output(group, row), (slot.length + 3) & ~3)


@compiled
def _finish(w: Any, group: Any, slot: Any, row: Word) -> None:
    """The slot's output is the result: multicast it."""
    slot.done = 1
    w.counters[_TX_RESULT] += group.fan_in
    for child in range(group.fan_in):
        _send_result(w, group, child, slot, row)


@compiled
def _send_result(w: Any, group: Any, child: Word, slot: Any, row: Word) -> None:
    """NULL goes where a Reduce's destination is elsewhere (EPIC-E-06)."""
    end = w.children[group.first_child + child]
    if value.is_for_one(slot.imm) and not value.below(w.ranks, end.ranks, end.rank_count, slot.imm >> 16):
        number = (np.int64(w.edges[end.edge].psn_tx) + slot.tag) & MASK
        null = slot.imm | np.uint32(NULL_BIT)
        depart(w.departures, w.edges, end.edge, _DATA, number, null, True, 0, 0, 0, slot.congested)
    else:
        _send(w, group, end.edge, slot, row)


@compiled
def _send(w: Any, group: Any, row_of_edge: Word, slot: Any, row: Word) -> None:
    number = (np.int64(w.edges[row_of_edge].psn_tx) + slot.tag) & MASK
    slot.queued = w.generation[0]
    depart(
        w.departures,
        w.edges,
        row_of_edge,
        _DATA,
        number,
        slot.imm,
        True,
        _output(group, row),
        slot.length,
        slot.crc,
        slot.congested,
    )
