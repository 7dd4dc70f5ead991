"""Directed situations of the host path, each a function that passes on right agents and raises on a broken one.

`test_host_scenarios.py` runs each; `test_host_mutants.py` shows for each planted fault a scenario here that sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from epic_host.fallback.agent import HostAgent
from epic_host.fallback.message import HEADER_BYTES, OPAQUE, pack
from epic_host.fallback.plan import host_plan, make_host_agent
from epic_host.fallback.value import Partial
from epic_models.reference import numerics
from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import (
    Cell,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Output,
    Stalled,
)
from epic_spec import codec
from epic_spec.errors import MismatchError, PeerLostError
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT, Descriptor, Packet
from epic_spec.tables import DATATYPE_BYTES, Datatype, Opcode, Operator, Primitive
from host.fallback.worlds import GROUP, HostWorld, ends, params
from models.worlds import Collective, Expectation

SCENARIOS: dict[str, Callable[[], None]] = {}
ALGORITHMS = ("ring", "doubling")
SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32).pack()
BARRIER = Descriptor(Primitive.ALLREDUCE).pack() | NULL_BIT


def scenario(function: Callable[[], None]) -> Callable[[], None]:
    """Register a scenario by its name."""
    SCENARIOS[function.__name__] = function
    return function


def words(*values: int) -> bytes:
    return np.array(values, dtype=">i4").tobytes()


def contribute(world: HostWorld, contributions: dict[int, list[Cell]]) -> None:
    """Ranks contribute cells of their own, as far as the window goes."""
    for rank, cells in contributions.items():
        world.net.submit(GROUP, rank, cells)


def results(world: HostWorld, rank: int) -> list[bytes | None]:
    """The payloads that a rank has been delivered."""
    return [e.payload for e in world.events(rank) if isinstance(e, CellDelivered)]


def failures(world: HostWorld, rank: int) -> list[CellFailed]:
    return [e for e in world.events(rank) if isinstance(e, CellFailed)]


def data_packets(world: HostWorld) -> list[tuple[int, int, Packet]]:
    """Every data packet that leaves a rank from now on: (sender, receiver, packet)."""
    rows: list[tuple[int, int, Packet]] = []
    rank_of = {end.ip: rank for rank, end in enumerate(ends(world.params.world_size))}

    def tap(time: float, node: Any, port: int, frame: bytes) -> None:
        packet = codec.decode(frame, icrc="check")
        if packet.opcode is not Opcode.ACK:
            rows.append((node, rank_of[packet.dst_ip], packet))

    world.net.tap = tap
    return rows


def payload_bytes(rows: list[tuple[int, int, Packet]]) -> Counter[tuple[int, int]]:
    """Bytes of cells, without headers, by link."""
    total: Counter[tuple[int, int]] = Counter()
    for sender, receiver, packet in rows:
        total[sender, receiver] += len(packet.payload) - HEADER_BYTES
    return total


class Alone:
    """One rank's agent by itself, with everything that it sends and reports kept."""

    def __init__(self, algorithm: str, n: int, rank: int, group: GroupParams | None = None) -> None:
        self.params = group or params(n)
        self.plan = host_plan(self.params, ends(n), algorithm, 7)
        self.rank = rank
        self.agent: HostAgent = make_host_agent(self.plan, rank)
        self.now = 0.0
        self._numbers: Counter[int] = Counter()

    def submit(self, *cells: Cell) -> Output:
        return self.agent.submit(cells, self.now)

    def message(self, peer: int, cell: int, step: int, partial: Partial) -> Output:
        """A message of the peer arrives, in order."""
        return self.payload(peer, pack(self.params, cell, step, partial).payload or b"", Opcode.SEND_ONLY_IMM)

    def payload(self, peer: int, payload: bytes, opcode: Opcode) -> Output:
        """The next packet of the peer arrives; one that was refused comes again and again, so it is not counted."""
        edge = self.plan.edges[peer][self.rank]
        packet = edge.packet(opcode, self._numbers[peer], imm=OPAQUE, payload=payload, ackreq=True)
        refused = self.agent.counters()["tx_nak"]
        output = self.agent.receive(self.plan.edges[self.rank][peer].port, packet, self.now)
        self._numbers[peer] += self.agent.counters()["tx_nak"] == refused
        return output

    def kept(self) -> int:
        """Partials and results that the agent has in memory."""
        stores = [getattr(self.agent, s, {}) for s in ("_early", "_first", "_second", "_cells", "_results")]
        return sum(map(len, stores))


