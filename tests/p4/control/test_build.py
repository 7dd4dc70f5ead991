"""A group becomes the entries that p4/README.md asks for."""

from __future__ import annotations

import pytest

from epic_models.reference.group import EngineGroup
from epic_p4.control import GroupController, Installation, MulticastGroup, ProgramModel, RegisterFill
from epic_p4.runtime.match import Exact, TableEntry
from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.errors import ConfigError
from p4.control.control_helpers import (
    RecordingBackend,
    inner_group,
    root_group,
    schema,
    wide_group,
    with_edge,
)


def install(group: EngineGroup, arch: str = "v1model") -> Installation:
    """Install on a switch that only remembers."""
    return GroupController(RecordingBackend(), ProgramModel.of(schema(arch))).install(group)


def entries(installation: Installation, table: str) -> list[TableEntry]:
    """The entries of one table, in the order of the edges."""
    items = [item for stage in installation.stages for item in stage]
    return [item for item in items if isinstance(item, TableEntry) and item.table.endswith(f".{table}")]


def groups(installation: Installation) -> dict[int, MulticastGroup]:
    """The multicast groups by number."""
    items = [item for stage in installation.stages for item in stage]
    return {item.number: item for item in items if isinstance(item, MulticastGroup)}


def test_an_edge_entry_says_group_role_child_and_where_the_cells_begin() -> None:
    group = inner_group()
    installation = install(group)
    first, second, parent = entries(installation, "edge")
    edge = group.children[1]
    assert second.match == {"qpn": Exact(edge.local.qpn)}
    assert second.params == {
        "edge_id": installation.edges[1],
        "group": installation.program_group,
        "role": 1,
        "child_bit": 2,
        "data_offset": ((-edge.psn_rx) % (1 << 24)) << 8,
        "ack_offset": ((-edge.psn_tx) % (1 << 24)) << 8,
    }
    assert (first.params["child_bit"], parent.params["child_bit"], parent.params["role"]) == (1, 0, 3)


def test_an_engine_below_has_a_role_of_its_own() -> None:
    roles = [entry.params["role"] for entry in entries(install(root_group()), "edge")]
    assert roles == [1, 1, 2]


def test_what_may_arrive_is_said_by_port_addresses_and_key() -> None:
    group = root_group(pkey=0x1234)
    installation = install(group)
    edge = group.children[2]
    qpn = Exact(edge.local.qpn)
    assert entries(installation, "edge_port")[2].match == {"qpn": qpn, "port": Exact(edge.port)}
    assert entries(installation, "edge_pkey")[2].match == {"qpn": qpn, "pkey": Exact(0x1234)}
    assert entries(installation, "edge_address")[2].match == {
        "qpn": qpn,
        "src_mac": Exact(int.from_bytes(mac_bytes(edge.peer.mac), "big")),
        "dst_mac": Exact(int.from_bytes(mac_bytes(edge.local.mac), "big")),
        "src_ip": Exact(ip_number(edge.peer.ip)),
        "dst_ip": Exact(ip_number(edge.local.ip)),
    }


def test_what_leaves_gets_the_edge() -> None:
    group = inner_group(icrc="none")
    parent = group.parent
    assert parent is not None
    out = entries(install(group), "edge_out")[2]
    assert out.params == {
        "src_mac": int.from_bytes(mac_bytes(parent.local.mac), "big"),
        "dst_mac": int.from_bytes(mac_bytes(parent.peer.mac), "big"),
        "src_ip": ip_number(parent.local.ip),
        "dst_ip": ip_number(parent.peer.ip),
        "src_port": parent.sport,
        "qpn": parent.peer.qpn,
        "data_base": parent.psn_tx << 8,
        "ack_base": parent.psn_rx << 8,
        "pkey": 0xFFFF,
        "icrc": 0,
    }


def test_the_group_entry_of_a_root() -> None:
    group = root_group(operators=("SUM", "MIN"), ack_reflection=True, ecn=False)
    installation = install(group)
    (entry,) = entries(installation, "group")
    assert entry.params == {
        "root": 1,
        "full": 0b111,
        "slot_base": installation.slot_base,
        "slot_mask": 7,
        "payload_bytes": 64,
        "offered": 0b1011,
        "reflection": 1,
        "ecn": 0,
        "parent": 0,
        "children": installation.children_multicast,
        "guard": 1,
        "icrc": 1,
        "generation": installation.generation,
    }


