"""Communicators whose path changes while they work, over real sockets; the manager is a fake one in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator, asking, managed
from epic_host.managed import ManagedCommunicator
from epic_host.manager.errors import ManagerUnreachableError, RefusedError
from epic_host.member import Member
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_spec.errors import AbortedError, ConfigError, DeadlineError, EpicError, MismatchError, PeerLostError
from host.fake_manager import LEASE, FakeClient, FakeManager

Make = Callable[..., FakeManager]


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes the fake manager of a test."""
    made: list[FakeManager] = []

    def make(**options: Any) -> FakeManager:
        made.append(FakeManager(tmp_path, **options))
        FakeClient.manager = made[-1]
        return made[-1]

    monkeypatch.setattr(managed, "ManagerClient", FakeClient)
    yield make
    for one in made:
        one.close()


# Seconds in which all ranks of `run` have to end.
BOUND = 40.0


def join(rank: int, **options: Any) -> ManagedCommunicator:
    return Communicator.join("fake", "g", rank, join_token="right", **({"timeout": 10.0} | options))


def run(
    here: FakeManager,
    work: Callable[[ManagedCommunicator], Any],
    ranks: tuple[int, ...] | None = None,
    **options: Any,
) -> dict[int, Any]:
    """`work(comm)` of every rank in a thread of its own: what each returned or raised, by rank."""
    outcome: dict[int, Any] = {}

    def one(rank: int) -> None:
        try:
            with join(rank, **options) as comm:
                outcome[rank] = work(comm)
        except Exception as error:
            outcome[rank] = error

    threads = [
        threading.Thread(target=one, args=(rank,), daemon=True)
        for rank in ranks or range(here.params.world_size)
    ]
    end = time.monotonic() + BOUND
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), f"ranks hang; those that ended: {outcome}"
    return outcome


def good(outcome: dict[int, Any]) -> dict[int, Any]:
    for rank, result in outcome.items():
        if isinstance(result, Exception):
            raise AssertionError(f"rank {rank}: {result!r}") from result
    return outcome


def reductions(count: int, size: int = 3000) -> Callable[[ManagedCommunicator], list[str]]:
    """All-reduces in place, each checked in every element; the paths on which they ended."""

    def work(comm: ManagedCommunicator) -> list[str]:
        for i in range(count):
            array = np.arange(size, dtype=np.int64).astype(np.int32) * (comm.rank + 1 + i)
            comm.all_reduce(array)
            factor = sum(r + 1 + i for r in range(comm.world_size))
            np.testing.assert_array_equal(array, np.arange(size, dtype=np.int32) * np.int32(factor))
        return [epoch.path for epoch in comm.epochs]

    return work


@pytest.mark.parametrize(
    ("mode", "datapath"), [(1, "reference"), (2, "reference"), (2, "fast"), (3, "reference"), (3, "fast")]
)
def test_collectives_go_on_over_changes_of_path(manager: Make, mode: int, datapath: str) -> None:
    here = manager(mode=mode)
    begun = threading.Event()

    def work(comm: ManagedCommunicator) -> list[str]:
        comm.barrier()
        begun.set()
        assert comm.datapath == datapath
        return reductions(30)(comm)

    def changes() -> None:
        begun.wait(30)
        for path in ("s1", "host", "s0", "host"):
            time.sleep(0.1)
            here.change(path)

    thread = threading.Thread(target=changes)
    thread.start()
    paths = good(run(here, work, datapath=datapath))
    thread.join()
    assert all(p[0] == "network" and "host" in p for p in paths.values()), paths


def test_a_killed_switch_is_survived_by_the_collective_that_was_on_it(manager: Make) -> None:
    here = manager()

    def failover() -> None:
        time.sleep(0.1)
        here.kill("s0")
        time.sleep(0.1)
        here.change("host")

    thread = threading.Thread(target=failover)
    thread.start()
    work = reductions(1, size=100_000)
    assert set(map(tuple, good(run(here, work)).values())) == {("network", "host")}
    thread.join()


def test_the_manager_hears_early_of_a_path_that_stopped_and_ranks_wait_for_another(manager: Make) -> None:
    here = manager(deadline_us=1_000_000)
    here.verdict = pb.ReportFaultResponse(verdict="epoch", text="engine s0 is lost")

    def work(comm: ManagedCommunicator) -> float:
        comm.barrier()
        if comm.rank == 0:
            here.kill("s0")
        begin = time.monotonic()
        handle = comm.all_reduce(np.ones(1000, np.int32), async_op=True)
        while not here.count("report_fault"):
            time.sleep(0.01)
        if comm.rank == 0:
            time.sleep(1.5)
            here.change("s1")
        assert (handle.result() == comm.world_size).all()
        return time.monotonic() - begin

    # Longer than the deadline: the verdict was that a new epoch comes.
    assert min(good(run(here, work)).values()) > 1.5


