"""One engine on a bench: the test plays its children and its parent with packets of its own."""

from __future__ import annotations

import struct

from epic_models.reference.endpoint import ack_aeth
from epic_models.reference.group import Edge, EngineGroup, GroupParams
from epic_models.reference.interfaces import Output
from epic_models.reference.registry import make_engine
from epic_models.reference.tree import Tree, build_group
from epic_spec import psn
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Datatype, Opcode, Operator, Primitive

SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1)


def words(*values: int) -> bytes:
    """INT32 payload in network order."""
    return struct.pack(f">{len(values)}i", *values)


def numbers(payload: bytes) -> tuple[int, ...]:
    """INT32 values of a payload."""
    return struct.unpack(f">{len(payload) // 4}i", payload)


class Bench:
    """Engine "x" with `children` ranks, root or below a parent that the test plays too."""

    def __init__(
        self, mode: int, children: int = 2, *, inner: bool = False, seed: int = 1, **params: object
    ) -> None:
        ranks = tuple(range(children))
        kids = {"top": ("x", children), "x": ranks} if inner else {"x": ranks}
        defaults: dict[str, object] = {"window": 2, "slots": 4, "payload_bytes": 64, "message_bytes": 128}
        defaults["message_buffers"] = min(2, int(str(params.get("window", 2))))
        values = {**defaults, **params}
        self.params = GroupParams(group=1, mode=mode, world_size=children + inner, **values)  # type: ignore[arg-type]
        self.plan = build_group(Tree("top" if inner else "x", kids), self.params, seed=seed)
        self.entry: EngineGroup = self.plan.engines["x"]
        self.engine = make_engine(mode)
        self.engine.install(self.entry, 0.0)
        self.now = 0.0

    def child_edge(self, child: int) -> Edge:
        """The child's end of its edge."""
        return self.plan.ranks[child].edge

    @property
    def parent_edge(self) -> Edge:
        """The parent's end of the edge to it."""
        return self.plan.engines["top"].children[0]

    def give(self, port: int, packet: Packet) -> Output:
        """Let a packet arrive."""
        return self.engine.receive(port, packet, self.now)

    def contribution(
        self,
        child: int,
        cell: int,
        payload: bytes | None,
        what: Descriptor = SUM,
        opcode: Opcode = Opcode.SEND_ONLY_IMM,
        **changes: object,
    ) -> Packet:
        """A contribution as child number `child` builds it; `cell` is the packet number in Mode I."""
        imm = what.pack() | (0x80 if payload is None else 0)
        with_imm = opcode in (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM)
        packet = self.child_edge(child).packet(
            opcode,
            cell,
            imm=imm if with_imm else None,
            payload=payload or b"",
            ackreq=with_imm,
            pkey=self.params.pkey,
        )
        return packet.but(**changes) if changes else packet

    def contribute(
        self, child: int, cell: int, payload: bytes | None, what: Descriptor = SUM, **changes: object
    ) -> Output:
        """Child number `child` contributes."""
        return self.give(
            self.entry.children[child].port, self.contribution(child, cell, payload, what, **changes)
        )

    def result(self, cell: int, payload: bytes | None, what: Descriptor = SUM, **changes: object) -> Output:
        """The parent sends a result."""
        assert self.entry.parent is not None
        imm = what.pack() | (0x80 if payload is None else 0)
        packet = self.parent_edge.packet(
            Opcode.SEND_ONLY_IMM, cell, imm=imm, payload=payload or b"", ackreq=True
        )
        return self.give(self.entry.parent.port, packet.but(**changes) if changes else packet)

    def child_ack(self, child: int, cell: int, aeth: Aeth | None = None) -> Output:
        """Child number `child` acknowledges result packet `cell`."""
        packet = self.child_edge(child).packet(Opcode.ACK, cell, aeth=aeth or ack_aeth(0))
        return self.give(self.entry.children[child].port, packet)

    def parent_ack(self, cell: int, aeth: Aeth | None = None) -> Output:
        """The parent acknowledges partial packet `cell`."""
        assert self.entry.parent is not None
        packet = self.parent_edge.packet(Opcode.ACK, cell, aeth=aeth or ack_aeth(0))
        return self.give(self.entry.parent.port, packet)

    def elapse(self, seconds: float) -> Output:
        """Let time pass and timers run."""
        self.now += seconds
        return self.engine.poll(self.now)

    # ------------------------------------------------------------------------------------ reading an output

    def data_to(self, output: Output, child: int) -> list[Packet]:
        """Data packets sent to a child."""
        ip = self.child_edge(child).local.ip
        return [p for _, p in output.sends if p.dst_ip == ip and p.opcode is not Opcode.ACK]

    def acks_to(self, output: Output, child: int) -> list[Packet]:
        """Acknowledgements sent to a child."""
        ip = self.child_edge(child).local.ip
        return [p for _, p in output.sends if p.dst_ip == ip and p.opcode is Opcode.ACK]

    def up(self, output: Output) -> list[Packet]:
        """Partials sent to the parent."""
        ip = self.parent_edge.local.ip
        return [p for _, p in output.sends if p.dst_ip == ip and p.opcode is not Opcode.ACK]

    def cell_of(self, child: int, packet: Packet) -> int:
        """Number of a result (modulo 2^24) or acknowledgement as the child counts it."""
        edge = self.child_edge(child)
        base = edge.psn_tx if packet.opcode is Opcode.ACK else edge.psn_rx
        return psn.add(packet.psn, -base)
