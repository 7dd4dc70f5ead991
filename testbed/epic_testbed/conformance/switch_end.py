"""The end of a host's edge that the suite plays: its memory of both directions, and what holds of every frame.

Packets of a direction are numbered from its base, unbounded: a number is a cell in Modes II and III, a packet of a
message in Mode I.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epic_models.reference.endpoint import ack_aeth
from epic_models.reference.group import Edge, GroupParams
from epic_models.reference.rc import Message, segments
from epic_spec import psn
from epic_spec.packets import Aeth, Packet
from epic_spec.tables import SYNDROME_MASK, Opcode, Syndrome
from epic_testbed.conformance.record import Failure, describe

Tamper = Callable[[bytes], bytes]

DATA = (Opcode.SEND_ONLY_IMM, Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_LAST_IMM)


@dataclass(frozen=True, slots=True)
class Contribution:
    """A cell as the host contributed it: one message in Mode I, one packet otherwise."""

    cell: int
    imm: int
    payload: bytes | None
    packets: int = 1


class SwitchEnd:
    """The engine above one rank. `send` lets a packet go to the host, its bytes changed by a function where given.

    `acknowledge`: data is acknowledged as it comes (Modes I and II); `reflect`: the host's own acknowledgements are
    returned to it (Mode III with ack_reflection). Both may be switched off to see what the host does without.
    """

    def __init__(
        self, edge: Edge, params: GroupParams, ethernet: bool, send: Callable[[Packet, Tamper | None], None]
    ) -> None:
        self.edge = edge
        self.params = params
        self.reliable = params.mode != 3 or params.ack_reflection
        self.acknowledge = params.mode != 3
        self.reflect = params.mode == 3 and params.ack_reflection
        self._ethernet = ethernet
        self._send = send
        # From the host: packets as first sent, by number; what is not yet looked at by the case.
        self.first: dict[int, Packet] = {}
        self.waiting: list[Contribution] = []
        self.repeats: list[int] = []
        self.acks: list[Packet] = []
        self.to_lose = 0  # the next packets of the host that are lost; `loses` decides of the others
        self.loses: Callable[[], bool] = lambda: False
        self.cell_numbers: list[list[int]] = [[]]  # numbers of the packets of each cell seen
        self._expected = 0
        self._parts: list[Packet] = []
        self._messages = 0
        self._held: set[int] = set()
        self.sports: set[int] = set()
        # To the host.
        self.results: dict[int, list[Packet]] = {}
        self.next_number = 0
        self._newest_sent = -1
        self._complete: set[int] = set()

    # ------------------------------------------------------------------------------------------- from the host

    @property
    def results_sent(self) -> int:
        """Results that the host may have received in order: it has never more."""
        count = 0
        while count in self._complete:
            count += 1
        return count

    def take(self, packet: Packet, frame: bytes) -> None:
        """A frame from the host. Raises Failure when it breaks a rule that holds of every frame."""
        self._check_frame(packet, frame)
        self.sports.add(packet.sport)
        if packet.opcode is Opcode.ACK:
            self._take_ack(packet)
            return
        newest = max(self.first, default=0)
        number = psn.nearest(psn.add(packet.psn, -self.edge.psn_rx), newest)
        known = self.first.get(number)
        if known is None:
            self._check_new(number, packet)
        else:
            self._check_repeat(number, known, packet)
            self.repeats.append(number)
        if self.to_lose:
            self.to_lose -= 1
        elif self.loses():
            return
        elif self.reliable:
            self._store_in_order(number, packet)
        elif number not in self._held:
            self._held.add(number)
            assert packet.imm is not None
            self.waiting.append(Contribution(number, packet.imm, packet.payload or None))

    def _check_frame(self, packet: Packet, frame: bytes) -> None:
        """Addresses, QPN, P_Key and ICRC are those of the installation (EPIC-W-01, EPIC-W-11, EPIC-W-12)."""
        edge, params, wrong = self.edge, self.params, []
        if (packet.src_ip, packet.dst_ip, packet.qpn) != (edge.peer.ip, edge.local.ip, edge.local.qpn):
            wrong.append(
                f"{packet.src_ip} > {packet.dst_ip} QPN {packet.qpn:#x}, expected {edge.peer.ip} > "
                f"{edge.local.ip} QPN {edge.local.qpn:#x}"
            )
        if self._ethernet:
            wrong += self._ethernet_faults(packet)
        if packet.pkey != params.pkey:
            wrong.append(f"P_Key {packet.pkey:#x}, expected {params.pkey:#x}")
        if params.icrc == "full" and not packet.icrc_ok:
            wrong.append("wrong ICRC")
        if params.icrc == "none" and frame[-4:] != bytes(4):
            wrong.append(f"ICRC {frame[-4:].hex()}, expected 00000000 (icrc = none)")
        if wrong:
            raise Failure(f"a frame of the host: {wrong[0].split(',')[0]}", ["as installed"], wrong)

    def _ethernet_faults(self, packet: Packet) -> list[str]:
        edge, wrong = self.edge, []
        if (packet.src_mac, packet.dst_mac) != (edge.peer.mac, edge.local.mac):
            wrong.append(
                f"MACs {packet.src_mac} > {packet.dst_mac}, expected {edge.peer.mac} > {edge.local.mac}"
            )
        if not packet.dont_fragment:
            wrong.append("DF clear, expected set (EPIC-W-01)")
        return wrong

    def _check_new(self, number: int, packet: Packet) -> None:
        """The window, the numbering, AckReq, the size (EPIC-A-01, EPIC-W-16, EPIC-W-22, EPIC-H-09)."""
        line = describe(packet, self.edge, received=True)
        if packet.opcode not in DATA or (self.params.mode != 1 and packet.opcode is not Opcode.SEND_ONLY_IMM):
            raise Failure("an opcode that the mode does not use", ["SEND_ONLY_IMM"], [line])
        following = max(self.first, default=-1) + 1
        if number < 0 or (self.reliable and number != following):
            raise Failure(
                "a PSN that is not the next of the host's packets (EPIC-W-16)", [f"#{following}"], [line]
            )
        cell = len(self.cell_numbers) - 1 if self.params.mode == 1 else number
        if cell >= self.results_sent + self.params.window:
            raise Failure(
                f"cell {cell} is contributed outside the window (EPIC-A-01)",
                [f"cells below {self.results_sent} results + W = {self.params.window}"],
                [line],
            )
        if packet.imm is not None and not packet.ackreq:
            raise Failure("AckReq is not set in a packet that ends a cell (EPIC-W-22)", ["AckReq 1"], [line])
        if len(packet.payload) > self.params.payload_bytes:
            raise Failure(
                "a packet above payload_bytes (EPIC-H-09)", [f"{self.params.payload_bytes} B"], [line]
            )
        self.first[number] = packet
        self._note_cell(cell, number, ends=packet.imm is not None)

    def _note_cell(self, cell: int, number: int, *, ends: bool) -> None:
        while len(self.cell_numbers) <= cell + ends:
            self.cell_numbers.append([])
        self.cell_numbers[cell].append(number)

    def _check_repeat(self, number: int, known: Packet, packet: Packet) -> None:
        """What is sent again is as it was (EPIC-H-04)."""

        def content(p: Packet) -> tuple[object, ...]:
            return p.opcode, p.imm, p.payload

        if content(known) != content(packet):
            raise Failure(
                f"packet #{number} is repeated with other content (EPIC-H-04)",
                [describe(known, self.edge, received=True)],
                [describe(packet, self.edge, received=True)],
            )

    def _store_in_order(self, number: int, packet: Packet) -> None:
        if number == self._expected:
            self._expected += 1
            self._parts.append(packet)
            if packet.imm is not None:
                self._end_message(packet.imm)
        if self.acknowledge and packet.ackreq and number < self._expected:
            self.ack(self._expected - 1)

    def _end_message(self, imm: int) -> None:
        parts, self._parts = self._parts, []
        payload = b"".join(p.payload for p in parts)
        size = self.params.payload_bytes
        opcodes = [p.opcode for p in parts]
        right = [o for o, _, _ in segments(Message(imm, payload or None), size)]
        if opcodes != right or any(len(p.payload) != size for p in parts[:-1]):
            raise Failure(
                f"message {self._messages} is segmented wrongly (EPIC-M1-02)",
                [o.name for o in right],
                [f"{p.opcode.name} {len(p.payload)} B" for p in parts],
            )
        if len(payload) > self.params.cell_bytes:
            raise Failure(
                f"message {self._messages} is too long (EPIC-H-09)",
                [f"at most {self.params.cell_bytes} B"],
                [f"{len(payload)} B"],
            )
        self.waiting.append(Contribution(self._messages, imm, payload or None, len(parts)))
        self._messages += 1

    def _take_ack(self, packet: Packet) -> None:
        line = describe(packet, self.edge, received=True)
        if not self.reliable:
            raise Failure(
                "an acknowledgement in Mode III without ack_reflection (EPIC-M3-25)", ["none"], [line]
            )
        number = self.ack_number(packet)
        assert packet.aeth is not None
        positive = packet.aeth.syndrome & SYNDROME_MASK == Syndrome.ACK
        if number > self._newest_sent + (not positive):
            raise Failure(
                "an acknowledgement of a packet that was not sent (EPIC-W-18)",
                [f"at most #{self._newest_sent}"],
                [line],
            )
        self.acks.append(packet)
        if self.reflect:
            self.ack(number, packet.aeth)

    def ack_number(self, packet: Packet) -> int:
        """The number of the result packet that an acknowledgement of the host names."""
        return psn.nearest(psn.add(packet.psn, -self.edge.psn_tx), max(self._newest_sent, 0))

    # --------------------------------------------------------------------------------------------- to the host

    def prepare(self, cell: int, imm: int, payload: bytes | None) -> list[Packet]:
        """The packets of a result, made the first time that it is asked for."""
        if cell not in self.results:
            number = self.next_number if self.params.mode == 1 else cell
            packets = []
            for opcode, immediate, part in segments(Message(imm, payload), self.params.payload_bytes):
                packets.append(self.data(opcode, number, immediate, part or b""))
                number += 1
            self.results[cell] = packets
            self.next_number = max(self.next_number, number)
        return self.results[cell]

    def data(self, opcode: Opcode, number: int, imm: int | None, payload: bytes = b"") -> Packet:
        """A data packet to the host."""
        packet = self.edge.packet(
            opcode, number, imm=imm, payload=payload, ackreq=imm is not None, pkey=self.params.pkey
        )
        packet.icrc_ok = self.params.icrc == "full"
        return packet

    def result_numbers(self, cell: int) -> list[int]:
        """The numbers of the packets of a prepared result."""
        return [psn.diff(p.psn, self.edge.psn_tx) for p in self.results[cell]]

    def forget(self, cell: int) -> None:
        """Should `cell` be the newest prepared result, it is to be made anew."""
        self.next_number -= len(self.results.pop(cell, []))

    def result(self, cell: int, tamper: Tamper | None = None) -> None:
        """Send a prepared result, or repeat it."""
        for packet in self.results[cell]:
            self.put(packet, tamper)
        self._complete.add(cell)

    def put(self, packet: Packet, tamper: Tamper | None = None) -> None:
        """Send a packet, noting how far the results have come."""
        if packet.opcode is not Opcode.ACK:
            number = psn.nearest(psn.add(packet.psn, -self.edge.psn_tx), max(self._newest_sent, 0))
            self._newest_sent = max(self._newest_sent, number)
        self._send(packet, tamper)

    def ack(self, number: int, aeth: Aeth | None = None) -> None:
        """Acknowledge the host's packet `number`: positively, unless `aeth` says otherwise."""
        packet = self.edge.packet(
            Opcode.ACK, number, aeth=aeth or ack_aeth(self._messages), pkey=self.params.pkey
        )
        packet.icrc_ok = self.params.icrc == "full"
        self.put(packet)
