"""Mode III's rank: `epic_models.reference.mode3.Mode3Agent`, compiled (EPIC-M3-20 to EPIC-M3-25)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import landing, rto
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import INDEX, NO_EDGE
from epic_host.fast.landing import OUTSTANDING, world_at
from epic_host.fast.streams import fence
from epic_models.reference.mode3 import Mode3Agent
from epic_spec.psn import HALF, MASK
from epic_spec.tables import Opcode

_ACK: Final = int(Opcode.ACK)
_THRESHOLD: Final = Mode3Agent.REORDER_THRESHOLD
_TX_CONTRIBUTION, _TX_RETRANSMISSION = INDEX["tx_contribution"], INDEX["tx_retransmission"]
_RX_DUPLICATE, _RX_RESULT = INDEX["rx_duplicate"], INDEX["rx_result"]
_ROLE, _UNEXPECTED = INDEX["drop_role"], INDEX["drop_unexpected"]


@compiled
def start(address: Word, count: Word, now: float) -> None:
    """Send the next `count` cells, which are in the ring, for the first time."""
    w = world_at(address)
    a = w.agent[0]
    for _ in range(count):
        number = a.next
        if number == a.delivered:
            a.progress = now
        a.next = number + 1
        cell = w.ring[number & a.mask]
        cell.sent = cell.last = now
        cell.resent, cell.state = 0, OUTSTANDING
        w.counters[_TX_CONTRIBUTION] += 1
        landing.contribute(w, number)
    _set_timer(w)


@compiled
def work(address: Word, arena: Word, first: Word, stop: Word, now: float) -> Word:
    """Handle frames `first` to `stop`; the number of the one that has to wait for departures or events, or `stop`."""
    w = world_at(address)
    a = w.agent[0]
    done = stop
    for i in range(first, stop):
        frame = w.frames[i]
        if frame.edge == NO_EDGE:
            continue
        # A result may deliver all that is outstanding, and show all of it but the newest to be lost.
        most = a.next - a.delivered
        if w.departures.count[0] + most > len(w.departures.body) or w.event_count[0] + most > len(w.events):
            done = i
            break
        if frame.opcode == _ACK:
            w.counters[_ROLE] += 1
            continue
        number = np.int64(frame.psn) - np.int64(w.edges[a.edge].psn_rx)
        number = a.delivered + ((number - a.delivered + HALF) & MASK) - HALF
        state = w.ring[number & a.mask].state
        if number < a.delivered or (number < a.next and state != OUTSTANDING):
            w.counters[_RX_DUPLICATE] += 1
        elif number >= a.next:
            w.counters[_UNEXPECTED] += 1
        else:
            payload = np.uint64(arena) + np.uint64(frame.offset)
            _take(w, number, frame.word, payload, frame.length, frame.ce, now)
    _set_timer(w)
    fence()
    return done


@compiled
def _take(w: Any, number: Word, imm: Word, payload: Word, length: Word, ce: bool, now: float) -> None:
    """The result of an outstanding cell."""
    a = w.agent[0]
    cell = w.ring[number & a.mask]
    w.counters[_RX_RESULT] += 1
    if not cell.resent:
        rto.sample(a, now - cell.sent)
    rto.progress(a)
    a.newest = max(a.newest, number)
    landing.arrived(w, number, imm, payload, length, ce)
    landing.deliver_ready(w, now)
    # Cells overtaken by several newer results are lost, not late: repeat each once without waiting. Those before
    # `scanned` are here or were repeated.
    for lost in range(max(a.scanned, a.delivered), a.newest - _THRESHOLD + 1):
        cell = w.ring[lost & a.mask]
        if cell.state == OUTSTANDING and not cell.resent:
            _resend(w, lost, now)
    a.scanned = max(a.scanned, a.newest - _THRESHOLD + 1)


@compiled
def _resend(w: Any, number: Word, now: float) -> None:
    cell = w.ring[number & w.agent[0].mask]
    cell.last, cell.resent = now, 1
    w.counters[_TX_RETRANSMISSION] += 1
    landing.contribute(w, number)


@compiled
def expire(address: Word, now: float) -> Word:
    """The retransmission timer is due. False when the departures have to be sent first."""
    w = world_at(address)
    a = w.agent[0]
    if w.departures.count[0] + a.next - a.delivered > len(w.departures.body):
        return False
    timeout = rto.value(a)
    # The timer is due, so there is a cell that is.
    rto.expired(a)
    for number in range(a.delivered, a.next):
        cell = w.ring[number & a.mask]
        if cell.state == OUTSTANDING and cell.last + timeout <= now:
            _resend(w, number, now)
    _set_timer(w)
    return True


@compiled
def _set_timer(w: Any) -> None:
    a = w.agent[0]
    oldest = np.inf
    for number in range(a.delivered, a.next):
        cell = w.ring[number & a.mask]
        if cell.state == OUTSTANDING:
            oldest = min(oldest, cell.last)
    a.timer = oldest + rto.value(a)
