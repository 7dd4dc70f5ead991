"""IPv4 and MAC addresses as text and as numbers, remembered: a node meets few of them, and each very often."""

from __future__ import annotations

import socket
from functools import lru_cache


@lru_cache(maxsize=4096)
def ip_number(text: str) -> int:
    """An IPv4 address as a number. Raises ValueError."""
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, text), "big")
    except OSError:
        raise ValueError(f"IPv4 address {text!r}, expected four decimal bytes like 10.0.0.1") from None


@lru_cache(maxsize=4096)
def ip_text(number: int) -> str:
    """The text of an IPv4 address."""
    return socket.inet_ntoa(number.to_bytes(4, "big"))


@lru_cache(maxsize=4096)
def mac_bytes(text: str) -> bytes:
    """The six bytes of a MAC address. Raises ValueError."""
    parts = text.split(":")
    try:
        if all(len(part) == 2 for part in parts) and len(raw := bytes.fromhex("".join(parts))) == 6:
            return raw
    except ValueError:
        pass
    raise ValueError(f"MAC address {text!r}, expected six hex bytes like 02:00:0a:00:00:01")


@lru_cache(maxsize=4096)
def mac_text(raw: bytes) -> str:
    """The text of a MAC address of six bytes."""
    return raw.hex(":")


def mac_of_ip(ip: str) -> str:
    """The MAC address that stands for an IPv4 address in the socket binding: 02:00, then the four bytes."""
    return mac_text(b"\x02\x00" + ip_number(ip).to_bytes(4, "big"))
