"""Groups in full flight on one simulated engine: golden agents below it, a golden engine above, frames on all ports at
once, lost and repeated on the way, with senders that pause and receivers that are not ready.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import Cell, CellDelivered
from epic_models.reference.mode3 import Mode3Agent, Mode3Engine
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.codec import encode
from epic_spec.packets import NULL_BIT, Descriptor, Packet
from epic_spec.tables import Datatype, Operator, Primitive
from epic_testbed.rtl.device3 import Mode3Device

# A frame of the top engine or an agent travels this long: the time between two looks at the simulation.
STEP = 0.002


def cell_of(number: int, ranks: int, mtu: int) -> tuple[Descriptor, int]:
    """Descriptor and payload bytes of a cell: every primitive and operator, lengths from nothing to all."""
    choice = random.Random(number * 7919)
    kind = number % 6
    size = choice.choice((0, 4, 8, 60, 64, 68, 128, mtu - 4, mtu))
    operator = choice.choice((Operator.SUM, Operator.MAX, Operator.MIN))
    if kind == 4:
        size = choice.choice((1, 3, 15, 16, 17, 63, 65, mtu - 1, mtu))
        return Descriptor(
            Primitive.BROADCAST, operator, Datatype.FP64, rank=number % ranks, tag=number % 64
        ), size
    if size == 0:
        return Descriptor(Primitive.ALLREDUCE, Operator.NONE, Datatype.INT32, tag=number % 64), 0
    if kind == 5:
        return Descriptor(
            Primitive.REDUCE, operator, Datatype.INT32, rank=number % ranks, tag=number % 64
        ), size
    return Descriptor(Primitive.ALLREDUCE, operator, Datatype.INT32, tag=number % 64), size


def contribution(seed: int, rank: int, number: int, ranks: int, mtu: int) -> Cell:
    """What a rank gives for a cell."""
    descriptor, size = cell_of(number, ranks, mtu)
    gives = size and (descriptor.primitive is not Primitive.BROADCAST or descriptor.rank == rank)
    payload = random.Random(f"{seed} {rank} {number}").randbytes(size) if gives else None
    return Cell(descriptor.pack() | (0 if payload else NULL_BIT), payload)


def result(seed: int, rank: int, number: int, ranks: int, mtu: int) -> bytes | None:
    """What a rank must get for it."""
    descriptor, size = cell_of(number, ranks, mtu)
    if not size or (descriptor.primitive is Primitive.REDUCE and descriptor.rank != rank):
        return None
    payloads = [contribution(seed, r, number, ranks, mtu).payload for r in range(ranks)]
    if descriptor.primitive is Primitive.BROADCAST:
        return payloads[descriptor.rank]
    values = np.array([np.frombuffer(p, ">i4") for p in payloads if p is not None])
    reduce = {Operator.SUM: np.add, Operator.MAX: np.maximum, Operator.MIN: np.minimum}[descriptor.operator]
    return reduce.reduce(values, axis=0, dtype=np.int32).astype(">i4").tobytes()


@dataclass
class Tenant:
    """One group: its agents, and the engine above when the simulated one is not the root."""

    seed: int
    mtu: int
    plan: GroupPlan
    cells: int
    agents: list[Mode3Agent] = field(default_factory=list)
    top: Mode3Engine | None = None
    given: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return all(count == self.cells for count in self.got)


class Traffic:
    """Runs tenants on a device until all have their results, each of them checked."""

    def __init__(self, device: Mode3Device, seed: int, *, loss: float = 0.0, repeat: float = 0.0) -> None:
        self.device = device
        self.choice = random.Random(seed)
        self.loss, self.repeat = loss, repeat
        self.tenants: list[Tenant] = []
        self.now = 0.0
        self.pushed = 0
        self._agent_at: dict[bytes, tuple[Tenant, int | None]] = {}
        self._to_engine: list[tuple[int, Packet]] = []

    def tenant(
        self, number: int, ports: list[int], *, parent: int | None = None, cells: int = 40, **params: int
    ) -> Tenant:
        """A group whose rank r is behind port ports[r], with its parent behind port `parent` when it has one."""
        ranks, values = len(ports), {"window": 8, "slots": 16, "payload_bytes": 256} | params
        world = ranks + (parent is not None)
        group = GroupParams(
            group=number,
            mode=3,
            world_size=world,
            rto_initial_us=10000,
            rto_min_us=10000,
            rto_max_us=40000,
            **values,
        )
        children = {"x": tuple(range(ranks))}
        ends = {(r, "x"): _ends(number, r, port) for r, port in enumerate(ports)}
        if parent is not None:
            children = {"top": ("x", ranks)} | children
            ends |= {("x", "top"): _ends(number, 100, parent)[::-1], (ranks, "top"): _ends(number, 101, 7)}
        tree = Tree("x" if parent is None else "top", children)
        plan = build_group(tree, group, ends, seed=number)
        tenant = Tenant(number, values["payload_bytes"], plan, cells)
        tenant.agents = [Mode3Agent(plan.ranks[r]) for r in range(world)]
        tenant.given, tenant.got = [0] * world, [0] * world
        for rank, entry in plan.ranks.items():
            self._agent_at[entry.edge.local.qpn.to_bytes(3, "big")] = (tenant, rank)
        if parent is not None:
            tenant.top = Mode3Engine(EngineCapabilities(mode=3))
            tenant.top.install(plan.engines["top"], 0.0)
            self._agent_at[plan.engines["top"].children[0].local.qpn.to_bytes(3, "big")] = (tenant, None)
        self.device.install(plan.engines["x"])
        self.tenants.append(tenant)
        return tenant

    def run(self, steps: int = 3000, *, until: list[Tenant] | None = None) -> None:
        """Until the tenants (all) have finished. AssertionError for a wrong result, or when it takes too long."""
        waited = self.tenants if until is None else until
        for _ in range(steps):
            if all(tenant.finished for tenant in waited):
                return
            self._step()
        raise AssertionError(f"not finished: {[(t.got, t.cells) for t in waited]}")

    def _step(self) -> None:
        self.now += STEP
        for tenant in self.tenants:
            for rank, agent in enumerate(tenant.agents):
                room = min(agent.room(), tenant.cells - tenant.given[rank])
                cells = [
                    contribution(tenant.seed, rank, tenant.given[rank] + i, len(tenant.agents), tenant.mtu)
                    for i in range(room)
                ]
                tenant.given[rank] += room
                self._sent_by(tenant, rank, agent.submit(cells, self.now).sends)
                self._sent_by(tenant, rank, agent.poll(self.now).sends)
        frames = [(p, f) for p, f in self._to_engine for _ in range(self._copies())]
        self._to_engine = []
        for port, packet in frames:
            self.device.model.push(port, encode(packet))
            self.pushed += 1
        self.device.model.run(self.choice.randrange(200, 3000))
        for _, frame in self.device.sent():
            for _ in range(self._copies()):
                self._arrived(frame)

    def _copies(self) -> int:
        return 0 if self.choice.random() < self.loss else 2 if self.choice.random() < self.repeat else 1

    def _sent_by(self, tenant: Tenant, rank: int, sends: list[tuple[int, Packet]]) -> None:
        """Ranks below the simulated engine send to it, the one beside it to the top."""
        if rank < len(tenant.plan.engines["x"].children):
            port = tenant.plan.engines["x"].children[rank].port
            self._to_engine += [(port, packet) for _, packet in sends]
        elif tenant.top is not None:
            port = tenant.plan.engines["top"].children[1].port
            for _, packet in sends:
                self._from_top(tenant, tenant.top.receive(port, packet, self.now).sends)

    def _from_top(self, tenant: Tenant, sends: list[tuple[int, Packet]]) -> None:
        parent = tenant.plan.engines["x"].parent
        assert parent is not None
        for _, packet in sends:
            if packet.qpn == parent.local.qpn:
                self._to_engine.append((parent.port, packet))
            else:
                rank = len(tenant.agents) - 1
                self._received(tenant, rank, encode(packet))

    def _arrived(self, frame: bytes) -> None:
        tenant, rank = self._agent_at[frame[47:50]]
        if rank is None:
            assert tenant.top is not None
            port = tenant.plan.engines["top"].children[0].port
            self._from_top(tenant, tenant.top.receive_frame(port, frame, self.now).sends)
        else:
            self._received(tenant, rank, frame)

    def _received(self, tenant: Tenant, rank: int, frame: bytes) -> None:
        output = tenant.agents[rank].receive_frame(tenant.plan.ranks[rank].edge.port, frame, self.now)
        self._sent_by(tenant, rank, output.sends)
        for event in output.events:
            assert isinstance(event, CellDelivered), event
            assert event.cell == tenant.got[rank]
            assert event.payload == result(tenant.seed, rank, event.cell, len(tenant.agents), tenant.mtu), (
                f"group {tenant.seed}, rank {rank}, cell {event.cell}"
            )
            tenant.got[rank] += 1


def _ends(number: int, index: int, port: int) -> tuple[LinkEnd, LinkEnd]:
    """(the rank's end, the engine's end)."""
    return (
        LinkEnd(0, f"10.{number}.{index}.2", f"02:00:00:{number:02x}:{index:02x}:02"),
        LinkEnd(port, f"10.{number}.{index}.1", f"02:00:00:{number:02x}:{index:02x}:01"),
    )


def outcomes(counters: dict[str, int]) -> int:
    """Frames by what became of them: each has exactly one outcome (EPIC-W-21)."""
    names = ("rx_contribution", "rx_duplicate", "rx_stale", "rx_result", "tx_reflected")
    return sum(v for k, v in Counter(counters).items() if k in names or k.startswith("drop_"))
