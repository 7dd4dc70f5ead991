"""Every call of the Tofino driver fits the program's own bf-rt description."""

from __future__ import annotations

import pytest

from epic_models.reference.group import EngineGroup
from epic_p4.bfrt import names
from epic_p4.bfrt.backend import BfrtBackend
from epic_p4.bfrt.description import describe, differences
from epic_p4.control import BackendError, GroupController, MulticastGroup, ProgramModel, SlotReading
from epic_p4.control.program import BITMAP, FLAGS, TAG
from epic_p4.runtime.match import Exact, TableEntry
from epic_spec.tables import COUNTERS
from p4.bfrt.bfrt_helpers import FakeSwitch
from p4.control.control_helpers import inner_group, root_group, schema
from p4.control.programs import program_schema


def group(**changes: object) -> EngineGroup:
    """A group that the Tofino program offers."""
    return root_group(icrc="none", window_guard=False, **changes)


def switch_and_controller(pipe: int = 0) -> tuple[FakeSwitch, GroupController]:
    """A switch that checks every call, and a controller of it."""
    form = program_schema("tna")
    switch = FakeSwitch(form)
    return switch, GroupController(BfrtBackend(switch, pipe=pipe), ProgramModel.of(form))


def test_a_group_is_installed_and_removed_without_a_trace() -> None:
    switch, control = switch_and_controller()
    control.install(group())
    filled = {name: len(table.entries) for name, table in switch.tables.items() if table.entries}
    assert filled == {
        "pipe.EpicIngress.admission.edge": 3,
        "pipe.EpicIngress.admission.edge_port": 3,
        "pipe.EpicIngress.admission.edge_address": 3,
        "pipe.EpicIngress.admission.edge_pkey": 3,
        "pipe.EpicIngress.admission.group": 1,
        "pipe.EpicEgress.edge_out": 3,
        "pipe.EpicEgress.below": 3,
        "pipe.EpicIngress.slot.tag": 8,
        "pipe.EpicIngress.slot.bitmap": 8,
        "pipe.EpicIngress.slot.flags": 8,
        "$pre.mgid": 4,
        "$pre.node": 6,
    }
    control.remove(5)
    left = {n for n, t in switch.tables.items() if t.entries and t.form["table_type"] != "Register"}
    assert left == set()


def test_multicast_reaches_each_edge_and_all_children() -> None:
    switch, control = switch_and_controller()
    entry = group()
    installed = control.install(entry)
    pairs = {(edge.port, n) for edge, n in zip(entry.children, installed.edges, strict=True)}
    assert switch.ports(installed.children_multicast) == pairs
    assert [switch.ports(n) for n in installed.edges] == [
        {pair} for pair in sorted(pairs, key=lambda p: p[1])
    ]


def test_a_flood_group_is_one_node_with_all_its_ports() -> None:
    switch, _ = switch_and_controller()
    flood = MulticastGroup(0x8000, ((1, 0), (2, 0)))
    backend = BfrtBackend(switch)
    backend.write((flood,))
    assert switch.ports(0x8000) == {(1, 0), (2, 0)}
    assert len(switch.tables[names.MULTICAST_NODES].entries) == 1
    backend.erase((flood,))
    assert not switch.tables[names.MULTICAST_NODES].entries


def test_slots_are_given_their_first_state_before_the_first_entry() -> None:
    switch, control = switch_and_controller()
    control.install(group())
    kinds = [name.split(".")[1] if name.startswith("pipe") else name for _, name, _ in switch.calls]
    tables = [name for _, name, _ in switch.calls]
    last_cell = max(i for i, name in enumerate(tables) if ".slot." in name)
    first_entry = min(i for i, name in enumerate(tables) if ".admission." in name or ".edge_out" in name)
    assert last_cell < first_entry
    assert kinds[-3:] == ["EpicIngress"] * 3
    assert tables[-3:] == ["pipe.EpicIngress.admission.edge"] * 3


def test_counters_are_read_from_the_banks() -> None:
    switch, control = switch_and_controller()
    index = list(COUNTERS).index("rx_frames")
    bank = switch.tables["pipe.EpicIngress.counters_frames"]
    bank.entries[(names.COUNTER_INDEX, index),] = {names.COUNTER_PACKETS: 12}
    assert {n: v for n, v in control.counters().items() if v} == {"rx_frames": 12}


def test_status_is_that_of_the_pipe_of_the_ports() -> None:
    switch, control = switch_and_controller(pipe=1)
    base = control.install(group()).slot_base
    assert control.status(5).slots == ()
    for register, value in ((TAG, 3 << 8), (BITMAP, 0b11), (FLAGS, 2)):
        cell = switch.tables[f"pipe.{register}"].entries[(names.REGISTER_INDEX, base + 3),]
        cell[f"{register}.f1"] = [0, value]
    assert control.status(5).slots == (SlotReading(3, 0b11, False),)


def test_reset_clears_tables_and_groups_but_no_flood() -> None:
    switch, control = switch_and_controller()
    BfrtBackend(switch).write((MulticastGroup(0x8001, ((1, 0),)),))
    control.install(group())
    control.reset()
    assert list(switch.tables["$pre.mgid"].entries) == [((names.GROUP_ID, 0x8001),)]
    assert len(switch.tables["$pre.node"].entries) == 1
    assert not switch.tables["pipe.EpicIngress.admission.edge"].entries
    control.install(group())


def test_a_refusal_names_the_switch_the_table_and_the_reason() -> None:
    switch, control = switch_and_controller()
    entry = group()
    other = BfrtBackend(switch)
    number = entry.children[1].local.qpn
    values = {"edge_id": 60, "group": 8, "role": 1, "child_bit": 1, "data_offset": 0, "ack_offset": 0}
    edge, action = "EpicIngress.admission.edge", "EpicIngress.admission.set_edge"
    other.write((TableEntry(edge, {"qpn": Exact(number)}, action, values),))
    with pytest.raises(BackendError) as error:
        control.install(entry)
    assert str(error.value) == (
        "switch 192.0.2.1:50052: table EpicIngress.admission.edge: add: "
        "pipe.EpicIngress.admission.edge: Already exists"
    )
    assert control.groups() == ()
    assert len(switch.tables["$pre.mgid"].entries) == 0


def test_the_driver_fits_an_inner_engine_too() -> None:
    switch, control = switch_and_controller()
    control.install(inner_group(icrc="none", window_guard=False))
    assert len(switch.tables["pipe.EpicEgress.below"].entries) == 2


def test_the_sdes_description_is_compared_by_name_key_and_width() -> None:
    ours, theirs = describe(schema("tna")), describe(schema("tna", edges=128, cells=2048))
    assert differences(ours, theirs) == []
    tables = {table["name"]: table for table in theirs["tables"]}
    tables["pipe.EpicEgress.below"]["key"][1]["type"]["width"] = 12
    tables["pipe.EpicEgress.edge_out"]["action_specs"][0]["data"].pop()
    del theirs["tables"][theirs["tables"].index(tables["pipe.EpicIngress.slot.tag"])]
    assert differences(ours, theirs) == [
        "table pipe.EpicEgress.edge_out: action EpicEgress.rewrite: parameter pkey: missing",
        "table pipe.EpicEgress.below: key rank: Exact 12, expected Exact 16",
        "table pipe.EpicIngress.slot.tag: missing",
    ]
