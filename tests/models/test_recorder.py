"""Recordings of agents and engines: complete, and without influence on what is recorded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from epic_models.reference.faults import FaultRates
from epic_models.reference.group import EngineGroup, GroupParams, RankGroup
from epic_models.reference.interfaces import Cell, CellDelivered
from epic_models.reference.mode3 import Mode3Agent, Mode3Engine
from epic_models.reference.network import Network
from epic_models.reference.recorder import FileRecorder, Recorder
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import ConfigError
from epic_spec.packets import NULL_BIT, Descriptor
from epic_spec.tables import Primitive
from models.worlds import Followed

TREE = Tree("s", {"s": ("a", 2), "a": (0, 1)})
BARRIER = Cell(Descriptor(Primitive.ALLREDUCE).pack() | NULL_BIT, None)
FAULTS = FaultRates(loss=0.1, duplicate=0.1, reorder=0.1)


def params(mode: int, **more: Any) -> GroupParams:
    return GroupParams(
        group=1, mode=mode, world_size=3, window=2, slots=4, message_buffers=2, rto_initial_us=1000,
        rto_min_us=200, rto_max_us=5000, retry_limit=100, **more,
    )  # fmt: skip


def run(mode: int, lines: list[str] | None, cells: int = 6) -> Network:
    """A run of barriers over a faulty network, recorded or not."""
    recorder = None if lines is None else Recorder(lines.append, itertools.count().__next__)
    network = Network([build_group(TREE, params(mode), seed=3)], FAULTS, seed=4, record=recorder)
    sent = [0, 0, 0]

    def done() -> bool:
        for rank in range(3):
            while sent[rank] < cells and network.agents[1, rank].room():
                network.submit(1, rank, [BARRIER])
                sent[rank] += 1
        return all(len(network.events[1, rank]) == cells for rank in range(3))

    assert network.run(5.0, done)
    return network


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_recorded_run_is_the_run_without_a_recorder(mode: int) -> None:
    lines: list[str] = []
    plain, recorded = run(mode, None), run(mode, lines)
    assert recorded.events == plain.events
    assert recorded.now == plain.now
    for name, engine in plain.engines.items():
        assert recorded.engines[name].counters() == engine.counters()
    assert len(lines) > 50


def test_without_a_recorder_the_methods_are_the_classes_own() -> None:
    network = run(3, None)
    assert vars(network.engines["s"]).keys() & {"install", "remove", "receive", "poll"} == set()
    assert vars(network.agents[1, 0]).keys() & {"submit", "receive", "poll"} == set()


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_every_node_says_how_it_was_installed_and_then_what_it_does(mode: int) -> None:
    lines: list[str] = []
    run(mode, lines)
    found = [json.loads(line) for line in lines]
    assert [x["t"] for x in found] == list(range(len(found)))
    installs = {x["node"]: x["entry"] for x in found if x["call"] == "install"}
    assert set(installs) == {"s", "a", "r0", "r1", "r2"}
    assert EngineGroup.from_dict(installs["a"]).parent is not None
    assert RankGroup.from_dict(installs["r2"]).rank == 2
    submits = [x for x in found if x["node"] == "r0" and x["call"] == "submit"]
    assert [x["next"] for x in submits] == [1, 2, 3, 4, 5, 6]
    assert all(x["imm"] == BARRIER.imm and x["length"] == 0 for x in submits)
    delivered = [e for x in found if x["node"] == "r0" for e in x.get("events", ())]
    assert [e["cell"] for e in delivered] == list(range(6))
    assert {e["event"] for e in delivered} == {CellDelivered.__name__}
    last = [x for x in found if x["node"] == "r0"][-1]
    assert (last["next"], last["delivered"]) == (6, 6)


def test_slots_that_changed_are_recorded_with_their_bitmaps() -> None:
    lines: list[str] = []
    network = run(3, lines)
    slots: dict[int, tuple[int, bool]] = {}
    for line in map(json.loads, lines):
        if line["node"] == "s":
            for cell, bitmap, done in line.get("slots", ()):
                assert slots.get(cell) != (bitmap, done)
                slots[cell] = (bitmap, done)
    assert slots == dict.fromkeys(range(6), (3, True))
    assert len(network.engines["s"].status(1).slots) == 4


def test_several_cells_of_one_call_are_a_line_each_and_too_many_are_refused() -> None:
    lines: list[str] = []
    group = build_group(TREE, params(3), seed=3)
    agent = Mode3Agent(group.ranks[0])
    Recorder(lines.append).put_on_agent(agent)
    output = agent.submit([BARRIER, BARRIER], 0.0)
    assert len(output.sends) == 2
    assert [json.loads(x)["call"] for x in lines] == ["install", "submit", "submit"]
    with pytest.raises(ValueError, match="expected at most 0"):
        agent.submit([BARRIER], 0.0)
    assert len(lines) == 3


def test_frames_that_are_not_admitted_and_groups_that_are_gone_leave_no_line() -> None:
    lines: list[str] = []
    group = build_group(TREE, params(3), seed=3)
    engine, agent = Mode3Engine(), Mode3Agent(group.ranks[2])
    Recorder(lines.append).put_on_engine("s", engine)
    engine.install(group.engines["s"], 0.0)
    ((_, packet),) = agent.submit([BARRIER], 0.0).sends
    port = group.engines["s"].children[1].port
    for odd in (
        packet.but(icrc_ok=False),
        packet.but(pkey=7),
        packet.but(src_ip="10.9.9.9"),
        packet.but(qpn=5),
    ):
        engine.receive(port, odd, 0.0)
    engine.receive(port + 7, packet, 0.0)
    assert len(lines) == 1
    engine.receive(port, packet, 0.0)
    assert json.loads(lines[1])["slots"] == [[0, 2, False]]
    engine.remove(1)
    engine.receive(port, packet, 0.0)
    engine.poll(1.0)
    assert len(lines) == 2


def test_an_agent_that_has_begun_or_is_a_stranger_is_refused() -> None:
    group = build_group(TREE, params(3), seed=3)
    agent = Mode3Agent(group.ranks[0])
    agent.submit([BARRIER], 0.0)
    recorder = Recorder(print)
    with pytest.raises(ConfigError, match="trace: rank 0 has contributed"):
        recorder.put_on_agent(agent)
    stranger = Followed(agent, 0, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="trace: agent Followed cannot be recorded"):
        recorder.put_on_agent(stranger)


def test_a_file_has_every_line_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.ndjson"
    recorder = FileRecorder(path)
    recorder.line("s", 1, "poll", sends=[], slots=[[1, 2, True]])
    (line,) = path.read_text().splitlines()
    assert json.loads(line).keys() == {"t", "node", "group", "call", "slots"}
    recorder.close()
    with pytest.raises(ConfigError, match="expected a file that can be written"):
        FileRecorder(tmp_path / "no" / "s.ndjson")
