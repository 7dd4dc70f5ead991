"""The reliable-connection rules of one edge, both directions: go-back-N requester, responder, reassembly.

Modes I and II use it at every edge, and so do the hosts of Mode III with ACK reflection. Packet numbers are
unbounded here; the wire carries them modulo 2^24 from the edge's base (EPIC-W-16). Realizes EPIC-F-01, EPIC-F-02 and
the edge rules EPIC-M1-01 to EPIC-M1-12 and EPIC-M2-01 to EPIC-M2-05.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from epic_models.reference.endpoint import Counters, EdgeEnd, ack_aeth, nak_aeth
from epic_models.reference.interfaces import EdgeFailed, Output
from epic_models.reference.rto import RetransmissionTimeout
from epic_spec import psn
from epic_spec.packets import NULL_BIT, Aeth, Packet
from epic_spec.tables import SYNDROME_MASK, NakCode, Opcode, Syndrome

# RNR timer codes of the InfiniBand specification in milliseconds; code 0 is 655.36 ms.
RNR_TIMERS_MS = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip


def rnr_code(microseconds: int) -> int:
    """The code of the shortest RNR timer that is not below `microseconds`."""
    enough = [(t, code) for code, t in enumerate(RNR_TIMERS_MS) if t * 1000 >= microseconds]
    return min(enough)[1] if enough else 0


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message: one cell's descriptor and payload (None for NULL)."""

    imm: int
    payload: bytes | None
    congested: bool = False


@dataclass(slots=True)
class _Segment:
    """A packet that is not acknowledged. `message` counts the messages of this direction of the edge."""

    number: int
    message: int
    opcode: Opcode
    imm: int | None
    payload: bytes | None
    congested: bool
    sent: float
    transmissions: int = 0


