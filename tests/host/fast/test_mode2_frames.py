"""The fast engine of Mode II against the reference's, frame by frame: batches of right, wrong, late and early frames.

Every batch goes to the reference one frame at a time, and to the fast engine as a batch whose departures hold no more
than the largest burst. Frames out, counters, events, status and timers must be equal after each.
"""

from __future__ import annotations

import ctypes
import os
import random
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.fast.frames import Arrivals, departures
from epic_host.fast.mode2_engine import FastMode2Engine
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_models.reference.interfaces import Output
from epic_models.reference.mode2 import Mode2Engine, Mode2Group
from epic_spec import codec
from epic_spec.addresses import ip_number
from epic_spec.codec import mac_of_ip
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import UDP_PORT, NakCode, Opcode, Syndrome

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
CAPABILITIES = EngineCapabilities(mode=2, window=8, children=4, groups=3)
HERE = "10.0.0.1"
PAYLOAD = 64
Sent = tuple[int, int, bytes]

# Descriptors without tag, with the bytes of their elements at a host: sums of each kind, a Reduce to a rank below some
# child and to one below none, a Broadcast, a Barrier.
CELLS = (
    (0xFFFF1000, 4), (0xFFFF2100, 4), (0xFFFF1200, 2), (0xFFFF3300, 2), (0xFFFF1700, 8), (0x00015000, 4),
    (0x00035100, 4), (0x00635000, 4), (0x00009000, 1), (0xFFFF0080, 0),
)  # fmt: skip


def group(rng: random.Random, number: int) -> EngineGroup:
    """A group of one engine: children that are hosts or engines, and a parent or none."""
    fan_in = rng.randint(1, 4)
    params = GroupParams(
        group=number, mode=2, world_size=8, window=rng.choice([1, 2, 4, 8]), payload_bytes=PAYLOAD,
        datatypes=rng.choice([("INT32",), ("INT32", "FP32", "FP16", "BF16", "FP64")]),
        operators=rng.choice([("SUM",), ("SUM", "MAX", "MIN")]),
        byte_order=rng.choice(["big", "little"]), icrc=rng.choice(["full", "full", "none"]),
        conflict_record=rng.random() < 0.7, partial_format=rng.choice(["input", "fp32"]), ecn=rng.random() < 0.7,
        ordered=rng.random() < 0.2, pkey=rng.choice([0xFFFF, 0x8001]), retry_limit=rng.randint(0, 3),
        rto_initial_us=1000, rto_min_us=200, rto_max_us=5000,
    )  # fmt: skip
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


@dataclass
class Mix:
    """How often things go wrong: one in so many frames, or 0 for never."""

    order: int = 8
    content: int = 12
    refusal: int = 0


