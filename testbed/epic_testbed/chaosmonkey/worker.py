"""A process that hosts members of one job, each rank a thread: joins, computes, survives, and says what it saw.

Members that the schedule kills have a process of their own, all others of a job share one: a Python process with gRPC
costs 70 MB and most of a second, and a run has a hundred ranks.

In: a JSON object a line.
    {"do": "run", "life", "group", "token", "members": [[member, rank], ...], "kills": [[member, THEN], ...]}
    {"do": "stop"}      rank 0 ends the life, where it is in this process
    {"do": "quit"}
Out:
    {"event": "loaded"}
    {"event": "joined", "member", "life", "path", "seconds"}
    {"event": "progress", "members": {member: steps in all}, "elements", "paused": {member: seconds}}   every second
    {"event": "wrong", "member", "life", "step", "what", "wrong"}
    {"event": "lost", "member", "life", "lost": members, "ranks", "message"}
    {"event": "shrunk", "member", "life", "members"}
    {"event": "ended", "member", "life", "how": "left"|"lost"|"error", "kind", "message", "epochs", "paths"}
    {"event": "bye", "threads": names of threads of EPIC that still run, "fds"}
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epic_host import Communicator
from epic_spec.errors import EpicError, PeerLostError
from epic_testbed.chaosmonkey import programme
from epic_testbed.worker import say

_REPORT_SECONDS = 1.0
_JOIN_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Config:
    """What the supervisor wrote. `steps`: of a life; `think`: seconds between two steps."""

    job: int
    seed: int
    manager: str
    hosts: list[str]
    steps: int
    think: float
    patience: float

    @classmethod
    def load(cls, path: str) -> Config:
        """From the file."""
        return cls(**json.loads(Path(path).read_text()))


@dataclass(slots=True)
class Tally:
    """What the members of this process have done; the reporter reads it."""

    steps: Counter[int] = field(default_factory=Counter)
    elements: int = 0
    # The longest time a member was without a step, since the last report.
    paused: dict[int, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, member: int, elements: int, seconds: float) -> None:
        """A step is done, `seconds` after it could have begun."""
        with self.lock:
            self.steps[member] += 1
            self.elements += elements
            self.paused[member] = max(self.paused.get(member, 0.0), seconds)

    def take(self) -> dict[str, Any]:
        """The fields of a progress line; pauses begin anew."""
        with self.lock:
            paused, self.paused = self.paused, {}
            return {"members": dict(self.steps), "elements": self.elements, "paused": paused}


class Life:
    """One member's life in a group, from joining to leaving, in a thread of its own."""

    def __init__(self, config: Config, tally: Tally, order: dict[str, Any], member: int, rank: int) -> None:
        self._config = config
        self._tally = tally
        self._order = order
        self._life: int = order["life"]
        self._kills: list[tuple[int, str]] = [(m, then) for m, then in order["kills"]]
        self._member = member
        self._rank = rank
        self._alive = list(range(len(config.hosts)))
        self._life_began = False
        self._next = 0
        self._paths: Counter[str] = Counter()
        self._epochs: Counter[str] = Counter()
        self.stop = threading.Event()

    def run(self) -> None:
        """The whole life; always ends with an `ended` line."""
        how, kind, message = "error", "", ""
        try:
            how = self._join()
        except Exception as error:
            kind, message = type(error).__name__, " ".join(str(error).split())
            if not isinstance(error, EpicError):
                traceback.print_exc()
        self._say(
            "ended", how=how, kind=kind, message=message, epochs=dict(self._epochs), paths=dict(self._paths)
        )

    def _join(self) -> str:
        config, order, begin = self._config, self._order, time.monotonic()
        try:
            comm = Communicator.join(
                config.manager,
                order["group"],
                self._rank,
                join_token=order["token"],
                timeout=_JOIN_SECONDS,
                patience=config.patience,
            )
        except PeerLostError as error:
            # The group was complete and one was killed, all before this rank had its first path.
            self._lost(error)
            return "lost"
        return self._survive(comm, begin)

    def _survive(self, comm: Any, begin: float) -> str:
        """Compute until the end or a loss that the plan does not survive."""
        try:
            self._say("joined", path=comm.path, seconds=round(time.monotonic() - begin, 3))
            while True:
                try:
                    self._compute(comm)
                except PeerLostError as error:
                    lost = self._lost(error)
                    if not self._shrinks(lost):
                        return "lost"
                else:
                    return "left"
                self._note(comm)
                comm = comm.shrink(_JOIN_SECONDS)
                self._alive = [member for member in self._alive if member not in lost]
                self._say("shrunk", members=self._alive)
        finally:
            self._note(comm)
            comm.close()

    def _compute(self, comm: Communicator) -> None:
        """Steps until rank 0 says that it is enough. Raises PeerLostError and all else."""
        who = comm.all_gather(np.array([self._member], np.int32), recv=np.empty(comm.world_size, np.int32))
        self._meet(who.tolist())
        # Some have finished the step in which a rank was lost, some have not.
        self._next = int(comm.all_reduce(np.array([self._next], np.int32), "max")[0])
        last = time.monotonic()
        while True:
            step = self._next
            enough = self.stop.is_set() or step >= self._config.steps
            if comm.broadcast(np.array([enough], np.int32))[0]:
                return
            result = programme.run(comm, self._config.seed, self._config.job, self._life, step)
            if result.wrong:
                self._say("wrong", step=step, what=result.what, wrong=result.wrong)
            now = time.monotonic()
            self._tally.add(self._member, result.elements, now - last)
            self._paths[comm.path] += 1
            self._next = step + 1
            self.stop.wait(self._config.think)
            last = time.monotonic()

    def _meet(self, members: list[int]) -> None:
        """Ranks keep their order. A survivor that was not in the group yet when one was lost may be missing."""
        expected = [member for member in self._alive if member in members]
        complete = self._life_began or members == self._alive
        if members != expected or self._member not in members or not complete:
            raise AssertionError(f"ranks are members {members}, expected {self._alive}")
        self._alive, self._life_began = members, True

    def _lost(self, error: PeerLostError) -> list[int]:
        lost = [self._alive[rank] for rank in error.ranks]
        self._say("lost", lost=lost, ranks=list(error.ranks), message=" ".join(str(error).split()))
        return lost

    def _shrinks(self, lost: list[int]) -> bool:
        """Whether the plan is to go on without them."""
        then = [next((then for m, then in self._kills if m == member), "restart") for member in lost]
        return bool(lost) and all(word == "shrink" for word in then)

    def _note(self, comm: Any) -> None:
        self._epochs.update(f"{epoch.path}/{epoch.reason}" for epoch in comm.epochs)

    def _say(self, event: str, **more: Any) -> None:
        say(event, member=self._member, life=self._life, **more)


def report(tally: Tally) -> None:
    """Say every second what was done, from a thread of its own."""
    while True:
        time.sleep(_REPORT_SECONDS)
        say("progress", **tally.take())


def main(path: str) -> None:
    """Obey the supervisor until it says quit, or is gone."""
    config = Config.load(path)
    # SIGUSR1: all stacks into the log, for what looks like a hang.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    tally = Tally()
    lives: list[Life] = []
    threading.Thread(target=report, args=(tally,), daemon=True).start()
    say("loaded", fds=fds())
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "run":
            lives = [Life(config, tally, order, member, rank) for member, rank in order["members"]]
            for life in lives:
                threading.Thread(target=life.run, daemon=True).start()
        elif order["do"] == "stop":
            for life in lives:
                life.stop.set()
        else:
            break
    threads = sorted(t.name for t in threading.enumerate() if t.name.startswith("epic"))
    say("progress", **tally.take())
    say("bye", threads=threads, fds=fds())


def fds() -> int:
    """Open file descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
