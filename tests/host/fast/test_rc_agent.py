"""The fast rank that is an RC endpoint, with blocks and in batches, against the reference with their cells.

`Couple` compares frames, events, counters, timers, window and what is kept after each call, and where results land.
"""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

import numpy as np
import pytest

from epic_host.fast.frames import departures
from epic_host.fast.rc_agent import FastRcAgent
from epic_models.reference.interfaces import Cell, EdgeFailed
from epic_models.reference.rc_agent import RcAgent
from epic_spec import codec
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import NakCode, Opcode, Syndrome
from host.fast.test_blocks import SUM, Couple, frames, give, rank_group, results, sum_block

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
RUNS = 40 * SCALE


class RcCouple(Couple):
    """Results mostly in their order, and acknowledgements of contributions. `refusals`: NAKs that end the edge."""

    reference: RcAgent

    def __init__(self, rng: random.Random, refusals: bool, **changes: Any) -> None:
        super().__init__(rng, **changes)
        assert isinstance(self.reference, RcAgent) and isinstance(self.fast, FastRcAgent)
        self.refusals = refusals

    def frame(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.35:
            return self.acknowledgement()
        expected = self.reference._responder.expected
        number = expected if rng.random() < 0.8 else expected + rng.choice([-1, -2, 1, 2, -(1 << 23)])
        if rng.random() < 0.05:
            # With NULL, whatever else it has, a result has no payload.
            imm = 0xFFFF1000 | NULL_BIT | ERR_BIT
            return self.data(Opcode.SEND_ONLY_IMM, number, payload=rng.randbytes(16), imm=imm, ackreq=True)
        return self.result(number)

    def acknowledgement(self) -> bytes:
        """Of a contribution that is pending, or nearly."""
        rng, requester = self.rng, self.reference._requester
        oldest = requester._next - requester.outstanding
        number = oldest + rng.randrange(-1, requester.outstanding + 1)
        syndrome = rng.choice([0x1F] * 5 + [int(Syndrome.NAK)] * 3 + [Syndrome.RNR_NAK | rng.randrange(32)])
        if self.refusals and rng.random() < 0.1:
            syndrome = Syndrome.NAK | rng.choice(list(NakCode))
        edge = self.group.edge
        packet = Packet(
            Opcode.ACK, edge.peer.ip, edge.local.ip, edge.local.qpn, edge.psn_tx + number & 0xFFFFFF,
            aeth=Aeth(syndrome, rng.randrange(99)),
        )  # fmt: skip
        self._ecn = packet.ecn
        return codec.encode_datagram(packet)


@pytest.mark.parametrize("mode", [2, 3])
def test_blocks_are_as_their_cells(mode: int) -> None:
    landed = failed = 0
    for seed in range(RUNS):
        rng = random.Random(f"rc agent {mode} {seed}")
        window = rng.choice([1, 2, 4, 8])
        couple = RcCouple(
            rng, seed % 4 == 0, mode=mode, ack_reflection=mode == 3, window=window, slots=2 * window, epoch=seed,
            icrc=rng.choice(["full", "full", "none"]), ecn=rng.random() < 0.7, conflict_record=rng.random() < 0.7,
            retry_limit=rng.choice([0, 2, 100]),
        )  # fmt: skip
        try:
            for _ in range(60):
                what = rng.random()
                if what < 0.45:
                    couple.submit()
                elif what < 0.85:
                    couple.arrive(rng.choice([1, 1, 2, 5, 20]))
                else:
                    couple.elapse()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        for address, payload in couple.landed:
            assert ctypes.string_at(address, len(payload)) == payload, (
                "a later result went to the place of this one"
            )
        landed += len(couple.landed)
        failed += couple.reference._requester.failed
    assert landed > RUNS
    assert failed > RUNS / 10


# ---------------------------------------------------------------------- directed


def test_a_result_lands_and_is_acknowledged() -> None:
    agent, queue = FastRcAgent(rank_group(mode=2)), departures(64)
    values, sink = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    agent.submit_block(sum_block(values, sink, 2), queue, 0.0)
    assert len(frames(agent, queue)) == 2
    total = (values * 10).astype(">i4").tobytes()
    assert give(agent, queue, (1, SUM, total[16:])) == []
    assert (agent.delivered, sink.tolist()) == (0, [0] * 8), "a result that comes early is not taken"
    (nak,) = frames(agent, queue)
    assert nak[12] == Syndrome.NAK
    assert give(agent, queue, (0, SUM, total[:16]), (1, SUM, total[16:])) == []
    assert (agent.delivered, sink.tolist()) == (2, (values * 10).tolist())
    acks = frames(agent, queue)
    assert [ack[12] for ack in acks] == [0x1F, 0x1F]
    assert agent.next_deadline() is None, "the results acknowledged the contributions"


def test_a_cell_that_still_has_to_leave_is_not_overwritten() -> None:
    """A result of a cell whose contribution is queued waits until that has been sent."""
    agent, queue = FastRcAgent(rank_group(mode=2, window=1, slots=2)), departures(64)
    for n in range(6):
        values = np.full(4, n + 1, np.int32)
        agent.submit_block(sum_block(values, np.zeros(4, np.int32), 1), queue, 0.0)
        sent = frames(agent, queue)
        assert sent[-1][16:32] == values.astype(">i4").tobytes()
        agent.poll_batch(queue, agent.next_deadline() or 0.0)
        assert queue.count[0] == 1, "repeated"
        arrivals = results(agent, (n, SUM, bytes(16)))
        assert agent.receive_batch(arrivals, 0, queue, 0.0) == 0
        assert agent.delivered == n
        assert frames(agent, queue)[0][16:32] == values.astype(">i4").tobytes()
        assert agent.receive_batch(arrivals, 0, queue, 0.0) == 1
        assert agent.delivered == n + 1
        frames(agent, queue)


@pytest.mark.parametrize("reflection", [False, True])
def test_silence_ends_an_edge_but_not_one_with_reflection(reflection: bool) -> None:
    group = rank_group(
        mode=3 if reflection else 2, ack_reflection=reflection, retry_limit=2, deadline_us=1_000_000
    )
    agent, queue = FastRcAgent(group), departures(64)
    agent.submit_cells([Cell(SUM, bytes(4))], queue, 0.0)
    for _ in range(9):
        agent.poll_batch(queue, agent.next_deadline() or 0.0)
    assert (queue.count[0], agent.next_deadline() is not None) == (10 if reflection else 3, True)
    failures = [e for e in agent.take_events() if isinstance(e, EdgeFailed)]
    reason = "no acknowledgement after 2 retransmissions"
    assert failures == ([] if reflection else [EdgeFailed(1, group.edge.name, reason)])


def test_a_cell_longer_than_a_packet_is_refused() -> None:
    agent, queue = FastRcAgent(rank_group(mode=2)), departures(64)
    with pytest.raises(ValueError, match="cell of 65 bytes, expected at most 64"):
        agent.submit_cells([Cell(SUM, bytes(65)), Cell(SUM | NULL_BIT, None)], queue, 0.0)
    assert (agent.outstanding, agent.kept(), queue.count[0]) == (0, [], 0)
