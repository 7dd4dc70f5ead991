"""The agent that is an RC endpoint: hosts of Modes I and II, and of Mode III with ACK reflection (a stock NIC's rules).

A cell is one message: of many packets in Mode I, of one in the others. Realizes EPIC-M1-20, EPIC-M2-20 to EPIC-M2-22
and EPIC-M3-26.
"""

from __future__ import annotations

from epic_models.reference.agent import AgentBase
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import Cell, Output
from epic_models.reference.rc import Arrival, Message, Reassembly, Requester, Responder
from epic_spec.packets import Packet
from epic_spec.tables import NakCode, Opcode


class RcAgent(AgentBase):
    """Contributions go out through a requester, results come in through a responder."""

    def __init__(self, group: RankGroup) -> None:
        super().__init__(group)
        params = group.params
        self._requester = Requester(
            self._end, self._count, first_time="tx_contribution", patient=params.ack_reflection
        )
        self._responder = Responder(self._end, self._count)
        self._reassembly = Reassembly(params.payload_bytes, params.cell_bytes)

    def _transmit(self, number: int, cell: Cell, now: float) -> Output:
        return self._requester.send(Message(cell.imm, cell.payload), now)

    def _admitted(self, packet: Packet, now: float) -> Output:
        if self._requester.failed:
            self._count.drop("edge_error")
            return Output()
        if packet.opcode is Opcode.ACK:
            return self._requester.on_ack(packet, now)
        arrival = self._responder.classify(packet)
        if arrival is not Arrival.EXPECTED:
            return self._responder.out_of_order(arrival)
        fault = self._reassembly.fault(packet)
        if fault is not None:
            self._count.drop(fault)
            return self._responder.refuse(NakCode.INVALID_REQUEST)
        if not self.outstanding:
            self._count.drop("unexpected")
            return Output()
        message = self._reassembly.push(packet)
        output = self._responder.accept(completes=message is not None, ackreq=packet.ackreq)
        if message is not None:
            self._count["rx_result"] += 1
            # The result of a cell acknowledges the contribution to it and to all before it.
            self._requester.acknowledge_messages(self._delivered + 1, now)
            event = self._deliver(message.imm, message.payload, congested=message.congested, now=now)
            output.events.append(event)
        return output

    def _timers(self, now: float) -> Output:
        return self._requester.poll(now)

    def _timer_deadline(self) -> float | None:
        return self._requester.next_deadline()
