"""A reliable connection between two ranks: the rules of EPIC-M1-01 to EPIC-M1-12, both directions.

Packets are longer than the group's payload_bytes by the header of a message, so that a cell that is one packet on
the network is one packet here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from epic_host.fallback.message import HEADER_BYTES
from epic_models.reference.endpoint import Counters, EdgeEnd
from epic_models.reference.group import Edge, GroupParams
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Arrival, Message, Reassembly, Requester, Responder
from epic_spec.packets import Packet
from epic_spec.tables import NakCode, Opcode


@dataclass(frozen=True, slots=True)
class EdgeParams(GroupParams):
    """A group's parameters with packets and messages longer by the header; checked where the group's were."""

    def __post_init__(self) -> None:
        pass


def edge_params(params: GroupParams) -> EdgeParams:
    """The parameters of the edges between ranks of a group."""
    values = asdict(params)
    values["payload_bytes"] += HEADER_BYTES
    values["message_bytes"] = params.cell_bytes + HEADER_BYTES
    return EdgeParams(**values)


class PeerRequester(Requester):
    """Gives an edge up only when the peer has been heard before.

    A rank that has no agent yet acknowledges nothing. It may get its grant any moment, and if it does not, the group's
    deadline ends the wait.
    """

    def heard(self) -> None:
        """Something came from the peer: from now on its silence counts."""
        if self._patient:
            self._patient, self._retries = False, 0


class RankEdge:
    """One rank's end of the connection with `peer`."""

    def __init__(self, peer: int, edge: Edge, params: EdgeParams, counters: Counters) -> None:
        self.peer = peer
        self.edge = edge
        self._count = counters
        end = EdgeEnd(edge, params)
        self._requester = PeerRequester(end, counters, first_time="tx_partial", patient=True)
        self._responder = Responder(end, counters)
        self._reassembly = Reassembly(params.payload_bytes, params.message_bytes)
        # For each cell the newest message that the peer needs for it, until it is known to have got that.
        self._newest: dict[int, int] = {}
        self._messages = 0

    @property
    def failed(self) -> bool:
        """Whether the edge is in error."""
        return self._requester.failed

    @property
    def unacknowledged(self) -> int:
        """Packets that the peer has not acknowledged."""
        return self._requester.outstanding

    def send(self, message: Message, now: float, cell: int | None = None) -> Output:
        """Send a message, with `cell` one that the peer needs to have the result of that cell."""
        if cell is not None:
            self._newest[cell] = self._messages
        self._messages += 1
        return self._requester.send(message, now)

    def passed(self, cell: int, now: float) -> None:
        """The peer needed all messages of `cell` for what it is known to have done: they have arrived (P5)."""
        newest = self._newest.pop(cell, None)
        if newest is not None:
            self._requester.acknowledge_messages(newest + 1, now)

    def receive(self, packet: Packet, now: float) -> tuple[Output, Message | None]:
        """An admitted packet. A whole message is given, to be accepted or refused next."""
        self._requester.heard()
        if self.failed:
            self._count.drop("edge_error")
            return Output(), None
        if packet.opcode is Opcode.ACK:
            return self._requester.on_ack(packet, now), None
        arrival = self._responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return self._responder.out_of_order(arrival), None
        fault = self._reassembly.fault(packet)
        if fault is not None:
            return self.refuse(fault), None
        message = self._reassembly.push(packet)
        if message is None:
            return self._responder.accept(completes=False, ackreq=packet.ackreq), None
        return Output(), message

    def accept(self) -> Output:
        """The message is taken."""
        return self._responder.accept(completes=True, ackreq=True)

    def refuse(self, reason: str) -> Output:
        """The message breaks the rules: the peer's end of the edge goes into error (EPIC-M1-11)."""
        self._count.drop(reason)
        return self._responder.refuse(NakCode.INVALID_REQUEST)

    def poll(self, now: float) -> Output:
        """The retransmission timer, when it is due."""
        return self._requester.poll(now)

    def next_deadline(self) -> float | None:
        """When `poll` is due."""
        return self._requester.next_deadline()
