"""What a case leaves behind: its failure, the lines of its log, and frames in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epic_models.reference.group import Edge
from epic_spec import psn
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import SYNDROME_MASK, NakCode, Opcode, Syndrome


class Failure(AssertionError):
    """A case failed: what was expected and what arrived, each as lines of decoded frames."""

    def __init__(self, what: str, expected: Sequence[str] = (), arrived: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.expected = tuple(expected)
        self.arrived = tuple(arrived)


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a case's log: who, which way, in words, and the frame where there is one."""

    time: float
    who: str
    kind: str  # "->" to the device, "<-" from it, "wait", "expect"
    text: str
    frame: bytes | None = None


def describe(packet: Packet, edge: Edge | None = None, *, received: bool = False) -> str:
    """A frame as a line: opcode, number relative to the edge's base, descriptor or AETH, payload."""
    words = [packet.opcode.name]
    if edge is not None:
        ack = packet.opcode is Opcode.ACK
        base = edge.psn_rx if received != ack else edge.psn_tx
        words.append(f"#{psn.diff(packet.psn, base)}")
    else:
        words.append(f"psn={packet.psn}")
    if packet.aeth is not None:
        kind = packet.aeth.syndrome & SYNDROME_MASK
        name = Syndrome(kind).name if kind in set(Syndrome) else f"syndrome {packet.aeth.syndrome:#x}"
        code = packet.aeth.syndrome & 0x1F
        words.append(
            f"{name} {NakCode(code).name}" if kind == Syndrome.NAK and code < 4 else f"{name} code {code}"
        )
    if packet.imm is not None:
        words.append(f"[{descriptor_text(packet.imm)}]")
    if packet.ecn == 3:
        words.append("CE")
    if packet.payload:
        head = packet.payload[:16].hex(" ", -4)
        words.append(f"{len(packet.payload)} B: {head}{' …' if len(packet.payload) > 16 else ''}")
    return " ".join(words)


def descriptor_text(imm: int) -> str:
    """An immediate as a descriptor, or as a number where it is none."""
    try:
        return str(Descriptor.unpack(imm))
    except ValueError:
        return f"imm {imm:#010x}"
