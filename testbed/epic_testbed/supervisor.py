"""One run of collectives from start to end:
ranks as processes, their reports, chaos, and a deadline on every wait.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from epic_models.reference.group import GroupParams
from epic_testbed.cases import Case
from epic_testbed.chaos import Chaos, Kill
from epic_testbed.options import Setup
from epic_testbed.processes import Child
from epic_testbed.report import FAULTS, Epoch, Failure, Report, Row
from epic_testbed.session import Session

# After a rank or switch is gone the others have the group's deadline to say so, and this much to do it in.
GRACE_SECONDS = 5.0
# A rank whose process says nothing at all, not even that it is alive, is taken for hung after this.
SILENCE_SECONDS = 60.0
_TICK = 0.1
# The file in a run's directory that tells ranks how to join.
_ACCESS = "access.json"


class Display(Protocol):
    """Who watches a run."""

    def phase(self, text: str) -> None:
        """What is going on now, until the collectives begin."""

    def begin(self, report: Report) -> None:
        """The collectives begin."""

    def row(self, row: Row) -> None:
        """Every rank has finished a case."""

    def progress(self, done: int, total: int, row: Row) -> None:
        """Reports of single iterations so far, of how many, and the case that runs."""

    def failure(self, failure: Failure) -> None:
        """A node has failed."""

    def epoch(self, epoch: Epoch) -> None:
        """The group has a path, its first or another one."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the ranks are to do."""

    cases: Sequence[Case]
    iterations: int
    reproducible: bool = False
    back_to_back: bool = False
    chaos: Chaos = field(default_factory=Chaos)


