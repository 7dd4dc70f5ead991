"""The receiving half of the bench: takes frames from the device, checks what holds of each, sorts them by peer."""

from __future__ import annotations

import time
from collections.abc import Callable

from epic_spec import codec, psn
from epic_spec.errors import WireError
from epic_spec.packets import ECN_CE, ECN_ECT0, ERR_BIT, Packet
from epic_spec.tables import OPCODE_MODES, SYNDROME_MASK, Opcode, Syndrome
from epic_testbed.conformance.group import Arrival, Cell, Group, Peer
from epic_testbed.conformance.record import Failure, Step, describe, descriptor_text
from epic_testbed.dut import Dut, DutTraits

# A device that sends this many frames without a pause is stopped.
FLOOD = 10_000
ENDS_CELL = (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM)


class Receiving:
    """What a bench hears. Subclasses send."""

    def __init__(self, dut: Dut) -> None:
        self.dut = dut
        self.traits: DutTraits = dut.traits()
        self.mode = self.traits.mode
        self.log: list[Step] = []
        self.now = 0.0
        self.groups: dict[int, Group] = {}
        # Switched off by cases that send what would be answered with frames of no interest.
        self.strict = True
        self.response = 1e-3
        self._started = time.monotonic()
        self._addresses: dict[tuple[int, int, str], Peer] = {}

    def _answer(self, peer: Peer, number: int) -> None:
        raise NotImplementedError

    def _readdress(self) -> None:
        """Groups were installed or removed."""
        self._addresses = {(p.device_port, p.edge.local.qpn, p.edge.local.ip): p for p in self._peers()}

    def _peers(self) -> list[Peer]:
        return [p for g in self.groups.values() for p in g.peers()]

    # ------------------------------------------------------------------------------------------------ waiting

    def _wait(self, ready: Callable[[], bool]) -> bool:
        """Take frames until `ready`, for at most `response` seconds of the device's clock and of this machine's."""
        end = time.monotonic() + max(self.response, 10.0 if self.traits.virtual_time else 0.0)
        for _ in range(FLOOD):
            if ready():
                return True
            left = end - time.monotonic()
            if left <= 0 or not self._take(self.response if self.traits.virtual_time else left):
                return ready()
        raise Failure("the device does not stop sending", ["an answer"], [f"{FLOOD} frames"])

    def _pump(self, quiet: float) -> None:
        """Take frames until none came for `quiet` seconds. A device that floods is stopped."""
        for _ in range(FLOOD):
            if not self._take(quiet):
                return
        raise Failure("the device does not stop sending", ["silence"], [f"{FLOOD} frames"])

    def _clock(self, passed: float) -> None:
        """`passed` seconds of the device's clock went by in a wait, or those that this machine's says."""
        self.now = self.now + passed if self.traits.virtual_time else time.monotonic() - self._started

    # ----------------------------------------------------------------------------------------------- a frame

    def _take(self, timeout: float) -> bool:
        got = self.dut.receive(timeout)
        self._clock(timeout if got is None else 0.0)
        if got is None:
            return False
        try:
            packet = codec.decode(got.frame, icrc="check")
        except WireError as error:
            self.log.append(Step(self.now, f"port {got.port}", "<-", f"malformed: {error}", got.frame))
            if self.strict:
                raise Failure("a malformed frame (EPIC-W-01)", ["a RoCEv2 frame"], [str(error)]) from None
            return True
        peer = self._addresses.get((got.port, packet.qpn, packet.dst_ip))
        if peer is None:
            self.log.append(Step(self.now, f"port {got.port}", "<-", describe(packet), got.frame))
            raise Failure(
                "a frame that is for no peer on its port (EPIC-E-07)",
                [
                    f"{p.name}: {p.edge.peer.ip} > {p.edge.local.ip} QPN {p.edge.local.qpn:#x}"
                    for p in self._peers()
                ],
                [f"port {got.port}: {packet.src_ip} > {packet.dst_ip} QPN {packet.qpn:#x}"],
            )
        self.log.append(
            Step(self.now, peer.name, "<-", describe(packet, peer.edge, received=True), got.frame)
        )
        wrong = _header_faults(self.traits, peer, packet, got.frame) + _content_faults(peer, packet)
        if wrong:
            raise Failure(f"{peer.name}: {wrong[0].split(',')[0]}", ["as installed, as specified"], wrong)
        if packet.opcode is Opcode.ACK:
            peer.acks.append(packet)
        else:
            self._data(peer, packet)
        return True

    def _data(self, peer: Peer, packet: Packet) -> None:
        number = psn.add(packet.psn, -peer.edge.psn_rx)
        if self.mode == 3:
            assert packet.imm is not None
            peer.data.append(Cell(number, packet.imm, packet.payload or None, packet.ecn == ECN_CE))
            return
        distance = psn.diff(number, peer.next_received & psn.MASK)
        if distance > 0:
            raise Failure(f"{peer.name}: packets skipped", [f"#{peer.next_received}"], [f"#{number}"])
        peer.arrivals.append(Arrival(self.dut.clock(), peer.next_received + distance, packet))
        if distance < 0:
            peer.repeats += 1
            _check_repeat(peer, peer.next_received + distance, packet)
        else:
            peer.received[peer.next_received] = packet
            peer.received.pop(peer.next_received - 4096, None)
            peer.next_received += 1
            self._assemble(peer, packet)
        if peer.acknowledge and packet.ackreq:
            self._answer(peer, peer.next_received - 1)

    def _assemble(self, peer: Peer, packet: Packet) -> None:
        peer.parts.append(packet)
        if packet.imm is None:
            return
        payload = b"".join(p.payload for p in peer.parts)
        congested = any(p.ecn == ECN_CE for p in peer.parts)
        cell = Cell(peer.messages & psn.MASK, packet.imm, payload or None, congested, len(peer.parts))
        _check_segments(peer)
        peer.parts.clear()
        peer.messages += 1
        peer.data.append(cell)


