"""What a group is in the tables of the Mode II engine: the commands that install and remove it."""

from __future__ import annotations

from collections.abc import Iterator

from epic_testbed.rtl.records import Record
from epic_testbed.rtl.tables import (
    TYPES,
    TYPES_2,
    Command,
    Placed,
    command,
    edge,
    free_edges,
    group_fields,
)

__all__ = ["Command", "Placed", "below", "command", "install", "remove"]


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
        yield edge(placed, position)


def remove(placed: Placed) -> Iterator[Command]:
    """The commands after which no frame finds the group. What `below` says goes when none of it is under way."""
    yield from free_edges(placed)


def below(placed: Placed, ranks: int, *, present: bool) -> Iterator[Command]:
    """Which children have a rank below them (EPIC-E-06)."""
    children = placed.entry.children
    for rank in sorted({rank for end in children for rank in end.ranks}):
        bits = sum(1 << c for c, end in enumerate(children) if present and rank in end.ranks)
        yield command("TABLE_BELOW", placed.index * ranks + rank, bits, 2)


def _group(placed: Placed) -> int:
    return Record("GROUP", TYPES).pack(
        slot_base=placed.slot_base,
        slot_log2=placed.entry.params.window.bit_length() - 1,
        parent_edge=0 if placed.entry.parent is None else placed.edges[-1],
        **group_fields(placed.entry),
    )


def _timers(placed: Placed) -> int:
    params = placed.entry.params
    return Record("TIMERS", TYPES_2).pack(
        initial=params.rto_initial_us,
        min=params.rto_min_us,
        max=params.rto_max_us,
        retry_limit=params.retry_limit,
    )
