"""The communicator over real UDP sockets and real switches: results, errors, and how it ends."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator, shard_sizes
from epic_models.reference.collectives import PRIMITIVES
from epic_spec.errors import (
    AbortedError,
    ConfigError,
    DeadlineError,
    MismatchError,
    PeerLostError,
    ResourceError,
)
from host.worlds import World, single, two_level

MakeWorld = Callable[..., World]

# With cells of 256 bytes (messages of 1024 in Mode I): empty, one element, around one and two cells, many.
SIZES = [0, 1, 63, 64, 65, 128, 129, 1000]


def data(rank: int, size: int, salt: int = 0) -> np.ndarray:
    return np.random.default_rng([rank, size, salt]).integers(-(2**31), 2**31, size, dtype=np.int32)


def everyone(size: int, ranks: int, salt: int = 0) -> np.ndarray:
    """Every rank's data, one row a rank."""
    return np.stack([data(r, size, salt) for r in range(ranks)])


def good(outcome: dict[int, Any]) -> dict[int, Any]:
    """The outcome, when no rank raised."""
    for result in outcome.values():
        if isinstance(result, Exception):
            raise result
    return outcome


def all_primitives(comm: Communicator, sizes: list[int] = SIZES) -> None:
    """Every primitive at every size, not in place, against NumPy."""
    n, me = comm.world_size, comm.rank
    for size in sizes:
        rows, mine = everyone(size, n), data(me, size)
        with np.errstate(over="ignore"):
            total = rows.sum(axis=0, dtype=np.int32)
        starts = np.cumsum([0, *shard_sizes(size, n)])
        own = slice(starts[me], starts[me + 1])
        root = size % n
        np.testing.assert_array_equal(comm.all_reduce(mine, recv=np.zeros_like(mine)), total)
        np.testing.assert_array_equal(
            comm.all_reduce(mine, "max", recv=np.zeros_like(mine)), rows.max(axis=0)
        )
        reduced = comm.reduce(mine, root, "min", recv=np.zeros_like(mine))
        if me == root:
            np.testing.assert_array_equal(reduced, rows.min(axis=0))
        else:
            assert reduced is None
        comm.barrier()
        np.testing.assert_array_equal(comm.broadcast(mine.copy(), root), rows[root])
        shard = np.zeros(own.stop - own.start, np.int32)
        np.testing.assert_array_equal(comm.reduce_scatter(mine, recv=shard), total[own])
        gathered = comm.all_gather(total[own].copy(), recv=np.zeros(size, np.int32))
        np.testing.assert_array_equal(gathered, total)
        np.testing.assert_array_equal(mine, rows[me])


# ------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize(
    "tree", [single(1), single(3), two_level(5)], ids=["1 rank", "3 ranks", "two levels"]
)
def test_every_primitive_gives_what_numpy_gives(world: MakeWorld, mode: int, tree: Any) -> None:
    good(world(mode=mode, tree=tree).run(all_primitives))


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_results_are_right_while_every_node_loses_doubles_swaps_and_spoils_frames(
    world: MakeWorld, mode: int
) -> None:
    faults = {"loss": 0.05, "duplicate": 0.05, "reorder": 0.05, "corrupt": 0.02}
    lossy = world(mode=mode, tree=two_level(4), faults=faults, rto_initial_us=20_000, rto_min_us=10_000)
    good(lossy.run(lambda comm: all_primitives(comm, [0, 65, 1000])))
    stats = [comm.stats() for comm in lossy.comms.values()]
    assert sum(s["faults"]["lost"] for s in stats) > 0
    assert sum(s["retransmissions"] for s in stats) > 0
    assert sum(s["counters"].get("drop_icrc", 0) for s in stats) > 0


