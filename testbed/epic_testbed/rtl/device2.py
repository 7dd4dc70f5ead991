"""The Mode II engine in Verilog, built with CLOCK_MHZ = 0: frames take no time, and time passes when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from epic_models.reference.group import EngineGroup
from epic_testbed.rtl import registers, tables2
from epic_testbed.rtl.device import RtlDevice
from epic_testbed.rtl.tables import Command, Placed, command

# Cycles after the scan of all timers in which the first packet of one that is due is on its way.
_MARGIN: Final = 60
# What is told at once: far from where differences of the engine's 32-bit clock change their sign.
_LONGEST_US: Final = 1 << 29


class Mode2Device(RtlDevice):
    """rtl/src/epic_mode2.v. `now_us` is the time that it was told."""

    MODE: ClassVar[int] = 2
    now_us = 0

    def reset(self) -> None:
        """As after power on: no groups, counters and the clock at 0."""
        super().reset()
        self.now_us = 0

    def pass_time(self, microseconds: int) -> list[tuple[int, bytes]]:
        """Lets time pass at once; the frames that timers send then. A timer that is due earlier is as late as that."""
        while microseconds > 0:
            step = min(microseconds, _LONGEST_US)
            due = self.next_timer()
            tell = command("TABLE_TIME", 0, step, 1)
            registers.execute(self.model, tell, asks=due is None or due > step)
            registers.finish(self.model)
            self.now_us += step
            microseconds -= step
            # The scan finds them one after another; each is set anew or stopped when it has been served.
            for _ in range(self.shape.edges):
                if self.next_timer() != 0:
                    break
                self.model.run(2 * self.shape.edges + _MARGIN)
                self.model.settle(self.quiet)
        return self.sent()

    def failed_edges(self, number: int) -> tuple[str, ...]:
        """The edges in error of a group."""
        placed, failed = self._installed(number), []
        for index, end in zip(placed.edges, placed.ends, strict=True):
            registers.execute(self.model, command("TABLE_EDGE_READ", index), asks=True)
            if registers.edge_failed(self.model):
                failed.append(end.name)
        return tuple(failed)

    def _slots(self, entry: EngineGroup) -> int:
        return entry.params.window

    def _installing(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        return tables2.install(placed, self.shape.ranks)

    def _forgetting(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        return tables2.below(placed, self.shape.ranks, present=False)

    def _slot_read(self, placed: Placed, slot: int) -> Command:
        return command("TABLE_SLOT_READ", slot, placed.index, 1)
