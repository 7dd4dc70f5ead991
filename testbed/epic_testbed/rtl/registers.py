"""The registers of rtl/src/epic_regs.v, and how both engines' tables are written and read through them."""

from __future__ import annotations

from typing import Final

from epic_models.reference.interfaces import SlotStatus
from epic_testbed.dut import DutError
from epic_testbed.rtl.model import RtlModel
from epic_testbed.rtl.parameters import Shape
from epic_testbed.rtl.tables import Command

IDENTITY: Final = 0x45504943  # what ID reads
ID: Final = 0x000
SHAPE, SLOTS, MTU, TABLES, FAN, RANKS = 0x008, 0x00C, 0x010, 0x014, 0x018, 0x01C
CONTROL, STATUS, COMMAND, DATA = 0x020, 0x024, 0x030, 0x040
STATE_TAG, STATE_BITMAP, STATE_FLAGS = 0x080, 0x084, 0x08C
PORT, COUNTER = 0x100, 0x200


def shape(model: RtlModel) -> Shape:
    """What the engine is built with. Raises DutError when this is no EPIC engine."""
    if model.read(ID) != IDENTITY:
        raise DutError(f"register ID = {model.read(ID):#x}, expected {IDENTITY:#x}")
    word, tables, fan = model.read(SHAPE), model.read(TABLES), model.read(FAN)
    mode = word & 15
    return Shape(
        mode=mode, ports=word >> 4 & 15, bytes=1 << (word >> 8 & 15), fp32=bool(word >> 12 & 1),
        slots=model.read(SLOTS), mtu=model.read(MTU), edges=tables & 0xFFFF, groups=tables >> 16,
        children=fan & 0xFFFF, ranks=model.read(RANKS),
        fp16=bool(word >> 13 & 1),
        # One register has what the modes have of their own.
        rows=fan >> 16 if mode == 3 else 0, window=fan >> 16 if mode == 2 else 0,
    )  # fmt: skip


def execute(model: RtlModel, command: Command, *, asks: bool = False) -> None:
    """Write the words of a command's data, then the command itself. `asks`: as in `RtlModel.write`."""
    for word in range(command.words):
        model.write(DATA + 4 * word, command.data >> 32 * word & 0xFFFFFFFF, asks=asks)
    model.write(COMMAND, command.table << 28 | command.at, asks=asks)


def finish(model: RtlModel) -> None:
    """Wait until the last command has been carried out: the state registers answer then."""
    model.read(STATE_FLAGS)


def idle(model: RtlModel) -> bool:
    """Whether the core has nothing under way."""
    return bool(model.read(STATUS) & 2)


def slot(model: RtlModel, children: int) -> SlotStatus | None:
    """The slot of a group with so many children that a command has read; None when it is not live."""
    flags = model.read(STATE_FLAGS)
    if not flags & 2:
        return None
    bitmap = model.read(STATE_BITMAP)
    if children > 32:
        bitmap |= model.read(STATE_BITMAP + 4) << 32
    return SlotStatus(model.read(STATE_TAG), bitmap, bool(flags & 1))


def edge_failed(model: RtlModel) -> bool:
    """Whether the edge that a command has read is in error."""
    return bool(model.read(STATE_FLAGS) & 1)
