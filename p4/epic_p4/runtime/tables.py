"""Match-action tables: what the control plane writes, and what generated code looks up.

Generated code reads `cache` (key -> Entry) and calls `lookup` when the key is not in it. A key is the int itself, or a
tuple of ints when the table has several. `cache` is changed in place only, for generated code holds it.

Rules of P4Runtime: a table with a ternary, range or optional key has priorities, > 0, the larger wins; any other has
none (0). Keys that may be left out match anything then. Among several prefixes the longest wins. Two entries of one
match and priority cannot be; of two that overlap with one priority the older wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epic_p4.runtime.errors import (
    AlreadyExistsError,
    ControlError,
    NotFoundError,
    ReadOnlyError,
    TableFullError,
)
from epic_p4.runtime.match import Exact, Lpm, MatchValue, Range, TableEntry, Ternary

DEFAULT_SIZE = 1024
"""Entries of a table that says no size, as p4c has it."""

CACHED_KEYS = 1 << 16
"""Looked-up keys that a table with other than exact keys remembers; then it forgets them all."""

KINDS = ("exact", "lpm", "ternary", "range", "optional")

_PRIORITIZED = frozenset({"ternary", "range", "optional"})

Key = Any
"""An int, or a tuple of ints."""


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key: its control-plane name, bits, and match kind (one of KINDS)."""

    name: str
    width: int
    kind: str


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action of a table: control-plane name, (name, bits) of its data, and where it may stand."""

    name: str
    params: tuple[tuple[str, int], ...]
    in_entries: bool = True
    as_default: bool = True


class Entry:
    """What a lookup gives: the number of the action in the table's list, its data, and the direct counter."""

    __slots__ = ("action", "args", "bytes", "const", "hit", "packets", "pattern", "priority", "rank")

    def __init__(
        self, action: int, args: tuple[int, ...], pattern: tuple[MatchValue, ...] = (), priority: int = 0
    ) -> None:
        self.action = action
        self.args = args
        self.pattern = pattern
        self.priority = priority
        self.hit = True
        self.const = False
        self.rank = (0, 0)
        self.packets = 0
        self.bytes = 0


