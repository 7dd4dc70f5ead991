"""A group that the suite installed, and the peers that it plays: children (hosts or engines) and the parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from epic_models.reference import numerics
from epic_models.reference.group import Edge, EngineGroup, GroupParams, GroupPlan
from epic_models.reference.rc import Message, segments
from epic_models.reference.tree import LinkEnd, Node, Tree, build_group
from epic_spec import psn
from epic_spec.packets import NULL_BIT, Descriptor, Packet
from epic_spec.tables import UDP_PORT, Primitive
from epic_testbed.conformance.case import Unmet

if TYPE_CHECKING:
    from epic_testbed.conformance.bench import Bench

# An integer per element, the elements' bytes as they are, or None for NULL.
Values = Sequence[float] | bytes | None


@dataclass(slots=True)
class Cell:
    """A partial or result that the device sent: one message in Mode I, one packet otherwise."""

    cell: int
    imm: int
    payload: bytes | None
    congested: bool
    packets: int = 1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A data packet that a peer received: when by the device's clock, and its number, counted from the base."""

    time: float
    number: int
    packet: Packet


@dataclass(slots=True, eq=False)
class Peer:
    """A child or the parent, as the suite plays it."""

    name: str
    edge: Edge  # the peer's own end
    device_port: int
    group: Group
    data: list[Cell] = field(default_factory=list)
    acks: list[Packet] = field(default_factory=list)
    # Every data packet, repeated ones included (Modes I and II).
    arrivals: list[Arrival] = field(default_factory=list)
    repeats: int = 0
    acknowledge: bool = True
    # Packets of each cell that was sent, for repeating it; numbers count packets in Mode I.
    sent: dict[int, list[Packet]] = field(default_factory=dict)
    next_number: int = 0
    next_received: int = 0
    parts: list[Packet] = field(default_factory=list)
    messages: int = 0
    # Largest number of a data packet that was given to the device in any way; -1 before the first.
    highest_sent: int = -1
    # What was received, by packet number (Modes I and II), for comparing repetitions.
    received: dict[int, Packet] = field(default_factory=dict)

    @property
    def is_engine(self) -> bool:
        """Whether the suite plays an engine here (the parent, or a child with ranks of its own)."""
        return self is self.group.parent or len(self.group.below[self.group.children.index(self)]) > 1

    @property
    def is_parent(self) -> bool:
        """Whether this is the parent."""
        return self is self.group.parent


