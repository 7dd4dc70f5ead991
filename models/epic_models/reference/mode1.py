"""Mode I, message termination: the engine is a full RC endpoint on every edge and aggregates whole messages.

Engine: EPIC-M1-01 to EPIC-M1-18. Agent: EPIC-M1-20. State of a group: `agg[B]` and `bcast[B]` message buffers, and a
requester, a responder and a reassembly an edge. A cell is a message, so W counts messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_models.reference.cells import CellValue, for_child, whole_elements
from epic_models.reference.endpoint import Counters, EdgeEnd, EngineBase, GroupMachine
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import Output, SlotStatus
from epic_models.reference.rc import Arrival, Message, Reassembly, Requester, Responder
from epic_models.reference.rc_agent import RcAgent
from epic_spec.packets import NULL_BIT, Packet
from epic_spec.psn import MASK
from epic_spec.tables import NakCode, Opcode


@dataclass(slots=True)
class AggBuffer:
    """A message on its way up. The buffer is free again when the message's result has passed this engine."""

    cell: int
    value: CellValue
    bitmap: int = 0


class _RcEdge:
    """One edge: an RC endpoint in both directions."""

    def __init__(self, end: EdgeEnd, counters: Counters, first_time: str) -> None:
        self.end = end
        self.responder = Responder(end, counters)
        self.requester = Requester(end, counters, first_time=first_time)
        self.reassembly = Reassembly(end.params.payload_bytes, end.params.message_bytes)


