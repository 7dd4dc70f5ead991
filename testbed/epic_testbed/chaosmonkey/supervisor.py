"""A chaos run from start to end: jobs over and over, the monkey, and a bound on every wait.

A job's processes: one for each member that the schedule kills, one for all others. A life of a job begins when its
group is created, and ends when every member has left it or is dead; then the next begins, until the time is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from epic_host.member import create_group
from epic_spec.errors import EpicError
from epic_testbed.chaosmonkey import leaks
from epic_testbed.chaosmonkey.cluster import Cluster
from epic_testbed.chaosmonkey.job import Job
from epic_testbed.chaosmonkey.monkey import Monkey, by_job
from epic_testbed.chaosmonkey.report import JobReport, Report
from epic_testbed.chaosmonkey.schedule import Action, Schedule
from epic_testbed.processes import Child

_TICK = 0.05
_LOAD_SECONDS = 120.0
_CREATE_SECONDS = 60.0
_BYE_SECONDS = 15.0
_EXPLAIN_SECONDS = 3.0
# Open files of a worker beyond those that it had when it was loaded: what gRPC keeps for good.
_FDS_MORE = 24


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `hang`: a job that does nothing for so long hangs; it is more than all deadlines of a rank together.

    `lease` and `deadline` are those of the groups, `patience` of the ranks; `settle` what freeing everything may take
    after the last job has left. `steps` of a life, and `think` between two.
    """

    lease: float = 10.0
    deadline: float = 20.0
    patience: float = 60.0
    hang: float = 150.0
    settle: float = 20.0
    steps: int = 40
    think: float = 1.0


@dataclass(slots=True)
class Processes:
    """A job's processes: `of` a member is the name of its."""

    names: dict[str, list[int]] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    fds: dict[str, int] = field(default_factory=dict)

    def of(self, member: int) -> str:
        """The name of the process that hosts a member."""
        return next(name for name, members in self.names.items() if member in members)


