"""A table of the program as a `Table` with its const entries and default action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.errors import Pos, SourceError, UnsupportedError
from epic_p4.lower.layout import bits
from epic_p4.runtime.errors import ControlError, TableFullError
from epic_p4.runtime.match import Exact, Lpm, MatchValue, Range, Ternary
from epic_p4.runtime.tables import DEFAULT_SIZE, KINDS, ActionSpec, KeySpec, Table

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit

_PROPERTIES = frozenset({"counters", "support_timeout", "idle_timeout", "alpm", "requires_versioning"})


def build_table(unit: Unit, instance: ast.TableInstance) -> Table:
    """Raises UnsupportedError for match kinds and properties that cannot be run."""
    decl = instance.decl
    for name, extra in decl.properties.items():
        if name not in _PROPERTIES or unit.evaluate(extra.value, instance.control) is True:
            raise UnsupportedError(extra.pos, f"table property {name}")
    for key in decl.key:
        if key.match_kind not in KINDS:
            raise UnsupportedError(key.pos, f"match kind {key.match_kind}")
    keys = [KeySpec(key.name, bits(key.expression.type), key.match_kind) for key in decl.key]
    size = max(DEFAULT_SIZE if decl.size is None else decl.size, len(decl.entries))
    table = Table(
        instance.name,
        keys,
        [_action(ref, made) for ref, made in zip(decl.actions, instance.actions, strict=True)],
        size=size,
        default=_default(unit, instance),
        const_default=decl.const_default,
        counted="counters" in decl.properties,
    )
    for number, entry in enumerate(decl.entries):
        _add(unit, instance, table, entry, len(decl.entries) - number)
    table.const_entries = decl.const_entries
    return table


def _action(ref: ast.ActionRef, made: ast.ActionInstance) -> ActionSpec:
    params = tuple((param.name, bits(param.type)) for param in made.decl.data_params)
    return ActionSpec(made.name, params, in_entries=not ref.default_only, as_default=not ref.table_only)


def _default(unit: Unit, instance: ast.TableInstance) -> tuple[int, tuple[int, ...]]:
    ref = instance.decl.default_action
    if ref is None:
        return 0, ()
    return _called(unit, instance, ref)


def _called(unit: Unit, instance: ast.TableInstance, ref: ast.ActionRef) -> tuple[int, tuple[int, ...]]:
    numbers = [number for number, one in enumerate(instance.decl.actions) if one.decl is ref.decl]
    if not numbers or ref.decl is None:
        raise SourceError(ref.pos, f"action {ref.name} is not in the table's list, expected one that is")
    data = [
        _number(unit, instance, arg, bits(param.type))
        for param, arg in zip(ref.decl.params, ref.args, strict=True)
        if not param.direction
    ]
    return numbers[0], tuple(data)


def _add(unit: Unit, instance: ast.TableInstance, table: Table, entry: ast.TableEntry, weight: int) -> None:
    """The first of const entries wins, so the first gets the largest priority unless they say their own."""
    for one in entry.annotations:
        if one.name == "priority":
            raise UnsupportedError(one.pos, "annotation @priority of an entry")
    if entry.priority is not None:
        weight = _number(unit, instance, entry.priority, 32)
    pattern = tuple(
        _match(unit, instance, spec, key) for spec, key in zip(table.keys, entry.keys, strict=True)
    )
    action, args = _called(unit, instance, entry.action)
    const = entry.const or instance.decl.const_entries
    try:
        table.add(pattern, action, args, weight if table.prioritized else 0, const=const)
    except (ControlError, TableFullError) as error:
        raise SourceError(entry.pos, str(error)) from error


def _match(unit: Unit, instance: ast.TableInstance, spec: KeySpec, key: ast.Expression) -> MatchValue:
    top = (1 << spec.width) - 1

    def number(node: ast.Expression) -> int:
        return _number(unit, instance, node, spec.width)

    match spec.kind, key:
        case "exact", ast.MaskExpr() | ast.RangeExpr() | ast.DefaultExpr():
            raise SourceError(key.pos, f"key {spec.name} is exact, expected one value")
        case "exact", _:
            return Exact(number(key))
        case "lpm", ast.DefaultExpr():
            return Lpm(0, 0)
        case "lpm", ast.MaskExpr():
            return _prefix(spec, number(key.value), number(key.mask), key.pos)
        case "lpm", _:
            return Lpm(number(key), spec.width)
        case "range", ast.DefaultExpr():
            return Range(0, top)
        case "range", ast.RangeExpr():
            return Range(number(key.low), number(key.high))
        case "range", ast.MaskExpr():
            raise SourceError(key.pos, f"key {spec.name} is a range, expected low .. high")
        case "range", _:
            return Range(number(key), number(key))
        case _, ast.DefaultExpr():
            return Ternary(0, 0)
        case "ternary", ast.MaskExpr():
            mask = number(key.mask)
            return Ternary(number(key.value) & mask, mask)
        case _, ast.MaskExpr() | ast.RangeExpr():
            raise SourceError(key.pos, f"key {spec.name} is {spec.kind}, expected another set of values")
    return Ternary(number(key), top)


def _prefix(spec: KeySpec, value: int, mask: int, pos: Pos) -> Lpm:
    prefix = mask.bit_count()
    top = (1 << spec.width) - 1
    if mask != top ^ (top >> prefix):
        raise SourceError(pos, f"key {spec.name}: mask {mask:#x}, expected a prefix")
    return Lpm(value & mask, prefix)


def _number(unit: Unit, instance: ast.TableInstance, node: ast.Expression, width: int) -> int:
    value = unit.evaluate(node, instance.control)
    if isinstance(value, ast.EnumValue):
        return value.index
    if not isinstance(value, int):
        raise SourceError(node.pos, "a value that is not known at compile time, expected a constant")
    return int(value) & ((1 << width) - 1)