# -------------------------------------------------------------------------------------------- results, P1 to P4


def _faults(algorithm: str) -> None:
    for seed in range(4):
        world = HostWorld(params(5, window=4), algorithm, FaultRates(0.05, 0.2, 0.2, 0.01), seed=seed)
        world.check(
            Collective("all_reduce", count=400, seed=seed),
            Collective("reduce", datatype="INT16", operator="MAX", count=70, root=3, seed=seed),
            Collective("broadcast", count=99, root=4, seed=seed),
            Collective("reduce_scatter", datatype="INT64", count=33, seed=seed),
            Collective("all_gather", datatype="FP32", count=33, seed=seed),
            Collective("barrier"),
            seconds=10.0,
        )


@scenario
def ring_repairs_every_fault() -> None:
    """P1 to P4."""
    _faults("ring")


@scenario
def doubling_repairs_every_fault() -> None:
    """P1 to P4."""
    _faults("doubling")


@scenario
def every_lost_frame_is_repaired() -> None:
    """Each frame of a short run is lost once, alone; all must end."""
    for algorithm in ALGORITHMS:
        total = 0
        lost = 0
        while lost <= total:
            world = HostWorld(params(3, window=2, slots=4), algorithm)
            frames = 0
            inject = world.net.inject

            def drop(place: Any, frame: bytes, delay: float = 0.0) -> None:
                nonlocal frames
                frames += 1
                if frames != lost:  # noqa: B023 - called before the next round
                    inject(place, frame, delay)  # noqa: B023

            world.net.inject = drop  # type: ignore[method-assign]
            world.check(
                Collective("all_reduce", count=60), Collective("broadcast", count=20, root=1), seconds=3.0
            )
            total = total or frames
            lost += 1
        assert total > 40


@scenario
def results_come_in_order() -> None:
    """EPIC-A-03: the result of cell 1 is here before that of cell 0 is."""
    for algorithm, step in (("ring", 1), ("doubling", 1)):
        alone = Alone(algorithm, 2, 0)
        alone.submit(Cell(SUM, words(1)), Cell(SUM, words(10)))
        # Ring of two: rank 0 owns cell 0 and gets the result of cell 1 in the second pass.
        first = alone.message(1, 1, step, Partial(SUM, 4, words(20)))
        assert first.events == [], "cell 1 must wait for cell 0"
        second = alone.message(1, 0, 0 if algorithm == "ring" else 1, Partial(SUM, 4, words(2)))
        assert [e.cell for e in second.events if isinstance(e, CellDelivered)] == [0, 1]


@scenario
def results_come_from_receive_and_poll_only() -> None:
    """Where all is here when a rank contributes, `poll` is due at once; a driver need not look at what submit gives."""
    for algorithm, step in (("ring", 0), ("doubling", 1)):
        alone = Alone(algorithm, 2, 0)
        alone.message(1, 0, step, Partial(SUM, 4, words(2)))
        alone.now = 5.0
        assert alone.submit(Cell(SUM, words(1))).events == []
        due = alone.agent.next_deadline()
        assert due is not None
        assert due <= 5.0
        assert [e.payload for e in alone.agent.poll(5.0).events if isinstance(e, CellDelivered)] == [words(3)]


@scenario
def window_is_the_result_clock() -> None:
    """EPIC-A-01."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(2, window=2, slots=4), algorithm)
        contribute(world, {0: [Cell(SUM, words(1))] * 2})
        assert world.hosts[0].room() == 0
        world.net.run(0.01)
        assert world.hosts[0].room() == 0, "nobody else has contributed"
        contribute(world, {1: [Cell(SUM, words(1))]})
        world.net.run(0.01)
        assert world.hosts[0].room() == 1


@scenario
def ranks_may_be_a_window_ahead() -> None:
    """A rank that contributes last finds what all others sent, W cells ahead of it."""
    for algorithm in ALGORITHMS:
        for slow in range(5):
            world = HostWorld(params(5, window=4), algorithm)
            contribute(world, {r: [Cell(SUM, words(r, i)) for i in range(4)] for r in range(5) if r != slow})
            world.net.run(0.01)
            contribute(world, {slow: [Cell(SUM, words(slow, i)) for i in range(4)]})
            world.net.run(0.05)
            for rank in range(5):
                assert results(world, rank) == [words(10, 5 * i) for i in range(4)]


@scenario
def cell_numbers_wrap_at_2_to_the_24() -> None:
    """EPIC-W-16: numbers on the wire are modulo 2^24, those of the ring's owners are not."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3, window=2, slots=4), algorithm)
        for host in world.hosts.values():
            host._next = host._delivered = (1 << 24) - 2
        world.machine.contributed = [(1 << 24) - 2] * 3
        world.machine.delivered = [(1 << 24) - 2] * 3
        world.check(Collective("all_reduce", count=100), seconds=3.0)


