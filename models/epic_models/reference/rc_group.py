"""What the engines of Modes I and II share: reliable edges, cells on their way up, results on their way down.

Both keep, for each group, `agg` slots that are free again when the cell's result has passed, a requester and a
responder an edge, and the count `passed`. A mode says how a packet becomes a contribution or a result, and when one is
refused.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from epic_models.reference.cells import CellValue, for_child
from epic_models.reference.endpoint import Counters, EdgeEnd, GroupMachine
from epic_models.reference.group import Edge, EngineGroup
from epic_models.reference.interfaces import Output, SlotStatus
from epic_models.reference.rc import Message, Requester, Responder
from epic_spec.packets import Packet
from epic_spec.psn import MASK
from epic_spec.tables import Opcode


class RcEdge:
    """One edge: an RC endpoint in both directions. `first_time` counts the messages that it sends."""

    def __init__(self, end: EdgeEnd, counters: Counters, first_time: str) -> None:
        self.end = end
        self.responder = Responder(end, counters)
        self.requester = Requester(end, counters, first_time=first_time)


@dataclass(slots=True)
class AggSlot:
    """A cell on its way up. The slot is free again when the cell's result has passed this engine."""

    cell: int
    value: CellValue
    bitmap: int = 0


E = TypeVar("E", bound=RcEdge)


class RcGroup(GroupMachine, Generic[E]):
    """One group: `passed` results have gone down through this engine. `slots` is the number of agg slots."""

    def __init__(self, entry: EngineGroup, counters: Counters, slots: int) -> None:
        super().__init__(entry, counters)
        self._children: list[E] = [self._make_edge(edge, "tx_result") for edge in entry.children]
        self._parent: E | None = None if entry.parent is None else self._make_edge(entry.parent, "tx_partial")
        self._full = (1 << len(entry.children)) - 1
        self._agg: list[AggSlot | None] = [None] * slots
        self._passed = 0

    @abstractmethod
    def _make_edge(self, edge: Edge, first_time: str) -> E:
        """An edge as the mode keeps it."""

    def on_child(self, child: int, packet: Packet, now: float) -> Output:
        """A packet of a contribution, or an acknowledgement of a result."""
        edge = self._children[child]
        if edge.requester.failed:
            return self._dead()
        if packet.opcode is Opcode.ACK:
            return self._child_acknowledged(edge, packet, now)
        return self._contribution(child, edge, packet, now)

    def on_parent(self, packet: Packet, now: float) -> Output:
        """A packet of a result, or an acknowledgement of a partial."""
        edge = self._parent
        assert edge is not None
        if edge.requester.failed:
            return self._dead()
        if packet.opcode is Opcode.ACK:
            return edge.requester.on_ack(packet, now)
        return self._result(edge, packet, now)

    def _dead(self) -> Output:
        """What comes over an edge in error is dropped (EPIC-F-02)."""
        self.count.drop("edge_error")
        return Output()

    def _child_acknowledged(self, edge: E, packet: Packet, now: float) -> Output:
        """A child acknowledges results."""
        return edge.requester.on_ack(packet, now)

    @abstractmethod
    def _contribution(self, child: int, edge: E, packet: Packet, now: float) -> Output:
        """A data packet came from a child."""

    @abstractmethod
    def _result(self, edge: E, packet: Packet, now: float) -> Output:
        """A data packet came from the parent."""

    def _store(self, child: int, cell: int, message: Message, now: float) -> None:
        """Count a contribution into its slot, which the mode has found free for it."""
        index = cell % len(self._agg)
        slot = self._agg[index]
        if slot is None or slot.cell != cell:
            assert slot is None or slot.cell < self._passed, "agg slot reused before its result passed"
            slot = self._agg[index] = AggSlot(cell, CellValue(self.params))
        self.count["rx_contribution"] += 1
        poisoned = slot.value.err
        edge = self._children[child].end.edge
        slot.value.add(child, edge, message.imm, message.payload, congested=message.congested)
        self.count["cells_poisoned"] += slot.value.err and not poisoned
        slot.bitmap |= 1 << child
        # Contribution s proves that this child has result s - W, even when its ACK was lost.
        self._children[child].requester.acknowledge_messages(cell - self.params.window + 1, now)

    def _complete(self, cell: int) -> AggSlot | None:
        """The slot of a cell that every child has contributed, or None."""
        slot = self._agg[cell % len(self._agg)]
        return slot if slot is not None and slot.cell == cell and slot.bitmap == self._full else None

    def _completed(self, cell: int, now: float) -> Output:
        """Send the partial, or the result at the root, when a contribution to `cell` was the last."""
        slot = self._complete(cell)
        if slot is None:
            return Output()
        self.count["cells_completed"] += 1
        if self._parent is None:
            return self._root_completed(slot, now)
        return self._parent.requester.send(Message(*slot.value.partial(), slot.value.congested), now)

    def _root_completed(self, slot: AggSlot, now: float) -> Output:
        """The root has a result."""
        return self._publish(Message(*slot.value.result(), slot.value.congested), now)

    def _result_arrived(self, edge: E, slot: AggSlot, message: Message, now: float) -> Output:
        """The parent's result of the next cell was taken: pass it down."""
        # The result of a cell acknowledges the partial of it and of all before it.
        edge.requester.acknowledge_messages(self._passed + 1, now)
        self.count["rx_result"] += 1
        congested = message.congested or slot.value.congested
        return self._publish(Message(message.imm, message.payload, congested), now)

    def _publish(self, message: Message, now: float) -> Output:
        """Send the next result to every child; `bcast` is what their requesters keep until it is acknowledged."""
        output = Output()
        for edge in self._children:
            imm, payload = for_child(edge.end.edge, message.imm, message.payload)
            output.extend(edge.requester.send(Message(imm, payload, message.congested), now))
        self._passed += 1
        return output

    def _bcast_free(self) -> bool:
        """Whether every child has acknowledged the result whose bcast slot the next one takes.

        An edge in error keeps nothing, so all that was sent over it counts as acknowledged.
        """
        oldest = self._passed - len(self._agg)
        return all(edge.requester.acknowledged_messages > oldest for edge in self._children)

    # ------------------------------------------------------------------------------------------------- timers

    def _edges(self) -> list[E]:
        return self._children if self._parent is None else [*self._children, self._parent]

    def poll(self, now: float) -> Output:
        """Run the timer of every edge that is due."""
        output = Output()
        for edge in self._edges():
            output.extend(edge.requester.poll(now))
        return output

    def next_deadline(self) -> float | None:
        """The earliest timer of an edge."""
        return min((d for e in self._edges() if (d := e.requester.next_deadline()) is not None), default=None)

    def slots(self) -> tuple[SlotStatus, ...]:
        """The agg slots in use; `done` when the result has passed."""
        used = [s for s in self._agg if s is not None]
        return tuple(SlotStatus(s.cell & MASK, s.bitmap, s.cell < self._passed) for s in used)

    def failed_edges(self) -> tuple[str, ...]:
        """Names of edges in error."""
        return tuple(e.end.edge.name for e in self._edges() if e.requester.failed)
