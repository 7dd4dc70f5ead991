"""The store: SQLite in a file that only the manager reads and writes, one transaction a change.

Write-ahead log, so a process that is killed at any point leaves the last whole transaction. With synchronous = "FULL"
(the default) a transaction is on the disk before its effects leave the manager, so a power failure loses nothing that
anybody was told. With "NORMAL" it may lose the last transactions, never a part of one: groups that were just made are
then unknown (their entries in engines are found and removed), and numbers that they had may be given again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

from epic_host.manager.records import TABLES, Record
from epic_spec.errors import ConfigError, EpicError

SCHEMA: Final = 1
_TYPES: Final = {"int": "INTEGER", "float": "REAL", "str": "TEXT", "bool": "INTEGER"}

R = TypeVar("R")


class StoreError(EpicError):
    """The store could not be written; what the manager knows is not certain any more, so it must be started again."""


class _Table:
    """SQL of one kind of record, and its rows from and to records."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.name, self.keys = TABLES[kind]
        columns = fields(kind)
        self._codecs = [f.metadata for f in columns]
        self._bools = [str(f.type) == "bool" for f in columns]
        names = [f'"{f.name}"' for f in columns]
        types = [_TYPES.get(str(f.type), "TEXT") for f in columns]
        key = ", ".join(f'"{name}"' for name in self.keys)
        body = ", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(names, types, strict=True))
        self.create = f"CREATE TABLE IF NOT EXISTS {self.name} ({body}, PRIMARY KEY ({key})) WITHOUT ROWID"
        self.select = f"SELECT {', '.join(names)} FROM {self.name} ORDER BY {key}"  # noqa: S608 (names are ours)
        marks = ", ".join("?" * len(names))
        self.insert = f"INSERT OR REPLACE INTO {self.name} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        where = " AND ".join(f'"{name}" = ?' for name in self.keys)
        self.delete = f"DELETE FROM {self.name} WHERE {where}"  # noqa: S608

    def row(self, record: Any) -> tuple[Any, ...]:
        """The columns of a record."""
        values = (getattr(record, f.name) for f in fields(record))
        return tuple(
            codec["dump"](value) if codec else value
            for codec, value in zip(self._codecs, values, strict=True)
        )

    def record(self, row: tuple[Any, ...]) -> Any:
        """The record of a row."""
        return self.kind(
            *(
                codec["load"](value) if codec else bool(value) if is_bool else value
                for codec, is_bool, value in zip(self._codecs, self._bools, row, strict=True)
            )
        )


class Store:
    """The database in file `path` (":memory:" for none), made when it is not there; closed by `close` or a kill.

    Raises ConfigError when the file is not such a database, is of another version, or is in use by another manager.
    """

    def __init__(self, path: Path | str = ":memory:", synchronous: str = "FULL") -> None:
        if synchronous not in ("FULL", "NORMAL", "OFF"):
            raise ConfigError(f"store: synchronous = {synchronous!r}, expected FULL, NORMAL or OFF")
        self.path = str(path)
        self._tables = {kind: _Table(kind) for kind in TABLES}
        try:
            self._db = self._open(synchronous)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"store {path}: {error}, expected a manager's database or a new file") from None

    def _open(self, synchronous: str) -> sqlite3.Connection:
        if self.path != ":memory:":
            # It has the secret that tokens are made of.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = sqlite3.connect(self.path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            # One manager at a time; the lock goes with the process.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {synchronous}")
            db.execute("BEGIN IMMEDIATE")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise ConfigError(f"store {self.path}: version {version}, expected {SCHEMA}")
            for table in self._tables.values():
                db.execute(table.create)
            db.execute("CREATE TABLE IF NOT EXISTS secret (value BLOB NOT NULL)")
            db.execute(f"PRAGMA user_version = {SCHEMA}")
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    def secret(self, first: bytes | None = None) -> bytes:
        """What tokens and QPNs are made of: drawn when the database is new (`first`, where it is given)."""
        row = self._db.execute("SELECT value FROM secret").fetchone()
        if row is None:
            value = first if first is not None else secrets.token_bytes(32)
            self._db.execute("INSERT INTO secret VALUES (?)", (value,))
            return value
        return bytes(row[0])

    def load(self, kind: type[R]) -> list[R]:
        """All records of a kind, by key. Raises ConfigError when one cannot be read."""
        table = self._tables[kind]
        try:
            return [table.record(row) for row in self._db.execute(table.select)]
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"store {self.path}: table {table.name}: {error}, expected the rows of version {SCHEMA}"
            ) from None

    def write(self, puts: Iterable[Record], drops: Iterable[tuple[type[Any], tuple[Any, ...]]]) -> None:
        """One transaction. Raises StoreError; then nothing was written."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for kind, key in drops:
                self._db.execute(self._tables[kind].delete, key)
            for record in puts:
                table = self._tables[type(record)]
                self._db.execute(table.insert, table.row(record))
            self._db.execute("COMMIT")
        except (sqlite3.Error, OverflowError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise StoreError(f"store {self.path}: {error}, expected room and a working disk") from None

    def snapshot(self) -> bytes:
        """The database as it would be found now after a crash of the manager."""
        return self._db.serialize()

    @classmethod
    def of_snapshot(cls, data: bytes) -> Store:
        """A store in memory that begins with a snapshot."""
        made = cls()
        made._db.deserialize(data)
        return made

    def close(self) -> None:
        """Close the file."""
        self._db.close()
