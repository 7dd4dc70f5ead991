"""Groups on a fabric that is full: who falls back, who moves up, and that nothing is left after many of them.

On real switches and a real manager; ranks are threads of the test. `EPIC_EXAMPLES=40` makes the many 1,000.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator
from epic_host.fabric.resources import Capacity
from epic_host.member import create_group
from epic_testbed.chaosmonkey import layout, leaks
from epic_testbed.chaosmonkey.cluster import Cluster, ClusterOptions

SECONDS = 60.0
SETTLE = 30.0
GROUPS = 3
CYCLES = 25 * int(os.environ.get("EPIC_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A fabric whose switches take three groups each."""
    with Cluster(ClusterOptions(capacity=Capacity(groups=GROUPS)), kind="test") as made:
        made.start()
        yield made


def at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returned, all in threads of their own; what one raised is raised."""
    outcome: list[Any] = [TimeoutError("not done in time")] * len(works)

    def one(i: int) -> None:
        try:
            outcome[i] = works[i]()
        except BaseException as error:
            outcome[i] = error

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(until - time.monotonic())
    for result in outcome:
        if isinstance(result, BaseException):
            raise result
    return outcome


class Group:
    """A group with all its ranks in this process."""

    def __init__(self, cluster: Cluster, hosts: Sequence[str], **request: Any) -> None:
        self.name, token = create_group(cluster.manager, hosts=hosts, **request)
        self.comms: list[Any] = at_once(
            [
                lambda rank=rank: Communicator.join(cluster.manager, self.name, rank, join_token=token)
                for rank in range(len(hosts))
            ]
        )

    @property
    def path(self) -> str:
        """Of all its ranks: they take the same one."""
        (path,) = {comm.path for comm in self.comms}
        return str(path)

    def check(self, seed: int = 0, count: int = 3000) -> None:
        """An all_reduce, every element held against NumPy."""
        rng = np.random.default_rng(seed)
        inputs = [rng.integers(-(2**31), 2**31, count).astype(np.int32) for _ in self.comms]
        wanted = np.sum(inputs, axis=0, dtype=np.int32)
        results = at_once(
            [
                lambda comm=comm, own=own: comm.all_reduce(own.copy())
                for comm, own in zip(self.comms, inputs, strict=True)
            ]
        )
        for result in results:
            np.testing.assert_array_equal(result, wanted)

    def close(self) -> None:
        """All ranks leave."""
        at_once([comm.close for comm in self.comms])


def waited(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {SECONDS:g} s"
        time.sleep(0.05)


def nothing_left(cluster: Cluster) -> None:
    assert leaks.settled(lambda: leaks.resources(cluster) + leaks.rank_sockets(cluster), SETTLE) == []


def test_one_group_too_many_falls_back_and_moves_onto_the_network_when_a_slot_frees(cluster: Cluster) -> None:
    hosts = ["h0", "h1"]
    with ExitStack() as stack:
        groups = []
        for _ in range(GROUPS + 1):
            groups.append(Group(cluster, hosts))
            stack.callback(groups[-1].close)
        assert [group.path for group in groups] == ["network"] * GROUPS + ["host"]
        with cluster.client() as client:
            found = client.explain(group=groups[-1].name)
        assert found.group.reason == "no_groups"
        assert "e0" in found.decisions[-1].text
        for i, group in enumerate(groups):
            group.check(i)
        groups[1].close()
        last = groups[-1]
        waited(lambda: all(comm.path == "network" for comm in last.comms), "the last group moves")
        assert [epoch.reason for epoch in last.comms[0].epochs] == ["no_groups", "upgraded"]
        for i in (0, 2, 3):
            groups[i].check(10 + i)
    nothing_left(cluster)


def test_two_jobs_on_the_same_hosts_at_once_both_get_their_own_results(cluster: Cluster) -> None:
    hosts = ["h0", "h3", "h5"]
    with ExitStack() as stack:
        jobs = [Group(cluster, hosts) for _ in range(2)]
        for job in jobs:
            stack.callback(job.close)
        assert [job.path for job in jobs] == ["network", "network"]

        def work(number: int) -> None:
            for i in range(5):
                jobs[number].check(100 * number + i)

        at_once([lambda: work(0), lambda: work(1)])
    nothing_left(cluster)


@pytest.mark.timeout(60 + 3 * CYCLES)
def test_groups_that_come_and_go_leave_nothing(cluster: Cluster) -> None:
    def open_files() -> dict[str, int]:
        return {
            name: sum(1 for _ in Path(f"/proc/{child.pid}/fd").iterdir())
            for name, child in cluster.now.items()
        }

    def cycle(number: int) -> None:
        hosts = [layout.HOSTS[number % 8], layout.HOSTS[(number * 3 + 1) % 8]]
        group = Group(cluster, hosts)
        group.check(number, 100)
        group.close()

    cycle(0)
    nothing_left(cluster)
    before = open_files()
    for number in range(1, CYCLES):
        cycle(number)
    nothing_left(cluster)
    with cluster.client() as client:
        assert not any(engine.groups_used for engine in client.get_topology().engines)
    after = open_files()
    # Connections come and go; a descriptor a cycle would show.
    grown = {name: after[name] - before[name] for name in after if after[name] > before[name] + 8}
    assert not grown
