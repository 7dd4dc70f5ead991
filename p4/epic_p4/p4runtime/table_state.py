"""Table entries, default actions and direct counters of one switch as P4Runtime entities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from finsy.proto import p4r

from epic_p4.control.schema import Schema, Table
from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.p4runtime.tables import Match, action_of, match_of, priority_of, to_message
from epic_p4.runtime.match import MatchValue, TableEntry
from epic_p4.switch import P4Switch

Undo = Callable[[], None]
_Key = tuple[str, frozenset[tuple[str, object]], int]


@dataclass(frozen=True, slots=True)
class _Notes:
    """What a client keeps with an entry and the switch does not need."""

    metadata: bytes = b""
    controller_metadata: int = 0


def _nothing() -> None:
    """The undoing of an update that changed nothing."""


class TableState:
    """Writes and reads the tables of a switch. Every write returns what undoes it."""

    def __init__(self, switch: P4Switch, schema: Schema) -> None:
        self._switch = switch
        self._schema = schema
        self._notes: dict[_Key, _Notes] = {}
        self._default_notes: dict[str, _Notes] = {}

    def write(self, kind: int, entry: p4r.TableEntry) -> Undo:
        """INSERT, MODIFY or DELETE an entry, or MODIFY a default action. Raises Refusal."""
        table = self._schema.table(entry.table_id)
        if entry.is_const:
            raise Refusal(
                Code.INVALID_ARGUMENT, f"table {table.name}: is_const is set, expected false in a write"
            )
        if entry.idle_timeout_ns:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: idle timeouts are not supported")
        if entry.HasField("meter_config") or entry.HasField("meter_counter_data"):
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: it has no direct meter")
        if entry.HasField("counter_data") and not table.direct_counter:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: it has no direct counter")
        if entry.is_default_action:
            return self._write_default(kind, entry, table)
        if not table.keys:
            raise Refusal(
                Code.INVALID_ARGUMENT, f"table {table.name}: it has no key, expected is_default_action"
            )
        match, priority = match_of(entry, table), priority_of(entry, table)
        if kind == p4r.Update.MODIFY and not entry.HasField("action"):
            return self._modify_resources(entry, table, match, priority)
        if table.const_entries:
            raise Refusal(Code.PERMISSION_DENIED, f"table {table.name}: its entries are constant")
        if kind == p4r.Update.DELETE:
            return self._delete(table, match, priority)
        action, params = action_of(entry, table, self._schema)
        if kind == p4r.Update.INSERT:
            self._switch.insert(table.name, match, action.name, params, priority)

            def undo() -> None:
                self._switch.delete(table.name, match, priority)
                self._notes.pop(_key(table, match, priority), None)

        else:
            before = self._there(table, match, priority)
            notes = self._notes.get(_key(table, match, priority), _Notes())
            self._switch.modify(table.name, match, action.name, params, priority)

            def undo() -> None:
                self._switch.modify(table.name, match, before.action, before.params, priority)
                self._notes[_key(table, match, priority)] = notes

        self._notes[_key(table, match, priority)] = _notes_of(entry)
        if entry.HasField("counter_data"):
            undo = _both(self._set_counter(table, match, priority, entry.counter_data), undo)
        return undo

    def _delete(self, table: Table, match: Match, priority: int) -> Undo:
        before = self._there(table, match, priority)
        count = (0, 0)
        if table.direct_counter:
            count = self._switch.direct_counter_read(table.name, match, priority)
        self._switch.delete(table.name, match, priority)
        notes = self._notes.pop(_key(table, match, priority), _Notes())

        def undo() -> None:
            self._switch.insert(table.name, match, before.action, before.params, priority)
            self._notes[_key(table, match, priority)] = notes
            if table.direct_counter:
                self._switch.direct_counter_write(table.name, match, *count, priority)

        return undo

    def _modify_resources(self, entry: p4r.TableEntry, table: Table, match: Match, priority: int) -> Undo:
        """A MODIFY without an action leaves the action; it is also all that constant entries allow."""
        self._there(table, match, priority)
        undo: Undo = _nothing
        if entry.HasField("counter_data"):
            undo = self._set_counter(table, match, priority, entry.counter_data)
        if not table.const_entries:
            key = _key(table, match, priority)
            before = self._notes.get(key, _Notes())
            self._notes[key] = _notes_of(entry)
            undo = _both(undo, lambda: self._notes.__setitem__(key, before))
        return undo

    def _write_default(self, kind: int, entry: p4r.TableEntry, table: Table) -> Undo:
        if kind != p4r.Update.MODIFY:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: a default action can only be modified")
        if entry.match or entry.priority:
            raise Refusal(
                Code.INVALID_ARGUMENT, f"table {table.name}: a default action has no match and no priority"
            )
        if table.const_default:
            raise Refusal(Code.PERMISSION_DENIED, f"table {table.name}: its default action is constant")
        before = self._switch.default(table.name)
        notes = self._default_notes.get(table.name, _Notes())
        if entry.HasField("action"):
            action, params = action_of(entry, table, self._schema)
            self._switch.set_default(table.name, action.name, params)
            self._default_notes[table.name] = _notes_of(entry)
        else:
            self._switch.reset_default(table.name)
            self._default_notes[table.name] = _Notes()

        def undo() -> None:
            self._switch.set_default(table.name, before.action, before.params)
            self._default_notes[table.name] = notes

        return undo

    def write_counter(self, kind: int, entry: p4r.DirectCounterEntry) -> Undo:
        """MODIFY the counter of an entry. Raises Refusal."""
        table, match, priority = self._direct(entry.table_entry)
        if kind != p4r.Update.MODIFY:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: a counter can only be modified")
        self._there(table, match, priority)
        return self._set_counter(table, match, priority, entry.data) if entry.HasField("data") else _nothing

    def _direct(self, entry: p4r.TableEntry) -> tuple[Table, Match, int]:
        table = self._schema.table(entry.table_id)
        if not table.direct_counter:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: it has no direct counter")
        if entry.is_default_action:
            raise Refusal(
                Code.UNIMPLEMENTED, f"table {table.name}: the default action's counter is not supported"
            )
        return table, match_of(entry, table), priority_of(entry, table)

    def _set_counter(self, table: Table, match: Match, priority: int, data: p4r.CounterData) -> Undo:
        before = self._switch.direct_counter_read(table.name, match, priority)
        counts = (data.packet_count, data.byte_count)
        self._switch.direct_counter_write(table.name, match, *counts, priority)
        return lambda: self._switch.direct_counter_write(table.name, match, *before, priority)

    def _there(self, table: Table, match: Match, priority: int) -> TableEntry:
        key = _key(table, match, priority)
        for entry in self._switch.entries(table.name):
            if _key(table, entry.match, entry.priority) == key:
                return entry
        raise Refusal(Code.NOT_FOUND, f"table {table.name}: no entry with this match and priority")

    def read(self, query: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """The entries that a query asks for: of one table, or of all. Raises Refusal."""
        if query.table_id == 0:
            # The specification allows no other filter here; is_default_action chooses what is read.
            for table in self._schema.tables:
                yield from self._of_table(query, table, filtered=False)
        else:
            yield from self._of_table(query, self._schema.table(query.table_id), filtered=True)

    def _of_table(self, query: p4r.TableEntry, table: Table, *, filtered: bool) -> Iterator[p4r.TableEntry]:
        if query.is_default_action:
            message = to_message(self._switch.default(table.name), table, self._schema, default=True)
            yield _noted(message, self._default_notes.get(table.name, _Notes()))
            return
        wanted = _key(table, match_of(query, table), query.priority) if filtered and query.match else None
        for entry in self._switch.entries(table.name):
            key = _key(table, entry.match, entry.priority)
            if wanted is not None and key[:2] != wanted[:2]:
                continue
            message = _noted(to_message(entry, table, self._schema), self._notes.get(key, _Notes()))
            if filtered and not _passes(query, message):
                continue
            if query.HasField("counter_data") and table.direct_counter:
                packets, octets = self._switch.direct_counter_read(table.name, entry.match, entry.priority)
                message.counter_data.packet_count, message.counter_data.byte_count = packets, octets
            yield message

    def read_counters(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.DirectCounterEntry]:
        """The direct counters that a query asks for. Raises Refusal."""
        asked = query.table_entry
        if asked.table_id and not self._schema.table(asked.table_id).direct_counter:
            self._direct(asked)
        if asked.match:
            self._there(*self._direct(asked))
        for table in self._schema.tables:
            if not table.direct_counter or asked.table_id not in (0, table.id):
                continue
            query_entry = p4r.TableEntry(counter_data=p4r.CounterData())
            query_entry.MergeFrom(asked)
            for entry in self._of_table(query_entry, table, filtered=asked.table_id != 0):
                message = p4r.DirectCounterEntry(data=entry.counter_data)
                message.table_entry.table_id = table.id
                message.table_entry.match.extend(entry.match)
                message.table_entry.priority = entry.priority
                yield message


def _passes(query: p4r.TableEntry, entry: p4r.TableEntry) -> bool:
    if query.action.action.action_id not in (0, entry.action.action.action_id):
        return False
    return (
        query.priority in (0, entry.priority)
        and query.controller_metadata in (0, entry.controller_metadata)
        and query.metadata in (b"", entry.metadata)
    )


def _key(table: Table, match: Mapping[str, MatchValue], priority: int) -> _Key:
    return table.name, frozenset(match.items()), priority


def _notes_of(entry: p4r.TableEntry) -> _Notes:
    return _Notes(entry.metadata, entry.controller_metadata)


def _noted(message: p4r.TableEntry, notes: _Notes) -> p4r.TableEntry:
    message.metadata, message.controller_metadata = notes.metadata, notes.controller_metadata
    return message


def _both(first: Undo, second: Undo) -> Undo:
    def undo() -> None:
        first()
        second()

    return undo