class Requester:
    """Sends messages over an edge and repeats from the oldest unacknowledged packet (go-back-N).

    Memory is what the caller's window lets be outstanding: it never sends more than that (P5).
    `patient` requesters never give up: with ACK reflection silence may only mean that another rank is slow.
    """

    def __init__(self, end: EdgeEnd, counters: Counters, *, first_time: str, patient: bool = False) -> None:
        self._end = end
        self._params = end.params
        self._count = counters
        self._first_time = first_time  # counter of messages that are sent for the first time
        self._patient = patient
        self._next = 0
        self._messages = 0
        self._pending: deque[_Segment] = deque()
        self._timeout = RetransmissionTimeout(end.params)
        self._retries = 0
        self._deadline: float | None = None
        self._not_ready_until: float | None = None
        self._nak_served = -1
        self.failed = False

    @property
    def acknowledged_messages(self) -> int:
        """Messages acknowledged as a whole, explicitly or implicitly."""
        return self._pending[0].message if self._pending else self._messages

    @property
    def outstanding(self) -> int:
        """Packets sent and not acknowledged."""
        return len(self._pending)

    def send(self, message: Message, now: float) -> Output:
        """Segment a message and send it; while the peer is not ready it is queued behind the pause."""
        number = self._messages
        self._messages += 1
        if self.failed:
            return Output()
        new = []
        for opcode, imm, payload in segments(message, self._params.payload_bytes):
            new.append(_Segment(self._next, number, opcode, imm, payload, message.congested, now))
            self._next += 1
        self._pending += new
        if self._deadline is None:
            self._deadline = now + self._timeout.value
        if self._not_ready_until is not None:
            return Output()
        return self._transmit(new)

    def on_ack(self, packet: Packet, now: float) -> Output:
        """An ACK, NAK or RNR NAK for this direction."""
        assert packet.aeth is not None
        kind = packet.aeth.syndrome & SYNDROME_MASK
        base = self._pending[0].number if self._pending else self._next
        number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_tx), base)
        if number >= self._next:
            self._count.drop("unexpected")
            return Output()
        if kind == Syndrome.ACK:
            self._count["rx_ack"] += 1
            paused = self._not_ready_until is not None
            self._acknowledge(number + 1, now)
            # The packet that met no buffer has arrived; what was sent or queued behind it has not.
            return self._go_back(now) if paused and self._not_ready_until is None else Output()
        self._acknowledge(number, now)
        if kind == Syndrome.RNR_NAK:
            self._count["rx_rnr_nak"] += 1
            return self._not_ready(packet.aeth, number, now)
        self._count["rx_nak"] += 1
        if packet.aeth.syndrome & 0x1F != NakCode.PSN_SEQUENCE_ERROR:
            return self._fail(f"peer refused packet {number}: {NakCode(packet.aeth.syndrome & 3).name}")
        if number <= self._nak_served:
            return Output()  # a duplicate of a NAK that was answered; the timer repairs a lost answer
        self._nak_served = number
        return self._go_back(now)

    def acknowledge_messages(self, count: int, now: float) -> None:
        """All messages before number `count` are known to have arrived (implicit acknowledgement)."""
        if self._pending and self._pending[0].message < count:
            last = [s.number for s in self._pending if s.message < count][-1]
            self._acknowledge(last + 1, now)

    def poll(self, now: float) -> Output:
        """The timer is due: repeat, or give the edge up after `retry_limit` timeouts in a row."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return Output()
        if self._not_ready_until is not None:
            self._not_ready_until = None
            return self._go_back(now)
        self._retries += 1
        if self._retries > self._params.retry_limit and not self._patient:
            return self._fail(f"no acknowledgement after {self._params.retry_limit} retransmissions")
        self._timeout.expired()
        self._nak_served = -1
        return self._go_back(now)

    def next_deadline(self) -> float | None:
        """When `poll` is due."""
        if self.failed or not self._pending:
            return None
        return self._deadline if self._not_ready_until is None else self._not_ready_until

    def _acknowledge(self, before: int, now: float) -> None:
        """All packets with numbers below `before` have arrived."""
        progress = False
        while self._pending and self._pending[0].number < before:
            segment = self._pending.popleft()
            progress = True
            if segment.number == before - 1 and segment.transmissions == 1:
                self._timeout.sample(now - segment.sent)
        if progress:
            self._retries = 0
            self._not_ready_until = None
            self._timeout.progress()
            self._deadline = now + self._timeout.value if self._pending else None

    def _not_ready(self, aeth: Aeth, number: int, now: float) -> Output:
        if self._pending and self._pending[0].number == number:
            self._not_ready_until = now + RNR_TIMERS_MS[aeth.syndrome & 0x1F] / 1000
            self._retries = 0  # the peer lives
        return Output()

    def _go_back(self, now: float) -> Output:
        self._deadline = now + self._timeout.value if self._pending else None
        return self._transmit(self._pending)

    def _transmit(self, pending: Iterable[_Segment]) -> Output:
        output = Output()
        for segment in pending:
            segment.transmissions += 1
            if segment.transmissions > 1:
                self._count["tx_retransmission"] += 1
            elif segment.imm is not None:
                self._count[self._first_time] += 1  # a message counts once, with its last packet
            output.sends.append(self._packet(segment))
        return output

    def _packet(self, segment: _Segment) -> tuple[int, Packet]:
        last = segment.opcode in (Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM)
        return self._end.data(
            segment.opcode,
            segment.number,
            segment.imm,
            segment.payload,
            ackreq=last,
            congested=segment.congested,
        )

    def _fail(self, reason: str) -> Output:
        self.failed = True
        self._pending.clear()
        self._count["edge_errors"] += 1
        return Output(events=[EdgeFailed(self._params.group, self._end.edge.name, reason)])


def segments(message: Message, mtu: int) -> Sequence[tuple[Opcode, int | None, bytes | None]]:
    """A message as packets: (opcode, immediate, payload), the descriptor in the last (EPIC-M1-02)."""
    payload = message.payload
    if payload is None or len(payload) <= mtu:
        return [(Opcode.SEND_ONLY_IMM, message.imm, payload)]
    chunks = [payload[i : i + mtu] for i in range(0, len(payload), mtu)]
    first: list[tuple[Opcode, int | None, bytes | None]] = [(Opcode.SEND_FIRST, None, chunks[0])]
    middle = [(Opcode.SEND_MIDDLE, None, chunk) for chunk in chunks[1:-1]]
    return [*first, *middle, (Opcode.SEND_LAST_IMM, message.imm, chunks[-1])]


class Arrival(Enum):
    """How a data packet's number compares with the one expected."""

    EXPECTED = "expected"
    DUPLICATE = "duplicate"
    GAP = "gap"


