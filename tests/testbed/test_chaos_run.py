"""Chaos runs: a short one with every kind of fault; with `EPIC_EXAMPLES` a longer one, and planted faults.

The real thing takes longer: `epic chaos`.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from epic_models.reference.interfaces import Output
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.packets import Packet
from epic_testbed.chaosmonkey import layout, schedule
from epic_testbed.chaosmonkey.cluster import Cluster, ClusterOptions
from epic_testbed.chaosmonkey.report import Report
from epic_testbed.chaosmonkey.run import run
from epic_testbed.chaosmonkey.schedule import KINDS, Action
from epic_testbed.chaosmonkey.supervisor import Limits, Supervisor
from testbed.helpers import epic

# One rank killed (the others shrink), a switch, a link and the manager, within ten seconds.
SEED = "8"
long = pytest.mark.skipif("EPIC_EXAMPLES" not in os.environ, reason="a long run: set EPIC_EXAMPLES")


def test_a_short_run_of_every_kind_of_fault_finds_nothing_wrong_and_can_be_replayed() -> None:
    options = ("--seconds", "10", "--jobs", "3", "--seed", SEED, "--lease", "3", "--think", "0.2", "--json")
    planned = json.loads(epic("chaos", "--plan", *options).stdout)
    done = epic("chaos", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"]
    assert (report["failures"], report["leaks"]) == ([], [])
    assert report["digest"] == planned["digest"]
    assert {action["kind"] for action in report["actions"] if action["at"] is not None} == set(KINDS)
    totals = report["totals"]
    # How many there were is the machine's affair; that all three jobs did something is not.
    assert totals["steps"] > 10
    assert totals["elements"] > 1000
    assert totals["wrong"] == 0
    assert totals["told"] >= 1
    assert totals["shrinks"] == 1


@long
@pytest.mark.timeout(900)
def test_a_run_of_a_minute() -> None:
    done = epic("chaos", "--seconds", "60", "--jobs", "10", "--seed", "11", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report["failures"] + report["leaks"]


def planted(engine: str = "reference-m3", seconds: float = 6.0, limits: Limits | None = None) -> Report:
    made = schedule.make(1, seconds, 2, layout.HOSTS, layout.SWITCHES, layout.LINKS)
    return run(made, ClusterOptions(engine=engine), limits or Limits(settle=3.0), lambda text: None)


class Spoiler(Mode3Engine):
    """Flips a bit of every larger result: the small ones with which ranks agree to go on stay right."""

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """As the parent does, then the fault."""
        output = super().receive(port, packet, now)
        for _, sent in output.sends:
            if len(sent.payload) > 500:
                sent.payload = sent.payload[:-1] + bytes([sent.payload[-1] ^ 1])
        return output


@long
def test_an_engine_that_is_one_bit_off_is_found() -> None:
    report = planted("testbed.test_chaos_run:Spoiler")
    assert sum(job.wrong for job in report.jobs) > 0
    assert any("wrong elements of" in failure for failure in report.failures)


class Keeper(Mode3Engine):
    """Does not give up a group."""

    def remove(self, group: int) -> None:
        """Nothing."""


@long
def test_an_engine_that_keeps_its_groups_is_a_leak() -> None:
    report = planted("testbed.test_chaos_run:Keeper")
    assert any("holds group" in leak for leak in report.leaks)


class Stopper(Supervisor):
    """Stops all processes of a job for good instead of killing a rank of it."""

    def _kill_rank(self, action: Action) -> bool:
        job = next(job for job in self._jobs if job.plan.name == action.job)
        if job.may_kill(action.member):
            for child in self._processes[action.job].children.values():
                os.kill(child.pid, signal.SIGSTOP)
            job.kill(action, self._now())
            return True
        return False


@long
def test_a_job_that_hangs_is_found_within_its_bound() -> None:
    made = schedule.make(8, 10.0, 3, layout.HOSTS, layout.SWITCHES, layout.LINKS)
    with Cluster() as cluster:
        cluster.start()
        report = Stopper(cluster, made, Limits(hang=12.0), lambda text: None).run()
    assert any("hangs, nothing for" in failure for failure in report.failures)
