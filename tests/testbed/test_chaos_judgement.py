"""What the chaos test calls a failure, and what a leak: from made-up lines of members and planted leftovers."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epic_spec.tables import UDP_PORT
from epic_testbed.chaosmonkey import leaks
from epic_testbed.chaosmonkey.job import Job
from epic_testbed.chaosmonkey.report import Done, JobReport, Report
from epic_testbed.chaosmonkey.schedule import Action, JobPlan, Schedule

KILL = Action(3.0, "rank", "job0/2", then="shrink")


def running(size: int = 4, joined: bool = True) -> Job:
    """A job in its first life."""
    plan = JobPlan("job0", tuple(f"h{i}" for i in range(size)))
    job = Job(0, plan, [KILL], JobReport("job0", size))
    job.begin(0.0)
    job.state = "running"
    if joined:
        for member in range(size):
            assert job.take("job0.1", {"event": "joined", "member": member, "life": 1}, 1.0) == []
    return job


def lost(member: int, *members: int, message: str = "text") -> dict[str, Any]:
    return {"event": "lost", "member": member, "life": 1, "lost": list(members), "message": message}


def ended(member: int, how: str, kind: str = "", paths: dict[str, int] | None = None) -> dict[str, Any]:
    line = {"event": "ended", "member": member, "life": 1, "how": how, "kind": kind, "message": "why"}
    return line | {"epochs": {"network/granted": 1}, "paths": paths or {}}


def test_survivors_that_name_the_killed_rank_are_right_and_the_job_goes_on() -> None:
    job = running()
    job.kill(KILL, 3.0)
    for member in (0, 1, 3):
        assert job.take("job0.1", lost(member, 2), 4.0) == []
        assert (
            job.take("job0.1", {"event": "shrunk", "member": member, "life": 1, "members": [0, 1, 3]}, 5.0)
            == []
        )
    for member in (0, 1, 3):
        assert job.take("job0.1", ended(member, "left", paths={"network": 7}), 6.0) == []
    assert job.state == "idle"
    report = job.report
    assert (report.killed, report.told, report.shrinks, report.restarts) == (1, 3, 1, 0)
    assert report.paths == {"network": 21}
    assert report.epochs == {"network/granted": 1}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (lost(0, 1, 2), r"told that members \[1\] are lost, which nobody killed"),
        (lost(0), "names no rank"),
        (ended(0, "error", "MismatchError"), "MismatchError: why"),
        (ended(0, "error", "AbortedError"), "AbortedError: why"),
        (
            {"event": "wrong", "member": 0, "life": 1, "step": 9, "what": "all_reduce", "wrong": 3},
            "3 wrong elements",
        ),
    ],
)
def test_what_must_not_be_is_a_failure(line: dict[str, Any], text: str) -> None:
    job = running()
    job.kill(KILL, 3.0)
    (failure,) = job.take("job0.1", line, 4.0)
    assert re.search(text, failure)


def test_a_group_that_was_not_complete_when_a_rank_died_may_end_with_other_errors_but_not_with_wrong_results() -> (
    None
):
    job = running(joined=False)
    job.take("job0.1", {"event": "joined", "member": 2, "life": 1}, 1.0)
    job.kill(KILL, 3.0)
    assert job.take("job0.1", ended(0, "error", "AbortedError"), 4.0) == []
    assert len(job.take("job0.1", ended(1, "error", "AssertionError"), 4.0)) == 1


def test_a_process_that_dies_unasked_is_a_failure() -> None:
    job = running()
    assert job.died([0, 1], "killed by SIGSEGV") == ["job0: the process of members [0, 1] killed by SIGSEGV"]
    assert job.died([0, 1], "again") == []


def test_only_members_of_a_complete_life_are_killed() -> None:
    job = running(joined=False)
    assert not job.may_kill(2)
    job.take("job0.1", {"event": "joined", "member": 2, "life": 1}, 1.0)
    assert job.may_kill(2)
    for member in (0, 1, 3):
        job.take("job0.1", ended(member, "left"), 2.0)
    assert not job.may_kill(2), "nobody could tell of its loss"


def test_progress_counts_what_is_new_of_each_process_and_shows_that_the_job_moves() -> None:
    job = running()
    line = {"event": "progress", "members": {"0": 3, "1": 4}, "elements": 100, "paused": {"0": 0.2, "1": 2.5}}
    job.take("job0.1", line, 5.0)
    assert (job.report.steps, job.report.elements, job.report.pauses, job.moved) == (7, 100, [2.5], 5.0)
    job.take("job0.1", line | {"paused": {}}, 9.0)
    assert (job.report.steps, job.moved) == (7, 5.0), "no step, no movement"
    job.take("job0-2.1", line, 10.0)
    assert (job.report.steps, job.report.elements) == (14, 200)


def test_a_report_with_a_failure_or_a_leak_is_not_ok_and_says_how_to_replay() -> None:
    schedule = Schedule(5, 60.0, (), (KILL,))
    report = Report(schedule, [], [Done(KILL, 3.1)])
    assert report.ok
    assert report.performed("rank") == (1, 1)
    assert not Report(schedule, [], failures=["x"]).ok
    assert not Report(schedule, [], leaks=["x"]).ok
    assert report.to_dict()["digest"] == schedule.digest


def test_sockets_of_a_network_are_found() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as planted:
        planted.bind(("127.19.250.7", UDP_PORT))
        assert leaks.udp_sockets("127.19.250.0/24") == [f"127.19.250.7:{UDP_PORT}"]
        assert leaks.udp_sockets("127.19.251.0/24") == []
    assert leaks.udp_sockets("127.19.250.0/24") == []


def test_what_the_manager_holds_is_found() -> None:
    def client(**changes: Any) -> Any:
        group = SimpleNamespace(group="g", state=changes.get("state", "ended"))
        host = SimpleNamespace(
            name="h0", members=changes.get("members", 0), addresses=changes.get("addresses", [])
        )
        used = {key: changes.get(key, 0) for key in ("slots_used", "slot_bytes_used", "groups_used")}
        engine = SimpleNamespace(name="e0", **used)
        link = SimpleNamespace(name="h0-e0", rate_used_gbps=changes.get("rate", 0.0))
        topology = SimpleNamespace(hosts=[host], engines=[engine], links=[link])
        return SimpleNamespace(
            list_groups=lambda: SimpleNamespace(groups=[group]), get_topology=lambda: topology
        )

    assert leaks.of_manager(client()) == []
    planted: list[tuple[dict[str, Any], str]] = [
        ({"state": "active"}, "group g is active"),
        ({"members": 1}, "host h0 has 1 members"),
        ({"addresses": ["127.1.1.1"]}, "host h0 has given away 127.1.1.1"),
        ({"slots_used": 2}, "engine e0: 2 slots given away"),
        ({"slot_bytes_used": 9}, "engine e0: 9 slot bytes given away"),
        ({"groups_used": 1}, "engine e0: 1 group entries given away"),
        ({"rate": 1.5}, "link h0-e0: 1.5 Gb/s given away"),
    ]
    for changes, text in planted:
        assert leaks.of_manager(client(**changes)) == [text]


def test_what_is_left_after_the_end_is_found(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert leaks.after_close("127.19.252.0/24", gone, []) == []
    gone.mkdir()
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(gone / "s0.sock"))
        found = leaks.after_close("127.19.252.0/24", gone, [os.getpid()])
    assert found == [f"unix socket {gone}/s0.sock", f"process {os.getpid()}", f"directory {gone}"]


def test_a_leak_is_asked_for_again_until_its_time_is_over() -> None:
    answers = [["x"], ["x"], []]
    assert leaks.settled(lambda: answers.pop(0), 30.0) == []
    assert leaks.settled(lambda: ["x"], 0.0) == ["x"]