def test_without_recv_every_collective_is_in_place(world: MakeWorld) -> None:
    def work(comm: Communicator) -> None:
        size, n, me = 100, comm.world_size, comm.rank
        total = everyone(size, n).sum(axis=0, dtype=np.int32)
        starts = np.cumsum([0, *shard_sizes(size, n)])
        own = slice(starts[me], starts[me + 1])

        reduced = data(me, size)
        assert comm.all_reduce(reduced) is reduced
        np.testing.assert_array_equal(reduced, total)

        at_root = data(me, size)
        result = comm.reduce(at_root, root=1)
        assert result is (at_root if me == 1 else None)
        np.testing.assert_array_equal(at_root, total if me == 1 else data(me, size))

        scattered = data(me, size)
        shard = comm.reduce_scatter(scattered)
        assert np.shares_memory(shard, scattered)
        expected = data(me, size)
        expected[own] = total[own]
        np.testing.assert_array_equal(scattered, expected)

        gathered = np.zeros(size, np.int32)
        gathered[own] = total[own]
        assert comm.all_gather(gathered) is gathered
        np.testing.assert_array_equal(gathered, total)

        sent = data(me, size)
        assert comm.broadcast(sent, root=2) is sent
        np.testing.assert_array_equal(sent, data(2, size))

    good(world().run(work))


def test_arrays_keep_their_shape(world: MakeWorld) -> None:
    def work(comm: Communicator) -> None:
        cube = data(comm.rank, 60).reshape(3, 4, 5)
        np.testing.assert_array_equal(
            comm.all_reduce(cube), everyone(60, comm.world_size).sum(axis=0, dtype=np.int32).reshape(3, 4, 5)
        )
        scalar = np.array(comm.rank, np.int32)
        assert comm.all_reduce(scalar).shape == ()
        assert scalar == sum(range(comm.world_size))

    good(world().run(work))


def test_shards_of_given_sizes(world: MakeWorld) -> None:
    def work(comm: Communicator) -> None:
        shards, size = [7, 0, 93], 100
        total = everyone(size, 3).sum(axis=0, dtype=np.int32)
        start = sum(shards[: comm.rank])
        shard = np.zeros(shards[comm.rank], np.int32)
        comm.reduce_scatter(data(comm.rank, size), recv=shard, shards=shards)
        np.testing.assert_array_equal(shard, total[start : start + shards[comm.rank]])
        np.testing.assert_array_equal(
            comm.all_gather(shard, recv=np.zeros(size, np.int32), shards=shards), total
        )

    good(world().run(work))


@pytest.mark.parametrize("native", [True, False], ids=["engine adds FP32", "fixed point over INT32"])
def test_floats_are_summed_whatever_the_engine_computes(world: MakeWorld, native: bool) -> None:
    def work(comm: Communicator) -> None:
        values = np.linspace(-1, 1, 300, dtype=np.float32) * (comm.rank + 1)
        result = comm.all_reduce(values.copy())
        np.testing.assert_allclose(result, np.linspace(-1, 1, 300) * 6, atol=1e-6)
        largest = comm.all_reduce(values.copy(), "max")
        base = np.linspace(-1, 1, 300, dtype=np.float32)
        np.testing.assert_array_equal(largest, np.maximum(base, base * 3))

    good(world(datatypes=("INT32", "FP32") if native else ("INT32",)).run(work))


def test_what_nobody_waits_for_is_repeated_all_the_same(world: MakeWorld) -> None:
    comm = world(tree=single(1)).join(0)
    send, lost = comm._transport.send, []

    def lossy(port: int, packet: Any, now: float) -> None:
        """The first frame is lost, so it takes a timer."""
        if lost:
            send(port, packet, now)
        lost.append(packet)

    comm._transport.send = lossy  # type: ignore[method-assign]
    handle = comm.barrier(async_op=True)
    end = time.monotonic() + 2
    while not handle.done():
        assert time.monotonic() < end, "nobody runs the timers"
        time.sleep(0.005)
    assert len(lost) >= 2


