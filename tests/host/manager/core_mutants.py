"""Planted faults of the manager's core and of the engines' fence, named as the guards of tla/Manager.tla and
Failover.tla.

Each names the invariant or promise that it breaks, the scenario that must see it, and how it is planted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from epic_host.control.fence import Fence
from epic_host.manager import groups as groups_module
from epic_host.manager.book import Book
from epic_host.manager.core import Core
from epic_host.manager.deadlines import Deadlines
from epic_host.manager.engines import Engines
from epic_host.manager.fleet import Fleet
from epic_host.manager.groups import Groups
from epic_host.manager.leases import Leases
from epic_host.manager.outbox import Outbox
from epic_host.manager.placing import Placing
from epic_host.manager.records import FREEING, Install
from epic_host.manager.settings import Settings
from epic_host.manager.state import State
from epic_host.manager.store import Store
from epic_host.manager.tokens import Secrets
from host.manager.core_world import (
    CrashingStore,
    Faults,
    Violation,
    World,
    distinct_qpns,
    make_fabric,
    request,
)
from host.manager.test_crash import goes_on, life, new_world

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (what is broken, scenario that must fail, how)
MUTANTS: dict[str, tuple[str, Callable[[], None], Patch]] = {}


def mutant(name: str, breaks: str, scenario: Callable[[], None], patch: Patch) -> None:
    MUTANTS[name] = (breaks, scenario, patch)


def attribute(target: Any, name: str, value: Any) -> Patch:
    """Replace an attribute of a class or module."""
    return lambda: mock.patch.object(target, name, value)


def several(*patches: Patch) -> Patch:
    """All of them."""

    def together() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for patch in patches:
            stack.enter_context(patch())
        return stack

    return together


# ----------------------------------------------------------------------------------------------- scenarios


def whole_life() -> None:
    """Two groups, a lost engine, an upgrade, the end."""
    life(new_world())


def lossy_life() -> None:
    """The same while calls are lost."""
    life(new_world(1, Faults(lost=0.1)))


def sharing() -> None:
    """Three groups want the one place of an engine."""
    world = World(make_fabric(shares=1))
    for i in range(3):
        world.start_group("h0", "h1", name=f"g{i}")
    world.run(2.0)
    assert sorted(g.path for g in world.book.groups.values()) == ["host", "host", "network"]


def killed_at_writes() -> None:
    """The manager is killed at the first writes, one life each."""
    for write in range(7, 14):
        world = new_world()
        assert isinstance(world.store, CrashingStore)
        world.store.crash_at = write
        life(world)


def manager_restarts() -> None:
    """The manager is killed while a group runs."""
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    world.kill_manager()
    world.run(1.0)
    goes_on(world, members)


def killed_rank() -> None:
    """A rank is killed: the other knows within the lease, and nothing is left."""
    world = World(settings=Settings(quarantine=1.0))
    members = world.start_group("h0", "h1")
    world.run(1.0)
    members[1].alive = False
    world.until(lambda: members[0].lost == (1,), 4.0, "Lost")
    world.run(8.0)
    world.check_nothing_left()


def running_long() -> None:
    """A group runs for many leases."""
    world = World()
    members = world.start_group("h0", "h1", "h2", lease=1.0)
    world.run(8.0)
    goes_on(world, members)


def late_install() -> None:
    """An install arrives long after its lease has ended and its slots were given to others."""
    world = World(settings=Settings(install_timeout=0.5, call_timeout=0.3, quarantine=1.0), faults=Faults())
    held: list[Any] = []

    def hold(call: Any) -> bool:
        if call.kind == "install" and not held:
            # On its way, and the answer to nobody's surprise is not there in time.
            held.append(call)
            return True
        return call.kind == "install" and call.number == held[0].number if held else False

    world.run(0.5)
    world.on_call = hold
    name, token = world.create(request("h0", "h1"))  # type: ignore[misc]
    for rank in (0, 1):
        world.spawn(name, rank, token)
    world.run(0.2)
    assert len(held) == 1
    world.ask(lambda core: core.destroy(name, token, now=world.now))
    world.run(2.0)
    world._arrive(held[0], -1)
    world.run(6.0)
    world.check_nothing_left()


def late_install_unremoved() -> None:
    """The same, and no removal has been carried out when it arrives: absence alone does not say that it will not
    come.
    """
    world = World(settings=Settings(quarantine=1.0))
    held: list[Any] = []

    def hold(call: Any) -> bool:
        if call.kind == "install":
            held.append(call)
        return call.kind in ("install", "remove")

    world.run(0.5)
    world.on_call = hold
    name, token = world.create(request("h0", "h1"))  # type: ignore[misc]
    for rank in (0, 1):
        world.spawn(name, rank, token)
    world.run(0.2)
    world.ask(lambda core: core.destroy(name, token, now=world.now))
    world.run(2.0)
    world._arrive(held[0], -1)
    world.on_call = None
    world.run(6.0)
    world.check_nothing_left()


def late_removal() -> None:
    """A removal of epoch 1 is carried out a second time when epoch 2 is in force on the same engine."""
    world = World()
    held: list[Any] = []

    def hold(call: Any) -> bool:
        if call.kind == "remove" and call.epoch == 1:
            held.append(call)
        return False

    members = world.start_group("h0", "h1")
    world.run(1.0)
    world.on_call = hold
    world.ask(lambda core: core.set_usable(engine="s0", usable=False, now=world.now))
    world.run(1.0)
    world.ask(lambda core: core.set_usable(engine="s0", usable=True, now=world.now))
    world.until(lambda: all(m.epoch == 3 for m in members), 3.0, "epoch 3")
    assert members[0].grant is not None
    assert members[0].grant.trees[0].params.group == held[0].number
    world._arrive(held[0], -1)
    goes_on(world, members)


def restart_between_looks() -> None:
    """An engine's process ends and another one is there before anybody has looked."""
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    world.crash_engine("s0", down=0.0)
    world.run(2.0)
    goes_on(world, members)


