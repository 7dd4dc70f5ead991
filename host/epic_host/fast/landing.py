"""An agent's cells in a ring, and where their results land: compiled, shared by the agents of all modes.

Cell n is row n mod 2W of the ring and of the store, which keeps what was contributed: all that is outstanding and the
last W before. A result that is as its block expects is written to the user's memory when it comes, in whatever order.
Any other is an event with its payload when its turn comes; until then Python keeps the payload.

Realizes EPIC-A-03, EPIC-D-02, EPIC-H-04 and EPIC-M3-22.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast import calls, fixed, rto, window
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import EDGE, FRAME, INDEX
from epic_host.fast.queues import DEPARTURES
from epic_host.fast.value import pad
from epic_host.fast.wire import depart
from epic_host.fast.world import Shape
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT
from epic_spec.tables import Opcode

# What a cell of the ring is: its result is delivered or it was never sent; not here yet; landed; kept by Python.
IDLE, OUTSTANDING, LANDED, KEPT = range(4)
# What an event tells Python: keep a payload that came early; deliver a payload that has just come, or was kept.
KEEP, DELIVER, DELIVER_KEPT = range(3)

# Times are in seconds. `delivered` cells of `next` have their result; `newest` is the last that had one, `scanned` the
# first that fast retransmission has not looked at. `timer` is when the retransmission timer is due, infinite for never.
AGENT: Final = np.dtype(
    [
        ("next", "i8"), ("delivered", "i8"), ("newest", "i8"), ("scanned", "i8"), ("mask", "i8"), ("progress", "f8"),
        ("timer", "f8"), ("edge", "i4"),
        *window.FIELDS,
        *rto.FIELDS,
    ]
)  # fmt: skip

# `body` is the address of the payload as sent, `length` its bytes (NONE for a NULL cell), `crc` its share of the ICRC.
# `lands`: the result is expected to have `expected` bytes (0: NULL) and goes to the address `sink`, where it is not 0.
# With a `coding`, which is an address, payload and sink are what `fixed` says, the first element number `element` of
# the data, `wire` bytes of payload each.
# `result` and `ce` are of the result, `sent` and `last` when it was contributed first and last.
CELL: Final = np.dtype(
    [
        ("body", "u8"), ("sink", "u8"), ("coding", "u8"), ("element", "i8"), ("sent", "f8"), ("last", "f8"),
        ("length", "i4"), ("imm", "u4"), ("crc", "u4"), ("wire", "i4"), ("expected", "i4"), ("sink_swap", "i4"),
        ("result", "u4"), ("state", "u1"), ("lands", "u1"), ("streams", "u1"), ("resent", "u1"),
        ("ce", "u1"),
    ]
)  # fmt: skip

# Cells that are to be entered: a blocks.Block, of which `taken` cells are in the ring; `item` and `wire` are the bytes
# of a coding's elements in arrays and in payloads, else 1.
SUPPLY: Final = np.dtype(
    [
        ("source", "u8"), ("sink", "u8"), ("coding", "u8"), ("element", "i8"), ("cells", "i8"), ("taken", "i8"),
        ("cell_bytes", "i4"), ("last_bytes", "i4"), ("swap", "i4"), ("sink_swap", "i4"), ("item", "i4"), ("wire", "i4"),
        ("imm", "u4"), ("expect", "u1"), ("streams", "u1"),
    ]
)  # fmt: skip

# `sent` is the descriptor contributed, `imm` the result's; the payload is `length` bytes at `address`.
EVENT: Final = np.dtype(
    [("kind", "i8"), ("cell", "i8"), ("address", "u8"), ("length", "i8"), ("imm", "u4"), ("sent", "u4")]
)

NONE: Final = -1
_DATA: Final = int(Opcode.SEND_ONLY_IMM)
_POISONED: Final = INDEX["cells_poisoned"]


# What an agent's kernels work on; `agent`, `event_count` and `generation` have one element.
WORLD: Final = Shape(
    "Agent",
    {
        "agent": AGENT,
        "ring": CELL,
        "supply": SUPPLY,
        "events": EVENT,
        "event_count": np.int64,
        "edges": EDGE,
        "frames": FRAME,
        "counters": np.int64,
        "generation": np.int64,
        "departures": DEPARTURES,
    },
)
world_at: Final = WORLD.at


@compiled
def _makes_sense(b: Any) -> Word:
    """As `blocks.Block.check`."""
    for size in (b.swap, b.sink_swap):
        if size < 1 or size > 8 or size & (size - 1) or (b.cell_bytes | b.last_bytes) & (size - 1):
            return False
    return (
        b.cells >= 1
        and 1 <= b.last_bytes <= b.cell_bytes
        and (b.source == 0) == (b.imm & NULL_BIT != 0)
        and (b.sink == 0 or b.expect != 0)
    )


@compiled
def sensible(address: Word) -> Word:
    """Whether the supply is a block that makes sense."""
    return _makes_sense(world_at(address).supply[0])


@compiled
def room(a: Any) -> Word:
    """How many cells the window takes now (EPIC-A-01, EPIC-H-08)."""
    return max(0, np.int64(a.size) - (a.next - a.delivered))


@compiled
def feed(address: Word, limit: Word) -> Word:
    """Put the next cells of the supply into the ring, behind the last, at most `limit` and what the window takes.

    They are not sent yet. Returns how many there were; -1 when there is none left.
    """
    w = world_at(address)
    b, a = w.supply[0], w.agent[0]
    if b.taken == b.cells:
        return -1
    count = max(0, min(limit, b.cells - b.taken, room(a)))
    elements = b.cell_bytes // b.wire
    for i in range(count):
        at = b.taken + i
        length = b.last_bytes if at == b.cells - 1 else b.cell_bytes
        moved = np.uint64(at * elements * b.item)
        cell = w.ring[(a.next + i) & a.mask]
        cell.imm, cell.lands, cell.length = b.imm, 1, NONE
        cell.expected = length if b.expect else 0
        cell.sink, cell.sink_swap = b.sink + moved if b.sink else np.uint64(0), b.sink_swap
        cell.streams = b.streams
        cell.coding, cell.element, cell.wire = b.coding, b.element + at * elements, b.wire
        if b.source:
            cell.length = length
            if b.coding:
                fixed.quantize(cell.coding, cell.element, b.source + moved, cell.body, length // b.wire)
            else:
                calls.swap_copy(cell.body, b.source + moved, length // b.swap, b.swap)
        seal(w, cell)
    b.taken += count
    return count


@compiled
def due(address: Word) -> Word:
    """When the agent's timer is due, infinite for never."""
    return world_at(address).agent[0].timer