class Supervisor:
    """Runs `work` on a Session that it brings up; `run` gives the Report."""

    def __init__(self, session: Session, work: Work, display: Display) -> None:
        self._session = session
        self._setup: Setup = session.setup
        self._work = work
        self._display = display
        self._ranks: dict[int, Child] = {}
        self._heard: dict[int, float] = {}
        self._running: set[int] = set()
        self._begun = 0.0
        self._kills: list[Kill] = list(work.chaos.kills)
        self._first_kill: float | None = None
        self._give_up: float | None = None
        self._gone: set[str] = set()
        self.report = Report.empty(self._setup, work.cases, work.iterations, work.reproducible)
        self.report.managed = session.managing is not None

    def run(self) -> Report:
        """Bring everything up, run the cases, collect.

        Raises StartError, ConfigError; the caller closes the session.
        """
        begin = time.monotonic()
        self._bring_up()
        self._begun = time.monotonic()
        self._session.note("phase", "collectives")
        self._display.begin(self.report)
        for rank, child in self._ranks.items():
            child.tell("go")
            self._heard[rank] = self._begun
        # A silent rank has nothing to finish.
        self._running = set(self._ranks) - self._work.chaos.silent
        while self._running:
            self._step()
        self._collect()
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _bring_up(self) -> None:
        session, display = self._session, self._display
        managed = session.managing is not None
        display.phase(f"starting {len(self._setup.plan.switches)} switches and {self._setup.ranks} ranks")
        session.start()
        if not managed:
            session.write("group.json", session.group.to_dict())
        for rank in range(self._setup.ranks):
            path = session.write(f"r{rank}.json", self._rank_file(rank))
            namespace = session.namespace_of(self._setup.plan.hosts[rank])
            self._ranks[rank] = session.children.spawn(f"r{rank}", "rank", path, namespace)
        session.record()
        children = list(self._ranks.values())
        others = (
            list(session.switches.values())
            if session.manager is None
            else [session.manager, *session.switches.values()]
        )
        self._await([*others, *children], ("ready", "loaded"), "process")
        if managed:
            display.phase("creating the group")
            session.write(_ACCESS, session.create_group(self._work.reproducible).to_dict())
        else:
            display.phase("installing the group")
            session.install()
        for child in children:
            child.tell("open")
        self._await(children, ("ready",), "rank")

    def _await(self, children: list[Child], events: tuple[str, ...], what: str) -> None:
        def is_ready(line: str) -> bool:
            # A switch says `ready`, a rank a JSON object.
            if not line.startswith("{"):
                return line.strip() == "ready"
            said = json.loads(line)
            if "params" in said:
                self.report.agreed(GroupParams.from_dict(said["params"]))
            return said["event"] in events

        self._session.await_ready(children, is_ready, what)

    def _rank_file(self, rank: int) -> dict[str, Any]:
        session, directory = self._session, self._session.run.path
        file: dict[str, Any] = {
            "rank": rank,
            "levels": self._setup.plan.tree.depth(),
            "cases": [case.to_dict() for case in self._work.cases],
            "iterations": self._work.iterations,
            "seed": self._setup.seed,
            "reproducible": self._work.reproducible,
            "back_to_back": self._work.back_to_back,
            "silent": rank in self._work.chaos.silent,
            "trace": session.trace_of(rank),
            "datapath": self._setup.datapath,
        }
        if session.managing is None:
            return file | {"group": str(directory / "group.json"), "transport": session.transport_of(rank)}
        file |= {"access": str(directory / _ACCESS), "transport": session.own_transport_of(rank)}
        if self._setup.transport == "netns":
            # Its hosts reach each other by switches only: where a switch is lost, no other path will come.
            file["patience"] = self._setup.params.deadline_us * 1e-6
        return file

    def _step(self) -> None:
        """Wait a little for lines, take what came, and look at the clocks."""
        now = time.monotonic()
        while self._kills and now >= self._begun + self._kills[0].after:
            self._kill(self._kills.pop(0))
        wait = _TICK if not self._kills else min(_TICK, max(0.0, self._begun + self._kills[0].after - now))
        for child, line in self._session.children.wait(wait):
            if line is None:
                self._ended(child)
            elif child in self._ranks.values():
                self._take(int(child.node[1:]), json.loads(line))
        self._check_clocks(time.monotonic())

    def _kill(self, kill: Kill) -> None:
        child = next(c for c in self._session.children.all if c.node == kill.node)
        now = time.monotonic()
        if self._first_kill is None:
            self._first_kill = now
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        self.report.killed.append(kill.node)

    def _take(self, rank: int, line: dict[str, Any]) -> None:
        """One line of a rank."""
        self._heard[rank] = time.monotonic()
        event = line["event"]
        if event == "iteration":
            row = self.report.rows[line["case"]]
            row.add(line["iteration"], line["us"], line["wrong"], line["err"])
            total = self._work.iterations * self._setup.ranks
            if row.reports == total:
                self._display.row(row)
            done = sum(r.reports for r in self.report.rows)
            self._display.progress(done, total * len(self.report.rows), row)
        elif event == "error":
            since = self._first_kill if self._first_kill is not None else self._begun
            self._fail(
                Failure(
                    f"rank {rank}",
                    line["kind"],
                    line["message"],
                    line["at"] - since,
                    tuple(line["ranks"]),
                    tuple(line["edges"]),
                )
            )
        elif event == "epoch":
            began = Epoch(line["epoch"], line["path"], line["resume"], line["reason"])
            if began not in self.report.epochs:
                self.report.epochs.append(began)
                self._display.epoch(began)
        elif event == "done":
            self._running.discard(rank)
            self.report.add_counters(f"r{rank}", line["counters"], line["faults"])

    def _ended(self, child: Child) -> None:
        """A process ended while the run goes on: that is a failure, whoever did it."""
        self._gone.add(child.node)
        if child is self._session.manager:
            self._fail(Failure("manager", "ended", self._why(child)))
            return
        if child.node in self._session.switches:
            # With a manager the collectives are to survive what was asked for.
            if self._session.managing is None or child.node not in self.report.killed:
                self._fail(Failure(f"switch {child.node}", "ended", self._why(child)))
            return
        rank = int(child.node[1:])
        if rank in self._running or rank in self._work.chaos.silent:
            self._running.discard(rank)
            self._fail(Failure(f"rank {rank}", "ended", self._why(child)))

    def _why(self, child: Child) -> str:
        code = child.popen.poll()
        return child.ending() if code is not None and code < 0 else child.complaint()

    def _fail(self, failure: Failure) -> None:
        self.report.failures.append(failure)
        self._display.failure(failure)
        if self._give_up is None:
            self._give_up = time.monotonic() + self._setup.params.deadline_us * 1e-6 + GRACE_SECONDS

    def _check_clocks(self, now: float) -> None:
        """End the waiting for ranks that should have ended, or said something, by now."""
        late = self._give_up is not None and now > self._give_up
        for rank in sorted(self._running):
            quiet = now - self._heard[rank]
            if late:
                text = "still running after the deadline, expected an error that names who is missing"
            elif quiet > SILENCE_SECONDS:
                text = f"no sign of life for {quiet:.0f} s"
            else:
                continue
            self._running.discard(rank)
            self._fail(Failure(f"rank {rank}", "hung", text))

    def _collect(self) -> None:
        """Counters of the switches, the manager's decisions, then let the ranks go."""
        for name, counters in self._session.counters().items():
            faults = {key: counters.get(f"fault_{key}", 0) for key in FAULTS}
            self.report.add_counters(name, counters, faults)
        if self._session.managing is not None:
            self.report.decisions = self._session.managing.decisions()
        for child in self._ranks.values():
            child.tell("quit")
