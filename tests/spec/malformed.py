"""Malformed frames by name: the reason for which each must be dropped, and how it is made."""

from __future__ import annotations

from collections.abc import Callable

from epic_spec.codec import encode, with_icrc
from epic_spec.packets import Aeth, Descriptor
from epic_spec.tables import Opcode, Operator, Primitive
from spec.wire import cell


def patched(at: int, value: bytes, *, checksum: bool = True, frame: bytes | None = None) -> bytes:
    """A good frame with bytes put in at `at`, and (where asked) the IP checksum made good again."""
    changed = bytearray(frame or encode(cell()))
    changed[at : at + len(value)] = value
    if checksum:
        changed[24:26] = b"\0\0"
        words = sum(int.from_bytes(changed[i : i + 2], "big") for i in range(14, 34, 2)) % 0xFFFF
        changed[24:26] = (0xFFFF - words if words else 0).to_bytes(2, "big")
    return with_icrc(changed)


def with_imm(imm: int, payload: bytes = bytes(64), opcode: Opcode = Opcode.SEND_ONLY_IMM) -> bytes:
    good = Descriptor(Primitive.ALLREDUCE, Operator.SUM, err=True).pack()
    frame = bytearray(encode(cell(opcode=opcode, payload=payload, imm=good)))
    frame[54:58] = imm.to_bytes(4, "big")
    return with_icrc(frame)


def imm(**fields: int) -> int:
    widths = {"rank": 16, "primitive": 2, "operator": 2, "datatype": 4, "null": 1, "err": 1, "tag": 6}
    values = {"rank": 0xFFFF, "operator": 1} | fields
    word = 0
    for name, width in widths.items():
        word = word << width | values.get(name, 0)
    return word


def of_total_length(total: int) -> bytes:
    """A frame whose IP and UDP lengths say that the IP packet has `total` bytes."""
    return patched(38, (total - 20).to_bytes(2, "big"), frame=patched(16, total.to_bytes(2, "big")))


ACK = cell(opcode=Opcode.ACK, imm=None, payload=b"", aeth=Aeth(0x1F, 3))
FIRST = cell(opcode=Opcode.SEND_FIRST, imm=None)

MALFORMED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "empty": ("truncated", lambda: b""),
    "ends in Ethernet": ("truncated", lambda: encode(cell())[:13]),
    "ends in IPv4": ("truncated", lambda: encode(cell())[:33]),
    "IP packet ends in UDP": ("truncated", lambda: patched(16, b"\x00\x1b")),
    "IP packet ends in BTH": ("truncated", lambda: of_total_length(43)),
    "IP packet ends in ImmDt": ("truncated", lambda: of_total_length(44)),
    "IPv6": ("ether_type", lambda: patched(12, b"\x86\xdd")),
    "802.1Q": ("vlan", lambda: patched(12, b"\x81\x00")),
    "802.1ad": ("vlan", lambda: patched(12, b"\x88\xa8")),
    "version 6": ("ip_version", lambda: patched(14, b"\x65")),
    "IHL 4": ("ip_version", lambda: patched(14, b"\x44")),
    "IHL 6": ("ip_options", lambda: patched(14, b"\x46")),
    "flipped TTL bit": ("ip_checksum", lambda: patched(22, b"\x41", checksum=False)),
    "total length above the frame": ("ip_length", lambda: encode(cell())[:-1]),
    "total length below a header": ("ip_length", lambda: patched(16, b"\x00\x13")),
    "MF": ("fragment", lambda: patched(20, b"\x20\x00")),
    "fragment offset": ("fragment", lambda: patched(20, b"\x00\x01")),
    "reserved IP flag": ("fragment", lambda: patched(20, b"\xc0\x00")),
    "TCP": ("protocol", lambda: patched(23, b"\x06")),
    "DNS": ("udp_port", lambda: patched(36, b"\x00\x35")),
    "UDP length one less": ("udp_length", lambda: patched(38, b"\x00\x5b")),
    "UDP length one more": ("udp_length", lambda: patched(38, b"\x00\x5d")),
    "TVer 1": ("tver", lambda: patched(43, b"\x01")),
    "RDMA WRITE": ("opcode", lambda: patched(42, b"\x0a")),
    "unreliable connection": ("opcode", lambda: patched(42, b"\x24")),
    "pad without payload": ("pad", lambda: patched(43, b"\x10", frame=encode(ACK))),
    "payload of 62 bytes and no pad": ("pad", lambda: of_total_length(110)),
    "syndrome 0x40": ("syndrome", lambda: patched(54, b"\x40", frame=encode(ACK))),
    "syndrome 0x80": ("syndrome", lambda: patched(54, b"\x80", frame=encode(ACK))),
    "reserved primitive": ("descriptor", lambda: with_imm(imm(primitive=3))),
    "reserved primitive, poisoned": ("descriptor", lambda: with_imm(imm(primitive=3, err=1))),
    "reserved datatype": ("descriptor", lambda: with_imm(imm(datatype=8))),
    "NULL with a payload": ("descriptor", lambda: with_imm(imm(null=1))),
    "neither NULL nor payload": ("descriptor", lambda: with_imm(imm(), b"")),
    "NONE with a payload": ("descriptor", lambda: with_imm(imm(operator=0))),
    "NULL message of several": ("descriptor", lambda: with_imm(imm(null=1), opcode=Opcode.SEND_LAST_IMM)),
    "NONE message of several": ("descriptor", lambda: with_imm(imm(operator=0), b"", Opcode.SEND_LAST_IMM)),
    "flipped payload bit": ("icrc", lambda: encode(cell())[:60] + b"\xff" + encode(cell())[61:]),
}  # fmt: skip
