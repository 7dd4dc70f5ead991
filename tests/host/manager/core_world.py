"""Worlds for the manager's core in virtual time: engines, members, and calls that are lost, late and carried out twice.

A world checks the invariants of tla/Manager.tla and tla/Failover.tla after everything that happens.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from epic_host.control.fence import (
    AlreadyInstalledError,
    Fence,
    FencedError,
    Installed,
    NotInstalledError,
    OtherInstanceError,
)
from epic_host.fabric import builders
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity
from epic_host.fabric.topology import EngineNode, Fabric, HostNode
from epic_host.grants import Grant
from epic_host.manager.core import Core, Joined
from epic_host.manager.effects import (
    Answered,
    CallDone,
    CallFailed,
    Decided,
    Ended,
    EngineCall,
    Event,
    Granted,
    Lost,
    Outcome,
    Prepare,
)
from epic_host.manager.errors import RefusedError
from epic_host.manager.leases import Beat
from epic_host.manager.placing import qpns_of
from epic_host.manager.records import ACTIVE, ENDED, INSTALLED
from epic_host.manager.settings import Settings
from epic_host.manager.store import Store
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.errors import ConfigError, EpicError, ResourceError

WINDOW = 64
OFFER = EngineCapabilities(mode=3, window=WINDOW, slots=2 * WINDOW, payload_bytes=1024, groups=8)
# Slot bytes of a group with that window.
SHARE = 2 * WINDOW * 1024


class Violation(AssertionError):
    """A world found an invariant broken."""


class Crash(BaseException):
    """The manager was killed here."""


def make_fabric(shape: str = "single", *, hosts: int = 3, shares: int = 2, pool: int = 8) -> Fabric:
    """A fabric whose engines have room for `shares` groups each."""

    def engine(name: str) -> EngineNode:
        number = int(name[1:]) + (100 if name.startswith("p") else 0)
        capacity = Capacity(slot_bytes=shares * SHARE)
        return EngineNode(name, f"unix:/{name}", f"127.20.0.{number + 1}", capacity=capacity)

    def host(name: str) -> HostNode:
        number = int(name[1:]) + 1
        return HostNode(name, ",".join(f"127.20.{number}.{i + 1}" for i in range(pool)))

    if shape == "single":
        return builders.single(hosts, host=host, engine=engine)
    if shape == "tree":
        return builders.tree((2, hosts), host=host, engine=engine)
    return builders.spine_leaf(2, 2, hosts, host=host, engine=engine)


def request(*hosts: str, name: str = "g", **values: Any) -> GroupRequest:
    """A request for a group."""
    return GroupRequest(name, hosts, **{"lease": 3.0, "deadline": 2.0, "payload_bytes": 1024} | values)


class SimEngine:
    """An engine behind the real fence; `start` again is a crash that loses everything."""

    def __init__(self, name: str, offer: EngineCapabilities) -> None:
        self.name = name
        self.offer = offer
        self.starts = 0
        self.up = False
        self.hung = False
        self.failed_edges: tuple[str, ...] = ()
        # What `status` says of slots: cell -> bitmap.
        self.slots: dict[int, int] = {}
        self.refuses: type[EpicError] | None = None
        self.start()

    def start(self) -> None:
        """A new process."""
        self.starts += 1
        self._engine = Mode3Engine(self.offer)
        self.fence = Fence(self, make_instance=lambda: f"{self.name}.{self.starts}")
        self.up = True

    # What the fence needs.

    def groups(self) -> tuple[int, ...]:
        return self._engine.groups()

    def install(self, entry: EngineGroup) -> None:
        if self.refuses is not None:
            raise self.refuses(f"group {entry.params.group}: refused for the test")
        self._engine.install(entry, 0.0)

    def remove(self, group: int) -> None:
        self._engine.remove(group)

    def status(self, group: int) -> GroupStatus:
        found = self._engine.status(group)
        slots = tuple(SlotStatus(cell, bitmap, False) for cell, bitmap in self.slots.items())
        return GroupStatus(group, found.epoch, slots, self.failed_edges)

    def entries(self) -> dict[tuple[int, int], int]:
        """Slot bytes of what is installed, by (group, epoch)."""
        machines = self._engine._groups.values()
        return {(m.params.group, m.params.epoch): m.params.slots * m.params.payload_bytes for m in machines}

    def carry(self, call: EngineCall) -> Outcome:
        """Carry a call out, as the control service does."""
        words = {
            AlreadyInstalledError: "already_installed",
            NotInstalledError: "not_installed",
            FencedError: "fenced",
            OtherInstanceError: "other_instance",
            ConfigError: "invalid",
            ResourceError: "no_resource",
        }
        try:
            if call.kind == "install":
                assert call.entry is not None
                assert (call.entry.params.group, call.entry.params.epoch) == (call.number, call.epoch)
                self.fence.install(call.entry, call.instance)
                return CallDone(self.fence.instance)
            if call.kind == "remove":
                self.fence.remove(call.number, call.epoch)
                return CallDone(self.fence.instance)
            if call.kind == "installed":
                entries = tuple(self.fence.installed())
                return CallDone(Installed(self.name, "sim", self.fence.instance, entries, self.fence.highest))
            if call.kind == "capabilities":
                return CallDone(self.offer)
            return CallDone(self.status(call.number))
        except EpicError as error:
            word = next(word for kind, word in words.items() if isinstance(error, kind))
            return CallFailed(word, str(error))


@dataclass
class Faults:
    """Probabilities, and seconds."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    delay: float = 0.005
    lateness: float = 4.0


