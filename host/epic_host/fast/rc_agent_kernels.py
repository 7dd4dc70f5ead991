"""A rank that is an RC endpoint: `epic_models.reference.rc_agent.RcAgent`, compiled, for cells of one packet.

Contribution n is message n of the requester, and result n that of the responder: cells, messages and packets have the
same numbers. Realizes EPIC-M2-20 to EPIC-M2-22 and EPIC-M3-26.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import landing, rc
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import EDGE, INDEX, NO_EDGE
from epic_host.fast.queues import DEPARTURES
from epic_host.fast.streams import fence
from epic_host.fast.wire import ACK
from epic_host.fast.world import Shape
from epic_spec.packets import NULL_BIT
from epic_spec.tables import NakCode

# What the kernels work on: the world of the cells, which landing.py's take, and what rc.py uses. There is one END.
WORLD: Final = Shape(
    "RcAgent",
    {
        "cells": landing.WORLD, "ends": rc.END, "flights": rc.FLIGHT, "messages": rc.MESSAGE, "ranks": np.int32,
        "generation": np.int64, "edges": EDGE, "counters": np.int64, "departures": DEPARTURES,
    },
)  # fmt: skip
_world_at: Final = WORLD.at

_RX_RESULT: Final = INDEX["rx_result"]
_EDGE_ERROR: Final = INDEX["drop_edge_error"]
_OVERSIZE: Final = INDEX["drop_oversize"]
_UNEXPECTED: Final = INDEX["drop_unexpected"]
_INVALID: Final = int(NakCode.INVALID_REQUEST)


@compiled
def start(address: Word, count: Word, now: float) -> None:
    """Send the next `count` cells, which are in the ring, for the first time."""
    w = _world_at(address)
    a, end = w.cells.agent[0], w.ends[0]
    for _ in range(count):
        number = a.next
        if number == a.delivered:
            a.progress = now
        a.next = number + 1
        cell, m = w.cells.ring[number & a.mask], w.messages[number & end.mask]
        cell.state = landing.OUTSTANDING
        m.body, m.length, m.imm, m.crc = cell.body, max(0, cell.length), cell.imm, cell.crc
        rc.send(w, end, now)
    a.timer = rc.next_deadline(end)


@compiled
def work(address: Word, arena: Word, first: Word, stop: Word, now: float) -> int:
    """Handle frames `first` to `stop` of the world at an address; their bytes are at the address `arena`.

    Returns `stop`, or the frame that has to wait: for the departures to be sent, or the events to be taken.
    """
    w = _world_at(address)
    end = w.ends[0]
    done = int(stop)
    for i in range(first, stop):
        frame = w.cells.frames[i]
        if frame.edge == NO_EDGE:
            continue
        if end.failed:
            w.counters[_EDGE_ERROR] += 1
            continue
        free = len(w.departures.body) - w.departures.count[0]
        if frame.opcode == ACK:
            if free < end.next - end.una:
                done = i
                break
            rc.on_ack(w, end, frame.psn, frame.word, now)
        elif free < 1 or not _data(w, end, frame, np.uint64(arena), now):
            done = i
            break
    w.cells.agent[0].timer = rc.next_deadline(end)
    fence()
    return done


@compiled
def _data(w: Any, end: Any, frame: Any, arena: Word, now: float) -> bool:
    """A result. False when it has to wait."""
    arrival = rc.classify(w, end, frame.psn)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, end, arrival)
        return True
    a = w.cells.agent[0]
    if frame.length > w.edges[end.edge].payload_bytes:
        w.counters[_OVERSIZE] += 1
        rc.refuse(w, end, _INVALID)
        return True
    number = a.delivered
    if number == a.next:
        w.counters[_UNEXPECTED] += 1
        return True
    # A cell that is still to be sent, again or for the first time, keeps its place in the store until it has been.
    if w.messages[number & end.mask].queued == w.generation[0] or w.cells.event_count[0] == len(
        w.cells.events
    ):
        return False
    rc.accept(w, end, frame.ackreq)
    w.counters[_RX_RESULT] += 1
    # The result of a cell acknowledges the contribution to it and to all before it.
    rc.acknowledge_messages(w, end, number + 1, now)
    length = 0 if frame.word & np.uint32(NULL_BIT) else frame.length
    landing.arrived(w.cells, number, frame.word, arena + np.uint64(frame.offset), length, frame.ce)
    landing.deliver_ready(w.cells, now)
    return True


@compiled
def expire(address: Word, now: float) -> bool:
    """The retransmission timer is due. False when the departures have to be sent first."""
    w = _world_at(address)
    end = w.ends[0]
    if len(w.departures.body) - w.departures.count[0] < end.next - end.una:
        return False
    rc.poll(w, end, now)
    w.cells.agent[0].timer = rc.next_deadline(end)
    return True
