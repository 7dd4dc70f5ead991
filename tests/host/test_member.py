"""Ranks, a real manager over gRPC, real switches: paths that fail, managers that are killed, ranks that are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host.managed import ManagedCommunicator
from epic_host.manager.errors import RefusedError
from epic_host.member import create_group
from epic_spec.errors import ConfigError, PeerLostError
from host.cluster import LEASE, Cluster
from host.test_failover import good, reductions


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(**options: Any) -> Cluster:
        made.append(Cluster(tmp_path, **options))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def until(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.parametrize("mode", [2, 3])
def test_collectives_survive_every_switch_one_after_the_other(
    cluster: Callable[..., Cluster], mode: int
) -> None:
    here = cluster(mode=mode)
    group = here.create()

    def work(comm: ManagedCommunicator) -> Any:
        reductions(2)(comm)
        for _ in range(2):
            handle = comm.all_reduce(np.ones(20_000, np.int32), async_op=True)
            if comm.rank == 0:
                used = next(name for name, groups in here.installed().items() if groups)
                here.kill_switch(used)
            assert (handle.result() == 3).all()
        reductions(2)(comm)
        return [(epoch.path, epoch.reason) for epoch in comm.epochs], comm.stats()["repeated"]

    for paths, repeated in good(here.run(group, work)).values():
        assert [path for path, _ in paths] == ["network", "network", "host"]
        assert paths[2][1] == "engine_lost"
        assert repeated > 0


def test_a_manager_that_is_killed_and_comes_back_late_costs_nothing(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    group = here.create()
    back = threading.Event()

    def kill_and_restart() -> None:
        here.kill_manager()
        time.sleep(1.5 * LEASE)
        here.start_manager()
        # What the manager would do to those whose leases it held to be over, it has done by then.
        time.sleep(1.5 * LEASE)
        back.set()

    thread = threading.Thread(target=kill_and_restart)

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 0:
            thread.start()
        while True:
            time.sleep(0.02)
            comm.all_reduce(np.ones(100, np.int32))
            if comm.all_reduce(np.array([back.is_set()], np.int8), "min")[0]:
                break
        before = [epoch.path for epoch in comm.epochs]
        comm.barrier()
        if comm.rank == 0:
            here.kill_switch(next(name for name, groups in here.installed().items() if groups))
        reductions(1)(comm)
        return before, [epoch.path for epoch in comm.epochs]

    for before, after in good(here.run(group, work)).values():
        assert before == ["network"]
        assert after == ["network", "network"]
    thread.join()


def test_a_path_that_fails_while_the_manager_is_away_waits_for_it(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    group = here.create(deadline=1.0)

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 0:
            here.kill_manager()
            here.kill_switch(next(name for name, groups in here.installed().items() if groups))
        begin = time.monotonic()
        handle = comm.all_reduce(np.ones(1000, np.int32), async_op=True)
        if comm.rank == 0:
            time.sleep(1.5)
            here.start_manager()
        assert (handle.result() == 3).all()
        return time.monotonic() - begin

    # Longer than the group's deadline.
    assert min(good(here.run(group, work)).values()) > 1.5


def test_a_lost_rank_is_named_and_the_others_go_on_without_it(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    group = here.create()

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 1:
            # As after kill -9: nobody says that it leaves.
            comm._member._closed.set()
            comm._runtime.close()
            return None
        with pytest.raises(PeerLostError) as error:
            while True:
                time.sleep(0.02)
                comm.all_reduce(np.ones(1000, np.int32))
        assert error.value.ranks == (1,)
        with comm.shrink() as smaller:
            assert (smaller.world_size, smaller.rank) == (2, (0, None, 1)[comm.rank])
            assert smaller.group != comm.group
            return reductions(2)(smaller)

    outcome = good(here.run(group, work))
    assert outcome[0] == outcome[2] == ["network"]
    until(lambda: not any(here.installed().values()), f"switches keep {here.installed()}")


def test_nobody_shrinks_a_group_that_is_whole(cluster: Callable[..., Cluster]) -> None:
    here = cluster(hosts=1, switches=1)
    group = here.create(1, path="network")

    def work(comm: ManagedCommunicator) -> None:
        with pytest.raises(RefusedError):
            comm.shrink(timeout=0.3)
        comm.barrier()

    good(here.run(group, work, ranks=1))


def test_two_groups_of_the_same_hosts_at_once(cluster: Callable[..., Cluster]) -> None:
    here = cluster()
    groups = [here.create(name=name) for name in ("one", "two")]
    outcomes: dict[str, dict[int, Any]] = {}

    def one(group: tuple[str, str]) -> None:
        outcomes[group[0]] = here.run(group, reductions(4))

    threads = [threading.Thread(target=one, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {"one", "two"}
    for outcome in outcomes.values():
        good(outcome)
    until(lambda: not any(here.installed().values()), f"switches keep {here.installed()}")


def test_what_a_group_is_asked_for_is_checked(cluster: Callable[..., Cluster]) -> None:
    here = cluster(hosts=1, switches=1)
    with pytest.raises(ConfigError, match="group: unknown field 'colour', expected some of ack_reflection, "):
        create_group(here.address, hosts=["h0"], colour="red")
    with pytest.raises(ConfigError, match="expected fields as of GroupRequest"):
        create_group(here.address, hosts=["h0"], window="wide")
    with pytest.raises(ConfigError, match="host 'h9'"):
        create_group(here.address, hosts=["h9"])
    group = here.create(1)
    with pytest.raises(ConfigError, match=r"host = 'h1' for rank 0 of group .*, expected 'h0'"):
        here.join(group, 0, host="h1")
    with pytest.raises(RefusedError):
        here.join((group[0], "wrong"), 0)
