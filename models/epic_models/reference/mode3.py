"""Mode III, translation: an engine without timers, ACKs or retransmission of its own; hosts repair end to end.

Engine: EPIC-M3-01 to EPIC-M3-16. Agent: EPIC-M3-20 to EPIC-M3-25. Why N >= 2W slots and an epoch tag suffice is
argued in epic.md, section "Mode III"; the invariants that the argument needs are asserted where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_models.reference.agent import AgentBase
from epic_models.reference.cells import CellValue, for_child, whole_elements
from epic_models.reference.endpoint import Counters, EdgeEnd, EngineBase, GroupMachine
from epic_models.reference.group import EngineGroup, RankGroup
from epic_models.reference.interfaces import Cell, Output, SlotStatus
from epic_models.reference.rto import RetransmissionTimeout
from epic_spec import psn
from epic_spec.packets import Packet
from epic_spec.tables import Opcode


@dataclass(slots=True)
class Slot:
    """One cell in flight. `tag` is its number modulo 2^24 (the epoch tag).

    A slot starts as if the cell N before its first had been done, so that the first cell is the next one.
    """

    tag: int
    bitmap: int
    done: bool
    value: CellValue | None = None
    # What a replay sends: set when done. None in a slot that has served no cell yet.
    result: tuple[int, bytes | None] | None = None
    congested: bool = False


class Mode3Group(GroupMachine):
    """The slots of one group."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        super().__init__(entry, counters)
        self._children = [EdgeEnd(edge, entry.params) for edge in entry.children]
        self._parent = None if entry.parent is None else EdgeEnd(entry.parent, entry.params)
        self._full = (1 << len(entry.children)) - 1
        count = entry.params.slots
        self._slots = [Slot(psn.add(i, -count), self._full, True) for i in range(count)]

    def _slot(self, cell: int) -> Slot:
        return self._slots[cell % self.params.slots]

    # ------------------------------------------------------------------------------------------ from a child

    def on_child(self, child: int, packet: Packet, now: float) -> Output:
        """A contribution, or an acknowledgement to reflect."""
        end = self._children[child]
        if packet.opcode is Opcode.ACK:
            return self._reflect(end, packet)
        cell = (packet.psn - end.edge.psn_rx) & psn.MASK
        imm, payload = _content(packet)
        reason = self._malformed(end, imm, payload)
        if reason is not None:
            self.count.drop(reason)
            return Output()
        slot = self._slot(cell)
        age = psn.diff(cell, slot.tag)
        if age < 0:
            self.count["rx_stale"] += 1
            return Output()
        if age > 0:
            if self.params.window_guard and not (slot.done and age == self.params.slots):
                self.count.drop("window")
                return Output()
            slot.tag, slot.bitmap, slot.done, slot.congested = cell, 0, False, False
            slot.value, slot.result = CellValue(self.params), None
        elif slot.bitmap >> child & 1:
            return self._duplicate(child, cell, slot)
        return self._count_in(child, cell, slot, packet, imm, payload)

    def _malformed(self, end: EdgeEnd, imm: int, payload: bytes | None) -> str | None:
        if payload is None:
            return None
        if len(payload) > self.params.payload_bytes:
            return "oversize"
        if not whole_elements(self.params, imm, len(payload), between_engines=end.edge.peer_is_engine):
            return "element"
        return None

    def _count_in(
        self, child: int, cell: int, slot: Slot, packet: Packet, imm: int, payload: bytes | None
    ) -> Output:
        """The first contribution of this child for the slot's cell."""
        assert slot.value is not None
        self.count["rx_contribution"] += 1
        poisoned = slot.value.err
        slot.value.add(child, self._children[child].edge, imm, payload, congested=packet.ecn == 3)
        self.count["cells_poisoned"] += slot.value.err and not poisoned
        slot.bitmap |= 1 << child
        if slot.bitmap != self._full:
            return Output()
        self.count["cells_completed"] += 1
        slot.congested = slot.value.congested
        if self._parent is None:
            imm, payload = slot.value.result()
            return self._finish(cell, slot, imm, payload)
        self.count["tx_partial"] += 1
        return Output([self._partial(cell, slot)])

    def _duplicate(self, child: int, cell: int, slot: Slot) -> Output:
        """A child's contribution that is counted already: it retransmits because it lacks the result."""
        self.count["rx_duplicate"] += 1
        if slot.done:
            if slot.result is None:
                return Output()
            self.count["tx_replay"] += 1
            return Output([self._result(child, cell, slot)])
        if slot.bitmap == self._full and child == 0:
            # One child is enough, for none of them can have the result.
            self.count["tx_resend"] += 1
            return Output([self._partial(cell, slot)])
        return Output()

    def _partial(self, cell: int, slot: Slot) -> tuple[int, Packet]:
        assert self._parent is not None
        assert slot.value is not None
        imm, payload = slot.value.partial()
        return self._parent.data(
            Opcode.SEND_ONLY_IMM, cell, imm, payload, ackreq=True, congested=slot.congested
        )

    # ----------------------------------------------------------------------------------------- from the parent

    def on_parent(self, packet: Packet, now: float) -> Output:
        """A result."""
        assert self._parent is not None
        if packet.opcode is Opcode.ACK:
            self.count.drop("role")
            return Output()
        cell = (packet.psn - self._parent.edge.psn_rx) & psn.MASK
        imm, payload = _content(packet)
        if payload is not None and len(payload) > self.params.payload_bytes:
            self.count.drop("oversize")
            return Output()
        slot = self._slot(cell)
        age = psn.diff(cell, slot.tag)
        if age < 0:
            self.count["rx_stale"] += 1
        elif age > 0 or slot.bitmap != self._full:
            self.count.drop("unexpected")
        elif slot.done:
            self.count["rx_duplicate"] += 1
        else:
            self.count["rx_result"] += 1
            slot.congested |= packet.ecn == 3
            return self._finish(cell, slot, imm, payload)
        return Output()

    def _finish(self, cell: int, slot: Slot, imm: int, payload: bytes | None) -> Output:
        """The result of the slot's cell is known: keep it for replays and multicast it."""
        slot.value, slot.result, slot.done = None, (imm, payload), True
        self.count["tx_result"] += len(self._children)
        return Output([self._result(child, cell, slot) for child in range(len(self._children))])

    def _result(self, child: int, cell: int, slot: Slot) -> tuple[int, Packet]:
        assert slot.result is not None
        end = self._children[child]
        imm, payload = for_child(end.edge, *slot.result)
        return end.data(Opcode.SEND_ONLY_IMM, cell, imm, payload, ackreq=True, congested=slot.congested)

    def _reflect(self, end: EdgeEnd, packet: Packet) -> Output:
        """A host's ACK or NAK of result s becomes the ACK or NAK of its contribution s (ACK reflection)."""
        if not self.params.ack_reflection or end.edge.peer_is_engine:
            self.count.drop("role")
            return Output()
        assert packet.aeth is not None
        self.count["tx_reflected"] += 1
        return Output([end.ack((packet.psn - end.edge.psn_tx) & psn.MASK, packet.aeth)])

    def slots(self) -> tuple[SlotStatus, ...]:
        """Slots that have served a cell."""
        return tuple(
            SlotStatus(s.tag, s.bitmap, s.done)
            for s in self._slots
            if s.value is not None or s.result is not None
        )


