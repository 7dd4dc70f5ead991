"""P1 to P8 of the abstract machine, each by name, in every mode. The abstract machine follows every world here."""

from __future__ import annotations

import gc
import pickle
import random
import sys
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_models.reference.endpoint import EngineBase
from epic_models.reference.faults import FaultRates
from epic_models.reference.interfaces import Cell
from epic_models.reference.tree import Tree
from epic_spec import codec
from epic_spec.errors import MismatchError, PeerLostError
from epic_spec.packets import Packet
from epic_spec.tables import Opcode
from models import scenarios
from models.bench import SUM, Bench, words
from models.scenarios import TWO_LEVELS, params, run_all
from models.worlds import ALL_TYPES, Collective, Expectation, World

MODES = pytest.mark.parametrize("mode", [1, 2, 3])
THREE_LEVELS = Tree("s", {"s": ("a", 4), "a": ("b", 3), "b": (0, 1, 2)})
HARSH = FaultRates(loss=0.05, duplicate=0.1, reorder=0.1, corrupt=0.02)
EVERY_PRIMITIVE = [
    Collective(p, count=50, root=1)
    for p in ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier")
]


@MODES
@pytest.mark.parametrize("datatype", ALL_TYPES)
@pytest.mark.parametrize("operator", ["SUM", "MAX", "MIN"])
def test_p1_a_result_is_the_reduction_of_one_contribution_per_rank(
    mode: int, datatype: str, operator: str
) -> None:
    world = World(THREE_LEVELS, params(mode, 5, datatypes=ALL_TYPES), HARSH, seed=mode)
    run_all(
        world,
        Collective("all_reduce", operator, datatype, 200),
        Collective("reduce", operator, datatype, 33, root=3),
    )


@MODES
def test_p2_every_rank_delivers_every_cell_once_and_in_order(mode: int) -> None:
    world = World(TWO_LEVELS, params(mode), FaultRates(0.05, 0.5, 0.5), seed=3)
    run_all(world, Collective("all_reduce", count=500))
    assert len(set(world.machine.delivered)) == 1
    assert world.machine.delivered == world.machine.contributed


@MODES
def test_p3_no_rank_gets_a_result_before_all_have_contributed(mode: int) -> None:
    world = World(THREE_LEVELS, params(mode, 5), HARSH, seed=5)
    expected = Expectation(Collective("all_reduce", count=100), world.params, 0)
    for rank in (0, 1, 2, 4):
        world.call(rank, expected.operations[rank])
    world.run(0.2)
    assert world.machine.delivered == [0] * 5
    world.call(3, expected.operations[3])
    world.settle()
    expected.check()


@MODES
@pytest.mark.parametrize("loss", [0.05, 0.3])
def test_p4_every_cell_is_delivered_within_bounded_virtual_time_under_loss(mode: int, loss: float) -> None:
    world = World(THREE_LEVELS, params(mode, 5), FaultRates(loss=loss, duplicate=0.1, reorder=0.1), seed=7)
    expected = [Expectation(c, world.params, tag) for tag, c in enumerate(EVERY_PRIMITIVE)]
    for e in expected:
        for rank, operation in enumerate(e.operations):
            world.call(rank, operation)
    # About 50 cells of 3 levels; each loss costs at most a capped timeout of 5 ms at one of 6 hops.
    world.settle(seconds=5.0)
    for e in expected:
        e.check()


# ------------------------------------------------------------------------------------------------------- P5

_PLUMBING = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def held_bytes(engine: EngineBase) -> int:
    """Bytes of everything reachable from an engine, code and classes excepted."""
    seen: set[int] = set()
    stack: list[Any] = [engine]
    total = 0
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, _PLUMBING):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        stack += gc.get_referents(item)
    return total