@scenario
def payload_of_a_reduce_comes_only_to_its_destination() -> None:
    """EPIC-E-06."""
    for algorithm in ALGORITHMS:
        for root in range(6):
            world = HostWorld(params(6), algorithm)
            imm = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, root).pack()
            contribute(world, {r: [Cell(imm, words(1 << r))] * 4 for r in range(6)})
            world.net.run(0.05)
            for rank in range(6):
                assert results(world, rank) == [words(63) if rank == root else None] * 4
                assert {e.imm for e in world.events(rank) if isinstance(e, CellDelivered)} == {
                    imm if rank == root else imm | NULL_BIT
                }


@scenario
def null_contributions_add_nothing() -> None:
    """EPIC-E-05: one rank has data, then none."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3), algorithm)
        contribute(
            world,
            {
                r: [Cell(SUM | NULL_BIT, None) if r != 1 else Cell(SUM, words(-7)), Cell(BARRIER, None)]
                for r in range(3)
            },
        )
        world.net.run(0.05)
        for rank in range(3):
            assert results(world, rank) == [words(-7), None]


# ------------------------------------------------------------------------------------------------------- load


@scenario
def ring_loads_every_link_with_2_n_minus_1_over_n() -> None:
    """Each of n ranks sends 2(n-1)/n of the data, and to the next rank only."""
    for n in (2, 3, 5, 8):
        world = HostWorld(params(n, window=8, slots=16), "ring")
        rows = data_packets(world)
        cells = 2 * n * 4
        world.check(Collective("all_reduce", count=cells * 16))
        size = cells * 64
        assert payload_bytes(rows) == {(r, (r + 1) % n): size * 2 * (n - 1) // n for r in range(n)}


@scenario
def payloads_of_reduce_and_broadcast_cross_a_ring_once() -> None:
    """ReduceScatter and AllGather: each rank sends (n-1)/n of the data; zeros of EPIC-D-08 are not sent."""
    n = 4
    for primitive in ("reduce_scatter", "all_gather"):
        world = HostWorld(params(n, window=8, slots=16), "ring")
        rows = data_packets(world)
        world.check(Collective(primitive, count=n * 16))
        size = n * n * 64
        assert payload_bytes(rows) == {(r, (r + 1) % n): size * (n - 1) // n for r in range(n)}


@scenario
def payloads_of_doubling_go_where_they_are_needed() -> None:
    """AllReduce: log2(m) payloads a rank of the base, one more each way for one folded in; else n - 1 in all."""
    for n in (4, 6, 8):
        for root in range(n):
            world = HostWorld(params(n), "doubling")
            rows = data_packets(world)
            world.check(Collective("broadcast", count=32, root=root))
            assert sum(payload_bytes(rows).values()) == 2 * 64 * (n - 1)
        base, extra = (4, n - 4) if n < 8 else (8, 0)
        world = HostWorld(params(n), "doubling")
        rows = data_packets(world)
        world.check(Collective("all_reduce", count=32))
        rounds = base.bit_length() - 1
        assert sum(payload_bytes(rows).values()) == 2 * 64 * (base * rounds + 2 * extra)


@scenario
def reduce_of_doubling_moves_a_payload_a_rank() -> None:
    """n - 1 payloads, and one more where the destination is folded in."""
    for n in (4, 6, 8):
        for root in range(n):
            world = HostWorld(params(n), "doubling")
            rows = data_packets(world)
            world.check(Collective("reduce", count=32, root=root))
            folded = n < 8 and root >= 4
            assert sum(payload_bytes(rows).values()) == 2 * 64 * (n - 1 + folded)


@scenario
def a_cell_is_one_packet_and_null_has_no_payload() -> None:
    """A full cell and its header are one packet; a Barrier's messages are headers."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(4), algorithm)
        rows = data_packets(world)
        contribute(world, {r: [Cell(SUM, words(*range(16)))] for r in range(4)})
        world.net.run(0.01)
        full = len(rows)
        assert {p.opcode for _, _, p in rows} == {Opcode.SEND_ONLY_IMM}
        assert {len(p.payload) for _, _, p in rows} == {64 + HEADER_BYTES}
        contribute(world, {r: [Cell(BARRIER, None)] for r in range(4)})
        world.net.run(0.01)
        assert {len(p.payload) for _, _, p in rows[full:]} == {HEADER_BYTES}
        assert {p.imm for _, _, p in rows} == {OPAQUE}


