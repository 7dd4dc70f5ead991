"""P4Runtime's byte strings: the shortest big-endian string of a number (specification, section "Bytestrings")."""

from __future__ import annotations

from epic_p4.p4runtime.status import Code, Refusal


def encode(value: int) -> bytes:
    """The canonical byte string of a number that is not negative; 0 is one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(raw: bytes, width: int, what: str) -> int:
    """The number of a byte string for a bit<width>; leading zero bytes are allowed.

    Raises Refusal (OUT_OF_RANGE) for an empty string and for a number that needs more bits.
    """
    if not raw:
        raise Refusal(Code.OUT_OF_RANGE, f"{what}: empty byte string, expected a bit<{width}>")
    value = int.from_bytes(raw, "big")
    if value.bit_length() > width:
        raise Refusal(Code.OUT_OF_RANGE, f"{what}: {value:#x} does not fit, expected a bit<{width}>")
    return value