class Table:
    """One table with its entries."""

    def __init__(
        self,
        name: str,
        keys: Sequence[KeySpec],
        actions: Sequence[ActionSpec],
        *,
        size: int | None = None,
        default: tuple[int, tuple[int, ...]],
        const_default: bool = False,
        counted: bool = False,
    ) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.actions = tuple(actions)
        self.size = DEFAULT_SIZE if size is None else size
        self.const_default = const_default
        self.const_entries = False
        self.counted = counted
        self.prioritized = any(key.kind in _PRIORITIZED for key in self.keys)
        self._exact = all(key.kind == "exact" for key in self.keys)
        self._first_default = default
        self._entries: dict[tuple[tuple[MatchValue, ...], int], Entry] = {}
        self._age = 0
        self._groups: list[_MaskGroup] | None = None
        self.cache: dict[Key, Entry] = {}
        self.miss = Entry(*default)
        self.miss.hit = False

    # What generated code calls

    def lookup(self, key: Key) -> Entry:
        """The entry for a key that is not in `cache`, or `miss`."""
        if self._exact:
            return self.miss
        if self._groups is None:
            self._groups = _mask_groups(self._entries.values(), self.keys)
        found = _best(self._groups, key if type(key) is tuple else (key,)) or self.miss
        if len(self.cache) >= CACHED_KEYS:
            self.cache.clear()
        self.cache[key] = found
        return found

    # The control plane

    def insert(
        self, match: Mapping[str, MatchValue], action: str, params: Mapping[str, int], priority: int = 0
    ) -> None:
        """Add an entry; errors are those of `P4Switch.insert`."""
        self._writable()
        self.add(self._pattern(match, priority), *self._bind(action, params, default=False), priority)

    def add(
        self,
        pattern: tuple[MatchValue, ...],
        action: int,
        args: tuple[int, ...],
        priority: int = 0,
        *,
        const: bool = False,
    ) -> None:
        """Add an entry whose parts are known to be right."""
        if (pattern, priority) in self._entries:
            what = f" of priority {priority}" if self.prioritized else ""
            raise AlreadyExistsError(f"table {self.name}: entry {self._show(pattern)}{what}: already there")
        if len(self._entries) >= self.size:
            raise TableFullError(f"table {self.name}: {self.size} entries, expected room for one more")
        entry = Entry(action, args, pattern, priority)
        entry.const = const
        self._age += 1
        # Without priorities at most one key is a prefix; its length then orders the entries.
        weight = priority if self.prioritized else sum(m.prefix for m in pattern if isinstance(m, Lpm))
        entry.rank = (weight, -self._age)
        self._entries[pattern, priority] = entry
        self._changed()
        if self._exact:
            self.cache[_exact_key(pattern)] = entry

    def modify(
        self, match: Mapping[str, MatchValue], action: str, params: Mapping[str, int], priority: int = 0
    ) -> None:
        """Give an entry another action."""
        self._writable()
        entry = self._find(match, priority)
        entry.action, entry.args = self._bind(action, params, default=False)

    def delete(self, match: Mapping[str, MatchValue], priority: int = 0) -> None:
        """Remove an entry."""
        self._writable()
        entry = self._find(match, priority)
        del self._entries[entry.pattern, entry.priority]
        self._changed()
        if self._exact:
            del self.cache[_exact_key(entry.pattern)]

    def clear(self) -> None:
        """Remove all entries that are not const, and take the program's default action."""
        for pattern, priority in [key for key, entry in self._entries.items() if not entry.const]:
            del self._entries[pattern, priority]
            if self._exact:
                del self.cache[_exact_key(pattern)]
        for entry in self._entries.values():
            entry.packets = entry.bytes = 0
        self._changed()
        self.reset_default()

    def set_default(self, action: str, params: Mapping[str, int]) -> None:
        """Set the default action."""
        if self.const_default:
            name = self.actions[self.miss.action].name
            raise ReadOnlyError(f"table {self.name}: default action {name} is const, expected no change")
        self.miss.action, self.miss.args = self._bind(action, params, default=True)

    def reset_default(self) -> None:
        """Set the default action to what the program says."""
        self.miss.action, self.miss.args = self._first_default

    def entries(self) -> list[TableEntry]:
        """All entries, oldest first."""
        return [self._public(entry) for entry in self._entries.values()]

    def default(self) -> TableEntry:
        """The default action, as an entry without match."""
        spec = self.actions[self.miss.action]
        return TableEntry(self.name, {}, spec.name, self._params(self.miss), const=self.const_default)

    def counter(self, match: Mapping[str, MatchValue], priority: int) -> Entry:
        """The entry, for its direct counter."""
        if not self.counted:
            raise NotFoundError(f"table {self.name}: no direct counter, expected a table with one")
        return self._find(match, priority)

    # Inside

    def _writable(self) -> None:
        if self.const_entries:
            raise ReadOnlyError(f"table {self.name}: its entries are const, expected no change")

    def _changed(self) -> None:
        """The cache of a table with exact keys is the table itself, others forget what they looked up."""
        if not self._exact:
            self._groups = None
            self.cache.clear()

    def _find(self, match: Mapping[str, MatchValue], priority: int) -> Entry:
        pattern = self._pattern(match, priority)
        entry = self._entries.get((pattern, priority))
        if entry is None:
            what = f" of priority {priority}" if self.prioritized else ""
            raise NotFoundError(f"table {self.name}: entry {self._show(pattern)}{what}: not found")
        return entry

    def _pattern(self, match: Mapping[str, MatchValue], priority: int) -> tuple[MatchValue, ...]:
        if not self.keys:
            raise ControlError(f"table {self.name}: it has no key, expected only a default action")
        if self.prioritized and priority <= 0:
            raise ControlError(f"table {self.name}: priority {priority}, expected > 0 (it has a ternary key)")
        if not self.prioritized and priority != 0:
            raise ControlError(f"table {self.name}: priority {priority}, expected 0 (no key is ternary)")
        unknown = [name for name in match if name not in {key.name for key in self.keys}]
        if unknown:
            expected = ", ".join(key.name for key in self.keys)
            raise NotFoundError(f"table {self.name}: key {unknown[0]!r}: unknown, expected one of {expected}")
        return tuple(self._canonical(key, match.get(key.name)) for key in self.keys)

    def _canonical(self, key: KeySpec, value: MatchValue | None) -> MatchValue:
        """The one form of a match: omitted keys as what matches anything, an optional one as Ternary."""
        top = (1 << key.width) - 1
        where = f"table {self.name}: key {key.name}"
        match key.kind, value:
            case ("lpm", None):
                return Lpm(0, 0)
            case ("ternary" | "optional", None):
                return Ternary(0, 0)
            case ("range", None):
                return Range(0, top)
            case ("exact", Exact(number)):
                _fits(where, number, top)
                return value
            case ("optional", Exact(number)):
                _fits(where, number, top)
                return Ternary(number, top)
            case ("optional", Ternary(number, mask)) if mask in (0, top):
                _fits(where, number, top)
                return value
            case ("lpm", Lpm(number, prefix)):
                _fits(where, number, top)
                if not 0 <= prefix <= key.width:
                    raise ControlError(f"{where}: prefix {prefix}, expected 0..{key.width}")
                if number & (top >> prefix):
                    raise ControlError(
                        f"{where}: value {number:#x}, expected 0 behind its {prefix} prefix bits"
                    )
                return value
            case ("ternary", Ternary(number, mask)):
                _fits(where, number, top)
                _fits(f"{where}: mask", mask, top)
                if number & ~mask:
                    raise ControlError(f"{where}: value {number:#x}, expected 0 where mask {mask:#x} is 0")
                return value
            case ("range", Range(low, high)):
                _fits(where, low, top)
                _fits(where, high, top)
                if low > high:
                    raise ControlError(f"{where}: range {low}..{high}, expected low <= high")
                return value
        given = "nothing" if value is None else repr(value)
        raise ControlError(f"{where}: {given}, expected a match of kind {key.kind}")

    def _bind(self, action: str, params: Mapping[str, int], *, default: bool) -> tuple[int, tuple[int, ...]]:
        number = self._action_number(action)
        spec = self.actions[number]
        where = f"table {self.name}: action {spec.name}"
        if default and not spec.as_default:
            raise ControlError(f"{where}: @tableonly, expected an action that may be the default")
        if not default and not spec.in_entries:
            raise ControlError(f"{where}: @defaultonly, expected an action that entries may have")
        names = [name for name, _ in spec.params]
        unknown = [name for name in params if name not in names]
        if unknown:
            expected = ", ".join(names) or "none"
            raise NotFoundError(f"{where}: parameter {unknown[0]!r}: unknown, expected {expected}")
        values = []
        for name, width in spec.params:
            if name not in params:
                raise ControlError(f"{where}: parameter {name} is missing, expected {', '.join(names)}")
            _fits(f"{where}: parameter {name}", params[name], (1 << width) - 1)
            values.append(int(params[name]))
        return number, tuple(values)

    def _action_number(self, action: str) -> int:
        for number, spec in enumerate(self.actions):
            if spec.name == action:
                return number
        ends = [n for n, spec in enumerate(self.actions) if spec.name.endswith(f".{action}")]
        if len(ends) == 1:
            return ends[0]
        expected = ", ".join(spec.name for spec in self.actions)
        raise NotFoundError(f"table {self.name}: action {action!r}: unknown, expected one of {expected}")

    def _public(self, entry: Entry) -> TableEntry:
        match = {
            key.name: m for key, m in zip(self.keys, entry.pattern, strict=True) if not _anything(key, m)
        }
        name = self.actions[entry.action].name
        return TableEntry(self.name, match, name, self._params(entry), entry.priority, entry.const)

    def _params(self, entry: Entry) -> dict[str, int]:
        names = [name for name, _ in self.actions[entry.action].params]
        return dict(zip(names, entry.args, strict=True))

    def _show(self, pattern: tuple[MatchValue, ...]) -> str:
        parts = []
        for key, match in zip(self.keys, pattern, strict=True):
            match match:
                case Exact(value):
                    parts.append(f"{key.name}={value:#x}")
                case Lpm(value, prefix):
                    parts.append(f"{key.name}={value:#x}/{prefix}")
                case Ternary(value, mask):
                    parts.append(f"{key.name}={value:#x}&&&{mask:#x}")
                case Range(low, high):
                    parts.append(f"{key.name}={low:#x}..{high:#x}")
        return "{" + ", ".join(parts) + "}"


