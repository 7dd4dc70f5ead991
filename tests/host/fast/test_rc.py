"""The compiled requester and responder against the reference's: for equal events equal frames, state and counters."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.fast import rc
from epic_host.fast.compiled import compiled
from epic_host.fast.crc import crc_update
from epic_host.fast.frames import EDGE, EdgeTable, as_dict, counters, departures
from epic_host.fast.queues import DEPARTURES, departures_world
from epic_host.fast.world import Shape
from epic_models.reference.cells import for_child
from epic_models.reference.endpoint import Counters, EdgeEnd
from epic_models.reference.group import Edge, Endpoint, GroupParams
from epic_models.reference.interfaces import EdgeFailed, Output
from epic_models.reference.rc import Arrival, Message, Requester, Responder
from epic_spec import codec, psn
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import NakCode, Opcode, Primitive, Syndrome

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
WINDOW = 8
BODY_BYTES = 64


# A world of one end: what the kernels of rc.py use.
MACHINE = Shape(
    "TestMachine",
    {
        "ends": rc.END, "flights": rc.FLIGHT, "messages": rc.MESSAGE, "ranks": np.int32, "generation": np.int64,
        "edges": EDGE, "departures": DEPARTURES, "counters": np.int64,
    },
)  # fmt: skip
world_at = MACHINE.at


@compiled
def act(address, what, a, b, now):  # type: ignore[no-untyped-def]
    """Do one thing with the end; 1 when it goes into error by it."""
    w = world_at(address)
    end = w.ends[0]
    if what == 0:
        rc.send(w, end, now)
    elif what == 1:
        return int(rc.on_ack(w, end, a, b, now))
    elif what == 2:
        rc.acknowledge_messages(w, end, a, now)
    elif what == 3:
        return int(rc.poll(w, end, now))
    elif what == 4:
        arrival = rc.classify(w, end, a)
        if arrival == rc.EXPECTED:
            rc.accept(w, end, b)
        else:
            rc.out_of_order(w, end, arrival)
    elif what == 5:
        rc.refuse(w, end, a)
    return 0


@compiled
def looks(address):  # type: ignore[no-untyped-def]
    """What the reference lets one see of an end."""
    w = world_at(address)
    end = w.ends[0]
    return rc.next_deadline(end), rc.acknowledged(end), end.next - end.una, end.failed, end.expected


PARAMS = GroupParams(
    group=7, mode=2, world_size=4, window=WINDOW, payload_bytes=BODY_BYTES, retry_limit=3,
    rto_initial_us=1000, rto_min_us=300, rto_max_us=9000,
)  # fmt: skip


class Pair:
    """The same end twice: the reference's and the compiled one. `do` compares what an event causes at both."""

    def __init__(self, params: GroupParams, psn_tx: int, psn_rx: int, patient: bool) -> None:
        edge = Edge(
            "r1-s", 3, Endpoint("10.0.0.1", 0x17), Endpoint("10.0.0.2", 0x2A), psn_tx, psn_rx,
            ranks=(1, 4, 6), sport=codec.UDP_PORT,
        )  # fmt: skip
        self.params, self.edge = params, edge
        self.count = Counters()
        end = EdgeEnd(edge, params)
        self.requester = Requester(end, self.count, first_time="tx_result", patient=patient)
        self.responder = Responder(end, self.count)
        table = EdgeTable()
        row = table.add(edge, params, 0, 0)
        self.bodies = np.zeros((WINDOW, BODY_BYTES), np.uint8)
        ranks = np.array([*edge.ranks, 2], np.int32)
        self.ends, self.messages = np.zeros(1, rc.END), np.zeros(WINDOW, rc.MESSAGE)
        self.departures, self.counters = departures(4 * WINDOW), counters()
        self.world = MACHINE.make(
            ends=self.ends,
            flights=np.zeros(WINDOW, rc.FLIGHT),
            messages=self.messages,
            ranks=ranks,
            generation=np.ones(1, np.int64),
            edges=table.rows,
            departures=departures_world(self.departures),
            counters=self.counters,
        )
        record = self.ends[0]
        rc.reset(record, params, edge=row, group=0, child=0, first_time="tx_result", patient=patient)
        record["mask"] = WINDOW - 1
        record["rank_count"] = len(edge.ranks)

    def send(self, imm: int, payload: bytes, congested: bool, now: float) -> None:
        number = self.requester._messages
        self.bodies[number % WINDOW] = 0
        self.bodies[number % WINDOW, : len(payload)] = np.frombuffer(payload, np.uint8)
        padded = len(payload) + (-len(payload) & 3)
        body = int(self.bodies[number % WINDOW].ctypes.data)
        reduce = imm >> 14 & 3 == Primitive.REDUCE and not imm & (NULL_BIT | ERR_BIT)
        rank = imm >> 16 if reduce else -1
        self.messages[number % WINDOW] = (
            body, 0, imm, len(payload), crc_update(0, body, padded), rank, congested,
        )  # fmt: skip
        seen, content = for_child(self.edge, imm, payload or None)
        self._same(self.requester.send(Message(seen, content, congested), now), 0, 0, 0, now)

    def ack(self, number: int, aeth: Aeth, now: float) -> None:
        if self.requester.failed:
            return  # the owner drops it
        wire = psn.add(self.edge.psn_tx, number)
        packet = Packet(Opcode.ACK, "10.0.0.2", "10.0.0.1", 0x17, wire, aeth=aeth)
        self._same(self.requester.on_ack(packet, now), 1, wire, aeth.syndrome << 24 | aeth.msn, now)

    def implied(self, count: int, now: float) -> None:
        self.requester.acknowledge_messages(count, now)
        self._same(Output(), 2, count, 0, now)

    def poll(self, now: float) -> None:
        self._same(self.requester.poll(now), 3, 0, 0, now)

    def data(self, number: int, ackreq: bool, now: float) -> None:
        wire = psn.add(self.edge.psn_rx, number)
        packet = Packet(Opcode.SEND_ONLY_IMM, "10.0.0.2", "10.0.0.1", 0x17, wire, imm=0x80)
        arrival = self.responder.classify(packet)
        if arrival is Arrival.EXPECTED:
            output = self.responder.accept(completes=True, ackreq=ackreq)
        else:
            output = self.responder.out_of_order(arrival)
        self._same(output, 4, wire, int(ackreq), now)

    def refuse(self, now: float) -> None:
        self._same(self.responder.refuse(NakCode.INVALID_REQUEST), 5, 1, 0, now)

    def _same(self, expected: Output, what: int, a: int, b: int, now: float) -> None:
        self.departures.clear()
        failed = act(self.world.address, what, a, b, now)
        assert self.sent() == [(p.ecn, codec.encode_datagram(p, icrc=p.icrc_ok)) for _, p in expected.sends]
        assert failed == len(expected.events)
        if failed:
            (event,) = expected.events
            reason = rc.failure(self.ends[0], self.params)
            assert event == EdgeFailed(self.params.group, self.edge.name, reason)
        self.check()

    def sent(self) -> list[tuple[int, bytes]]:
        d, frames = self.departures, []
        for i in range(d.count[0]):
            length, at = int(d.length[i]), int(d.body[i]) - int(self.bodies.ctypes.data)
            body = self.bodies.reshape(-1)[at : at + length].tobytes() if length else b""
            frames.append((int(d.ecn[i]), d.head[i].tobytes() + body + d.tail[i].tobytes()))
        return frames

    def check(self) -> None:
        deadline, acknowledged, outstanding, failed, expected = looks(self.world.address)
        wanted = self.requester.next_deadline()
        assert (None if deadline == np.inf else deadline) == wanted
        assert acknowledged == self.requester.acknowledged_messages
        assert outstanding == self.requester.outstanding
        assert bool(failed) == self.requester.failed
        assert expected == self.responder.expected
        assert as_dict(self.counters) == self.count


