"""The reliable-connection rules of one edge: `epic_models.reference.rc`, compiled, for messages of one packet.

An END is one end of an edge, requester and responder. A message is one packet, so both have the same numbers; they are
unbounded, the wire has them modulo 2^24 from the edge's base (EPIC-W-16). A requester keeps no packets: message n is
row n of a store of its owner's, which keeps what is not acknowledged. An END itself has when message n was sent, and
how often, in a ring that is as long as the owner lets messages be outstanding (P5).

`w` is the owner's world. Of it are used `ends`, `flights` and `messages` (below), `ranks`, `generation`, and `edges`,
`departures`, `counters` of frames.py. Realizes EPIC-F-01, EPIC-F-02 and the edge rules EPIC-M2-01 to EPIC-M2-05 and
EPIC-M2-14 to EPIC-M2-16.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from epic_host.fast import rto
from epic_host.fast.compiled import Word, compiled
from epic_host.fast.frames import INDEX
from epic_host.fast.value import below
from epic_host.fast.wire import ACK, ONLY_IMM, depart
from epic_models.reference.rc import RNR_TIMERS_MS
from epic_spec.packets import NULL_BIT
from epic_spec.psn import HALF, MASK
from epic_spec.tables import SYNDROME_MASK, NakCode, Syndrome

END: Final = np.dtype(
    [
        # Whose end it is. `child` is -1 at the parent's edge and at a rank's.
        ("edge", "i4"), ("group", "i4"), ("child", "i4"),
        # Message n is row `store` + (n & `mask`) of `messages`, and has row `flight` + (n & `mask`) of `flights`.
        ("store", "i4"), ("flight", "i4"), ("mask", "i4"),
        # Ranks below a child's edge, sorted, in `ranks`.
        ("ranks", "i4"), ("rank_count", "i4"),
        # Requester. Times in seconds, infinite for none; `una` is the oldest message not acknowledged, or `next`.
        ("next", "i8"), ("una", "i8"), ("messages", "i8"), ("nak_served", "i8"),
        ("deadline", "f8"), ("ready_at", "f8"), ("retries", "i4"), ("retry_limit", "i4"), ("first_time", "i4"),
        ("patient", "u1"), ("failed", "u1"),
        *rto.FIELDS,
        # Responder.
        ("expected", "i8"), ("nak_sent", "u1"),
        # Why it has failed: the packet that the peer refused, and the NAK's code; -1 when the peer said nothing.
        ("refused", "i8"), ("refusal", "i4"),
    ]
)  # fmt: skip

# A message that is not acknowledged: when it was first given to be sent, how often it was sent.
FLIGHT: Final = np.dtype([("sent", "f8"), ("transmissions", "i8")])

# A message as its owner keeps it. `queued` is the generation of Departures in which its body waits to be sent; `rank`
# the only rank that may see it, -1 for all; `crc` the body's share of the ICRC; `ce` congestion experienced.
MESSAGE: Final = np.dtype(
    [
        ("body", "u8"), ("queued", "i8"), ("imm", "u4"), ("length", "i4"), ("crc", "u4"), ("rank", "i4"), ("ce", "u1"),
    ]
)  # fmt: skip

NEVER: Final = np.inf
# What a packet is to a responder.
EXPECTED, DUPLICATE, GAP = range(3)

_RX_ACK: Final = INDEX["rx_ack"]
_RX_NAK: Final = INDEX["rx_nak"]
_RX_RNR_NAK: Final = INDEX["rx_rnr_nak"]
_RX_DUPLICATE: Final = INDEX["rx_duplicate"]
_RX_OUT_OF_ORDER: Final = INDEX["rx_out_of_order"]
_TX_ACK: Final = INDEX["tx_ack"]
_TX_NAK: Final = INDEX["tx_nak"]
_TX_RETRANSMISSION: Final = INDEX["tx_retransmission"]
_EDGE_ERRORS: Final = INDEX["edge_errors"]
_UNEXPECTED: Final = INDEX["drop_unexpected"]

_KIND_ACK: Final = int(Syndrome.ACK)
_KIND_RNR: Final = int(Syndrome.RNR_NAK)
# A positive acknowledgement without a credit limit, and the one NAK that a responder sends of its own accord.
_AETH_ACK: Final = (int(Syndrome.ACK) | 0x1F) << 24
_AETH_NAK: Final = int(Syndrome.NAK) << 24
_SEQUENCE: Final = int(NakCode.PSN_SEQUENCE_ERROR)
_RNR_SECONDS: Final = np.array([t / 1000 for t in RNR_TIMERS_MS])


def reset(
    end: Any, params: Any, *, edge: int, group: int, child: int, first_time: str, patient: bool
) -> None:
    """Make an END as it is at installation; the places of its store, flights and ranks are left to the owner.

    `edge` is its row of the edge table, `first_time` the counter of messages sent for the first time. A `patient`
    requester never gives up: with ACK reflection silence may only mean that another rank is slow.
    """
    rto.reset(end, params)
    end["edge"], end["group"], end["child"] = edge, group, child
    end["next"] = end["una"] = end["messages"] = end["expected"] = 0
    end["nak_served"] = end["refused"] = -1
    end["deadline"] = end["ready_at"] = NEVER
    end["retries"] = end["failed"] = end["nak_sent"] = end["refusal"] = 0
    end["retry_limit"], end["patient"] = params.retry_limit, patient
    end["first_time"] = INDEX[first_time]


def failure(end: Any, params: Any) -> str:
    """Why an END has failed, in the words of the reference."""
    if end["refusal"]:
        return f"peer refused packet {end['refused']}: {NakCode(int(end['refusal']) & 3).name}"
    return f"no acknowledgement after {params.retry_limit} retransmissions"


# ------------------------------------------------------------------------------------------------------ requester


@compiled
def nearest(psn: Word, around: Word) -> Word:
    """The unbounded number congruent to `psn` modulo 2^24 that is nearest to the unbounded `around`."""
    return around + ((psn - around + HALF) & MASK) - HALF


@compiled
def next_deadline(end: Any) -> float:
    """When `poll` is due."""
    if end.failed or end.una == end.next:
        return NEVER
    return float(end.deadline if end.ready_at == NEVER else end.ready_at)


@compiled
def acknowledged(end: Any) -> int:
    """Messages acknowledged, explicitly or not; an end in error keeps nothing, so all of them."""
    return int(end.una if end.una < end.next else end.messages)


@compiled
def _transmit(w: Any, end: Any, first: Word) -> None:
    """Send all messages from number `first` on that are not acknowledged."""
    base = np.int64(w.edges[end.edge].psn_tx)
    for number in range(first, end.next):
        flight = w.flights[end.flight + (number & end.mask)]
        flight.transmissions += 1
        w.counters[_TX_RETRANSMISSION if flight.transmissions > 1 else end.first_time] += 1
        m = w.messages[end.store + (number & end.mask)]
        psn = (base + number) & MASK
        if m.rank >= 0 and not below(w.ranks, end.ranks, end.rank_count, m.rank):
            depart(w.departures, w.edges, end.edge, ONLY_IMM, psn, m.imm | NULL_BIT, True, 0, 0, 0, m.ce)
        else:
            m.queued = w.generation[0]
            depart(w.departures, w.edges, end.edge, ONLY_IMM, psn, m.imm, True, m.body, m.length, m.crc, m.ce)


@compiled
def send(w: Any, end: Any, now: float) -> None:
    """Send the next message, which is in the store; while the peer is not ready it waits behind the pause."""
    end.messages += 1
    if end.failed:
        return
    number = end.next
    end.next += 1
    flight = w.flights[end.flight + (number & end.mask)]
    flight.sent = now
    flight.transmissions = 0
    if end.deadline == NEVER:
        end.deadline = now + rto.value(end)
    if end.ready_at == NEVER:
        _transmit(w, end, number)


@compiled
def on_ack(w: Any, end: Any, psn: Word, aeth: Word, now: float) -> bool:
    """An ACK, NAK or RNR NAK for this direction. True when the edge is in error by it."""
    around = end.una
    number = nearest(np.int64(psn) - np.int64(w.edges[end.edge].psn_tx), around)
    if number >= end.next:
        w.counters[_UNEXPECTED] += 1
        return False
    syndrome = np.int64(aeth) >> 24
    kind = syndrome & SYNDROME_MASK
    if kind == _KIND_ACK:
        w.counters[_RX_ACK] += 1
        paused = end.ready_at != NEVER
        _acknowledge(w, end, number + 1, now)
        if paused and end.ready_at == NEVER:
            # The packet that met no buffer has arrived; what was sent or queued behind it has not.
            _go_back(w, end, now)
        return False
    _acknowledge(w, end, number, now)
    if kind == _KIND_RNR:
        w.counters[_RX_RNR_NAK] += 1
        if end.una < end.next and end.una == number:
            end.ready_at = now + _RNR_SECONDS[syndrome & 0x1F]
            end.retries = 0  # the peer lives
        return False
    w.counters[_RX_NAK] += 1
    if syndrome & 0x1F != _SEQUENCE:
        end.refused, end.refusal = number, syndrome & 0x1F
        _fail(w, end)
        return True
    if number > end.nak_served:  # otherwise one that was answered; the timer repairs a lost answer
        end.nak_served = number
        _go_back(w, end, now)
    return False


@compiled
def acknowledge_messages(w: Any, end: Any, count: Word, now: float) -> None:
    """All messages before number `count` are known to have arrived (implicit acknowledgement)."""
    if end.una < end.next and end.una < count:
        _acknowledge(w, end, min(count, end.next), now)


@compiled
def poll(w: Any, end: Any, now: float) -> bool:
    """The timer may be due: repeat, or give the edge up after `retry_limit` timeouts in a row. True when it has."""
    if not next_deadline(end) <= now:
        return False
    if end.ready_at != NEVER:
        end.ready_at = NEVER
        _go_back(w, end, now)
        return False
    end.retries += 1
    if end.retries > end.retry_limit and not end.patient:
        _fail(w, end)
        return True
    rto.expired(end)
    end.nak_served = -1
    _go_back(w, end, now)
    return False


@compiled
def _acknowledge(w: Any, end: Any, before: Word, now: float) -> None:
    """All packets with numbers below `before`, at most `next`, have arrived."""
    if before <= end.una:
        return
    flight = w.flights[end.flight + ((before - 1) & end.mask)]
    if flight.transmissions == 1:
        rto.sample(end, now - flight.sent)
    end.una = before
    end.retries = 0
    end.ready_at = NEVER
    rto.progress(end)
    end.deadline = now + rto.value(end) if end.una < end.next else NEVER


@compiled
def _go_back(w: Any, end: Any, now: float) -> None:
    end.deadline = now + rto.value(end) if end.una < end.next else NEVER
    _transmit(w, end, end.una)


@compiled
def _fail(w: Any, end: Any) -> None:
    end.failed = 1
    end.una = end.next
    w.counters[_EDGE_ERRORS] += 1


# ------------------------------------------------------------------------------------------------------ responder


@compiled
def classify(w: Any, end: Any, psn: Word) -> int:
    """Compare with the expected packet number."""
    number = nearest(np.int64(psn) - np.int64(w.edges[end.edge].psn_rx), end.expected)
    if number == end.expected:
        return EXPECTED
    return DUPLICATE if number < end.expected else GAP


@compiled
def out_of_order(w: Any, end: Any, arrival: int) -> None:
    """Answer a packet that is not the expected one: older is acknowledged again, newer gets one NAK a gap."""
    if arrival == DUPLICATE:
        w.counters[_RX_DUPLICATE] += 1
        acknowledge(w, end)
        return
    w.counters[_RX_OUT_OF_ORDER] += 1
    if not end.nak_sent:
        refuse(w, end, _SEQUENCE)


@compiled
def accept(w: Any, end: Any, ackreq: bool) -> None:
    """The expected packet, a message of its own, was stored."""
    end.expected += 1
    end.nak_sent = 0
    if ackreq:
        acknowledge(w, end)


@compiled
def acknowledge(w: Any, end: Any) -> None:
    """A cumulative ACK of everything accepted so far."""
    w.counters[_TX_ACK] += 1
    _answer(w, end, end.expected - 1, _AETH_ACK)


@compiled
def refuse(w: Any, end: Any, code: int) -> None:
    """A NAK that names the expected packet; nothing more is said until it is accepted."""
    end.nak_sent = 1
    w.counters[_TX_NAK] += 1
    _answer(w, end, end.expected, _AETH_NAK | code << 24)


@compiled
def _answer(w: Any, end: Any, number: Word, syndrome: int) -> None:
    psn = (np.int64(w.edges[end.edge].psn_rx) + number) & MASK
    # Every message is one packet, so MSN is the number of packets accepted.
    aeth = np.uint32(syndrome | (end.expected & MASK))
    depart(w.departures, w.edges, end.edge, ACK, psn, aeth, False, 0, 0, 0, False)
