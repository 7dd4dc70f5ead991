"""The checksum unit and the counter of a TNA parser: they live while one packet is parsed."""

from __future__ import annotations

from epic_p4.runtime.hashes import checksum16, ones_sum


class ChecksumUnit:
    """Sums in ones' complement.

    `verify` is true when the checksum is wrong, as programs for Tofino use it. `get` is the sum of what was added less
    what was subtracted, not complemented, so that `update` over new fields and it gives the new checksum.
    """

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def reset(self) -> None:
        """Before each packet."""
        self.total = 0

    def add(self, data: bytes) -> None:
        """Count data in."""
        self.total += ones_sum(data)

    def subtract(self, data: bytes) -> None:
        """Count data out."""
        self.total -= ones_sum(data)

    def get(self) -> int:
        """The sum, in 16 bits; 0 only when nothing but zeros was counted."""
        return self.total % 0xFFFF or (0xFFFF if self.total else 0)

    def wrong(self) -> bool:
        """Whether data with its checksum does not sum up to all ones."""
        return self.get() != 0xFFFF


def update(data: bytes, zeros_as_ones: bool) -> int:
    """The checksum to send; `zeros_as_ones` as UDP wants it."""
    made = checksum16(data)
    return 0xFFFF if zeros_as_ones and not made else made


class ParserCounter:
    """Counts what a parser has still to take."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def reset(self) -> None:
        """Before each packet."""
        self.value = 0
