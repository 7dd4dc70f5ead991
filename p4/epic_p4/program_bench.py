"""How many packets a second the executor does with EPIC's own programs: an AllReduce of two children at the root.

Every second packet completes its cell, so that half of the packets write the payload's words, and half add them and are
sent to both children. ICRCs are made and checked where the program can.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epic_p4.bench import Rate, measure
from epic_p4.control import DirectBackend, GroupController, ProgramModel, schema_of
from epic_p4.control.plain import PlainEdge, PlainEndpoint, PlainGroup, PlainParams
from epic_p4.frontend import compile_file
from epic_p4.p4info import generate
from epic_p4.switch import P4Switch
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet
from epic_spec.tables import Datatype, Opcode, Operator

SOURCES = Path(__file__).parent.parent
PROGRAMS = {"v1model": SOURCES / "bmv2" / "epic.p4", "tna": SOURCES / "tofino" / "epic.p4"}
CELLS = 128
_SUM = 0xFFFF << 16 | Operator.SUM << 12 | Datatype.INT32 << 8


def rates(words: int, seconds: float) -> list[Rate]:
    """The rate of each program with payloads of `words` 32-bit words. Raises ConfigError for more than it takes."""
    return [_rate(arch, path, words, seconds) for arch, path in PROGRAMS.items()]


def controlled(path: Path) -> tuple[P4Switch, GroupController]:
    """A switch with a program and the controller of its groups."""
    program = compile_file(path)
    switch = P4Switch(program)
    return switch, GroupController(DirectBackend(switch), ProgramModel.of(schema_of(generate(program))))


def _rate(arch: str, path: Path, words: int, seconds: float) -> Rate:
    switch, controller = controlled(path)
    most = controller.program.capabilities.payload_bytes // 4
    if words > most:
        raise ConfigError(
            f"words = {words}, expected at most {most}: what {path.name} for {arch} is compiled for"
        )
    group = two_children(controller.program.capabilities.icrc[0])

    def again() -> None:
        if controller.groups():
            controller.remove(group.params.group)
        controller.install(group)

    return measure(f"epic.p4, {arch}, {words} words", switch, contributions(group, words), seconds, again)


def two_children(icrc: str) -> PlainGroup:
    """Two ranks below a root, as wide a window as the slots allow."""
    children = tuple(
        PlainEdge(
            name=f"r{rank}-s0",
            port=rank,
            local=PlainEndpoint(f"10.0.{rank}.1", f"02:00:0a:00:{rank:02x}:01", 0x100 + rank),
            peer=PlainEndpoint(f"10.0.{rank}.2", f"02:00:0a:00:{rank:02x}:02", 0x200 + rank),
            psn_tx=0x1000 * rank,
            psn_rx=0x2000 * rank,
            ranks=(rank,),
            peer_is_engine=False,
            sport=0xC000 + rank,
        )
        for rank in range(2)
    )
    params = PlainParams(
        group=1, epoch=0, mode=3, window=CELLS // 2, slots=CELLS, payload_bytes=256, operators=("SUM",),
        datatypes=("INT32",), byte_order="big", icrc=icrc, partial_format="input", ack_reflection=False,
        window_guard=False, conflict_record=False, ordered=False, ecn=True, pkey=0xFFFF,
    )  # fmt: skip
    return PlainGroup(params, children)


def contributions(group: PlainGroup, words: int) -> Sequence[tuple[int, bytes]]:
    """A contribution of each child for each cell."""
    payload = b"".join((word * 0x01010101 & 0xFFFFFFFF).to_bytes(4, "big") for word in range(words))
    return [
        (edge.port, _contribution(edge, cell, payload, group))
        for cell in range(CELLS)
        for edge in group.children
    ]


def _contribution(edge: PlainEdge, cell: int, payload: bytes, group: PlainGroup) -> bytes:
    packet = Packet(
        opcode=Opcode.SEND_ONLY_IMM,
        qpn=edge.local.qpn,
        psn=edge.psn_rx + cell,
        imm=_SUM,
        payload=payload,
        ackreq=True,
        pkey=group.params.pkey,
        src_ip=edge.peer.ip,
        dst_ip=edge.local.ip,
        src_mac=edge.peer.mac,
        dst_mac=edge.local.mac,
        sport=edge.sport,
    )
    return codec.encode(packet, icrc=group.params.icrc == "full")
