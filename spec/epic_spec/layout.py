"""Where the headers and their fields stand in a frame, and what the ICRC sees of them (EPIC-W-01, EPIC-W-11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from epic_spec.tables import HEADERS, ICRC_BYTES

ETHER_IPV4: Final = 0x0800
ETHER_VLAN: Final = (0x8100, 0x88A8, 0x9100)
PROTOCOL_UDP: Final = 17
DF: Final = 0x4000
VERSION_IHL: Final = 0x45

ETHERNET_BYTES: Final = 14
IPV4_END: Final = ETHERNET_BYTES + 20
UDP_END: Final = IPV4_END + 8
BTH_END: Final = UDP_END + 12
# IP total length of the shortest packet: IPv4, UDP, BTH, ICRC.
LEAST_TOTAL: Final = BTH_END - ETHERNET_BYTES + ICRC_BYTES
# Largest payload that fits an IPv4 packet with an extension header, in whole words.
MAX_PAYLOAD: Final = (0xFFFF - LEAST_TOTAL - 4) & ~3

# Fields that may change on the way, or are not trusted not to: the ICRC sees ones in their place.
ICRC_VARIANT: Final = (
    ("ipv4", "dscp"),
    ("ipv4", "ecn"),
    ("ipv4", "ttl"),
    ("ipv4", "header_checksum"),
    ("udp", "checksum"),
    ("bth", "fecn"),
    ("bth", "becn"),
    ("bth", "resv8a"),
)


def _layout() -> dict[tuple[str, str], tuple[int, int]]:
    places = {}
    at = 0
    for header, fields in HEADERS.items():
        if header in ("aeth", "immdt"):
            at = BTH_END * 8
        for field, bits in fields:
            places[header, field] = (at, bits)
            at += bits
    return places


# Where a field is in a frame: (header, field) to its first bit, from the Ethernet header on, and its width.
LAYOUT: Final = _layout()

# The ICRC's view of frame bytes 6 to 46: the 8 bytes before the IP header stand for its leading ones.
ICRC_VIEW_FIRST: Final = ETHERNET_BYTES - 8
ICRC_VIEW_END: Final = UDP_END + 5
ICRC_VIEW_BYTES: Final = ICRC_VIEW_END - ICRC_VIEW_FIRST


def icrc_mask(variant: Iterable[tuple[str, str]] = ICRC_VARIANT) -> int:
    """The ones of the ICRC's view, over frame bytes 6 to 46, as a big-endian number."""
    mask = 0xFFFFFFFFFFFFFFFF << (ICRC_VIEW_BYTES - 8) * 8
    for header, field in variant:
        first, bits = LAYOUT[header, field]
        mask |= ((1 << bits) - 1) << (ICRC_VIEW_END * 8 - first - bits)
    return mask


ICRC_MASK: Final = icrc_mask()


def crc(data: bytes) -> int:
    """The ICRC of a frame given without its ICRC and without anything behind it."""
    view = int.from_bytes(data[ICRC_VIEW_FIRST:ICRC_VIEW_END], "big") | ICRC_MASK
    return crc32(data[ICRC_VIEW_END:], crc32(view.to_bytes(ICRC_VIEW_BYTES, "big")))