# ------------------------------------------------------------------------------------------------ disagreement


def _all_fail(algorithm: str, n: int, contributions: dict[int, Cell], **changes: object) -> list[CellFailed]:
    """Every rank fails the one cell, and all say the same."""
    # Not followed by the abstract machine: it knows nothing of what a group cannot compute.
    world = HostWorld(params(n, **changes), algorithm, follow=False)
    contribute(world, {r: [cell] for r, cell in contributions.items()})
    world.net.run(0.05)
    found = []
    for rank in range(n):
        found_here = failures(world, rank)
        assert found_here, f"{algorithm}: rank {rank} is not told that the ranks disagree"
        (failed,) = found_here
        assert results(world, rank) == []
        assert failed.sent == contributions[rank].imm & AGREEMENT_MASK
        found.append(failed)
    assert len({(f.held, f.record) for f in found}) == 1, (
        f"{algorithm}: ranks are told different things: {found}"
    )
    return found


@scenario
def disagreement_about_the_descriptor_fails_all() -> None:
    """P7, EPIC-D-02, EPIC-D-06: whoever differs, all fail and are told who disagreed."""
    other = Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32).pack()
    for algorithm in ALGORITHMS:
        for n in (2, 3, 5, 6):
            for odd in range(n):
                cells = {r: Cell(other if r == odd else SUM, words(r)) for r in range(n)}
                record = _all_fail(algorithm, n, cells)[0].record
                assert record is not None
                assert {record.held, record.other} == {SUM, other}
                assert (record.held_length, record.other_length) == (4, 4)


@scenario
def disagreement_about_the_length_fails_all() -> None:
    """P7, EPIC-D-02; the length that the record names is the contribution's, also where partials are wider."""
    imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP16).pack()
    for algorithm in ALGORITHMS:
        for odd in range(5):
            cells = {r: Cell(imm, bytes(4 if r == odd else 8)) for r in range(5)}
            record = _all_fail(algorithm, 5, cells, partial_format="fp32")[0].record
            assert record is not None
            assert {record.held_length, record.other_length} == {4, 8}


@scenario
def disagreement_about_a_root_fails_all() -> None:
    """P7: the way of a payload hangs on the descriptor, the way of the agreement does not."""
    for algorithm in ALGORITHMS:
        for primitive in (Primitive.REDUCE, Primitive.BROADCAST):
            for one in range(5):
                for other in range(5):
                    if one != other:
                        imms = [
                            Descriptor(primitive, Operator.SUM, Datatype.INT32, root).pack()
                            for root in (one, other)
                        ]
                        cells = {r: Cell(imms[r % 2], words(0, 0)) for r in range(5)}
                        assert _all_fail(algorithm, 5, cells)[0].record is not None


@scenario
def lengths_of_a_broadcast_are_compared_in_its_last_cell() -> None:
    """EPIC-D-08: zeros of the length that a rank expects."""
    for algorithm in ALGORITHMS:
        for source in range(3):
            for odd in range(3):
                imm = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, source).pack()
                cells = {r: Cell(imm, bytes(8 if r == odd else 4)) for r in range(3)}
                assert _all_fail(algorithm, 3, cells)[0].record is not None


@scenario
def what_the_group_cannot_compute_fails_all() -> None:
    """EPIC-E-12: no record, for nobody disagrees."""
    imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP32).pack()
    for algorithm in ALGORITHMS:
        cells = {r: Cell(imm, bytes(4)) for r in range(3)}
        assert _all_fail(algorithm, 3, cells, datatypes=("INT32",))[0].record is None


