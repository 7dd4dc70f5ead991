"""Communicators on the fast data path, and beside others, over real sockets and switches."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from epic_host import Communicator
from epic_host.runtime import Runtime
from epic_host.sleeper import Sleeper
from epic_host.transport import open_transport
from epic_models.reference.collectives import Planner
from epic_models.reference.numerics import array_dtype
from epic_spec.errors import AbortedError, ConfigError, DeadlineError, MismatchError, PeerLostError
from epic_spec.tables import Datatype
from host import test_communicator as reference
from host.test_communicator import all_primitives, good
from host.worlds import World, single, two_level

MakeWorld = Callable[..., World]
MODES = [2, 3]


@pytest.fixture
def fast(world: MakeWorld) -> MakeWorld:
    """Worlds whose ranks are on the fast data path."""

    def make(**options: Any) -> World:
        return world(**({"datapath": "fast"} | options))

    return make


# ------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "tree", [single(1), single(3), two_level(4)], ids=["1 rank", "3 ranks", "two levels"]
)
def test_every_primitive_gives_what_numpy_gives(fast: MakeWorld, mode: int, tree: Any) -> None:
    here = fast(mode=mode, tree=tree)
    good(here.run(all_primitives))
    assert {comm.datapath for comm in here.comms.values()} == {"fast"}


@pytest.mark.parametrize("mode", MODES)
def test_ranks_on_either_data_path_are_one_group(world: MakeWorld, mode: int) -> None:
    here = world(mode=mode, tree=single(4))
    for rank in range(4):
        here.join(rank, datapath=("reference", "fast")[rank % 2])
    good(here.run(all_primitives))
    assert [here.comms[rank].datapath for rank in range(4)] == ["reference", "fast"] * 2


@pytest.mark.parametrize("mode", MODES)
def test_results_are_right_while_every_node_loses_doubles_swaps_and_spoils_frames(
    fast: MakeWorld, mode: int
) -> None:
    faults = {"loss": 0.05, "duplicate": 0.05, "reorder": 0.05, "corrupt": 0.02}
    lossy = fast(mode=mode, tree=single(3), faults=faults, rto_initial_us=20_000, rto_min_us=10_000)
    good(lossy.run(lambda comm: all_primitives(comm, [0, 65, 1000])))
    stats = [comm.stats() for comm in lossy.comms.values()]
    assert sum(s["faults"]["lost"] for s in stats) > 0
    assert sum(s["retransmissions"] for s in stats) > 0
    assert sum(s["counters"].get("drop_icrc", 0) for s in stats) > 0


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "over INT32"])
def test_every_datatype_and_operator_in_place_and_not(fast: MakeWorld, native: bool, order: str) -> None:
    def work(comm: Communicator) -> None:
        for datatype, op, in_place in itertools.product(Datatype, ("sum", "max", "min"), (True, False)):
            if not native and datatype.name in ("INT64", "FP64") and op != "sum":
                continue  # what INT32 cannot compute
            dtype = array_dtype(datatype)
            size = 2 * 256 // dtype.itemsize + 3
            rows = [np.arange(size).astype(dtype) + np.array(r, dtype) for r in range(3)]
            mine = rows[comm.rank].copy()
            got = comm.all_reduce(mine, op, recv=None if in_place else np.zeros_like(mine))
            wide = np.stack(rows).astype(np.float64)
            wanted = {"sum": wide.sum(0), "max": wide.max(0), "min": wide.min(0)}[op]
            if dtype.itemsize < 2:
                wanted = wanted.astype(np.int64).astype(dtype).astype(np.float64)  # sums wrap around
            tolerance = 0 if dtype.kind == "i" else float(ml_dtypes.finfo(dtype).eps) * 4
            np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance)
            if not in_place:
                np.testing.assert_array_equal(mine, rows[comm.rank])

    names = tuple(d.name for d in Datatype)
    good(fast(datatypes=names if native else ("INT32",), byte_order=order).run(work))


@pytest.mark.parametrize("mode", MODES)
def test_several_windows_of_cells_of_a_kilobyte(fast: MakeWorld, mode: int) -> None:
    def work(comm: Communicator) -> None:
        for size in (256, 257, 16 * 256, 16 * 256 + 1, 100_003):
            values = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(comm.all_reduce(values), np.arange(size, dtype=np.float32) * 3)
        whole = np.arange(30_000, dtype=np.int64)
        parts = comm.reduce_scatter(whole.copy(), shards=[1, 29_998, 1])
        start = [0, 1, 29_999][comm.rank]
        np.testing.assert_array_equal(parts, whole[start : start + parts.size] * 3)

    good(fast(mode=mode, payload_bytes=1024, datatypes=("INT32", "INT64", "FP32")).run(work))


def test_what_the_reference_says_about_one_rank_holds(fast: MakeWorld) -> None:
    """Tests of the communicator as such, on this data path."""
    reference.test_without_recv_every_collective_is_in_place(fast)
    reference.test_arrays_keep_their_shape(fast)
    reference.test_shards_of_given_sizes(fast)
    reference.test_floats_are_summed_whatever_the_engine_computes(fast, native=False)
    reference.test_many_collectives_in_flight_end_in_call_order_with_their_own_results(fast)


# ------------------------------------------------------------------------------------------------- errors


def mismatched(comm: Communicator, call: Callable[[Communicator], Any]) -> str:
    with pytest.raises(MismatchError, match="ranks disagree") as error:
        call(comm)
    assert comm.failure is error.value
    return str(error.value)


@pytest.mark.parametrize("paths", [("fast", "fast"), ("fast", "reference")], ids="-".join)
@pytest.mark.parametrize("mode", MODES)
def test_ranks_that_disagree_all_get_an_error(world: MakeWorld, mode: int, paths: tuple[str, ...]) -> None:
    """About a primitive, an operator, a datatype, a count, a root, and a length only the rank itself can see."""
    calls: list[tuple[Callable[[Communicator], Any], Callable[[Communicator], Any]]] = [
        (lambda c: c.barrier(), lambda c: c.all_reduce(np.ones(9, np.int32))),
        (lambda c: c.all_reduce(np.ones(9, np.int32), "max"), lambda c: c.all_reduce(np.ones(9, np.int32))),
        (lambda c: c.all_reduce(np.ones(999, np.int32)), lambda c: c.all_reduce(np.ones(998, np.int32))),
        (lambda c: c.broadcast(np.ones(99, np.int32), 0), lambda c: c.broadcast(np.ones(99, np.int32), 1)),
        (lambda c: c.all_reduce(np.ones(999, np.float32)), lambda c: c.all_reduce(np.ones(998, np.float32))),
    ]
    for mine, other in calls:
        here = world(mode=mode, tree=single(2))
        for rank, path in enumerate(paths):
            here.join(rank, datapath=path)
        good(here.run(lambda comm, pair=(mine, other): mismatched(comm, pair[comm.rank])))  # type: ignore[misc]


def test_the_missing_rank_is_named(fast: MakeWorld) -> None:
    def work(comm: Communicator) -> float:
        begin = time.monotonic()
        with pytest.raises(PeerLostError, match="no result for") as error:
            comm.all_reduce(np.ones(1000, np.int32))
        assert error.value.ranks == (2,)
        return time.monotonic() - begin

    for seconds in good(fast(deadline_us=1_000_000).run(work, ranks=(0, 1))).values():
        assert 0.9 < seconds < 3


def test_no_array_is_written_after_abort(fast: MakeWorld) -> None:
    here = fast(tree=single(2), payload_bytes=1024)
    values = np.zeros(1_000_000, np.int32)

    def work(comm: Communicator) -> None:
        if comm.rank == 1:
            with contextlib.suppress(PeerLostError, AbortedError):
                comm.all_reduce(np.ones(values.size, np.int32))
            return
        handle = comm.all_reduce(values, async_op=True)
        while not values.any():
            assert not handle.done(), "it was over before it could be aborted"
            time.sleep(0.001)
        comm.abort()
        seen = values.copy()
        time.sleep(0.05)
        np.testing.assert_array_equal(values, seen)
        assert not seen.all()
        with pytest.raises(AbortedError):
            handle.wait()
        here.comms[1].abort()

    good(here.run(work))


def test_what_cannot_be_fast_is_said_in_a_line(world: MakeWorld, tmp_path: Path) -> None:
    first, third = world(mode=1, tree=single(1)), world(mode=3, tree=single(1))
    with pytest.raises(ConfigError, match=r"datapath = fast with mode = 1, expected reference"):
        first.join(0, datapath="fast")
    with pytest.raises(ConfigError, match=r"datapath = fast with trace, expected reference"):
        third.join(0, datapath="fast", trace=tmp_path / "x")
    with pytest.raises(ConfigError, match=r"datapath = 'quick', expected one of reference, fast"):
        third.join(0, datapath="quick")
    opened = open_transport(third.transport(0))
    with pytest.raises(ConfigError, match=r"datapath = fast over UdpTransport, expected transport kind udp"):
        Communicator(0, third.plan, opened, datapath="fast")
    opened.close()
    packets = {"kind": "packet", "address": "10.0.0.1", "ports": {"0": "eth9"}}
    with pytest.raises(ConfigError, match=r"datapath = fast over transport kind packet, expected"):
        Communicator(0, third.plan, packets, datapath="fast")
    assert first.join(0, datapath=None).datapath == "reference"
    assert third.join(0, datapath=None).datapath == "fast"
    third.comms.pop(0).close()
    assert third.join(0, datapath=None, trace=tmp_path / "t").datapath == "reference"


# ------------------------------------------------------------------------------------------------- who works


def test_a_caller_that_waits_works_itself_and_the_background_sleeps(fast: MakeWorld) -> None:
    here = fast(tree=single(1))
    comm = here.join(0)
    seen: list[int] = []
    work = comm._runtime._work

    def noted(*arguments: Any) -> bool:
        seen.append(threading.get_ident())
        return work(*arguments)

    comm._runtime._work = noted  # type: ignore[method-assign]
    for _ in range(50):
        comm.barrier()
    assert len(seen) >= 50
    assert set(seen) == {threading.get_ident()}
    comm.barrier(async_op=True)
    end = time.monotonic() + 5
    while comm._runtime._thread.ident not in seen:
        assert time.monotonic() < end, "nobody works for an asynchronous collective"
        time.sleep(0.001)


def test_what_nobody_waits_for_is_repeated_all_the_same(
    fast: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    comm = fast(tree=single(1)).join(0)
    transport: Any = comm._transport
    # Compiled code would send past this test.
    monkeypatch.setattr(type(transport), "plain", False)
    send, lost = transport.send_batch, []

    def lossy(departures: Any, edges: Any, now: float) -> None:
        """The first frame is lost, so it takes a timer."""
        if lost:
            send(departures, edges, now)
        lost.append(int(departures.count[0]))

    transport.send_batch = lossy
    handle = comm.barrier(async_op=True)
    end = time.monotonic() + 5
    while not handle.done():
        assert time.monotonic() < end, "nobody runs the timers"
        time.sleep(0.005)
    assert len(lost) >= 2


def test_threads_that_call_at_once_get_their_own_results(fast: MakeWorld) -> None:
    """Ranks agree on the order of calls, so each thread's calls are made under a lock that all ranks take alike."""
    here = fast(tree=single(2))
    turns = [threading.Condition() for _ in range(2)]
    state = [0, 0]

    def work(comm: Communicator) -> None:
        errors: list[BaseException] = []

        def caller(number: int) -> None:
            try:
                for i in range(number, 60, 3):
                    turn = turns[comm.rank]
                    with turn:
                        assert turn.wait_for(lambda n=i: state[comm.rank] == n, 20)  # type: ignore[misc]
                        handle = comm.all_reduce(np.full(200, i, np.int32), async_op=True)
                        state[comm.rank] += 1
                        turn.notify_all()
                    result = handle.result(20)
                    assert result is not None
                    assert (result == 2 * i).all()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=caller, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not errors
        assert state[comm.rank] == 60

    good(here.run(work))