@dataclass
class SimMember:
    """A rank's process: it joins, beats, reports and goes on with what it is granted."""

    group: str
    rank: int
    join_token: str
    incarnation: str
    alive: bool = True
    leaving: bool = False
    joined: Joined | None = None
    lease_until: float = float("-inf")
    epoch: int = 0
    preparing: int = 0
    grant: Grant | None = None
    delivered: int = 0
    contributed: int = 0
    lost: tuple[int, ...] = ()
    ended: str = ""
    refused: str = ""
    history: list[Grant] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.alive and not self.ended and not self.lost and not self.refused

    def hear(self, event: Event) -> None:
        """What comes over its stream, in any order and perhaps more than once."""
        if isinstance(event, Prepare) and event.epoch > max(self.epoch, self.preparing):
            self.preparing, self.grant = event.epoch, None
        elif isinstance(event, Granted) and event.grant.epoch > self.epoch:
            if event.grant.epoch < self.preparing:
                return
            self.epoch, self.grant = event.grant.epoch, event.grant
            self.preparing = 0
            if not event.grant.resume <= self.delivered <= event.grant.resume + WINDOW:
                raise Violation(
                    f"rank {self.rank} of {self.group}: resume {event.grant.resume}, delivered {self.delivered}"
                )
            self.contributed = max(self.contributed, event.grant.resume)
            self.history.append(event.grant)
        elif isinstance(event, Lost) and self.rank not in event.ranks:
            self.lost = tuple(sorted({*self.lost, *event.ranks}))
        elif isinstance(event, Ended):
            self.ended = event.reason


class CrashingStore(Store):
    """A store whose owner is killed before or after its n-th transaction."""

    crash_at = -1
    after = False
    writes = 0

    def write(self, puts: Any, drops: Any) -> None:
        self.writes += 1
        now = self.writes == self.crash_at
        if now and not self.after:
            raise Crash
        super().write(puts, drops)
        if now:
            raise Crash