def install_for_a_dead_process() -> None:
    """An engine restarts, and an install that was meant for the process before comes to the new one."""
    world = World(settings=Settings(quarantine=1.0))
    held: list[Any] = []

    def hold(call: Any) -> bool:
        if call.kind == "install":
            held.append(call)
        return False

    world.on_call = hold
    members = world.start_group("h0", "h1")
    world.run(1.0)
    for member in members:
        world.leave(member)
    world.run(1.0)
    world.crash_engine("s0", down=0.0)
    world.run(0.01)
    world._arrive(held[0], -1)


def strangers() -> None:
    """Entries of a manager whose store is gone."""
    world = World()
    world.start_group("h0", "h1")
    world.run(1.0)
    other = World(seed=1)
    other.engines = world.engines
    with mock.patch.object(other, "check", lambda: None):
        other.run(1.0)
    assert not world.engines["s0"].entries()


def new_qpns() -> None:
    """Every epoch has QPNs that the one before had not."""
    world = World(make_fabric("spine"))
    members = world.start_group("h0", "h3")
    world.run(1.0)
    for _ in range(3):
        assert members[0].grant is not None
        world.crash_engine(members[0].grant.trees[0].root, down=1.0)
        world.run(4.0)
    assert len(members[0].history) >= 4
    assert distinct_qpns(members[0].history)


def addresses() -> None:
    """Members come and go on a small pool."""
    world = World(make_fabric(pool=3), settings=Settings(quarantine=3.0))
    first = world.start_group("h0", "h1")
    second = world.start_group("h0", "h1", name="b")
    world.run(1.0)
    used = {m.joined.address for m in first if m.joined}
    assert used.isdisjoint({m.joined.address for m in second if m.joined})
    for member in first:
        world.leave(member)
    world.run(0.1)
    third = world.start_group("h0", "h1", name="c")
    world.run(0.5)
    assert used.isdisjoint({m.joined.address for m in third if m.joined})


def survivors() -> None:
    """All survivors become the same group."""
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(1.0)
    members[2].alive = False
    world.until(lambda: members[0].lost == (2,) and members[1].lost == (2,), 4.0, "Lost")
    answers = set()
    for member in members[:2]:
        joined = member.joined
        assert joined is not None
        made = world.ask(
            lambda core, m=member, j=joined: core.shrink("g", m.rank, j.token, now=world.now)  # type: ignore[misc]
        )
        answers.add((made.group, made.join_token, made.survivors))
    assert len(answers) == 1


