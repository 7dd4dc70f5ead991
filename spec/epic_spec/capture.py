"""What a capture shows: each frame decoded, with flags that need the frames before it.

A *flow* is (source address, destination address, destination QPN): one direction of an edge, so one PSN
space. Data packets with a good ICRC get these flags, by serial arithmetic (EPIC-W-15):

- `retransmission`: the flow already showed a packet of this PSN and opcode, up to 2^23 PSNs ago;
- `out-of-order`: older than the newest PSN of the flow, and not seen before;
- `stale`: older than the newest PSN of the flow by at least a distance, 128 by default. That is the default
  number of slots N, so the cell's slot serves a newer cell by now and a Mode III engine drops the packet.

Acknowledgements have none of these three: their PSNs are those of the other direction and repeat by right.
The other flags are `bad-icrc` (and `no-icrc` when the field is 0, as engines with icrc = none send it; such
packets count as good for the flags above), `err` and `null` (descriptor bits), `ce` (congestion experienced).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from epic_spec import psn
from epic_spec.codec import decode
from epic_spec.errors import WireError
from epic_spec.layout import ETHERNET_BYTES, UDP_END
from epic_spec.packets import ECN_CE, Aeth, Packet
from epic_spec.pcap import Record
from epic_spec.tables import ICRC_BYTES, SYNDROME_MASK, Opcode, Syndrome

DEFAULT_STALE: Final = 128

# Reasons that the decoder finds behind the UDP header: the BTH is there to be shown.
_BTH_REASONS: Final = ("tver", "opcode", "pad", "syndrome", "descriptor")
_PAGE_BITS: Final = 12
_PAGES: Final = 1 << 24 - _PAGE_BITS


@dataclass(frozen=True, slots=True)
class Line:
    """One frame of a capture. `packet` is None where it cannot be decoded; `reason` and `detail` say why.

    `glimpse` holds what can be read of an undecodable frame that is RoCE: opcode, src_ip, dst_ip, qpn, psn.
    """

    number: int
    time_ns: int
    packet: Packet | None
    flags: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""
    glimpse: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON form: equal keys for every frame, null for what it has not; `reason` where it has one."""
        row: dict[str, Any] = dict.fromkeys(
            ("opcode", "src_ip", "dst_ip", "qpn", "psn", "imm", "descriptor", "payload_len", "icrc_ok")
        )
        row |= self.glimpse
        p = self.packet
        if p is not None:
            row |= {
                "opcode": p.opcode.name,
                "src_ip": p.src_ip,
                "dst_ip": p.dst_ip,
                "qpn": p.qpn,
                "psn": p.psn,
            }
            row |= {
                "imm": p.imm,
                "descriptor": _descriptor(p),
                "payload_len": len(p.payload),
                "icrc_ok": p.icrc_ok,
            }
        row["flags"] = list(self.flags)
        row["time"] = self.time_ns / 1e9
        if self.reason:
            row["reason"] = f"{self.reason}: {self.detail}"
        return row


def _descriptor(packet: Packet) -> dict[str, Any] | None:
    d = packet.descriptor
    if d is None:
        return None
    names = {"primitive": d.primitive.name, "operator": d.operator.name, "datatype": d.datatype.name}
    return names | {"rank": d.rank, "null": d.null, "err": d.err, "tag": d.tag}