def test_a_wait_with_a_timeout_ends_in_time_and_the_collective_goes_on(fast: MakeWorld) -> None:
    here = fast(tree=single(2))
    late = threading.Event()

    def work(comm: Communicator) -> None:
        if comm.rank == 1:
            late.wait(10)
            comm.barrier()
            return
        handle = comm.barrier(async_op=True)
        begin = time.monotonic()
        with pytest.raises(DeadlineError, match=r"barrier\(\): not done within 0.1 s"):
            handle.wait(0.1)
        assert time.monotonic() - begin < 2
        late.set()
        handle.wait(10)

    good(here.run(work))


def test_an_abort_from_another_thread_ends_the_wait_of_a_caller_that_works(fast: MakeWorld) -> None:
    comm = fast(tree=single(2), deadline_us=30_000_000).join(0)
    timer = threading.Timer(0.2, comm.abort)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(AbortedError):
        comm.barrier()
    assert time.monotonic() - begin < 3
    timer.join()


def test_a_close_from_another_thread_ends_the_wait_of_a_caller_that_works(fast: MakeWorld) -> None:
    comm = fast(tree=single(2), deadline_us=30_000_000).join(0)
    timer = threading.Timer(0.2, comm.close)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(AbortedError):
        comm.barrier()
    assert time.monotonic() - begin < 3
    timer.join()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Interrupted(BaseException):
    """As KeyboardInterrupt."""


