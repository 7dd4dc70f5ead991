"""The real programs, and what the golden engine makes of a script of frames."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import Edge, EngineGroup
from epic_models.reference.mode3 import Mode3Engine
from epic_p4.ast import Program
from epic_p4.control import schema_of
from epic_p4.control.schema import Schema
from epic_p4.frontend import compile_file
from epic_p4.p4info import generate
from epic_spec import codec
from epic_spec.tables import Opcode

P4 = Path(__file__).resolve().parents[3] / "p4"
FILES = {"v1model": P4 / "bmv2" / "epic.p4", "tna": P4 / "tofino" / "epic.p4"}
SUM_INT32 = 0xFFFF_1000


@cache
def program(arch: str) -> Program:
    """The compiled program of an architecture."""
    return compile_file(FILES[arch])


@cache
def program_schema(arch: str) -> Schema:
    """Its interface."""
    return schema_of(generate(program(arch)))


def contribution(edge: Edge, group: EngineGroup, cell: int, word: int, words: int = 4) -> bytes:
    """A contribution of this child, as a frame."""
    peer = Edge(edge.name, 0, edge.peer, edge.local, edge.psn_rx, edge.psn_tx, sport=edge.sport)
    payload = word.to_bytes(4, "big") * words
    packet = peer.packet(Opcode.SEND_ONLY_IMM, cell, imm=SUM_INT32, payload=payload, ackreq=True)
    return codec.encode(packet, icrc=group.params.icrc == "full")


def golden(group: EngineGroup) -> Mode3Engine:
    """The golden engine with the group."""
    engine = Mode3Engine(EngineCapabilities(mode=3))
    engine.install(group, 0.0)
    return engine


def script(group: EngineGroup) -> list[tuple[int, bytes]]:
    """Contributions of all children for three cells, with a repetition, a late one, and a stranger's."""
    frames = []
    for cell in (0, 1, 9):
        for child, edge in enumerate(group.children):
            frames.append((edge.port, contribution(edge, group, cell, 1000 * cell + child + 1)))
        frames.append(frames[-1])
    frames.append(frames[0])
    frames.append((group.children[1].port, frames[0][1]))
    return frames


def frames_of(engine: Mode3Engine, port: int, frame: bytes) -> list[tuple[int, bytes]]:
    """The frames that the golden engine sends because of one."""
    sends = engine.receive_frame(port, frame, 0.0).sends
    return [(port, codec.encode(packet, icrc=packet.icrc_ok)) for port, packet in sends]