def test_a_lost_rank_is_named_at_once(manager: Make) -> None:
    here = manager()
    all_out = threading.Barrier(3, timeout=10)

    def work(comm: ManagedCommunicator) -> float:
        comm.barrier()
        # Every rank has its result, not only the one that is lost now.
        all_out.wait()
        begin = time.monotonic()
        if comm.rank == 2:
            here.lose(2)
            return 0.0
        with pytest.raises(PeerLostError, match="rank 2 lost") as error:
            comm.all_reduce(np.ones(1000, np.int32))
        assert error.value.ranks == (2,)
        with pytest.raises(PeerLostError):
            comm.barrier()
        return time.monotonic() - begin

    assert max(good(run(here, work)).values()) < 1.5


@pytest.mark.parametrize("path", ["s0", "host"])
def test_a_rank_that_never_calls_is_named_at_the_deadline(manager: Make, path: str) -> None:
    here = manager(deadline_us=800_000)
    here._path = path
    # The manager sees slots of engines only; on the host path the ranks know it themselves.
    late = (2,) if path == "s0" else ()
    here.verdict = pb.ReportFaultResponse(verdict="wait", ranks=late, text="everything answers")

    def work(comm: ManagedCommunicator) -> Any:
        if comm.rank == 2:
            time.sleep(1.5)
            return (2,)
        with pytest.raises(PeerLostError, match=r"no result for 0.[78] s") as error:
            comm.barrier()
        return error.value.ranks

    assert good(run(here, work)) == {0: (2,), 1: (2,), 2: (2,)}


def test_collectives_go_on_while_the_manager_is_away_for_longer_than_a_lease(manager: Make) -> None:
    here = manager()

    def work(comm: ManagedCommunicator) -> None:
        comm.barrier()
        here.away = True
        begin = time.monotonic()
        while True:
            comm.all_reduce(np.ones(10, np.int32))
            if comm.all_reduce(np.array([time.monotonic() >= begin + 2 * LEASE], np.int8))[0]:
                break
        here.away = False

    good(run(here, work))
    beats = here.count("heartbeat")
    assert beats >= 3 * 3, "signs of life are tried again and again"


def test_a_report_waits_for_a_manager_that_is_away(manager: Make) -> None:
    here = manager()

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 0:
            here.away = True
            here.change("s1")
        handle = comm.all_reduce(np.ones(5000, np.int32), async_op=True)
        if comm.rank == 0:
            time.sleep(0.5)
            here.away = False
        assert (handle.result() == comm.world_size).all()
        return [epoch.epoch for epoch in comm.epochs]

    assert set(map(tuple, good(run(here, work)).values())) == {(0, 1)}


def test_a_manager_that_is_just_back_is_given_time_to_find_out_who_is_lost(manager: Make) -> None:
    here = manager(deadline_us=500_000)
    here.verdict = pb.ReportFaultResponse(verdict="wait", ranks=(0, 1), text="what is known is old")

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 2:
            # Dead: it answers nobody.
            comm._member._closed.set()
            comm._runtime.close()
            return (2,)
        if comm.rank == 0:
            here.away = True
        handle = comm.barrier(async_op=True)
        if comm.rank == 0:
            time.sleep(2 * LEASE)
            here.away = False
            time.sleep(LEASE)
            here.lose(2)
        with pytest.raises(PeerLostError) as error:
            handle.wait()
        return error.value.ranks

    assert good(run(here, work)) == {0: (2,), 1: (2,), 2: (2,)}


def test_an_edge_in_error_is_the_managers_business(manager: Make) -> None:
    # With two retries of 20 ms the edge is in error long before the deadline.
    here = manager(mode=2, retry_limit=2, rto_max_us=20_000)

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        if comm.rank == 0:
            here.kill("s0")
        handle = comm.barrier(async_op=True)
        while not any(name == "report_fault" and fields["edge"] for name, fields in here.calls):
            assert comm.failure is None, comm.failure
            time.sleep(0.01)
        if comm.rank == 0:
            here.change("s1")
        handle.wait()

    good(run(here, work))
    edges = {fields["edge"] for name, fields in here.calls if name == "report_fault"}
    assert edges & {"r0-s0", "r1-s0", "r2-s0"}