class Twins:
    """Both engines with the same groups."""

    def __init__(self, rng: random.Random, mix: Mix) -> None:
        self.rng, self.mix = rng, mix
        self.reference, self.fast = Mode2Engine(CAPABILITIES), FastMode2Engine(CAPABILITIES)
        self.entries: dict[int, EngineGroup] = {}
        self.now = 0.0
        self.departures = departures(self.fast.burst)
        self.arrivals = Arrivals(64, 64 * 256)
        self.arrivals.address = ip_number(HERE)
        self.data = rng.randrange(1 << 30)

    def install(self, number: int) -> None:
        if number in self.entries:
            self.reference.remove(number)
            self.fast.remove(number)
        entry = self.entries[number] = group(self.rng, number)
        self.reference.install(entry, self.now)
        self.fast.install(entry, self.now)

    # ---------------------------------------------------------------------- what arrives

    def frame(self) -> tuple[Edge, Packet]:
        """A frame that may come next, by the state of the reference."""
        entry = self.rng.choice(list(self.entries.values()))
        machine: Any = self.reference._machine(entry.params.group)
        assert isinstance(machine, Mode2Group)
        if entry.parent is not None and self.rng.random() < 0.3:
            return entry.parent, self._from_parent(entry, machine)
        child = self.rng.randrange(len(entry.children))
        edge = entry.children[child]
        if self.rng.random() < 0.35:
            return edge, self._acknowledgement(edge, machine._children[child].requester, entry)
        number = self._near(machine._children[child].responder.expected)
        return edge, self._data(edge, number, *self._contribution(entry, edge, number), entry)

    def _one_in(self, n: int) -> bool:
        return n > 0 and self.rng.randrange(n) == 0

    def _near(self, number: int) -> int:
        return number + self.rng.choice([-1, -2, 1, 2, 9]) if self._one_in(self.mix.order) else number

    def _cell(self, number: int) -> tuple[int, int, int]:
        """Descriptor of a cell, bytes of an element, and elements: the same for all who contribute."""
        rng = random.Random(self.data + number)
        imm, size = rng.choice(CELLS)
        return imm | number & 63, size, rng.choice([1, 2, 3, 4]) if size else 0

    def _contribution(self, entry: EngineGroup, edge: Edge, number: int) -> tuple[int, bytes]:
        imm, size, elements = self._cell(number)
        wide = edge.peer_is_engine and entry.params.partial_format == "fp32" and imm >> 8 & 15 in (2, 3)
        payload = self.rng.randbytes(elements * (4 if wide else size))
        if payload and self.rng.random() < 0.15:
            imm, payload = imm | NULL_BIT, b""
        if self._one_in(self.mix.content):
            imm, payload = self.rng.choice([
                (imm ^ 1, payload), (imm, payload + payload[:8]), (imm, payload[:-1]), (imm, bytes(PAYLOAD + 4)),
                (imm | ERR_BIT, self.rng.randbytes(16)), (imm | ERR_BIT | NULL_BIT, b""),
                (imm | ERR_BIT | NULL_BIT, self.rng.randbytes(16)), (imm | ERR_BIT, b"abc"),
            ])  # fmt: skip
        return imm, payload

    def _from_parent(self, entry: EngineGroup, machine: Mode2Group) -> Packet:
        assert entry.parent is not None and machine._parent is not None
        if self.rng.random() < 0.3:
            return self._acknowledgement(entry.parent, machine._parent.requester, entry)
        number = self._near(machine._parent.responder.expected)
        imm, size, elements = self._cell(number)
        return self._data(entry.parent, number, imm, self.rng.randbytes(size * elements), entry)

    def _data(self, edge: Edge, number: int, imm: int, payload: bytes, entry: EngineGroup) -> Packet:
        if not imm & ERR_BIT:
            payload = b"" if imm & NULL_BIT else payload
            imm = imm if payload else imm | NULL_BIT
        return Packet(
            Opcode.SEND_ONLY_IMM, edge.peer.ip, HERE, edge.local.qpn, (edge.psn_rx + number) & 0xFFFFFF, payload,
            imm=imm, ackreq=self.rng.random() < 0.9, pkey=entry.params.pkey, ecn=3 if self.rng.random() < 0.1 else 2,
            src_mac=edge.peer.mac, dst_mac=edge.local.mac, sport=UDP_PORT,
        )  # fmt: skip

    def _acknowledgement(self, edge: Edge, requester: Any, entry: EngineGroup) -> Packet:
        rng = self.rng
        oldest = requester._next - requester.outstanding
        number = oldest + rng.randrange(-1, requester.outstanding + 1)
        kind = rng.choice([0x1F] * 6 + [Syndrome.NAK] * 3 + [Syndrome.RNR_NAK | rng.randrange(32)])
        if self._one_in(self.mix.refusal):
            kind = Syndrome.NAK | rng.choice(list(NakCode))
        return Packet(
            Opcode.ACK, edge.peer.ip, HERE, edge.local.qpn, (edge.psn_tx + number) & 0xFFFFFF,
            aeth=Aeth(kind, rng.randrange(99)), pkey=entry.params.pkey,
            src_mac=edge.peer.mac, dst_mac=edge.local.mac, sport=UDP_PORT,
        )  # fmt: skip

    # ---------------------------------------------------------------------- what happens

    def batch(self, count: int) -> None:
        """So many frames at one time."""
        expected = Output()
        self.arrivals.clear()
        for _ in range(count):
            edge, packet = self.frame()
            data = codec.encode_datagram(packet)
            if self._one_in(30):
                data = data[:-1] + bytes([data[-1] ^ 1])
            frame = codec.frame_of_datagram(data, packet.src_ip, HERE, ecn=packet.ecn)
            expected.extend(self.reference.receive_frame(edge.port, frame, self.now))
            self.arrivals.append(data, ip_number(packet.src_ip), edge.port, UDP_PORT, packet.ecn)
        sent: list[Sent] = []
        done = 0
        while done < count:
            before, done = done, self.fast.receive_batch(self.arrivals, done, self.departures, self.now)
            assert done > before or self.departures.count[0], "no progress with empty departures"
            sent += self.flush()
        self.compare(expected, sent)

    def poll(self) -> None:
        expected = self.reference.poll(self.now)
        sent: list[Sent] = []
        for _ in range(100):
            self.fast.poll_batch(self.departures, self.now)
            more = self.flush()
            sent += more
            due = self.fast.next_deadline()
            if due is None or due > self.now:
                break
        self.compare(expected, sent)

    def flush(self) -> list[Sent]:
        """What the departures hold, bodies as they are now."""
        d, sent = self.departures, []
        for i in range(d.count[0]):
            edge = self.fast.edges.edges[d.edge[i]]
            assert edge is not None
            body = ctypes.string_at(int(d.body[i]), int(d.length[i])) if d.length[i] else b""
            sent.append((edge.port, int(d.ecn[i]), d.head[i].tobytes() + body + d.tail[i].tobytes()))
        d.clear()
        return sent

    def compare(self, expected: Output, sent: list[Sent]) -> None:
        frames = [(port, p.ecn, codec.encode_datagram(p, icrc=p.icrc_ok)) for port, p in expected.sends]
        assert sent == frames
        assert self.fast.take_events() == expected.events
        assert self.fast.counters() == self.reference.counters()
        assert self.fast.next_deadline() == self.reference.next_deadline()
        for number in self.entries:
            assert self.fast.status(number) == self.reference.status(number)


def play(twins: Twins, steps: int) -> None:
    """A random life of the two engines."""
    rng = twins.rng
    for number in range(1, rng.randint(2, 4)):
        twins.install(number)
    for _ in range(steps):
        what = rng.random()
        if what < 0.7:
            twins.batch(rng.choice([1, 2, 5, 20, 40]))
        elif what < 0.9:
            due = twins.reference.next_deadline()
            twins.now = max(twins.now, due or 0.0) + rng.choice([0.0, 0.0, 1e-4])
            twins.poll()
        elif what < 0.97:
            twins.now += rng.choice([1e-5, 1e-3])
        else:
            twins.install(rng.choice(list(twins.entries)))


@settings(max_examples=25 * SCALE)
@given(
    seed=st.integers(0, 1 << 40), mix=st.sampled_from([Mix(), Mix(0, 0), Mix(3, 4), Mix(8, 12, refusal=20)])
)
def test_random_batches_have_equal_effects(seed: int, mix: Mix) -> None:
    play(Twins(random.Random(seed), replace(mix)), steps=40)