class World:
    """Everything, with a clock of its own; `run` lets time pass."""

    def __init__(
        self,
        fabric: Fabric | None = None,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        settings: Settings | None = None,
        offer: EngineCapabilities = OFFER,
        policy: str = "best_effort",
        placement: str = "heuristic",
        store: Store | None = None,
    ) -> None:
        self.fabric = fabric or make_fabric()
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.settings = settings or Settings()
        self.policy = policy
        self.placement = placement
        self.now = 0.0
        self.engines = {name: SimEngine(name, offer) for name in self.fabric.engines}
        self.members: dict[tuple[str, int, str], SimMember] = {}
        self.decisions: list[Any] = []
        self.answers: dict[int, Any] = {}
        self.events: list[Event] = []
        self.crashes = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._incarnations = itertools.count()
        self._life = 0
        # (n, what is done before the n-th event of this world); None when it has been.
        self.watchdog: tuple[int, Callable[[], None]] | None = None
        self._happened = 0
        # Sees each call before it is on its way; True: it takes care of it.
        self.on_call: Callable[[EngineCall], bool] | None = None
        self.store: Store = store or CrashingStore()
        self.core: Core | None = None
        self.start_manager()

    # ------------------------------------------------------------------------------------------- manager

    def start_manager(self) -> None:
        """Start, or start again on what the store has."""
        self._life += 1
        try:
            self.core = Core(
                self.fabric,
                self.store,
                self.policy,
                placement=self.placement,
                seed=b"seed",
                now=self.now,
                unix=1.7e9,
                settings=self.settings,
            )
        except Crash:
            self._killed()
            return
        self._after()

    def kill_manager(self, down: float = 0.2) -> None:
        """kill -9, and start again after a while on a copy of the database as it was."""
        if self.core is not None:
            # What had left is on its way.
            for call in self.core.take_calls():
                self._send(call)
        self.core = None
        self.crashes += 1
        self._life += 1
        made = CrashingStore.of_snapshot(self.store.snapshot())
        self.store.close()
        self.store = made
        self.at(down, self.start_manager)

    def _killed(self) -> None:
        self.kill_manager()

    def ask(self, work: Callable[[Core], Any]) -> Any:
        """Something asked of the manager now; None when it is not there, or is killed by it."""
        if self.core is None:
            return None
        try:
            answer = work(self.core)
        except Crash:
            self._killed()
            return None
        self._after()
        return answer

    def _after(self) -> None:
        core = self.core
        assert core is not None
        self.check()
        for call in core.take_calls():
            self._send(call)
        for event in core.take_events():
            self.events.append(event)
            self._tell(event)

    def _tell(self, event: Event) -> None:
        if isinstance(event, Decided):
            self.decisions.append(event.decision)
            return
        if isinstance(event, Answered):
            self.answers[event.ticket] = event.verdict
            return
        for member in list(self.members.values()):
            if member.group == event.group and self.rng.random() >= self.faults.lost:
                self.at(self._delay(), lambda member=member: self._hear(member, event))  # type: ignore[misc]

    def _hear(self, member: SimMember, event: Event) -> None:
        if member.alive:
            member.hear(event)
            self._report(member)

    # ------------------------------------------------------------------------------------------- calls

    def _delay(self) -> float:
        return self.faults.delay * (0.5 + self.rng.random())

    def _send(self, call: EngineCall) -> None:
        if self.on_call is not None and self.on_call(call):
            return
        for _ in range(2 if self.rng.random() < self.faults.twice else 1):
            if self.rng.random() < self.faults.lost:
                continue
            delay = self._delay()
            if self.rng.random() < self.faults.late:
                delay += self.rng.random() * self.faults.lateness
            self.at(delay, lambda life=self._life: self._arrive(call, life))  # type: ignore[misc]

    def _arrive(self, call: EngineCall, life: int) -> None:
        engine = self.engines[call.engine]
        if engine.hung:
            return
        outcome = engine.carry(call) if engine.up else CallFailed("unreachable", "connection refused")
        self.check()
        if self.rng.random() >= self.faults.lost:
            self.at(self._delay(), lambda: self._answer(call, outcome, life))

    def _answer(self, call: EngineCall, outcome: Outcome, life: int) -> None:
        if life == self._life:
            self.ask(lambda core: core.engine_done(call, outcome, self.now))

    def crash_engine(self, name: str, down: float = 0.5) -> None:
        """An engine's process ends and starts again."""
        engine = self.engines[name]
        engine.up = False
        engine._engine = Mode3Engine(engine.offer)
        if down >= 0:
            self.at(down, engine.start)

    # ----------------------------------------------------------------------------------------- members

    def create(self, what: GroupRequest, job: str = "", request_id: str = "") -> tuple[str, str] | None:
        """Create a group; asked again until the manager answers."""
        if not request_id:
            request_id = f"request {next(self._incarnations)}"
        for _ in range(200):
            answer = self.ask(
                lambda core: core.create_group(what, job=job, request_id=request_id, now=self.now)
            )
            if answer is not None:
                return answer  # type: ignore[no-any-return]
            self.run(0.1)
        raise Violation("the manager does not come back")

    def spawn(self, group: str, rank: int, join_token: str) -> SimMember:
        """A process that joins as a rank."""
        made = SimMember(group, rank, join_token, f"process {next(self._incarnations)}")
        self.members[group, rank, made.incarnation] = made
        self.at(self._delay(), lambda: self._live(made))
        return made

    def start_group(self, *hosts: str, **values: Any) -> list[SimMember]:
        """A group and processes for all its ranks."""
        made = self.create(request(*hosts, **values))
        assert made is not None
        name, token = made
        return [self.spawn(name, rank, token) for rank in range(len(hosts))]

    def _live(self, member: SimMember) -> None:
        """What a process does again and again."""
        if not member.running:
            return
        if self.core is None:
            self.at(0.1, lambda: self._live(member))
            return
        if member.joined is None:
            self._join(member)
        else:
            self._beat(member)
        if member.running:
            pause = 0.1 if member.joined is None else member.joined.lease / 3
            self.at(pause, lambda: self._live(member))

    def _refusable(self, member: SimMember, work: Callable[[Core], Any]) -> Any:
        try:
            return self.ask(work)
        except RefusedError as error:
            if error.reason not in ("epoch", "exists"):
                member.refused = str(error)
            return None

    def _join(self, member: SimMember) -> None:
        sent = self.now
        joined = self._refusable(
            member,
            lambda core: core.join(
                member.group, member.rank, member.join_token, member.incarnation, now=self.now
            ),
        )
        if joined is not None:
            member.joined, member.lease_until = joined, sent + joined.lease
            self.check()

    def _beat(self, member: SimMember) -> None:
        assert member.joined is not None
        token, sent = member.joined.token, self.now
        self._progress(member)
        beat = Beat(member.group, member.rank, token, member.epoch, member.delivered, member.contributed)
        answer = self.ask(lambda core: core.heartbeat("", [beat], now=self.now))
        if answer is None:
            return
        if any(notice.what == "gone" for notice in answer.notices):
            member.refused = member.refused or "gone"
        elif self.rng.random() >= self.faults.lost:
            member.lease_until = sent + member.joined.lease
        # Its stream may have been cut: what is true now.
        for event in (
            self._refusable(member, lambda core: core.watch(member.group, member.rank, token, now=self.now))
            or []
        ):
            member.hear(event)
        self._report(member)
        self.check()

    def _report(self, member: SimMember) -> None:
        if member.preparing and member.joined is not None and member.running:
            token = member.joined.token
            self._refusable(
                member,
                lambda core: core.report_epoch(
                    member.group, member.rank, token, member.preparing, member.delivered, now=self.now
                ),
            )

    def report_fault(self, member: SimMember, edge: str = "", what: str = "stalled") -> Any:
        """It sees an edge in error, or no result in time."""
        assert member.joined is not None
        token = member.joined.token
        return self._refusable(
            member,
            lambda core: core.report_fault(
                member.group, member.rank, token, member.epoch, member.delivered, edge, what, now=self.now
            ),
        )

    def peers(self, member: SimMember) -> list[SimMember]:
        """The processes of its group that were joined."""
        return [m for m in self.members.values() if m.group == member.group and m.joined is not None]

    def _progress(self, member: SimMember) -> None:
        """Contribute a few cells, deliver those that all ranks of the epoch have contributed."""
        if member.grant is None or not self._path_works(member.grant):
            return
        room = member.delivered + WINDOW - member.contributed
        member.contributed += self.rng.randint(0, max(0, min(room, 20)))
        peers = [m for m in self.peers(member) if m.alive]
        if len(peers) == self.size(member) and all(m.epoch == member.epoch and m.grant for m in peers):
            complete = min(m.contributed for m in peers)
            if complete > member.delivered:
                member.delivered += self.rng.randint(0, complete - member.delivered)

    def size(self, member: SimMember) -> int:
        """World size of its group."""
        assert member.joined is not None
        return member.joined.world_size

    def _path_works(self, grant: Grant) -> bool:
        return all(
            (tree.params.group, tree.params.epoch) in self.engines[engine].entries()
            for tree in grant.trees
            for engine in tree.engines
        )

    def leave(self, member: SimMember) -> None:
        """It is done."""
        assert member.joined is not None
        token, member.leaving = member.joined.token, True
        self._refusable(member, lambda core: core.leave(member.group, member.rank, token, now=self.now))
        if self.core is not None:
            member.alive = False
        else:
            self.at(0.1, lambda: self.leave(member))

    # -------------------------------------------------------------------------------------------- time

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._queue, (self.now + delay, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            due = self.core.next_deadline() if self.core is not None else None
            head = self._queue[0][0] if self._queue else float("inf")
            nearest = min(head, due if due is not None else float("inf"))
            if nearest > end:
                break
            self.now = max(self.now, nearest)
            if self.watchdog is not None and self._happened >= self.watchdog[0]:
                _, act = self.watchdog
                self.watchdog = None
                act()
                continue
            self._happened += 1
            if head <= self.now:
                heapq.heappop(self._queue)[2]()
            else:
                self.ask(lambda core: core.poll(self.now))
        self.now = end

    def until(self, condition: Callable[[], bool], within: float, what: str) -> float:
        """Let time pass until something is so; how long it took."""
        begin = self.now
        while not condition():
            if self.now - begin > within:
                raise Violation(f"{what}: not within {within:g} s")
            self.run(0.05)
        return self.now - begin

    # -------------------------------------------------------------------------------------- invariants

    @property
    def book(self) -> Any:
        """The manager's book."""
        assert self.core is not None
        return self.core._state.book

    def group(self, name: str) -> Any:
        """A group's record."""
        return self.book.group(name)

    def check(self) -> None:
        """The invariants; names are those of the TLA+ modules."""
        if self.core is None:
            return
        book = self.book
        for name, engine in self.engines.items():
            installs = book.of_engine(name)
            whole = self.fabric.engines[name].capacity.slot_bytes
            taken = sum(install.demand.slot_bytes for install in installs)
            if taken > whole:
                raise Violation(f"NotTwice: engine {name}: {taken} bytes given away of {whole}")
            entries = engine.entries()
            if sum(entries.values()) > whole:
                raise Violation(f"NotInstalledTwice: engine {name}: {entries} of {whole}")
            known = {(i.number, i.epoch): i.demand.slot_bytes for i in installs}
            for entry, size in entries.items():
                if known.get(entry) != size:
                    raise Violation(f"FreeIsFree: engine {name} has {entry}, the store {known}")
        self._check_members()
        self._check_addresses()

    def _check_members(self) -> None:
        book = self.book
        by_epoch: dict[tuple[str, int], Grant] = {}
        for member in self.members.values():
            if not member.running or member.joined is None:
                continue
            group = book.group(member.group)
            if member.lease_until > self.now:
                pulse = self.core._state.leases.members.get((member.group, member.rank))  # type: ignore[union-attr]
                record = book.members(member.group).get(member.rank)
                mine = group is not None and group.state != ENDED and record.incarnation == member.incarnation
                mine = mine and not member.leaving
                if mine and (pulse is None or pulse.until < member.lease_until):
                    raise Violation(f"LeaseOrder: {member.group} rank {member.rank}")
            if member.grant is None:
                continue
            grant = by_epoch.setdefault((member.group, member.epoch), member.grant)
            if grant != member.grant:
                raise Violation(f"one path: {member.group} epoch {member.epoch}: two grants")
            if group is None or group.epoch != member.epoch or group.state != ACTIVE:
                continue
            for install in book.wanted(member.group):
                engine = self.engines[install.engine]
                if engine.fence.instance != install.instance or not engine.up:
                    continue
                if install.step != INSTALLED or (install.number, install.epoch) not in engine.entries():
                    raise Violation(f"HolderHas: {member.group} epoch {member.epoch} at {install.engine}")

    def _check_addresses(self) -> None:
        seen: dict[str, tuple[str, int]] = {}
        for group in self.book.groups.values():
            for member in self.book.members(group.name).values():
                if member.address:
                    if member.address in seen:
                        raise Violation(f"address {member.address}: {seen[member.address]} and {member.key}")
                    seen[member.address] = member.key
        for member in self.members.values():
            # A process that thinks its lease lasts still has its address for itself.
            if member.running and member.joined is not None and member.lease_until > self.now:
                owner = seen.get(member.joined.address)
                if owner not in (None, (member.group, member.rank)):
                    raise Violation(f"address {member.joined.address} of {member.group} given to {owner}")

    def check_nothing_left(self) -> None:
        """When all groups have ended: no slot, no entry, no address, no call."""
        book, state = self.book, self.core._state  # type: ignore[union-attr]
        left = {
            "installs": [i.key for i in book.installs.values()],
            "entries": [e.entries() for e in self.engines.values() if e.entries()],
            "grants": [g.name for g in book.groups.values() if book.granting(g.name)],
            "addresses": [
                m.key for g in book.groups.values() for m in book.members(g.name).values() if m.address
            ],
            "quarantine": list(book.quarantine),
            "seen": list(state.seen),
            "strays": list(state.strays),
        }
        if any(left.values()):
            raise Violation(f"left behind: { {k: v for k, v in left.items() if v} }")
        for name in self.engines:
            if state.placing.usage.used(name).slot_bytes:
                raise Violation(f"usage of {name}: {state.placing.usage.used(name)}")


def distinct_qpns(history: list[Grant]) -> bool:
    """Whether no epoch has a QPN of the one before (EPIC-F-05)."""
    plans = [[*grant.trees] or [grant.host] for grant in history]
    sets = [set().union(*(qpns_of(plan) for plan in epoch if plan is not None)) for epoch in plans]
    return all(one.isdisjoint(other) for one, other in itertools.pairwise(sets))
