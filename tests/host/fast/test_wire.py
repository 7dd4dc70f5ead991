"""Datagrams by the compiled code against the codec: same bytes out, same fields and same reasons in."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from epic_host.fast import wire
from epic_host.fast.crc import crc_update
from epic_host.fast.frames import (
    FRAME,
    INDEX,
    RIGHT,
    WRONG,
    Arrivals,
    EdgeTable,
    as_dict,
    counters,
    departures,
    find_edge,
)
from epic_models.reference.endpoint import EngineBase
from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_models.reference.interfaces import Output
from epic_models.reference.registry import make_engine
from epic_spec import codec
from epic_spec.addresses import ip_number
from epic_spec.errors import ConfigError, WireError
from epic_spec.packets import NULL_BIT, Aeth, Descriptor, Packet
from epic_spec.tables import Datatype, Opcode, Operator, Primitive

HERE, THERE = "127.0.0.10", "127.0.0.11"
IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, 0xFFFF, tag=5).pack()


def edge(qpn: int = 0x111, port: int = 2, peer: str = THERE) -> Edge:
    return Edge(
        f"e{qpn}",
        port,
        Endpoint(HERE, qpn, codec.mac_of_ip(HERE)),
        Endpoint(peer, 0xABCDE, codec.mac_of_ip(peer)),
        psn_tx=0xFFFFF0,
        psn_rx=7,
    )


def params(**changes: object) -> GroupParams:
    return GroupParams(group=1, mode=3, world_size=4, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 60, 64, 1021, 1024, 8192])
@pytest.mark.parametrize("icrc", ["full", "none"])
def test_a_frame_out_is_the_codecs(length, icrc):
    table = EdgeTable()
    way = edge()
    row = table.add(way, params(icrc=icrc), 0, 0)
    payload = np.zeros(length + (-length & 3), np.uint8)
    payload[:length] = np.random.default_rng(length).integers(0, 256, length)
    out = departures(4)
    imm = IMM if length else IMM | NULL_BIT
    register = crc_update(0, payload.ctypes.data, payload.size)
    wire.depart(
        out,
        table.rows,
        row,
        int(Opcode.SEND_ONLY_IMM),
        0x1000003,
        imm,
        True,
        payload.ctypes.data,
        length,
        register,
        False,
    )
    packet = way.packet(Opcode.SEND_ONLY_IMM, 0x13, imm=imm, payload=payload[:length].tobytes(), ackreq=True)
    assert packet.psn == 3
    wanted = codec.encode_datagram(packet, icrc=icrc == "full")
    assert out.count[0] == 1
    assert out.head[0].tobytes() + payload.tobytes() + out.tail[0].tobytes() == wanted
    assert (out.length[0], out.edge[0], out.ecn[0]) == (payload.size, row, 2)


def test_acknowledgements_and_marks_out():
    table = EdgeTable()
    way = edge()
    row = table.add(way, params(), 0, 0)
    out = departures(4)
    word = 0x60 << 24 | 5
    wire.depart(out, table.rows, row, int(Opcode.ACK), 9, word, False, 0, 0, 0, True)
    packet = way.packet(Opcode.ACK, 2, aeth=Aeth(0x60, 5))
    assert packet.psn == 9
    assert out.head[0].tobytes() + out.tail[0].tobytes() == codec.encode_datagram(packet)
    assert out.ecn[0] == 3


def mutated(data: bytes, random_: random.Random) -> bytes:
    kind = random_.randrange(8)
    if kind == 0:
        return data[: random_.randrange(len(data) + 1)]
    if kind == 1:
        return data + random_.randbytes(random_.randrange(1, 9))
    if kind == 2:
        return random_.randbytes(random_.randrange(40))
    changed = bytearray(data)
    for _ in range(random_.randrange(1, 3)):
        place = random_.randrange(min(len(data), 20)) if kind < 7 else random_.randrange(len(data))
        changed[place] = random_.randrange(256)
    if kind in (4, 5) and len(changed) >= 16:
        # With the ICRC that belongs to it, so that what is behind it is reached.
        frame = codec.frame_of_datagram(bytes(changed), THERE, HERE)
        return codec.with_icrc(frame)[42:]
    return bytes(changed)


def some_packet(random_: random.Random) -> Packet:
    way = edge()
    opcode = random_.choice([Opcode.SEND_ONLY_IMM] * 4 + [Opcode.ACK] * 2 + list(Opcode))
    imm = aeth = None
    payload = b""
    if opcode is Opcode.ACK:
        aeth = Aeth(random_.choice([0x1F, 0x60, 0x2B]), random_.getrandbits(24))
    else:
        payload = random_.randbytes(random_.choice([0, 1, 3, 4, 64, 200]))
        if opcode in (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM):
            imm = IMM if payload or opcode is Opcode.SEND_LAST_IMM else IMM | NULL_BIT
    packet = Packet(
        opcode, THERE, HERE, random_.choice([way.local.qpn] * 6 + [5]), random_.getrandbits(24), payload, imm, aeth,
        random_.random() < 0.5, random_.choice([0xFFFF] * 6 + [1]),
    )  # fmt: skip
    return replace(packet, resv8a=random_.choice([0, 0, 9]), fecn=random_.random() < 0.2)


class Seen(EngineBase):
    """The reference's admission alone."""

    MODE = 3

    def __init__(self) -> None:
        super().__init__()
        self.admitted: list[Packet] = []

    def _make(self, entry, counters):
        engine = make_engine(3)._make(entry, counters)
        engine.on_child = lambda child, packet, now: self.admitted.append(packet) or Output()
        return engine