def _exact_key(pattern: tuple[MatchValue, ...]) -> Key:
    values = tuple(match.value for match in pattern if isinstance(match, Exact))
    return values[0] if len(values) == 1 else values


def _fits(where: str, value: int, top: int) -> None:
    if not 0 <= value <= top:
        raise ControlError(f"{where}: value {value}, expected 0..{top:#x}")


def _anything(key: KeySpec, match: MatchValue) -> bool:
    return match in (Lpm(0, 0), Ternary(0, 0)) or (
        key.kind == "range" and match == Range(0, (1 << key.width) - 1)
    )


class _MaskGroup:
    """Entries that look at the same bits: one dict for all of them. Ranges are told apart one by one."""

    __slots__ = ("best", "by_value", "masks")

    def __init__(self, masks: tuple[int, ...]) -> None:
        self.masks = masks
        self.by_value: dict[tuple[int, ...], list[Entry]] = {}
        self.best = (0, 0)


def _mask(key: KeySpec, match: MatchValue) -> int:
    top = (1 << key.width) - 1
    match match:
        case Exact():
            return top
        case Lpm(_, prefix):
            return top ^ (top >> prefix)
        case Ternary(_, mask):
            return mask
        case Range():
            return 0


def _mask_groups(entries: Iterable[Entry], keys: Sequence[KeySpec]) -> list[_MaskGroup]:
    """Entries by mask, the groups with the best entry first; within one value the best first."""
    groups: dict[tuple[int, ...], _MaskGroup] = {}
    for entry in sorted(entries, key=lambda one: one.rank, reverse=True):
        masks = tuple(map(_mask, keys, entry.pattern))
        group = groups.get(masks)
        if group is None:
            group = groups[masks] = _MaskGroup(masks)
            group.best = entry.rank
        values = tuple(0 if isinstance(m, Range) else m.value for m in entry.pattern)
        group.by_value.setdefault(values, []).append(entry)
    return list(groups.values())


def _best(groups: list[_MaskGroup], key: tuple[int, ...]) -> Entry | None:
    best: Entry | None = None
    for group in groups:
        if best is not None and group.best < best.rank:
            break
        values = tuple(part & mask for part, mask in zip(key, group.masks, strict=True))
        for entry in group.by_value.get(values, ()):
            if _in_ranges(entry.pattern, key):
                if best is None or entry.rank > best.rank:
                    best = entry
                break
    return best


def _in_ranges(pattern: tuple[MatchValue, ...], key: tuple[int, ...]) -> bool:
    return all(m.low <= part <= m.high for m, part in zip(pattern, key, strict=True) if isinstance(m, Range))
