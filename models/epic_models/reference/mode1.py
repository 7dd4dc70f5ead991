"""Mode I, message termination: the engine is a full RC endpoint on every edge and aggregates whole messages.

Engine: EPIC-M1-01 to EPIC-M1-19. Agent: EPIC-M1-20. State of a group: `agg[B]` and `bcast[B]` message buffers, and a
requester, a responder and a reassembly an edge. A cell is a message, so W counts messages.
"""

from __future__ import annotations

from epic_models.reference.cells import whole_elements
from epic_models.reference.endpoint import Counters, EdgeEnd, EngineBase, GroupMachine
from epic_models.reference.group import Edge, EngineGroup
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Arrival, Message, Reassembly
from epic_models.reference.rc_agent import RcAgent
from epic_models.reference.rc_group import AggSlot, RcEdge, RcGroup
from epic_spec.packets import NULL_BIT, Packet
from epic_spec.tables import NakCode


class _MessageEdge(RcEdge):
    """An edge on which messages are put together."""

    def __init__(self, end: EdgeEnd, counters: Counters, first_time: str) -> None:
        super().__init__(end, counters, first_time)
        self.reassembly = Reassembly(end.params.payload_bytes, end.params.message_bytes)


class Mode1Group(RcGroup[_MessageEdge]):
    """One group with B message buffers each way."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        super().__init__(entry, counters, entry.params.message_buffers)

    def _make_edge(self, edge: Edge, first_time: str) -> _MessageEdge:
        return _MessageEdge(EdgeEnd(edge, self.params), self.count, first_time)

    def _child_acknowledged(self, edge: _MessageEdge, packet: Packet, now: float) -> Output:
        output = super()._child_acknowledged(edge, packet, now)
        output.extend(self._publish_completed(now))
        return output

    def _contribution(self, child: int, edge: _MessageEdge, packet: Packet, now: float) -> Output:
        room = edge.responder.messages < self._passed + self.params.message_buffers
        output, message = self._receive(edge, packet, room=room)
        if message is None:
            return output
        cell = edge.responder.messages - 1
        self._store(child, cell, message, now)
        output.extend(self._completed(cell, now))
        return output

    def _result(self, edge: _MessageEdge, packet: Packet, now: float) -> Output:
        slot = self._complete(self._passed)
        if slot is None and edge.responder.classify(packet) is Arrival.EXPECTED:
            self.count.drop("unexpected")
            return Output()
        output, message = self._receive(edge, packet, room=self._bcast_free())
        if message is None:
            return output
        assert slot is not None
        output.extend(self._result_arrived(edge, slot, message, now))
        return output

    def _receive(self, edge: _MessageEdge, packet: Packet, *, room: bool) -> tuple[Output, Message | None]:
        """Take a data packet in order; the message when it is whole. `room`: a buffer is free for a new message."""
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival), None
        fault = edge.reassembly.fault(packet) or self._broken_elements(edge, packet)
        if fault is not None:
            # Refused before it is taken: the message stays as it was (EPIC-W-21).
            self.count.drop(fault)
            return edge.responder.refuse(NakCode.INVALID_REQUEST), None
        if edge.reassembly.between_messages and not room:
            self.count.drop("no_buffer")
            return edge.responder.not_ready(), None
        message = edge.reassembly.push(packet)
        return edge.responder.accept(completes=message is not None, ackreq=packet.ackreq), message

    def _broken_elements(self, edge: _MessageEdge, packet: Packet) -> str | None:
        """Why the last packet of a message does not make it whole elements ("element"), or None (EPIC-M1-19)."""
        if packet.imm is None or packet.imm & NULL_BIT:
            return None
        between = edge.end.edge.peer_is_engine and edge is not self._parent
        size = edge.reassembly.size + len(packet.payload)
        whole = not size or whole_elements(self.params, packet.imm, size, between_engines=between)
        return None if whole else "element"

    def _root_completed(self, slot: AggSlot, now: float) -> Output:
        return self._publish_completed(now)

    def _publish_completed(self, now: float) -> Output:
        """Root: publish completed cells in order, as far as `bcast` has room (with B < W it may have none)."""
        output = Output()
        while self._parent is None and self._bcast_free() and (slot := self._complete(self._passed)):
            output.extend(self._publish(Message(*slot.value.result(), slot.value.congested), now))
        return output

    def poll(self, now: float) -> Output:
        """Run the timer of every edge that is due."""
        output = super().poll(now)
        # An edge that has just gone into error is waited for no longer.
        output.extend(self._publish_completed(now))
        return output


class Mode1Engine(EngineBase):
    """The engine of Mode I."""

    MODE = 1

    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        return Mode1Group(entry, counters)


class Mode1Agent(RcAgent):
    """The rank's end in Mode I: an RC endpoint that segments and reassembles messages."""
