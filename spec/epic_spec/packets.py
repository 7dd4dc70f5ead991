"""Typed packets: what the codec decodes to and encodes from. Plain values, no behaviour beyond naming."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from epic_spec.tables import NO_RANK, Datatype, Opcode, Operator, Primitive

ECN_NOT_ECT = 0
ECN_ECT0 = 2
ECN_CE = 3

# Descriptor bits (section "Wire format"); the shifts restate the generated field table for speed.
NULL_BIT = 1 << 7
ERR_BIT = 1 << 6
# What must agree between the contributions of a cell: everything but NULL and ERR.
AGREEMENT_MASK = 0xFFFFFFFF & ~(NULL_BIT | ERR_BIT)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The 32-bit cell descriptor, carried as immediate data."""

    primitive: Primitive
    operator: Operator = Operator.NONE
    datatype: Datatype = Datatype.INT32
    rank: int = NO_RANK
    null: bool = False
    err: bool = False
    tag: int = 0

    def pack(self) -> int:
        """The immediate as an unsigned 32-bit number."""
        return (
            self.rank << 16
            | self.primitive << 14
            | self.operator << 12
            | self.datatype << 8
            | self.null << 7
            | self.err << 6
            | self.tag
        )

    @classmethod
    def unpack(cls, imm: int) -> Self:
        """The descriptor of an immediate.

        Raises ValueError for a reserved primitive or datatype (the codec turns that into WireError).
        """
        return cls(
            primitive=Primitive(imm >> 14 & 3),
            operator=Operator(imm >> 12 & 3),
            datatype=Datatype(imm >> 8 & 15),
            rank=imm >> 16,
            null=bool(imm & NULL_BIT),
            err=bool(imm & ERR_BIT),
            tag=imm & 63,
        )

    def __str__(self) -> str:
        barrier = self.primitive is Primitive.ALLREDUCE and self.operator is Operator.NONE
        words = ["BARRIER" if barrier else self.primitive.name]
        if not barrier:
            words += [self.operator.name, self.datatype.name]
        if self.rank != NO_RANK:
            words.append(f"rank={self.rank}")
        words.append(f"tag={self.tag}")
        words += ["NULL"] * self.null + ["ERR"] * self.err
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Aeth:
    """ACK extended transport header: syndrome (8 bits) and MSN (24 bits)."""

    syndrome: int
    msn: int = 0


@dataclass(slots=True)
class Packet:
    """One RoCEv2 frame, every field that a receiver can see or a sender can set.

    `payload` is without the Pad bytes. `imm` and `aeth` are None where the opcode has no such header.
    """

    opcode: Opcode
    src_ip: str
    dst_ip: str
    qpn: int
    psn: int
    payload: bytes = b""
    imm: int | None = None
    aeth: Aeth | None = None
    ackreq: bool = False
    pkey: int = 0xFFFF
    src_mac: str = "02:00:00:00:00:00"
    dst_mac: str = "02:00:00:00:00:00"
    sport: int = 0xC000
    dscp: int = 0
    ecn: int = ECN_ECT0
    ttl: int = 64
    ident: int = 0
    # Fields that are sent as 0 and kept so that any frame re-encodes to its own bytes.
    se: bool = False
    migreq: bool = False
    fecn: bool = False
    becn: bool = False
    resv8a: int = 0
    resv7: int = 0
    dont_fragment: bool = True
    icrc_ok: bool = field(default=True, compare=False)

    @property
    def descriptor(self) -> Descriptor | None:
        """The decoded descriptor, or None when the packet has no immediate."""
        return None if self.imm is None else Descriptor.unpack(self.imm)

    def but(self, **changes: object) -> Packet:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]
