"""What a group is in the tables of the Mode III engine: the commands that install and remove it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from epic_models.reference.group import EngineGroup
from epic_testbed.rtl.records import Record
from epic_testbed.rtl.tables import TYPES, Command, Placed, command, edge, group_fields


def install(placed: Placed, others: Iterable[Placed]) -> Iterator[Command]:
    """The commands that install a group beside others."""
    params = placed.entry.params
    yield command("TABLE_GROUP", placed.index, _group(placed), 3)
    for offset, children in enumerate(rows(placed.entry)):
        at = ((placed.edges[child], placed.entry.children[child].port) for child in children)
        value = sum((index | 1 << 8) << 16 * port for index, port in at)
        yield command("TABLE_ROW", placed.row_base + offset, value, 4)
    yield from below(placed, [*others, placed])
    clear = params.slots.bit_length() - 1 | (len(placed.entry.children) - 1) << 8
    yield command("TABLE_SLOT_CLEAR", placed.slot_base, clear, 1)
    # Last, for a frame finds the group by its edge. The command before waits for the slots.
    for position in range(len(placed.ends)):
        yield edge(placed, position)


def below(placed: Placed, present: Iterable[Placed]) -> Iterator[Command]:
    """For each rank of `placed` the edges that have it below them, of all groups that are `present` (EPIC-E-06)."""
    groups = list(present)
    for rank in sorted({rank for end in placed.entry.children for rank in end.ranks}):
        value = 0
        for group in groups:
            for index, end in zip(group.edges, group.entry.children, strict=False):
                value |= (rank in end.ranks) << index
        yield command("TABLE_BELOW", rank, value, 8)


def rows(entry: EngineGroup) -> list[list[int]]:
    """Children dealt out to multicast rows: each row has at most one child of a port."""
    dealt: list[list[int]] = []
    for child, end in enumerate(entry.children):
        row = next(
            r for r in count() if r == len(dealt) or all(entry.children[c].port != end.port for c in dealt[r])
        )
        if row == len(dealt):
            dealt.append([])
        dealt[row].append(child)
    return dealt


def _group(placed: Placed) -> int:
    entry, params = placed.entry, placed.entry.params
    return Record("GROUP", TYPES).pack(
        slot_base=placed.slot_base,
        slot_log2=params.slots.bit_length() - 1,
        parent_edge=0 if entry.parent is None else placed.edges[-1],
        parent_port=0 if entry.parent is None else entry.parent.port,
        guard=params.window_guard,
        reflection=params.ack_reflection,
        row=placed.row_base,
        rows=len(rows(entry)) - 1,
        **group_fields(entry),
    )
