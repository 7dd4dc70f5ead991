"""Running jobs: each is a machine of phases, its groups' collectives are transfers of `rates`."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from epic_models.flowsim import draws, sharing
from epic_models.flowsim.config import Config
from epic_models.flowsim.groups import Flight, Group
from epic_models.flowsim.jobs import Job, Phase
from epic_models.flowsim.placing import FreeHosts, anywhere
from epic_models.flowsim.programs import alone
from epic_models.flowsim.rates import Rates
from epic_models.flowsim.running import JobEnd, Running
from epic_models.flowsim.sharing import Grant, Sharing
from epic_models.flowsim.topology import Index

# Times that are nearer to each other than this, in seconds, are one.
_AT_ONCE: Final = 1e-12


@dataclass(slots=True)
class Simulation:
    """All jobs of a configuration. `run` once; then `ends`, `rates.links` and `now` say what happened."""

    config: Config
    rates: Rates = field(init=False)
    now: float = 0.0
    events: int = 0
    path_changes: int = 0
    ends: list[JobEnd] = field(default_factory=list)
    unfinished: int = 0
    _sharing: Sharing | None = None
    _scratch: Rates = field(init=False)
    _timers: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    _order: Any = field(default_factory=itertools.count)
    _owners: dict[int, tuple[Running, Group]] = field(default_factory=dict)
    _groups: dict[str, tuple[Running, Group]] = field(default_factory=dict)
    _queue: deque[tuple[int, Job]] = field(default_factory=deque)
    _free: FreeHosts = field(init=False)
    _running: dict[int, Running] = field(default_factory=dict)
    _turn: float = math.inf

    def __post_init__(self) -> None:
        topology = self.config.topology
        self.rates = Rates(topology.rate)
        self._scratch = Rates(topology.rate)
        self._free = FreeHosts(topology.hosts)
        if self.config.limits is not None:
            self._sharing = sharing.maker(self.config.limits)(topology.network, self.config.limits)
        jobs = self.config.jobs()
        self.unfinished = len(jobs)
        for number, job in enumerate(jobs):
            self._at(job.start, self._arrive, number, job)

    def run(self, progress: Callable[[Simulation], None] | None = None) -> str:
        """To the end of all jobs ("done") or of the time ("time"). `progress` is called now and then."""
        for turn in itertools.count():
            due = min(self._timers[0][0] if self._timers else math.inf, self.rates.next_end)
            if due > self.config.time_limit:
                break
            self.now = max(due, self.now)
            for number in self.rates.take_ended(self.now):
                self.events += 1
                self._drained(*self._owners.pop(number))
            while self._timers and self._timers[0][0] <= self.now + _AT_ONCE:
                self.events += 1
                # Never before its time, not even by a rounding: it may ask whether it is due.
                time, _, what, about = heapq.heappop(self._timers)
                self.now = max(self.now, time)
                what(*about)
            self.rates.settle(self.now)
            if progress is not None and turn % 1024 == 0:
                progress(self)
        if self.unfinished:
            self.now = self.config.time_limit
            self._give_up()
        return "time" if self.unfinished else "done"

    def _at(self, time: float, what: Callable[..., None], *about: Any) -> None:
        heapq.heappush(self._timers, (time, next(self._order), what, about))

    # ---------------------------------------------------------------------------------------------------------- jobs

    def _arrive(self, number: int, job: Job) -> None:
        if job.exclusive:
            self._queue.append((number, job))
            self._admit()
        elif job.hosts is not None:
            self._begin(number, job, np.array(job.hosts, np.int32))
        else:
            salt = f"{self.config.seed}/{number}"
            self._begin(number, job, anywhere(self.config.topology.hosts, job.ranks, job.placement, salt))

    def _admit(self) -> None:
        """Jobs that wait for hosts begin in the order in which they came."""
        while self._queue:
            number, job = self._queue[0]
            hosts = self._free.take(job.ranks, job.placement, f"{self.config.seed}/{number}")
            if hosts is None:
                return
            self._queue.popleft()
            self._begin(number, job, hosts)

    def _begin(self, number: int, job: Job, hosts: Index) -> None:
        run = Running(job, number, hosts, self.now, self._make_groups(number, job, hosts), [])
        self._running[number] = run
        topology = self.config.topology
        groups = [group for row in run.groups.values() for group in row if group.mode is not None]
        trees = {group.name: group.own_trees(topology) for group in groups}
        if self._sharing is None:
            for group in groups:
                group.change(trees[group.name], self.rates)
        for k, phase in enumerate(job.phases):
            together = run.taking_part(phase)
            steps = [group.steps(topology, phase, trees.get(group.name)) for group in together]
            run.phase_alone.append(alone(topology, steps, self._scratch))
            if self._sharing is None or phase.mode is None:
                for group, made in zip(together, steps, strict=True):
                    group.adopt(k, phase, made, self.rates)
        if self._sharing is not None:
            for group in groups:
                self._join(self._sharing, run, group)
        self._compute(run, self.now)

    def _make_groups(self, number: int, job: Job, hosts: Index) -> dict[str, list[Group]]:
        """By what they are over. With limits each decides for itself; else those of a kind move in step, as one."""
        found: dict[str, list[Group]] = {}
        for over in dict.fromkeys(phase.over for phase in job.phases if phase.algorithm):
            mode = next((p.mode for p in job.phases if p.over == over and p.mode is not None), None)
            rows = job.groups(over)
            # The salts of a job's whole group are those of the packet-level simulator.
            parts = [""] if over == "all" else [f"/{over}{i}" for i in range(len(rows))]
            together = self._sharing is None and not self.config.apart
            bundles = [range(len(rows))] if together else [range(i, i + 1) for i in range(len(rows))]
            found[over] = [
                Group(
                    f"{job.name}{parts[bundle[0]]}", hosts[rows[bundle.start : bundle.stop]], mode, job.cut,
                    job.fallback, tuple(f"{self.config.seed}/{number}{parts[i]}" for i in bundle),
                    tuple(f"{number}{parts[i]}" for i in bundle),
                )
                for bundle in bundles if bundle
            ]  # fmt: skip
        return found

    def _compute(self, run: Running, now: float) -> None:
        """The phase at hand begins."""
        phase = run.job.phases[run.phase]
        wait = phase.compute
        if phase.straggle:
            step = run.iteration * len(run.job.phases) + run.phase
            u = draws.uniform(self.config.seed, run.number, step)
            wait += draws.slowest(phase.straggle_kind, phase.straggle, run.job.ranks, u)
        run.alone += wait + run.phase_alone[run.phase]
        self._at(now + wait, self._communicate, run)

    def _communicate(self, run: Running) -> None:
        phase = run.job.phases[run.phase]
        groups = run.taking_part(phase)
        run.open, run.phase_began = len(groups), self.now
        if not groups:
            self._next(run, self.now)
        for group in groups:
            self._fly(run, group, phase)

    def _next(self, run: Running, now: float) -> None:
        """A phase ends at `now`, which may be later than now: nothing else can happen to the job until then."""
        run.communicating += now - run.phase_began
        run.phase += 1
        if run.phase == len(run.job.phases):
            run.phase = 0
            run.iteration += 1
        if run.iteration == run.job.iterations:
            self._at(now, self._end, run)
        else:
            self._compute(run, now)

    def _end(self, run: Running) -> None:
        self.unfinished -= 1
        del self._running[run.number]
        self.ends.append(self._ended(run, self.now))
        for groups in run.groups.values():
            for group in groups:
                group.release(self.rates)
                if self._sharing is not None and group.mode is not None:
                    del self._groups[group.name]
                    self._sharing.leave(group.name, self.now)
        if self._sharing is not None:
            self._move()
        if run.job.exclusive:
            self._free.give(run.hosts)
            self._admit()

    def _ended(self, run: Running, end: float | None) -> JobEnd:
        groups = [group for row in run.groups.values() for group in row if group.mode is not None]
        return JobEnd(
            run.job, run.began, end, run.alone, run.communicating,
            sum(group.in_network for group in groups), sum(group.on_hosts for group in groups),
            len(groups), sum(not group.ever for group in groups),
        )  # fmt: skip

    def _give_up(self) -> None:
        """The time is over: what runs has ended nowhere."""
        for number in list(self._owners):
            self.rates.stop(number, self.now)
        self.ends += [self._ended(run, None) for run in self._running.values()]

    # ---------------------------------------------------------------------------------------------------- collectives

    def _fly(self, run: Running, group: Group, phase: Phase) -> None:
        """A group's collective begins, or waits until the group has changed its path."""
        program = group.program(self.config.topology, run.phase, phase, self.rates)
        group.flight = Flight(run.phase, phase, program, since=self.now)
        if group.still_until > self.now:
            self._at(group.still_until, self._resume, run, group, group.version)
        else:
            self._start(run, group, group.flight)

    def _start(self, run: Running, group: Group, flight: Flight) -> None:
        number, step = flight.program.numbers[flight.at], flight.program.steps[flight.at]
        flight.running = True
        self._owners[number] = (run, group)
        self.rates.start(number, step.volume * flight.share, self.now)

    def _drained(self, run: Running, group: Group) -> None:
        """The bytes of a step have left; it ends when they have come."""
        flight = group.flight
        assert flight is not None
        flight.running = False
        done = self.now + flight.program.steps[flight.at].latency
        if self._sharing is None and run.open == 1 and flight.at + 1 == len(flight.program.steps):
            self._landed(run, group, flight, done)
        else:
            self._at(done, self._arrived, run, group, group.version)

    def _arrived(self, run: Running, group: Group, version: int) -> None:
        flight = group.flight
        if version != group.version or flight is None:
            return
        flight.at += 1
        if flight.at < len(flight.program.steps):
            self._start(run, group, flight)
        else:
            self._landed(run, group, flight, self.now)

    def _landed(self, run: Running, group: Group, flight: Flight, now: float) -> None:
        """A group's collective ends at `now`."""
        group.count(flight.phase, now - flight.since)
        group.flight = None
        run.open -= 1
        if run.open == 0:
            self._next(run, now)

    # ------------------------------------------------------------------------------------------------------- sharing

    def _join(self, policy: Sharing, run: Running, group: Group) -> None:
        self._groups[group.name] = (run, group)
        group.change(_alone(policy.join(group.ask(), self.now)), self.rates)
        self._move()

    def _move(self) -> None:
        """Carry out what the policy says now, until it says nothing, and ask again when it wants to be."""
        assert self._sharing is not None
        while moves := self._sharing.moves(self.now):
            for move in moves:
                self._change(*self._groups[move.group], move.grant)
        turn = self._sharing.next_turn(self.now)
        if turn is not None and turn < self._turn:
            self._turn = turn
            self._at(turn, self._turned)

    def _turned(self) -> None:
        self._turn = math.inf
        self._move()

    def _change(self, run: Running, group: Group, grant: Grant | None) -> None:
        """A group changes its path: it stands still, then what is left of its collective goes the new way."""
        assert self.config.limits is not None
        self.path_changes += 1
        flight, left = group.flight, 0.0
        if flight is not None:
            of_step = 0.0
            if flight.running:
                number = flight.program.numbers[flight.at]
                del self._owners[number]
                of_step = self.rates.stop(number, self.now)
            elif group.still_until > self.now:
                # It has not begun again since it changed before.
                of_step = flight.share * flight.program.steps[flight.at].volume
            left = flight.left(of_step)
            group.count(flight.phase, self.now - flight.since)
        leaves = group.grants is not None and grant is None
        group.change(_alone(grant), self.rates)
        group.version += 1
        group.still_until = self.now + self.config.limits.change
        if flight is not None:
            program = group.program(self.config.topology, flight.number, flight.phase, self.rates)
            group.flight = Flight(flight.number, flight.phase, program, left, since=self.now)
            self._at(group.still_until, self._resume, run, group, group.version)
        if leaves:
            self._at(group.still_until, self._freed, group)

    def _resume(self, run: Running, group: Group, version: int) -> None:
        if version == group.version and group.flight is not None:
            self._start(run, group, group.flight)

    def _freed(self, group: Group) -> None:
        if self._sharing is not None and group.name in self._groups:
            self._sharing.freed(group.name, self.now)
            self._move()


def _alone(grant: Grant | None) -> tuple[Grant, ...] | None:
    """As a group that is one has it."""
    return None if grant is None else (grant,)
