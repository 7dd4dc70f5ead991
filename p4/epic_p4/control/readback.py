"""What the data plane says of itself: counters by the names of epic.toml, and live slots (EPIC-E-09, EPIC-F-04)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from epic_p4.control import program as names
from epic_p4.control.entries import Installation
from epic_p4.control.program import ProgramModel
from epic_spec.tables import COUNTERS

_TAG_SHIFT = 8


class Reader(Protocol):
    """The reading part of a backend."""

    def counter(self, name: str, size: int) -> Sequence[int]: ...

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]: ...


@runtime_checkable
class ManyReader(Protocol):
    """A reader that asks its switch once for several registers: where each question costs much."""

    def registers(self, names: Sequence[str], first: int, count: int) -> Sequence[Sequence[int]]: ...


@dataclass(frozen=True, slots=True)
class SlotReading:
    """One live slot: `cell` modulo 2^24, bit i of `bitmap` for child i."""

    cell: int
    bitmap: int
    done: bool


def read_counters(reader: Reader, program: ProgramModel) -> dict[str, int]:
    """Each counter is the sum of its index over the banks: a packet can touch a bank once only."""
    totals = dict.fromkeys(COUNTERS, 0)
    for bank, size in program.counter_banks.items():
        for name, packets in zip(COUNTERS, reader.counter(bank, size), strict=False):
            totals[name] += packets
    return totals


def read_slots(reader: Reader, program: ProgramModel, group: Installation) -> tuple[SlotReading, ...]:
    """The slots of a group that have served a cell."""
    where = group.slot_base, group.slots
    wanted = [names.FLAGS, names.TAG, names.BITMAP, *([] if program.clears_slots else [names.OWNER])]
    if isinstance(reader, ManyReader):
        found = list(reader.registers(wanted, *where))
    else:
        found = [reader.register(name, *where) for name in wanted]
    flags, tags, bitmaps = found[:3]
    owners = [group.generation] * group.slots if program.clears_slots else found[3]
    return tuple(
        SlotReading(tag >> _TAG_SHIFT, bitmap, bool(flag & names.FLAG_DONE))
        for flag, tag, bitmap, owner in zip(flags, tags, bitmaps, owners, strict=True)
        if owner == group.generation and flag & names.FLAG_SERVED
    )