class Group:
    """One installed group and its peers.

    `below[i]` are the ranks below child i: one for a host, several for a child that is an engine. The group has one
    rank more when the device is an inner engine, below the parent's other child.
    """

    def __init__(
        self,
        bench: Bench,
        params: GroupParams,
        ranks_below: Sequence[int],
        *,
        inner: bool,
        base: int | None = None,
        equal_bases: bool = False,
    ) -> None:
        self._bench = bench
        self.params = params
        self.below = _numbered(ranks_below)
        children = len(self.below)
        names: list[Node] = [r[0] if len(r) == 1 else f"e{c}" for c, r in enumerate(self.below)]
        kids: dict[str, tuple[Node, ...]] = {"top": ("x", sum(ranks_below))} if inner else {}
        kids["x"] = tuple(names)
        kids |= {f"e{c}": tuple(r) for c, r in enumerate(self.below) if len(r) > 1}
        tree = Tree("top" if inner else "x", kids)
        self.plan: GroupPlan = build_group(
            tree, params, self._ends(tree, inner), seed=bench.seed * 1009 + params.group
        )
        if base is not None:
            self.plan = with_bases(self.plan, base, equal=equal_bases)
        self.entry: EngineGroup = self.plan.engines["x"]
        self.children = [
            self._peer(f"child {c}", self._upper_edge(name), self.entry.children[c].port)
            for c, name in enumerate(names)
        ]
        self.parent: Peer | None = None
        if self.entry.parent is not None:
            self.parent = self._peer("parent", self.plan.engines["top"].children[0], self.entry.parent.port)
        assert children == len(self.children)
        self.counters = dict(bench.dut.counters()) if bench.traits.reads_counters else {}
        self.frames_before = bench.frames_sent

    def _upper_edge(self, node: Node) -> Edge:
        if isinstance(node, int):
            return self.plan.ranks[node].edge
        edge = self.plan.engines[node].parent
        assert edge is not None
        return edge

    def _peer(self, name: str, edge: Edge, port: int) -> Peer:
        if self._bench.traits.binding == "udp":  # a socket sends from the port that it is bound to
            edge = replace(edge, sport=UDP_PORT)
        name += f" of group {self.params.group}" if self.params.group != 1 else ""
        return Peer(name, edge, port, self)

    def _ends(self, tree: Tree, inner: bool) -> dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]]:
        """Child i is behind port i, the parent behind the port after them; edges elsewhere are never used."""
        dut, children = self._bench.dut, tree.children["x"]
        needed = len(children) + inner
        if needed > self._bench.traits.ports:
            raise Unmet("ports", self._bench.traits.ports, needed)

        def pair(port: int) -> tuple[LinkEnd, LinkEnd]:
            peer_ip, peer_mac = dut.peer_addresses(port)
            own_ip, own_mac = dut.addresses(port)
            return LinkEnd(0, peer_ip, peer_mac), LinkEnd(port, own_ip, own_mac)

        nowhere = (LinkEnd(0, "192.0.2.1", "02:00:c0:00:02:01"), LinkEnd(1, "192.0.2.2", "02:00:c0:00:02:02"))
        ends = {(child, engine): nowhere for engine in tree.engines() for child in tree.children[engine]}
        ends |= {(child, "x"): pair(c) for c, child in enumerate(children)}
        if inner:
            above, below = pair(len(children))
            ends["x", "top"] = (below, above)
        return ends

    def peers(self) -> list[Peer]:
        """Every peer."""
        return self.children if self.parent is None else [*self.children, self.parent]

    # --------------------------------------------------------------------------------------------- payloads

    def wide(self, peer: Peer, what: Descriptor, *, upwards: bool) -> bool:
        """Whether a payload on this edge and in this direction has 4 bytes for a 16-bit float (EPIC-N-06)."""
        return (
            upwards
            and self.params.partial_format == "fp32"
            and what.datatype in numerics.HALVES
            and what.primitive is not Primitive.BROADCAST
            and not what.err
            and peer.is_engine
        )

    def encode(self, values: Values, what: Descriptor, *, wide: bool = False) -> bytes | None:
        """Elements as wire bytes."""
        if values is None or isinstance(values, bytes):
            return values
        if wide:
            order = ">f4" if self.params.byte_order == "big" else "<f4"
            return np.asarray(values, np.float32).astype(order).tobytes()
        array = np.asarray(values).astype(numerics.array_dtype(what.datatype))
        return numerics.to_wire(array, what.datatype, self.params.byte_order)

    def decode(self, payload: bytes, what: Descriptor, *, wide: bool = False) -> list[float]:
        """Wire bytes as elements; empty when they are not whole."""
        if not numerics.whole_elements(len(payload), what.datatype, wide):
            return []
        if wide:
            order = ">f4" if self.params.byte_order == "big" else "<f4"
            return [float(v) for v in np.frombuffer(payload, order)]
        dtype = numerics.array_dtype(what.datatype)
        out = np.empty(len(payload) // dtype.itemsize, dtype)
        numerics.from_wire(payload, what.datatype, self.params.byte_order, out)
        return [v.item() if hasattr(v, "item") else v for v in out]

    def same(
        self, got: bytes | None, expected: bytes | None, what: Descriptor, *, wide: bool = False
    ) -> bool:
        """Equal bytes, or NaN where NaN is expected (its bits are free)."""
        if got is None or expected is None or got == expected:
            return got == expected
        if (
            len(got) != len(expected)
            or what.datatype not in numerics.FLOATS
            or what.primitive is Primitive.BROADCAST
        ):
            return False
        pairs = zip(self.decode(got, what, wide=wide), self.decode(expected, what, wide=wide), strict=True)
        return all((a == b and np.signbit(a) == np.signbit(b)) or (a != a and b != b) for a, b in pairs)

    # -------------------------------------------------------------------------------------------- sending

    def packets(self, peer: Peer, cell: int, values: Values, what: Descriptor) -> list[Packet]:
        """The packets of a cell as `peer` sends it; in Mode I numbers go on from the peer's last packet."""
        payload = self.encode(values, what, wide=self.wide(peer, what, upwards=not peer.is_parent))
        imm = what.pack() | (NULL_BIT if payload is None else 0)
        packets = []
        number = peer.next_number if self.params.mode == 1 else cell
        for opcode, immediate, part in segments(Message(imm, payload), self.params.payload_bytes):
            packet = peer.edge.packet(
                opcode,
                number,
                imm=immediate,
                payload=part or b"",
                ackreq=immediate is not None,
                pkey=self.params.pkey,
            )
            packet.icrc_ok = self.params.icrc == "full"
            packets.append(packet)
            number += 1
        return packets

    def contribute(self, child: int, cell: int, values: Values, what: Descriptor, **changes: Any) -> None:
        """See `Bench.contribute`."""
        self.transmit(self.children[child], cell, values, what, **changes)

    def result(self, cell: int, values: Values, what: Descriptor, **changes: Any) -> None:
        """See `Bench.result_from_parent`."""
        assert self.parent is not None
        self.transmit(self.parent, cell, values, what, **changes)

    def transmit(self, peer: Peer, cell: int, values: Values, what: Descriptor, **changes: Any) -> None:
        """Send a cell for the first time, or repeat it packet by packet."""
        known = peer.sent.get(cell)
        if known is None:
            known = self.packets(peer, cell, values, what)
            peer.sent[cell] = known
            peer.next_number = max(peer.next_number, psn.diff(known[-1].psn, peer.edge.psn_tx) + 1)
        for packet in known:
            self._bench.send(peer, packet.but(**changes) if changes else packet)

    def last_number(self, peer: Peer, cell: int) -> int:
        """Number of the last packet of a cell that a peer has sent."""
        return psn.diff(peer.sent[cell][-1].psn, peer.edge.psn_tx)


def _numbered(ranks_below: Sequence[int]) -> list[tuple[int, ...]]:
    """Ranks 0, 1, … dealt out: (1, 2) becomes [(0,), (1, 2)]."""
    below, first = [], 0
    for count in ranks_below:
        below.append(tuple(range(first, first + count)))
        first += count
    return below


def with_bases(plan: GroupPlan, base: int, *, equal: bool = False) -> GroupPlan:
    """A plan whose PSN bases are `base`, `base` + 1, ... modulo 2^24, two an edge; one an edge when `equal`."""
    bases: dict[str, tuple[int, int]] = {}

    def moved(edge: Edge, *, up: bool) -> Edge:
        first = psn.add(base, (1 if equal else 2) * len(bases))
        sent, received = bases.setdefault(edge.name, (first, first if equal else psn.add(first, 1)))
        return replace(edge, psn_tx=sent if up else received, psn_rx=received if up else sent)

    engines = {
        name: replace(
            entry,
            children=tuple(moved(edge, up=False) for edge in entry.children),
            parent=None if entry.parent is None else moved(entry.parent, up=True),
        )
        for name, entry in plan.engines.items()
    }
    ranks = {r: replace(entry, edge=moved(entry.edge, up=True)) for r, entry in plan.ranks.items()}
    return replace(plan, engines=engines, ranks=ranks)