# All_reduce; reduce to a rank below the edge, to others (of any kind: nobody's rank too), NULL, and in error.
IMMS = [0xFFFF1105, 0x00045105, 0x00055105, 0x00025105, 0xFFFF5105, 0x00055185, 0x00055145]
ACKS = [Aeth(0x1F), Aeth(0x1F, 5), Aeth(0)]
FAR = [-5000, -(1 << 23), (1 << 23) - 1]


def syndrome(rng: random.Random, refusals: bool) -> Aeth:
    """Mostly an ACK."""
    if refusals and rng.random() < 0.03:
        return Aeth(Syndrome.NAK | rng.choice([1, 2, 3, 4, 7]))
    what = rng.random()
    if what < 0.6:
        return rng.choice(ACKS)
    return Aeth(Syndrome.NAK) if what < 0.85 else Aeth(Syndrome.RNR_NAK | rng.randrange(32), rng.randrange(9))


def play(pair: Pair, rng: random.Random, steps: int, refusals: bool) -> None:
    """Let random events happen at both ends, at times that only grow."""
    now = 0.0
    for _ in range(steps):
        what = rng.random()
        requester, responder = pair.requester, pair.responder
        if what < 0.3:
            if requester.outstanding < WINDOW:
                imm = rng.choice(IMMS)
                payload = b"" if imm & NULL_BIT else rng.randbytes(rng.choice([1, 8, 61, BODY_BYTES]))
                pair.send(imm, payload, rng.random() < 0.2, now)
        elif what < 0.55:
            # Usually of a packet that is pending.
            near = rng.randrange(-2, requester.outstanding + 2) if rng.random() < 0.95 else rng.choice(FAR)
            pair.ack(requester._next - requester.outstanding + near, syndrome(rng, refusals), now)
        elif what < 0.6:
            pair.implied(requester.acknowledged_messages + rng.randrange(-1, 4), now)
        elif what < 0.7:
            due = requester.next_deadline()
            now = now if due is None else max(now, due + rng.choice([0.0, 0.0, 1e-9, -1e-9]))
            pair.poll(now)
        elif what < 0.85:
            number = responder.expected + rng.choice([0, 0, 0, 0, -1, -2, 1, 2, -(1 << 23), (1 << 23) - 1])
            pair.data(number, rng.random() < 0.8, now)
        elif what < 0.88:
            pair.refuse(now)
        else:
            now += rng.choice([1e-5, 1e-4, 5e-4, 3e-3, 0.05])


