"""Groups whose path changes under them, in virtual time: reference networks, one after the other, and a manager as
`tla/Failover.tla` has it. The abstract machine follows every rank over all epochs.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from epic_host.epoch_agent import EpochAgent
from epic_models.reference.abstract import AbstractMachine
from epic_models.reference.agent import AgentBase
from epic_models.reference.driver import Member
from epic_models.reference.faults import FaultInjector, FaultRates
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import Agent
from epic_models.reference.network import Network
from epic_models.reference.registry import make_agent
from epic_models.reference.tree import LinkEnd, Node, Tree, build_group, default_ends
from epic_spec.errors import CollectiveError, PeerLostError
from epic_spec.packets import Packet
from models.worlds import Collective, Expectation, Followed

MEMBER = 0  # what the network knows the ranks' agents by, over all epochs


def params(world_size: int, mode: int = 3, window: int = 4, **more: object) -> GroupParams:
    values: dict[str, object] = {
        "group": 1, "mode": mode, "world_size": world_size, "window": window, "slots": max(2, 2 * window),
        "payload_bytes": 64, "message_bytes": 64, "message_buffers": window, "retry_limit": 100,
        "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000, "deadline_us": 20_000_000,
    }  # fmt: skip
    return GroupParams(**(values | more))  # type: ignore[arg-type]


def trees(n: int) -> dict[str, Tree]:
    """Paths that have nothing in common: one engine, another, and two levels."""
    half = (n + 1) // 2
    below = {"c1": tuple(range(half)), "c2": tuple(range(half, n))}
    below = {name: ranks for name, ranks in below.items() if ranks}
    return {
        "a": Tree("a0", {"a0": tuple(range(n))}),
        "b": Tree("b0", {"b0": tuple(reversed(range(n)))}),
        "c": Tree("c0", {"c0": tuple(below), **below}),
    }


class EpochNetwork(Network):
    """A network to which trees are added as it runs. `deaf` ranks receive nothing."""

    def __init__(self, agents: dict[int, Agent], faults: FaultRates | None, seed: int) -> None:
        super().__init__([], faults, seed=seed)
        self.deaf: set[Node] = set()
        self._rates, self._seeds = faults or FaultRates(), itertools.count(seed * 1000)
        for rank, agent in agents.items():
            self.agents[MEMBER, rank] = agent
            self.events[MEMBER, rank] = []
            self._know(rank)

    def install(self, plan: GroupPlan) -> None:
        for name, entry in plan.engines.items():
            self._know(name)
            self._engine(name, plan.params.mode).install(entry, self.now)
            for child, edge in zip(plan.children[name], entry.children, strict=True):
                below = plan.ranks[child].edge if isinstance(child, int) else plan.engines[child].parent
                assert below is not None
                self._far[name, edge.port, edge.peer.ip] = (child, below.port)
                self._far[child, below.port, below.peer.ip] = (name, edge.port)

    def connect(self, low: Node, high: Node, ends: tuple[tuple[int, str], tuple[int, str]]) -> None:
        """A link between two nodes; (port, address of the other) of each."""
        (low_port, high_ip), (high_port, low_ip) = ends
        self._far[low, low_port, high_ip] = (high, high_port)
        self._far[high, high_port, low_ip] = (low, low_port)

    def send(self, node: Node, port: int, packet: Packet) -> None:
        place = self._far.get((node, port, packet.dst_ip))
        if place is not None and place[0] not in self.deaf:
            super().send(node, port, packet)

    def _know(self, node: Node) -> None:
        if node not in self._faults:
            self._faults[node] = FaultInjector(self._rates, next(self._seeds), hold=2e-4)


@dataclass
class Change:
    """A change of epoch under way."""

    epoch: int
    path: str
    reports: dict[int, int]


def lowest(reports: dict[int, int]) -> int:
    return min(reports.values())


class EpochWorld:
    """`n` ranks. `make` gives the agent of a rank, `base` where the group resumes by the ranks' reports."""

    # What a mutant changes.
    make: Callable[[], EpochAgent] = EpochAgent
    base = staticmethod(lowest)

    def __init__(
        self, group: GroupParams, faults: FaultRates | None = None, *, seed: int = 0, forget: bool = True
    ) -> None:
        self.params, self.seed, self._forget = group, seed, forget
        self.ranks = range(group.world_size)
        self.rng = random.Random(f"epochs {seed}")
        self.machine = AbstractMachine(group)
        self.agents = {r: type(self).make() for r in self.ranks}
        followed: dict[int, Agent] = {r: Followed(self.agents[r], r, self.machine) for r in self.ranks}
        self.net = EpochNetwork(followed, faults, seed)
        self.members = [Member(self.net, MEMBER, r, self._diagnosis) for r in self.ranks]
        self.calls: list[Expectation] = []
        self.epoch = -1
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._installed: dict[str, GroupPlan] = {}
        self.change: Change | None = None
        # A path's mode where it is not the group's.
        self.modes: dict[str, int] = {}
        self._trees = trees(group.world_size)

    def _diagnosis(self, cell: int) -> CollectiveError:
        return PeerLostError(f"no result of cell {cell}")

    def call(self, *collectives: Collective) -> None:
        """Every rank calls these, one after the other."""
        for collective in collectives:
            self.calls.append(Expectation(collective, self.params, len(self.calls)))
            for member, operation in zip(self.members, self.calls[-1].operations, strict=True):
                member.call(operation)

    # ---------------------------------------------------------------------------------------- the manager

    def begin_epoch(self, path: str, spread: float = 0.0, window: int | None = None) -> None:
        """The next epoch begins on `path`; ranks hear of it, and of its grant, within `spread` seconds each."""
        self.epoch += 1
        change = self.change = Change(self.epoch, path, {})
        for rank in self.ranks:
            self._later(spread, lambda r=rank: self._prepare(change, r, spread, window))  # type: ignore[misc]

    def _prepare(self, change: Change, rank: int, spread: float, window: int | None) -> None:
        if change is not self.change:
            return
        report = self.agents[rank].prepare(change.epoch)
        assert report is not None
        change.reports[rank] = report
        if len(change.reports) == len(self.ranks):
            for member, agent in self._granted(change, window).items():
                self._later(spread, lambda r=member, a=agent: self._resume(change, r, a))  # type: ignore[misc]

    def _resume(self, change: Change, rank: int, agent: Agent) -> None:
        if change is not self.change:
            return
        own = self.agents[rank]
        assert own.delivered == change.reports[rank], "a rank delivered results after it had reported"
        base = type(self).base(change.reports)
        width = agent.params.window if isinstance(agent, AgentBase) else self.params.window
        output = own.resume(change.epoch, agent, base, width, self.net.now)
        for port, packet in output.sends:
            self.net.send(rank, port, packet)
        assert not output.events

    def _granted(self, change: Change, window: int | None) -> dict[int, Agent]:
        width = window or self.params.window
        narrowed = replace(
            self.params,
            mode=self.modes.get(change.path, self.params.mode),
            epoch=change.epoch,
            window=width,
            slots=max(2, 2 * width),
            message_buffers=min(width, self.params.message_buffers),
        )
        if change.path == "host":
            return self._host(narrowed)
        if self._forget and change.path in self._installed:
            for name in self._installed[change.path].engines:
                self.net.engines[name].remove(self._installed[change.path].params.group)
        tree = self._trees[change.path]
        # Engines that go on with an epoch which is over have it under another number.
        group = replace(narrowed, group=1 if self._forget else 1 + change.epoch)
        plan = build_group(tree, group, self._ends(change.path), seed=self.seed * 1000 + change.epoch)
        self.net.install(plan)
        self._installed[change.path] = plan
        return {rank: make_agent(entry) for rank, entry in plan.ranks.items()}

    def _host(self, group: GroupParams) -> dict[int, Agent]:
        from epic_host.fallback.plan import host_plan, make_host_agent

        ends = [LinkEnd(0, f"10.200.0.{rank}", f"02:00:00:c8:00:{rank:02x}") for rank in self.ranks]
        algorithm = self.rng.choice(("ring", "doubling"))
        plan = host_plan(group, ends, algorithm, self.seed * 1000 + group.epoch)
        for rank, edges in plan.edges.items():
            for peer, edge in edges.items():
                back = plan.edges[peer][rank]
                self.net.connect(rank, peer, ((edge.port, edge.peer.ip), (back.port, back.peer.ip)))
        return {rank: make_host_agent(plan, rank) for rank in self.ranks}

    def _ends(self, path: str) -> dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]]:
        shift = 16 * (1 + "abc".index(path))

        def moved(end: LinkEnd) -> LinkEnd:
            first, second, rest = end.ip.split(".", 2)
            return replace(end, ip=f"{first}.{int(second) + shift}.{rest}")

        return {
            edge: (moved(low), moved(high)) for edge, (low, high) in default_ends(self._trees[path]).items()
        }

    # ------------------------------------------------------------------------------------------------ time

    def _later(self, spread: float, action: Callable[[], None]) -> None:
        at = self.net.now + self.rng.uniform(0, spread)
        heapq.heappush(self._todo, (at, next(self._order), action))

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._todo, (self.net.now + delay, next(self._order), action))

    def run(self, seconds: float, steps: int | None = None) -> bool:
        """Let time pass, at most `steps` steps of it; True when all that was called has ended."""
        limit = self.net.now + seconds
        taken = 0
        while steps is None or taken < steps:
            while self._todo and self._todo[0][0] <= self.net.now:
                heapq.heappop(self._todo)[2]()
            for member in self.members:
                member.pump()
            self._check_clock()
            if all(member.finished for member in self.members) and not self._todo:
                return True
            until = min([limit, *(at for at, _, _ in self._todo[:1])])
            if not self.net.step(until) and until == limit:
                return False
            taken += 1
        return False

    def settle(self, seconds: float = 5.0) -> None:
        """Run to the end, and require it with the right results everywhere."""
        done = self.run(seconds)
        errors = {m.rank: m.error for m in self.members if m.error is not None}
        assert not errors, errors
        waiting = [m.rank for m in self.members if not m.finished]
        assert done, f"ranks {waiting} still wait after {seconds} s of virtual time (seed {self.seed})"
        for expected in self.calls:
            expected.check()

    def _check_clock(self) -> None:
        """EpochClock of Failover.tla: what the proofs of the modes need of each epoch by itself."""
        here: dict[int, tuple[int, int, int]] = {}
        for rank, own in self.agents.items():
            agent = own.agent
            if isinstance(agent, AgentBase) and own.epoch == self.epoch:
                sent = agent.delivered + agent.outstanding
                here[rank] = (sent, agent.delivered, agent.params.window)
        for sent, mine, window in here.values():
            assert sent <= mine + window
            for other, theirs, _ in here.values():
                assert sent <= other + window, "EpochClock"
                assert sent <= theirs + 2 * window, "EpochClock"
