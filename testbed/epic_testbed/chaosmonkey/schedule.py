"""Who runs and what happens to them: jobs and the monkey's actions, a pure function of the seed.

Nothing here looks at what happens in the run: the same seed gives the same kills at the same times, and a process that
has to die alone can be given ranks of its own beforehand.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from epic_spec.errors import ConfigError

KINDS = ("rank", "switch", "manager", "link")
# How often each is hit; ranks and links most.
_WEIGHTS = {"rank": 7, "switch": 4, "manager": 3, "link": 6}
MAX_RANKS = 8
MIN_RANKS = 2
# Nothing is done to a run that is only starting, nor so late that it could not show that it recovers. Parts of the run;
# actions end two tails before its end, and what was away is back one tail before it.
_LEAD = 0.04
_TAIL = 0.06
# Mean seconds between two actions.
_EVERY = 3.0
# A job that lost a rank is left alone for so long: it must be able to come back.
_REST = 12.0
# Switches and links out of use at once, and the seconds that they, and the manager, are away.
_MOST_OUT = {"switch": 2, "link": 3, "manager": 1}
_AWAY = {"switch": (1.0, 6.0), "link": (2.0, 20.0), "manager": (0.3, 2.0)}


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job: `hosts[i]` is the host of its member i. Members keep their number when ranks shift (`shrink`)."""

    name: str
    hosts: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many members it has."""
        return len(self.hosts)


@dataclass(frozen=True, slots=True)
class Action:
    """The monkey kills (a link: cuts) `target` `at` seconds into the run.

    Targets: `job/member`, the name of a switch, of a link (`low-high`), or `manager`. `away`: seconds until it is there
    again; a killed rank comes back with its job's next life: `then` says how the job goes on, the others "shrink" or
    the whole job does a "restart".
    """

    at: float
    kind: str
    target: str
    away: float = 0.0
    then: str = ""

    @property
    def job(self) -> str:
        """The job of a rank."""
        return self.target.partition("/")[0]

    @property
    def member(self) -> int:
        """The member of a rank's job."""
        return int(self.target.partition("/")[2])


@dataclass(frozen=True, slots=True)
class Schedule:
    """All of it. `digest` is equal for equal schedules."""

    seed: int
    seconds: float
    jobs: tuple[JobPlan, ...]
    actions: tuple[Action, ...]

    def victims(self, job: str) -> tuple[int, ...]:
        """Members of a job that will be killed: each needs a process of its own."""
        return tuple(sorted({a.member for a in self.actions if a.kind == "rank" and a.job == job}))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """Of everything in it."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def make(
    seed: int, seconds: float, jobs: int, hosts: Sequence[str], switches: Sequence[str], links: Sequence[str]
) -> Schedule:
    """The schedule of a seed. `links` are those that may be cut. Raises ConfigError."""
    if jobs < 1 or seconds < 5:
        raise ConfigError(f"jobs = {jobs}, seconds = {seconds:g}, expected at least 1 job and 5 seconds")
    if len(hosts) < MIN_RANKS:
        raise ConfigError(f"{len(hosts)} hosts, expected at least {MIN_RANKS}")
    rng = random.Random(f"epic chaos {seed}")
    plans = tuple(_job(rng, number, jobs, hosts) for number in range(jobs))
    maker = _Actions(rng, seconds, plans, switches, links)
    return Schedule(seed, seconds, plans, tuple(maker.all()))


def _job(rng: random.Random, number: int, jobs: int, hosts: Sequence[str]) -> JobPlan:
    most = min(MAX_RANKS, len(hosts))
    # The first two jobs have the extremes, so that no seed leaves them out.
    size = {0: MIN_RANKS, 1: most}.get(number, rng.randint(MIN_RANKS, most))
    return JobPlan(f"job{number:0{len(str(jobs - 1))}d}", tuple(rng.sample(list(hosts), size)))


class _Actions:
    """Draws actions one after the other, and knows what is away at any time."""

    def __init__(
        self,
        rng: random.Random,
        seconds: float,
        jobs: Sequence[JobPlan],
        switches: Sequence[str],
        links: Sequence[str],
    ) -> None:
        self._rng = rng
        self._seconds = seconds
        self._jobs = jobs
        self._pools = {"switch": list(switches), "link": list(links), "manager": ["manager"]}
        self._alive = {job.name: set(range(job.size)) for job in jobs}
        self._hit = dict.fromkeys(self._alive, float("-inf"))
        self._out: list[Action] = []

    def all(self) -> list[Action]:
        first, last = self._seconds * _LEAD, self._seconds * (1 - 2 * _TAIL)
        count = max(len(KINDS), round((last - first) / _EVERY))
        times = sorted(self._rng.uniform(first, last) for _ in range(count))
        # Every kind at least once, then by weight.
        kinds = [*KINDS, *self._rng.choices(KINDS, [_WEIGHTS[k] for k in KINDS], k=count - len(KINDS))]
        self._rng.shuffle(kinds)
        found: list[Action] = []
        for at, kind in zip(times, kinds, strict=True):
            action = self._rank(at) if kind == "rank" else self._away(at, kind)
            if action is not None:
                found.append(action)
        return found

    def _rank(self, at: float) -> Action | None:
        rested = [job for job in self._jobs if at - self._hit[job.name] >= _REST]
        if not rested:
            return None
        job = self._rng.choice(rested)
        alive = self._alive[job.name]
        member = self._rng.choice(sorted(alive))
        then = self._rng.choice(("shrink", "restart")) if len(alive) > MIN_RANKS else "restart"
        self._hit[job.name] = at
        if then == "shrink":
            alive.discard(member)
        else:
            alive |= set(range(job.size))
        return Action(round(at, 3), "rank", f"{job.name}/{member}", then=then)

    def _away(self, at: float, kind: str) -> Action | None:
        self._out = [action for action in self._out if action.at + action.away > at]
        out = [action.target for action in self._out if action.kind == kind]
        free = [target for target in self._pools[kind] if target not in out]
        if len(out) >= _MOST_OUT[kind] or not free:
            return None
        low, high = _AWAY[kind]
        # Everything is back before the tail begins.
        away = min(self._rng.uniform(low, high), self._seconds * (1 - _TAIL) - at)
        action = Action(round(at, 3), kind, self._rng.choice(free), round(away, 3))
        self._out.append(action)
        return action
