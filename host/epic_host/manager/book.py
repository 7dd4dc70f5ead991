"""The store's records in memory, with indexes; changes are gathered, then written in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeVar

from epic_host.manager.records import (
    FREEING,
    INSTALLED,
    TABLES,
    Counter,
    Granting,
    Group,
    Install,
    Member,
    Node,
    Out,
    Quarantined,
    Reasoned,
    Record,
)
from epic_host.manager.store import Store

Key = tuple[Any, ...]
K = TypeVar("K", bound=Record)


class Book:
    """All records. `put` and `drop` change them at once; `commit` writes what changed, `rollback` takes it back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._all: dict[type[Any], dict[Key, Any]] = {kind: {} for kind in TABLES}
        # What each changed record was before: None where it was not.
        self._before: dict[tuple[type[Any], Key], Any] = {}
        self._members: dict[str, dict[int, Member]] = defaultdict(dict)
        self._by_group: dict[str, dict[Key, Install]] = defaultdict(dict)
        self._by_engine: dict[str, dict[Key, Install]] = defaultdict(dict)
        self._reasons: dict[str, dict[int, Reasoned]] = defaultdict(dict)
        self._open: dict[str, dict[Key, Install]] = defaultdict(dict)
        self._addresses: dict[str, dict[str, Member]] = defaultdict(dict)
        for kind in TABLES:
            for record in store.load(kind):
                self._set(kind, record.key, record)

    # ----------------------------------------------------------------------------------------- reading

    @property
    def groups(self) -> dict[Key, Group]:
        """Groups by (name,)."""
        return self._all[Group]

    def group(self, name: str) -> Group | None:
        """A group."""
        return self._all[Group].get((name,))

    def members(self, group: str) -> dict[int, Member]:
        """Members of a group by rank."""
        return self._members.get(group, {})

    def granting(self, group: str) -> Granting | None:
        """The grant of a group's epoch."""
        return self._all[Granting].get((group,))

    @property
    def installs(self) -> dict[Key, Install]:
        """Installs by (number, engine, epoch)."""
        return self._all[Install]

    def of_group(self, group: str) -> tuple[Install, ...]:
        """Installs of a group."""
        return tuple(self._by_group.get(group, {}).values())

    def of_engine(self, engine: str) -> tuple[Install, ...]:
        """Installs on an engine."""
        return tuple(self._by_engine.get(engine, {}).values())

    @property
    def open(self) -> dict[str, dict[Key, Install]]:
        """By engine, installs whose step is not over: what it is to be called for."""
        return self._open

    def wanted(self, group: str) -> tuple[Install, ...]:
        """Installs of a group that are not being taken back."""
        return tuple(install for install in self.of_group(group) if install.step != FREEING)

    @property
    def nodes(self) -> dict[Key, Node]:
        """Registered hosts by (host,)."""
        return self._all[Node]

    def is_out(self, kind: str, name: str) -> bool:
        """Whether an admin took it out of use."""
        return (kind, name) in self._all[Out]

    def out(self, kind: str) -> frozenset[str]:
        """What an admin took out of use."""
        return frozenset(name for that, name in self._all[Out] if that == kind)

    @property
    def quarantine(self) -> dict[Key, Quarantined]:
        """Addresses in quarantine by (address,)."""
        return self._all[Quarantined]

    def has_address(self, address: str) -> bool:
        """Whether a member has it, or had it a moment ago."""
        return address in self._addresses.get("", {}) or (address,) in self._all[Quarantined]

    def reasons(self, group: str) -> tuple[Reasoned, ...]:
        """Decisions about a group, oldest first."""
        return tuple(self._reasons.get(group, {}).values())

    # ----------------------------------------------------------------------------------------- writing

    def put(self, record: K) -> K:
        """Add or replace a record."""
        kind = type(record)
        self._note(kind, record.key)
        self._set(kind, record.key, record)
        return record

    def drop(self, record: Record) -> None:
        """Forget a record."""
        kind = type(record)
        self._note(kind, record.key)
        self._unset(kind, record.key)

    def draw(self, name: str, first: int = 1) -> int:
        """The next value of a counter."""
        counter = self._all[Counter].get((name,))
        value = first if counter is None else max(first, int(counter.value))
        self.put(Counter(name, value + 1))
        return value

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._before)

    def commit(self) -> None:
        """Write what has changed. Raises StoreError."""
        if not self._before:
            return
        puts, drops = [], []
        for (kind, key), before in self._before.items():
            record = self._all[kind].get(key)
            if record is None:
                drops.append((kind, key))
            elif record is not before:
                puts.append(record)
        if puts or drops:
            self._store.write(puts, drops)
        self._before.clear()

    def rollback(self) -> None:
        """Take back what has changed since the last commit."""
        for (kind, key), before in self._before.items():
            if before is None:
                self._unset(kind, key)
            else:
                self._set(kind, key, before)
        self._before.clear()

    # ---------------------------------------------------------------------------------------- indexes

    def _note(self, kind: type[Any], key: Key) -> None:
        if (kind, key) not in self._before:
            self._before[kind, key] = self._all[kind].get(key)

    def _indexes(self, record: Any) -> Iterable[tuple[dict[str, dict[Any, Any]], str, Any]]:
        if isinstance(record, Member):
            yield self._members, record.group, record.rank
            if record.address:
                yield self._addresses, "", record.address
        elif isinstance(record, Install):
            yield self._by_group, record.group, record.key
            yield self._by_engine, record.engine, record.key
            if record.step != INSTALLED:
                yield self._open, record.engine, record.key
        elif isinstance(record, Reasoned):
            yield self._reasons, record.group, record.sequence

    def _set(self, kind: type[Any], key: Key, record: Any) -> None:
        before = self._all[kind].get(key)
        self._all[kind][key] = record
        for index, name, inner in self._indexes(record):
            index[name][inner] = record
        if isinstance(before, Install | Member):
            # Its group, step or address may be another one now.
            kept = [(id(index), name, inner) for index, name, inner in self._indexes(record)]
            self._unindex(before, kept)

    def _unset(self, kind: type[Any], key: Key) -> None:
        self._unindex(self._all[kind].pop(key, None), [])

    def _unindex(self, record: Any, kept: list[tuple[int, str, Any]]) -> None:
        for index, name, inner in self._indexes(record):
            if (id(index), name, inner) not in kept:
                index[name].pop(inner, None)
                if not index[name]:
                    del index[name]
