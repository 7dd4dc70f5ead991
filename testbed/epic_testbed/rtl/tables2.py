"""What a group is in the tables of the Mode II engine: the commands that install and remove it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from epic_models.reference.group import Edge, EngineGroup
from epic_spec.tables import Datatype, Operator
from epic_testbed.rtl import build
from epic_testbed.rtl.device import TYPES
from epic_testbed.rtl.records import Record, constants

TYPES_2: Final = build.RTL / "src" / "epic_m2_types.vh"


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

    @property
    def ends(self) -> list[Edge]:
        """The edges as they are installed, in the order of `edges`."""
        return [*self.entry.children, *([] if self.entry.parent is None else [self.entry.parent])]


def command(table: str, at: int, data: int = 0, words: int = 0) -> Command:
    """A command by the name of its table."""
    return Command((constants(TYPES) | constants(TYPES_2))[table], at, data, words)


def install(placed: Placed, ranks: int) -> Iterator[Command]:
    """The commands that install a group, in an engine that knows this many ranks."""
    yield command("TABLE_GROUP", placed.index, _group(placed), 3)
    yield command("TABLE_TIMERS", placed.index, _timers(placed), 4)
    yield from below(placed, ranks, present=True)
    for slot in range(placed.slot_base, placed.slot_base + placed.entry.params.window):
        yield command("TABLE_SLOT_CLEAR", slot)
    # Last, for a frame finds the group by its edge, and an edge starts with its group's timeout; the parent before the
    # children, for one contribution may complete a cell.
    for position in reversed(range(len(placed.ends))):
        yield command("TABLE_EDGE", placed.edges[position], _edge(placed, position), 10)


def remove(placed: Placed) -> Iterator[Command]:
    """The commands after which no frame finds the group. What `below` says goes when none of it is under way."""
    for edge in placed.edges:
        yield command("TABLE_EDGE", edge, 0, 10)


def below(placed: Placed, ranks: int, *, present: bool) -> Iterator[Command]:
    """Which children have a rank below them (EPIC-E-06)."""
    children = placed.entry.children
    for rank in sorted({rank for edge in children for rank in edge.ranks}):
        bits = sum(1 << c for c, edge in enumerate(children) if present and rank in edge.ranks)
        yield command("TABLE_BELOW", placed.index * ranks + rank, bits, 2)


def _group(placed: Placed) -> int:
    entry, params = placed.entry, placed.entry.params
    return Record("GROUP", TYPES).pack(
        slot_base=placed.slot_base,
        slot_log2=params.window.bit_length() - 1,
        fan_in=len(entry.children) - 1,
        payload_bytes=params.payload_bytes,
        parent_edge=0 if entry.parent is None else placed.edges[-1],
        root=entry.parent is None,
        ecn=params.ecn,
        record=params.conflict_record,
        operators=sum(1 << Operator[name] for name in params.operators),
        datatypes=sum(1 << Datatype[name] for name in params.datatypes),
        little=params.byte_order == "little",
    )


def _timers(placed: Placed) -> int:
    params = placed.entry.params
    return Record("TIMERS", TYPES_2).pack(
        initial=params.rto_initial_us,
        min=params.rto_min_us,
        max=params.rto_max_us,
        retry_limit=params.retry_limit,
    )


def _edge(placed: Placed, position: int) -> int:
    params, edge = placed.entry.params, placed.ends[position]
    is_parent = position == len(placed.entry.children)
    role = "PARENT" if is_parent else "ENGINE" if edge.peer_is_engine else "HOST"
    return Record("EDGE", TYPES).pack(
        peer_mac=_mac(edge.peer.mac),
        own_mac=_mac(edge.local.mac),
        peer_ip=int(ipaddress.IPv4Address(edge.peer.ip)),
        own_ip=int(ipaddress.IPv4Address(edge.local.ip)),
        pkey=params.pkey,
        sport=edge.sport,
        peer_qpn=edge.peer.qpn,
        icrc=params.icrc == "full",
        role=constants(TYPES)[f"ROLE_{role}"],
        port=edge.port,
        own_qpn=edge.local.qpn,
        group=placed.index,
        psn_rx=edge.psn_rx,
        child=0 if is_parent else position,
        psn_tx=edge.psn_tx,
    )


def _mac(address: str) -> int:
    return int(address.replace(":", ""), 16)
