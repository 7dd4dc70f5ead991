"""A P4Info as the server and the drivers use it: everything by id and by name, as plain values.

Two P4Infos with equal schemas mean the same to a client: documentation, annotations, aliases and source positions,
in which compilers differ, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeVar

from finsy.proto import p4i, p4t

from epic_p4.runtime.errors import ControlError, NotFoundError

EXACT = p4i.MatchField.EXACT
LPM = p4i.MatchField.LPM
TERNARY = p4i.MatchField.TERNARY
RANGE = p4i.MatchField.RANGE
OPTIONAL = p4i.MatchField.OPTIONAL
_KINDS = {EXACT: "exact", LPM: "lpm", TERNARY: "ternary", RANGE: "range", OPTIONAL: "optional"}


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a table, or a parameter of an action."""

    id: int
    name: str
    width: int
    kind: str = ""  # of a key: exact, lpm, ternary, range, optional


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its parameters in order."""

    id: int
    name: str
    params: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `entry_actions` and `default_actions` are ids of actions by where they may stand."""

    id: int
    name: str
    keys: tuple[Field, ...]
    entry_actions: tuple[int, ...]
    default_actions: tuple[int, ...]
    size: int
    const_entries: bool
    const_default: bool
    direct_counter: int  # its id, 0 for none
    indirect: bool  # it has an action profile

    @property
    def takes_priority(self) -> bool:
        """Whether an entry has a priority: some key is ternary, range or optional."""
        return any(key.kind in ("ternary", "range", "optional") for key in self.keys)


@dataclass(frozen=True, slots=True)
class Counter:
    """An indexed counter."""

    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register of bit<width>, or of a struct whose members are (name, width)."""

    id: int
    name: str
    size: int
    width: int
    members: tuple[tuple[str, int], ...] = ()


_Object = TypeVar("_Object", Table, Action, Counter, Register, Field)


@dataclass(frozen=True)
class Schema:
    """The objects of a P4Info."""

    arch: str
    tables: tuple[Table, ...]
    actions: tuple[Action, ...]
    counters: tuple[Counter, ...]
    registers: tuple[Register, ...]

    def table(self, number: int) -> Table:
        """The table with this id. Raises NotFoundError."""
        return by_id(self.tables, number, "table")

    def table_named(self, name: str) -> Table:
        """The table with this name. Raises NotFoundError."""
        return by_name(self.tables, name, "table")

    def action(self, number: int) -> Action:
        """The action with this id. Raises ControlError."""
        return by_id(self.actions, number, "action", ControlError)

    def action_named(self, name: str) -> Action:
        """The action with this name. Raises NotFoundError."""
        return by_name(self.actions, name, "action")

    def counter(self, number: int) -> Counter:
        """The counter with this id. Raises NotFoundError."""
        return by_id(self.counters, number, "counter")

    def counter_named(self, name: str) -> Counter:
        """The counter with this name. Raises NotFoundError."""
        return by_name(self.counters, name, "counter")

    def register(self, number: int) -> Register:
        """The register with this id. Raises NotFoundError."""
        return by_id(self.registers, number, "register")

    def register_named(self, name: str) -> Register:
        """The register with this name. Raises NotFoundError."""
        return by_name(self.registers, name, "register")

    def difference(self, other: Schema) -> str | None:
        """The first thing in which `other` differs, as a text; None when they mean the same."""
        for part in ("tables", "actions", "counters", "registers"):
            mine, theirs = ({o.id: o for o in getattr(s, part)} for s in (self, other))
            kind = part[:-1]
            for number in sorted(mine.keys() | theirs.keys()):
                if number not in theirs:
                    return f"{kind} {mine[number].name} (id {number:#x}) is missing"
                if number not in mine:
                    return f"{kind} {theirs[number].name} (id {number:#x}) is not in the program"
                if mine[number] != theirs[number]:
                    return _first_field(kind, mine[number], theirs[number])
        return None


def _first_field(kind: str, mine: object, theirs: object) -> str:
    for field in fields(mine):  # type: ignore[arg-type]
        here, there = getattr(mine, field.name), getattr(theirs, field.name)
        if here != there:
            name = getattr(mine, "name", "?")
            return f"{kind} {name}: {field.name} is {there!r}, expected {here!r}"
    return f"{kind} differs"


def by_id(
    objects: Iterable[_Object], number: int, what: str, error: type[ControlError] = NotFoundError
) -> _Object:
    """The object with an id. Raises `error`."""
    for item in objects:
        if item.id == number:
            return item
    raise error(f"{what} id {number:#x}: unknown, expected an id of the P4Info")


def by_name(objects: Iterable[_Object], name: str, what: str) -> _Object:
    """The object with a name. Raises NotFoundError."""
    listed = list(objects)
    for item in listed:
        if item.name == name:
            return item
    raise NotFoundError(
        f"{what} {name!r}: not in the program, expected one of {', '.join(o.name for o in listed)}"
    )


def schema_of(info: p4i.P4Info) -> Schema:
    """The schema of a P4Info."""
    counters = {c.preamble.id for c in info.direct_counters}
    return Schema(
        arch=info.pkg_info.arch,
        tables=_sorted(_table(t, counters) for t in info.tables),
        actions=_sorted(
            Action(
                a.preamble.id,
                a.preamble.name,
                tuple(Field(p.id, p.name, p.bitwidth) for p in sorted(a.params, key=lambda p: p.id)),
            )
            for a in info.actions
        ),
        counters=_sorted(Counter(c.preamble.id, c.preamble.name, c.size) for c in info.counters),
        registers=_sorted(_register(r, info.type_info) for r in info.registers),
    )


def _sorted(objects: Iterable[_Object]) -> tuple[_Object, ...]:
    return tuple(sorted(objects, key=lambda o: o.id))


def _table(table: p4i.Table, direct_counters: set[int]) -> Table:
    only_default = p4i.ActionRef.DEFAULT_ONLY
    only_entries = p4i.ActionRef.TABLE_ONLY
    return Table(
        id=table.preamble.id,
        name=table.preamble.name,
        keys=tuple(
            Field(f.id, f.name, f.bitwidth, _KINDS.get(f.match_type, "other"))
            for f in sorted(table.match_fields, key=lambda f: f.id)
        ),
        entry_actions=tuple(sorted(r.id for r in table.action_refs if r.scope != only_default)),
        default_actions=tuple(sorted(r.id for r in table.action_refs if r.scope != only_entries)),
        size=table.size,
        const_entries=table.is_const_table,
        const_default=table.const_default_action_id != 0,
        direct_counter=next((i for i in table.direct_resource_ids if i in direct_counters), 0),
        indirect=table.implementation_id != 0,
    )


def _register(register: p4i.Register, types: p4t.P4TypeInfo) -> Register:
    spec = register.type_spec
    members: tuple[tuple[str, int], ...] = ()
    if spec.HasField("struct"):
        members = tuple((m.name, _width(m.type_spec)) for m in types.structs[spec.struct.name].members)
    return Register(register.preamble.id, register.preamble.name, register.size, _width(spec), members)


def _width(spec: p4t.P4DataTypeSpec) -> int:
    """Bits of a plain value, 0 for what is not one."""
    bits = spec.bitstring
    if bits.HasField("bit"):
        return bits.bit.bitwidth
    if bits.HasField("int"):
        return bits.int.bitwidth
    return 1 if spec.HasField("bool") else 0