def test_an_epoch_that_never_comes_ends_in_an_error_and_not_in_a_hang(manager: Make) -> None:
    here = manager(deadline_us=400_000)
    here.hold_grant = True
    all_out = threading.Barrier(3, timeout=10)

    def work(comm: ManagedCommunicator) -> Any:
        comm.barrier()
        all_out.wait()
        if comm.rank == 0:
            here.change("s1")
        while comm._epoch_runtime.epochs.epoch == 0:
            time.sleep(0.01)
        begin = time.monotonic()
        with pytest.raises(PeerLostError, match=r"no result for 1.[0-9] s, cell 1, epoch 1: no path"):
            comm.barrier()
        return time.monotonic() - begin

    for seconds in good(run(here, work, patience=0.6)).values():
        assert 0.9 < seconds < 2.5


def test_epochs_that_come_and_go_without_a_result_end_in_an_error(manager: Make) -> None:
    here = manager(deadline_us=600_000)
    stop = threading.Event()

    def work(comm: ManagedCommunicator) -> Any:
        if comm.rank == 2:
            # Alive at the manager, and calls nothing.
            stop.wait(10)
            return None
        with pytest.raises(PeerLostError, match=r"a path without progress|no path") as error:
            comm.barrier()
        stop.set()
        return str(error.value)

    def flap() -> None:
        while not stop.wait(0.2):
            here.change("s1" if here.epoch % 2 else "s0")

    thread = threading.Thread(target=flap)
    thread.start()
    good(run(here, work, patience=1.0))
    thread.join()


def test_a_rank_that_the_manager_gave_up_ends(manager: Make) -> None:
    here = manager()

    def work(comm: ManagedCommunicator) -> None:
        if comm.rank == 0:
            here.notices = [pb.MemberNotice(group="g", rank=0, what="gone")]
        with pytest.raises(AbortedError, match="the manager does not know rank"):
            while True:
                comm.barrier()

    good(run(here, work))


def test_what_is_told_again_changes_nothing(manager: Make) -> None:
    here = manager()

    def work(comm: ManagedCommunicator) -> Any:
        for i in range(30):
            here.drop_watches()
            assert comm.all_reduce(np.array([i], np.int32))[0] == i * comm.world_size
        return len(comm.epochs)

    assert set(good(run(here, work)).values()) == {1}


def test_disagreement_is_an_error_at_every_rank_whatever_the_epoch(manager: Make) -> None:
    here = manager(deadline_us=10_000_000)
    all_out = threading.Barrier(3, timeout=12)

    def work(comm: ManagedCommunicator) -> None:
        comm.barrier()
        if comm.rank == 0:
            here.change("host")
        with pytest.raises(MismatchError, match="ranks disagree"):
            comm.all_reduce(np.ones(600, np.int32), op="max" if comm.rank == 1 else "sum")
        # One that closes is gone, and what the others lack of its contributions with it.
        all_out.wait()

    good(run(here, work))


def test_an_epoch_with_other_cells_is_refused(manager: Make) -> None:
    here = manager()
    all_out = threading.Barrier(3, timeout=10)

    def work(comm: ManagedCommunicator) -> None:
        comm.barrier()
        all_out.wait()
        if comm.rank == 0:
            here.params = here.params.__class__(**(here.params.to_dict() | {"payload_bytes": 512}))
            here.change("s1")
        with pytest.raises(EpicError, match="cell_bytes = 512, expected 256 as in the epochs before"):
            while True:
                comm.barrier()

    good(run(here, work))


# ------------------------------------------------------------------------------------------------- joining


def test_a_join_that_is_tried_again_is_the_same_process(manager: Make) -> None:
    here = manager()
    here.away = True
    back = threading.Timer(0.5, setattr, (here, "away", False))
    back.start()
    good(run(here, lambda comm: comm.barrier()))
    back.join()
    joins = [fields for name, fields in here.calls if name == "join_group"]
    for rank in range(here.params.world_size):
        mine = [fields["incarnation"] for fields in joins if fields["rank"] == rank]
        assert len(mine) > 1, "the manager was not away"
        assert len(set(mine)) == 1


def test_a_group_that_lacks_a_rank_says_so_in_time(manager: Make) -> None:
    here = manager()
    begin = time.monotonic()
    outcome = run(here, reductions(1), ranks=(0, 1), timeout=0.5)
    assert time.monotonic() - begin < 3
    for error in outcome.values():
        assert isinstance(error, DeadlineError)
        assert "no path within" in str(error)
        assert "it waits for rank 2 to join" in str(error)
    assert here.count("leave_group") == 2