class Mode1Group(GroupMachine):
    """One group: `passed` results have gone down through this engine."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        super().__init__(entry, counters)
        params = entry.params
        self._children = [_RcEdge(EdgeEnd(e, params), counters, "tx_result") for e in entry.children]
        parent = entry.parent
        self._parent = None if parent is None else _RcEdge(EdgeEnd(parent, params), counters, "tx_partial")
        self._full = (1 << len(entry.children)) - 1
        self._agg: list[AggBuffer | None] = [None] * params.message_buffers
        self._passed = 0

    # ------------------------------------------------------------------------------------------ from a child

    def on_child(self, child: int, packet: Packet, now: float) -> Output:
        """A packet of a contribution, or an acknowledgement of a result."""
        edge = self._children[child]
        if edge.requester.failed:
            self.count.drop("edge_error")
            return Output()
        if packet.opcode is Opcode.ACK:
            output = edge.requester.on_ack(packet, now)
            output.extend(self._publish_completed(now))
            return output
        room = edge.responder.messages < self._passed + self.params.message_buffers
        output, message = self._receive(edge, packet, room=room)
        if message is None:
            return output
        cell = edge.responder.messages - 1
        self._store(child, cell, message)
        # Contribution s proves that this child has result s - W, even when its ACK was lost.
        edge.requester.acknowledge_messages(cell - self.params.window + 1, now)
        output.extend(self._completed(cell, now))
        return output

    def _receive(self, edge: _RcEdge, packet: Packet, *, room: bool) -> tuple[Output, Message | None]:
        """Take a data packet in order; the message when it is whole. `room`: a buffer is free for a new message."""
        arrival = edge.responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return edge.responder.out_of_order(arrival), None
        fault = edge.reassembly.fault(packet)
        if fault is not None:
            self.count.drop(fault)
            return edge.responder.refuse(NakCode.INVALID_REQUEST), None
        if edge.reassembly.between_messages and not room:
            self.count.drop("no_buffer")
            return edge.responder.not_ready(), None
        if packet.imm is not None and not packet.imm & NULL_BIT:
            # Looked at before the packet is taken: a refused one leaves the message as it was (EPIC-W-21).
            between = edge.end.edge.peer_is_engine and edge is not self._parent
            size = edge.reassembly.size + len(packet.payload)
            if size and not whole_elements(self.params, packet.imm, size, between_engines=between):
                self.count.drop("element")
                return edge.responder.refuse(NakCode.INVALID_REQUEST), None
        message = edge.reassembly.push(packet)
        return edge.responder.accept(completes=message is not None, ackreq=packet.ackreq), message

    def _store(self, child: int, cell: int, message: Message) -> None:
        index = cell % self.params.message_buffers
        buffer = self._agg[index]
        if buffer is None or buffer.cell != cell:
            assert buffer is None or buffer.cell < self._passed, "agg buffer reused before its result passed"
            buffer = self._agg[index] = AggBuffer(cell, CellValue(self.params))
        self.count["rx_contribution"] += 1
        poisoned = buffer.value.err
        edge = self._children[child].end.edge
        buffer.value.add(child, edge, message.imm, message.payload, congested=message.congested)
        self.count["cells_poisoned"] += buffer.value.err and not poisoned
        buffer.bitmap |= 1 << child

    def _completed(self, cell: int, now: float) -> Output:
        """Send the partial, or the result at the root, when the cell has every contribution."""
        buffer = self._agg[cell % self.params.message_buffers]
        assert buffer is not None
        if buffer.bitmap != self._full:
            return Output()
        self.count["cells_completed"] += 1
        if self._parent is None:
            return self._publish_completed(now)
        message = Message(*buffer.value.partial(), buffer.value.congested)
        return self._parent.requester.send(message, now)

    def _publish_completed(self, now: float) -> Output:
        """Root: publish completed cells in order, as far as `bcast` has room (with B < W it may have none)."""
        output = Output()
        while self._parent is None and self._bcast_free():
            buffer = self._agg[self._passed % self.params.message_buffers]
            if buffer is None or buffer.cell != self._passed or buffer.bitmap != self._full:
                break
            output.extend(self._publish(Message(*buffer.value.result(), buffer.value.congested), now))
        return output

    # ----------------------------------------------------------------------------------------- from the parent

    def on_parent(self, packet: Packet, now: float) -> Output:
        """A packet of a result, or an acknowledgement of a partial."""
        edge = self._parent
        assert edge is not None
        if edge.requester.failed:
            self.count.drop("edge_error")
            return Output()
        if packet.opcode is Opcode.ACK:
            return edge.requester.on_ack(packet, now)
        buffer = self._agg[self._passed % self.params.message_buffers]
        complete = buffer is not None and buffer.cell == self._passed and buffer.bitmap == self._full
        if not complete and edge.responder.classify(packet) is Arrival.EXPECTED:
            self.count.drop("unexpected")
            return Output()
        output, message = self._receive(edge, packet, room=self._bcast_free())
        if message is None:
            return output
        assert buffer is not None
        edge.requester.acknowledge_messages(self._passed + 1, now)
        self.count["rx_result"] += 1
        congested = message.congested or buffer.value.congested
        output.extend(self._publish(Message(message.imm, message.payload, congested), now))
        return output

    def _bcast_free(self) -> bool:
        """Whether every child has acknowledged the result whose buffer the next one takes."""
        oldest = self._passed - self.params.message_buffers
        return all(e.requester.failed or e.requester.acknowledged_messages > oldest for e in self._children)

    def _publish(self, message: Message, now: float) -> Output:
        """Send the next result to every child; `bcast` is what their requesters keep until it is acknowledged."""
        output = Output()
        for edge in self._children:
            imm, payload = for_child(edge.end.edge, message.imm, message.payload)
            output.extend(edge.requester.send(Message(imm, payload, message.congested), now))
        self._passed += 1
        return output

    # ------------------------------------------------------------------------------------------------- timers

    def _edges(self) -> list[_RcEdge]:
        return self._children if self._parent is None else [*self._children, self._parent]

    def poll(self, now: float) -> Output:
        """Run the timer of every edge that is due."""
        output = Output()
        for edge in self._edges():
            output.extend(edge.requester.poll(now))
        # An edge that has just gone into error is waited for no longer.
        output.extend(self._publish_completed(now))
        return output

    def next_deadline(self) -> float | None:
        """The earliest timer of an edge."""
        return min((d for e in self._edges() if (d := e.requester.next_deadline()) is not None), default=None)

    def slots(self) -> tuple[SlotStatus, ...]:
        """The agg buffers in use; `done` when the result has passed."""
        return tuple(
            SlotStatus(b.cell & MASK, b.bitmap, b.cell < self._passed) for b in self._agg if b is not None
        )

    def failed_edges(self) -> tuple[str, ...]:
        """Names of edges in error."""
        return tuple(e.end.edge.name for e in self._edges() if e.requester.failed)


class Mode1Engine(EngineBase):
    """The engine of Mode I."""

    MODE = 1

    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        return Mode1Group(entry, counters)


class Mode1Agent(RcAgent):
    """The rank's end in Mode I: an RC endpoint that segments and reassembles messages."""