def hostile(bench: Bench, rng: random.Random) -> tuple[int, Packet]:
    """A packet that a hostile child may send: any opcode, number, size and descriptor on its own edge."""
    child = rng.randrange(2)
    opcode = rng.choice([*Opcode])
    packet = bench.contribution(child, rng.choice([rng.randrange(50), rng.randrange(1 << 24)]), b"")
    size = rng.choice([0, 4, 60, 64, 8192])
    imm = rng.choice([SUM.pack(), SUM.pack() | 0x80, SUM.pack() | 0x40, rng.getrandbits(32)])
    if opcode is Opcode.ACK:
        aeth = scenarios.nak_aeth(rng.choice([*scenarios.NakCode]), rng.getrandbits(24))
        return bench.entry.children[child].port, packet.but(opcode=opcode, imm=None, aeth=aeth)
    has_imm = opcode in (Opcode.SEND_ONLY_IMM, Opcode.SEND_LAST_IMM)
    return bench.entry.children[child].port, packet.but(
        opcode=opcode, imm=imm if has_imm else None, payload=bytes(size)
    )


@MODES
def test_p5_nothing_received_enlarges_the_memory_of_a_group(mode: int) -> None:
    bench = Bench(mode, window=4, slots=8, message_buffers=4, payload_bytes=64, message_bytes=256)
    rng = random.Random(mode)
    sizes = []
    for _ in range(6):
        for _ in range(1500):
            port, packet = hostile(bench, rng)
            try:
                frame = codec.encode(packet)
            except (ValueError, codec.WireError):
                continue
            bench.engine.receive_frame(port, frame, bench.now)
            bench.elapse(0.001)
        sizes.append(held_bytes(bench.engine))
    # 8 slots with an accumulator and a result each, 3 edges with 4 packets each, 2 reassemblies of 256 bytes.
    assert max(sizes) < 120_000
    assert sizes[-1] <= 1.2 * sizes[0]


# ------------------------------------------------------------------------------------------------------- P6


def fingerprint(engine: EngineBase) -> bytes:
    """The state of an engine without its counters."""
    counters = dict(engine._count)
    engine._count.update(dict.fromkeys(engine._count, 0))
    state = pickle.dumps(engine._groups)
    engine._count.update(counters)
    return state


@MODES
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_p6_a_frame_that_did_not_come_over_its_edge_changes_no_state(mode: int, data: st.DataObject) -> None:
    bench = Bench(mode)
    bench.contribute(0, 0, words(1))
    before = fingerprint(bench.engine)
    right = bench.contribution(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 3)), words(5))
    port = bench.entry.children[0].port
    other_ip = st.sampled_from(["10.9.9.9", bench.child_edge(0).peer.ip, "127.0.0.1"])
    change: dict[str, Any] = data.draw(
        st.one_of(
            st.fixed_dictionaries({"qpn": st.integers(0, (1 << 24) - 1)}),
            st.fixed_dictionaries({"src_ip": other_ip}),
            st.fixed_dictionaries({"dst_mac": st.just("ff:ff:ff:ff:ff:ff")}),
            st.fixed_dictionaries({"src_mac": st.just("02:00:00:00:00:77")}),
            st.fixed_dictionaries({"pkey": st.integers(0, 0xFFFE)}),
            st.just({}),
        )
    )
    port += 0 if change else data.draw(st.integers(5, 9))
    output = bench.engine.receive(port, right.but(**change), 0.0)
    assert output.sends == []
    assert fingerprint(bench.engine) == before
    drops = {k: v for k, v in bench.engine.counters().items() if k.startswith("drop_") and v}
    assert sum(drops.values()) == 1, drops


@MODES
@settings(max_examples=100, deadline=None)
@given(frame=st.binary(max_size=200))
def test_p6_bytes_that_are_no_frame_change_no_state(mode: int, frame: bytes) -> None:
    bench = Bench(mode)
    before = fingerprint(bench.engine)
    assert bench.engine.receive_frame(0, frame, 0.0).sends == []
    assert fingerprint(bench.engine) == before


