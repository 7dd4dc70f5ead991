"""The fast engine of Mode III against the reference's, datagram by datagram, with right, wrong, late and broken ones.

Each datagram goes to the reference by itself, as the UDP transport would hand it on, and to the fast engine in a batch
whose departures hold little more than the largest burst. Frames out to the last byte of the ICRC, counters and status
must be equal after each batch.
"""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any
from unittest import mock

import pytest

from epic_host.fast.frames import Arrivals, departures
from epic_host.fast.mode3_engine import FastMode3Engine
from epic_models.reference.endpoint import Counters, EngineCapabilities
from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_models.reference.interfaces import Output
from epic_models.reference.mode3 import Mode3Engine
from epic_spec import codec, psn
from epic_spec.addresses import ip_number
from epic_spec.codec import mac_of_ip
from epic_spec.errors import ConfigError, ResourceError, WireError
from epic_spec.layout import UDP_END
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import UDP_PORT, Opcode, Syndrome

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
RUNS = 30 * SCALE
CAPABILITIES = EngineCapabilities(mode=3, slots=64, window=8, children=5, groups=3)
HERE = "10.0.0.1"
PAYLOAD = 64
TYPES = ("INT32", "FP32", "FP16", "BF16", "INT8", "INT16", "INT64", "FP64")
SIZES = (4, 4, 2, 2, 1, 2, 8, 8)


def group(rng: random.Random, number: int, **changes: Any) -> EngineGroup:
    """One engine's part of a group: children that are hosts or engines, and a parent or none."""
    fan_in = rng.randint(1, 5)
    window = rng.choice([1, 2, 4])
    values: dict[str, Any] = {
        "window": window, "slots": 2 * window * rng.choice([1, 2]), "payload_bytes": PAYLOAD,
        "datatypes": rng.choice([("INT32",), TYPES]), "operators": rng.choice([("SUM",), ("SUM", "MAX", "MIN")]),
        "byte_order": rng.choice(["big", "little"]), "icrc": rng.choice(["full", "full", "none"]),
        "ack_reflection": rng.random() < 0.5, "window_guard": rng.random() < 0.6,
        "conflict_record": rng.random() < 0.7, "partial_format": rng.choice(["input", "fp32"]),
        "ecn": rng.random() < 0.7, "ordered": rng.random() < 0.3, "pkey": rng.choice([0xFFFF, 0x8001]),
    }  # fmt: skip
    params = GroupParams(group=number, mode=3, world_size=8, **(values | changes))
    edges = []
    for i in range(fan_in + 1):
        peer = f"10.0.{number}.{i + 2}"
        edges.append(
            Edge(
                f"n{i}-s", 10 * number + i, Endpoint(HERE, 1000 * number + i, mac_of_ip(HERE)),
                Endpoint(peer, 77 + i, mac_of_ip(peer)), rng.choice([0, 0xFFFFFC, rng.randrange(1 << 24)]),
                rng.choice([0, 0x7FFFFE, 0xFFFFFD]), ranks=tuple(r for r in range(8) if r % fan_in == i),
                peer_is_engine=i == fan_in or rng.random() < 0.3, sport=UDP_PORT,
            )
        )  # fmt: skip
    return EngineGroup(params, tuple(edges[:fan_in]), edges[fan_in] if rng.random() < 0.5 else None)