def reference(cases: list[tuple[bytes, str, int, int]], icrc: str) -> tuple[dict[str, int], list[Packet]]:
    engine = Seen()
    engine.install(EngineGroup(params(icrc=icrc), (edge(), edge(0x222, 3, "127.0.0.12"))), 0.0)
    counts = engine._count
    for data, source, port, ecn in cases:
        try:
            packet = codec.decode_datagram(data, source, HERE, ecn=ecn, icrc="check")
        except WireError as error:
            counts["rx_frames"] += 1
            counts.drop(error.reason)
            continue
        if port < 0:
            counts["rx_frames"] += 1
            counts.drop("wrong_port")
        else:
            engine.receive(port, packet, 0.0)
    return engine.counters(), engine.admitted


@pytest.mark.parametrize("icrc", ["full", "none"])
def test_every_frame_has_the_references_fate(icrc):
    random_ = random.Random(icrc)
    cases = []
    for _ in range(3000):
        data = codec.encode_datagram(some_packet(random_))
        if random_.random() < 0.6:
            data = mutated(data, random_)
        source = random_.choice([THERE] * 8 + ["127.0.0.12", "127.0.0.99"])
        cases.append((data, source, random_.choice([2] * 8 + [3, -1]), random_.choice([2, 2, 3])))
    wanted, packets = reference(cases, icrc)
    table, counts = EdgeTable(2), counters()
    table.add(edge(), params(icrc=icrc), 0, 0)
    table.add(edge(0x222, 3, "127.0.0.12"), params(icrc=icrc), 0, 1)
    arrivals = Arrivals(len(cases), 1 << 20)
    for data, source, port, ecn in cases:
        arrivals.append(data, ip_number(source), port, 4791, ecn)
    frames = np.zeros(len(cases), FRAME)
    wire.admit(
        arrivals.arena.ctypes.data,
        arrivals.records,
        0,
        len(cases),
        ip_number(HERE),
        table.rows,
        table.places,
        counts,
        frames,
    )
    assert as_dict(counts) == wanted
    kept = frames[frames["edge"] >= 0]
    assert len(kept) == len(packets) > 350
    for frame, packet in zip(kept, packets, strict=True):
        word = packet.imm if packet.aeth is None else packet.aeth.syndrome << 24 | packet.aeth.msn
        assert (frame["psn"], frame["opcode"], frame["ackreq"], frame["word"]) == (
            packet.psn, packet.opcode, packet.ackreq, word or 0,
        )  # fmt: skip
        assert frame["ce"] == (packet.ecn == 3)
        start = frame["offset"]
        assert arrivals.arena[start : start + frame["length"]].tobytes() == packet.payload
    assert sum(n > 0 for name, n in wanted.items() if name.startswith("drop_")) >= (
        11 if icrc == "full" else 10
    )


def test_an_icrc_that_was_looked_at_is_not_looked_at_again():
    table, counts = EdgeTable(), counters()
    table.add(edge(), params(), 0, 0)
    good = codec.encode_datagram(Packet(Opcode.SEND_ONLY_IMM, THERE, HERE, 0x111, 1, b"1234", IMM))
    arrivals = Arrivals(4, 1024)
    arrivals.append(good, ip_number(THERE), 2, 4791, 2, WRONG)
    arrivals.append(good[:-1] + b"?", ip_number(THERE), 2, 4791, 2, RIGHT)
    frames = np.zeros(2, FRAME)
    wire.admit(
        arrivals.arena.ctypes.data,
        arrivals.records,
        0,
        2,
        ip_number(HERE),
        table.rows,
        table.places,
        counts,
        frames,
    )
    assert counts[INDEX["drop_icrc"]] == 1
    assert [*frames["edge"]] == [-1, 0]


def test_edges_come_and_go():
    table = EdgeTable(2)
    rows = [table.add(edge(qpn), params(), 0, 0) for qpn in range(5, 30)]
    assert rows == list(range(25))
    with pytest.raises(ConfigError, match="QPN 0x5 is in use"):
        table.add(edge(5), params(), 0, 0)
    table.remove(3)
    find = find_edge
    assert [find(table.places, table.rows, qpn) for qpn in (5, 8, 29, 99)] == [0, -1, 24, -1]
    assert table.add(edge(0xFFFFFF), params(), 0, 0) == 3
    assert find(table.places, table.rows, 0xFFFFFF) == 3