class Responder:
    """The receiving side of one direction of an edge: order, ACK, one NAK a gap."""

    def __init__(self, end: EdgeEnd, counters: Counters) -> None:
        self._end = end
        self._count = counters
        self._rnr = rnr_code(end.params.rnr_timer_us)
        self.expected = 0
        self.messages = 0
        self._nak_sent = False

    def classify(self, packet: Packet) -> Arrival:
        """Compare with the expected packet number."""
        number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self.expected)
        if number == self.expected:
            return Arrival.EXPECTED
        return Arrival.DUPLICATE if number < self.expected else Arrival.GAP

    def out_of_order(self, arrival: Arrival) -> Output:
        """Answer a packet that is not the expected one: older is acknowledged again, newer gets one NAK a gap."""
        if arrival is Arrival.DUPLICATE:
            self._count["rx_duplicate"] += 1
            return self.acknowledge()
        self._count["rx_out_of_order"] += 1
        if self._nak_sent:
            return Output()
        return self.refuse(NakCode.PSN_SEQUENCE_ERROR)

    def accept(self, *, completes: bool, ackreq: bool) -> Output:
        """The expected packet was stored; `completes` when it ends a message."""
        self.expected += 1
        self.messages += completes
        self._nak_sent = False
        return self.acknowledge() if ackreq else Output()

    def acknowledge(self) -> Output:
        """A cumulative ACK of everything accepted so far."""
        self._count["tx_ack"] += 1
        return Output([self._end.ack(self.expected - 1, ack_aeth(self.messages))])

    def refuse(self, code: NakCode) -> Output:
        """A NAK that names the expected packet; nothing more is said until it is accepted."""
        self._nak_sent = True
        self._count["tx_nak"] += 1
        return Output([self._end.ack(self.expected, nak_aeth(code, self.messages))])

    def not_ready(self) -> Output:
        """An RNR NAK: there is no buffer for the expected packet now."""
        self._nak_sent = True
        self._count["tx_rnr_nak"] += 1
        aeth = Aeth(Syndrome.RNR_NAK | self._rnr, self.messages & 0xFFFFFF)
        return Output([self._end.ack(self.expected, aeth)])


class Reassembly:
    """Packets of one message on their way in (EPIC-M1-05 to EPIC-M1-07)."""

    def __init__(self, mtu: int, limit: int) -> None:
        self._mtu = mtu
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._congested = False

    @property
    def between_messages(self) -> bool:
        """Whether the next packet has to start a message."""
        return not self._parts

    @property
    def size(self) -> int:
        """Bytes of the message so far."""
        return self._size

    def fault(self, packet: Packet) -> str | None:
        """Why the packet may not come next ("invalid_request" or "oversize"), or None."""
        starts = packet.opcode in (Opcode.SEND_FIRST, Opcode.SEND_ONLY_IMM)
        if starts != self.between_messages:
            return "invalid_request"
        full = packet.opcode in (Opcode.SEND_FIRST, Opcode.SEND_MIDDLE)
        size = len(packet.payload)
        if full and size != self._mtu:
            return "invalid_request"
        if size > self._mtu or self._size + size > self._limit:
            return "oversize"
        return None

    def push(self, packet: Packet) -> Message | None:
        """Take a packet that `fault` found right; the message when it is whole."""
        self._parts.append(packet.payload)
        self._size += len(packet.payload)
        self._congested |= packet.ecn == 3
        if packet.imm is None:
            return None
        payload = b"".join(self._parts)
        message = Message(packet.imm, None if packet.imm & NULL_BIT else payload or None, self._congested)
        self._parts, self._size, self._congested = [], 0, False
        return message
