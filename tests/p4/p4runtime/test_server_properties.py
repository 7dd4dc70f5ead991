"""Whatever is written: all or none undoes all, answers are those of single updates, and clients go on at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import grpc
from finsy.proto import p4d, p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_p4.control.schema import schema_of
from epic_p4.p4runtime.bundle import load
from epic_p4.p4runtime.forwarding import Forwarding
from epic_p4.p4runtime.status import BatchRefusal, Code
from p4.p4runtime.p4rt_helpers import (
    ARRIVALS,
    CLASSES,
    CLASSIFY,
    DELETE,
    FORWARD,
    HOSTS,
    INSERT,
    LAST_CLASS,
    MODIFY,
    ROUTE,
    ROUTES,
    RawClient,
    device,
    exact,
    frame,
    group,
    host,
    lpm,
    serve,
    small_document,
    table_entry,
    update,
)

PIPELINE = load(small_document())
SCHEMA = schema_of(PIPELINE.info)
EVERYTHING = (
    table_entry(0, counter_data=p4r.CounterData()),
    table_entry(0, is_default_action=True),
    group(0),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
)
SMALL_NUMBER = st.integers(1, 3)


def one_byte(number: int) -> bytes:
    """A byte string."""
    return bytes([number])


hosts_ = st.builds(
    lambda mac, port, note: table_entry(
        HOSTS, [exact(1, one_byte(mac))], FORWARD, [one_byte(port)], metadata=one_byte(note)
    ),
    st.integers(1, 6),
    SMALL_NUMBER,
    SMALL_NUMBER,
)
routes = st.builds(
    lambda net, port: table_entry(
        ROUTES, [lpm(1, bytes([10, net, 0, 0]), 16)], ROUTE, [b"\1", one_byte(port)]
    ),
    SMALL_NUMBER,
    SMALL_NUMBER,
)
classes = st.builds(
    lambda priority, value: table_entry(
        CLASSES, [exact(2, b"\x08\0")], CLASSIFY, [one_byte(value)], priority=priority
    ),
    st.integers(0, 3),
    SMALL_NUMBER,
)
defaults = st.builds(
    lambda port: table_entry(ROUTES, [], ROUTE, [b"\1", one_byte(port)], is_default_action=True), SMALL_NUMBER
)
groups = st.builds(
    lambda number, ports: group(number, *((p, 1) for p in ports)),
    st.integers(0, 3),
    st.sets(SMALL_NUMBER, max_size=3),
)
counters = st.builds(
    lambda index, count: p4r.Entity(
        counter_entry=p4r.CounterEntry(
            counter_id=ARRIVALS, index=p4r.Index(index=index), data=p4r.CounterData(packet_count=count)
        )
    ),
    st.integers(14, 17),
    SMALL_NUMBER,
)
registers = st.builds(
    lambda index, value: p4r.Entity(
        register_entry=p4r.RegisterEntry(
            register_id=LAST_CLASS, index=p4r.Index(index=index), data=p4d.P4Data(bitstring=one_byte(value))
        )
    ),
    st.integers(6, 8),
    SMALL_NUMBER,
)
updates = st.builds(
    update,
    st.sampled_from([INSERT, MODIFY, DELETE]),
    st.one_of(hosts_, routes, classes, defaults, groups, counters, registers),
)
batches = st.lists(updates, min_size=1, max_size=12)


def outcome(forwarding: Forwarding, batch: list[p4r.Update], atomicity: int) -> list[int]:
    """The codes of a batch."""
    try:
        forwarding.write(batch, atomicity)
    except BatchRefusal as refusal:
        return [Code.OK if result is None else result.code for result in refusal.results]
    return [Code.OK] * len(batch)


def state(forwarding: Forwarding) -> list[str]:
    """Everything that can be read, in any order."""
    return sorted(map(str, forwarding.read(EVERYTHING)))


@settings(deadline=None)
@given(batches, batches, st.sampled_from([1, 2]))
def test_all_or_none_leaves_all_or_none(
    before: list[p4r.Update], batch: list[p4r.Update], atomicity: int
) -> None:
    one, other = (Forwarding(PIPELINE.make_switch(), SCHEMA) for _ in range(2))
    for forwarding in (one, other):
        outcome(forwarding, before, 0)
    start = state(one)
    codes = outcome(one, batch, atomicity)
    if set(codes) == {Code.OK}:
        assert outcome(other, batch, 0) == codes
        assert state(one) == state(other)
    else:
        assert state(one) == start
        refused = [code for code in codes if code is not Code.ABORTED]
        assert len(refused) == 1


@settings(deadline=None)
@given(batches)
def test_a_batch_answers_as_its_updates_would_one_by_one(batch: list[p4r.Update]) -> None:
    together, alone = (Forwarding(PIPELINE.make_switch(), SCHEMA) for _ in range(2))
    codes = outcome(together, batch, 0)
    assert codes == [code for one in batch for code in outcome(alone, [one], 0)]
    assert state(together) == state(alone)


def test_packets_writes_reads_and_arbitration_go_on_at_once() -> None:
    """Three writers hand the switch over to each other while packets pass and readers read."""
    with serve(device()) as server:
        stop = time.monotonic() + 2
        done = {"packets": 0, "writes": 0, "reads": 0, "handovers": 0}
        unexpected: list[BaseException] = []

        def run(work: Callable[[], None]) -> threading.Thread:
            def guarded() -> None:
                try:
                    work()
                except BaseException as error:
                    unexpected.append(error)

            thread = threading.Thread(target=guarded)
            thread.start()
            return thread

        def packets() -> None:
            while time.monotonic() < stop:
                assert server.process(1, frame(2)) in ([], [(1, frame(2))])
                done["packets"] += 1

        def reads() -> None:
            with RawClient(server.address) as client:
                while time.monotonic() < stop:
                    assert len(client.read(table_entry(HOSTS))) <= 1
                    done["reads"] += 1

        def writes(number: int) -> None:
            election = number
            while time.monotonic() < stop:
                with RawClient(server.address) as client:
                    election += 3
                    if client.arbitrate(election) == Code.OK:
                        done["handovers"] += 1
                    for kind in (INSERT, DELETE):
                        try:
                            client.write(update(kind, host(2, 1)))
                            done["writes"] += 1
                        except grpc.RpcError as error:
                            codes = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNKNOWN)
                            assert error.code() in codes  # type: ignore[attr-defined]

        threads = [run(packets), run(reads), *(run(lambda n=n: writes(n)) for n in (1, 2, 3))]  # type: ignore[misc]
        for thread in threads:
            thread.join(15)
        assert not [thread for thread in threads if thread.is_alive()]
        assert unexpected == []
        assert min(done.values()) > 0, done