def test_a_wrong_token_is_refused_and_a_manager_that_is_not_there_is_named(manager: Make) -> None:
    here = manager()
    with pytest.raises(RefusedError, match="not the group's join token"):
        Communicator.join("fake", "g", 0, join_token="wrong")
    here.away = True
    begin = time.monotonic()
    with pytest.raises(ManagerUnreachableError):
        join(0, timeout=0.5)
    assert 0.2 < time.monotonic() - begin < 2


def test_a_rank_on_the_wrong_host_is_refused(manager: Make) -> None:
    manager()
    with pytest.raises(
        ConfigError, match="host = 'h7' for rank 1 of group g, expected 'h1' as it was created"
    ):
        join(1, host="h7")


def test_the_transport_may_have_entries_of_its_own(manager: Make, tmp_path: Path) -> None:
    here = manager()
    faults = {"loss": 0.1, "seed": 1}
    good(run(here, lambda comm: comm.barrier(), transport={"faults": faults, "capture": str(tmp_path / "x")}))
    assert (tmp_path / "x").stat().st_size > 24
    with pytest.raises(ConfigError, match=r"transport: address = '127.0.0.9', expected none"):
        join(0, transport={"address": "127.0.0.9"})
    here.again()
    with pytest.raises(ConfigError, match="transport: unknown key 'speed'"):
        join(0, transport={"speed": 3})


def test_nothing_is_left_of_a_communicator(manager: Make) -> None:
    here = manager()
    good(run(here, reductions(1)))
    threads, descriptors = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        here.again()
        good(run(here, reductions(1)))
    assert set(threading.enumerate()) <= threads
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def test_closing_in_the_middle_of_a_change_ends_at_once(manager: Make) -> None:
    here = manager()
    here.hold_grant = True
    all_out = threading.Barrier(3, timeout=10)

    def work(comm: ManagedCommunicator) -> float:
        comm.barrier()
        # A rank that has its result says nothing of the others, and there will be no path to get theirs by.
        all_out.wait()
        if comm.rank == 0:
            here.change("s1")
        while comm._epoch_runtime.epochs.epoch == 0:
            time.sleep(0.01)
        handle = comm.barrier(async_op=True)
        begin = time.monotonic()
        comm.close()
        with pytest.raises(AbortedError, match="closed"):
            handle.wait()
        return time.monotonic() - begin

    assert max(good(run(here, work)).values()) < 1.0


def test_a_trace_has_the_epochs_on_trees(
    manager: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = manager(n=1)

    def work(comm: ManagedCommunicator) -> None:
        for path in ("host", "s1"):
            comm.barrier()
            here.change(path)
            while comm.epochs[-1].epoch != here.epoch:
                time.sleep(0.01)
        comm.barrier()

    good(run(here, work, trace=tmp_path / "r0.ndjson"))
    assert sorted(path.name for path in tmp_path.glob("*.ndjson")) == ["r0-epoch2.ndjson", "r0.ndjson"]
    assert "epoch 1 of group g is not on one tree: not recorded" in caplog.text


# ------------------------------------------------------------------------------------------ planted faults


def _asks_once(self: Member, ask: Callable[[], Any], *_: Any) -> Any:
    return ask()


_GRANTED = Member._granted


def _takes_every_grant(self: Member, grant: Any) -> None:
    """As if the epoch that the rank is in were one before."""
    if self.grant is not None and self._runtime is not None:
        self._runtime.epochs.epoch -= 1
    _GRANTED(self, grant)


MUTANTS = {
    "reports once": (Member, "_persist", _asks_once, test_a_report_waits_for_a_manager_that_is_away),
    "takes what is told again for new": (
        Member, "_granted", _takes_every_grant, test_what_is_told_again_changes_nothing,
    ),
    "believes a manager that is just back": (
        Member, "sure", lambda self: True, test_a_manager_that_is_just_back_is_given_time_to_find_out_who_is_lost,
    ),
    "an edge in error is the end": (
        asking.Manager, "edge_failed", lambda self, event: PeerLostError(event.reason),
        test_an_edge_in_error_is_the_managers_business,
    ),
    "leaves without a word": (
        Member, "leave", lambda self: self.client.close(), test_a_group_that_lacks_a_rank_says_so_in_time,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults_are_seen(name: str, manager: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, value, check = MUTANTS[name]
    monkeypatch.setattr(target, attribute, value)
    # Some faults make ranks wait for ever.
    monkeypatch.setitem(globals(), "BOUND", 10.0)
    with pytest.raises((AssertionError, EpicError)):
        check(manager)
