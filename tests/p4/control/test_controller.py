"""The controller refuses what EPIC-E-18 says, undoes what fails, and reads back what happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.mode3 import Mode3Engine
from epic_p4.control import GroupController, ProgramModel, SlotReading
from epic_p4.control.program import BITMAP, FLAGS, OWNER, TAG
from epic_p4.control.schema import Schema
from epic_spec.errors import ConfigError, EpicError, ResourceError
from epic_spec.tables import COUNTERS
from p4.control.control_helpers import (
    RecordingBackend,
    SwitchFailure,
    inner_group,
    key,
    root_group,
    schema,
    wide_group,
)


def controller(**sizes: int) -> tuple[GroupController, RecordingBackend]:
    """A controller of a switch that only remembers."""
    backend = RecordingBackend()
    return GroupController(backend, ProgramModel.of(schema(**sizes))), backend


def test_what_a_program_offers_is_read_off_its_interface() -> None:
    v1model, tna = (ProgramModel.of(schema(arch)).capabilities for arch in ("v1model", "tna"))
    assert (v1model.payload_bytes, v1model.slots, v1model.window, v1model.groups) == (256, 1024, 512, 8)
    assert (v1model.children, v1model.icrc, v1model.window_guard) == (63, ("full", "none"), True)
    assert (tna.children, tna.icrc, tna.window_guard) == (32, ("none",), False)
    assert (tna.payload_bytes, tna.ecn, tna.ack_reflection) == (256, True, True)


def test_another_program_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the program is not EPIC's: table 'EpicIngress\.admission\.edge'"):
        ProgramModel.of(Schema("v1model", (), (), (), ()))


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 2},
        {"window": 1024, "slots": 2048},
        {"payload_bytes": 320},
        {"datatypes": ("INT32", "FP32")},
        {"byte_order": "little"},
        {"partial_format": "fp32"},
        {"conflict_record": True},
    ],
)
def test_what_is_not_offered_is_refused_in_the_words_of_the_golden_engine(change: dict[str, object]) -> None:
    group = root_group(**change)
    control, backend = controller()
    names = ("window", "slots", "payload_bytes", "children", "groups", "operators", "datatypes", "byte_order")
    names += ("icrc", "partial_format", "ack_reflection", "window_guard", "conflict_record", "ordered", "ecn")
    offered = {name: getattr(control.program.capabilities, name) for name in names}
    golden = Mode3Engine(EngineCapabilities(mode=3, **offered))
    with pytest.raises(ResourceError) as expected:
        golden.install(group, 0.0)
    with pytest.raises(ResourceError) as refused:
        control.install(group)
    assert str(refused.value) == str(expected.value).replace("this engine", "this switch")
    assert backend.log == []


def test_fan_in_above_the_bitmap_is_refused() -> None:
    control, _ = controller(arch="tna", edges=128)  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match="fan-in 33, this switch offers 1 to 32"):
        control.install(wide_group(33, icrc="none", window_guard=False))


def test_a_group_number_in_use_is_refused() -> None:
    control, _ = controller()
    control.install(root_group(seed=1))
    with pytest.raises(ConfigError, match="group 5: already installed"):
        control.install(root_group(seed=2))


def test_a_qpn_in_use_is_refused_within_and_between_groups() -> None:
    control, backend = controller()
    control.install(root_group(seed=1))
    before = list(backend.there)
    with pytest.raises(ConfigError, match=r"group 6: QPN 0x[0-9a-f]+ is in use"):
        control.install(root_group(seed=1, group=6))
    group = root_group(seed=3, group=7)
    twice = replace(group, children=(group.children[0], group.children[0]))
    with pytest.raises(ConfigError, match=r"group 7: QPN 0x[0-9a-f]+ is in use"):
        control.install(twice)
    assert backend.there == before


def test_groups_slots_edges_and_table_entries_run_out_by_name() -> None:
    control, _ = controller(groups=2)
    control.install(root_group(seed=1))
    with pytest.raises(ResourceError, match="group 6: no room, this switch offers 1 groups"):
        control.install(root_group(seed=2, group=6))
    control, _ = controller(cells=16)
    control.install(root_group(seed=1, slots=16, window=8))
    with pytest.raises(ResourceError, match="group 6: slots = 8, expected at most 0"):
        control.install(root_group(seed=2, group=6))
    control, _ = controller(edges=5)
    control.install(root_group(seed=1))
    with pytest.raises(ResourceError, match=r"group 6: needs 3 entries of table .*edge, expected at most 2"):
        control.install(root_group(seed=2, group=6))
    control, _ = controller(ranks=4)
    control.install(root_group(seed=1))
    with pytest.raises(
        ResourceError, match=r"needs 3 entries of table EpicEgress\.below, expected at most 1"
    ):
        control.install(root_group(seed=2, group=6))


@pytest.mark.parametrize("arch", ["v1model", "tna"])
def test_an_install_that_fails_leaves_nothing_and_can_be_tried_again(arch: str) -> None:
    group = root_group(icrc="none", window_guard=False)
    stages = len(GroupController(RecordingBackend(), ProgramModel.of(schema(arch))).install(group).stages)
    for number in range(1, stages + 1):
        backend = RecordingBackend(fail_at=number)
        control = GroupController(backend, ProgramModel.of(schema(arch, cells=8)))
        with pytest.raises(SwitchFailure):
            control.install(group)
        assert backend.there == []
        assert control.groups() == ()
        control.install(group)
        assert control.groups() == (5,)


def test_removal_takes_the_edges_first_and_leaves_other_groups() -> None:
    control, backend = controller()
    control.install(root_group(seed=1))
    kept = list(backend.there)
    control.install(inner_group(seed=2, group=6))
    backend.log.clear()
    control.remove(6)
    erased = [item for kind, item in backend.log if kind == "erase"]
    assert [getattr(item, "table", "") for item in erased[:3]] == ["EpicIngress.admission.edge"] * 3
    assert backend.there == kept
    with pytest.raises(ConfigError, match=r"group 6: not installed, expected one of \[5\]"):
        control.remove(6)


def test_a_group_installed_again_has_another_generation_and_other_edge_numbers() -> None:
    control, _ = controller()
    first = control.install(root_group())
    control.remove(5)
    second = control.install(root_group())
    assert second.slot_base == first.slot_base
    assert second.generation != first.generation
    assert not set(second.edges) & set(first.edges)


def test_generations_are_never_zero() -> None:
    control = GroupController(RecordingBackend(), ProgramModel.of(schema()), first_generation=(1 << 32) - 1)
    generations = []
    for _ in range(2):
        generations.append(control.install(root_group()).generation)
        control.remove(5)
    assert generations == [(1 << 32) - 1, 1]
    with pytest.raises(ConfigError, match="first_generation = 0"):
        GroupController(RecordingBackend(), ProgramModel.of(schema()), first_generation=0)


def test_many_groups_come_and_go_without_a_leak() -> None:
    control, backend = controller(cells=64)
    for round_ in range(50):
        for number in (1, 2, 3):
            control.install(root_group(seed=10 * round_ + number, group=number))
        for number in (2, 1, 3):
            control.remove(number)
    assert backend.there == []
    assert control.install(root_group(slots=64, window=32)).slot_base == 0


def test_reset_removes_also_what_another_controller_left() -> None:
    backend = RecordingBackend()
    GroupController(backend, ProgramModel.of(schema())).install(root_group(seed=1))
    control = GroupController(backend, ProgramModel.of(schema()), first_generation=9)
    control.reset()
    assert backend.there == []
    control.install(root_group(seed=1))


def test_a_counter_is_the_sum_over_the_banks() -> None:
    control, backend = controller()
    names = list(COUNTERS)
    sent, frames = names.index("tx_result"), names.index("tx_frames")
    backend.counts = {
        "EpicEgress.counters_sent": {sent: 4},
        "EpicEgress.counters_frames": {frames: 7},
        "EpicIngress.counters_outcome": {names.index("drop_window"): 2, sent: 1},
    }
    counters = control.counters()
    assert counters.keys() == COUNTERS.keys()
    assert {n: v for n, v in counters.items() if v} == {"tx_result": 5, "tx_frames": 7, "drop_window": 2}


def fill(backend: RecordingBackend, slot: int, **values: int) -> None:
    """Set the registers of a slot."""
    for register, value in values.items():
        name = {"owner": OWNER, "tag": TAG, "bitmap": BITMAP, "flags": FLAGS}[register]
        backend.cells[name, slot] = value


def test_only_slots_of_this_generation_that_served_a_cell_are_live() -> None:
    control, backend = controller()
    control.install(root_group(seed=2, group=4))
    installed = control.install(root_group(seed=1))
    base, generation = installed.slot_base, installed.generation
    assert base == 8
    fill(backend, base, owner=generation, tag=16 << 8, bitmap=0b101, flags=2)
    fill(backend, base + 1, owner=generation, tag=0xFFFFFF << 8, bitmap=0b111, flags=3)
    fill(backend, base + 2, owner=generation - 1, tag=2 << 8, bitmap=0b111, flags=3)
    fill(backend, base + 3, owner=generation, tag=3 << 8, bitmap=0b111, flags=1)
    reading = control.status(5)
    assert reading.slots == (SlotReading(16, 0b101, False), SlotReading(0xFFFFFF, 0b111, True))
    assert (reading.group, reading.epoch) == (5, 0)


def test_a_freshly_installed_group_on_tofino_has_no_live_slot() -> None:
    control, backend = controller(arch="tna")  # type: ignore[arg-type]
    installed = control.install(root_group(icrc="none", window_guard=False))
    assert control.status(5).slots == ()
    fill(backend, installed.slot_base + 2, flags=2, tag=2 << 8, bitmap=1)
    assert control.status(5).slots == (SlotReading(2, 1, False),)


def test_a_group_that_is_not_installed_has_no_status() -> None:
    control, _ = controller()
    with pytest.raises(EpicError, match="group 9: not installed"):
        control.status(9)


def test_the_golden_group_is_a_group_for_this_package() -> None:
    group: EngineGroup = root_group()
    control, backend = controller()
    control.install(group)
    assert len({key(item) for item in backend.there}) == len(backend.there)
