"""The engines that a switch process serves: packets wait for the poll that is due at once, and timers run unasked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epic_host.engines import make_engine
from epic_models.reference.interfaces import Cell, EdgeFailed, Output
from epic_models.reference.mode2 import Mode2Agent
from epic_models.reference.registry import make_agent
from epic_spec.errors import ConfigError
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import Datatype, Opcode, Operator, Primitive
from epic_testbed.rtl.engine import RtlEngine, RtlMode2Engine, RtlMode3Engine
from rtl.groups import plan
from rtl.needs import need

IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32).pack()
ONE = (1).to_bytes(4, "big")


@pytest.fixture(params=[RtlMode2Engine, RtlMode3Engine])
def engine(request: pytest.FixtureRequest) -> Iterator[RtlEngine]:
    need("verilator")
    one = request.param()
    yield one
    one.close()


@pytest.fixture
def timed() -> Iterator[RtlMode2Engine]:
    need("verilator")
    one = RtlMode2Engine()
    yield one
    one.close()


def data(output: Output) -> list[Packet]:
    return [packet for _, packet in output.sends if packet.opcode is not Opcode.ACK]


def contribute(engine: RtlEngine, ranks: int = 2, now: float = 50.0, **params: int) -> list[Output]:
    """A group is installed at `now` and each rank contributes a cell; what each poll gave."""
    group = plan(1, engine.MODE, list(range(ranks)), **params)
    engine.install(group.engines["x"], now)
    outputs = []
    for rank in range(ranks):
        for _, packet in make_agent(group.ranks[rank]).submit([Cell(IMM, ONE)], now).sends:
            assert engine.receive(rank, packet, now) == Output()
            assert engine.next_deadline() == now
            outputs.append(engine.poll(now))
    return outputs


def test_what_a_packet_causes_comes_with_the_poll_that_is_due_at_once(engine: RtlEngine) -> None:
    first, second = contribute(engine)
    assert data(first) == []
    assert [p.payload for p in data(second)] == [(2).to_bytes(4, "big")] * 2
    assert engine.counters()["cells_completed"] == 1
    assert engine.next_deadline() is None if engine.MODE == 3 else engine.next_deadline() > 50.0


def test_a_result_that_nobody_acknowledges_is_repeated_without_a_frame(timed: RtlMode2Engine) -> None:
    """The deadline is known exactly: a poll just before does nothing, one at it repeats to both children."""
    contribute(timed)
    due = timed.next_deadline()
    assert due == pytest.approx(50.02, abs=1e-5)
    assert timed.poll(due - 1e-4).sends == []
    repeated = timed.poll(timed.next_deadline())
    assert sorted(port for port, _ in repeated.sends) == [0, 1]
    # Doubled, from when it was sent again.
    assert timed.next_deadline() == pytest.approx(50.06, abs=1e-4)
    assert timed.counters()["tx_retransmission"] == 2


def test_an_edge_without_an_answer_fails_with_one_event(timed: RtlMode2Engine) -> None:
    """Rank 0 never answers. Rank 1 acknowledges the first result and not the second, so its edge fails later."""
    group = plan(1, 2, [0, 1], retry_limit=2)
    timed.install(group.engines["x"], 50.0)
    agents = [Mode2Agent(group.ranks[rank]) for rank in range(2)]
    for now in (50.0, 50.01):
        for rank, agent in enumerate(agents):
            for _, packet in agent.submit([Cell(IMM, ONE)], now).sends:
                timed.receive(rank, packet, now)
        for port, packet in timed.poll(now).sends:
            if port == 1 and now == 50.0:
                for _, answer in agents[1].receive(0, packet, now).sends:
                    timed.receive(1, answer, now)
        timed.poll(now)
    failed: list[tuple[float, str]] = []
    while (due := timed.next_deadline()) is not None and due < 60:
        failed += [(due, e.edge) for e in timed.poll(due).events if isinstance(e, EdgeFailed)]
    assert [edge for _, edge in failed] == ["r0-x", "r1-x"]
    assert failed[0][0] < failed[1][0]
    assert set(timed.status(1).failed_edges) == {"r0-x", "r1-x"}
    assert timed.next_deadline() is None


def test_an_acknowledgement_that_waits_goes_before_a_timer_that_is_overdue(timed: RtlMode2Engine) -> None:
    """A process that slept past the deadline with both acknowledgements in its sockets repeats nothing."""
    group = plan(1, 2, [0, 1])
    timed.install(group.engines["x"], 50.0)
    agents = [Mode2Agent(group.ranks[rank]) for rank in range(2)]
    for rank, agent in enumerate(agents):
        for _, packet in agent.submit([Cell(IMM, ONE)], 50.0).sends:
            timed.receive(rank, packet, 50.0)
    for port, packet in timed.poll(50.0).sends:
        for _, answer in agents[port].receive(0, packet, 50.0).sends:
            timed.receive(port, answer, 50.5)
    assert data(timed.poll(50.5)) == []
    assert timed.counters()["tx_retransmission"] == 0
    assert timed.next_deadline() is None


def test_a_silence_of_hours_is_no_timeout(timed: RtlMode2Engine) -> None:
    group = plan(1, 2, [0, 1])
    timed.install(group.engines["x"], 50.0)
    timed.poll(50.0)
    later = 50.0 + 5 * 3600
    for rank in range(2):
        for _, packet in Mode2Agent(group.ranks[rank]).submit([Cell(IMM, ONE)], later).sends:
            timed.receive(rank, packet, later)
    assert len(data(timed.poll(later))) == 2
    assert timed.next_deadline() == pytest.approx(later + 0.02, abs=1e-4)


def test_engines_by_name_take_parameters_and_limits() -> None:
    need("verilator")
    engine = make_engine("rtl-m3", {"window": 8}, {"RANKS": 64})
    assert engine.capabilities.window == 8
    assert engine.capabilities.mode == 3
    with pytest.raises(ConfigError, match="epic_mode3: no parameter 'LANES'"):
        make_engine("rtl-m3", None, {"LANES": 4})
    with pytest.raises(ConfigError, match="engine reference-m3: parameters FP32, expected none"):
        make_engine("reference-m3", None, {"FP32": 1})