@compiled
def enter_cells(address: Word, imms: NDArray[np.uint32], lengths: NDArray[np.int64], payloads: Word) -> None:
    """Put cells into the ring, behind the last, with payloads that stand at `payloads` in a row; results are events."""
    w = world_at(address)
    a = w.agent[0]
    at = np.uint64(payloads)
    for i in range(len(imms)):
        cell = w.ring[(a.next + i) & a.mask]
        cell.imm, cell.lands, cell.length, cell.sink = imms[i], 0, lengths[i], np.uint64(0)
        if lengths[i] > 0:
            calls.copy(cell.body, at, lengths[i])
            at += np.uint64(lengths[i])
        seal(w, cell)


@compiled
def seal(w: Any, cell: Any) -> None:
    """The padding of a cell's body, and the share of the ICRC that the body has, where the group has an ICRC."""
    cell.crc = 0
    if cell.length > 0:
        pad(cell.body, cell.length)
        if w.edges[w.agent[0].edge].icrc:
            cell.crc = calls.crc_update(np.uint32(0), cell.body, (cell.length + 3) & ~3)


@compiled
def contribute(w: Any, number: Word) -> None:
    """Send the contribution of a cell."""
    a = w.agent[0]
    cell = w.ring[number & a.mask]
    psn = np.int64(w.edges[a.edge].psn_tx) + number
    length = max(0, cell.length)
    depart(w.departures, w.edges, a.edge, _DATA, psn, cell.imm, True, cell.body, length, cell.crc, False)


@compiled
def _event(w: Any, kind: Word, number: Word, cell: Any, payload: Word, length: Word) -> None:
    event = w.events[w.event_count[0]]
    w.event_count[0] += 1
    event.kind, event.cell, event.address, event.length = kind, number, np.uint64(payload), length
    event.imm, event.sent = cell.result, cell.imm


@compiled
def arrived(w: Any, number: Word, imm: Word, payload: Word, length: Word, ce: bool) -> None:
    """The result of an outstanding cell is here, `length` bytes (0: none) at the address `payload`.

    The caller sees to a `fence` before anybody is told.
    """
    a = w.agent[0]
    cell = w.ring[number & a.mask]
    cell.result, cell.ce = np.uint32(imm), ce
    agrees = not imm & ERR_BIT and (np.uint32(imm) ^ cell.imm) & np.uint32(AGREEMENT_MASK) == 0
    if cell.lands and agrees and length == cell.expected:
        if cell.sink and length and cell.coding:
            fixed.dequantize(
                cell.coding, cell.element, payload, cell.sink, length // cell.wire, cell.streams != 0
            )
        elif cell.sink and length and cell.streams:
            calls.stream(cell.sink, payload, length // cell.sink_swap, cell.sink_swap)
        elif cell.sink and length:
            calls.swap_copy(cell.sink, payload, length // cell.sink_swap, cell.sink_swap)
        cell.state = LANDED
    else:
        # What is next in order is delivered before the frame's memory is used again.
        _event(w, DELIVER if number == a.delivered else KEEP, number, cell, payload, length)
        cell.state = KEPT


@compiled
def deliver_ready(w: Any, now: float) -> None:
    """Deliver, in order, all results that are here."""
    a = w.agent[0]
    first, ecn = a.delivered, w.edges[a.edge].ecn
    while a.delivered < a.next:
        number = a.delivered
        cell = w.ring[number & a.mask]
        if cell.state != LANDED and cell.state != KEPT:
            return
        a.delivered = number + 1
        a.progress = now
        window.delivered(a, number, a.next, cell.ce and ecn)
        if cell.state == KEPT:
            imm = cell.result
            if imm & np.uint32(ERR_BIT) or (imm ^ cell.imm) & np.uint32(AGREEMENT_MASK):
                w.counters[_POISONED] += 1
            if number != first:
                _event(w, DELIVER_KEPT, number, cell, np.uint64(0), 0)
        cell.state = IDLE