@MODES
def test_p6_groups_on_one_engine_do_not_disturb_each_other(mode: int) -> None:
    from epic_models.reference.network import Network
    from epic_models.reference.tree import build_group

    tree = Tree("s", {"s": ("a", "b"), "a": (0, 1), "b": (2, 3)})
    one = build_group(tree, params(mode), seed=1)
    from dataclasses import replace

    two = build_group(tree, replace(one.params, group=2), seed=2)
    net = Network([one, two], FaultRates(0.02, 0.2, 0.2), seed=4)
    for group in (1, 2):
        for rank in range(4):
            net.submit(group, rank, [Cell(SUM.pack(), words(group * 100 + rank))])
    assert net.run(2.0, lambda: all(net.events[g, r] for g in (1, 2) for r in range(4)))
    for group in (1, 2):
        for rank in range(4):
            assert net.events[group, rank][0].payload == words(group * 400 + 6)  # type: ignore[union-attr]


@MODES
def test_a_group_installed_again_starts_afresh(mode: int) -> None:
    bench = Bench(mode)
    bench.contribute(0, 0, words(1000))
    bench.engine.remove(1)
    bench.engine.install(bench.entry, 0.0)
    bench.contribute(0, 0, words(1))
    output = bench.contribute(1, 0, words(2))
    assert [p.payload for p in bench.data_to(output, 0)] == [words(3)]


# --------------------------------------------------------------------------------------------------- P7 and P8


@MODES
def test_p7_ranks_that_disagree_all_get_an_error_and_nobody_wrong_data(mode: int) -> None:
    for loss in (0.0, 0.1):
        world = World(THREE_LEVELS, params(mode, 5), FaultRates(loss=loss, duplicate=0.1), seed=11)
        right = Expectation(Collective("all_reduce", "SUM", count=40), world.params, 0)
        wrong = Expectation(Collective("all_reduce", "MIN", count=40), world.params, 0)
        for rank in range(5):
            world.call(rank, (wrong if rank == 2 else right).operations[rank])
        world.settle(5.0)
        texts = [str(m.error) for m in world.members]
        assert all(isinstance(m.error, MismatchError) for m in world.members)
        assert all("SUM" in t and "MIN" in t for t in texts), texts


@MODES
def test_p8_whoever_stops_is_named_by_every_other_rank_within_the_deadline(mode: int) -> None:
    for victim, ranks, edges in ((2, (2,), ()), ("b", None, ("b-a",))):
        world = World(THREE_LEVELS, params(mode, 5, deadline_us=200_000), seed=2)
        expected = Expectation(Collective("all_reduce", count=4000), world.params, 0)
        for rank in range(5):
            world.call(rank, expected.operations[rank])
        world.run(0.0005)
        died = world.net.now
        world.net.kill(victim)
        world.settle(0.2)
        for member in world.members:
            if member.rank == victim:
                continue
            assert isinstance(member.error, PeerLostError)
            assert ranks is None or member.error.ranks == ranks, str(member.error)
            assert set(edges) <= set(member.error.edges), str(member.error)
            assert member.failed_at is not None
            assert member.failed_at - died <= 0.2


@MODES
@pytest.mark.parametrize("datatypes", [("INT32",), ALL_TYPES])
def test_reproducible_results_do_not_depend_on_the_network(mode: int, datatypes: tuple[str, ...]) -> None:
    results = set()
    for seed in range(6):
        world = World(THREE_LEVELS, params(mode, 5, datatypes=datatypes, ordered=mode == 1), HARSH, seed=seed)
        expected = Expectation(
            Collective("all_reduce", "SUM", "FP32", 100, reproducible=True), world.params, 0
        )
        for rank, operation in enumerate(expected.operations):
            world.call(rank, operation)
        world.settle()
        results |= {out.tobytes() for out in expected.outputs if out is not None}
    assert len(results) == 1


def test_plain_floating_point_does_depend_on_it() -> None:
    """What the test above would also pass if nothing ever differed."""
    results = set()
    for seed in range(20):
        tree = Tree("s", {"s": tuple(range(6))})
        world = World(tree, params(3, 6, datatypes=ALL_TYPES), FaultRates(0.1, 0.1, 0.1), seed=seed)
        expected = Expectation(Collective("all_reduce", "SUM", "FP32", 200), world.params, 0)
        for rank, operation in enumerate(expected.operations):
            world.call(rank, operation)
        world.settle()
        results |= {out.tobytes() for out in expected.outputs if out is not None}
    assert len(results) > 1