class _Flow:
    """The newest PSN of a flow, and which (opcode, PSN) were seen in the half of the PSN space before it."""

    def __init__(self, first: int) -> None:
        self._newest = first
        self._seen: dict[tuple[int, int], bytearray] = {}

    def place(self, opcode: Opcode, number: int, stale: int) -> list[str]:
        """Take in a packet; its flags."""
        behind = psn.diff(self._newest, number)
        if behind < 0:
            self._forget(number)
            self._newest = number
        key = (opcode, number >> _PAGE_BITS)
        page = self._seen.get(key)
        if page is None:
            page = self._seen[key] = bytearray(1 << _PAGE_BITS)
        at = number & (1 << _PAGE_BITS) - 1
        flags = []
        if page[at]:
            flags.append("retransmission")
        elif behind > 0:
            flags.append("out-of-order")
        if behind >= stale:
            flags.append("stale")
        page[at] = 1
        return flags

    def _forget(self, number: int) -> None:
        """Drop the pages that are half the PSN space away when the newest PSN comes to a new page."""
        old, new = self._newest >> _PAGE_BITS, number >> _PAGE_BITS
        if old != new:
            ahead = (new - old) % _PAGES
            gone = {(old + _PAGES // 2 + i) % _PAGES for i in range(1, ahead + 1)}
            self._seen = {key: page for key, page in self._seen.items() if key[1] not in gone}


class Annotator:
    """Turns the frames of one capture, in order, into lines.

    `stale` is the distance in PSNs from which a packet is called stale (see above).
    """

    def __init__(self, stale: int = DEFAULT_STALE) -> None:
        self._stale = stale
        self._flows: dict[tuple[str, str, int], _Flow] = {}
        self._count = 0

    def line(self, record: Record) -> Line:
        """The line of the next frame."""
        self._count += 1
        try:
            packet = decode(record.data, icrc="check")
        except WireError as error:
            detail = error.detail
            if len(record.data) < record.length:
                detail += f" (captured {len(record.data)} of {record.length} bytes)"
            glimpse = _glimpse(record.data) if error.reason in _BTH_REASONS else {}
            return Line(self._count, record.time_ns, None, (), error.reason, detail, glimpse)
        return Line(self._count, record.time_ns, packet, tuple(self._flags(packet, record.data)))

    def _flags(self, packet: Packet, frame: bytes) -> list[str]:
        flags: list[str] = []
        bad = [] if packet.icrc_ok else ["bad-icrc", "no-icrc"] if _no_icrc(frame) else ["bad-icrc"]
        if packet.opcode is not Opcode.ACK and bad != ["bad-icrc"]:
            key = (packet.src_ip, packet.dst_ip, packet.qpn)
            flow = self._flows.get(key)
            if flow is None:
                flow = self._flows[key] = _Flow(packet.psn)
            flags += flow.place(packet.opcode, packet.psn, self._stale)
        descriptor = packet.descriptor
        flags += bad
        if descriptor is not None:
            flags += ["err"] * descriptor.err + ["null"] * descriptor.null
        return flags + ["ce"] * (packet.ecn == ECN_CE)


def _no_icrc(frame: bytes) -> bool:
    end = ETHERNET_BYTES + int.from_bytes(frame[16:18], "big")
    return frame[end - ICRC_BYTES : end] == bytes(ICRC_BYTES)


def _glimpse(frame: bytes) -> dict[str, Any]:
    code, _, _, qpn, number = struct.unpack_from("!BBHII", frame, UDP_END)
    names = {int(o): o.name for o in Opcode}
    src, dst = (".".join(map(str, frame[at : at + 4])) for at in (26, 30))
    opcode = names.get(code, f"{code:#04x}")
    return {"opcode": opcode, "src_ip": src, "dst_ip": dst, "qpn": qpn & psn.MASK, "psn": number & psn.MASK}


# -------------------------------------------------------------------------------------------- text for people

HEADING: Final = "      ms source       destination  qpn         psn opcode   size cell"


def text(line: Line, start_ns: int) -> str:
    """One line for people: milliseconds since `start_ns`, the packet, its cell, its flags."""
    ms = f"{(line.time_ns - start_ns) / 1e6:8.3f}"
    p = line.packet
    if p is None:
        g = line.glimpse
        head = f"{g['src_ip']:12} {g['dst_ip']:12} {g['qpn']:06x} {g['psn']:8} " if g else ""
        return f"{ms} {head}not EPIC: {line.reason}: {line.detail}"
    if p.aeth is not None:
        opcode, cell = _acknowledgement(p.aeth)
    else:
        opcode, cell = p.opcode.name.removeprefix("SEND_"), str(p.descriptor) if p.descriptor else ""
    flags = " ".join(f for f in line.flags if f not in ("err", "null"))
    tail = cell + (f" [{flags}]" if flags else "")
    edge = f"{p.src_ip:12} {p.dst_ip:12} {p.qpn:06x} {p.psn:8}"
    return f"{ms} {edge} {opcode:8} {len(p.payload):4} {tail}".rstrip()


def _acknowledgement(aeth: Aeth) -> tuple[str, str]:
    kind = Syndrome(aeth.syndrome & SYNDROME_MASK)
    low = aeth.syndrome & ~SYNDROME_MASK
    what = {Syndrome.ACK: "credits", Syndrome.RNR_NAK: "timer", Syndrome.NAK: "code"}[kind]
    return kind.name, f"msn={aeth.msn} {what}={low}"
