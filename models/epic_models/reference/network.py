"""A deterministic in-memory network: agents, engines and faulty links in virtual time, from one seed.

Frames cross as bytes, so corruption meets the real codec. Nothing here is part of the protocol.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from epic_models.reference.endpoint import EngineBase
from epic_models.reference.faults import FaultCounts, FaultInjector, FaultRates
from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    EdgeFailed,
    Event,
    GroupStatus,
    Output,
)
from epic_models.reference.recorder import Recorder
from epic_models.reference.registry import make_agent, make_engine
from epic_models.reference.tree import Node
from epic_spec import codec
from epic_spec.packets import Packet

# A place where frames arrive: a node and one of its ports.
Place = tuple[Node, int]


@dataclass(order=True, slots=True)
class _Arrival:
    time: float
    order: int
    place: Place = field(compare=False)
    frame: bytes = field(compare=False)


@dataclass(frozen=True, slots=True)
class LinkModel:
    """How long a frame takes (uniform in seconds, in order) and how often one is marked with congestion experienced."""

    delay: tuple[float, float] = (5e-6, 15e-6)
    mark: float = 0.0


class Network:
    """Nodes of one or more groups, joined as their plans say. `record` gets what each node does."""

    def __init__(
        self,
        plans: Sequence[GroupPlan],
        faults: FaultRates | None = None,
        *,
        seed: int = 0,
        links: LinkModel | None = None,
        engines: Mapping[str, EngineBase] | None = None,
        agents: Callable[..., Agent] = make_agent,
        record: Recorder | None = None,
    ) -> None:
        self.now = 0.0
        self.plans = {plan.params.group: plan for plan in plans}
        self.links = links or LinkModel()
        self._rng = random.Random(f"network {seed}")
        self._queue: list[_Arrival] = []
        self._sent = 0
        self.engines: dict[str, EngineBase] = dict(engines or {})
        self.agents: dict[tuple[int, int], Agent] = {}
        self.events: dict[tuple[int, int], list[Event]] = {}
        self.edge_failures: list[EdgeFailed] = []
        self.dead: set[Node] = set()
        # Optional observer of every frame that leaves a node: (time, node, port, frame).
        self.tap: Callable[[float, Node, int, bytes], None] | None = None
        self._faults: dict[Node, FaultInjector[Place]] = {}
        self._last: dict[tuple[Node, Place], float] = {}
        self._far: dict[tuple[Node, int, str], Place] = {}
        self._record = record
        if record is not None:
            for name, engine in self.engines.items():
                record.put_on_engine(name, engine)
        for plan in plans:
            self._join(plan, agents)
        rates = faults or FaultRates()
        nodes: list[Node] = [*self.engines, *{rank for _, rank in self.agents}]
        for node in nodes:
            self._faults[node] = FaultInjector(rates, zlib.crc32(f"{seed}/{node}".encode()), hold=2e-4)

    def _join(self, plan: GroupPlan, agents: Callable[..., Agent]) -> None:
        group = plan.params.group
        for name, entry in plan.engines.items():
            engine = self._engine(name, plan.params.mode)
            engine.install(entry, self.now)
            for child, edge in zip(plan.children[name], entry.children, strict=True):
                below = plan.ranks[child].edge if isinstance(child, int) else plan.engines[child].parent
                assert below is not None
                self._far[name, edge.port, edge.peer.ip] = (child, below.port)
                self._far[child, below.port, below.peer.ip] = (name, edge.port)
        for rank, member in plan.ranks.items():
            agent = self.agents[group, rank] = agents(member)
            self.events[group, rank] = []
            if self._record is not None:
                self._record.put_on_agent(agent)

    def _engine(self, name: str, mode: int) -> EngineBase:
        """The engine of a node, made where it is not there yet."""
        if name not in self.engines:
            self.engines[name] = make_engine(mode)
            if self._record is not None:
                self._record.put_on_engine(name, self.engines[name])
        return self.engines[name]

    # ---------------------------------------------------------------------------------------------- traffic

    def submit(self, group: int, rank: int, cells: Sequence[Cell]) -> None:
        """Let a rank contribute."""
        self._apply(rank, self.agents[group, rank].submit(cells, self.now), (group, rank))

    def inject(self, place: Place, frame: bytes, delay: float = 0.0) -> None:
        """Let a frame arrive somewhere, without faults."""
        self._sent += 1
        heapq.heappush(self._queue, _Arrival(self.now + delay, self._sent, place, frame))

    def send(self, node: Node, port: int, packet: Packet) -> None:
        """Put a packet on the link behind a port, through the node's fault injector."""
        if self.links.mark and packet.imm is not None and self._rng.random() < self.links.mark:
            packet = packet.but(ecn=3)
        frame = codec.encode(packet, icrc=packet.icrc_ok)
        if self.tap is not None:
            self.tap(self.now, node, port, frame)
        place = self._far.get((node, port, packet.dst_ip))
        if place is not None:
            for far, data in self._faults[node].push(place, frame, self.now):
                self._cross(node, far, data)

    def _cross(self, node: Node, far: Place, frame: bytes) -> None:
        """Let a frame cross its link: late by a random delay, never before the one ahead of it."""
        arrival = max(self.now + self._rng.uniform(*self.links.delay), self._last.get((node, far), 0.0))
        self._last[node, far] = arrival
        self.inject(far, frame, arrival - self.now)

    def _apply(self, node: Node, output: Output, member: tuple[int, int] | None) -> None:
        for port, packet in output.sends:
            self.send(node, port, packet)
        for event in output.events:
            if member is None:
                assert isinstance(event, EdgeFailed)
                self.edge_failures.append(event)
            else:
                self.events[member].append(event)

    # ------------------------------------------------------------------------------------------------- time

    def step(self, limit: float) -> bool:
        """Do what is next, not after `limit`; False when nothing is left to do until then."""
        timer = min((d for _, d in self._deadlines()), default=limit)
        arrival = self._queue[0].time if self._queue else limit
        if min(timer, arrival) >= limit:
            self.now = max(self.now, limit)
            return False
        self.now = max(self.now, min(timer, arrival))
        if arrival <= timer:
            self._arrive(heapq.heappop(self._queue))
        else:
            self._poll()
        return True

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass until `until()` holds (True) or `seconds` are over (False, or True without `until`)."""
        limit = self.now + seconds
        while not (until is not None and until()):
            if not self.step(limit):
                return until is None or until()
        return True

    def _deadlines(self) -> list[tuple[Node, float]]:
        rows: list[tuple[Node, float | None]] = [
            (n, e.next_deadline()) for n, e in self.engines.items() if n not in self.dead
        ]
        rows += [(rank, a.next_deadline()) for (_, rank), a in self.agents.items() if rank not in self.dead]
        rows += [(n, f.next_deadline()) for n, f in self._faults.items()]
        return [(node, d) for node, d in rows if d is not None]

    def _poll(self) -> None:
        for node, injector in self._faults.items():
            for far, data in injector.poll(self.now):
                self._cross(node, far, data)
        for name, engine in self.engines.items():
            if name not in self.dead and (d := engine.next_deadline()) is not None and d <= self.now:
                self._apply(name, engine.poll(self.now), None)
        for member, agent in self.agents.items():
            if member[1] not in self.dead and (d := agent.next_deadline()) is not None and d <= self.now:
                self._apply(member[1], agent.poll(self.now), member)

    def _arrive(self, arrival: _Arrival) -> None:
        node, port = arrival.place
        if node in self.dead:
            return
        if isinstance(node, str):
            self._apply(node, self.engines[node].receive_frame(port, arrival.frame, self.now), None)
            return
        for member, agent in self.agents.items():
            if member[1] == node:
                self._apply(node, agent.receive_frame(port, arrival.frame, self.now), member)

    # ------------------------------------------------------------------------------------------ observation

    def kill(self, node: Node) -> None:
        """The node stops: it neither sends nor receives from now on."""
        self.dead.add(node)

    def statuses(self, group: int) -> dict[str, GroupStatus | None]:
        """What a rank learns when it asks every engine of its group: None for a dead one."""
        return {
            name: None if name in self.dead else self.engines[name].status(group)
            for name in self.plans[group].engines
        }

    def faults(self) -> FaultCounts:
        """Injected faults over all nodes."""
        total = FaultCounts()
        for injector in self._faults.values():
            for name, value in injector.counts.to_dict().items():
                setattr(total, name, getattr(total, name) + value)
        return total

    def counter(self, name: str) -> int:
        """One counter summed over all nodes."""
        nodes: list[EngineBase | Agent] = [*self.engines.values(), *self.agents.values()]
        return sum(node.counters()[name] for node in nodes)
