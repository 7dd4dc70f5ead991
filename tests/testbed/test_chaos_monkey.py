"""The monkey: what is due is done, what is not there is waited for, and everything comes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from epic_testbed.chaosmonkey.monkey import Monkey, by_job
from epic_testbed.chaosmonkey.schedule import Action, JobPlan, Schedule

RANK = Action(1.0, "rank", "job0/1", then="restart")
SWITCH = Action(2.0, "switch", "e0", 3.0)
LINK = Action(2.5, "link", "e0-a0", 1.0)
MANAGER = Action(4.0, "manager", "manager", 0.5)


class Fake(SimpleNamespace):
    """A cluster that notes what is done to it."""

    def __init__(self) -> None:
        super().__init__(ready={"e0", "manager"}, log=[])

    def kill(self, name: str) -> None:
        self.ready.discard(name)
        self.log.append(f"kill {name}")

    def bring(self, name: str) -> None:
        self.log.append(f"bring {name}")

    def cut(self, link: str) -> None:
        self.log.append(f"cut {link}")

    def join(self, link: str) -> None:
        self.log.append(f"join {link}")


def monkey(*actions: Action, ranks: Any = lambda action: True) -> tuple[Monkey, Fake]:
    cluster = Fake()
    schedule = Schedule(1, 60.0, (JobPlan("job0", ("h0", "h1")),), actions)
    made: Any = cluster
    return Monkey(made, schedule, ranks), cluster


def test_actions_are_done_when_they_are_due_and_undone_in_time() -> None:
    made, cluster = monkey(RANK, SWITCH, LINK)
    made.step(1.9)
    assert ([done.action for done in made.done], cluster.log) == ([RANK], [])
    made.step(2.6)
    assert cluster.log == ["kill e0", "cut e0-a0"]
    made.step(3.7)
    made.step(5.7)
    assert cluster.log[2:] == ["join e0-a0", "bring e0"]
    switch = next(done for done in made.done if done.action is SWITCH)
    made.step(6.0)
    assert switch.back is None, "it is only starting"
    cluster.ready.add("e0")
    made.step(7.0)
    assert (switch.at, switch.back) == (2.6, 7.0)


def test_what_is_not_there_is_waited_for_and_in_the_end_reported_as_not_done() -> None:
    here: list[bool] = []
    made, cluster = monkey(RANK, MANAGER, ranks=lambda action: bool(here))
    cluster.ready.clear()
    made.step(4.0)
    made.step(10.0)
    assert made.done == []
    here.append(True)
    made.step(10.5)
    assert [(done.action, done.at) for done in made.done] == [(RANK, 10.5)]
    made.step(15.0)
    assert [(done.action, done.at) for done in made.done[1:]] == [(MANAGER, None)]
    assert cluster.log == []


def test_at_the_end_everything_is_brought_back_and_the_rest_is_not_done() -> None:
    made, cluster = monkey(SWITCH, LINK, MANAGER)
    made.step(3.0)
    made.finish(3.1)
    assert cluster.log == ["kill e0", "cut e0-a0", "join e0-a0", "bring e0"]
    assert [done.at for done in made.done] == [3.0, 3.0, None]


def test_the_kills_of_each_job_are_in_their_order() -> None:
    later = Action(9.0, "rank", "job0/0", then="restart")
    assert by_job(Schedule(1, 60.0, (JobPlan("job0", ("h0", "h1")),), (RANK, SWITCH, later))) == {
        "job0": [RANK, later]
    }
