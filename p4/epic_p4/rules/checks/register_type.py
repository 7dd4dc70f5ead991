"""What a register's cell may be, and how many RegisterActions one may have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.errors import Pos
from epic_p4.rules.context import Context
from epic_p4.rules.effects import REGISTERS
from epic_p4.rules.finding import Finding
from epic_p4.types import BitType, ExternType, IntType, StructType, Type, underlying

NAME = "register-type"
TITLE = "a register's cell is 1, 8, 16 or 32 bits or an equal pair of them, with at most 4 RegisterActions"
SOURCE = "[p4c] mau/stateful_alu.cpp, CheckStatefulAlu; specs/device.cpp, MaxInstructions"


def check(context: Context) -> Iterator[Finding]:
    """Cell types of all registers that are declared, and the RegisterActions beyond the limit."""
    limits = context.chip.register
    actions = context.register_actions()
    registers = {register: None for _, register, _ in actions}
    registers |= {
        use.object: None
        for unit in context.units()
        for use in unit.uses()
        if use.object.decl.name in REGISTERS
    }
    for register in registers:
        cell = register.type.args[0] if isinstance(register.type, ExternType) and register.type.args else None
        if cell is not None and not _allowed(cell, limits.half_bits):
            yield Finding(
                NAME,
                position(register),
                f"register {register.name} has cells of {_shown(cell)}, expected 1, 8, 16 or 32 bits or a struct of "
                "two equal fields of these",
            )
    by_register: dict[ast.Instance, list[ast.Instance]] = defaultdict(list)
    for action, register, _ in actions:
        by_register[register].append(action)
    for register, several in by_register.items():
        if len(several) > limits.actions:
            extra = several[limits.actions]
            yield Finding(
                NAME,
                position(extra),
                f"{extra.name} is RegisterAction {limits.actions + 1} of {register.name}, expected at most "
                f"{limits.actions}",
            )


def position(instance: ast.Instance) -> Pos:
    """Where an instance is declared."""
    node = instance.node
    return node.pos if node is not None else instance.decl.pos


def _allowed(cell: Type, half_bits: int) -> bool:
    cell = underlying(cell)
    sizes = [size for size in (8, 16, 32, 64) if size <= half_bits]
    if isinstance(cell, BitType | IntType):
        return cell.width in (1, *sizes, 2 * half_bits)
    if isinstance(cell, StructType):
        fields = [underlying(one.type) for one in cell.fields]
        first = fields[0]
        return (
            len(fields) <= 2
            and all(one == first for one in fields)
            and isinstance(first, BitType | IntType)
            and first.width in sizes
        )
    return False


def _shown(cell: Type) -> str:
    if isinstance(cell, StructType):
        return f"struct {cell.name} ({', '.join(str(one.type) for one in cell.fields)})"
    return str(cell)
