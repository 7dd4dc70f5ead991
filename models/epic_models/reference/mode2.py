"""Mode II, packet termination: every edge is a reliable connection of single packets, cells are pipelined.

Engine: EPIC-M2-01 to EPIC-M2-16. Agent: EPIC-M2-20 to EPIC-M2-22. State of a group: `agg[W]`, `bcast[W]`, and a
requester and a responder an edge. Why W slots of each suffice is argued in epic.md, section "Mode II".
"""

from __future__ import annotations

from epic_models.reference.cells import whole_elements
from epic_models.reference.endpoint import Counters, EdgeEnd, EngineBase, GroupMachine
from epic_models.reference.group import Edge, EngineGroup
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Arrival, Message
from epic_models.reference.rc_agent import RcAgent
from epic_models.reference.rc_group import RcEdge, RcGroup
from epic_spec.packets import Packet


class Mode2Group(RcGroup[RcEdge]):
    """One group with W slots each way."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        super().__init__(entry, counters, entry.params.window)

    def _make_edge(self, edge: Edge, first_time: str) -> RcEdge:
        return RcEdge(EdgeEnd(edge, self.params), self.count, first_time)

    def _contribution(self, child: int, edge: RcEdge, packet: Packet, now: float) -> Output:
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival)
        reason = self._refusal(edge, packet)
        if reason is not None:
            self.count.drop(reason)
            return Output()
        cell = edge.responder.expected
        self._store(child, cell, _message(packet), now)
        output = edge.responder.accept(completes=True, ackreq=packet.ackreq)
        output.extend(self._completed(cell, now))
        return output

    def _refusal(self, edge: RcEdge, packet: Packet) -> str | None:
        """Why the expected contribution is not taken (and not acknowledged), or None."""
        assert packet.imm is not None
        size = len(packet.payload)
        if size > self.params.payload_bytes:
            return "oversize"
        between = edge.end.edge.peer_is_engine
        if size and not whole_elements(self.params, packet.imm, size, between_engines=between):
            return "element"
        if edge.responder.expected >= self._passed + self.params.window:
            return "window"
        return None

    def _result(self, edge: RcEdge, packet: Packet, now: float) -> Output:
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival)
        if len(packet.payload) > self.params.payload_bytes:
            self.count.drop("oversize")
            return Output()
        slot = self._complete(self._passed)
        if slot is None:
            self.count.drop("unexpected")
            return Output()
        published = self._result_arrived(edge, slot, _message(packet), now)
        output = edge.responder.accept(completes=True, ackreq=packet.ackreq)
        output.extend(published)
        return output

    def _publish(self, message: Message, now: float) -> Output:
        assert self._bcast_free(), "bcast slot reused before every child has the result in it"
        return super()._publish(message, now)


def _message(packet: Packet) -> Message:
    """A packet as a message of its own."""
    assert packet.imm is not None
    return Message(packet.imm, packet.payload or None, packet.ecn == 3)


class Mode2Engine(EngineBase):
    """The engine of Mode II."""

    MODE = 2

    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        return Mode2Group(entry, counters)


class Mode2Agent(RcAgent):
    """The rank's end in Mode II: an RC endpoint whose messages are single packets."""