class Pair:
    """Both engines with the same groups."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.reference, self.fast = Mode3Engine(CAPABILITIES), FastMode3Engine(CAPABILITIES)
        # What the UDP transport drops before an engine sees it.
        self.transport = Counters()
        self.entries: dict[int, EngineGroup] = {}
        self.fronts: dict[int, int] = {}
        self.departures = departures(self.fast.burst + rng.choice([0, 1, 7, 100]))
        self.arrivals = Arrivals(64, 64 * 512)
        self.arrivals.address = ip_number(HERE)
        self.stops = 0

    def install(self, number: int, **changes: Any) -> None:
        """Install a group, in place of one of that number."""
        if number in self.entries:
            self.reference.remove(number)
            self.fast.remove(number)
        entry = self.entries[number] = group(self.rng, number, **changes)
        self.fronts[number] = 0
        for engine in (self.reference, self.fast):
            engine.install(entry, 0.0)

    # ---------------------------------------------------------------------- what arrives

    def datagram(self) -> tuple[bytes, str, int, int]:
        """A datagram that may come next, with its source, the port of that, and its ECN codepoint."""
        number = self.rng.choice(list(self.entries))
        entry = self.entries[number]
        edge = self.rng.choice([*entry.children] * 3 + ([entry.parent] if entry.parent else []))
        if self.rng.random() < 0.05:
            packet = self.acknowledgement(entry, edge)
        else:
            packet = self.data(entry, edge, self.cell(number))
        data = codec.encode_datagram(packet, icrc=entry.params.icrc == "full" or self.rng.random() < 0.3)
        return (
            self.spoiled(data, edge)
            if self.rng.random() < 0.1
            else (data, packet.src_ip, edge.port, packet.ecn)
        )

    def cell(self, number: int) -> int:
        """A cell that is due, or not far from it."""
        params = self.entries[number].params
        machine: Any = self.reference._machine(number)
        front = self.fronts[number]
        front += max(0, *(psn.diff(slot.tag, front & 0xFFFFFF) for slot in machine._slots))
        if machine._slot(front).tag == front & 0xFFFFFF and machine._slot(front).done:
            front += 1
        self.fronts[number] = front
        away = self.rng.choice(
            [0] * 12 + [1, -1, -1, -2, params.slots, -params.slots, params.slots + 1, 1 << 23]
        )
        if away > 1 and self.rng.random() < 0.7:
            away = 0
        return (front + away) & 0xFFFFFF

    def data(self, entry: EngineGroup, edge: Edge, cell: int) -> Packet:
        """A contribution or result; what its cell is follows from the number, but not always."""
        rng, params = self.rng, entry.params
        of_cell = random.Random(f"{params.group} {cell} {rng.random() < 0.01}")
        datatype, operator, primitive = (
            of_cell.randrange(8),
            of_cell.randint(1, 3),
            of_cell.choice([0, 0, 1, 2]),
        )
        if of_cell.random() < 0.9:
            datatype = TYPES.index(of_cell.choice(params.datatypes))
            operator = 1 + ("SUM", "MAX", "MIN").index(of_cell.choice(params.operators))
        rank = of_cell.randrange(9) if primitive == 1 else 0xFFFF
        imm = rank << 16 | primitive << 14 | operator << 12 | datatype << 8 | cell & 63
        size = SIZES[datatype]
        if edge.peer_is_engine and params.partial_format == "fp32" and datatype in (2, 3) and primitive != 2:
            size = 4
        payload = rng.randbytes(of_cell.randint(1, PAYLOAD // max(size, 2) // 2) * size)
        if rng.random() < 0.15:
            imm, payload = imm | NULL_BIT, b""
        elif rng.random() < 0.04:
            imm, payload = rng.choice([
                (imm ^ 1, payload), (imm, payload + payload[:8]), (imm, payload[:-1] or b"x"),
                (imm, bytes(PAYLOAD + 4)), (imm | ERR_BIT, rng.randbytes(16)), (imm | ERR_BIT | NULL_BIT, b""),
                (imm | ERR_BIT | NULL_BIT, rng.randbytes(16)), (imm | ERR_BIT, b"abc"),
            ])  # fmt: skip
        return self.packet(entry, edge, Opcode.SEND_ONLY_IMM, edge.psn_rx + cell, imm=imm, payload=payload)

    def acknowledgement(self, entry: EngineGroup, edge: Edge) -> Packet:
        kind = self.rng.choice([Syndrome.ACK | 31, Syndrome.NAK, Syndrome.RNR_NAK | 3])
        number = edge.psn_tx + self.rng.randrange(9)
        return self.packet(entry, edge, Opcode.ACK, number, aeth=Aeth(kind, self.rng.randrange(1 << 24)))

    def packet(self, entry: EngineGroup, edge: Edge, opcode: Opcode, number: int, **more: Any) -> Packet:
        ecn = 3 if self.rng.random() < 0.1 else 2
        return Packet(
            opcode, edge.peer.ip, HERE, edge.local.qpn, number & 0xFFFFFF, ackreq=self.rng.random() < 0.5,
            pkey=entry.params.pkey, ecn=ecn, **more,
        )  # fmt: skip

    def spoiled(self, data: bytes, edge: Edge) -> tuple[bytes, str, int, int]:
        """The datagram with something wrong, the ICRC right or not; or from somebody else."""
        rng, source, port = self.rng, edge.peer.ip, edge.port
        what = rng.randrange(6)
        if what == 0:
            return data, "10.9.9.9", rng.choice([-1, edge.port]), 2
        if what == 1:
            return data, source, rng.choice([port + 1, -1]), 2
        if what == 2:
            return data[: rng.randrange(len(data))], source, port, 2
        spoiled = bytearray(data)
        spoiled[rng.randrange(16 if what < 5 else len(data))] ^= rng.randrange(1, 256)
        if rng.random() < 0.7:
            frame = codec.frame_of_datagram(bytes(spoiled), source, HERE)
            spoiled = bytearray(codec.with_icrc(frame)[UDP_END:])
        return bytes(spoiled), source, port, 2

    # ---------------------------------------------------------------------- what happens

    def arrive(self, *datagrams: tuple[bytes, str, int, int]) -> None:
        """So many datagrams in one batch."""
        expected = Output()
        self.arrivals.clear()
        for data, source, port, ecn in datagrams:
            self.to_reference(expected, data, source, port, ecn)
            self.arrivals.append(data, ip_number(source), port, UDP_PORT, ecn)
        sent: list[tuple[int, int, bytes]] = []
        done = 0
        while done < len(datagrams):
            before, done = done, self.fast.receive_batch(self.arrivals, done, self.departures, 0.0)
            assert done > before or self.departures.count[0], "no progress with empty departures"
            self.stops += done < len(datagrams)
            sent += self.flush()
        frames = [(port, p.ecn, codec.encode_datagram(p, icrc=p.icrc_ok)) for port, p in expected.sends]
        assert sent == frames
        counters = self.reference.counters()
        assert self.fast.counters() == {name: n + self.transport[name] for name, n in counters.items()}
        assert self.fast.take_events() == expected.events == []
        for number in self.entries:
            assert self.fast.status(number) == self.reference.status(number)

    def to_reference(self, expected: Output, data: bytes, source: str, port: int, ecn: int) -> None:
        """As epic_host.transport.udp and the driver do."""
        try:
            packet = codec.decode_datagram(data, source, HERE, ecn=ecn, icrc="check")
        except WireError as error:
            self.transport["rx_frames"] += 1
            self.transport.drop(error.reason)
            return
        if port < 0:
            self.transport["rx_frames"] += 1
            self.transport.drop("wrong_port")
            return
        expected.extend(self.reference.receive(port, packet, 0.0))

    def flush(self) -> list[tuple[int, int, bytes]]:
        """What the departures hold, bodies as they are now: port, ECN codepoint, bytes."""
        d, sent = self.departures, []
        for i in range(d.count[0]):
            edge = self.fast.edges.edges[d.edge[i]]
            assert edge is not None
            body = ctypes.string_at(int(d.body[i]), int(d.length[i])) if d.length[i] else b""
            sent.append((edge.port, int(d.ecn[i]), d.head[i].tobytes() + body + d.tail[i].tobytes()))
        d.clear()
        return sent


def contributions(pair: Pair, number: int, cell: int) -> list[tuple[bytes, str, int, int]]:
    """Those of all children to a cell, as if they had never heard of a window."""
    entry = pair.entries[number]
    packets = [(pair.data(entry, edge, cell & 0xFFFFFF), edge) for edge in entry.children]
    return [(codec.encode_datagram(p), p.src_ip, edge.port, p.ecn) for p, edge in packets]


def test_random_batches_have_equal_effects() -> None:
    stops = 0
    for seed in range(RUNS):
        pair = Pair(random.Random(f"mode 3 {seed}"))
        for number in range(1, pair.rng.randint(2, 4)):
            pair.install(number)
        try:
            for _ in range(20):
                pair.arrive(*(pair.datagram() for _ in range(pair.rng.choice([1, 3, 10, 40]))))
                number = pair.rng.choice(list(pair.entries))
                if pair.rng.random() < 0.2:
                    slots = pair.entries[number].params.slots
                    front = pair.fronts[number]
                    pair.arrive(
                        *(d for lap in range(4) for d in contributions(pair, number, front + lap * slots))
                    )
                if pair.rng.random() < 0.05:
                    pair.install(number)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        stops += pair.stops
    assert stops, "no batch ever had to stop before a body that was queued"


@pytest.mark.parametrize("inner", [False, True])
def test_a_queued_result_is_sent_before_its_slot_has_another(inner: bool) -> None:
    """Given children that overrun their window, the results of the cells before leave as they were."""
    pair = Pair(random.Random(5))
    pair.departures = departures(4096)
    while True:
        pair.install(1, window=1, slots=2, icrc="full", window_guard=False, datatypes=TYPES)
        if (pair.entries[1].parent is not None) == inner:
            break
    pair.arrive(*(d for cell in range(0, 10, 2) for d in contributions(pair, 1, cell)))
    assert pair.stops >= 4


def test_cell_numbers_wrap() -> None:
    pair = Pair(random.Random(7))
    pair.install(1, window_guard=False, icrc="full")
    for cell in (0, (1 << 23) - 1, (1 << 24) - 6, *range((1 << 24) - 5, (1 << 24) + 6)):
        pair.arrive(*contributions(pair, 1, cell))
    tags = [slot.cell for slot in pair.fast.status(1).slots]
    assert max(tags) < 64


def test_groups_come_and_go_and_leave_nothing() -> None:
    """Given groups installed and removed many times, what the engine has does not grow, and refusals change nothing."""
    rng = random.Random(3)
    pair = Pair(rng)
    pair.install(1)
    sizes = None
    for _ in range(100):
        for number in (2, 3):
            pair.install(number, window=4, slots=16)
        with pytest.raises(ResourceError, match="no room"):
            pair.fast.install(group(rng, 4), 0.0)
        with pytest.raises(ConfigError, match="already installed"):
            pair.fast.install(pair.entries[1], 0.0)
        pair.arrive(*(pair.datagram() for _ in range(5)))
        for number in (2, 3):
            for engine in (pair.reference, pair.fast):
                engine.remove(number)
            del pair.entries[number]
        with pytest.raises(ResourceError, match="slots"):
            pair.fast.install(group(rng, 4, window=8, slots=128), 0.0)
        assert pair.fast.groups() == (1,)
        with pytest.raises(ConfigError, match="group 2: not installed"):
            pair.fast.status(2)
        now = [
            len(pool.records)
            for pool in (pair.fast._slot_records, pair.fast._values, pair.fast._children, pair.fast._ranks)
        ]
        sizes = sizes or [2 * size for size in now]
        assert now <= sizes
    pair.fast.remove(1)
    pools = (
        pair.fast._slot_records,
        pair.fast._values,
        pair.fast._children,
        pair.fast._ranks,
        pair.fast._table,
    )
    assert all(pool.free == len(pool.records) for pool in pools)
    assert pair.fast.edges.edges.count(None) == len(pair.fast.edges.edges)


def test_a_group_that_memory_does_not_suffice_for_is_refused() -> None:
    pair = Pair(random.Random(1))
    entry = group(pair.rng, 1, window=4, slots=8, ordered=True)
    with (
        mock.patch("epic_host.fast.engine.np.empty", side_effect=MemoryError),
        pytest.raises(ResourceError, match=r"group 1: \d+ bytes of memory for payloads"),
    ):
        pair.fast.install(entry, 0.0)
    assert pair.fast.groups() == ()
    pair.fast.install(entry, 0.0)


def test_departures_too_small_for_a_burst_are_refused() -> None:
    pair = Pair(random.Random(1))
    with pytest.raises(ValueError, match="departures for 3 frames, expected room for 6 or more"):
        pair.fast.receive_batch(pair.arrivals, 0, departures(3), 0.0)
