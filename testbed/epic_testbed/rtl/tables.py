"""What both modes' engines have in common in their tables: where a group is, commands, the record of an edge."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from epic_models.reference.group import Edge, EngineGroup
from epic_spec.tables import Datatype, Operator
from epic_testbed.rtl.records import Record, constants
from epic_testbed.rtl.sources import SRC

TYPES: Final = SRC / "epic_types.vh"
TYPES_2: Final = SRC / "epic_m2_types.vh"

# 32-bit words of an EDGE record.
EDGE_WORDS: Final = 10


class Command(NamedTuple):
    """A table command at index `at`; `data` has as many 32-bit words as it needs."""

    table: int
    at: int
    data: int = 0
    words: int = 0


@dataclass(slots=True)
class Placed:
    """Where a group is in the tables."""

    entry: EngineGroup
    index: int
    slot_base: int
    edges: list[int] = field(default_factory=list)  # of the children in order, then of the parent
    slots: int = 0
    row_base: int = 0  # Mode III's multicast rows
    rows: int = 0

    @property
    def ends(self) -> list[Edge]:
        """The edges as they are installed, in the order of `edges`."""
        return ends_of(self.entry)


def ends_of(entry: EngineGroup) -> list[Edge]:
    """The children, then the parent where there is one."""
    return [*entry.children, *([] if entry.parent is None else [entry.parent])]


def command(table: str, at: int, data: int = 0, words: int = 0) -> Command:
    """A command by the name of its table."""
    return Command((constants(TYPES) | constants(TYPES_2))[table], at, data, words)


def group_fields(entry: EngineGroup) -> dict[str, int]:
    """The fields of a GROUP record that mean the same in both modes."""
    params = entry.params
    return {
        "fan_in": len(entry.children) - 1,
        "payload_bytes": params.payload_bytes,
        "root": entry.parent is None,
        "ecn": params.ecn,
        "record": params.conflict_record,
        "operators": sum(1 << Operator[name] for name in params.operators),
        "datatypes": sum(1 << Datatype[name] for name in params.datatypes),
        "little": params.byte_order == "little",
    }


def edge(placed: Placed, position: int) -> Command:
    """The command that makes the edge at `position` of `placed.edges` known; frames find their group by it."""
    params, end = placed.entry.params, placed.ends[position]
    is_parent = position == len(placed.entry.children)
    role = "PARENT" if is_parent else "ENGINE" if end.peer_is_engine else "HOST"
    record = Record("EDGE", TYPES).pack(
        peer_mac=mac(end.peer.mac),
        own_mac=mac(end.local.mac),
        peer_ip=int(ipaddress.IPv4Address(end.peer.ip)),
        own_ip=int(ipaddress.IPv4Address(end.local.ip)),
        pkey=params.pkey,
        sport=end.sport,
        peer_qpn=end.peer.qpn,
        icrc=params.icrc == "full",
        role=constants(TYPES)[f"ROLE_{role}"],
        port=end.port,
        own_qpn=end.local.qpn,
        group=placed.index,
        psn_rx=end.psn_rx,
        child=0 if is_parent else position,
        psn_tx=end.psn_tx,
    )
    return command("TABLE_EDGE", placed.edges[position], record, EDGE_WORDS)


def free_edges(placed: Placed) -> list[Command]:
    """The commands after which no frame finds the group."""
    return [command("TABLE_EDGE", index, 0, EDGE_WORDS) for index in placed.edges]


def mac(address: str) -> int:
    """A MAC address as a number."""
    return int(address.replace(":", ""), 16)