def _content(packet: Packet) -> tuple[int, bytes | None]:
    """Descriptor and payload (None for NULL) of a data packet."""
    assert packet.imm is not None
    return packet.imm, packet.payload or None


class Mode3Engine(EngineBase):
    """The engine of Mode III."""

    MODE = 3

    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        return Mode3Group(entry, counters)


@dataclass(slots=True)
class _Outstanding:
    """A contribution whose result is not here yet."""

    cell: Cell
    first_sent: float
    last_sent: float
    resent: bool = False


class Mode3Agent(AgentBase):
    """The rank's end in Mode III: it repeats a contribution until the result is here (EPIC-M3-20 to EPIC-M3-25)."""

    # A result that is this many cells newer than a missing one makes the agent repeat the missing one at once.
    REORDER_THRESHOLD = 3

    def __init__(self, group: RankGroup) -> None:
        super().__init__(group)
        self._outstanding: dict[int, _Outstanding] = {}
        self._early: dict[int, Packet] = {}
        self._newest = -1
        self._timeout = RetransmissionTimeout(group.params)

    def _transmit(self, number: int, cell: Cell, now: float) -> Output:
        self._outstanding[number] = _Outstanding(cell, now, now)
        self._count["tx_contribution"] += 1
        return Output([self._contribution(number, cell)])

    def _contribution(self, number: int, cell: Cell) -> tuple[int, Packet]:
        return self._end.data(Opcode.SEND_ONLY_IMM, number, cell.imm, cell.payload, ackreq=True)

    def _admitted(self, packet: Packet, now: float) -> Output:
        if packet.opcode is Opcode.ACK:
            self._count.drop("role")
            return Output()
        number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
        if number < self._delivered or number in self._early:
            self._count["rx_duplicate"] += 1
            return Output()
        waiting = self._outstanding.get(number)
        if waiting is None:
            self._count.drop("unexpected")
            return Output()
        self._count["rx_result"] += 1
        if not waiting.resent:
            self._timeout.sample(now - waiting.first_sent)
        self._timeout.progress()
        del self._outstanding[number]
        self._early[number] = packet
        self._newest = max(self._newest, number)
        output = Output()
        while self._delivered in self._early:
            ready = self._early.pop(self._delivered)
            output.events.append(self._deliver(*_content(ready), congested=ready.ecn == 3, now=now))
        output.sends += self._fast_retransmissions(now)
        return output

    def _fast_retransmissions(self, now: float) -> list[tuple[int, Packet]]:
        """Cells overtaken by several newer results are lost, not late: repeat each once without waiting."""
        sends = []
        for number in range(self._delivered, self._newest - self.REORDER_THRESHOLD + 1):
            waiting = self._outstanding.get(number)
            if waiting is not None and not waiting.resent:
                sends.append(self._resend(number, waiting, now))
        return sends

    def _resend(self, number: int, waiting: _Outstanding, now: float) -> tuple[int, Packet]:
        waiting.last_sent, waiting.resent = now, True
        self._count["tx_retransmission"] += 1
        return self._contribution(number, waiting.cell)

    def _timers(self, now: float) -> Output:
        # The sum is the one of `_timer_deadline`: comparing a difference instead could round the other way.
        timeout = self._timeout.value
        due = [(n, w) for n, w in self._outstanding.items() if w.last_sent + timeout <= now]
        if due:
            self._timeout.expired()
        return Output([self._resend(number, waiting, now) for number, waiting in due])

    def _timer_deadline(self) -> float | None:
        oldest = min((w.last_sent for w in self._outstanding.values()), default=None)
        return None if oldest is None else oldest + self._timeout.value
