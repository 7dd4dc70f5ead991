"""Somebody is killed at every point of a whole life: at each write of the store, before and after it, and at each
event.

The life has two groups, one of which has to wait for the other's slots, an engine that is lost, the network given up to
the one that waited, and the end. Whatever is killed, the invariants hold throughout, the groups go on, and nothing is
left.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from epic_host.manager.core import Core
from epic_host.manager.effects import Lost
from epic_host.manager.settings import Settings
from epic_host.manager.store import Store
from host.manager.chaos import Monkey
from host.manager.core_world import CrashingStore, Faults, SimMember, Violation, World, make_fabric, request

EXAMPLES = int(os.environ.get("EPIC_EXAMPLES", "1"))


def goes_on(world: World, members: list[SimMember]) -> None:
    """All are there, in the same epoch, and deliver."""
    before = [member.delivered for member in members]

    def delivering() -> bool:
        return all(m.delivered > b and m.grant for m, b in zip(members, before, strict=True))

    world.until(
        delivering, 12.0, f"progress of {members[0].group} ({[m.refused or m.lost for m in members]})"
    )
    assert len({member.epoch for member in members}) == 1


def life(world: World) -> None:
    """The whole life. Raises Violation or AssertionError."""
    first = world.start_group("h0", "h1", "h2", "h3", name="a")
    second = world.start_group("h0", "h1", name="b")
    goes_on(world, first)
    goes_on(world, second)
    root = first[0].grant.trees[0].root if first[0].grant and first[0].grant.trees else "p0"
    world.crash_engine(root, down=1.0)
    world.run(1.2)
    goes_on(world, first)
    for member in first:
        world.leave(member)
    world.run(0.5)
    goes_on(world, second)
    world.until(lambda: bool(second[0].grant and second[0].grant.trees), 12.0, "the network for b")
    goes_on(world, second)
    for member in second:
        world.leave(member)
    world.run(1.0)
    watchdog, world.watchdog = world.watchdog, None
    world.run(5.0)
    world.watchdog = watchdog
    world.check_nothing_left()


def new_world(seed: int = 0, faults: Faults | None = None) -> World:
    settings = Settings(quarantine=1.0)
    return World(
        make_fabric("spine", hosts=2, shares=1, pool=20), seed=seed, faults=faults, settings=settings
    )


def test_the_life_without_a_crash() -> None:
    world = new_world()
    life(world)
    assert world.crashes == 0
    assert {"network/granted", "none/engine_lost", "none/upgraded", "network/upgraded"} <= {
        f"{d.path.value}/{d.reason.value}" for d in world.decisions
    }


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_manager_is_killed_at_every_write_of_its_store(after: bool) -> None:
    write = 0
    while True:
        write += 1
        world = new_world()
        assert isinstance(world.store, CrashingStore)
        world.store.crash_at, world.store.after = write, after
        try:
            life(world)
        except (Violation, AssertionError) as error:
            raise AssertionError(f"killed {'after' if after else 'before'} write {write}: {error}") from error
        if not world.crashes:
            break
    assert write > 30


def killed_at_every_event(kill: Callable[[World, random.Random], None], stride: int) -> int:
    """The life again and again, with one kill at the first, the second, … event. How many lives that were."""
    lives, event = 0, 0
    while True:
        world = new_world()
        world.watchdog = (event, lambda world=world, event=event: kill(world, random.Random(event)))
        try:
            life(world)
        except (Violation, AssertionError) as error:
            raise AssertionError(f"killed at event {event}: {error}") from error
        lives += 1
        if world.watchdog is not None:
            return lives
        event += stride


def kill_manager(world: World, rng: random.Random) -> None:
    if world.core is not None:
        world.kill_manager(rng.choice([0.0, 0.2, 1.5]))


def kill_engine(world: World, rng: random.Random) -> None:
    world.crash_engine(rng.choice(sorted(world.engines)), rng.choice([0.0, 0.3, 1.5]))


def kill_both(world: World, rng: random.Random) -> None:
    kill_engine(world, rng)
    kill_manager(world, rng)


@pytest.mark.parametrize("kill", [kill_manager, kill_engine, kill_both])
def test_somebody_is_killed_at_every_event(kill: Callable[[World, random.Random], None]) -> None:
    assert killed_at_every_event(kill, 1 if EXAMPLES > 1 else 16) >= 18


def test_a_rank_that_is_killed_at_any_event_is_named_to_the_others_and_all_it_had_is_freed() -> None:
    event, stride = 0, 1 if EXAMPLES > 1 else 7
    while True:
        world = new_world()
        name, token = world.create(request("h0", "h1", "h2", lease=1.0))  # type: ignore[misc]
        members = [world.spawn(name, rank, token) for rank in range(3)]
        killed = members[event // stride % 3]

        def kill(killed: SimMember = killed) -> None:
            killed.alive = False

        world.watchdog = (event, kill)
        world.run(3.0)
        if world.watchdog is not None:
            break
        others = [m for m in members if m is not killed]
        world.until(
            lambda others=others: not any(m.running for m in others), 8.0, f"killed at event {event}: word"
        )  # type: ignore[misc]
        first = next((event.ranks for event in world.events if isinstance(event, Lost)), None)
        missing = [
            f"{killed.rank} on" in world.group(name).text for m in others if m.ended == "members_missing"
        ]
        assert first == (killed.rank,) or missing == [True, True], (event, first, missing)
        world.run(7.0)
        for member in others:
            member.alive = False
        world.run(8.0)
        world.check_nothing_left()
        event += stride
    assert event >= 100


@pytest.mark.parametrize("seed", range(6 * EXAMPLES))
def test_a_monkey_cannot_break_the_invariants(seed: int) -> None:
    try:
        Monkey(seed, shape=["spine", "tree", "single"][seed % 3]).run(40)
    except Violation as error:
        raise AssertionError(f"Monkey({seed}).run(40): {error}") from error


# ---------------------------------------------------------------------------------------- the real database


def copy_of(path: Path, to: Path) -> Path:
    """The files as a killed process leaves them: nothing was closed or checkpointed."""
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            to.with_name(to.name + suffix).write_bytes(source.read_bytes())
    return to


def test_a_copy_of_the_files_at_any_moment_is_the_manager_as_it_was(tmp_path: Path) -> None:
    """With a real file: the state of a reopened copy is that of the manager, write by write."""
    path = tmp_path / "m.db"
    store = Store(path, synchronous="OFF")
    world = World(make_fabric(), store=store)

    def state(core: Core) -> object:
        book = core._state.book
        return (dict(book.groups), dict(book.installs), {g: book.members(g) for (g,) in book.groups})

    commits = 0
    for step in range(12):
        if step == 0:
            members = world.start_group("h0", "h1")
        if step == 6:
            world.crash_engine("s0", down=0.3)
        world.run(0.3 if step else 0.0)
        assert world.core is not None
        copied = Store(copy_of(path, tmp_path / f"copy{step}.db"), synchronous="OFF")
        before = state(world.core)
        again = Core(world.fabric, copied, now=world.now, settings=Settings())
        assert state(again) == before
        copied.close()
        commits += 1
    assert commits == 12
    assert members[0].epoch >= 2
    store.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
