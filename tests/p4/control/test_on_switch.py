"""Groups on the real programs, installed here or through P4Runtime, do what the golden engine does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from epic_models.reference.group import EngineGroup
from epic_p4.control import DirectBackend, GroupController, ProgramModel
from epic_p4.p4info import generate
from epic_p4.p4runtime.client import P4RuntimeBackend
from epic_p4.p4runtime.device import Device, Pipeline
from epic_p4.p4runtime.server import P4RuntimeServer
from epic_p4.switch import P4Switch
from epic_spec import codec
from p4.control.control_helpers import ROWS, inner_group, root_group, schema
from p4.control.programs import FILES, frames_of, golden, program, program_schema, script


@contextmanager
def direct(arch: str) -> Iterator[tuple[P4Switch, GroupController]]:
    """A switch in this process."""
    switch = P4Switch(program(arch))
    yield switch, GroupController(DirectBackend(switch), ProgramModel.of(program_schema(arch)))


@contextmanager
def by_p4runtime(arch: str) -> Iterator[tuple[P4Switch, GroupController]]:
    """A switch behind a P4Runtime server."""
    device = Device(lambda config: pytest.fail("nothing is loaded here"))
    device.start(Pipeline(generate(program(arch)), lambda: P4Switch(program(arch))))
    assert device.switch is not None
    with P4RuntimeServer(device, "127.0.0.1:0") as server, P4RuntimeBackend(server.address) as backend:
        yield device.switch, GroupController(backend, ProgramModel.of(backend.schema))


WAYS = [(arch, way) for arch in FILES for way in (direct, by_p4runtime)]


def offered(arch: str, place: str = "root", seed: int = 1, **changes: object) -> EngineGroup:
    """A group that the program offers."""
    if arch == "tna":
        changes = {"icrc": "none", "window_guard": False, **changes}
    make = root_group if place == "root" else inner_group
    return make(seed, ack_reflection=True, **changes)


@pytest.mark.parametrize("arch", FILES)
def test_the_programs_have_the_interface_that_the_readme_states(arch: str) -> None:
    real, stated = program_schema(arch), schema(arch)
    for name in ROWS:
        table = real.table_named(name)
        keys = [(k.name, k.width, k.kind) for k in table.keys]
        assert keys == [(k.name, k.width, k.kind) for k in stated.table_named(name).keys]
    for action in stated.actions:
        given = [(p.name, p.width) for p in real.action_named(action.name).params]
        assert given == [(p.name, p.width) for p in action.params], action.name
    assert {c.name for c in real.counters} == {c.name for c in stated.counters}
    widths = {r.name: r.width for r in real.registers}
    slots = [r for r in stated.registers if ".slot." in r.name]
    assert {r.name: widths[r.name] for r in slots} == {r.name: r.width for r in slots}


@pytest.mark.parametrize("arch", FILES)
def test_what_the_program_offers_is_what_the_readme_says(arch: str) -> None:
    offer = ProgramModel.of(program_schema(arch)).capabilities
    assert (offer.payload_bytes, offer.children) == (256, 64 if arch == "v1model" else 32)


@pytest.mark.parametrize(("arch", "way"), WAYS)
@pytest.mark.parametrize("place", ["root", "inner"])
def test_an_installed_group_does_what_the_golden_engine_does(arch: str, way: object, place: str) -> None:
    group = offered(arch, place)
    engine = golden(group)
    with way(arch) as (switch, control):  # type: ignore[operator]
        control.install(group)
        for number, (port, frame) in enumerate(script(group)):
            expected = frames_of(engine, port, frame)
            sent = switch.process(port, frame)
            assert Counter(map(visible, sent)) == Counter(map(visible, expected)), f"frame {number}"
        counters, status = control.counters(), control.status(5)
    sends = sum(n for name, n in engine.counters().items() if name.startswith("tx_"))
    assert counters == {**engine.counters(), "tx_frames": sends}
    assert {(s.cell, s.bitmap, s.done) for s in status.slots} == {
        (s.cell, s.bitmap, s.done) for s in engine.status(5).slots
    }


def visible(sent: tuple[int, bytes]) -> tuple[int, object]:
    """What must agree of a frame: everything that the codec sees."""
    port, frame = sent
    return port, str(codec.decode(frame, icrc="check"))


@pytest.mark.parametrize(("arch", "way"), WAYS)
def test_a_group_installed_again_starts_as_if_nothing_had_been(arch: str, way: object) -> None:
    group = offered(arch, slots=8, window=4)
    again = offered(arch, slots=8, window=4, group=6)
    with way(arch) as (switch, control):  # type: ignore[operator]
        control.install(group)
        for port, frame in script(group):
            switch.process(port, frame)
        control.remove(5)
        assert all(switch.process(port, frame) == [] for port, frame in script(group))
        control.install(again)
        assert control.status(6).slots == ()
        engine = golden(again)
        for port, frame in script(again):
            expected = frames_of(engine, port, frame)
            assert len(switch.process(port, frame)) == len(expected)


@pytest.mark.parametrize("arch", FILES)
def test_two_groups_do_not_meet(arch: str) -> None:
    one, two = offered(arch), offered(arch, seed=7, group=6)
    with direct(arch) as (switch, control):
        control.install(one)
        control.install(two)
        for entry in (one, two):
            engine = golden(entry)
            for port, frame in script(entry):
                expected = frames_of(engine, port, frame)
                assert Counter(map(visible, switch.process(port, frame))) == Counter(map(visible, expected))
        control.remove(5)
        assert control.groups() == (6,)
        port, frame = script(one)[0]
        assert switch.process(port, frame) == []


def test_installing_is_quick() -> None:
    """64 slots and three edges through gRPC: the manager waits for it."""
    group = offered("tna", window=32, slots=64)
    with by_p4runtime("tna") as (_, control):
        begin = time.monotonic()
        control.install(group)
        assert time.monotonic() - begin < 5
