"""The Mode III engine in Verilog. It has no timers: a frame is taken to its end at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from epic_models.reference.group import EngineGroup
from epic_testbed.rtl import tables3
from epic_testbed.rtl.device import RtlDevice
from epic_testbed.rtl.tables import Command, Placed, command


class Mode3Device(RtlDevice):
    """rtl/src/epic_mode3.v."""

    MODE: ClassVar[int] = 3

    def _slots(self, entry: EngineGroup) -> int:
        return entry.params.slots

    def _rows(self, entry: EngineGroup) -> int:
        return len(tables3.rows(entry))

    def _installing(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        return tables3.install(placed, others)

    def _forgetting(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        return tables3.below(placed, others)

    def _slot_read(self, placed: Placed, slot: int) -> Command:
        return command("TABLE_SLOT_READ", slot)
