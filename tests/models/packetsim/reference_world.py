"""The reference engines and agents on links that take the same time, and lose the same packets, as the simulator's."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from epic_models.packetsim import world as w_
from epic_models.packetsim.build import Plan, build
from epic_models.packetsim.config import HEADER_BYTES, Config, Job
from epic_models.packetsim.net import DUPLICATED, HELD, LOST
from epic_models.packetsim.world import PS, World
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell, CellDelivered, Output
from epic_models.reference.rc import RNR_TIMERS_MS, rnr_code
from epic_models.reference.registry import make_agent, make_engine
from epic_models.reference.tree import Node, Tree, build_group
from epic_spec import psn
from epic_spec.packets import NULL_BIT, Descriptor, Packet
from epic_spec.tables import SYNDROME_MASK, Datatype, Opcode, Operator, Primitive, Syndrome

RNR_US = 1000
RNR_SECONDS = RNR_TIMERS_MS[rnr_code(RNR_US)] / 1000
_KINDS = {Syndrome.ACK: w_.ACK, Syndrome.NAK: w_.NAK, Syndrome.RNR_NAK: w_.RNR}
_PRIMITIVES = {
    "all_reduce": Primitive.ALLREDUCE,
    "reduce": Primitive.REDUCE,
    "broadcast": Primitive.BROADCAST,
    "barrier": Primitive.ALLREDUCE,
}

# What arrived at an end: (time in picoseconds, kind, number, NULL or not, bytes on the wire).
Reception = tuple[int, int, int, bool, int]


@dataclass(order=True, slots=True)
class _Event:
    time: int
    kind: int
    order: int
    what: Any = field(compare=False)


class ReferenceWorld:
    """One job of a configuration, run by the reference."""

    def __init__(self, config: Config, world: World, plan: Plan, script: Sequence[Sequence[int]]) -> None:
        self.config, self.job = config, config.jobs[0]
        self.links = world.links.copy()
        self.free_at = [0] * len(self.links)
        self.offered = [0] * len(self.links)
        self.script = {(link, k): (fate, hold) for link, k, fate, hold in script}
        self.delays = world.starts.copy()
        self.now = self.order = 0
        self.heap: list[_Event] = []
        self.got: dict[int, list[Reception]] = {}
        self._join(world, plan)
        ranks = len(self.job.hosts)
        self.available, self.delivered, self.next = [0] * ranks, [0] * ranks, [0] * ranks
        self.iteration, self.ended = [0] * ranks, [[-1] * self.job.iterations for _ in range(ranks)]
        for rank in range(ranks):
            self._push(int(self.delays[rank * self.job.iterations]), w_.WAKE, rank, rank)

    def _join(self, world: World, plan: Plan) -> None:
        children: dict[str, list[Node]] = {}
        for _, child, parent in plan.edges:
            children.setdefault(parent, []).append(
                int(child[1:]) if child[0] == "r" and child[1:].isdigit() else child
            )
        below = {c for kids in children.values() for c in kids}
        (root,) = [name for name in children if name not in below]
        tree = Tree(root, {name: tuple(kids) for name, kids in children.items()})
        self.plan = build_group(tree, _params(self.job), seed=7)
        self.engines = {name: make_engine(self.job.mode or 3) for name in self.plan.engines}
        for name, entry in self.plan.engines.items():
            self.engines[name].install(entry, 0.0)
        self.agents = {rank: make_agent(member) for rank, member in self.plan.ranks.items()}
        # (node, port) -> (directed link, far node, far port, far end)
        self.far: dict[tuple[Node, int], tuple[int, Node, int, int]] = {}
        self.bases: dict[int, tuple[int, int]] = {}
        for parent, kids in self.plan.children.items():
            for i, child in enumerate(kids):
                label = f"r{child}" if isinstance(child, int) else child
                down, up = plan.edges[0, label, parent]
                low = (
                    self.plan.ranks[child].edge if isinstance(child, int) else self.plan.engines[child].parent
                )
                high = self.plan.engines[parent].children[i]
                assert low is not None
                links = [int(world.paths[world.ends[e]["path"]]) for e in (down, up)]
                self.far[child, low.port] = (links[0], parent, high.port, up)
                self.far[parent, high.port] = (links[1], child, low.port, down)
                self.bases[up] = (high.psn_rx, high.psn_tx)
                self.bases[down] = (low.psn_rx, low.psn_tx)

    # --------------------------------------------------------------------------------------------------- the wires

    def _push(self, time: int, kind: int, order: int, what: Any) -> None:
        heapq.heappush(self.heap, _Event(time, kind, order, what))

    def _send(self, node: Node, port: int, packet: Packet) -> None:
        link, *_ = self.far[node, port]
        k = self.offered[link]
        self.offered[link] += 1
        fate, hold = self.script.get((link, k), (0, 0))
        if fate == LOST:
            return
        if fate == HELD:
            self.order += 1
            self._push(self.now + hold, w_.LATE, self.order, (node, port, packet))
            return
        for _ in range(2 if fate == DUPLICATED else 1):
            self._enqueue(node, port, packet)

    def _enqueue(self, node: Node, port: int, packet: Packet) -> None:
        link, *far = self.far[node, port]
        size = len(packet.payload) + HEADER_BYTES
        per_byte = float(self.links[link]["ps_per_byte"])
        depth = int((self.free_at[link] - self.now) / per_byte) if self.free_at[link] > self.now else 0
        if depth + size > self.links[link]["capacity"]:
            return
        if depth > self.links[link]["mark_above"] and packet.opcode is not Opcode.ACK:
            packet = packet.but(ecn=3)
        self.order += 1
        self.free_at[link] = max(self.free_at[link], self.now) + int(size * per_byte)
        arrival = self.free_at[link] + int(self.links[link]["delay"])
        self._push(arrival, w_.ARRIVE, self.order, (*far, packet))

    def _arrive(self, node: Node, port: int, end: int, packet: Packet) -> None:
        self.got.setdefault(end, []).append(self._seen(end, packet))
        now = self.now * PS
        if isinstance(node, str):
            self._apply(node, self.engines[node].receive(port, packet, now))
        else:
            self._apply(node, self.agents[node].receive(port, packet, now))
            self._pump(node)

    def _seen(self, end: int, packet: Packet) -> Reception:
        size = len(packet.payload) + HEADER_BYTES
        received, sent = self.bases[end]
        if packet.opcode is Opcode.ACK:
            assert packet.aeth is not None
            kind = _KINDS[Syndrome(packet.aeth.syndrome & SYNDROME_MASK)]
            number = packet.psn - sent & psn.MASK
            return self.now, kind, number, False, size
        return self.now, w_.DATA, packet.psn - received & psn.MASK, not packet.payload, size

    # --------------------------------------------------------------------------------------------------- the nodes

    def _apply(self, node: Node, output: Output) -> None:
        for port, packet in output.sends:
            self._send(node, port, packet)
        for event in output.events:
            if isinstance(event, CellDelivered) and isinstance(node, int):
                self.delivered[node] += 1
                if self.delivered[node] == self.available[node]:
                    self._ended(node)

    def _ended(self, rank: int) -> None:
        k, count = self.iteration[rank], self.job.iterations
        self.ended[rank][k] = self.now
        self.iteration[rank] += 1
        if k + 1 < count:
            self._push(self.now + int(self.delays[rank * count + k + 1]), w_.WAKE, rank, rank)

    def _pump(self, rank: int) -> None:
        agent = self.agents[rank]
        while self.next[rank] < self.available[rank] and agent.room() > 0:
            cell = _cell(self.job, rank, self.next[rank])
            self.next[rank] += 1
            self._apply(rank, agent.submit([cell], self.now * PS))

    def run(self, limit: int) -> None:
        """Until every rank has ended, or the time `limit` (picoseconds)."""
        nodes: list[tuple[Node, Any]] = [*self.agents.items(), *self.engines.items()]
        while any(k < self.job.iterations for k in self.iteration):
            due = [(math.ceil(d / PS), n) for n, x in nodes if (d := x.next_deadline()) is not None]
            timer = min((max(t, self.now) for t, _ in due), default=limit)
            event = self.heap[0].time if self.heap else limit
            if min(timer, event) >= limit:
                return
            self.now = min(timer, event)
            if event <= timer:
                self._do(heapq.heappop(self.heap))
                continue
            for name, node in nodes:
                deadline = node.next_deadline()
                if deadline is not None and math.ceil(deadline / PS) <= self.now:
                    self._apply(name, node.poll(max(self.now * PS, deadline)))
                    if isinstance(name, int):
                        self._pump(name)

    def _do(self, event: _Event) -> None:
        if event.kind == w_.ARRIVE:
            self._arrive(*event.what)
        elif event.kind == w_.LATE:
            self._enqueue(*event.what)
        else:
            self.available[event.what] += self.job.cells
            self._pump(event.what)


def _params(job: Job) -> GroupParams:
    window = job.window
    return GroupParams(
        group=1,
        mode=job.mode or 3,
        world_size=len(job.hosts),
        window=window,
        slots=job.slots or 2 * window,
        payload_bytes=job.payload,
        message_bytes=job.message,
        message_buffers=job.buffers or window,
        window_guard=job.guard,
        ecn=job.ecn,
        rto_initial_us=round(job.rto_initial * 1e6),
        rto_min_us=round(job.rto_min * 1e6),
        rto_max_us=round(job.rto_max * 1e6),
        retry_limit=min(job.retry_limit, 255),
        rnr_timer_us=RNR_US,
        deadline_us=3_600_000_000,
    )


def _cell(job: Job, rank: int, number: int) -> Cell:
    """The cell that a rank of the simulator contributes, as the reference has it."""
    primitive = job.primitive
    named = job.root if primitive in ("reduce", "broadcast") else 0xFFFF
    operator = Operator.NONE if primitive in ("barrier", "broadcast") else Operator.SUM
    imm = Descriptor(_PRIMITIVES[primitive], operator, Datatype.INT32, rank=named, tag=1).pack()
    silent = primitive == "barrier" or (primitive == "broadcast" and rank != job.root)
    if silent:
        return Cell(imm | NULL_BIT, None)
    within = number % job.cells
    size = min(job.cell_bytes, job.size - within * job.cell_bytes)
    words = random.Random(f"{rank}/{number}").randbytes(size)
    return Cell(imm, words)


def receptions(world: World) -> dict[int, list[Reception]]:
    """What arrived at each end of the simulator, in order."""
    got: dict[int, list[Reception]] = {}
    for row in world.log[: int(world.sim[0]["log_used"])]:
        null = row["kind"] == w_.DATA and bool(row["flags"] & w_.NULL)
        seen = (int(row["time"]), int(row["kind"]), int(row["number"]), null, int(row["size"]))
        got.setdefault(int(row["end"]), []).append(seen)
    return got


def both(config: Config, script: Sequence[Sequence[int]]) -> tuple[World, ReferenceWorld]:
    """The simulator and the reference after the same job with the same faults."""
    from epic_models.packetsim.build import picoseconds
    from epic_models.packetsim.loop import run
    from epic_models.packetsim.reference import reference

    world, plan = build(config, packets=1 << 13, log=1 << 16, script=script)
    other = ReferenceWorld(config, world, plan, script)
    limit = picoseconds(config.time_limit)
    run(reference(world), limit, 1 << 40)
    other.run(limit)
    return world, other