def test_many_collectives_in_flight_end_in_call_order_with_their_own_results(world: MakeWorld) -> None:
    def work(comm: Communicator) -> None:
        handles = [comm.all_reduce(data(comm.rank, 100, salt), async_op=True) for salt in range(100)]
        handles.append(comm.barrier(async_op=True))
        handles[-1].wait(30)
        assert all(handle.done() for handle in handles)
        for salt, handle in enumerate(handles[:-1]):
            np.testing.assert_array_equal(
                handle.result(), everyone(100, comm.world_size, salt).sum(axis=0, dtype=np.int32)
            )
        assert handles[-1].result() is None

    good(world().run(work))


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_every_ordered_pair_of_primitives_back_to_back(world: MakeWorld, mode: int) -> None:
    def start(comm: Communicator, primitive: str, salt: int) -> tuple[Any, Any]:
        """A handle and what its result must be."""
        mine, rows = data(comm.rank, 90, salt), everyone(90, comm.world_size, salt)
        total = rows.sum(axis=0, dtype=np.int32)
        own = slice(30 * comm.rank, 30 * comm.rank + 30)
        if primitive == "all_reduce":
            return comm.all_reduce(mine, async_op=True), total
        if primitive == "reduce":
            return comm.reduce(mine, 1, async_op=True), total if comm.rank == 1 else None
        if primitive == "broadcast":
            return comm.broadcast(mine, 2, async_op=True), rows[2]
        if primitive == "reduce_scatter":
            return comm.reduce_scatter(mine, async_op=True), total[own]
        if primitive == "all_gather":
            return comm.all_gather(mine, async_op=True), np.concatenate(
                [r[30 * i :][:30] for i, r in enumerate(rows)]
            )
        return comm.barrier(async_op=True), None

    def work(comm: Communicator) -> None:
        pairs = itertools.product(PRIMITIVES, repeat=2)
        started = [start(comm, p, salt) for salt, p in enumerate(itertools.chain.from_iterable(pairs))]
        for handle, expected in started:
            result = handle.result(30)
            if expected is None:
                assert result is None
            else:
                np.testing.assert_array_equal(result, expected)

    good(world(mode=mode).run(work))


def test_a_wait_that_times_out_leaves_the_collective_going(world: MakeWorld) -> None:
    late = threading.Barrier(3)  # the others have given up waiting

    def work(comm: Communicator) -> Any:
        if comm.rank == 0:
            late.wait(30)
            return comm.all_reduce(np.array([1], np.int32))
        handle = comm.all_reduce(np.array([1], np.int32), async_op=True)
        begin = time.monotonic()
        with pytest.raises(DeadlineError, match=r"all_reduce.*not done within 0.2 s"):
            handle.wait(0.2)
        assert 0.1 < time.monotonic() - begin < 2
        assert not handle.done()
        late.wait(30)
        return handle.result(30)

    assert good(world().run(work)) == {0: [3], 1: [3], 2: [3]}


# ---------------------------------------------------------------------------------------- what is refused