@scenario
def a_cell_that_is_too_long_fails_all() -> None:
    """EPIC-H-09: its partial would not fit a packet, and all would wait for it."""
    half = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP16).pack()
    for algorithm in ALGORITHMS:
        for imm, size in ((half, 36), (SUM, 68)):
            cells = {r: Cell(imm, bytes(size)) for r in range(3)}
            assert _all_fail(algorithm, 3, cells, partial_format="fp32")[0].record is None


@scenario
def a_rank_that_gives_up_fails_all() -> None:
    """EPIC-D-03: ERR and NULL in place of a cell; a record that comes with ERR goes to all."""
    for algorithm in ALGORITHMS:
        for odd in range(5):
            cells = {r: Cell(SUM, words(r)) for r in range(5)} | {odd: Cell(SUM | NULL_BIT | ERR_BIT, None)}
            assert _all_fail(algorithm, 5, cells)[0].record is None


@scenario
def without_conflict_records_none_is_told() -> None:
    """EPIC-D-06 is of the capability `conflict_record`."""
    other = Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32).pack()
    for algorithm in ALGORITHMS:
        cells = {r: Cell(other if r == 1 else SUM, words(r)) for r in range(4)}
        assert _all_fail(algorithm, 4, cells, conflict_record=False)[0].record is None


@scenario
def data_in_a_broadcast_of_another_fails_all() -> None:
    """EPIC-H-03: a rank that is not the source may send zeros only."""
    for algorithm in ALGORITHMS:
        for source in range(3):
            imm = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, source).pack()
            _all_fail(algorithm, 3, {r: Cell(imm, words(5)) for r in range(3)})


@scenario
def ranks_that_call_different_collectives_all_get_an_error() -> None:
    """P7, end to end: other counts, other primitives, other roots."""
    pairs = [
        (Collective("all_reduce", count=40), Collective("all_reduce", count=41)),
        (Collective("all_reduce", count=40), Collective("barrier")),
        (Collective("broadcast", count=40, root=0), Collective("broadcast", count=40, root=2)),
        (Collective("broadcast", count=16), Collective("broadcast", count=17)),
        (Collective("reduce_scatter", count=9), Collective("all_gather", count=9)),
        (Collective("all_reduce", count=9, datatype="FP32"), Collective("all_reduce", count=9)),
    ]
    for algorithm in ALGORITHMS:
        for one, other in pairs:
            world = HostWorld(params(3), algorithm, FaultRates(0.02, 0.05, 0.05))
            operations = [Expectation(c, world.params, 0).operations for c in (one, other)]
            for rank in range(3):
                world.members[rank].call(operations[rank == 1][rank])
            world.settle(3.0)
            assert [type(m.error) for m in world.members] == [MismatchError] * 3, (one, other)


# ---------------------------------------------------------------------------------------------------- numerics


def _cancelling(n: int) -> np.ndarray[Any, Any]:
    """Values whose sum depends on the order of addition."""
    rng = np.random.default_rng(n)
    return (rng.standard_normal((n, 16)) * 2.0 ** rng.integers(-12, 12, (n, 16))).astype(np.float32)


def _float_sums(
    algorithm: str,
    datatype: Datatype,
    values: np.ndarray[Any, Any],
    world_of: Callable[[], HostWorld],
    cells: int = 1,
) -> list[list[bytes | None]]:
    world = world_of()
    imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype).pack()
    width = 64 // DATATYPE_BYTES[datatype.name] // 2
    n = len(values)
    for rank in range(n):
        data = values[rank][:width].astype(numerics.array_dtype(datatype))
        world.net.submit(GROUP, rank, [Cell(imm, numerics.to_wire(data, datatype, "big"))] * cells)
        world.net.run(world.net._rng.uniform(0, 1e-4))
    world.net.run(0.2)
    return [results(world, rank) for rank in range(n)]


