"""Performs the schedule: kills and cuts when it is time, and brings back what was away.

`back` of what was done is when it served again: on a busy machine a process takes seconds to start.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping

from epic_testbed.chaosmonkey.cluster import Cluster
from epic_testbed.chaosmonkey.report import Done
from epic_testbed.chaosmonkey.schedule import Action, Schedule

# What is not there when its time has come, a rank between two lives or a switch that is only starting, is waited for.
_PATIENCE = 10.0


class Monkey:
    """`kill_rank(action)` kills a rank and says whether it was there. Times are seconds into the run."""

    def __init__(self, cluster: Cluster, schedule: Schedule, kill_rank: Callable[[Action], bool]) -> None:
        self._cluster = cluster
        self._kill_rank = kill_rank
        self._ahead = list(schedule.actions)
        self._waiting: list[Action] = []
        self._back: list[tuple[float, int, Done]] = []
        self._starting: list[Done] = []
        self._count = itertools.count()
        self.done: list[Done] = []

    def step(self, now: float) -> None:
        """Do what is due."""
        while self._back and self._back[0][0] <= now:
            self._bring_back(heapq.heappop(self._back)[2], now)
        for done in [done for done in self._starting if done.action.target in self._cluster.ready]:
            self._starting.remove(done)
            done.back = now
        while self._ahead and self._ahead[0].at <= now:
            self._waiting.append(self._ahead.pop(0))
        for action in list(self._waiting):
            self._try(action, now)

    def finish(self, now: float) -> None:
        """Bring back everything at once; what is still ahead is not done. `step` then sees it start."""
        while self._back:
            self._bring_back(heapq.heappop(self._back)[2], now)
        self.done += [Done(action, None) for action in (*self._waiting, *self._ahead)]
        self._waiting, self._ahead = [], []

    def _try(self, action: Action, now: float) -> None:
        if self._perform(action):
            done = Done(action, now)
            if action.kind != "rank":
                heapq.heappush(self._back, (now + action.away, next(self._count), done))
        elif now <= action.at + _PATIENCE:
            return
        else:
            done = Done(action, None)
        self.done.append(done)
        self._waiting.remove(action)

    def _perform(self, action: Action) -> bool:
        """Do it, if its target is there."""
        if action.kind == "rank":
            return self._kill_rank(action)
        if action.kind == "link":
            self._cluster.cut(action.target)
            return True
        if action.target not in self._cluster.ready:
            return False
        self._cluster.kill(action.target)
        return True

    def _bring_back(self, done: Done, now: float) -> None:
        if done.action.kind == "link":
            self._cluster.join(done.action.target)
            done.back = now
        else:
            self._cluster.bring(done.action.target)
            self._starting.append(done)


def by_job(schedule: Schedule) -> Mapping[str, list[Action]]:
    """The kills of each job's members, in their order."""
    found: dict[str, list[Action]] = {job.name: [] for job in schedule.jobs}
    for action in schedule.actions:
        if action.kind == "rank":
            found[action.job].append(action)
    return found
