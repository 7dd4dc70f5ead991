"""Directed situations, each a function that passes on the right engines and agents and raises on a broken one.

`test_scenarios.py` runs each; `test_mutants.py` shows for each planted fault a scenario here that sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from epic_models.reference.endpoint import nak_aeth
from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import EdgeFailed
from epic_models.reference.mode1 import Mode1Group
from epic_models.reference.mode2 import Mode2Group
from epic_models.reference.mode3 import Mode3Group
from epic_models.reference.network import LinkModel
from epic_models.reference.rc import RNR_TIMERS_MS
from epic_models.reference.tree import Tree
from epic_spec import codec, psn
from epic_spec.errors import MismatchError, PeerLostError
from epic_spec.packets import Descriptor
from epic_spec.tables import SYNDROME_MASK, Datatype, NakCode, Opcode, Operator, Primitive, Syndrome
from models.bench import SUM, Bench, numbers, words
from models.worlds import ALL_TYPES, Collective, Expectation, World

SCENARIOS: dict[str, Callable[[], None]] = {}
TWO_LEVELS = Tree("s", {"s": ("a", "b"), "a": (0, 1), "b": (2, 3)})


def scenario(function: Callable[[], None]) -> Callable[[], None]:
    """Register a scenario by its name."""
    SCENARIOS[function.__name__] = function
    return function


def only(items: list[Any]) -> Any:
    """The one item of a list that must have exactly one."""
    assert len(items) == 1, items
    return items[0]


def params(mode: int, n: int = 4, **changes: object) -> GroupParams:
    """Small and quick parameters."""
    values: dict[str, object] = {
        "window": 2, "slots": 4, "payload_bytes": 64, "message_bytes": 128, "message_buffers": 2,
        "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000, "retry_limit": 100, "deadline_us": 10_000_000,
    }  # fmt: skip
    return GroupParams(group=1, mode=mode, world_size=n, **(values | changes))  # type: ignore[arg-type]


def run_all(world: World, *sequence: Collective) -> None:
    """Every rank calls the sequence; all results must be right."""
    expected = [Expectation(c, world.params, tag) for tag, c in enumerate(sequence)]
    for e in expected:
        for rank, operation in enumerate(e.operations):
            world.call(rank, operation)
    world.settle(3.0)
    for member in world.members:
        if member.error is not None:
            raise member.error
    for e in expected:
        e.check()


# ------------------------------------------------------------------------------------------- Mode III, engine


@scenario
def m3_late_duplicate_of_an_older_cell_is_not_counted() -> None:
    """EPIC-M3-02: a copy of contribution 0 arrives when its slot has begun to serve cell 2."""
    bench = Bench(3, window=1, slots=2)
    late = bench.contribution(0, 0, words(1000))
    bench.contribute(0, 0, words(1000))
    bench.contribute(1, 0, words(1))
    for child in (0, 1):
        bench.contribute(child, 1, words(2))
    bench.contribute(1, 2, words(30))
    assert bench.give(bench.entry.children[0].port, late).sends == []
    output = bench.contribute(0, 2, words(3))
    assert [numbers(p.payload) for p in bench.data_to(output, 0)] == [(33,)]


@scenario
def m3_slow_rank_still_gets_its_result_by_replay() -> None:
    """EPIC-M3-08, EPIC-M3-14: rank 1 misses result 0 and repeats contribution 0 after the other went W ahead."""
    bench = Bench(3, window=1, slots=2)
    bench.contribute(0, 0, words(1))
    bench.contribute(1, 0, words(2))
    bench.contribute(0, 1, words(5))
    output = bench.contribute(1, 0, words(2))
    assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(3,)]
    assert bench.data_to(output, 0) == [], "a replay goes to the child that repeats, alone"
    assert bench.engine.counters()["tx_replay"] == 1


@scenario
def m3_slots_are_reused_over_many_windows_under_faults() -> None:
    """EPIC-M3-01: many cells through few slots, with loss, duplicates and reordering."""
    for seed in range(6):
        world = World(TWO_LEVELS, params(3, window=2, slots=4), FaultRates(0.05, 0.3, 0.3), seed=seed)
        run_all(world, Collective("all_reduce", count=600, seed=seed))


@scenario
def m3_repeated_contribution_is_counted_once() -> None:
    """EPIC-E-14, EPIC-M3-10: duplicates before completion change nothing and are not answered."""
    bench = Bench(3)
    bench.contribute(0, 0, words(7))
    assert bench.contribute(0, 0, words(7)).sends == []
    output = bench.contribute(1, 0, words(1))
    assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(8,)]
    assert bench.engine.counters()["rx_duplicate"] == 1


@scenario
def m3_lost_partial_is_resent_for_the_lowest_child_only() -> None:
    """EPIC-M3-09."""
    bench = Bench(3, inner=True)
    bench.contribute(0, 0, words(1))
    output = bench.contribute(1, 0, words(2))
    assert [numbers(p.payload) for p in bench.up(output)] == [(3,)]
    assert bench.contribute(1, 0, words(2)).sends == [], "child 1 must not cause a resend"
    output = bench.contribute(0, 0, words(1))
    assert [numbers(p.payload) for p in bench.up(output)] == [(3,)]
    assert bench.engine.counters()["tx_resend"] == 1


@scenario
def m3_result_is_accepted_once_and_only_for_a_complete_cell() -> None:
    """EPIC-M3-11, EPIC-M3-12."""
    bench = Bench(3, inner=True)
    bench.contribute(0, 0, words(1))
    assert bench.result(0, words(9)).sends == [], "the cell is not complete"
    bench.contribute(1, 0, words(2))
    output = bench.result(0, words(9))
    assert [numbers(p.payload) for c in (0, 1) for p in bench.data_to(output, c)] == [(9,), (9,)]
    assert bench.result(0, words(9)).sends == [], "a duplicate result is not multicast again"
    counters = bench.engine.counters()
    assert (counters["drop_unexpected"], counters["rx_duplicate"], counters["rx_result"]) == (1, 1, 1)


@scenario
def m3_child_that_overruns_its_window_destroys_nothing() -> None:
    """EPIC-M3-04."""
    bench = Bench(3, window=1, slots=2)
    bench.contribute(1, 0, words(2))
    for cell in (2, 4, 1000):
        assert bench.contribute(0, cell, words(100)).sends == []
    output = bench.contribute(0, 0, words(1))
    assert [numbers(p.payload) for p in bench.data_to(output, 0)] == [(3,)]
    assert bench.engine.counters()["drop_window"] == 3


@scenario
def m3_cell_numbers_wrap_at_2_to_the_24() -> None:
    """EPIC-W-15: the slots serve cells 2^24-2 … 2^24+5 as any others, late copies included."""
    bench = Bench(3, window=2, slots=4)
    machine = bench.engine._groups[1]
    assert isinstance(machine, Mode3Group)
    start = (1 << 24) - 2
    for i, slot in enumerate(machine._slots):
        slot.tag = next(t for t in range(start - 4, start) if t % 4 == i)
    late = bench.contribution(0, start, words(500))
    for cell in range(start, start + 8):
        bench.contribute(0, cell, words(cell - start))
        if cell == start + 4:
            assert bench.give(bench.entry.children[0].port, late).sends == []
        output = bench.contribute(1, cell, words(10))
        assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(cell - start + 10,)]
    assert bench.engine.counters()["rx_stale"] == 1


@scenario
def m3_acknowledgement_of_a_result_is_reflected_to_its_sender() -> None:
    """EPIC-M3-15: ACK and NAK, with the PSN of the contribution and the AETH unchanged."""
    bench = Bench(3, ack_reflection=True)
    for child in (0, 1):
        bench.contribute(child, 0, words(1))
    nak = nak_aeth(NakCode.PSN_SEQUENCE_ERROR, 7)
    for aeth in (None, nak):
        output = bench.child_ack(1, 0, aeth)
        assert bench.acks_to(output, 0) == []
        back = only(bench.acks_to(output, 1))
        assert bench.cell_of(1, back) == 0
        assert back.aeth is not None
        assert aeth is None or back.aeth == aeth


@scenario
def m3_reflected_acks_let_a_stock_nic_repair_loss() -> None:
    """EPIC-M3-26: hosts that are plain RC endpoints, lossy network, right results."""
    for seed in range(4):
        world = World(
            TWO_LEVELS,
            params(3, ack_reflection=True, window=4, slots=8),
            FaultRates(0.05, 0.1, 0.1),
            seed=seed,
        )
        run_all(world, Collective("all_reduce", count=400, seed=seed))


@scenario
def m3_every_lost_frame_is_repaired() -> None:
    """EPIC-A-05, EPIC-M3-20 in a heavily lossy network: contributions, partials and results all get lost."""
    for seed in range(4):
        run_all(
            World(TWO_LEVELS, params(3), FaultRates(loss=0.3), seed=seed), Collective("all_reduce", count=150)
        )


@scenario
def m3_results_out_of_order_are_delivered_in_order() -> None:
    """EPIC-M3-22, EPIC-A-03."""
    for seed in range(4):
        world = World(TWO_LEVELS, params(3, window=8, slots=16), FaultRates(reorder=0.4), seed=seed)
        run_all(world, Collective("all_reduce", count=500, seed=seed))


# --------------------------------------------------------------------------------------------- Modes I and II


def _lossy(mode: int, rates: FaultRates, **changes: object) -> None:
    for seed in range(4):
        world = World(TWO_LEVELS, params(mode, **changes), rates, seed=seed)
        run_all(world, Collective("all_reduce", count=300, seed=seed), Collective("barrier"))


@scenario
def m2_every_lost_frame_is_repaired() -> None:
    """EPIC-A-05, EPIC-M2-09, EPIC-M2-12."""
    _lossy(2, FaultRates(loss=0.2))


@scenario
def m1_every_lost_frame_is_repaired() -> None:
    """EPIC-A-05, EPIC-M1-09, EPIC-M1-15."""
    _lossy(1, FaultRates(loss=0.2))


@scenario
def m2_late_duplicates_meet_reused_slots() -> None:
    """EPIC-M2-01, EPIC-M2-06."""
    _lossy(2, FaultRates(loss=0.02, duplicate=0.4, reorder=0.4))


@scenario
def m2_lost_result_is_repeated_from_the_engine() -> None:
    """EPIC-M2-09: no ACK comes, the timer repeats the result; the ACK ends it."""
    bench = Bench(2)
    bench.contribute(0, 0, words(1))
    bench.contribute(1, 0, words(2))
    bench.child_ack(0, 0)
    output = bench.elapse(0.06)
    assert bench.data_to(output, 0) == []
    assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(3,)]
    bench.child_ack(1, 0)
    assert bench.elapse(5).sends == []


@scenario
def m2_ack_lost_for_good_does_not_matter() -> None:
    """EPIC-M2-10: contribution s + W acknowledges result s, so the bcast slot is free without any ACK."""
    bench = Bench(2, window=2)
    for cell in range(8):
        bench.contribute(0, cell, words(1))
        output = bench.contribute(1, cell, words(2))
        assert [numbers(p.payload) for p in bench.data_to(output, 0)] == [(3,)]


@scenario
def m2_gap_is_answered_with_one_nak() -> None:
    """EPIC-M2-03."""
    bench = Bench(2, window=4, slots=8)
    acks = [a for cell in (1, 2, 3) for a in bench.acks_to(bench.contribute(0, cell, words(1)), 0)]
    assert len(acks) == 1
    assert acks[0].aeth is not None
    assert acks[0].aeth.syndrome & SYNDROME_MASK == Syndrome.NAK
    assert bench.cell_of(0, acks[0]) == 0
    bench.contribute(0, 0, words(1))
    assert len(bench.acks_to(bench.contribute(0, 2, words(1)), 0)) == 1, "a new gap gets a NAK of its own"


@scenario
def m2_repeated_contribution_is_acknowledged_again() -> None:
    """EPIC-M2-02: the ACK was lost, the child repeats."""
    bench = Bench(2)
    bench.contribute(0, 0, words(1))
    again = only(bench.acks_to(bench.contribute(0, 0, words(1)), 0))
    assert bench.cell_of(0, again) == 0
    output = bench.contribute(1, 0, words(2))
    assert [numbers(p.payload) for p in bench.data_to(output, 0)] == [(3,)]


@scenario
def m2_contribution_without_a_slot_is_not_acknowledged() -> None:
    """EPIC-M2-04, EPIC-M2-06: a child that overruns its window gets no ACK and destroys nothing."""
    bench = Bench(2, window=1)
    bench.contribute(0, 0, words(1))
    assert bench.contribute(0, 1, words(50)).sends == []
    assert bench.engine.counters()["drop_window"] == 1
    output = bench.contribute(1, 0, words(2))
    assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(3,)]
    assert len(bench.acks_to(bench.contribute(0, 1, words(50)), 0)) == 1, "now there is room"
    output = bench.contribute(1, 1, words(7))
    assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(57,)]


@scenario
def m2_result_acknowledges_partials() -> None:
    """EPIC-M2-11: no ACK of the partial comes, its result does; nothing is repeated."""
    bench = Bench(2, inner=True)
    bench.contribute(0, 0, words(1))
    bench.contribute(1, 0, words(2))
    bench.result(0, words(9))
    for child in (0, 1):
        bench.child_ack(child, 0)
    assert bench.elapse(5).sends == []


@scenario
def m2_result_before_completion_is_not_taken() -> None:
    """EPIC-M2-13."""
    bench = Bench(2, inner=True)
    bench.contribute(0, 0, words(1))
    assert bench.result(0, words(9)).sends == []
    assert bench.engine.counters()["drop_unexpected"] == 1


@scenario
def m2_silent_edge_ends_in_error() -> None:
    """EPIC-F-02: retry_limit timeouts in a row, then silence and a report."""
    bench = Bench(2, retry_limit=3)
    for child in (0, 1):
        bench.contribute(child, 0, words(1))
    bench.child_ack(0, 0)
    events, sends = [], 0
    for _ in range(20):
        output = bench.elapse(1.1)
        events += output.events
        sends += len(output.sends)
    assert sends == 3
    assert [e.edge for e in events if isinstance(e, EdgeFailed)] == ["r1-x"]
    assert bench.engine.status(1).failed_edges == ("r1-x",)
    assert bench.contribute(1, 1, words(1)).sends == [], "nothing more is sent over it"
    assert bench.engine.counters()["drop_edge_error"] == 1


@scenario
def m2_psn_wraps_at_2_to_the_24() -> None:
    """EPIC-W-15: bases just below 2^24 in every direction."""
    tree = Tree("s", {"s": (0, 1)})
    world = World(tree, params(2, 2), FaultRates(0.1, 0.1, 0.1))
    world = _near_wrap(world, tree)
    run_all(world, Collective("all_reduce", count=400))


def _near_wrap(world: World, tree: Tree) -> World:
    """The same world from a seed whose PSN bases lie a few packets before the wrap."""
    import random
    from unittest import mock

    real = random.Random.randrange
    with mock.patch.object(
        random.Random, "randrange", lambda self, n, *a: n - 7 if n == psn.MODULUS else real(self, n, *a)
    ):
        fresh = World(tree, world.params, FaultRates(0.1, 0.1, 0.1))
    edge = fresh.plan.ranks[0].edge
    assert edge.psn_tx > psn.MODULUS - 10
    return fresh


@scenario
def m1_psn_wraps_at_2_to_the_24() -> None:
    """EPIC-W-15."""
    tree = Tree("s", {"s": (0, 1)})
    run_all(_near_wrap(World(tree, params(1, 2)), tree), Collective("all_reduce", count=400))


def _fast_forward(bench: Bench, start: int) -> None:
    """Make an engine of Mode I or II believe that `start` cells of one packet have passed already."""
    machine = bench.engine._groups[1]
    assert isinstance(machine, Mode1Group | Mode2Group)
    machine._passed = start
    for edge in machine._children:
        edge.responder.expected = edge.responder.messages = start
        edge.requester._next = edge.requester._messages = start


def _wraps(mode: int) -> None:
    """Contributions, results, late copies and a lost ACK around cell 2^24."""
    bench = Bench(mode)
    start = (1 << 24) - 3
    _fast_forward(bench, start)
    late = bench.contribution(0, start, words(500))
    for cell in range(start, start + 8):
        bench.contribute(0, cell, words(cell - start))
        output = bench.contribute(1, cell, words(10))
        assert [numbers(p.payload) for p in bench.data_to(output, 1)] == [(cell - start + 10,)]
        again = only(bench.acks_to(bench.give(bench.entry.children[0].port, late), 0))
        assert bench.cell_of(0, again) == cell & 0xFFFFFF
        bench.child_ack(0, cell)
    output = bench.elapse(0.06)
    assert len(bench.data_to(output, 0)) == 0
    assert len(bench.data_to(output, 1)) == 2, "W results are kept for the child that acknowledged none"


@scenario
def m2_packet_numbers_wrap_at_2_to_the_24() -> None:
    """EPIC-W-15."""
    _wraps(2)


@scenario
def m1_packet_numbers_wrap_at_2_to_the_24() -> None:
    """EPIC-W-15."""
    _wraps(1)


@scenario
def m1_message_without_a_buffer_gets_an_rnr_nak() -> None:
    """EPIC-M1-13: B = 1; the second message of a child waits until the first has its result."""
    bench = Bench(1, window=2, message_buffers=1)
    bench.contribute(0, 0, words(1))
    rnr = only(bench.acks_to(bench.contribute(0, 1, words(5)), 0))
    assert rnr.aeth is not None
    assert rnr.aeth.syndrome & SYNDROME_MASK == Syndrome.RNR_NAK
    assert bench.cell_of(0, rnr) == 1
    assert RNR_TIMERS_MS[rnr.aeth.syndrome & 31] * 1000 >= bench.params.rnr_timer_us
    output = bench.contribute(1, 0, words(2))
    assert [numbers(p.payload) for p in bench.data_to(output, 0)] == [(3,)]
    ack = only(bench.acks_to(bench.contribute(0, 1, words(5)), 0))
    assert ack.aeth is not None
    assert ack.aeth.syndrome & SYNDROME_MASK == Syndrome.ACK


@scenario
def m1_result_waits_until_bcast_has_room() -> None:
    """EPIC-M1-16: B = 1, child 1 has not acknowledged result 0 when message 1 is complete."""
    bench = Bench(1, window=4, message_buffers=1)
    for child in (0, 1):
        bench.contribute(child, 0, words(1))
    bench.child_ack(0, 0)
    bench.contribute(0, 1, words(5))
    assert bench.data_to(bench.contribute(1, 1, words(6)), 0) == []
    output = bench.child_ack(1, 0)
    assert [numbers(p.payload) for c in (0, 1) for p in bench.data_to(output, c)] == [(11,), (11,)]


@scenario
def m1_few_buffers_still_make_progress() -> None:
    """EPIC-A-05 with B < W, two levels and loss."""
    for seed in range(4):
        world = World(
            TWO_LEVELS, params(1, window=4, message_buffers=1), FaultRates(0.05, 0.1, 0.1), seed=seed
        )
        run_all(world, Collective("all_reduce", count=300, seed=seed))


@scenario
def m1_broken_messages_are_refused() -> None:
    """EPIC-M1-05 to EPIC-M1-07: MIDDLE first, short FIRST, message beyond message_bytes."""
    cases = [
        [(Opcode.SEND_MIDDLE, 64)],
        [(Opcode.SEND_FIRST, 32)],
        [(Opcode.SEND_FIRST, 64), (Opcode.SEND_FIRST, 64)],
        [(Opcode.SEND_FIRST, 64), (Opcode.SEND_MIDDLE, 64), (Opcode.SEND_LAST_IMM, 64)],
    ]
    for case in cases:
        bench = Bench(1)
        for number, (opcode, size) in enumerate(case):
            output = bench.contribute(0, number, bytes(size), opcode=opcode)
        nak = only(bench.acks_to(output, 0))
        assert nak.aeth is not None
        assert nak.aeth.syndrome == Syndrome.NAK | NakCode.INVALID_REQUEST, case
        assert bench.engine.counters()["rx_contribution"] == 0


@scenario
def m1_message_is_acknowledged_after_it_is_whole() -> None:
    """EPIC-M1-02, EPIC-M1-08: two packets, one ACK for the second."""
    bench = Bench(1)
    first = bench.contribute(0, 0, bytes(64), opcode=Opcode.SEND_FIRST)
    assert bench.acks_to(first, 0) == []
    last = bench.contribute(0, 1, words(4), opcode=Opcode.SEND_LAST_IMM)
    ack = only(bench.acks_to(last, 0))
    assert bench.cell_of(0, ack) == 1
    assert ack.aeth is not None
    assert ack.aeth.msn == 1
    output = bench.contribute(1, 0, bytes(64), opcode=Opcode.SEND_FIRST)
    output = bench.contribute(1, 1, words(5), opcode=Opcode.SEND_LAST_IMM)
    assert [len(p.payload) for p in bench.data_to(output, 1)] == [64, 4]


@scenario
def m1_ordered_sum_does_not_depend_on_arrival() -> None:
    """EPIC-N-05: 1e8 + 1 - 1e8 in FP32 depends on the order of addition; child order is kept."""
    values = (1e8, 1.0, -1e8)
    what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP32)
    results = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        bench = Bench(1, children=3, datatypes=ALL_TYPES, ordered=True)
        for child in order:
            output = bench.contribute(child, 0, struct.pack(">f", values[child]), what)
        results.add(bench.data_to(output, 0)[0].payload)
    assert results == {struct.pack(">f", float(np.float32(1e8) + np.float32(1) + np.float32(-1e8)))}


# --------------------------------------------------------------------------------------------------- all modes


def _refuses_early(mode: int) -> None:
    bench = Bench(mode, children=3)
    for child in (0, 1):
        assert bench.data_to(bench.contribute(child, 0, words(1)), 0) == []
    assert [numbers(p.payload) for p in bench.data_to(bench.contribute(2, 0, words(1)), 0)] == [(3,)]


@scenario
def result_waits_for_every_child() -> None:
    """EPIC-E-15, EPIC-A-04 (P3)."""
    for mode in (1, 2, 3):
        _refuses_early(mode)


@scenario
def null_contributions_add_nothing_and_suppressed_results_have_no_payload() -> None:
    """EPIC-E-05, EPIC-E-06: Reduce to rank 1, then Broadcast from rank 0 with NULL from rank 1."""
    for mode in (1, 2, 3):
        bench = Bench(mode, datatypes=ALL_TYPES)
        what = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1)
        bench.contribute(0, 0, words(1), what)
        output = bench.contribute(1, 0, words(2), what)
        to_other, to_root = only(bench.data_to(output, 0)), only(bench.data_to(output, 1))
        assert (to_other.payload, to_other.imm) == (b"", what.pack() | 0x80)
        assert (numbers(to_root.payload), to_root.imm) == ((3,), what.pack())
        what = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.FP32, rank=0)
        nan = b"\x7f\x80\x00\x01\x80\x00\x00\x00"  # a signalling NaN and -0: bytes, not numbers
        bench.contribute(1, 1, None, what)
        output = bench.contribute(0, 1, nan, what)
        assert [p.payload for c in (0, 1) for p in bench.data_to(output, c)] == [nan, nan]
        bench.contribute(0, 2, nan, what)
        output = bench.contribute(1, 2, bytes(8), what)
        assert [p.payload for p in bench.data_to(output, 0)] == [nan], "explicit zeros change no bit"


@scenario
def disagreement_poisons_the_cell_for_every_child() -> None:
    """EPIC-D-01 to EPIC-D-06: another operator; every child learns both sides."""
    for mode in (1, 2, 3):
        bench = Bench(mode)
        other = Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32, tag=1)
        bench.contribute(0, 0, words(1))
        output = bench.contribute(1, 0, words(2), other)
        for child in (0, 1):
            result = only(bench.data_to(output, child))
            assert result.imm == SUM.pack() | 0x40
            assert struct.unpack(">IIII", result.payload) == (SUM.pack(), 4, other.pack(), 4)
        assert bench.engine.counters()["cells_poisoned"] == 1


@scenario
def other_length_poisons_the_cell() -> None:
    """EPIC-D-02: the descriptors agree, the lengths do not."""
    for mode in (1, 2, 3):
        bench = Bench(mode)
        bench.contribute(0, 0, words(1))
        result = only(bench.data_to(bench.contribute(1, 0, words(2, 3)), 0))
        assert result.imm == SUM.pack() | 0x40
        assert struct.unpack(">IIII", result.payload) == (SUM.pack(), 4, SUM.pack(), 8)


@scenario
def poison_of_a_child_reaches_every_rank() -> None:
    """EPIC-D-03 to EPIC-D-05: an inner engine passes ERR up and down."""
    for mode in (1, 2, 3):
        bench = Bench(mode, inner=True)
        err = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1, err=True)
        bench.contribute(0, 0, None, err)
        partial = only(bench.up(bench.contribute(1, 0, words(2))))
        assert partial.imm is not None
        assert partial.imm & 0x40
        output = bench.result(0, None, err)
        assert [p.imm for c in (0, 1) for p in bench.data_to(output, c)] == [err.pack() | 0x80] * 2


@scenario
def arithmetic_the_group_lacks_poisons_the_cell() -> None:
    """EPIC-E-12."""
    what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP64)
    for mode in (1, 2, 3):
        bench = Bench(mode)
        bench.contribute(0, 0, bytes(8), what)
        result = only(bench.data_to(bench.contribute(1, 0, bytes(8), what), 0))
        assert result.imm is not None
        assert result.imm & 0x40


@scenario
def congestion_reaches_partial_and_result() -> None:
    """EPIC-E-08."""
    for mode in (1, 2, 3):
        bench = Bench(mode, inner=True)
        bench.contribute(0, 0, words(1), ecn=3)
        partial = only(bench.up(bench.contribute(1, 0, words(2))))
        assert partial.ecn == 3
        output = bench.result(0, words(3))
        assert [p.ecn for c in (0, 1) for p in bench.data_to(output, c)] == [3, 3]
        bench.contribute(0, 1, words(1))
        partial = only(bench.up(bench.contribute(1, 1, words(2))))
        assert partial.ecn == 2


@scenario
def congestion_marks_narrow_the_window_of_an_agent() -> None:
    """EPIC-H-08: marks halve it, their absence widens it again, W is never exceeded (the abstract machine looks)."""
    for mode in (1, 2, 3):
        world = World(
            TWO_LEVELS, params(mode, window=8, slots=16, message_buffers=8), links=LinkModel(mark=1.0)
        )
        run_all(world, Collective("all_reduce", count=800))
        agent = world.net.agents[1, 0].agent  # type: ignore[attr-defined]
        assert agent.room() == 1
        world.net.links = LinkModel()
        run_all(world, Collective("all_reduce", count=800))
        assert agent.room() > 4


@scenario
def frames_that_are_not_the_edges_change_nothing() -> None:
    """EPIC-E-01, EPIC-W-10 (P6): port, addresses, QPN and P_Key are each needed."""
    for mode in (1, 2, 3):
        bench = Bench(mode)
        right, port = bench.contribution(0, 0, words(1)), bench.entry.children[0].port
        cases = {
            "drop_wrong_port": (port + 7, right),
            "drop_unknown_qpn": (port, right.but(qpn=right.qpn ^ 1)),
            "drop_pkey": (port, right.but(pkey=0x1234)),
        }
        for counter, (at, packet) in cases.items():
            assert bench.give(at, packet).sends == []
            assert bench.engine.counters()[counter] == 1, counter
        for change in (
            {"src_ip": "9.9.9.9"},
            {"dst_ip": "9.9.9.9"},
            {"src_mac": "02:00:00:00:00:09"},
            {"dst_mac": "02:00:00:00:00:09"},
        ):
            assert bench.give(port, right.but(**change)).sends == []
        counters = bench.engine.counters()
        assert (counters["drop_wrong_address"], counters["rx_contribution"]) == (4, 0)


@scenario
def frame_with_a_wrong_icrc_is_dropped() -> None:
    """EPIC-W-11; with icrc = none it is taken (EPIC-W-12)."""
    for mode in (1, 2, 3):
        for kind, taken in (("full", 0), ("none", 1)):
            bench = Bench(mode, icrc=kind)
            frame = bytearray(codec.encode(bench.contribution(0, 0, words(1))))
            frame[-1] ^= 1
            bench.engine.receive_frame(bench.entry.children[0].port, bytes(frame), 0.0)
            counters = bench.engine.counters()
            assert (counters["rx_contribution"], counters["drop_icrc"]) == (taken, 1 - taken)


@scenario
def sizes_that_do_not_fit_are_not_added() -> None:
    """EPIC-E-10, EPIC-E-11."""
    for mode in (2, 3):
        bench = Bench(mode)
        bench.contribute(0, 0, bytes(68))
        bench.contribute(0, 0, bytes(6))
        counters = bench.engine.counters()
        assert (counters["drop_oversize"], counters["drop_element"], counters["rx_contribution"]) == (1, 1, 0)


@scenario
def wide_partials_are_rounded_once() -> None:
    """EPIC-N-06: 1 + 2^-11 from one side of the tree and 2^-11 from the other reach FP16 only together."""
    tree = Tree("s", {"s": ("a", 2), "a": (0, 1)})
    what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP16)
    import epic_models.reference.interfaces as i

    world = World(tree, params(3, 3, datatypes=ALL_TYPES, partial_format="fp32"))
    for rank, value in enumerate((1.0, 2.0**-11, 2.0**-11)):
        payload = np.array([value], ">f2").tobytes()
        world.net.submit(1, rank, [i.Cell(what.pack(), payload)])
    assert world.net.run(1.0, lambda: all(world.net.events[1, r] for r in range(3)))
    event = only(world.net.events[1, 0])
    assert isinstance(event, i.CellDelivered)
    assert event.payload == np.array([1 + 2.0**-10], ">f2").tobytes()


# ---------------------------------------------------------------------------------------------- whole groups


@scenario
def ranks_that_call_different_things_all_learn_what_each_said() -> None:
    """EPIC-D-07 (P7): operator, datatype, root, length, primitive; native and emulated arithmetic."""
    base = Collective("all_reduce", "SUM", "INT32", 16)
    pairs = [
        (base, Collective("all_reduce", "MAX", "INT32", 16)),
        (base, Collective("all_reduce", "SUM", "FP32", 16)),
        (base, Collective("all_reduce", "SUM", "INT32", 17)),
        (base, Collective("all_reduce", "SUM", "INT32", 32)),
        (base, Collective("all_reduce", "SUM", "INT32", 0)),
        (base, Collective("reduce", "SUM", "INT32", 16)),
        (base, Collective("barrier")),
        (Collective("broadcast", count=16), Collective("broadcast", count=12)),
        (Collective("broadcast", count=16), Collective("broadcast", count=32)),
        (Collective("broadcast", count=16, root=0), Collective("broadcast", count=16, root=2)),
        (Collective("all_gather", count=16), Collective("all_gather", count=15)),
        (Collective("reduce", count=16), Collective("reduce_scatter", count=16)),
        (Collective("all_reduce", datatype="FP32"), Collective("all_reduce", datatype="FP16")),
    ]
    for mode in (1, 2, 3):
        for datatypes in (("INT32",), ALL_TYPES):
            for mine, other in pairs:
                world = World(TWO_LEVELS, params(mode, datatypes=datatypes))
                for rank in range(4):
                    what = other if rank == 3 else mine
                    world.call(rank, Expectation(what, world.params, 0).operations[rank])
                    world.call(rank, Expectation(Collective("barrier"), world.params, 1).operations[rank])
                world.settle()
                for member in world.members:
                    assert isinstance(member.error, MismatchError), (
                        mode,
                        datatypes,
                        mine,
                        other,
                        member.error,
                    )
                    assert mine.primitive in str(member.error) or other.primitive in str(member.error)


@scenario
def a_rank_that_never_calls_is_named_within_the_deadline() -> None:
    """EPIC-F-03, EPIC-F-04 (P8)."""
    for mode in (1, 2, 3):
        world = World(TWO_LEVELS, params(mode, deadline_us=100_000))
        for rank in (0, 1, 3):
            world.call(rank, Expectation(Collective("all_reduce"), world.params, 0).operations[rank])
        world.settle(0.1)
        for rank in (0, 1, 3):
            error = world.members[rank].error
            assert isinstance(error, PeerLostError), mode
            assert error.ranks == (2,), mode


@scenario
def a_rank_that_dies_is_named_within_the_deadline() -> None:
    """EPIC-F-03 (P8): in the middle of a long AllReduce."""
    for mode in (1, 2, 3):
        world = World(TWO_LEVELS, params(mode, deadline_us=100_000))
        for rank in range(4):
            world.call(
                rank, Expectation(Collective("all_reduce", count=5000), world.params, 0).operations[rank]
            )
        world.run(0.0005)
        assert not any(m.finished for m in world.members)
        world.net.kill(1)
        world.settle(0.1)
        for rank in (0, 2, 3):
            error = world.members[rank].error
            assert isinstance(error, PeerLostError), mode
            assert error.ranks == (1,), (mode, str(error))


@scenario
def a_switch_that_dies_is_named_by_its_edge() -> None:
    """EPIC-F-03 (P8)."""
    for mode in (1, 2, 3):
        world = World(TWO_LEVELS, params(mode, deadline_us=100_000))
        for rank in range(4):
            world.call(
                rank, Expectation(Collective("all_reduce", count=5000), world.params, 0).operations[rank]
            )
        world.run(0.0005)
        world.net.kill("b")
        world.settle(0.1)
        for member in world.members:
            assert isinstance(member.error, PeerLostError), mode
            assert "b-s" in member.error.edges, (mode, str(member.error))


@scenario
def window_follows_results_not_sends() -> None:
    """EPIC-A-01: whatever is acknowledged, no more than W results are outstanding (the abstract machine looks)."""
    for mode in (1, 2, 3):
        world = World(TWO_LEVELS, params(mode, window=2), FaultRates(loss=0.05))
        expected = Expectation(Collective("all_reduce", count=400), world.params, 0)
        for rank in (0, 1, 2):
            world.call(rank, expected.operations[rank])
        world.run(0.05)
        assert [world.machine.contributed[r] for r in range(4)] == [2, 2, 2, 0]
        world.call(3, expected.operations[3])
        world.settle()
        expected.check()
