"""Mode II, packet termination: every edge is a reliable connection of single packets, cells are pipelined.

Engine: EPIC-M2-01 to EPIC-M2-14. Agent: EPIC-M2-20 to EPIC-M2-22. State of a group: `agg[W]`, `bcast[W]`, and a
requester and a responder an edge. Why W slots of each suffice is argued in epic.md, section "Mode II".
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_models.reference.cells import CellValue, for_child, whole_elements
from epic_models.reference.endpoint import Counters, EdgeEnd, EngineBase, GroupMachine
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import Output, SlotStatus
from epic_models.reference.rc import Arrival, Message, Requester, Responder
from epic_models.reference.rc_agent import RcAgent
from epic_spec.packets import Packet
from epic_spec.psn import MASK
from epic_spec.tables import Opcode


@dataclass(slots=True)
class AggSlot:
    """A cell on its way up. The slot is free again when the cell's result has passed this engine."""

    cell: int
    value: CellValue
    bitmap: int = 0


class _ChildEdge:
    """An edge to a child: contributions come in, results go out."""

    def __init__(self, end: EdgeEnd, counters: Counters) -> None:
        self.end = end
        self.responder = Responder(end, counters)
        self.requester = Requester(end, counters, first_time="tx_result")


class _ParentEdge:
    """The edge to the parent: partials go out, results come in."""

    def __init__(self, end: EdgeEnd, counters: Counters) -> None:
        self.end = end
        self.responder = Responder(end, counters)
        self.requester = Requester(end, counters, first_time="tx_partial")


class Mode2Group(GroupMachine):
    """One group: `passed` results have gone down through this engine."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        super().__init__(entry, counters)
        self._children = [_ChildEdge(EdgeEnd(e, entry.params), counters) for e in entry.children]
        self._parent = (
            None if entry.parent is None else _ParentEdge(EdgeEnd(entry.parent, entry.params), counters)
        )
        self._full = (1 << len(entry.children)) - 1
        self._agg: list[AggSlot | None] = [None] * entry.params.window
        self._passed = 0

    # ------------------------------------------------------------------------------------------ from a child

    def on_child(self, child: int, packet: Packet, now: float) -> Output:
        """A contribution, or an acknowledgement of a result."""
        edge = self._children[child]
        if edge.requester.failed:
            self.count.drop("edge_error")
            return Output()
        if packet.opcode is Opcode.ACK:
            return edge.requester.on_ack(packet, now)
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival)
        reason = self._refusal(edge, packet)
        if reason is not None:
            self.count.drop(reason)
            return Output()
        cell = edge.responder.expected
        self._store(child, cell, packet)
        # Contribution s proves that this child has result s - W, even when its ACK was lost.
        edge.requester.acknowledge_messages(cell - self.params.window + 1, now)
        output = edge.responder.accept(completes=True, ackreq=packet.ackreq)
        output.extend(self._completed(cell, now))
        return output

    def _refusal(self, edge: _ChildEdge, packet: Packet) -> str | None:
        """Why the expected contribution is not taken (and not acknowledged), or None."""
        assert packet.imm is not None
        if len(packet.payload) > self.params.payload_bytes:
            return "oversize"
        between = edge.end.edge.peer_is_engine
        if packet.payload and not whole_elements(
            self.params, packet.imm, len(packet.payload), between_engines=between
        ):
            return "element"
        if edge.responder.expected >= self._passed + self.params.window:
            return "window"
        return None

    def _store(self, child: int, cell: int, packet: Packet) -> None:
        assert packet.imm is not None
        index = cell % self.params.window
        slot = self._agg[index]
        if slot is None or slot.cell != cell:
            assert slot is None or slot.cell < self._passed, "agg slot reused before its result passed"
            slot = self._agg[index] = AggSlot(cell, CellValue(self.params))
        self.count["rx_contribution"] += 1
        poisoned = slot.value.err
        edge = self._children[child].end.edge
        slot.value.add(child, edge, packet.imm, packet.payload or None, congested=packet.ecn == 3)
        self.count["cells_poisoned"] += slot.value.err and not poisoned
        slot.bitmap |= 1 << child

    def _completed(self, cell: int, now: float) -> Output:
        """Send the partial, or the result at the root, when the cell has every contribution."""
        slot = self._agg[cell % self.params.window]
        assert slot is not None
        if slot.bitmap != self._full:
            return Output()
        self.count["cells_completed"] += 1
        if self._parent is None:
            return self._publish(Message(*slot.value.result(), slot.value.congested), now)
        message = Message(*slot.value.partial(), slot.value.congested)
        return self._parent.requester.send(message, now)

    # ----------------------------------------------------------------------------------------- from the parent

    def on_parent(self, packet: Packet, now: float) -> Output:
        """A result, or an acknowledgement of a partial."""
        edge = self._parent
        assert edge is not None
        if edge.requester.failed:
            self.count.drop("edge_error")
            return Output()
        if packet.opcode is Opcode.ACK:
            return edge.requester.on_ack(packet, now)
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival)
        if len(packet.payload) > self.params.payload_bytes:
            self.count.drop("oversize")
            return Output()
        slot = self._agg[self._passed % self.params.window]
        if slot is None or slot.cell != self._passed or slot.bitmap != self._full:
            self.count.drop("unexpected")
            return Output()
        assert packet.imm is not None
        congested = packet.ecn == 3 or slot.value.congested
        # The result of a cell acknowledges the partial of it and of all before it.
        edge.requester.acknowledge_messages(self._passed + 1, now)
        self.count["rx_result"] += 1
        published = self._publish(Message(packet.imm, packet.payload or None, congested), now)
        output = edge.responder.accept(completes=True, ackreq=packet.ackreq)
        output.extend(published)
        return output

    def _publish(self, message: Message, now: float) -> Output:
        """Store the next result in every child's share of `bcast` and send it."""
        window = self.params.window
        output = Output()
        for edge in self._children:
            acknowledged = edge.requester.acknowledged_messages
            assert edge.requester.failed or acknowledged > self._passed - window, (
                "bcast slot reused too early"
            )
            imm, payload = for_child(edge.end.edge, message.imm, message.payload)
            output.extend(edge.requester.send(Message(imm, payload, message.congested), now))
        self._passed += 1
        return output

    # ------------------------------------------------------------------------------------------------- timers

    def _requesters(self) -> list[Requester]:
        below = [edge.requester for edge in self._children]
        return below if self._parent is None else [*below, self._parent.requester]

    def poll(self, now: float) -> Output:
        """Run the timer of every edge that is due."""
        output = Output()
        for requester in self._requesters():
            output.extend(requester.poll(now))
        return output

    def next_deadline(self) -> float | None:
        """The earliest timer of an edge."""
        return min((d for r in self._requesters() if (d := r.next_deadline()) is not None), default=None)

    def slots(self) -> tuple[SlotStatus, ...]:
        """The agg slots in use; `done` when the result has passed."""
        return tuple(
            SlotStatus(s.cell & MASK, s.bitmap, s.cell < self._passed) for s in self._agg if s is not None
        )

    def failed_edges(self) -> tuple[str, ...]:
        """Names of edges in error."""
        ends = [e for e in [*self._children, self._parent] if e is not None]
        return tuple(e.end.edge.name for e in ends if e.requester.failed)


class Mode2Engine(EngineBase):
    """The engine of Mode II."""

    MODE = 2

    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        return Mode2Group(entry, counters)


class Mode2Agent(RcAgent):
    """The rank's end in Mode II: an RC endpoint whose messages are single packets."""