@scenario
def floating_point_sums_are_equal_at_all_ranks_and_reproducible() -> None:
    """The order of addition does not hang on time: any network gives the same bits, to all ranks."""
    for algorithm in ALGORITHMS:
        for datatype in (Datatype.FP32, Datatype.FP16, Datatype.BF16):
            for n in (3, 4, 7):
                seen = set()
                for seed in range(3):
                    found = _float_sums(
                        algorithm, datatype, _cancelling(n),
                        lambda: HostWorld(params(n), algorithm, FaultRates(0.1, 0.1, 0.3), seed=seed),  # noqa: B023
                    )  # fmt: skip
                    assert all(row == found[0] for row in found), f"{algorithm} {datatype.name}: ranks differ"
                    seen.add(found[0][0])
                assert len(seen) == 1, f"{algorithm} {datatype.name}: runs differ"


@scenario
def doubling_adds_in_the_same_order_in_every_cell() -> None:
    """A function of n alone; the ring's order turns with the cell, by construction."""
    found = _float_sums(
        "doubling", Datatype.FP32, _cancelling(6), lambda: HostWorld(params(6), "doubling"), 4
    )
    assert len(set(found[0])) == 1
    values = _cancelling(6)[:, :8]
    pairs = [(values[0] + values[4]) + (values[1] + values[5]), values[2] + values[3]]
    assert found[0][0] == numerics.to_wire(pairs[0] + pairs[1], Datatype.FP32, "big")


@scenario
def ring_adds_from_behind_the_owner() -> None:
    """Cell s: ranks s + 1, s + 2, … s modulo n."""
    n = 5
    values = _cancelling(n)[:, :8]
    found = _float_sums("ring", Datatype.FP32, values, lambda: HostWorld(params(n), "ring"), 4)
    for cell in range(4):
        total = values[(cell + 1) % n].copy()
        for i in range(1, n):
            total = total + values[(cell + 1 + i) % n]
        assert found[0][cell] == numerics.to_wire(total, Datatype.FP32, "big")


@scenario
def wide_partials_are_rounded_once() -> None:
    """EPIC-N-06: 1 and many halves of its last place: rounded at each step they vanish, added first they count."""
    for algorithm in ALGORITHMS:
        for datatype, tiny in ((Datatype.FP16, 2.0**-11), (Datatype.BF16, 2.0**-8)):
            values = np.full((8, 16), tiny, dtype=np.float32)
            values[0] = 1.0
            (first, *_), *_ = _float_sums(
                algorithm,
                datatype,
                values,
                lambda: HostWorld(params(8, partial_format="fp32"), algorithm),  # noqa: B023
            )
            assert first is not None
            total = numerics.load(first, datatype, "big")
            want = np.float32(1 + 7 * tiny).astype(numerics.array_dtype(datatype)).astype(np.float32)
            assert np.all(total == want), (algorithm, datatype.name, total[0], want)


# ---------------------------------------------------------------------------- bounds, edges, who is missing


@scenario
def what_is_not_waited_for_is_refused() -> None:
    """P5, EPIC-H-01: cells W ahead, twice the same, or of a step that cannot be: NAK, and nothing is kept."""
    partial = Partial(SUM, 4, words(1))
    for algorithm, step, wrong in (("ring", 0, 9), ("doubling", 1, 2)):
        for messages in (((4, step),), ((0, step), (0, step)), ((0, wrong),)):
            alone = Alone(algorithm, 2, 0)
            for cell, how in messages:
                alone.message(1, cell, how, partial)
            assert alone.agent.counters()["drop_invalid_request"] == 1, (algorithm, messages)
            assert alone.agent.counters()["tx_nak"] == 1


@scenario
def a_payload_that_does_not_fit_its_descriptor_is_refused() -> None:
    for algorithm, step in (("ring", 0), ("doubling", 1)):
        for partial in (
            Partial(SUM, 8, words(1)),
            Partial(SUM, 3, b"abc"),
            Partial(BARRIER & AGREEMENT_MASK, 4, words(1)),
        ):
            alone = Alone(algorithm, 2, 0)
            alone.submit(Cell(SUM, words(1)))
            output = alone.message(1, 0, step, partial)
            assert output.events == []
            assert alone.agent.counters()["drop_invalid_request"] == 1