@pytest.fixture
def alarm() -> Any:
    """Calls an action in a signal handler of the main thread, in some seconds."""
    before = signal.getsignal(signal.SIGALRM)

    def set_alarm(seconds: float, action: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: action())
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupt() -> None:
    raise Interrupted


def test_an_interrupt_while_it_sleeps_ends_the_wait_and_not_the_collective(
    fast: MakeWorld, alarm: Any
) -> None:
    here = fast(tree=single(2), deadline_us=30_000_000)
    comm, other = here.join(0), here.join(1)
    values = np.ones(500, np.int32)  # within a window
    alarm(0.2, interrupt)
    with pytest.raises(Interrupted):
        comm.all_reduce(values)
    assert comm.failure is None
    # Nobody waits for it at rank 0 any more; it is done all the same.
    other.all_reduce(np.ones(500, np.int32))
    handle = comm.barrier(async_op=True)
    other.barrier()
    end = time.monotonic() + 2
    while not handle.done():
        assert time.monotonic() < end, "nobody works for the interrupted caller"
        time.sleep(0.005)
    assert (values == 2).all()


def test_an_interrupt_at_work_ends_the_communicator(fast: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    comm = fast(tree=single(2), deadline_us=30_000_000).join(0)
    take = comm._runtime._take_landed

    def here_only() -> None:
        """Signals are the main thread's."""
        if threading.current_thread() is threading.main_thread():
            interrupt()
        take()

    monkeypatch.setattr(comm._runtime, "_take_landed", here_only)
    handle = comm.barrier(async_op=True)
    with pytest.raises(Interrupted):
        comm.all_reduce(np.ones(1, np.int32))
    assert isinstance(comm.failure, AbortedError)
    assert "interrupted at work" in str(comm.failure)
    with pytest.raises(AbortedError):
        handle.wait(5)


def test_abort_and_close_from_a_signal_handler_of_the_caller_that_works(fast: MakeWorld, alarm: Any) -> None:
    """The lock is the caller's own then."""
    here = fast(tree=single(2), deadline_us=30_000_000)
    comm = here.join(0)
    for action in (comm.abort, comm.close):
        alarm(0.1, action)
        begin = time.monotonic()
        with pytest.raises(AbortedError):
            comm.barrier()
        assert time.monotonic() - begin < 2


def test_an_abort_in_the_middle_of_work(fast: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a signal handler, between two steps."""
    comm = fast(tree=single(1)).join(0)
    work = comm._runtime._line.work

    def aborts() -> None:
        comm.abort()
        work()

    monkeypatch.setattr(comm._runtime._line, "work", aborts)
    with pytest.raises(AbortedError):
        comm.barrier()


def test_what_is_contributed_after_an_abort_in_between_lands_nowhere(
    fast: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    comm = fast(tree=single(1)).join(0)
    contribute = comm._runtime._line.contribute

    def aborts(*arguments: Any) -> int:
        comm.abort()
        return contribute(*arguments)

    monkeypatch.setattr(comm._runtime._line, "contribute", aborts)
    target = np.zeros(100, np.int32)
    with pytest.raises(AbortedError):
        comm.all_reduce(np.ones(100, np.int32), recv=target)
    end = time.monotonic() + 5
    while comm.counters()["rx_result"] == 0:
        assert time.monotonic() < end, "no result came, so none could be kept out"
        time.sleep(0.005)
    assert not target.any()


def test_a_caller_that_vanished_is_replaced(fast: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception may come even where the hand-over is; the background thread serves again then."""
    monkeypatch.setattr("epic_host.runtime._GONE_SECONDS", 0.2)
    comm = fast(tree=single(1)).join(0)
    runtime = comm._runtime
    with runtime._lock:
        runtime._server = -1
        runtime._looked = time.monotonic()
        runtime._behind.ignore()
        runtime._behind.wake()
    begin = time.monotonic()
    comm.barrier(async_op=True).wait(10)
    assert time.monotonic() - begin < 5


# ------------------------------------------------------------------------------------------------- in a stream


def _streams(comm: Communicator) -> list[bool]:
    """What `Line.stream` says from now on, to be looked at later."""
    line: Any = comm._runtime._line
    stream, said = line.stream, []

    def noted(*arguments: Any) -> bool:
        said.append(stream(*arguments))
        return bool(said[-1])

    line.stream = noted
    return said


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy switches"])
def test_large_arrays_go_by_compiled_code_and_are_right(fast: MakeWorld, mode: int, lossy: bool) -> None:
    """Loss, doubles and swaps are the switches' then: the ranks' own loops stay compiled."""
    faults = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.02} if lossy else {}
    here = fast(
        mode=mode, tree=single(2), faults=faults, faulty_ranks=False, engine=f"fast-m{mode}",
        rto_initial_us=20_000, rto_min_us=10_000, datatypes=("INT32", "FP32"),
    )  # fmt: skip

    def work(comm: Communicator) -> int:
        agent: Any = comm._agent
        supplied, fed = agent.supplied, []
        agent.supplied = lambda: fed.append(supplied()) or fed[-1]
        for count in (64 * 40, 64 * 200 + 5, 64 * 33 + 1):
            values = np.arange(count, dtype=np.int32) * (comm.rank + 1)
            got = comm.all_reduce(values, recv=np.zeros(count, np.int32))
            np.testing.assert_array_equal(got, np.arange(count) * 3)
            np.testing.assert_array_equal(values, np.arange(count) * (comm.rank + 1))
            comm.all_reduce(values)
            np.testing.assert_array_equal(values, np.arange(count) * 3)
            comm.broadcast(values, 1)
            parts = comm.reduce_scatter(values, shards=[count - 7, 7])
            assert parts.size == (count - 7, 7)[comm.rank]
        return sum(fed)

    # Not all: of each a window goes before, and one more when nothing has come for long.
    assert all(cells > 100 for cells in good(here.run(work)).values())
    assert all(comm.stats()["faults"].get("lost", 0) == 0 for comm in here.comms.values())


def test_fixed_point_goes_by_compiled_code_too(fast: MakeWorld) -> None:
    here = fast(tree=single(2), engine="fast-m3", datatypes=("INT32",))

    def work(comm: Communicator) -> int:
        said = _streams(comm)
        values = np.linspace(-1, 1, 20_000, dtype=np.float32)
        values[77], values[15_000] = np.inf, np.nan
        wanted = values * 2
        comm.all_reduce(values)
        np.testing.assert_allclose(values, wanted, atol=1e-6)
        return sum(said)

    assert all(streams > 0 for streams in good(here.run(work)).values())


def test_collectives_behind_each_other_end_each_in_its_turn(fast: MakeWorld) -> None:
    """The first streams; the others wait for their place, and for its end."""
    here = fast(tree=single(2), engine="fast-m3")

    def work(comm: Communicator) -> None:
        arrays = [np.full(64 * 30 + i, comm.rank + i, np.int32) for i in range(4)]
        handles = [comm.all_reduce(a, async_op=True) for a in arrays]
        for i, (handle, array) in enumerate(zip(handles, arrays, strict=True)):
            handle.wait(20)
            assert (array == 2 * i + 1).all()

    good(here.run(work))


def test_ranks_that_disagree_in_a_stream_all_get_an_error(fast: MakeWorld) -> None:
    """The first windows agree; then one array has ended, and the other rank learns it from the one who saw it."""
    here = fast(tree=single(2), engine="fast-m3")

    def work(comm: Communicator) -> None:
        with pytest.raises(MismatchError):
            comm.all_reduce(np.ones(64 * (100 if comm.rank else 90) + 7, np.int32))

    good(here.run(work))


def test_other_threads_get_their_turn_while_a_caller_streams(fast: MakeWorld) -> None:
    here = fast(tree=single(2), engine="fast-m3", payload_bytes=1024)

    def work(comm: Communicator) -> float:
        array = np.ones(4_000_000, np.int32)
        waited: list[float] = []

        def other() -> None:
            for _ in range(20):
                begin = time.monotonic()
                with comm._runtime._turn():
                    waited.append(time.monotonic() - begin)
            comm.abort()

        timer = threading.Timer(0.1, other)
        timer.start()
        with pytest.raises((AbortedError, PeerLostError)):
            for _ in range(10_000):
                comm.all_reduce(array)
        timer.join(10)
        assert len(waited) == 20
        return max(waited)

    for seconds in good(here.run(work)).values():
        assert seconds < 2


def test_no_array_is_written_after_an_abort_of_a_stream(fast: MakeWorld) -> None:
    here = fast(tree=single(2), engine="fast-m3", payload_bytes=1024)
    values = np.zeros(3_000_000, np.int32)

    def work(comm: Communicator) -> None:
        if comm.rank == 1:
            with contextlib.suppress(PeerLostError, AbortedError):
                comm.all_reduce(np.ones(values.size, np.int32))
            return
        seen: list[Any] = []

        def aborts() -> None:
            while not values.any():
                time.sleep(0.0005)
            comm.abort()
            seen.append(values.copy())

        thread = threading.Thread(target=aborts)
        thread.start()
        with contextlib.suppress(AbortedError):
            comm.all_reduce(values)
        thread.join(10)
        time.sleep(0.05)
        np.testing.assert_array_equal(values, seen[0])
        here.comms[1].abort()

    good(here.run(work))


# ------------------------------------------------------------------------------------------------- nothing stays


def test_memory_and_descriptors_stay_as_they_are(fast: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    comm = fast(tree=single(1), datatypes=("INT32",)).join(0)
    words, floats = np.ones(500, np.int32), np.ones(500, np.float32)

    def calls(count: int) -> None:
        for i in range(count):
            comm.all_reduce(words)
            comm.barrier(async_op=True).wait()
            # Of ever other sizes, so that no two calls are of one kind.
            comm.all_gather(words[: 1 + i % 400].copy())
            if i % 8 == 0:
                comm.all_reduce(floats)

    # What is remembered of kinds of calls is full then.
    monkeypatch.setattr(Planner, "KINDS", 16)
    calls(40)
    descriptors = _descriptors()
    gc.collect()
    tracemalloc.start()
    calls(20)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    calls(100)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100 * 100, "a hundred bytes a round, or more, stay"
    assert _descriptors() == descriptors


def test_nothing_is_left_of_a_communicator(fast: MakeWorld) -> None:
    here = fast(tree=single(1))
    here.run(lambda comm: comm.barrier())
    here.comms.pop(0).close()
    threads, descriptors = threading.active_count(), _descriptors()
    for _ in range(3):
        here.run(lambda comm: comm.barrier())
        here.comms.pop(0).close()
    assert threading.active_count() == threads
    assert _descriptors() == descriptors


# ------------------------------------------------------------------------------------------------- planted faults


def _deaf(self: Any) -> None:
    """Does nothing."""


FAULTS: dict[str, tuple[Any, str, Any, Any]] = {
    "no wake": (Sleeper, "wake", _deaf, test_what_nobody_waits_for_is_repeated_all_the_same),
    "no hand-over": (
        Runtime, "_get_up", _deaf, test_an_interrupt_while_it_sleeps_ends_the_wait_and_not_the_collective,
    ),
    "an abort that does not forget": (
        Runtime, "_fail",
        lambda self, error: [started.handle._end(error) for started in self._active],
        test_no_array_is_written_after_abort,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_seen(
    name: str, fast: MakeWorld, alarm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, attribute, value, check = FAULTS[name]
    monkeypatch.setattr(target, attribute, value)
    fixtures = {"fast": fast, "alarm": alarm, "monkeypatch": monkeypatch}
    with pytest.raises(AssertionError):
        check(*(fixtures[name] for name in inspect.signature(check).parameters))
    monkeypatch.undo()
