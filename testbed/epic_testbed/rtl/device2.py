"""The Mode II engine in Verilog with the groups that are installed on it, in virtual time.

The engine is built with CLOCK_MHZ = 0: frames take no time, and time passes when it is told to (`pass_time`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError, ResourceError
from epic_testbed.rtl import build, registers, tables2
from epic_testbed.rtl.device import RtlDevice, Shape
from epic_testbed.rtl.model import RtlModel
from epic_testbed.rtl.tables2 import Command, Placed, command

# Cycles after the scan of all timers in which the first packet of one that is due is on its way.
_MARGIN: Final = 60
# Cycles in which a frame that the core has seen is through.
_DRAIN: Final = 200


class Mode2Device(RtlDevice):
    """An engine and its control plane. `parameters` are those of rtl/src/epic_mode2.v but CLOCK_MHZ."""

    def __init__(self, *, trace: Path | None = None, **parameters: int) -> None:
        values = {"DATA_W": 128, "PORTS": 8, "CLOCK_MHZ": 0} | parameters
        self.model = RtlModel(build.library("epic_mode2", values, trace=trace is not None), trace)
        self.shape = Shape.of(self.model)
        # The register of Mode III's rows has the largest window here; what Mode III alone has is not offered.
        self.offers = replace(
            self.shape.offers(), window=self.shape.rows, ack_reflection=False, window_guard=False
        )
        self._start()

    def _start(self) -> None:
        self._placed: dict[int, Placed] = {}
        self._edge_of: dict[int, int] = {}  # QPN: edge
        self.now_us = 0

    # --------------------------------------------------------------------------------------------------------- time

    def pass_time(self, microseconds: int) -> list[tuple[int, bytes]]:
        """Lets time pass at once; the frames that timers send then. A timer that is due earlier is as late as that."""
        self.now_us += microseconds
        self._run([command("TABLE_TIME", 0, microseconds, 1)])
        self.model.run(2 * self.shape.edges + _MARGIN)
        return self.sent() if self.idle() else self.settle()

    def idle(self) -> bool:
        """Whether the core has nothing to do before the next frame or timer."""
        return registers.idle(self.model)

    # ------------------------------------------------------------------------------------------------------- groups

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError; nothing has changed then."""
        number, window = entry.params.group, entry.params.window
        if number in self._placed:
            raise ConfigError(f"group {number}: already installed, expected a group number that is free")
        self.offers.check(entry)
        self._check_edges(entry)
        others = self._placed.values()
        index = self._free(number, "groups", self.shape.groups, [(g.index, 1) for g in others], 1)
        used_slots = [(g.slot_base, g.entry.params.window) for g in others]
        base = self._free(number, "slots", self.shape.slots, used_slots, window)
        used = {edge for group in others for edge in group.edges}
        free = [e for e in range(self.shape.edges) if e not in used]
        placed = Placed(entry, index, base)
        if len(free) < len(placed.ends):
            raise ResourceError(
                f"group {number}: {len(placed.ends)} edges, this engine has room for {len(free)} more"
            )
        placed.edges = free[: len(placed.ends)]
        self._run(tables2.install(placed, self.shape.ranks))
        self._placed[number] = placed
        self._edge_of |= {end.local.qpn: edge for edge, end in zip(placed.edges, placed.ends, strict=True)}

    def remove(self, number: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        placed = self._installed_group(number)
        self._run(tables2.remove(placed))
        self.model.settle(_DRAIN)
        self._run(tables2.below(placed, self.shape.ranks, present=False))
        self._edge_of = {qpn: edge for qpn, edge in self._edge_of.items() if edge not in placed.edges}
        del self._placed[number]

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._placed)

    def status(self, number: int) -> GroupStatus:
        """The live slots of a group and its edges in error."""
        placed = self._installed_group(number)
        params, slots, failed = placed.entry.params, [], []
        for slot in range(placed.slot_base, placed.slot_base + params.window):
            self._run([command("TABLE_SLOT_READ", slot, placed.index, 1)])
            if (live := registers.slot(self.model)) is not None:
                slots.append(live)
        for edge, end in zip(placed.edges, placed.ends, strict=True):
            self._run([command("TABLE_EDGE_READ", edge)])
            if self.model.read(registers.STATE_FLAGS) & 1:
                failed.append(end.name)
        return GroupStatus(number, params.epoch, tuple(slots), tuple(failed))

    # ------------------------------------------------------------------------------------------------------- tables

    def _installed_group(self, number: int) -> Placed:
        if number not in self._placed:
            raise ConfigError(f"group {number}: not installed, expected one of {sorted(self._placed)}")
        return self._placed[number]

    def _run(self, commands: Iterable[Command]) -> None:
        for table, at, data, words in commands:
            registers.command(self.model, table, at, data, words)