def stranger_joins() -> None:
    """A token that is not the group's."""
    world = World()
    name, _ = world.create(request("h0", "h1"))  # type: ignore[misc]
    member = world.spawn(name, 0, "0" * 32)
    world.run(0.5)
    assert member.joined is None


def stalled_manager() -> None:
    """The manager does not run for longer than leases last."""
    world = World()
    members = world.start_group("h0", "h1", lease=1.0)
    world.run(2.0)
    world.now += 5.0
    world.ask(lambda core: core.poll(world.now))
    world.run(1.0)
    assert all(member.running for member in members)


def dead_engine() -> None:
    """An engine dies with a group on it and on others: the others' slots are free for the next group at once."""
    world = World(make_fabric("spine", shares=1, hosts=2))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(1.0)
    assert members[0].grant is not None
    world.crash_engine(members[0].grant.trees[0].root, down=-1)
    world.run(3.0)
    assert [m.epoch for m in members] == [2] * 4
    assert world.group("g").path == "network"


# ------------------------------------------------------------------------------------------------- mutants


def _see_all(self: Groups, group: Any, now: float) -> bool:
    state = self._state
    for install in state.book.wanted(group.name):
        state.seen.setdefault(install.key, (state.fleet.engines[install.engine].instance, 0))
    return _ACTIVATE(self, group, now)


_ACTIVATE = Groups._activate


def _free_at_once(self: Groups, group: Any) -> None:
    for install in self._state.book.wanted(group.name):
        self._state.release(install)


def _absent_is_removed(
    self: Engines, install: Install, listed: Any, entries: Any, call: int, now: float
) -> None:
    if install.step == FREEING and (install.number, install.epoch) not in entries:
        self._state.release(install)
        return
    _COMPARE_ONE(self, install, listed, entries, call, now)


_COMPARE_ONE = Engines._compare_one


def _call_once(self: Outbox, purpose: Any, *args: Any, **options: Any) -> bool:
    called: set[Any] = self.__dict__.setdefault("called", set())
    if purpose in called and purpose[1] in ("install", "remove"):
        return False
    called.add(purpose)
    return _MAKE(self, purpose, *args, **options)


_MAKE = Outbox.make


def _forgetful(self: Store, puts: Any, drops: Any) -> None:
    _WRITE(self, [record for record in puts if not isinstance(record, Install)], drops)


_WRITE = Store.write


def _release_first(self: Core) -> None:
    self._release()
    _STORE(self)


_STORE = Core._store


def _short(self: Leases, group: str, rank: int, lease: float, now: float) -> Any:
    return _RENEW(self, group, rank, lease / 4, now)


_RENEW = Leases.renew


def _only_answer(self: Core, group: Any, rank: int, now: float, beat: Any = None) -> bool:
    return True if beat is not None else _CORE_RENEW(self, group, rank, now, beat)


_CORE_RENEW = Core._renew


def _remove_any(self: Fence, group: int, epoch: int | None = None) -> None:
    if epoch is not None:
        self._remember(group, epoch)
    if group in self._engine.groups():
        self._engine.remove(group)


def _any_instance(self: Fence, entry: Any, instance: str = "") -> None:
    _INSTALL(self, entry, self.instance)


_INSTALL = Fence.install


def _foremost(self: Groups, group: Any, now: float) -> bool:
    with mock.patch.object(groups_module, "min", max, create=True):
        return _ACTIVATE(self, group, now)


def _hasty(self: Groups, group: Any, now: float) -> bool:
    for member in self._state.book.members(group.name).values():
        self._state.book.put(replace(member, reported=group.epoch))
    return _ACTIVATE(self, group, now)


def _no_strays(self: Engines, view: Any, listed: Any, call_id: int, now: float) -> None:
    known = {(i.number, i.epoch) for i in self._state.book.of_engine(view.name)}
    entries = tuple(entry for entry in listed.entries if entry in known)
    _COMPARE(self, view, replace(listed, entries=entries), call_id, now)


_COMPARE = Engines._compare


def _dismiss(self: State, member: Any, now: float) -> Any:
    return replace(member, address="")


def _succeed(self: Core, group: Any, now: float) -> Any:
    made = _SUCCEED(self, group, now)
    self._state.book.put(group)
    return made


_SUCCEED = Core._succeed


