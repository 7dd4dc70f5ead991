"""A simulated engine with its control plane: what it offers, where groups go, that nothing is forgotten under way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epic_models.reference.interfaces import Cell
from epic_models.reference.registry import make_agent
from epic_spec import codec
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from epic_testbed.rtl.device import RtlDevice, open_device
from epic_testbed.rtl.parameters import DEFAULTS, Shape, complete
from rtl.groups import device, plan
from rtl.needs import need

IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32).pack()
REDUCE_TO_1 = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1).pack()


@pytest.fixture(params=sorted(DEFAULTS))
def engine(request: pytest.FixtureRequest) -> Iterator[RtlDevice]:
    need("verilator")
    one = device(request.param)
    one.reset()
    yield one
    one.reset()


def contributions(
    engine: RtlDevice, number: int, ports: list[int], cells: int, imm: int = IMM, **params: int
) -> list[tuple[int, bytes]]:
    """A group is installed; the frames of that many cells of each of its ranks."""
    group = plan(number, engine.MODE, ports, **params)
    engine.install(group.engines["x"])
    frames = []
    for rank, port in enumerate(ports):
        words = b"".join((rank + 1).to_bytes(4, "big") for _ in range(group.params.payload_bytes // 4))
        sends = make_agent(group.ranks[rank]).submit([Cell(imm, words)] * cells, 0.0).sends
        frames += [(port, codec.encode(packet)) for _, packet in sends]
    return frames


def test_what_is_planned_is_what_the_registers_say(engine: RtlDevice) -> None:
    assert Shape.planned(engine.MODE, complete(engine.MODE, {})) == engine.shape


def test_lanes_that_are_not_built_are_not_offered() -> None:
    for mode in DEFAULTS:
        assert Shape.planned(mode, complete(mode, {"FP32": 0})).offers().datatypes == ("INT32",)
        assert Shape.planned(mode, complete(mode, {})).offers().datatypes == ("INT32", "FP32")


def test_modes_offer_what_they_have() -> None:
    two, three = (Shape.planned(mode, complete(mode, {})).offers() for mode in (2, 3))
    assert (two.ack_reflection, two.window_guard, two.window) == (False, False, 128)
    assert (three.ack_reflection, three.window_guard, three.window) == (True, True, 128)
    assert not two.ordered and not three.ordered


def test_a_burst_of_largest_payloads_on_all_ports_loses_nothing(engine: RtlDevice) -> None:
    """More frames at once than wait at a port: they go in as there is room, and all results come out."""
    ports, mtu = list(range(8)), engine.shape.mtu
    frames = contributions(engine, 1, ports, 8, payload_bytes=mtu)
    by_cell = [frames[8 * port + cell] for cell in range(8) for port in ports]
    sent = engine.process_all(by_cell)
    results = [f for _, f in sent if len(f) > mtu]
    assert len(results) == 8 * 8
    assert {port for port, _ in sent} == set(ports)
    assert codec.decode(results[0], icrc="check").payload == (36).to_bytes(4, "big") * (mtu // 4)
    assert sum(engine.port_counters(port)["overflow"] for port in ports) == 0
    assert engine.counters()["cells_completed"] == 8


def test_nothing_comes_after_a_device_has_settled(engine: RtlDevice) -> None:
    """Results of the largest payloads take hundreds of cycles without a beat at a port."""
    for port, frame in contributions(engine, 1, [3, 3, 5], 2, payload_bytes=engine.shape.mtu):
        engine.process(port, frame)
        engine.model.run(5000)
        assert engine.sent() == []


def test_what_a_frame_causes_leaves_before_a_device_is_taken_for_quiet(engine: RtlDevice) -> None:
    """The core is looked at when nothing has moved for so long; what it has given away then must be seen at a port."""
    longest = 0
    for port, frame in contributions(engine, 1, [0, 1, 2], 2, payload_bytes=64):
        engine.model.push(port, frame)
        engine.model.run(500)
        while (entered := engine.model.entered()) is not None:
            last_in = entered.last
        while (sent := engine.model.pop()) is not None:
            longest = max(longest, sent.first - last_in)
    assert 0 < longest < engine.quiet


def test_counters_are_read_again_when_something_has_happened(engine: RtlDevice) -> None:
    """They are read once while the engine stands still, whatever is asked meanwhile; what may count ends that."""
    first, second, late, *_ = contributions(engine, 1, [0, 1], 2)
    engine.process(*first)
    before = engine.counters()
    cycle = engine.model.cycles()
    assert engine.counters() == before and engine.model.cycles() == cycle
    engine.status(1)
    cycle = engine.model.cycles()
    assert engine.counters() == before and engine.model.cycles() == cycle

    engine.process(*second)
    assert engine.counters()["rx_frames"] == 2
    engine.model.push(*late)
    seen = {engine.counters()["rx_frames"] for _ in range(50)}  # while it is on its way, nobody waits for it
    assert seen == {2, 3}
    engine.reset()
    assert engine.counters()["rx_frames"] == 0


def test_counters_are_read_again_when_a_timer_has_run() -> None:
    need("verilator")
    engine = device(2)
    engine.reset()
    for port, frame in contributions(engine, 1, [0, 1], 1, rto_initial_us=20000):
        engine.process(port, frame)
    before = engine.counters()["tx_retransmission"]
    engine.pass_time(15000)
    cycle = engine.model.cycles()
    assert engine.counters()["tx_retransmission"] == before and engine.model.cycles() == cycle
    engine.pass_time(10000)
    assert engine.counters()["tx_retransmission"] == before + 2


def test_a_port_that_is_held_leaves_the_engine_at_work(engine: RtlDevice) -> None:
    """What waits for the port is no work that ends, so it is not waited for, and what is counted may change."""
    engine.model.hold(0, held=True)
    for port, frame in contributions(engine, 1, [0, 1], 1):
        engine.process(port, frame)
    assert not engine.model.still
    engine.model.hold(0, held=False)
    assert len(engine.settle()) >= 1
    assert engine.model.still


def test_a_group_that_was_removed_leaves_its_place(engine: RtlDevice) -> None:
    for number in range(1, 40):
        frames = contributions(engine, number, [0, 1, 2], 1)
        sent = engine.process_all(frames)
        assert len([f for _, f in sent if len(f) > 256]) == 3, number
        engine.remove(number)
        assert engine.groups() == ()
        # A late frame finds nobody.
        before = engine.counters()["drop_unknown_qpn"]
        assert engine.process(*frames[0]) == []
        assert engine.counters()["drop_unknown_qpn"] == before + 1


def test_groups_with_the_same_ranks_do_not_mix(engine: RtlDevice) -> None:
    """The result of a Reduce has its payload where the root is, whichever groups came before, after, or went."""
    first = contributions(engine, 1, [0, 1, 2], 1, REDUCE_TO_1)
    second = contributions(engine, 2, [3, 4, 5], 1, REDUCE_TO_1)
    assert [port for port, f in engine.process_all(first) if len(f) > 256] == [1]
    engine.remove(1)
    assert [port for port, f in engine.process_all(second) if len(f) > 256] == [4]


def test_groups_fill_the_engine_and_one_more_is_refused(engine: RtlDevice) -> None:
    window = engine.offers.window
    first = plan(1, engine.MODE, [0, 1], window=window, slots=2 * window)
    engine.install(first.engines["x"])
    with pytest.raises(ResourceError, match=r"group 2: no room for \d+ slots, this engine has \d+"):
        engine.install(plan(2, engine.MODE, [0, 1]).engines["x"])
    assert engine.groups() == (1,)
    engine.remove(1)
    engine.install(plan(2, engine.MODE, [0, 1]).engines["x"])
    assert engine.groups() == (2,)


def test_what_does_not_fit_is_refused_in_one_line(engine: RtlDevice) -> None:
    engine.install(plan(1, engine.MODE, [0, 1]).engines["x"])
    cases = [
        (plan(2, engine.MODE, [0, 8]), ResourceError, "group 2: edge r1-x is on port 8, this engine has 8"),
        (plan(1, engine.MODE, [0, 1]), ConfigError, "group 1: already installed"),
        (
            plan(3, engine.MODE, [0, 1], payload_bytes=8192),
            ResourceError,
            "group 3: payload_bytes = 8192, this engine offers at most 4096",
        ),
        (
            plan(4, engine.MODE, [i % 8 for i in range(65)]),
            ResourceError,
            "group 4: rank 64 is below edge r64-x, this engine knows ranks up to 63",
        ),
    ]
    for group, kind, message in cases:
        with pytest.raises(kind) as caught:
            engine.install(group.engines["x"])
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="group 9: not installed, expected one of"):
        engine.remove(9)
    assert engine.groups() == (1,)


def test_a_device_says_which_slots_are_live(engine: RtlDevice) -> None:
    frames = contributions(engine, 1, [0, 1], 3)
    engine.process_all(frames[:3])
    status = engine.status(1)
    assert {(slot.cell, slot.bitmap) for slot in status.slots} >= {(0, 1), (1, 1), (2, 1)}
    assert not any(slot.done for slot in status.slots if slot.bitmap)
    assert status.failed_edges == ()


def test_mode_1_has_no_device() -> None:
    with pytest.raises(ConfigError, match="mode = 1, expected 2 or 3"):
        open_device(1)
