"""Frames that no sender should send: bytes put in, cut off and sealed again, and the cell that they are aimed at.

The check sums here are computed apart from the codec, so that a fault of the codec does not hide one of a device.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from epic_models.reference.group import Edge
from epic_spec import codec, psn
from epic_spec.packets import Descriptor, Packet
from epic_testbed.conformance.bench import SUM, Bench, Values
from epic_testbed.conformance.group import Peer

# First bytes of headers in a frame without IP options.
IP, UDP, BTH, IMM, PAYLOAD = 14, 34, 42, 54, 58
ETHERNET: Final = (("binding", "ethernet"),)


def put(frame: bytes, at: int, data: bytes) -> bytes:
    """`frame` with `data` over the bytes from `at` on."""
    return frame[:at] + data + frame[at + len(data) :]


def flip(frame: bytes, bit: int) -> bytes:
    """`frame` with one bit inverted, counted from the first bit of the Ethernet header."""
    return put(frame, bit // 8, bytes([frame[bit // 8] ^ 0x80 >> bit % 8]))


def sealed(frame: bytes, *, end: int | None = None, full: bool = True) -> bytes:
    """`frame` with the IP header checksum and the ICRC that belong to it; `end` is where the ICRC ends."""
    header = 4 * (frame[IP] & 15) if frame[IP] >> 4 == 4 and frame[IP] & 15 >= 5 else 20
    frame = put(frame, IP + 10, b"\0\0")
    words = sum(int.from_bytes(frame[i : i + 2], "big") for i in range(IP, IP + header, 2))
    checksum = 0xFFFF - (words % 0xFFFF or (0xFFFF if words else 0))
    frame = put(frame, IP + 10, checksum.to_bytes(2, "big"))
    end = len(frame) if end is None else end
    if end - 4 < IP + header + 20:
        return frame
    return put(frame, end - 4, icrc(frame[: end - 4], header) if full else bytes(4))


def icrc(frame: bytes, header: int = 20) -> bytes:
    """The ICRC of a frame that ends before it, with an IP header of `header` bytes (epic.md, section 2.7)."""
    view = bytearray(frame[IP:])
    for at in (1, 8, 10, 11, header + 6, header + 7, header + 12):
        view[at] = 0xFF
    return crc32(b"\xff" * 8 + view).to_bytes(4, "little")


def cut(frame: bytes, size: int, *, full: bool = True) -> bytes:
    """`frame` with a UDP payload of only `size` bytes, its lengths and check sums to match."""
    frame = frame[: BTH + size]
    frame = put(frame, IP + 2, (28 + size).to_bytes(2, "big"))
    return sealed(put(frame, UDP + 4, (8 + size).to_bytes(2, "big")), full=full)


class Target:
    """A root with two children whose child 0 has contributed to the cell; what child 1 sends is crafted.

    A frame of child 1 that was taken by mistake would complete the cell with the wrong value `WRONG`.
    """

    HELD, WRONG, RIGHT = (1000, 2000, -3000, 1 << 30), (77, 77, 77, 77), (1, -2, 3, 4)
    SUMS = tuple(h + r for h, r in zip(HELD, RIGHT, strict=True))

    def __init__(self, bench: Bench, **params: object) -> None:
        self.bench = bench
        bench.install(2, **params)  # type: ignore[arg-type]
        self.full = bench.group.params.icrc == "full"
        self.peer: Peer = bench.group.children[1]
        self.port = self.peer.device_port
        self.cell = 0
        self._hold()

    @property
    def edge(self) -> Edge:
        """Child 1's end of its edge."""
        return self.peer.edge

    def _hold(self) -> None:
        self.bench.contribute(0, self.cell, self.HELD)
        self.bench.sync()

    def packet(self, values: Values = WRONG, what: Descriptor = SUM) -> Packet:
        """Child 1's contribution to the cell, as it should be but for its value."""
        return self.bench.group.packets(self.peer, self.cell, values, what)[0]

    def frame(self, values: Values = WRONG, what: Descriptor = SUM) -> bytes:
        """The frame of `packet`."""
        return codec.encode(self.packet(values, what), icrc=self.full)

    def seal(self, frame: bytes) -> bytes:
        """See `sealed`, by the group's `icrc`."""
        return sealed(frame, full=self.full)

    def reject(self, frames: dict[str, bytes], *reasons: str, answered: bool = False) -> None:
        """See `Bench.reject`; the frames arrive on child 1's port."""
        self.bench.reject(
            [(name, self.port, frame) for name, frame in frames.items()], *reasons, answered=answered
        )

    def accept(self, name: str, frame: bytes | None = None) -> None:
        """The device takes `frame`, a variation of child 1's contribution of `RIGHT`, and completes the cell."""
        packet = self.packet(self.RIGHT)
        self.peer.sent[self.cell] = [packet]
        self.peer.next_number = psn.diff(packet.psn, self.edge.psn_tx) + 1
        with self.bench.trying(name):
            self.bench.send(self.peer, packet, tamper=None if frame is None else lambda _: frame)
            self.bench.expect_result(self.cell, self.SUMS)
        self.cell += 1
        self._hold()

    def complete(self) -> None:
        """The cell completes with child 1's right contribution, as if nothing had been."""
        self.accept("the cell completes")
        self.accept("the next cell completes")
        self.bench.contribute(1, self.cell, self.RIGHT)
        self.bench.expect_result(self.cell, self.SUMS)
        self.bench.expect_counter({"rx_contribution": 2 * self.cell + 2, "cells_completed": self.cell + 1})