def _header_faults(traits: DutTraits, peer: Peer, packet: Packet, frame: bytes) -> list[str]:
    """What holds of every frame up to UDP, and its ICRC (EPIC-W-01, EPIC-W-11, EPIC-W-12, EPIC-E-07)."""
    edge, params = peer.edge, peer.group.params
    wrong = []
    if packet.src_ip != edge.peer.ip:
        wrong.append(f"source IP {packet.src_ip}, expected {edge.peer.ip} (EPIC-E-07)")
    if traits.binding == "ethernet":
        if (packet.src_mac, packet.dst_mac) != (edge.peer.mac, edge.local.mac):
            macs = f"{edge.peer.mac} > {edge.local.mac}"
            wrong.append(f"MACs {packet.src_mac} > {packet.dst_mac}, expected {macs} (EPIC-E-07)")
        if packet.sport != edge.sport:
            wrong.append(f"UDP source port {packet.sport:#x}, expected {edge.sport:#x} (EPIC-E-07)")
        if not packet.dont_fragment:
            wrong.append("DF clear, expected DF set (EPIC-W-01)")
        if frame[40:42] != b"\0\0":
            wrong.append(f"UDP checksum {frame[40:42].hex()}, expected 0 (EPIC-W-01)")
    if params.icrc == "full" and not packet.icrc_ok:
        wrong.append("wrong ICRC (EPIC-W-11)")
    end = 14 + int.from_bytes(frame[16:18], "big")
    if params.icrc == "none" and frame[end - 4 : end] != bytes(4):
        wrong.append(f"ICRC {frame[end - 4 : end].hex()}, expected 00000000 (EPIC-W-12)")
    pad = frame[43] >> 4 & 3
    if any(frame[end - 4 - pad : end - 4]):
        wrong.append("Pad bytes, expected zeros (EPIC-W-13)")
    return wrong


