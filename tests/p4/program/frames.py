"""Groups, and the frames that their children and parent send to the engine."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_spec import psn
from epic_spec.codec import encode
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Datatype, Opcode, Operator, Primitive

SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=5)


def make_group(
    children: int = 2,
    *,
    root: bool = True,
    engines: Sequence[int] = (),
    number: int = 1,
    ranks_each: int = 1,
    **params: Any,
) -> EngineGroup:
    """A group on one engine. `engines` are the children that are engines; ranks are numbered along the children."""
    values: dict[str, Any] = {
        "window": 2,
        "slots": 4,
        "payload_bytes": 256,
        "conflict_record": False,
    } | params
    edges = tuple(
        _edge(number, i, ranks=tuple(range(i * ranks_each, (i + 1) * ranks_each)), engine=i in engines)
        for i in range(children)
    )
    group = GroupParams(group=number, mode=3, world_size=children * ranks_each, **values)
    return EngineGroup(group, edges, None if root else _edge(number, 60, ranks=(), engine=True))


def _edge(number: int, index: int, *, ranks: tuple[int, ...], engine: bool) -> Edge:
    """PSN bases are near the end of their range, and differ from edge to edge."""
    host = 100 * number + index
    return Edge(
        name=f"e{index}",
        port=1 + index,
        local=Endpoint(
            f"10.{number}.{index}.1", 0x100 * host + 0x11, f"02:00:0a:{number:02x}:{index:02x}:01"
        ),
        peer=Endpoint(f"10.{number}.{index}.2", 0x100 * host + 0x22, f"02:00:0a:{number:02x}:{index:02x}:02"),
        psn_tx=0xFFFFFD + index & 0xFFFFFF,
        psn_rx=0xFFFFFE - 7 * index,
        ranks=ranks,
        peer_is_engine=engine,
        sport=0xC000 + host,
    )


def words(*values: int) -> bytes:
    """INT32 elements."""
    return struct.pack(f">{len(values)}i", *values)


def ramp(count: int, step: int = 1) -> bytes:
    """`count` INT32 elements that differ."""
    return words(*(step * (i + 1) for i in range(count)))


def packet(group: EngineGroup, child: int | None, cell: int, **fields: Any) -> Packet:
    """A packet to the engine over a child's edge (None: the parent's), of cell `cell`."""
    edge = group.parent if child is None else group.children[child]
    assert edge is not None
    values: dict[str, Any] = {
        "opcode": Opcode.SEND_ONLY_IMM,
        "src_ip": edge.peer.ip,
        "dst_ip": edge.local.ip,
        "src_mac": edge.peer.mac,
        "dst_mac": edge.local.mac,
        "qpn": edge.local.qpn,
        "psn": psn.add(edge.psn_rx, cell),
        "ackreq": True,
        "pkey": group.params.pkey,
        "sport": 0xC123,
    }
    return Packet(**(values | fields))


def port_of(group: EngineGroup, child: int | None) -> int:
    """Where a child's (None: the parent's) frames arrive."""
    edge = group.parent if child is None else group.children[child]
    assert edge is not None
    return edge.port


def data(
    group: EngineGroup,
    child: int | None,
    cell: int,
    descriptor: Descriptor | int = SUM,
    payload: bytes | None = None,
    **fields: Any,
) -> tuple[int, bytes]:
    """(port, frame) of a contribution or result; without payload it is NULL, unless the descriptor has ERR."""
    imm = descriptor if isinstance(descriptor, int) else descriptor.pack()
    if payload is None and not imm & 0x40:
        imm |= 0x80
    one = packet(group, child, cell, imm=imm, payload=payload or b"", **fields)
    return port_of(group, child), encode(one, icrc=group.params.icrc == "full")


def acknowledgement(
    group: EngineGroup, child: int | None, cell: int, syndrome: int = 0x1F, msn: int = 9, **fields: Any
) -> tuple[int, bytes]:
    """(port, frame) of an ACK, NAK or RNR NAK of the engine's result (or partial) `cell`."""
    edge = group.parent if child is None else group.children[child]
    assert edge is not None
    one = packet(
        group,
        child,
        0,
        **{
            "opcode": Opcode.ACK,
            "psn": psn.add(edge.psn_tx, cell),
            "aeth": Aeth(syndrome, msn),
            "ackreq": False,
        }
        | fields,
    )
    return port_of(group, child), encode(one, icrc=group.params.icrc == "full")
