"""The store: what is written is there again, whole transactions only, one manager at a time, and no foreign files."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epic_host.fabric.decision import Decision, Reason
from epic_host.fabric.decision import Path as Way
from epic_host.fabric.resources import Demand
from epic_host.grants import Grant, HostPlan
from epic_host.manager.book import Book
from epic_host.manager.records import (
    FREEING,
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
from epic_host.manager.store import Store, StoreError
from epic_models.reference.group import GroupParams
from epic_spec.errors import ConfigError
from host.manager.core_world import World, request

ALL: tuple[Record, ...] = (
    Group(
        "g",
        1,
        "job",
        "r",
        request("h0", "h1", modes=(3, 2), rate_gbps=2.5),
        1.5,
        numbers=(4, 5),
        survivors=(1,),
    ),
    Member("g", 0, "h0", "127.0.0.1", "joined", "p", 2, 2**63 - 1),
    Granting(
        "g", Grant("g", 1, 7, "granted", 3.0, host=HostPlan(GroupParams(0, 3, 2), "ring", {0: {}, 1: {}}))
    ),
    Install(4, "s0", 1, "g", 0, Demand(10, 2, 1, 3, 3, 0.5), {"h0-s0": 0.5}, FREEING, "i"),
    Node("h0", 1500, "1"),
    Out("engine", "s0"),
    Quarantined("127.0.0.2"),
    Reasoned(1, "g", Decision("g", 1, Way.HOST, Reason.NO_SLOTS, "text", {"engine": "s0"}, 2.5)),
    Counter("uid", 2),
)


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_every_record_is_read_as_it_was_written(record: Record, tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    store.write([record], [])
    assert store.load(type(record)) == [record]
    store.close()
    again = Store(tmp_path / "m.db")
    assert again.load(type(record)) == [record]
    again.write([], [(type(record), record.key)])
    assert again.load(type(record)) == []
    again.close()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    Store(tmp_path / "m.db").close()
    assert stat.S_IMODE((tmp_path / "m.db").stat().st_mode) == 0o600


def test_the_secret_is_drawn_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    secret = store.secret()
    store.close()
    again = Store(tmp_path / "m.db")
    assert again.secret(b"other") == secret
    assert len(secret) == 32
    again.close()
    assert Store().secret() != secret


def test_a_second_manager_on_the_same_file_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    with pytest.raises(ConfigError, match="database is locked"):
        Store(tmp_path / "m.db")
    store.close()
    Store(tmp_path / "m.db").close()


@pytest.mark.parametrize(
    "content", [b"hello, this is no database " * 50, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_file_that_is_no_database_is_refused_in_one_line_and_left_as_it_is(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_another_version_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "m.db").close()
    db = sqlite3.connect(tmp_path / "m.db")
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(ConfigError, match="version 9, expected 1"):
        Store(tmp_path / "m.db")


def test_a_row_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    store.write([ALL[0]], [])
    store.close()
    db = sqlite3.connect(tmp_path / "m.db")
    db.execute("UPDATE groups SET request = 'x'")
    db.commit()
    db.close()
    with pytest.raises(ConfigError, match="table groups"):
        Book(Store(tmp_path / "m.db"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unable to open|No such file"):
        Store(tmp_path / "no" / "m.db")
    with pytest.raises(ConfigError, match="synchronous = 'SOMETIMES'"):
        Store(tmp_path / "m.db", synchronous="SOMETIMES")


def test_a_transaction_that_fails_writes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    wrong = Member("g", 1, "h1", delivered=2**64)
    with pytest.raises(StoreError):
        store.write([ALL[1], wrong], [])
    assert store.load(Member) == []
    store.write([ALL[1]], [])
    assert store.load(Member) == [ALL[1]]
    store.close()


def test_a_change_that_fails_leaves_the_book_as_it_was() -> None:
    book = Book(Store())
    for record in ALL:
        book.put(record)
    book.commit()
    before = (dict(book.groups), dict(book.installs), dict(book.members("g")), book.reasons("g"))
    book.put(Member("g", 0, "h0", "127.0.0.9"))
    book.drop(ALL[3])
    book.drop(ALL[0])
    book.put(Member("g", 1, "h1", "127.0.0.8"))
    assert book.draw("uid") == 2
    book.rollback()
    assert (dict(book.groups), dict(book.installs), dict(book.members("g")), book.reasons("g")) == before
    assert book.draw("uid") == 2
    assert (book.has_address("127.0.0.1"), book.has_address("127.0.0.9")) == (True, False)
    assert [install.key for install in book.of_engine("s0")] == [(4, "s0", 1)]
    assert list(book.open["s0"]) == [(4, "s0", 1)]


def test_after_the_store_failed_the_manager_refuses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    assert world.core is not None
    core = world.core

    def full(*args: object) -> None:
        raise StoreError("store m.db: database or disk is full")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(StoreError):
        core.create_group(request("h0"), now=0.1)
    assert core.take_calls() == []
    with pytest.raises(Exception, match="disk is full") as caught:
        core.poll(0.2)
    assert getattr(caught.value, "reason", "") == "stopping"


WRITER = """
import sys
from epic_host.manager.records import Counter, Member
from epic_host.manager.store import Store
store = Store(sys.argv[1], synchronous="NORMAL")
print("ready", flush=True)
n = 0
while True:
    n += 1
    store.write([Counter("n", n), Member("g", 0, "h", delivered=n), Member("g", 1, "h", delivered=n)], [])
"""


def test_kill_9_at_any_moment_leaves_whole_transactions(tmp_path: Path) -> None:
    last = 0
    for delay in (0.0, 0.05, 0.11):
        path = tmp_path / "m.db"
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        store = Store(path)
        counters = {counter.value for counter in store.load(Counter)}
        delivered = {member.delivered for member in store.load(Member)}
        assert counters == delivered
        last = max(last, *counters, 0)
        store.write([], [(Counter, ("n",))] + [(Member, ("g", r)) for r in (0, 1)])
        store.close()
    assert last > 0
