"""The P4 realization in the testbed: epic.p4 as an engine, as a device under test, and on BMv2."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_p4.control.capabilities import ProgramCapabilities
from epic_p4.control.controller import Reading


def _capabilities(offered: ProgramCapabilities) -> EngineCapabilities:
    return EngineCapabilities(message_bytes=64, message_buffers=1, **asdict(offered))


# What the programs offer as they are compiled here; p4/README.md says why.
V1MODEL: Final = _capabilities(ProgramCapabilities(groups=255))
# BMv2's Thrift server gives a register's cell as a signed number of 64 bits, so the status cannot tell of a 64th child.
BMV2: Final = replace(V1MODEL, children=63)
TNA: Final = _capabilities(ProgramCapabilities(groups=255, children=32, icrc=("none",), window_guard=False))


def group_status(reading: Reading) -> GroupStatus:
    """What a controller read, as every engine says it; a Mode III engine knows no edge in error."""
    slots = tuple(SlotStatus(slot.cell, slot.bitmap, slot.done) for slot in reading.slots)
    return GroupStatus(reading.group, reading.epoch, slots, ())