class Supervisor:
    """Runs a schedule on a cluster that is up. `note(text)` hears what goes on."""

    def __init__(
        self, cluster: Cluster, schedule: Schedule, limits: Limits, note: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self._limits = limits
        self._note = note
        kills = by_job(schedule)
        self._jobs = [
            Job(number, plan, kills[plan.name], JobReport(plan.name, plan.size))
            for number, plan in enumerate(schedule.jobs)
        ]
        self._processes = {job.plan.name: self._plan(job) for job in self._jobs}
        self._owner: dict[str, tuple[Job, str]] = {}
        self._creating: dict[str, Future[tuple[str, str]]] = {}
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="epic chaos create")
        self._began = 0.0
        self._byes: dict[str, dict[str, Any]] = {}
        self._explained: set[str] = set()
        self.monkey = Monkey(cluster, schedule, self._kill_rank)
        self.report = Report(schedule, [job.report for job in self._jobs])

    def run(self) -> Report:
        """All of it; the cluster is the caller's to close."""
        try:
            self._load()
            self._began = time.monotonic()
            self._chaos()
            self._stop_jobs()
            self._check_leaks()
            self.report.seconds = self._now()
        finally:
            self.report.done = sorted(self.monkey.done, key=lambda done: done.action.at)
            self._pool.shutdown(wait=False, cancel_futures=True)
        return self.report

    # ---------------------------------------------------------------------- phases

    def _load(self) -> None:
        """Start all workers, and wait until they have imported everything."""
        for job in self._jobs:
            for name in self._processes[job.plan.name].names:
                self._spawn(job, name)
        self.report.processes = len(self._cluster.now)
        self._note(f"{self.report.processes} processes start")
        until = time.monotonic() + _LOAD_SECONDS
        while not all(set(own.names) <= own.loaded for own in self._processes.values()):
            if time.monotonic() > until:
                raise EpicError(f"chaos: workers not loaded within {_LOAD_SECONDS:g} s")
            self._lines()

    def _chaos(self) -> None:
        """Until the time is over."""
        told = 0.0
        while (now := self._now()) < self._schedule.seconds:
            self._turn()
            if now - told >= 10.0:
                told = now
                steps = sum(job.report.steps for job in self._jobs)
                running = sum(job.state == "running" for job in self._jobs)
                self._note(f"{now:.0f} s: {len(self.monkey.done)} actions, {steps} steps, {running} jobs run")

    def _stop_jobs(self) -> None:
        """Everything is brought back, then every job ends after its current step."""
        self.monkey.finish(self._now())
        for job in self._jobs:
            job.stopping = True
            if job.state == "idle":
                job.state = "over"
        asked = -10.0
        while not all(job.state == "over" for job in self._jobs):
            if self._now() - asked >= 1.0:
                # Again and again: a life that was only being created has not heard it.
                asked = self._now()
                self._tell_all({"do": "stop"})
            self._turn()
        self._note(f"all jobs have left, {self._now():.0f} s")

    def _check_leaks(self) -> None:
        cluster, found = self._cluster, self.report.leaks
        found += leaks.settled(
            lambda: leaks.resources(cluster) + leaks.rank_sockets(cluster), self._limits.settle
        )
        self._note(f"asked for what is left: {len(found)} found, {self._now():.0f} s")
        self._tell_all({"do": "quit"})
        until = time.monotonic() + _BYE_SECONDS
        living = {name for own in self._processes.values() for name in own.loaded}
        while living - set(self._byes) and time.monotonic() < until:
            self._lines()
        for name in sorted(living):
            bye = self._byes.get(name)
            job, _ = self._owner[self._cluster.now[name].node] if name in self._cluster.now else (None, "")
            if bye is None:
                found.append(f"worker {name} did not end within {_BYE_SECONDS:g} s")
                continue
            assert job is not None
            more = bye["fds"] - self._processes[job.plan.name].fds[name]
            if bye["threads"]:
                found.append(f"worker {name} still has threads {', '.join(bye['threads'])}")
            if more > _FDS_MORE:
                found.append(f"worker {name} has {more} open files more than at its start")

    # ---------------------------------------------------------------------- one turn

    def _turn(self) -> None:
        self.monkey.step(self._now())
        for job in self._jobs:
            if job.state == "idle":
                self._begin(job)
            elif job.state == "creating":
                self._created(job)
            self._check_hang(job)
        self._lines()

    def _lines(self) -> None:
        for child, line in self._cluster.children.wait(_TICK):
            owner = self._owner.get(child.node)
            if owner is None:
                if line is not None:
                    self._cluster.hear(child, line)
                elif self._cluster.now.get(child.node.rpartition(".")[0]) is child:
                    self._fail(f"{child.node} ended by itself: {child.complaint()}")
                continue
            job, name = owner
            if line is None:
                self._ended(job, name, child)
            elif self._processes[job.plan.name].children.get(name) is child:
                # What a killed process still said before is of no interest any more.
                self._take(job, name, json.loads(line))

    def _take(self, job: Job, name: str, line: dict[str, Any]) -> None:
        own = self._processes[job.plan.name]
        if line["event"] == "loaded":
            own.loaded.add(name)
            own.fds[name] = line["fds"]
        elif line["event"] == "bye":
            self._byes[name] = line
        else:
            failures = job.take(self._cluster.now[name].node, line, self._now())
            for failure in failures:
                self._fail(failure)
            if failures:
                self._explain(job)

    def _explain(self, job: Job) -> None:
        """Note, once a life, what the manager says about a group that failed."""
        name = f"{job.plan.name}.{job.life}"
        if name in self._explained:
            return
        self._explained.add(name)
        try:
            with self._cluster.client(_EXPLAIN_SECONDS) as client:
                found = client.explain(group=name)
        except EpicError as error:
            self._note(f"{name}: not explained: {error}")
            return
        group = found.group
        self._note(f"{name}: {group.state}, epoch {group.epoch}, path {group.path}: {group.text}")
        for member in group.members:
            self._note(
                f"  rank {member.rank}: {member.state}, epoch {member.epoch}, silent {member.silent:.1f} s"
            )
        for decision in found.decisions:
            self._note(f"  epoch {decision.epoch}: {decision.path} ({decision.reason}): {decision.text}")
        for line in found.waits_for:
            self._note(f"  waits for {line}")

    def _ended(self, job: Job, name: str, child: Child) -> None:
        own = self._processes[job.plan.name]
        if own.children.get(name) is not child or name in self._byes:
            return
        own.loaded.discard(name)
        del own.children[name]
        for failure in job.died(own.names[name], child.complaint()):
            self._fail(failure)

    def _begin(self, job: Job) -> None:
        """A new life, when the processes of all members are there."""
        own = self._processes[job.plan.name]
        for name in own.names:
            if name not in own.children:
                self._spawn(job, name)
        if not set(own.names) <= own.loaded:
            return
        job.begin(self._now())
        limits = self._limits
        self._creating[job.plan.name] = self._pool.submit(
            create_group,
            self._cluster.manager,
            hosts=list(job.plan.hosts),
            name=f"{job.plan.name}.{job.life}",
            timeout=_CREATE_SECONDS,
            lease=limits.lease,
            deadline=limits.deadline,
        )

    def _created(self, job: Job) -> None:
        future = self._creating[job.plan.name]
        if not future.done():
            return
        del self._creating[job.plan.name]
        job.state = "running"
        try:
            group, token = future.result()
        except EpicError as error:
            self._fail(f"{job.plan.name}: no group in life {job.life}: {type(error).__name__}: {error}")
            job.here.clear()
            job.state = "over" if job.stopping else "idle"
            return
        own = self._processes[job.plan.name]
        for name, members in own.names.items():
            if name in own.children:
                own.children[name].tell(json.dumps(job.order(group, token, members)))

    def _check_hang(self, job: Job) -> None:
        silent = self._now() - job.moved
        if job.state not in ("creating", "running") or silent <= self._limits.hang:
            return
        own = self._processes[job.plan.name]
        self._fail(
            f"{job.plan.name}: hangs, nothing for {silent:.0f} s in state {job.state}, life {job.life}; "
            f"members {sorted(job.here)} have not ended, {sorted(job.killed)} were killed"
        )
        for child in own.children.values():
            # The stacks go into its log first.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR1)
        time.sleep(0.5)
        for name in list(own.children):
            child = own.children.pop(name)
            own.loaded.discard(name)
            self._cluster.kill(name)
            self._note(f"{child.node}: {child.stderr_path.read_text(errors='replace')[-6000:]}")
        job.here.clear()
        job.state = "over" if job.stopping else "idle"

    def _kill_rank(self, action: Action) -> bool:
        job = next(job for job in self._jobs if job.plan.name == action.job)
        own = self._processes[action.job]
        if not job.may_kill(action.member):
            return False
        name = own.of(action.member)
        own.children.pop(name)
        own.loaded.discard(name)
        self._cluster.kill(name)
        job.kill(action, self._now())
        return True

    # ---------------------------------------------------------------------- processes

    def _plan(self, job: Job) -> Processes:
        victims = self._schedule.victims(job.plan.name)
        names = {f"{job.plan.name}-{member}": [member] for member in victims}
        if others := [member for member in range(job.plan.size) if member not in victims]:
            names[job.plan.name] = others
        return Processes(names)

    def _spawn(self, job: Job, name: str) -> None:
        limits, own = self._limits, self._processes[job.plan.name]
        config = {
            "job": job.number,
            "seed": self._schedule.seed,
            "manager": self._cluster.manager,
            "hosts": list(job.plan.hosts),
            "steps": limits.steps,
            "think": limits.think,
            "patience": limits.patience,
        }
        path = self._cluster.run.path / f"{name}.json"
        path.write_text(json.dumps(config))
        child = self._cluster.spawn(name, "chaos", path)
        own.children[name] = child
        self._owner[child.node] = (job, name)

    def _tell_all(self, order: dict[str, Any]) -> None:
        for own in self._processes.values():
            for child in own.children.values():
                child.tell(json.dumps(order))

    def _fail(self, text: str) -> None:
        self.report.failures.append(f"{self._now():.1f} s: {text}")
        self._note(f"failure: {text}")

    def _now(self) -> float:
        return time.monotonic() - self._began if self._began else 0.0