@scenario
def frames_of_others_change_nothing() -> None:
    """EPIC-H-01, P6."""
    for algorithm, step in (("ring", 0), ("doubling", 1)):
        alone = Alone(algorithm, 2, 0)
        alone.submit(Cell(SUM, words(1)))
        edge = alone.plan.edges[1][0]
        body = pack(alone.params, 0, step, Partial(SUM, 4, words(2)))
        good = edge.packet(Opcode.SEND_ONLY_IMM, 0, imm=body.imm, payload=body.payload or b"", ackreq=True)
        for reason, port, packet in (
            ("unknown_qpn", 0, good.but(qpn=good.qpn ^ 1)),
            ("wrong_address", 0, good.but(src_ip="10.0.0.77")),
            ("wrong_port", 1, good),
            ("pkey", 0, good.but(pkey=1)),
            ("icrc", 0, good.but(icrc_ok=False)),
        ):
            output = alone.agent.receive(port, packet, 0.0)
            assert output == Output()
            assert alone.agent.counters()[f"drop_{reason}"] == 1
        assert [
            e.payload for e in alone.agent.receive(0, good, 0.0).events if isinstance(e, CellDelivered)
        ] == [words(3)]


@scenario
def a_rank_that_starts_late_is_waited_for() -> None:
    """Its neighbours repeat past retry_limit until it is there; only then an edge may be given up."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3, retry_limit=2), algorithm)
        start = world.start_late(1)
        expected = world.call(Collective("all_reduce", count=50))
        world.run(1.0)
        start()
        world.settle(3.0)
        assert [m.error for m in world.members] == [None] * 3
        expected[0].check()


@scenario
def a_rank_that_dies_puts_its_edges_in_error() -> None:
    """EPIC-F-02: a neighbour that waits for an acknowledgement names the edge."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3, retry_limit=3), algorithm)
        world.check(Collective("all_reduce", count=50))
        world.net.kill(1)
        contribute(world, {0: [Cell(SUM, words(1))], 2: [Cell(SUM, words(1))]})
        world.net.run(1.0)
        failed = {e.edge for r in (0, 2) for e in world.events(r) if isinstance(e, EdgeFailed)}
        assert failed
        assert failed <= {"r0-r1", "r1-r2"}


@scenario
def every_rank_names_who_is_missing() -> None:
    """P8: also those that are not its neighbours; dead from the start, or alive and late."""
    for algorithm in ALGORITHMS:
        for n in (3, 6):
            for missing in range(n):
                for dead in (True, False):
                    world = HostWorld(params(n, deadline_us=1_000_000), algorithm)
                    if dead:
                        world.start_late(missing)
                    contribute(world, {r: [Cell(SUM, words(1))] for r in range(n) if r != missing})
                    world.net.run(0.85)
                    for rank in set(range(n)) - {missing}:
                        stalled = [e for e in world.events(rank) if isinstance(e, Stalled)]
                        assert [e.cell for e in stalled] == [0], (algorithm, n, missing, dead, rank)
                        named = world.hosts[rank].waiting_for()
                        assert named == (missing,), (
                            f"{algorithm} n={n}: rank {rank} names {named}, expected {missing}"
                        )
                    assert world.hosts[missing].waiting_for() == ()


@scenario
def every_rank_names_one_that_died_on_the_way() -> None:
    """P8: results of some cells are here at some ranks only, so the ranks wait at different cells."""
    for algorithm in ALGORITHMS:
        for n in (3, 5, 6):
            cells = set()
            for moment in range(4):
                group = params(n, deadline_us=2_000_000, retry_limit=255, rto_max_us=100_000)
                world = HostWorld(group, algorithm, seed=moment)
                world.call(Collective("all_reduce", count=16 * 200))
                world.run(2e-4 + 3.1e-5 * moment)
                died = moment % n
                world.net.kill(died)
                world.run(2.5)
                for rank in set(range(n)) - {died}:
                    stalled = [e.cell for e in world.events(rank) if isinstance(e, Stalled)]
                    assert stalled, f"{algorithm} n={n}: rank {rank} does not notice"
                    cells.add((moment, stalled[0]))
                    named = world.hosts[rank].waiting_for()
                    assert named == (died,), f"{algorithm} n={n}: rank {rank} names {named}, expected {died}"
            assert len(cells) > 4, "ranks always wait at the same cell"


@scenario
def several_missing_ranks_are_all_missing() -> None:
    """Every rank names at least one of the missing ranks and no other."""
    for algorithm in ALGORITHMS:
        for missing in ({1, 2}, {0, 3}, {2, 4, 5}):
            world = HostWorld(params(7, deadline_us=1_000_000), algorithm)
            contribute(world, {r: [Cell(SUM, words(1))] for r in range(7) if r not in missing})
            world.net.run(0.85)
            for rank in set(range(7)) - missing:
                named = set(world.hosts[rank].waiting_for())
                assert named
                assert named <= missing, (algorithm, missing, rank, named)