BAD_CALLS: list[tuple[Callable[[Communicator], Any], str]] = [
    (lambda c: c.all_reduce([1, 2]), "all_reduce: recv is a list, expected a NumPy array"),
    (lambda c: c.all_reduce(np.zeros(3, np.uint32)), "has dtype uint32, expected one of int32"),
    (lambda c: c.all_reduce(np.zeros(3, ">i4")), "has dtype >i4, expected one of"),
    (lambda c: c.all_reduce(np.zeros(3, complex)), "has dtype complex128"),
    (lambda c: c.all_reduce(np.zeros(6, np.int32)[::2]), "is not C-contiguous"),
    (lambda c: c.all_reduce(np.zeros((2, 3), np.int32, order="F")), "is not C-contiguous"),
    (lambda c: c.all_reduce(np.frombuffer(bytes(8), np.int32)), "is read-only"),
    (lambda c: c.all_reduce(np.zeros(3, np.int32), "product"), "op = 'product', expected one of sum"),
    (lambda c: c.all_reduce(np.zeros(3, "i4"), recv=np.zeros(4, "i4")), r"shape \(4,\), expected \(3,\)"),
    (lambda c: c.all_reduce(np.zeros(3, np.int32), recv=np.zeros(3, np.int64)), "int32"),
    (lambda c: c.reduce(np.zeros(3, np.int32), root=3), "root = 3, expected 0 to 2"),
    (lambda c: c.broadcast(np.zeros(3, np.int32), root=-1), "root = -1, expected 0 to 2"),
    (lambda c: c.reduce_scatter(np.zeros(3, np.int32), shards=[1, 1]), "expected 3 sizes that add up"),
    (lambda c: c.reduce_scatter(np.zeros(9, np.int32), recv=np.zeros(1, np.int32)), "expected 3 x int32"),
    (lambda c: c.all_gather(np.zeros(2, np.int32), recv=np.zeros(9, np.int32)), "expected 3 x int32"),
    (lambda c: c.all_gather("x"), "all_gather: send is a str"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD_CALLS, ids=[message for _, message in BAD_CALLS])
def test_a_bad_argument_is_refused_in_one_line_before_anything_is_sent(
    world: MakeWorld, call: Callable[[Communicator], Any], message: str
) -> None:
    comm = world().join(0)
    with pytest.raises(ConfigError, match=message) as caught:
        call(comm)
    assert "\n" not in str(caught.value)
    time.sleep(0.02)
    assert comm.counters()["tx_frames"] == 0
    assert comm.failure is None


def test_a_refused_call_does_not_count_as_a_collective(world: MakeWorld) -> None:
    def work(comm: Communicator) -> Any:
        if comm.rank == 1:
            with pytest.raises(ConfigError):
                comm.all_reduce(np.zeros(3, np.uint8))
        return comm.all_reduce(np.array([comm.rank], np.int32))

    assert good(world().run(work)) == {0: [3], 1: [3], 2: [3]}


def test_an_operator_that_the_engines_do_not_offer_is_refused(world: MakeWorld) -> None:
    comm = world(operators=("SUM",)).join(0)
    with pytest.raises(ResourceError, match="MAX of INT32 cannot be computed"):
        comm.all_reduce(np.zeros(3, np.int32), "max")


def test_a_rank_that_the_group_does_not_have_is_refused(world: MakeWorld) -> None:
    here = world()
    with pytest.raises(ConfigError, match="rank = 3, expected 0 to 2 of group 1"):
        Communicator(3, here.plan, here.transport(0))


@pytest.mark.parametrize("deadline", [0, -1, 1e9, float("nan"), float("inf")])
def test_a_deadline_out_of_range_is_refused(world: MakeWorld, deadline: float) -> None:
    with pytest.raises(ConfigError, match="deadline"):
        world().join(0, deadline=deadline)


def test_a_transport_that_is_not_this_ranks_is_refused_and_closed(world: MakeWorld) -> None:
    here = world()
    with pytest.raises(ConfigError, match=r"edge r1-s0: local address .*, expected"):
        Communicator(1, here.plan, here.transport(0))
    here.join(0)


# ------------------------------------------------------------------------------------------- how it fails


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize(
    "other",
    [
        lambda c, a: c.all_reduce(a, "max"),
        lambda c, a: c.all_reduce(a[:-1].copy()),
        lambda c, a: c.all_reduce(a.astype(np.float32)),
        lambda c, a: c.reduce(a),
        lambda c, a: c.broadcast(a),
        lambda c, a: c.barrier(),
        lambda c, a: c.all_reduce(a[:0].copy()),
    ],
    ids=["operator", "count", "datatype", "reduce", "broadcast", "barrier", "empty"],
)
def test_ranks_that_call_different_things_all_get_a_mismatch_that_says_so(
    world: MakeWorld, mode: int, other: Callable[..., Any]
) -> None:
    def work(comm: Communicator) -> Any:
        array = np.ones(100, np.int32)
        return other(comm, array) if comm.rank == 2 else comm.all_reduce(array)

    here = world(mode=mode, tree=two_level(3))
    begin = time.monotonic()
    outcome = here.run(work)
    assert time.monotonic() - begin < 5
    assert all(isinstance(error, MismatchError) for error in outcome.values()), outcome
    for error in outcome.values():
        assert "\n" not in str(error)
    assert "this rank called all_reduce(SUM, INT32, 100 elements)" in str(outcome[0])
    # A failed communicator says the same at every later call, and sends nothing more for it.
    for rank, comm in here.comms.items():
        with pytest.raises(MismatchError, match=re.escape(str(outcome[rank]))):
            comm.barrier()


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_rank_that_never_calls_is_named_by_the_others_within_the_deadline(
    world: MakeWorld, mode: int
) -> None:
    here = world(mode=mode, tree=two_level(4))
    here.join(2, deadline=2.0)
    begin = time.monotonic()
    outcome = here.run(lambda c: c.all_reduce(np.ones(5000, np.int32)), ranks=(0, 1, 3), deadline=2.0)
    assert 1.5 < time.monotonic() - begin < 2.8
    for error in outcome.values():
        assert isinstance(error, PeerLostError)
        assert error.ranks == (2,)
        assert "rank 2 did not contribute" in str(error)
        assert "\n" not in str(error)


def test_a_rank_that_comes_just_in_time_is_waited_for(world: MakeWorld) -> None:
    def work(comm: Communicator) -> Any:
        time.sleep(1.75 * (comm.rank == 1))
        return comm.all_reduce(np.array([1], np.int32))

    # By then the others have begun to ask who is missing.
    assert good(world().run(work, deadline=2.0)) == {0: [3], 1: [3], 2: [3]}


def test_a_rank_that_came_late_is_not_named_beside_the_one_that_never_came(world: MakeWorld) -> None:
    here = world(tree=single(4))
    here.join(3, deadline=2.0)

    def work(comm: Communicator) -> None:
        # After the others have asked for the first time.
        time.sleep(1.7 * (comm.rank == 2))
        comm.barrier()

    outcome = here.run(work, ranks=(0, 1, 2), deadline=2.0)
    assert [outcome[rank].ranks for rank in (0, 1)] == [(3,), (3,)], outcome


def test_the_deadline_counts_from_the_last_progress_and_not_from_the_call(world: MakeWorld) -> None:
    def work(comm: Communicator) -> Any:
        handles = [
            comm.all_reduce(np.array([1], np.int32), async_op=True) for _ in range(4 * (comm.rank != 1))
        ]
        for _ in range(4 * (comm.rank == 1)):
            time.sleep(0.5)
            comm.all_reduce(np.array([1], np.int32))
        return [handle.result() for handle in handles]

    good(world().run(work, deadline=1.0))


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("victim", ["s1", "s0"])
def test_a_switch_that_is_killed_is_named_by_its_edge(world: MakeWorld, mode: int, victim: str) -> None:
    here = world(mode=mode, tree=two_level(4), processes=True)
    killed = threading.Timer(0.3, here.processes[victim].send_signal, [signal.SIGKILL])
    killed.start()

    def work(comm: Communicator) -> None:
        for _ in range(10_000):
            comm.all_reduce(np.ones(2000, np.int32))

    begin = time.monotonic()
    outcome = here.run(work, deadline=3.0)
    assert time.monotonic() - begin < 4
    for error in outcome.values():
        assert isinstance(error, PeerLostError), error
        assert any(victim in edge.split("-") for edge in error.edges), error


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_rank_that_dies_in_the_middle_is_named_by_the_others(world: MakeWorld, mode: int) -> None:
    here = world(mode=mode, tree=two_level(4))

    def work(comm: Communicator) -> None:
        if comm.rank == 1:
            comm.all_reduce(np.ones(200_000, np.int32), async_op=True)
            time.sleep(0.1)
            # To the others its socket is gone, as after kill -9.
            comm.close()
            return
        comm.all_reduce(np.ones(200_000, np.int32))

    begin = time.monotonic()
    outcome = here.run(work, deadline=2.0)
    assert time.monotonic() - begin < 3
    for rank in (0, 2, 3):
        assert isinstance(outcome[rank], PeerLostError), outcome[rank]
        assert outcome[rank].ranks == (1,), outcome[rank]


def test_without_control_addresses_the_error_still_comes_in_time(world: MakeWorld) -> None:
    here = world()
    here.plan.control.clear()
    begin = time.monotonic()
    outcome = here.run(lambda c: c.barrier(), ranks=(0, 1), deadline=1.0)
    assert time.monotonic() - begin < 1.8
    assert all("no control addresses" in str(error) for error in outcome.values())
    assert all(isinstance(error, PeerLostError) for error in outcome.values())


def test_a_switch_that_is_stuck_does_not_hold_up_the_error(world: MakeWorld) -> None:
    here = world(processes=True)
    here.run(lambda c: c.barrier(), deadline=2.0)
    here.processes["s0"].send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    outcome = here.run(lambda c: c.barrier())
    assert time.monotonic() - begin < 2.9
    assert all(isinstance(error, PeerLostError) and error.edges for error in outcome.values()), outcome


# ------------------------------------------------------------------------------------------- how it ends


def test_abort_ends_the_wait_at_once_and_only_here(world: MakeWorld) -> None:
    here = world()
    aborted = here.join(0, deadline=1.5)
    array = np.ones(10_000, np.int32)
    handle = aborted.all_reduce(array, async_op=True)

    def abort_soon() -> None:
        time.sleep(0.1)
        aborted.abort()

    threading.Thread(target=abort_soon).start()
    begin = time.monotonic()
    with pytest.raises(AbortedError, match="rank 0 aborted the communicator"):
        handle.wait()
    assert time.monotonic() - begin < 0.5
    with pytest.raises(AbortedError):
        aborted.barrier()
    # The window's cells of rank 0 are with the switch; the others find it missing at a later one.
    outcome = here.run(lambda c: c.all_reduce(np.ones(10_000, np.int32)), ranks=(1, 2), deadline=1.5)
    for error in outcome.values():
        assert isinstance(error, PeerLostError)
        assert error.ranks == (0,)
    assert (array == 1).all()


def test_after_abort_no_array_is_written(world: MakeWorld) -> None:
    here = world()

    def work(comm: Communicator) -> tuple[np.ndarray, np.ndarray]:
        array = np.ones(200_000, np.int32)
        comm.all_reduce(array, async_op=True)
        time.sleep(0.1)
        comm.abort()
        before = array.copy()
        time.sleep(0.2)
        return before, array

    for before, after in good(here.run(work)).values():
        assert 0 < (before == 3).sum() < before.size
        np.testing.assert_array_equal(before, after)


def test_close_ends_the_waiters_and_frees_the_address(world: MakeWorld) -> None:
    here = world()
    comm = here.join(0)
    handle = comm.barrier(async_op=True)
    comm.close()
    comm.close()
    with pytest.raises(AbortedError, match="closed"):
        handle.wait()
    with pytest.raises(AbortedError, match="closed"):
        comm.barrier()
    here.join(0)


def test_a_communicator_leaves_no_thread_and_no_descriptor_behind(world: MakeWorld) -> None:
    from pathlib import Path

    here = world()
    here.join(0).close()
    # Threads that other tests have left to end (gRPC's) may do so meanwhile.
    threads, descriptors = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with here.join(0) as comm:
            comm.barrier(async_op=True)
    assert set(threading.enumerate()) <= threads
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def test_a_rank_answers_after_its_own_last_result_until_it_is_closed(world: MakeWorld) -> None:
    # Half of what rank 0 sends is lost, its ACKs too; the engine needs them to be sure of it.
    here = world(mode=2, tree=single(2), rto_initial_us=10_000, rto_min_us=5_000)
    here.faults = {"loss": 0.5}
    here.join(0)
    here.faults = {}
    good(here.run(lambda c: c.barrier()))
    time.sleep(0.5)
    switch = here.switches["s0"]
    assert switch.call(lambda: switch.status(1), 5.0).failed_edges == ()


def test_threads_of_one_rank_may_call_at_the_same_time(world: MakeWorld) -> None:
    def work(comm: Communicator) -> None:
        results: list[Any] = []

        def call() -> None:
            results.append(comm.all_reduce(np.array([1], np.int32))[0])

        threads = [threading.Thread(target=call) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert results == [comm.world_size] * 20

    good(world().run(work))


def test_a_rank_does_not_import_grpc_to_run_collectives() -> None:
    code = "import sys, epic_host.communicator; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_stats_tell_what_was_sent_again_and_what_was_spoiled(world: MakeWorld) -> None:
    here = world(faults={"loss": 0.2})
    good(here.run(lambda c: c.all_reduce(np.ones(2000, np.int32))))
    stats = here.comms[0].stats()
    assert stats["retransmissions"] == stats["counters"]["tx_retransmission"]
    sent = stats["counters"]["tx_contribution"] + stats["retransmissions"]
    assert stats["counters"]["tx_frames"] + stats["faults"]["lost"] == sent
    assert stats["faults"]["lost"] > 0