def _whole_tree(self: State, install: Install) -> None:
    """A lease is one thing: no engine is free before all are."""
    others = [
        i for i in self.book.of_group(install.group) if i.key != install.key and i.number == install.number
    ]
    if any(i.key not in self.seen and i.step == FREEING for i in others) and install.group:
        self.seen[install.key] = ("", 0)
        return
    _RELEASE(self, install)


_RELEASE = State.release


def fill() -> None:
    nothing = lambda *args, **options: None  # noqa: E731
    mutant("admission", "NotTwice", sharing, attribute(Placing, "take", nothing))
    mutant("all_installed", "HolderHas", whole_life, attribute(Groups, "_activate", _see_all))
    mutant("all_removed", "FreeIsFree", whole_life, attribute(Groups, "_take_back", _free_at_once))
    mutant(
        "see_removal",
        "FreeIsFree",
        late_install_unremoved,
        attribute(Engines, "_compare_one", _absent_is_removed),
    )
    mutant("fence", "FreeIsFree", late_install, attribute(Fence, "_remember", nothing))
    mutant("remove_epoch", "HolderHas", late_removal, attribute(Fence, "remove", _remove_any))
    mutant("instance", "FreeIsFree", install_for_a_dead_process, attribute(Fence, "install", _any_instance))
    mutant("call_again", "FreeingEnds", lossy_life, attribute(Outbox, "make", _call_once))
    mutant("durable", "FreeIsFree", manager_restarts, attribute(Store, "write", _forgetful))
    mutant("store_first", "FreeIsFree", killed_at_writes, attribute(Core, "_store", _release_first))
    mutant("expire", "ExpiredIsFreed", killed_rank, attribute(Deadlines, "_member_silent", nothing))
    mutant("expired", "LeaseOrder", running_long, attribute(Leases, "renew", _short))
    mutant("renew_stored", "LeaseOrder", running_long, attribute(Core, "_renew", _only_answer))
    mutant("lost", "LostIsFreed", restart_between_looks, attribute(Groups, "part_lost", nothing))
    mutant("engine_lost", "LostIsFreed", dead_engine, attribute(Fleet, "failed", lambda self, name: False))
    mutant(
        "each_engine",
        "a dead engine holds the others' slots",
        dead_engine,
        attribute(State, "release", _whole_tree),
    )
    mutant("lowest", "ResumeInReach", whole_life, attribute(Groups, "_activate", _foremost))
    mutant("agree", "ResumeInReach", running_long_changes, attribute(Groups, "_activate", _hasty))
    mutant("strays", "entries nobody knows", strangers, attribute(Engines, "_compare", _no_strays))
    mutant(
        "new_qpns",
        "EPIC-F-05",
        new_qpns,
        several(
            attribute(Secrets, "seed", lambda self, *purpose: 7),
            attribute(Groups, "_qpns_in_use", lambda self, group, engines: set()),
        ),
    )
    mutant(
        "address",
        "two members with one address",
        addresses,
        attribute(Book, "has_address", lambda self, a: False),
    )
    mutant(
        "quarantine",
        "an address that was given up a moment ago",
        addresses,
        attribute(State, "dismiss", _dismiss),
    )
    mutant("one_successor", "shrink", survivors, attribute(Core, "_succeed", _succeed))
    mutant("forgive", "a stalled manager", stalled_manager, attribute(Core, "_forgive", nothing))
    mutant("token", "who may join", stranger_joins, attribute(Secrets, "is_token", lambda self, *shown: True))
    mutant(
        "restart_leases", "leases begin anew", manager_is_away, attribute(Core, "_resume_group", _no_leases)
    )


def running_long_changes() -> None:
    """Epochs change while ranks are far ahead of what they reported last."""
    world = World()
    members = world.start_group("h0", "h1", "h2")
    for _ in range(3):
        world.run(12.0)
        world.crash_engine("s0", down=0.5)
        world.run(3.0)
    goes_on(world, members)


def manager_is_away() -> None:
    """For longer than leases last."""
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    world.kill_manager(6.0)
    world.run(3.0)
    members[1].alive = False
    world.run(3.0)
    world.until(lambda: members[0].lost == (1,), 5.0, "Lost")


def _no_leases(self: Core, group: Any, now: float) -> None:
    self._state.touched.add(group.name)


fill()
__all__ = ["MUTANTS", "Violation"]
