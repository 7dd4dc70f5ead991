"""Strategies and oracles that the tests of the wire format share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from epic_spec.layout import LAYOUT
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import EXTENDED, Datatype, Opcode, Operator, Primitive, Syndrome

REPO = Path(__file__).resolve().parents[2]
VECTORS = REPO.parent / "shared" / "vectors" / "frames.json"
needs_vectors = pytest.mark.skipif(not VECTORS.exists(), reason="the shared test vectors are not here")
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def vectors() -> list[dict]:
    return json.loads(VECTORS.read_text()) if VECTORS.exists() else []


def bits(width: int) -> st.SearchStrategy[int]:
    """Any value of a field, its ends more often than chance would."""
    top = (1 << width) - 1
    return st.one_of(st.sampled_from([0, 1, top]), st.integers(0, top))


ips = bits(32).map(lambda n: ".".join(str(b) for b in n.to_bytes(4, "big")))
macs = bits(48).map(lambda n: n.to_bytes(6, "big").hex(":"))
payloads = st.one_of(
    st.binary(max_size=9), st.integers(0, 300).map(bytes), st.binary(min_size=100, max_size=200)
)


@st.composite
def descriptors(draw: st.DrawFn, *, payload: bool, only: bool) -> Descriptor:
    """Descriptors that fit a packet with or without payload."""
    err = draw(st.booleans())
    empty = only and not payload
    null = draw(st.booleans()) if err else empty
    operators = list(Operator) if err or empty else [o for o in Operator if o]
    return Descriptor(
        primitive=draw(st.sampled_from(Primitive)),
        operator=draw(st.sampled_from(operators)),
        datatype=draw(st.sampled_from(Datatype)),
        rank=draw(bits(16)),
        null=null,
        err=err,
        tag=draw(bits(6)),
    )


@st.composite
def packets(draw: st.DrawFn, *, datagram: bool = False) -> Packet:
    """Any packet that can be encoded; `datagram`: only what survives the socket binding."""
    opcode = draw(st.sampled_from(Opcode))
    payload = draw(payloads)
    imm = aeth = None
    if "immdt" in EXTENDED[opcode.name]:
        only = opcode is Opcode.SEND_ONLY_IMM
        imm = draw(descriptors(payload=bool(payload), only=only)).pack()
    if "aeth" in EXTENDED[opcode.name]:
        aeth = Aeth(draw(st.sampled_from(Syndrome)) | draw(bits(5)), draw(bits(24)))
    src_ip, dst_ip = draw(ips), draw(ips)
    packet = Packet(
        opcode=opcode,
        src_ip=src_ip,
        dst_ip=dst_ip,
        qpn=draw(bits(24)),
        psn=draw(bits(24)),
        payload=payload,
        imm=imm,
        aeth=aeth,
        ackreq=draw(st.booleans()),
        pkey=draw(bits(16)),
        se=draw(st.booleans()),
        migreq=draw(st.booleans()),
        fecn=draw(st.booleans()),
        becn=draw(st.booleans()),
        resv8a=draw(bits(6)),
        resv7=draw(bits(7)),
        ecn=draw(bits(2)),
        sport=draw(bits(16)),
    )
    if datagram:
        return packet
    return packet.but(
        src_mac=draw(macs),
        dst_mac=draw(macs),
        dscp=draw(bits(6)),
        ttl=draw(bits(8)),
        ident=draw(bits(16)),
        dont_fragment=draw(st.booleans()),
    )


def cell(**changes: object) -> Packet:
    """A plain AllReduce cell."""
    imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, tag=5).pack()
    payload = bytes(range(64))
    return Packet(Opcode.SEND_ONLY_IMM, "10.0.0.1", "10.0.0.2", 0x1234, 77, payload, imm).but(**changes)


def fields_by_the_table(frame: bytes) -> dict[str, int]:
    """Every field of epic.toml, cut out of a frame by its bit offset and width alone."""
    number = int.from_bytes(frame[:58].ljust(58, b"\0"), "big")
    return {
        name: number >> 58 * 8 - at - width & (1 << width) - 1 for (_, name), (at, width) in LAYOUT.items()
    }