@scenario
def members_of_a_stalled_group_get_peer_lost() -> None:
    """P8, end to end, with loss."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(4, deadline_us=1_000_000), algorithm, FaultRates(loss=0.05))
        world.start_late(2)
        world.call(Collective("all_reduce", count=50))
        world.settle(2.0)
        for member in world.members:
            if member.rank != 2:
                assert isinstance(member.error, PeerLostError)
                assert tuple(member.error.ranks) == (2,)
                assert member.failed_at is not None
                assert member.failed_at < 1.0


@scenario
def acknowledgements_may_all_be_lost_while_results_come() -> None:
    """P5: what a result proves to have arrived is not kept, and no edge is given up for want of its ACK."""
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3, window=4, retry_limit=5), algorithm)
        inject = world.net.inject
        most = 0

        def without_acks(place: Any, frame: bytes, delay: float = 0.0) -> None:
            nonlocal most
            most = max([most, *(e.unacknowledged for h in world.hosts.values() for e in h._edges.values())])  # noqa: B023
            if codec.decode(frame, icrc="check").opcode is not Opcode.ACK:
                inject(place, frame, delay)  # noqa: B023

        world.net.inject = without_acks  # type: ignore[method-assign]
        world.check(Collective("all_reduce", count=16 * 200), seconds=5.0)
        assert most <= 4 * 4, f"{algorithm}: {most} packets kept with a window of 4"


@scenario
def an_agent_is_settled_when_all_is_acknowledged() -> None:
    for algorithm in ALGORITHMS:
        world = HostWorld(params(3), algorithm)
        assert all(h.settled for h in world.hosts.values())
        contribute(world, {0: [Cell(SUM, words(1))], 1: [Cell(SUM, words(1))], 2: [Cell(SUM, words(1))]})
        assert not all(h.settled for h in world.hosts.values())
        world.net.run(0.1)
        assert all(h.settled for h in world.hosts.values())


@scenario
def congestion_reaches_every_rank() -> None:
    """EPIC-E-08, EPIC-H-08: a mark on one hop of a cell narrows the window of all."""
    for algorithm in ALGORITHMS:
        for marked in range(4):
            world = HostWorld(params(4, window=8, slots=16), algorithm)
            send = world.net.send
            done: list[int] = []

            def mark_one(node: Any, port: int, packet: Packet) -> None:
                if node == marked and packet.imm is not None and not done:  # noqa: B023
                    done.append(1)  # noqa: B023
                    packet = packet.but(ecn=3)
                send(node, port, packet)  # noqa: B023

            world.net.send = mark_one  # type: ignore[method-assign]
            contribute(world, {r: [Cell(SUM, words(1))] for r in range(4)})
            world.net.run(0.05)
            rooms = [h.room() for h in world.hosts.values()]
            # A mark in the second pass of a ring comes after the ranks that have the result.
            assert 4 in rooms
            if algorithm == "ring" and marked in (0, 1):
                expected = [4, 4, 4, 4] if marked == 1 else [8, 4, 4, 4]
                assert rooms == expected, (marked, rooms)


@scenario
def mode_1_cells_are_messages_of_several_packets() -> None:
    """A cell is as large as on the network; FIRST and MIDDLE are full, so that a message needs no more packets."""
    for algorithm in ALGORITHMS:
        group = params(3, mode=1, message_bytes=256, message_buffers=1)
        world = HostWorld(group, algorithm, FaultRates(0.05, 0.1, 0.1))
        rows = data_packets(world)
        world.check(Collective("all_reduce", count=64 * 5), seconds=5.0)
        assert {len(p.payload) for _, _, p in rows if p.opcode is Opcode.SEND_FIRST} == {64 + HEADER_BYTES}


@scenario
def a_group_of_one_rank_has_its_own_data() -> None:
    for algorithm in ALGORITHMS:
        world = HostWorld(params(1), algorithm)
        rows = data_packets(world)
        world.check(
            *(Collective(p, count=70) for p in ("all_reduce", "reduce", "broadcast", "all_gather", "barrier"))
        )
        assert rows == []
