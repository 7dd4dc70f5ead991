"""Write and Read against the server, with bare stubs: every kind of entity, and every refusal with its code."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4d, p4r

from epic_p4.p4runtime.server import P4RuntimeServer
from epic_p4.p4runtime.status import Code
from p4.p4runtime.p4rt_helpers import (
    ARRIVALS,
    CLASSES,
    CLASSIFY,
    DELETE,
    DROP,
    FIXED,
    FORWARD,
    HOSTS,
    INSERT,
    LAST_CLASS,
    MODIFY,
    ROUTE,
    ROUTES,
    SPREAD,
    UNKNOWN,
    RawClient,
    batch_codes,
    batch_errors,
    between,
    device,
    exact,
    frame,
    group,
    host,
    lpm,
    refusal,
    serve,
    table_entry,
    ternary,
    update,
)


@pytest.fixture
def server() -> Iterator[P4RuntimeServer]:
    """A server that runs small.p4."""
    with serve(device()) as running:
        yield running


@pytest.fixture
def client(server: P4RuntimeServer) -> Iterator[RawClient]:
    """Its primary client."""
    with RawClient(server.address) as connected:
        assert connected.arbitrate(1) == Code.OK
        yield connected


@pytest.fixture(scope="module")
def shared() -> Iterator[RawClient]:
    """A client of a server that the tests do not change: what they write is refused."""
    with serve(device()) as running, RawClient(running.address) as connected:
        assert connected.arbitrate(1) == Code.OK
        yield connected


def hosts(client: RawClient) -> list[p4r.TableEntry]:
    """All entries of the table of hosts."""
    return [e.table_entry for e in client.read(table_entry(HOSTS))]


def test_an_entry_forwards_packets_and_is_read_as_it_was_written(
    server: P4RuntimeServer, client: RawClient
) -> None:
    assert server.process(1, frame(2)) == []
    entry = host(2, 5)
    entry.table_entry.metadata = b"mine"
    entry.table_entry.controller_metadata = 77
    client.write(update(INSERT, entry))
    assert server.process(1, frame(2)) == [(5, frame(2))]
    assert client.read(table_entry(HOSTS)) == [entry]
    client.write(update(MODIFY, host(2, 6)))
    assert server.process(1, frame(2)) == [(6, frame(2))]
    assert client.read(table_entry(HOSTS)) == [host(2, 6)]
    client.write(update(DELETE, table_entry(HOSTS, [exact(1, b"\2")])))
    assert server.process(1, frame(2)) == []
    assert hosts(client) == []


def test_prefixes_ternary_and_range_entries_are_read_as_they_were_written(client: RawClient) -> None:
    route = table_entry(ROUTES, [lpm(1, b"\x0a\0\0\0", 8)], ROUTE, [b"\2", b"\3"])
    anything = table_entry(ROUTES, [], ROUTE, [b"\2", b"\4"])
    kind = exact(2, b"\x08\0")
    classes = [
        table_entry(CLASSES, [ternary(1, b"\1", b"\x0f"), kind], CLASSIFY, [b"\x09"], priority=10),
        table_entry(CLASSES, [kind, between(3, b"\1", b"\4")], CLASSIFY, [b"\x0a"], priority=9),
        table_entry(CLASSES, [kind], CLASSIFY, [b"\x0b"], priority=1),
    ]
    client.write(*(update(INSERT, entry) for entry in (route, anything, *classes)))
    found = client.read(table_entry(ROUTES)) + client.read(table_entry(CLASSES))
    assert sorted(map(str, found)) == sorted(map(str, [route, anything, *classes]))


def test_the_same_match_with_another_priority_is_another_entry(client: RawClient) -> None:
    one, two = (table_entry(CLASSES, [exact(2, b"\x08\0")], CLASSIFY, [b"\1"], priority=p) for p in (1, 2))
    client.write(update(INSERT, one), update(INSERT, two))
    client.write(update(DELETE, one))
    assert client.read(table_entry(CLASSES)) == [two]


def test_reads_are_filtered_by_match_action_priority_and_metadata(client: RawClient) -> None:
    entries = [host(2, 5), host(3, 5), host(4, 5)]
    entries[1].table_entry.metadata = b"mine"
    client.write(*(update(INSERT, entry) for entry in entries))
    assert client.read(table_entry(HOSTS, [exact(1, b"\3")])) == [entries[1]]
    assert client.read(table_entry(HOSTS, [exact(1, b"\x63")])) == []
    assert client.read(table_entry(HOSTS, metadata=b"mine")) == [entries[1]]
    assert len(client.read(table_entry(HOSTS, [], FORWARD))) == 3
    assert client.read(table_entry(HOSTS, [], UNKNOWN)) == []
    every = client.read(table_entry(0))
    assert {e.table_entry.table_id for e in every} == {HOSTS, FIXED}


def test_constant_entries_are_read_and_cannot_be_written(client: RawClient) -> None:
    entries = [e.table_entry for e in client.read(table_entry(FIXED))]
    assert [(e.match[0].exact.value, e.action.action.action_id, e.is_const) for e in entries] == [
        (b"\x88\xb5", SPREAD, True),
        (b"\x88\xb6", DROP, True),
    ]
    with pytest.raises(grpc.RpcError) as error:
        client.write(
            update(INSERT, table_entry(FIXED, [exact(1, b"\1")], DROP)),
            update(MODIFY, table_entry(FIXED, [exact(1, b"\x88\xb5")], DROP)),
            update(DELETE, table_entry(FIXED, [exact(1, b"\x88\xb5")])),
            update(DELETE, table_entry(FIXED, [exact(1, b"\1")])),
        )
    assert batch_codes(error) == [Code.PERMISSION_DENIED] * 4


def test_a_default_action_is_modified_and_reset(server: P4RuntimeServer, client: RawClient) -> None:
    (before,) = client.read(table_entry(ROUTES, is_default_action=True))
    assert before == table_entry(ROUTES, [], DROP, is_default_action=True)
    client.write(update(MODIFY, table_entry(ROUTES, [], ROUTE, [b"\2", b"\3"], is_default_action=True)))
    (now,) = client.read(table_entry(ROUTES, is_default_action=True))
    assert now.table_entry.action.action.action_id == ROUTE
    client.write(update(MODIFY, table_entry(ROUTES, is_default_action=True)))
    assert client.read(table_entry(ROUTES, is_default_action=True)) == [before]
    assert len(client.read(table_entry(0, is_default_action=True))) == 4


E = Code
# (type, entity, code, a part of the message)
BAD_UPDATES = [
    (INSERT, table_entry(0x02FFFFFF), E.NOT_FOUND, "table id 0x2ffffff: unknown"),
    (INSERT, table_entry(HOSTS, [], FORWARD, [b"\1"]), E.INVALID_ARGUMENT, "key dst is missing"),
    (INSERT, table_entry(HOSTS, [exact(1, b"")], FORWARD, [b"\1"]), E.OUT_OF_RANGE, "empty byte string"),
    (INSERT, table_entry(HOSTS, [exact(1, b"\1" * 7)], FORWARD, [b"\1"]), E.OUT_OF_RANGE, "bit<48>"),
    (
        INSERT,
        table_entry(HOSTS, [exact(9, b"\1")], FORWARD, [b"\1"]),
        E.INVALID_ARGUMENT,
        "match field id 0x9",
    ),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1"), exact(1, b"\1")], FORWARD, [b"\1"]),
        E.INVALID_ARGUMENT,
        "key dst is given twice",
    ),
    (
        INSERT,
        table_entry(HOSTS, [lpm(1, b"\1", 48)], FORWARD, [b"\1"]),
        E.INVALID_ARGUMENT,
        "match is lpm, expected exact",
    ),
    (INSERT, table_entry(HOSTS, [exact(1, b"\1")]), E.INVALID_ARGUMENT, "action is missing"),
    (INSERT, table_entry(HOSTS, [exact(1, b"\1")], 0x01FFFFFF), E.INVALID_ARGUMENT, "action id 0x1ffffff"),
    (INSERT, table_entry(HOSTS, [exact(1, b"\1")], ROUTE), E.INVALID_ARGUMENT, "may not stand in an entry"),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], UNKNOWN),
        E.PERMISSION_DENIED,
        "may not stand in an entry",
    ),
    (INSERT, table_entry(HOSTS, [exact(1, b"\1")], FORWARD), E.INVALID_ARGUMENT, "parameter port is missing"),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], FORWARD, [b"\2\0"]),
        E.INVALID_ARGUMENT,
        "expected a bit<9>",
    ),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], FORWARD, [b"\1", b"\1"]),
        E.INVALID_ARGUMENT,
        "parameter id 0x2",
    ),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], FORWARD, [b"\1"], priority=1),
        E.INVALID_ARGUMENT,
        "priority = 1, expected 0",
    ),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], FORWARD, [b"\1"], is_const=True),
        E.INVALID_ARGUMENT,
        "is_const",
    ),
    (
        INSERT,
        table_entry(HOSTS, [exact(1, b"\1")], FORWARD, [b"\1"], idle_timeout_ns=5),
        E.INVALID_ARGUMENT,
        "idle timeouts are not supported",
    ),
    (MODIFY, host(9), E.NOT_FOUND, "no entry"),
    (DELETE, host(9), E.NOT_FOUND, "no entry"),
    (
        INSERT,
        table_entry(CLASSES, [exact(2, b"\1")], CLASSIFY, [b"\1"]),
        E.INVALID_ARGUMENT,
        "priority = 0, expected a positive",
    ),
    (
        INSERT,
        table_entry(CLASSES, [exact(2, b"\1"), ternary(1, b"\0", b"\0")], CLASSIFY, [b"\1"], priority=1),
        E.INVALID_ARGUMENT,
        "mask 0",
    ),
    (
        INSERT,
        table_entry(CLASSES, [exact(2, b"\1"), ternary(1, b"\3", b"\1")], CLASSIFY, [b"\1"], priority=1),
        E.INVALID_ARGUMENT,
        "bits outside its mask",
    ),
    (
        INSERT,
        table_entry(CLASSES, [exact(2, b"\1"), between(3, b"\4", b"\3")], CLASSIFY, [b"\1"], priority=1),
        E.INVALID_ARGUMENT,
        "expected low <= high",
    ),
    (
        INSERT,
        table_entry(CLASSES, [exact(2, b"\1"), between(3, b"\0", b"\1\xff")], CLASSIFY, [b"\1"], priority=1),
        E.INVALID_ARGUMENT,
        "all values",
    ),
    (
        INSERT,
        table_entry(ROUTES, [lpm(1, b"\x0a\0\0\1", 8)], ROUTE, [b"\1", b"\1"]),
        E.INVALID_ARGUMENT,
        "bits behind its prefix",
    ),
    (
        INSERT,
        table_entry(ROUTES, [lpm(1, b"\0", 0)], ROUTE, [b"\1", b"\1"]),
        E.INVALID_ARGUMENT,
        "prefix length 0",
    ),
    (
        INSERT,
        table_entry(ROUTES, [], DROP, is_default_action=True),
        E.INVALID_ARGUMENT,
        "can only be modified",
    ),
    (
        MODIFY,
        table_entry(ROUTES, [lpm(1, b"\x0a\0\0\0", 8)], DROP, is_default_action=True),
        E.INVALID_ARGUMENT,
        "no match and no priority",
    ),
    (
        MODIFY,
        table_entry(CLASSES, [], CLASSIFY, [b"\1"], is_default_action=True),
        E.PERMISSION_DENIED,
        "default action is constant",
    ),
    (
        MODIFY,
        table_entry(FIXED, [], DROP, is_default_action=True),
        E.PERMISSION_DENIED,
        "may not stand as the default action",
    ),
    (0, host(9), E.INVALID_ARGUMENT, "update type 0"),
    (INSERT, p4r.Entity(), E.INVALID_ARGUMENT, "entity: it is empty"),
    (INSERT, p4r.Entity(meter_entry=p4r.MeterEntry()), E.UNIMPLEMENTED, "meters are not supported"),
    (INSERT, p4r.Entity(digest_entry=p4r.DigestEntry()), E.UNIMPLEMENTED, "digests are not supported"),
    (INSERT, group(0, (1, 1)), E.INVALID_ARGUMENT, "multicast group 0: expected 1 to 65535"),
    (INSERT, group(3, (1, 1), (1, 1)), E.INVALID_ARGUMENT, "a replica is given twice"),
    (INSERT, group(3, (1, 1 << 16)), E.INVALID_ARGUMENT, "instance 65536"),
    (MODIFY, group(3, (1, 1)), E.NOT_FOUND, "multicast group 3: there is none"),
    (DELETE, group(3), E.NOT_FOUND, "multicast group 3: there is none"),
    (
        MODIFY,
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ARRIVALS, index=p4r.Index(index=16))),
        E.OUT_OF_RANGE,
        "index 16, expected 0 to 15",
    ),
    (
        MODIFY,
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ARRIVALS, index=p4r.Index(index=-1))),
        E.INVALID_ARGUMENT,
        "index -1",
    ),
    (
        INSERT,
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ARRIVALS)),
        E.INVALID_ARGUMENT,
        "only be modified",
    ),
    (MODIFY, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=3)), E.NOT_FOUND, "counter id 0x3"),
    (
        MODIFY,
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=LAST_CLASS)),
        E.INVALID_ARGUMENT,
        "data is missing",
    ),
    (
        MODIFY,
        p4r.Entity(
            register_entry=p4r.RegisterEntry(register_id=LAST_CLASS, data=p4d.P4Data(bitstring=b"\1" * 5))
        ),
        E.OUT_OF_RANGE,
        "expected a bit<32>",
    ),
    (
        MODIFY,
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=LAST_CLASS, data=p4d.P4Data(bool=True))),
        E.INVALID_ARGUMENT,
        "data is bool",
    ),
]


@pytest.mark.parametrize(("kind", "entity", "code", "message"), BAD_UPDATES)
def test_what_is_wrong_is_refused_with_its_code_and_changes_nothing(
    shared: RawClient, kind: int, entity: p4r.Entity, code: Code, message: str
) -> None:
    everything = [
        table_entry(0),
        table_entry(0, is_default_action=True),
        group(0),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(register_entry=p4r.RegisterEntry()),
    ]
    before = shared.read(*everything)
    with pytest.raises(grpc.RpcError) as error:
        shared.write(update(kind, entity))
    (refused,) = batch_errors(error)
    assert (Code(refused.canonical_code), message in refused.message) == (code, True), refused
    assert "\n" not in refused.message
    assert shared.read(*everything) == before


def test_duplicates_and_a_full_table(client: RawClient) -> None:
    client.write(*(update(INSERT, host(mac)) for mac in (1, 2, 3, 4)))
    with pytest.raises(grpc.RpcError) as error:
        client.write(update(INSERT, host(1)), update(INSERT, host(5)), update(MODIFY, host(4, 9)))
    assert batch_codes(error) == [Code.ALREADY_EXISTS, Code.RESOURCE_EXHAUSTED, Code.OK]
    assert len(hosts(client)) == 4
    assert hosts(client)[3].action.action.params[0].value == b"\x09"


@pytest.mark.parametrize("atomicity", [1, 2])
def test_all_or_none_undoes_every_kind_of_update(
    server: P4RuntimeServer, client: RawClient, atomicity: int
) -> None:
    client.write(update(INSERT, host(1)), update(INSERT, host(2, 3)), update(INSERT, group(4, (1, 1))))
    server.process(3, frame(2))
    everything = [
        table_entry(0, counter_data=p4r.CounterData()),
        table_entry(0, is_default_action=True),
        group(0),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(register_entry=p4r.RegisterEntry()),
    ]
    before = client.read(*everything)
    data = p4r.CounterData(packet_count=99, byte_count=98)
    with pytest.raises(grpc.RpcError) as error:
        client.write(
            update(INSERT, host(3)),
            update(MODIFY, host(1, 9)),
            update(DELETE, host(2)),
            update(MODIFY, table_entry(ROUTES, [], ROUTE, [b"\1", b"\1"], is_default_action=True)),
            update(INSERT, group(5, (2, 2))),
            update(MODIFY, group(4, (7, 7))),
            update(MODIFY, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ARRIVALS, data=data))),
            update(
                MODIFY,
                p4r.Entity(
                    register_entry=p4r.RegisterEntry(register_id=LAST_CLASS, data=p4d.P4Data(bitstring=b"\5"))
                ),
            ),
            update(DELETE, host(9)),
            update(INSERT, host(7)),
            atomicity=atomicity,
        )
    assert batch_codes(error) == [Code.ABORTED] * 8 + [Code.NOT_FOUND, Code.ABORTED]
    assert client.read(*everything) == before
    assert server.process(1, frame(2)) == [(3, frame(2))]


def test_an_unknown_atomicity_is_refused(client: RawClient) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.write(update(INSERT, host(1)), atomicity=7)
    assert refusal(error)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_multicast_groups_replicate_and_are_read_as_they_were_written(
    server: P4RuntimeServer, client: RawClient
) -> None:
    flood = group(7, (1, 10), (2, 20))
    client.write(update(INSERT, flood))
    packet = frame(5, 0x88B5)
    assert server.process(3, packet) == [(1, packet), (2, packet)]
    new = group(8)
    entry = new.packet_replication_engine_entry.multicast_group_entry
    entry.replicas.add(port=b"\x04", instance=1)
    entry.metadata = b"tag"
    client.write(update(INSERT, new))
    assert client.read(group(0)) == [flood, new]
    assert client.read(group(8)) == [new]
    assert client.read(group(9)) == []
    client.write(update(MODIFY, group(7, (4, 1))))
    assert server.process(3, packet) == [(4, packet)]
    client.write(update(DELETE, group(7)))
    assert server.process(3, packet) == []


def test_clone_sessions_are_read_as_they_were_written(client: RawClient) -> None:
    session = p4r.CloneSessionEntry(session_id=3, packet_length_bytes=64)
    session.replicas.add(egress_port=2, instance=1)
    entity = p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(clone_session_entry=session)
    )
    client.write(update(INSERT, entity))
    everything = p4r.Entity()
    everything.packet_replication_engine_entry.clone_session_entry.session_id = 0
    assert client.read(everything) == [entity]
    client.write(update(DELETE, entity))
    assert client.read(everything) == []


def test_counters_count_are_set_and_are_cleared(server: P4RuntimeServer, client: RawClient) -> None:
    for _ in range(3):
        server.process(4, frame(2))
    cell = p4r.CounterEntry(counter_id=ARRIVALS, index=p4r.Index(index=4))
    (found,) = client.read(p4r.Entity(counter_entry=cell))
    assert found.counter_entry.data == p4r.CounterData(packet_count=3, byte_count=3 * len(frame(2)))
    cell.data.packet_count = 40
    client.write(update(MODIFY, p4r.Entity(counter_entry=cell)))
    cells = [
        e.counter_entry for e in client.read(p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=ARRIVALS)))
    ]
    assert {c.index.index: c.data.packet_count for c in cells} == {i: 40 * (i == 4) for i in range(16)}
    clear = p4r.CounterEntry(counter_id=ARRIVALS, data=p4r.CounterData())
    client.write(update(MODIFY, p4r.Entity(counter_entry=clear)))
    assert all(not e.counter_entry.data.packet_count for e in client.read(p4r.Entity(counter_entry=clear)))


def test_direct_counters_belong_to_their_entry(server: P4RuntimeServer, client: RawClient) -> None:
    client.write(update(INSERT, host(2, 5)), update(INSERT, host(3, 5)))
    server.process(1, frame(2))
    server.process(1, frame(2))
    asked = table_entry(HOSTS, counter_data=p4r.CounterData())
    counts = {e.table_entry.match[0].exact.value: e.table_entry.counter_data for e in client.read(asked)}
    assert counts[b"\2"] == p4r.CounterData(packet_count=2, byte_count=2 * len(frame(2)))
    assert counts[b"\3"].packet_count == 0
    assert not hosts(client)[0].HasField("counter_data")
    direct = p4r.DirectCounterEntry(table_entry=table_entry(HOSTS, [exact(1, b"\2")]).table_entry)
    (found,) = client.read(p4r.Entity(direct_counter_entry=direct))
    assert found.direct_counter_entry.data.packet_count == 2
    direct.data.packet_count = 7
    client.write(update(MODIFY, p4r.Entity(direct_counter_entry=direct)))
    (found,) = client.read(p4r.Entity(direct_counter_entry=direct))
    assert found.direct_counter_entry.data.packet_count == 7
    absent = p4r.DirectCounterEntry(table_entry=table_entry(HOSTS, [exact(1, b"\x09")]).table_entry)
    with pytest.raises(grpc.RpcError) as error:
        client.read(p4r.Entity(direct_counter_entry=absent))
    assert batch_codes(error) == [Code.NOT_FOUND]
    routes = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=ROUTES))
    with pytest.raises(grpc.RpcError) as error:
        client.read(p4r.Entity(direct_counter_entry=routes))
    assert batch_codes(error) == [Code.INVALID_ARGUMENT]


def test_registers_are_read_and_written(server: P4RuntimeServer, client: RawClient) -> None:
    client.write(
        update(INSERT, table_entry(CLASSES, [exact(2, b"\x12\x34")], CLASSIFY, [b"\x2a"], priority=1))
    )
    server.process(6, frame(2))
    cell = p4r.RegisterEntry(register_id=LAST_CLASS, index=p4r.Index(index=6))
    (found,) = client.read(p4r.Entity(register_entry=cell))
    assert found.register_entry.data.bitstring == b"\x2a"
    cell.data.bitstring = b"\0\0\1\0"
    client.write(update(MODIFY, p4r.Entity(register_entry=cell)))
    everything = client.read(p4r.Entity(register_entry=p4r.RegisterEntry()))
    values = [e.register_entry.data.bitstring for e in everything]
    assert values == [b"\1\0" if i == 6 else b"\0" for i in range(8)]


def test_a_read_gives_what_it_can_and_says_the_rest(client: RawClient) -> None:
    client.write(update(INSERT, host(1)))
    entities: list[p4r.Entity] = []
    with pytest.raises(grpc.RpcError) as error:
        request = p4r.ReadRequest(
            device_id=1,
            entities=[table_entry(HOSTS), table_entry(5), p4r.Entity(), group(0)],
        )
        for response in client.stub.Read(request, timeout=5):
            entities += response.entities
    assert entities == [host(1)]
    assert batch_codes(error) == [Code.OK, Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.OK]


def test_many_entities_come_in_several_messages(client: RawClient) -> None:
    groups = [update(INSERT, group(n, (1, 1))) for n in range(1, 1001)]
    client.write(*groups)
    request = p4r.ReadRequest(device_id=1, entities=[group(0)])
    sizes = [len(response.entities) for response in client.stub.Read(request, timeout=5)]
    assert (sum(sizes), len(sizes) > 1) == (1000, True)