def _content_faults(peer: Peer, packet: Packet) -> list[str]:
    """What holds of every BTH and of what follows it."""
    params = peer.group.params
    wrong = []
    if packet.pkey != params.pkey:
        wrong.append(f"P_Key {packet.pkey:#x}, expected {params.pkey:#x} (EPIC-E-07)")
    reserved = {name: getattr(packet, name) for name in ("se", "migreq", "fecn", "becn", "resv8a", "resv7")}
    wrong += [f"{name} {int(v)}, expected 0 (EPIC-W-01)" for name, v in reserved.items() if v]
    if params.mode not in OPCODE_MODES[packet.opcode.name]:
        wrong.append(f"opcode {packet.opcode.name}, expected one of Mode {params.mode} (EPIC-W-14)")
    if packet.opcode is Opcode.ACK:
        return wrong + _ack_faults(peer, packet)
    if packet.ackreq != (packet.opcode in ENDS_CELL):
        wrong.append(f"AckReq {int(packet.ackreq)}, expected {int(not packet.ackreq)} (EPIC-W-22)")
    if packet.ecn not in ((ECN_ECT0, ECN_CE) if params.ecn else (ECN_ECT0,)):
        wrong.append(f"ECN {packet.ecn:#04b} in a data packet (EPIC-E-08)")
    if len(packet.payload) > params.payload_bytes:
        wrong.append(f"payload {len(packet.payload)} bytes, expected at most {params.payload_bytes}")
    if packet.imm is not None and packet.imm & ERR_BIT and packet.imm & 1 << 7 and packet.payload:
        wrong.append("NULL with a payload (EPIC-W-19)")
    return wrong


def _ack_faults(peer: Peer, packet: Packet) -> list[str]:
    assert packet.aeth is not None
    params = peer.group.params
    wrong = []
    if params.mode == 3 and not params.ack_reflection:
        wrong.append("an acknowledgement, expected none in Mode III (EPIC-M3-13)")
    if packet.ackreq:
        wrong.append("AckReq 1 in an acknowledgement, expected 0 (EPIC-W-22)")
    if packet.ecn != ECN_ECT0 and params.mode != 3:
        wrong.append(f"ECN {packet.ecn:#04b} in an acknowledgement, expected ECT(0)")
    number = psn.diff(packet.psn, peer.edge.psn_tx)
    ack = packet.aeth.syndrome & SYNDROME_MASK == Syndrome.ACK
    if params.mode != 3 and not -1 <= number <= peer.highest_sent + (not ack):
        sent = f"packets up to #{peer.highest_sent}" if peer.highest_sent >= 0 else "nothing"
        wrong.append(
            f"an acknowledgement of packet #{number}, expected one of what was sent, {sent} (EPIC-W-18)"
        )
    return wrong


def _check_repeat(peer: Peer, number: int, packet: Packet) -> None:
    """A retransmission is the packet that was sent first; congestion may only be added (freedom 13)."""
    first = peer.received.get(number)
    if first is None:
        return
    same = (packet.opcode, packet.imm, packet.payload) == (first.opcode, first.imm, first.payload)
    if not same or (first.ecn == ECN_CE and packet.ecn != ECN_CE):
        raise Failure(
            f"{peer.name}: packet {number} is repeated with other content",
            [describe(first, peer.edge, received=True)],
            [describe(packet, peer.edge, received=True)],
        )


def _check_segments(peer: Peer) -> None:
    """A message is FIRST, MIDDLE …, LAST of whole packets, or ONLY (EPIC-M1-02, EPIC-M2-01)."""
    params = peer.group.params
    opcodes = [p.opcode for p in peer.parts]
    middle = [Opcode.SEND_MIDDLE] * (len(opcodes) - 2)
    right = (
        [Opcode.SEND_ONLY_IMM] if len(opcodes) == 1 else [Opcode.SEND_FIRST, *middle, Opcode.SEND_LAST_IMM]
    )
    last = len(peer.parts[-1].payload)
    uneven = any(len(p.payload) != params.payload_bytes for p in peer.parts[:-1])
    if opcodes != right or uneven or (last == 0 and len(opcodes) > 1):
        raise Failure(
            f"{peer.name}: wrong segmentation (EPIC-M{params.mode}-0{3 - params.mode})",
            [o.name for o in right],
            [f"{p.opcode.name} {len(p.payload)} B" for p in peer.parts],
        )


def cell_text(group: Group, cell: Cell) -> str:
    """A received cell as a line."""
    words = f"cell {cell.cell} [{descriptor_text(cell.imm)}]"
    if cell.congested:
        words += " CE"
    return words if cell.payload is None else f"{words} {cell.payload[:32].hex(' ', 4)}"
