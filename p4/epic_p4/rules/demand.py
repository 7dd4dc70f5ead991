"""What a unit asks of its stage, and what the registers and counters do that it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epic_p4 import ast
from epic_p4.rules import memory, target
from epic_p4.rules.effects import COUNTERS, METERS, REGISTERS, reads
from epic_p4.rules.fields import Fields, union
from epic_p4.rules.flow import Kind, Unit
from epic_p4.rules.gateway import rows
from epic_p4.rules.schedule import Demand
from epic_p4.rules.target import Target
from epic_p4.types import ExternType, width

SLICE_BITS = 16
DEFAULT_SIZE = 512  # the size of a table that names none, as p4c has it
TERNARY_KINDS = frozenset({"ternary", "lpm", "range", "optional"})


@dataclass(frozen=True, slots=True)
class Memory:
    """The blocks of one table, register or counter, for the report."""

    name: str
    kind: str
    size: int
    bits: int
    sram: int
    tcam: int = 0


def unit_demand(unit: Unit, chip: Target) -> tuple[Demand, Memory | None, int, Demand | None]:
    """(demand, its memory, number of parts, demand of a part), without stateful objects and logical tables: units
    share those."""
    if unit.kind is Kind.CONDITION:
        return _condition(unit, chip), None, 1, None
    if unit.kind is Kind.STATEMENT:
        return Demand(_hashes(unit), {target.EXACT_BYTES: unit.inputs.bytes()}), None, 1, None
    return _table(unit)


def _condition(unit: Unit, chip: Target) -> Demand:
    if unit.cases:
        gateways = -(-unit.cases // chip.gateway.rows)
    else:
        assert unit.condition is not None
        gateways = max(1, -(-len(rows(unit.condition, unit.scope)) // chip.gateway.rows))
    return Demand({target.GATEWAYS: gateways}, {target.EXACT_BYTES: unit.key.bytes()})


def _table(unit: Unit) -> tuple[Demand, Memory | None, int, Demand | None]:
    assert unit.table is not None
    decl = unit.table.decl
    feeds = union(one.inputs for option in unit.alternatives for one in option.effects)
    sums = _hashes(unit)
    if not decl.key:
        return Demand(sums, {target.EXACT_BYTES: feeds.bytes()}), None, 1, None
    size = decl.size if decl.size is not None else max(len(decl.entries), DEFAULT_SIZE)
    if decl.const_entries:
        size = len(decl.entries)
    key_bits = 8 * len(unit.key.bytes())
    data_bits = max((_data_bits(one.decl) for one in unit.alternatives if one.decl is not None), default=0)
    actions = len(unit.alternatives)
    data_blocks = memory.action_data_blocks(size, data_bits)
    if any(element.match_kind in TERNARY_KINDS for element in decl.key):
        ranges = sum(
            reads(element.expression, unit.scope).bits
            for element in decl.key
            if element.match_kind == "range"
        )
        tcam = memory.tcam_blocks(key_bits, ranges, size)
        sram = memory.ternary_indirection_blocks(size, actions, data_bits) + data_blocks
        sums |= {target.SRAM: sram, target.TCAM: tcam}
        sets = {
            target.TERNARY_TABLES: frozenset({unit.name}),
            target.TERNARY_BYTES: unit.key.bytes(),
            target.EXACT_BYTES: feeds.bytes(),
        }
        whole = Memory(unit.name, "ternary", size, unit.key.bits, sram, tcam)
        parts = max(1, -(-size // memory.TCAM_WORDS))
    else:
        overhead = memory.overhead_bits(actions, data_bits)
        sram = memory.exact_blocks(unit.key.bits, size, overhead) + data_blocks
        sums |= {target.SRAM: sram}
        sums[target.HASH_BITS] = sums.get(target.HASH_BITS, 0) + _way_bits(unit.key.bits, size, overhead)
        sets = {target.EXACT_BYTES: unit.key.bytes() | feeds.bytes()}
        whole = Memory(unit.name, "exact", size, unit.key.bits, sram)
        parts = 1 if unit.key.bits <= memory.DIRECT_KEY_BITS else sram // _way_blocks(unit, size, overhead)
    return Demand(sums, sets), whole, parts, _part(sums, sets, parts)


def _way_blocks(unit: Unit, size: int, overhead: int) -> int:
    return memory.packing(unit.key.bits, size, overhead).blocks


def _part(sums: Mapping[str, int], sets: Mapping[str, frozenset[str]], parts: int) -> Demand | None:
    """The share of a table that has to lie in one stage: a way, or a row of TCAM blocks, with its action data. Hash
    bits are left out: the parts of one stage share them."""
    if parts == 1:
        return None
    blocks = {name: -(-sums[name] // parts) for name in (target.SRAM, target.TCAM) if name in sums}
    return Demand(blocks, sets)


def _way_bits(key_bits: int, size: int, overhead: int) -> int:
    """Hash bits of an exact match: 10 to address a block for each of four ways, and those that select the block."""
    if key_bits <= memory.DIRECT_KEY_BITS:
        return key_bits
    ways = memory.packing(key_bits, size, overhead).ways
    return memory.MIN_WAYS * memory.DIRECT_KEY_BITS + min(12, max(0, ways - memory.MIN_WAYS).bit_length())


def _data_bits(action: ast.ActionDecl) -> int:
    return sum(width(param.type) or 0 for param in action.data_params)


def _hashes(unit: Unit) -> dict[str, int]:
    """Hash bits and slices of indices that come from fields, and of hashes that actions read. Indices of the same
    fields come from the same slices."""
    indices: dict[Fields, int] = {}
    for use in unit.uses():
        fields = reads(use.index, use.scope)
        if fields:
            needed = min(fields.bits, (max(2, _cells(use.object, DEFAULT_SIZE)) - 1).bit_length())
            indices[fields] = max(indices.get(fields, 0), needed)
    widths = list(indices.values())
    for option in unit.alternatives:
        for effect in option.effects:
            widths += [width(call.type) or 0 for call in effect.hashes]
    if not widths:
        return {}
    return {
        target.HASH_BITS: sum(widths),
        target.HASH_DISTRIBUTION: sum(-(-bits // SLICE_BITS) for bits in widths),
    }


def object_demand(instance: ast.Instance, table_size: int) -> tuple[Demand, Memory]:
    """The demand of a register, counter or meter; `table_size` is that of the table of a direct one."""
    kind = instance.decl.name
    cells = _cells(instance, table_size)
    if kind in REGISTERS:
        bits = register_bits(instance)
        alu = target.STATEFUL_ALUS
    elif kind in METERS:
        bits = 128
        alu = target.STATEFUL_ALUS
    else:
        assert kind in COUNTERS
        bits = _counter_bits(instance)
        alu = target.STATISTICS_ALUS
    sram = memory.stateful_blocks(cells, bits)
    return (
        Demand({target.SRAM: sram, target.MAP_RAM: sram}, {alu: frozenset({instance.name})}),
        Memory(instance.name, kind.lower(), cells, bits, sram),
    )


def _cells(instance: ast.Instance, table_size: int) -> int:
    size = instance.args.get("size")
    return size if isinstance(size, int) else table_size


def register_bits(instance: ast.Instance) -> int:
    """Width of a register's cell."""
    if isinstance(instance.type, ExternType) and instance.type.args:
        return width(instance.type.args[0]) or 32
    return 32


def _counter_bits(instance: ast.Instance) -> int:
    """A cell's bits: 32 or 64, both packets and bytes in twice that."""
    kind = instance.args.get("type")
    both = not isinstance(kind, ast.EnumValue) or kind.member == "PACKETS_AND_BYTES"
    arguments = instance.type.args if isinstance(instance.type, ExternType) else ()
    wide = bool(arguments) and (width(arguments[0]) or 64) > 32
    return (64 if wide else 32) * (2 if both else 1)
