"""The registers of rtl/src/epic_regs.v, and how both engines' tables are written and read through them."""

from __future__ import annotations

from typing import Final

from epic_models.reference.interfaces import SlotStatus
from epic_testbed.rtl.model import RtlModel

IDENTITY: Final = 0x45504943  # what ID reads
ID: Final = 0x000
SHAPE, SLOTS, MTU, TABLES, FAN, RANKS = 0x008, 0x00C, 0x010, 0x014, 0x018, 0x01C
CONTROL, STATUS, COMMAND, DATA = 0x020, 0x024, 0x030, 0x040
STATE_TAG, STATE_BITMAP, STATE_FLAGS = 0x080, 0x084, 0x08C
PORT, COUNTER = 0x100, 0x200


def command(model: RtlModel, table: int, index: int, data: int, words: int) -> None:
    """Write `words` words of data, then the command that puts them into entry `index` of a table."""
    for word in range(words):
        model.write(DATA + 4 * word, data >> 32 * word & 0xFFFFFFFF)
    model.write(COMMAND, table << 28 | index)


def idle(model: RtlModel) -> bool:
    """Whether the core has nothing under way."""
    return bool(model.read(STATUS) & 2)


def slot(model: RtlModel) -> SlotStatus | None:
    """The slot that a command has read; None when it is not live."""
    flags = model.read(STATE_FLAGS)
    if not flags & 2:
        return None
    bitmap = model.read(STATE_BITMAP) | model.read(STATE_BITMAP + 4) << 32
    return SlotStatus(model.read(STATE_TAG), bitmap, bool(flags & 1))
