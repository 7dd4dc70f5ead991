"""Frames for the benches, from the codec of the spec."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from epic_spec.codec import encode
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Datatype, Opcode, Operator, Primitive, Syndrome

VH = Path(__file__).resolve().parents[2] / "src" / "epic_types.vh"


def imm(*, payload: bool = True, tag: int = 0) -> int:
    """A descriptor that goes with a payload, or with none."""
    if payload:
        return Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=tag).pack()
    return Descriptor(Primitive.ALLREDUCE, Operator.NONE, Datatype.INT32, null=True, tag=tag).pack()


def cell(payload: bytes, **changes: object) -> Packet:
    """A cell of an AllReduce, with or without payload."""
    packet = Packet(
        Opcode.SEND_ONLY_IMM, "10.0.0.1", "10.0.0.2", 0x00ABCD, 0x123456, payload, imm(payload=bool(payload))
    )
    return packet.but(**changes)


def random_packet(choice: random.Random, payload: int) -> Packet:
    """A packet that a receiver takes, all fields at random; `payload` bytes, unless it is an ACK."""
    fields = {
        "src_ip": f"10.{choice.randrange(256)}.{choice.randrange(256)}.{choice.randrange(256)}",
        "dst_ip": f"10.{choice.randrange(256)}.{choice.randrange(256)}.{choice.randrange(256)}",
        "qpn": choice.randrange(1 << 24),
        "psn": choice.randrange(1 << 24),
        "ackreq": choice.random() < 0.5,
        "pkey": choice.randrange(1 << 16),
        "sport": choice.randrange(1 << 16),
        "dscp": choice.randrange(64),
        "ecn": choice.randrange(4),
        "ttl": choice.randrange(256),
        "ident": choice.randrange(1 << 16),
        "se": choice.random() < 0.5,
        "migreq": choice.random() < 0.5,
        "fecn": choice.random() < 0.5,
        "becn": choice.random() < 0.5,
        "resv8a": choice.randrange(64),
        "resv7": choice.randrange(128),
        "dont_fragment": choice.random() < 0.5,
        "src_mac": ":".join(f"{choice.randrange(256):02x}" for _ in range(6)),
        "dst_mac": ":".join(f"{choice.randrange(256):02x}" for _ in range(6)),
    }
    kind = choice.random()
    if kind < 0.2:
        syndrome = choice.choice(list(Syndrome)) | choice.randrange(32)
        return cell(
            b"", opcode=Opcode.ACK, imm=None, aeth=Aeth(syndrome, choice.randrange(1 << 24)), **fields
        )
    data = choice.randbytes(payload)
    if kind < 0.3:
        opcode = choice.choice([Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_LAST, Opcode.SEND_ONLY])
        return cell(data, opcode=opcode, imm=None, **fields)
    if kind < 0.35:
        return cell(data, opcode=Opcode.SEND_LAST_IMM, imm=imm(tag=choice.randrange(64)), **fields)
    return cell(data, imm=imm(payload=bool(data), tag=choice.randrange(64)), **fields)


def sized_frame(size: int, seed: int = 0) -> bytes:
    """A good cell's frame of at least 58 bytes with the payload that makes it `size` bytes (a multiple of 4 less 2)."""
    if size < 62 or (size - 62) % 4:
        raise ValueError(f"size {size}, expected 62 and multiples of 4 more")
    return encode(cell(random.Random(seed).randbytes(size - 62)))


@cache
def record_fields(record: str) -> dict[str, tuple[int, int]]:
    """(LSB, width) of the fields of a record of epic_types.vh, such as META."""
    values = {}
    for line in VH.read_text().splitlines():
        if line.startswith(f"localparam integer {record}_"):
            name, _, value = line.removeprefix("localparam integer ").partition(" = ")
            values[name] = int(value.split(";")[0])
    return {
        name.removeprefix(f"{record}_").removesuffix("_LSB").lower(): (
            lsb,
            values[name.replace("_LSB", "_WIDTH")],
        )
        for name, lsb in values.items()
        if name.endswith("_LSB")
    }


def unpack(record: str, word: int) -> dict[str, int]:
    """A record's fields by name."""
    return {name: word >> lsb & ((1 << width) - 1) for name, (lsb, width) in record_fields(record).items()}


def pack(record: str, /, **fields: int) -> int:
    """A record from fields by name; those not given are 0."""
    places = record_fields(record)
    word = 0
    for name, value in fields.items():
        lsb, width = places[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{record}.{name} is {value}, expected {width} bits")
        word |= value << lsb
    return word
