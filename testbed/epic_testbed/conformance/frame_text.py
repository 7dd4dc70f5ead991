"""A frame in words, layer by layer, for people who look at a report without a capture tool."""

from __future__ import annotations

from epic_spec import codec
from epic_spec.errors import WireError
from epic_spec.packets import Packet
from epic_spec.tables import SYNDROME_MASK, NakCode, Syndrome
from epic_testbed.conformance.record import describe

ECN = ("not-ECT", "ECT(1)", "ECT(0)", "CE")
# Bytes of a frame that are shown; the capture has all of them.
SHOWN_BYTES = 192


def layers(frame: bytes) -> list[tuple[str, str]]:
    """(layer, its fields) of a frame; for one that cannot be decoded, why, and in both cases its first bytes."""
    try:
        packet = codec.decode(frame, icrc="check")
    except WireError as error:
        rows = [("not decodable", str(error))]
    else:
        rows = _decoded(packet, frame)
    return [*rows, ("bytes", _hex(frame))]


def summary(frame: bytes) -> str:
    """A frame as a line."""
    try:
        return describe(codec.decode(frame, icrc="check"))
    except WireError as error:
        return f"not decodable: {error}"


def _decoded(packet: Packet, frame: bytes) -> list[tuple[str, str]]:
    rows = [
        ("Ethernet", f"{packet.src_mac} > {packet.dst_mac}, {len(frame)} bytes"),
        (
            "IPv4",
            f"{packet.src_ip} > {packet.dst_ip}, TTL {packet.ttl}, DSCP {packet.dscp}, ECN {ECN[packet.ecn]}, "
            f"identification {packet.ident}{', DF' if packet.dont_fragment else ''}",
        ),
        ("UDP", f"{packet.sport} > 4791"),
        (
            "BTH",
            f"{packet.opcode.name}, QPN {packet.qpn:#08x}, PSN {packet.psn} ({packet.psn:#08x}), "
            f"P_Key {packet.pkey:#06x}{', AckReq' if packet.ackreq else ''}",
        ),
    ]
    if packet.aeth is not None:
        rows.append(("AETH", f"{_syndrome(packet.aeth.syndrome)}, MSN {packet.aeth.msn}"))
    if packet.imm is not None:
        rows.append(("ImmDt", f"{packet.imm:#010x}: {packet.descriptor}"))
    if packet.payload:
        rows.append(("payload", f"{len(packet.payload)} bytes: {_hex(packet.payload, 64)}"))
    rows.append(("ICRC", f"{frame[-4:].hex()} {'correct' if packet.icrc_ok else 'wrong'}"))
    return rows


def _syndrome(value: int) -> str:
    kind, code = value & SYNDROME_MASK, value & 0x1F
    name = Syndrome(kind).name if kind in set(Syndrome) else "unknown"
    if kind == Syndrome.NAK and code in set(NakCode):
        return f"{name} {NakCode(code).name} ({value:#04x})"
    return f"{name} code {code} ({value:#04x})"


def _hex(data: bytes, shown: int = SHOWN_BYTES) -> str:
    return data[:shown].hex(" ", -4) + (f" … ({len(data)} bytes)" if len(data) > shown else "")
