"""Frames to packets and back: Ethernet, IPv4, UDP, BTH, AETH or ImmDt, payload, ICRC.

Realizes EPIC-W-01 to EPIC-W-09, EPIC-W-11 to EPIC-W-14 and EPIC-W-19 to EPIC-W-21, as far as a frame by
itself can tell.

`decode` and `encode` work on whole frames. `decode_datagram`, `encode_datagram` and `frame_of_datagram` are
the socket binding: the UDP payload of a socket bound to (address, 4791), whose IP and UDP headers the program
never sees, so that those parts of them which the ICRC covers are fixed by convention.

Checks are made in the order of the `[[drop]]` table of epic.toml, the ICRC last; `truncated` is reported at
the first header that the frame does not hold. So a frame has exactly one reason.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from epic_spec.addresses import ip_number, ip_text, mac_bytes, mac_of_ip, mac_text
from epic_spec.errors import WireError
from epic_spec.layout import (
    BTH_END,
    DF,
    ETHER_IPV4,
    ETHER_VLAN,
    ETHERNET_BYTES,
    IPV4_END,
    LEAST_TOTAL,
    MAX_PAYLOAD,
    PROTOCOL_UDP,
    UDP_END,
    VERSION_IHL,
    crc,
)
from epic_spec.packets import ECN_ECT0, ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import (
    DROPS,
    EXTENDED,
    ICRC_BYTES,
    SYNDROME_MASK,
    UDP_PORT,
    Datatype,
    Opcode,
    Operator,
    Primitive,
    Syndrome,
)

__all__ = [
    "MAX_PAYLOAD",
    "WIRE_REASONS",
    "IcrcMode",
    "decode",
    "decode_datagram",
    "encode",
    "encode_datagram",
    "frame_of_datagram",
    "icrc",
    "mac_of_ip",
    "with_icrc",
]

# How `decode` treats the ICRC. verify: a wrong one raises WireError("icrc"). check: computed, the outcome is
# `Packet.icrc_ok` (tools). ignore: not computed, `icrc_ok` is True (groups whose capability is icrc = none).
IcrcMode = Literal["verify", "check", "ignore"]

WIRE_REASONS: Final = tuple(name for name, layer in DROPS.items() if layer == "wire")

# Ethernet, IPv4, UDP, BTH; bit fields that share a word are split by shifts. The layout is that of
# `tables.HEADERS`: tests/spec/test_codec.py holds the two against each other bit by bit.
_HEAD: Final = struct.Struct("!6s6sH BBHHHBBHII HHHH BBHII")
_WORD: Final = struct.Struct("!I")
_ICRC: Final = struct.Struct("<I")
_NO_ICRC: Final = bytes(ICRC_BYTES)

_OPCODES: Final = {int(o): (o, EXTENDED[o.name]) for o in Opcode}
_ACK: Final = int(Opcode.ACK)
_SYNDROMES: Final = frozenset(int(s) for s in Syndrome)


def _descriptor_fault(imm: int, payload: bool) -> str:
    """What is wrong with the descriptor of a cell with or without payload, or "" (EPIC-W-19).

    ERR lifts what ties operator and NULL to the payload: a poisoned cell keeps the descriptor of its first
    contribution, and carries a conflict record or nothing.
    """
    null, err = bool(imm & NULL_BIT), bool(imm & ERR_BIT)
    if imm >> 14 & 3 not in set(Primitive):
        return f"reserved primitive {imm >> 14 & 3}"
    if imm >> 8 & 15 not in set(Datatype):
        return f"reserved datatype {imm >> 8 & 15}"
    if null and payload and not err:
        return "NULL with a payload"
    if not payload and not null and not err:
        return "neither NULL nor ERR without a payload"
    if payload and not err and imm >> 12 & 3 == Operator.NONE:
        return "operator NONE with a payload"
    return ""


# The rule above for every value of descriptor bits 15 to 6, without and with payload: one look-up a frame.
DESCRIPTOR_FAULTS: Final = tuple(
    bytes(bool(_descriptor_fault(bits << 6, payload)) for bits in range(1024)) for payload in (False, True)
)


def icrc(frame: bytes | memoryview) -> bytes:
    """The four ICRC bytes that belong to `frame`, as they stand on the wire (least significant byte first).

    `frame` starts at the Ethernet header and ends where the ICRC is to be put, after the pad bytes. The ICRC
    is CRC-32 (the polynomial of Ethernet and zlib) over 8 bytes of ones, the IPv4 header with TOS, TTL and
    header checksum as ones, the UDP header with its checksum as ones, the BTH with resv8a (FECN, BECN and the
    6 bits after them) as ones, then everything up to the ICRC as it is. Source: InfiniBand architecture,
    annex A17 (RoCEv2).

    Raises WireError("truncated") when the frame ends before the BTH does.
    """
    data = bytes(frame)
    if len(data) < BTH_END:
        raise WireError("truncated", f"{len(data)} bytes, expected {BTH_END} or more, to the BTH's end")
    return _ICRC.pack(crc(data))


def with_icrc(frame: bytes | memoryview) -> bytes:
    """`frame` with its last four bytes replaced by the ICRC of what is before them, for crafted frames."""
    data = bytes(frame)[:-ICRC_BYTES]
    return data + icrc(data)


def decode(frame: bytes | memoryview, *, icrc: IcrcMode = "verify") -> Packet:
    """The packet of an Ethernet frame; bytes behind the IP total length (Ethernet padding) are ignored.

    Raises WireError with a reason of WIRE_REASONS. `encode` gives a decoded frame's bytes back, except what a
    receiver ignores: Ethernet padding, a UDP checksum other than 0, an IP checksum of 0xFFFF (the same as 0
    in one's complement), pad bytes other than 0 and, where it was not verified, a wrong ICRC.
    """
    if type(frame) is not bytes:
        frame = bytes(frame)
    size = len(frame)
    (
        dst_mac, src_mac, ether_type,
        version_ihl, tos, total, ident, fragment, ttl, protocol, _, src, dst,
        sport, dport, udp_length, _,
        opcode, bits, pkey, qpn, psn,
    ) = _HEAD.unpack_from(frame if size >= BTH_END else frame.ljust(BTH_END, b"\0"))  # fmt: skip
    if size < ETHERNET_BYTES:
        raise _truncated("Ethernet header", size)
    if ether_type != ETHER_IPV4:
        reason = "vlan" if ether_type in ETHER_VLAN else "ether_type"
        raise WireError(reason, f"{ether_type:#06x}, expected 0x0800 (IPv4)")
    if size < IPV4_END:
        raise _truncated("IPv4 header", size)
    if version_ihl != VERSION_IHL:
        reason = "ip_options" if version_ihl >> 4 == 4 and version_ihl & 15 > 5 else "ip_version"
        raise WireError(reason, f"version {version_ihl >> 4}, IHL {version_ihl & 15}, expected 4 and 5")
    # A one's-complement sum is a remainder modulo 2^16 - 1; a correct header sums to 0.
    if int.from_bytes(frame[ETHERNET_BYTES:IPV4_END], "big") % 0xFFFF:
        raise WireError("ip_checksum", f"{frame[24:26].hex()} is wrong for this header")
    if not 20 <= total <= size - ETHERNET_BYTES:
        raise WireError("ip_length", f"total length {total}, expected 20 to {size - ETHERNET_BYTES}")
    if fragment & ~DF:
        raise WireError("fragment", f"flags and fragment offset {fragment:#06x}, expected 0x4000 or 0")
    if protocol != PROTOCOL_UDP:
        raise WireError("protocol", f"{protocol}, expected 17 (UDP)")
    if total < 28:
        raise _truncated("UDP header", total + ETHERNET_BYTES)
    if dport != UDP_PORT:
        raise WireError("udp_port", f"destination port {dport}, expected {UDP_PORT}")
    if udp_length != total - 20:
        raise WireError("udp_length", f"{udp_length}, expected {total - 20} (IP total length less 20)")
    if total < LEAST_TOTAL:
        raise _truncated("BTH and ICRC", total + ETHERNET_BYTES)
    if bits & 15:
        raise WireError("tver", f"transport version {bits & 15}, expected 0")
    known = _OPCODES.get(opcode)
    if known is None:
        raise WireError("opcode", f"{opcode:#04x}, expected one of {', '.join(o.name for o in Opcode)}")

    name, extended = known
    start = BTH_END
    end = total + (ETHERNET_BYTES - ICRC_BYTES)
    word = 0
    if extended:
        start += 4
        if end < start:
            raise _truncated(f"{extended[0]} and ICRC", end + ICRC_BYTES)
        (word,) = _WORD.unpack_from(frame, BTH_END)
    pad = bits >> 4 & 3
    if end - start & 3 or pad > end - start:
        raise WireError(
            "pad", f"pad {pad} with {end - start} bytes, expected a multiple of 4 that holds the pad"
        )
    payload = frame[start : end - pad]
    imm = aeth = None
    if extended:
        if opcode == _ACK:
            aeth = Aeth(word >> 24, word & 0xFFFFFF)
            if aeth.syndrome & SYNDROME_MASK not in _SYNDROMES:
                raise WireError("syndrome", f"{aeth.syndrome:#04x}, expected ACK, RNR NAK or NAK")
        else:
            imm = word
            _check_descriptor(imm, name, payload)
    icrc_ok = icrc == "ignore" or _ICRC.unpack_from(frame, end)[0] == crc(frame[:end])
    if not icrc_ok and icrc == "verify":
        raise WireError(
            "icrc", f"{frame[end : end + 4].hex()}, expected {_ICRC.pack(crc(frame[:end])).hex()}"
        )
    return Packet(
        name,
        ip_text(src),
        ip_text(dst),
        qpn & 0xFFFFFF,
        psn & 0xFFFFFF,
        payload,
        imm,
        aeth,
        psn > 0x7FFFFFFF,
        pkey,
        mac_text(src_mac),
        mac_text(dst_mac),
        sport,
        tos >> 2,
        tos & 3,
        ttl,
        ident,
        bits > 0x7F,
        bits & 0x40 != 0,
        qpn > 0x7FFFFFFF,
        qpn & 0x40000000 != 0,
        qpn >> 24 & 63,
        psn >> 24 & 127,
        fragment != 0,
        icrc_ok,
    )


def _truncated(what: str, size: int) -> WireError:
    return WireError("truncated", f"ends after {size} bytes, before the end of {what}")


def _check_descriptor(imm: int, opcode: Opcode, payload: bytes) -> None:
    """The cell of a SEND_LAST_IMM has a payload, whatever its last packet holds."""
    has_payload = bool(payload) or opcode is Opcode.SEND_LAST_IMM
    if DESCRIPTOR_FAULTS[has_payload][imm >> 6 & 1023]:
        raise WireError("descriptor", f"{imm:#010x}: {_descriptor_fault(imm, has_payload)}")


def encode(packet: Packet, *, icrc: bool = True) -> bytes:
    """The Ethernet frame of a packet, to the end of the ICRC; `icrc=False` sends the ICRC as four zero bytes.

    Pad, lengths, IP checksum and ICRC are computed, the UDP checksum is 0. What `encode` accepts, `decode`
    gives back equal. Raises ValueError for a field out of range or a header that the opcode does not have,
    WireError for what has a reason of its own (opcode, syndrome, descriptor, ip_length).
    """
    frame = _frame(packet, packet.sport, packet.ident, packet.dont_fragment)
    return frame + (_ICRC.pack(crc(frame)) if icrc else _NO_ICRC)


def _frame(packet: Packet, sport: int, ident: int, dont_fragment: bool) -> bytes:
    """A frame up to its ICRC. The socket binding fixes the three fields that are arguments."""
    body, pad = _body(packet)
    if not (
        0 <= packet.psn <= 0xFFFFFF
        and 0 <= packet.qpn <= 0xFFFFFF
        and 0 <= packet.ecn <= 3
        and 0 <= packet.dscp <= 63
        and 0 <= packet.resv8a <= 63
        and 0 <= packet.resv7 <= 127
    ):
        raise _range_error(packet)
    src, dst = ip_number(packet.src_ip), ip_number(packet.dst_ip)
    total = LEAST_TOTAL + len(body)
    tos = packet.dscp << 2 | packet.ecn
    fragment = DF if dont_fragment else 0
    checksum = _checksum(tos + total + ident + fragment + (packet.ttl << 8) + src + dst)
    try:
        head = _HEAD.pack(
            mac_bytes(packet.dst_mac), mac_bytes(packet.src_mac), ETHER_IPV4,
            VERSION_IHL, tos, total, ident, fragment, packet.ttl, PROTOCOL_UDP, checksum, src, dst,
            sport, UDP_PORT, total - 20, 0,
            packet.opcode, packet.se << 7 | packet.migreq << 6 | pad << 4, packet.pkey,
            packet.fecn << 31 | packet.becn << 30 | packet.resv8a << 24 | packet.qpn,
            packet.ackreq << 31 | packet.resv7 << 24 | packet.psn,
        )  # fmt: skip
    except struct.error:
        raise _range_error(packet) from None
    return head + body


def _checksum(words: int) -> int:
    """The IPv4 header checksum, given the sum of the header's fields that vary, each at its place in a word.

    A one's-complement sum is a remainder modulo 2^16 - 1, for which 32-bit addresses need not be split.
    """
    ones = (words + (VERSION_IHL << 8) + PROTOCOL_UDP) % 0xFFFF
    return 0xFFFF - ones if ones else 0


def _body(packet: Packet) -> tuple[bytes, int]:
    """What stands between BTH and ICRC, and the number of pad bytes it ends with; checks it by the opcode."""
    payload = packet.payload
    pad = -len(payload) & 3
    known = _OPCODES.get(packet.opcode)
    if known is None:
        raise WireError("opcode", f"{packet.opcode!r}, expected one of {', '.join(o.name for o in Opcode)}")
    name, extended = known
    if (packet.imm is not None) != ("immdt" in extended):
        raise _header_error("imm", packet.imm, name)
    if (packet.aeth is not None) != ("aeth" in extended):
        raise _header_error("aeth", packet.aeth, name)
    most = MAX_PAYLOAD if extended else MAX_PAYLOAD + 4
    if len(payload) > most:
        raise WireError("ip_length", f"payload of {len(payload)} bytes, expected at most {most}")
    if packet.imm is not None:
        if not 0 <= packet.imm <= 0xFFFFFFFF:
            raise ValueError(f"imm {packet.imm:#x}, expected 0 to 0xffffffff")
        _check_descriptor(packet.imm, name, payload)
        payload = _WORD.pack(packet.imm) + payload
    elif packet.aeth is not None:
        payload = _aeth_bytes(packet.aeth) + payload
    return payload + b"\0" * pad if pad else payload, pad


def _header_error(field: str, value: object, opcode: Opcode) -> ValueError:
    return ValueError(
        f"{field} {value!r}, expected {'a value' if value is None else 'None'} with {opcode.name}"
    )


def _aeth_bytes(aeth: Aeth) -> bytes:
    if not 0 <= aeth.msn <= 0xFFFFFF:
        raise ValueError(f"msn {aeth.msn}, expected 0 to 16777215")
    if aeth.syndrome & SYNDROME_MASK not in _SYNDROMES or not 0 <= aeth.syndrome <= 0xFF:
        raise WireError("syndrome", f"{aeth.syndrome:#04x}, expected ACK, RNR NAK or NAK")
    return _WORD.pack(aeth.syndrome << 24 | aeth.msn)


# Numeric fields of Packet and their widths in bits.
FIELD_BITS: Final = {
    "qpn": 24, "psn": 24, "pkey": 16, "sport": 16, "dscp": 6, "ecn": 2, "ttl": 8, "ident": 16, "resv8a": 6,
    "resv7": 7, "ackreq": 1, "se": 1, "migreq": 1, "fecn": 1, "becn": 1,
}  # fmt: skip


def _range_error(packet: Packet) -> ValueError:
    """Names the first field of a packet that is out of range."""
    for name, bits in FIELD_BITS.items():
        value = getattr(packet, name)
        if not isinstance(value, int) or not 0 <= value < 1 << bits:
            return ValueError(f"{name} {value!r}, expected 0 to {(1 << bits) - 1}")
    return ValueError(f"packet {packet!r}: a field has the wrong type")


# --------------------------------------------------------------------------------------------- socket binding


def _check_udp_header(sport: int, ecn: int = 0, ttl: int = 0) -> None:
    for name, value, limit in (("sport", sport, 0xFFFF), ("ecn", ecn, 3), ("ttl", ttl, 0xFF)):
        if not 0 <= value <= limit:
            raise ValueError(f"{name} {value!r}, expected 0 to {limit}")


def encode_datagram(packet: Packet, *, sport: int = UDP_PORT, icrc: bool = True) -> bytes:
    """The UDP payload (BTH to ICRC) with which a socket bound to (src_ip, `sport`) sends a packet.

    The ICRC covers the IP and UDP headers that the kernel will write: identification 0, DF set, source port
    `sport` (of the socket, not of the packet). The packet's MACs, TTL, DSCP, ECN, `sport`, `ident` and
    `dont_fragment` do not travel. Raises as `encode` does.
    """
    _check_udp_header(sport)
    frame = _frame(packet, sport, 0, True)
    return frame[UDP_END:] + (_ICRC.pack(crc(frame)) if icrc else _NO_ICRC)


def decode_datagram(
    data: bytes | memoryview,
    src_ip: str,
    dst_ip: str,
    sport: int = UDP_PORT,
    *,
    ecn: int = ECN_ECT0,
    icrc: IcrcMode = "verify",
) -> Packet:
    """The packet of a datagram received from (`src_ip`, `sport`) on (`dst_ip`, 4791).

    `ecn` is the received ECN codepoint where the socket tells it (IP_RECVTOS). The headers that the ICRC
    covers are taken by convention: identification 0, DF set; the MACs are `mac_of_ip`. Raises as `decode`.
    """
    return decode(frame_of_datagram(data, src_ip, dst_ip, sport, ecn=ecn), icrc=icrc)


def frame_of_datagram(
    data: bytes | memoryview,
    src_ip: str,
    dst_ip: str,
    sport: int = UDP_PORT,
    *,
    ecn: int = ECN_ECT0,
    ttl: int = 64,
) -> bytes:
    """The Ethernet frame that a capture of a datagram to (`dst_ip`, 4791) shows, headers by convention.

    `data` is taken as it is, well formed or not. Raises ValueError when it does not fit an IPv4 packet, or
    another argument is out of range.
    """
    total = 28 + len(data)
    if total > 0xFFFF:
        raise ValueError(f"datagram of {len(data)} bytes, expected at most {0xFFFF - 28}")
    _check_udp_header(sport, ecn, ttl)
    src, dst = ip_number(src_ip), ip_number(dst_ip)
    checksum = _checksum(ecn + total + DF + (ttl << 8) + src + dst)
    head = _IP_UDP.pack(
        b"\x02\x00", dst, b"\x02\x00", src, ETHER_IPV4,
        VERSION_IHL, ecn, total, 0, DF, ttl, PROTOCOL_UDP, checksum, src, dst,
        sport, UDP_PORT, total - 20, 0,
    )  # fmt: skip
    return head + bytes(data)


_IP_UDP: Final = struct.Struct("!2sI2sIH BBHHHBBHII HHHH")
