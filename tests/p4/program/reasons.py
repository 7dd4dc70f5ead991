"""Which reasons apply to a frame by itself and its edge: a program may count any one of them (EPIC-W-21).

Written from the table of drops, not from the codec: every rule is tried on every frame that has the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from epic_models.reference.group import Edge, EngineGroup
from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.codec import icrc

_OPCODES = {0, 1, 2, 3, 4, 5, 0x11}
_ELEMENT_BYTES = (4, 4, 2, 2, 1, 2, 8, 8)


def reasons(frame: bytes, port: int, groups: Iterable[EngineGroup]) -> set[str]:
    """Names of the drops that apply; what depends on slots is not among them."""
    return set(_wire(frame)) | set(_edge(frame, port, groups))


def _number(frame: bytes, start: int, size: int) -> int:
    return int.from_bytes(frame[start : start + size], "big")


def _wire(frame: bytes) -> Iterator[str]:
    size = len(frame)
    if size < 14:
        yield "truncated"
        return
    kind = _number(frame, 12, 2)
    if kind != 0x0800:
        yield "vlan" if kind in (0x8100, 0x88A8, 0x9100) else "ether_type"
        return
    if size < 34:
        yield "truncated"
        return
    if frame[14] != 0x45:
        yield "ip_options" if frame[14] >> 4 == 4 and frame[14] & 15 > 5 else "ip_version"
        return
    total = _number(frame, 16, 2)
    if _number(frame, 14, 20) % 0xFFFF:
        yield "ip_checksum"
    if not 20 <= total <= size - 14:
        yield "ip_length"
    if _number(frame, 20, 2) & 0xBFFF:
        yield "fragment"
    if frame[23] != 17:
        yield "protocol"
        return
    if total < 28 or size < 42 or total > size - 14:
        yield "truncated"
    if size < 42:
        return
    if _number(frame, 36, 2) != 4791:
        yield "udp_port"
        return
    if _number(frame, 38, 2) != total - 20:
        yield "udp_length"
    if total < 44 or size < 54:
        yield "truncated"
    if size < 54:
        return
    if frame[43] & 15:
        yield "tver"
    if frame[42] not in _OPCODES:
        yield "opcode"
        return
    extended = frame[42] in (3, 5, 0x11)
    area = total - 44 - 4 * extended
    if area < 0 or (extended and size < 58):
        yield "truncated"
        return
    if area % 4 or frame[43] >> 4 & 3 > area:
        yield "pad"
    if frame[42] == 0x11 and frame[54] >> 5 not in (0, 1, 3):
        yield "syndrome"
    if frame[42] in (3, 5):
        yield from _descriptor(_number(frame, 54, 4), area > 0 or frame[42] == 3)
    end = 14 + total
    if end <= size and icrc(frame[: end - 4]) != frame[end - 4 : end]:
        yield "icrc"


def _descriptor(imm: int, payload: bool) -> Iterator[str]:
    null, err = imm >> 7 & 1, imm >> 6 & 1
    reserved = imm >> 14 & 3 == 3 or imm >> 11 & 1
    if reserved or (not err and (null == payload or (payload and imm >> 12 & 3 == 0))):
        yield "descriptor"


def _edge(frame: bytes, port: int, groups: Iterable[EngineGroup]) -> Iterator[str]:
    if len(frame) < 54:
        return
    found: list[tuple[EngineGroup, Edge, bool]] = []
    for group in groups:
        found += [(group, edge, True) for edge in group.children]
        found += [] if group.parent is None else [(group, group.parent, False)]
    here = [one for one in found if one[1].local.qpn == _number(frame, 47, 3)]
    if not here:
        yield "unknown_qpn"
        return
    group, edge, child = here[0]
    if port != edge.port:
        yield "wrong_port"
    macs = mac_bytes(edge.local.mac) + mac_bytes(edge.peer.mac)
    if (
        frame[:12] != macs
        or _number(frame, 26, 4) != ip_number(edge.peer.ip)
        or _number(frame, 30, 4) != ip_number(edge.local.ip)
    ):
        yield "wrong_address"
    if _number(frame, 44, 2) != group.params.pkey:
        yield "pkey"
    acknowledgement = frame[42] == 0x11
    reflected = child and group.params.ack_reflection and not edge.peer_is_engine
    if frame[42] not in (5, 0x11) or (acknowledgement and not reflected):
        yield "role"
    length = _number(frame, 16, 2) - 48 - (frame[43] >> 4 & 3)
    if frame[42] in (5, 0x11) and length > group.params.payload_bytes:
        yield "oversize"
    if child and frame[42] == 5 and len(frame) >= 58 and length > 0:
        imm = _number(frame, 54, 4)
        opaque = imm >> 6 & 1 or imm >> 14 & 3 == 2
        if not opaque and imm >> 11 & 1 == 0 and length % _ELEMENT_BYTES[imm >> 8 & 7]:
            yield "element"