@settings(max_examples=40 * SCALE)
@given(
    seed=st.integers(0, 1 << 40),
    psn_tx=st.sampled_from([0, 5, 0xFFFFFC, 0x7FFFFE]),
    psn_rx=st.sampled_from([0, 0xFFFFFE, 0x800000]),
    patient=st.booleans(),
    refusals=st.booleans(),
    ecn=st.booleans(),
    icrc=st.sampled_from(["full", "none"]),
    retry_limit=st.sampled_from([0, 1, 3]),
)
def test_random_events_have_equal_effects(
    seed: int, psn_tx: int, psn_rx: int, patient: bool, refusals: bool, ecn: bool, icrc: str, retry_limit: int
) -> None:
    pair = Pair(replace(PARAMS, ecn=ecn, icrc=icrc, retry_limit=retry_limit), psn_tx, psn_rx, patient)
    play(pair, random.Random(seed), steps=150, refusals=refusals)


def test_waiting_for_a_buffer_is_no_silence() -> None:
    """An RNR NAK shows that the peer lives, so expiries before it do not count (EPIC-M1-10)."""
    pair = Pair(replace(PARAMS, retry_limit=1), 0, 0, patient=False)
    pair.send(IMMS[0], bytes(8), False, 0.0)
    now = pair.requester.next_deadline() or 0.0
    pair.poll(now)
    pair.ack(0, Aeth(Syndrome.RNR_NAK | 1), now)
    for _ in range(2):
        now = pair.requester.next_deadline() or 0.0
        pair.poll(now)
    assert not pair.requester.failed