def test_the_group_entry_of_an_inner_engine_names_its_parents_edge() -> None:
    installation = install(inner_group())
    (entry,) = entries(installation, "group")
    assert (entry.params["root"], entry.params["parent"]) == (0, installation.edges[2])


def test_every_edge_is_reached_alone_and_all_children_together() -> None:
    group = inner_group()
    installation = install(group)
    made = groups(installation)
    for number, edge in zip(installation.edges, [*group.children, group.parent], strict=True):
        assert edge is not None
        assert made[number].replicas == ((edge.port, number),)
    assert made[installation.children_multicast].replicas == tuple(
        (edge.port, number) for edge, number in zip(group.children, installation.edges, strict=False)
    )


def test_ranks_below_are_said_for_children_only() -> None:
    group = root_group()
    installation = install(group)
    below = {(e.match["edge_id"].value, e.match["rank"].value) for e in entries(installation, "below")}  # type: ignore[union-attr]
    assert below == {(installation.edges[0], 0), (installation.edges[1], 1), (installation.edges[2], 2)}
    inner = install(inner_group())
    assert {e.match["edge_id"].value for e in entries(inner, "below")} == set(inner.edges[:2])  # type: ignore[union-attr]


def test_edges_are_written_last_and_what_they_lead_to_before() -> None:
    names = [
        {getattr(item, "table", "multicast").rpartition(".")[2] for item in stage}
        for stage in install(inner_group()).stages
    ]
    assert names == [
        {"multicast"},
        {"edge_out", "below"},
        {"group"},
        {"edge_port", "edge_address", "edge_pkey"},
        {"edge"},
    ]


def test_v1model_needs_no_slot_cleared_and_tna_gets_the_first_state() -> None:
    assert not [i for s in install(root_group()).stages for i in s if isinstance(i, RegisterFill)]
    installation = install(root_group(icrc="none", window_guard=False), "tna")
    fills = {item.register.rpartition(".")[2]: item for item in installation.stages[0]}  # type: ignore[union-attr]
    assert all(fill.first == installation.slot_base for fill in fills.values())  # type: ignore[union-attr]
    assert fills["tag"].values == tuple(((i - 8) % (1 << 24)) << 8 for i in range(8))  # type: ignore[union-attr]
    assert fills["bitmap"].values == (0b111,) * 8  # type: ignore[union-attr]
    assert fills["flags"].values == (1,) * 8  # type: ignore[union-attr]


def test_a_program_gets_only_the_parameters_that_it_has() -> None:
    group = root_group(icrc="none", window_guard=False)
    (entry,) = entries(install(group, "tna"), "group")
    assert not {"guard", "icrc", "generation"} & entry.params.keys()


def test_a_group_on_tofino_stays_in_one_pipe() -> None:
    group = with_edge(root_group(icrc="none", window_guard=False), 1, port=130)
    with pytest.raises(
        ConfigError, match=r"group 5: its ports are in pipes 0, 1, expected ports of one pipe"
    ):
        install(group, "tna")
    install(with_edge(root_group(), 1, port=130))


def test_the_widest_fan_in_fits_its_bitmap() -> None:
    installation = install(wide_group(63))
    assert entries(installation, "group")[0].params["full"] == (1 << 63) - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port": 512}, r"edge r1-s0: port = 512, expected 0 to 511"),
        ({"sport": 70000}, r"edge r1-s0: sport = 70000, expected 0 to 65535"),
        ({"psn_rx": 1 << 24}, r"edge r1-s0: psn_rx = 16777216, expected 0 to 16777215"),
        ({"ranks": (1, 1)}, r"edge r1-s0: ranks = \[1, 1\], expected each once"),
        ({"ranks": (70000,)}, r"edge r1-s0: rank 70000, expected 0 to 65535"),
    ],
)
def test_what_the_tables_cannot_hold_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        install(with_edge(root_group(), 1, **change))
