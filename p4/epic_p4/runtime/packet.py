"""A packet as the parser sees it."""

from __future__ import annotations


class PacketIn:
    """Bytes, and how many of them the parser has taken."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def rest(self) -> bytes:
        """The payload: what no parser took."""
        return self.data[self.offset :]
