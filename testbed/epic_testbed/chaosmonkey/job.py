"""One job as the supervisor sees it: its lives, who of it was killed, what its members said, when it last moved.

No processes here and no clock: lines of members come in, failures and what to do next come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from epic_testbed.chaosmonkey.report import JobReport
from epic_testbed.chaosmonkey.schedule import Action, JobPlan

# What joining may end with when a member has died: the group cannot become complete, or has ended already.
_FORMING = ("DeadlineError", "AbortedError", "RefusedError")


@dataclass(slots=True)
class Job:
    """`state`: "idle" (between lives), "creating" (its group is asked for), "running", or "over".

    `here` are members of the life that have not ended, `killed` those of it that the monkey killed. `moved`: when it
    last did something, in seconds of the supervisor's clock.
    """

    number: int
    plan: JobPlan
    kills: list[Action]
    report: JobReport
    state: str = "idle"
    life: int = 0
    here: set[int] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)
    moved: float = 0.0
    stopping: bool = False
    _steps: dict[str, int] = field(default_factory=dict)
    _elements: dict[str, int] = field(default_factory=dict)

    def begin(self, now: float) -> None:
        """A new life, of all members."""
        self.state, self.life, self.moved = "creating", self.life + 1, now
        self.here, self.killed, self.joined = set(range(self.plan.size)), set(), set()
        self.report.lives += 1

    def order(self, group: str, token: str, members: Sequence[int]) -> dict[str, Any]:
        """What a process is told that hosts these members. Member m has rank m: a life begins with everybody."""
        kills = [[action.member, action.then] for action in self.kills]
        return {
            "do": "run",
            "life": self.life,
            "group": group,
            "token": token,
            "members": [[member, member] for member in members],
            "kills": kills,
        }

    def may_kill(self, member: int) -> bool:
        """Whether a member is in a group now, and with it some that can tell of its loss."""
        return self.state == "running" and member in self.here & self.joined and len(self.here) > 1

    def kill(self, action: Action, now: float) -> None:
        """The monkey has killed a member."""
        self.kills.remove(action)
        self.killed.add(action.member)
        self.here.discard(action.member)
        self.report.killed += 1
        self.moved = now
        self._ended_all()

    def died(self, members: Sequence[int], text: str) -> list[str]:
        """A process has ended that nobody killed."""
        mine = self.here & set(members)
        self.here -= mine
        self._ended_all()
        return [f"{self.plan.name}: the process of members {sorted(mine)} {text}"] if mine else []

    def take(self, node: str, line: dict[str, Any], now: float) -> list[str]:
        """A line of a process. Returns failures."""
        event = line["event"]
        if event == "progress":
            self._progress(node, line, now)
            return []
        if line.get("life") != self.life:
            return []
        self.moved = now
        return {
            "joined": self._joined,
            "wrong": self._wrong,
            "lost": self._lost,
            "shrunk": self._shrunk,
            "ended": self._ended,
        }[event](line)

    def _progress(self, node: str, line: dict[str, Any], now: float) -> None:
        """`steps` and `elements` of a process count up from its start."""
        steps, elements = sum(line["members"].values()), line["elements"]
        if steps > self._steps.get(node, 0):
            self.moved = now
        self.report.steps += steps - self._steps.get(node, 0)
        self.report.elements += elements - self._elements.get(node, 0)
        self._steps[node], self._elements[node] = steps, elements
        for seconds in line["paused"].values():
            self.report.pause(seconds)

    def _joined(self, line: dict[str, Any]) -> list[str]:
        self.joined.add(line["member"])
        return []

    def _wrong(self, line: dict[str, Any]) -> list[str]:
        self.report.wrong += line["wrong"]
        where = f"{self.plan.name}: member {line['member']}, life {self.life}, step {line['step']}"
        return [f"{where}: {line['wrong']} wrong elements of {line['what']}"]

    def _lost(self, line: dict[str, Any]) -> list[str]:
        self.report.told += 1
        where = f"{self.plan.name}: member {line['member']}, life {self.life}"
        lost = set(line["lost"])
        if not lost:
            return [f"{where}: PeerLostError that names no rank: {line['message']}"]
        if lost - self.killed:
            alive = sorted(lost - self.killed)
            return [f"{where}: told that members {alive} are lost, which nobody killed: {line['message']}"]
        return []

    def _shrunk(self, line: dict[str, Any]) -> list[str]:
        if line["member"] == min(line["members"]):
            self.report.shrinks += 1
        return []

    def _ended(self, line: dict[str, Any]) -> list[str]:
        self.here.discard(line["member"])
        self.report.paths.update(line["paths"])
        # Every member has the same epochs: one says them for the group.
        if line["member"] == min(set(range(self.plan.size)) - self.killed, default=-1):
            self.report.epochs.update(line["epochs"])
        if not self.here and line["how"] == "lost":
            self.report.restarts += 1
        self._ended_all()
        if line["how"] == "error" and not self._excused(line["kind"]):
            where = f"{self.plan.name}: member {line['member']}, life {self.life}"
            return [f"{where}: {line['kind']}: {line['message']}"]
        return []

    def _excused(self, kind: str) -> bool:
        """An error other than PeerLostError is right only where a member died before the group was complete."""
        return kind in _FORMING and bool(self.killed) and len(self.joined) < self.plan.size

    def _ended_all(self) -> None:
        if not self.here and self.state == "running":
            self.state = "over" if self.stopping else "idle"
