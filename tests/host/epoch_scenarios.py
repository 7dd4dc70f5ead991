"""Changes of epoch, each where something could go wrong, and the faults that must be seen there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from epic_host.epoch_agent import EpochAgent
from epic_host.history import History
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Output
from epic_spec.errors import MismatchError
from host.epoch_worlds import EpochWorld, params
from models.worlds import Collective

REDUCED = [Collective("all_reduce", count=100, in_place=True, seed=seed) for seed in range(4)]


LONG = [Collective("all_reduce", count=600, in_place=True, seed=seed) for seed in range(3)]


def apart(mode: int = 3, window: int = 4, paths: tuple[str, str] = ("a", "b")) -> None:
    """Rank 0 has W results that rank 1 lacks, all written over what rank 0 had contributed."""
    world = EpochWorld(params(2, mode, window))
    world.call(*REDUCED)
    world.net.deaf = {1}
    world.begin_epoch(paths[0])
    assert not world.run(0.01)
    assert [world.agents[r].delivered for r in world.ranks] == [window, 0]
    assert [world.agents[r].contributed for r in world.ranks] == [2 * window, window]
    world.net.deaf = set()
    world.begin_epoch(paths[1])
    world.settle()
    assert [world.agents[r].dropped for r in world.ranks] == [window, 0]
    assert [world.agents[r].repeated for r in world.ranks] == [2 * window, window]


def apart_and_to_the_hosts() -> None:
    """The same, from a tree to the host path, from there to itself again, and back."""
    for paths in (("a", "host"), ("host", "host"), ("host", "a")):
        apart(paths=paths)


def apart_again() -> None:
    """Again and again: the results of an epoch never reach rank 1, which has nothing new in it."""
    world = EpochWorld(params(3))
    world.call(*REDUCED)
    for path in "abcab":
        world.net.deaf = {1}
        world.begin_epoch(path)
        assert not world.run(0.01)
        world.net.deaf = {0, 2}
        world.begin_epoch(path)
        assert not world.run(0.01)
    world.net.deaf = set()
    world.begin_epoch("a")
    world.settle()


def wider_and_narrower() -> None:
    """The window is another one in every epoch, in each of which one rank receives nothing."""
    world = EpochWorld(params(2, window=8))
    world.call(*REDUCED)
    for window, deaf in ((8, 1), (2, 0), (1, 1), (4, 0), (2, 1)):
        world.net.deaf = {deaf}
        world.begin_epoch("a", window=window)
        assert not world.run(0.01)
    world.net.deaf = set()
    world.begin_epoch("b", window=8)
    world.settle()


def at_every_step(mode: int = 3) -> None:
    """The change falls between any two steps of the network."""
    for steps in range(0, 60, 1):
        world = EpochWorld(params(2, mode, window=2), seed=steps)
        world.call(REDUCED[0])
        world.begin_epoch("a")
        if world.run(1.0, steps=steps):
            return
        world.begin_epoch("b", spread=3e-5)
        world.settle()


def changed_again_before_all_know() -> None:
    """An epoch ends before some have heard of it, others have their grant."""
    for seed in range(6):
        world = EpochWorld(params(3), seed=seed)
        world.call(*LONG)
        world.begin_epoch("a")
        for path in "babc":
            assert not world.run(2e-4)
            world.begin_epoch(path, spread=3e-4)
        world.settle()


def old_engines_go_on() -> None:
    """Nobody removes an epoch that is over: its engines go on sending, and its packets are still on their way."""
    for seed in range(4):
        world = EpochWorld(params(3), seed=seed, forget=False)
        world.call(*LONG)
        world.begin_epoch("a")
        for _ in range(4):
            assert not world.run(1e-4)
            world.begin_epoch("a", spread=5e-5)
        world.settle()


def told_twice() -> None:
    """A rank whose connection to the manager broke hears of the same epoch again, before and after it has resumed."""
    world = EpochWorld(params(2))
    world.call(*LONG)
    world.begin_epoch("a")
    assert not world.run(1e-4)
    own = world.agents[0]
    world.begin_epoch("b", spread=1e-5)
    while own.epoch != 1:
        assert not world.run(1e-6)
    assert own.agent is not None or own.prepare(1) == own.delivered
    assert not world.run(1e-4)
    assert own.agent is not None
    before = own.delivered
    assert own.prepare(1) is None
    assert own.prepare(0) is None
    assert own.delivered == before
    world.settle()


def modes_change() -> None:
    """Every path has a mode of its own."""
    for seed in range(3):
        world = EpochWorld(params(3), seed=seed)
        world.modes = {"a": 3, "b": 2, "c": 1}
        world.call(*LONG)
        world.begin_epoch("a")
        for path in "bcab":
            assert not world.run(2e-4)
            world.begin_epoch(path, spread=1e-4)
        world.settle()


def error_before_the_change() -> None:
    """Rank 0 has the error of a cell; the ranks that lack it get it in the next epoch (P7), and rank 0 keeps it."""
    world = EpochWorld(params(3))
    world.call(REDUCED[0])
    odd = Collective("all_reduce", count=20)
    from models.worlds import Expectation

    for rank, member in enumerate(world.members):
        wrong = Collective("all_reduce", count=20, operator="MAX") if rank == 2 else odd
        member.call(Expectation(wrong, world.params, 1).operations[rank])
    world.begin_epoch("a")
    while world.agents[0].contributed < 8:
        assert not world.run(1e-5)
    world.net.deaf = {1, 2}
    assert not world.run(0.01)
    assert isinstance(world.members[0].error, MismatchError)
    assert world.members[1].error is None
    world.net.deaf = set()
    world.begin_epoch("b")
    assert world.run(1.0)
    for member in world.members:
        assert isinstance(member.error, MismatchError), member.error
        assert "ranks disagree" in str(member.error)


SCENARIOS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        apart, apart_and_to_the_hosts, apart_again, wider_and_narrower,
        at_every_step, changed_again_before_all_know, old_engines_go_on,
        told_twice, modes_change, error_before_the_change,
    )
}  # fmt: skip

# --------------------------------------------------------------------------------------------------- mutants

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (scenario that must fail, how). Those of tla/MUTF_*.cfg have its names.
MUTANTS: dict[str, tuple[str, Patch]] = {}


def mutant(name: str, scenario: str, target: Any, attribute: str, value: Any) -> None:
    MUTANTS[name] = (scenario, lambda: mock.patch.object(target, attribute, value))


_DELIVERED, _RESUME, _PREPARE = History.delivered, EpochAgent.resume, EpochAgent.prepare
_TRANSLATE, _ROOM, _FOLLOW = EpochAgent._translate, EpochAgent.room, EpochAgent._follow


def _keeps_one_less(self: History, count: int) -> None:
    _DELIVERED(self, count + 1 if self.keep else count)


def _resumes_where_it_is(
    self: EpochAgent, epoch: int, agent: Any, base: int, window: int, now: float
) -> Output:
    return _RESUME(self, epoch, agent, self.delivered, window, now)


def _counts_all_epochs(
    self: EpochAgent, epoch: int, agent: Any, base: int, window: int, now: float
) -> Output:
    """Its window counts results of the group, not of the epoch."""
    agent.room = lambda: max(0, self.delivered + window - self._sent)
    return _RESUME(self, epoch, agent, base, window, now)


def _delivers_twice(self: EpochAgent, events: Any) -> list[Any]:
    for event in events:
        if isinstance(event, CellDelivered | CellFailed):
            self.delivered = min(self.delivered, self._base + event.cell)
    return _TRANSLATE(self, events)


def _hears_old_epochs(self: EpochAgent, epoch: int) -> int | None:
    """Reports, and goes on with the old path until the new one is there."""
    if epoch <= self.epoch:
        return None
    self.epoch = epoch
    return self.delivered


def _leaves_late(self: EpochAgent, *arguments: Any) -> Output:
    self._retire()
    return _RESUME(self, *arguments)


@contextmanager
def _late() -> Iterator[None]:
    with (
        mock.patch.object(EpochAgent, "prepare", _hears_old_epochs),
        mock.patch.object(EpochAgent, "resume", _leaves_late),
    ):
        yield


def _numbers_of_the_epoch(self: EpochAgent, events: Any) -> list[Any]:
    base, self._base = self._base, 0
    kept = _TRANSLATE(self, events)
    self._base = base
    return kept


def _starts_again(self: EpochAgent, epoch: int) -> int | None:
    """Takes an epoch that it is told of again for a new one."""
    if epoch < self.epoch:
        return None
    self.epoch = epoch
    self._retire()
    return self.delivered


def _stops_at_an_error(
    self: EpochAgent, epoch: int, agent: Any, base: int, window: int, now: float
) -> Output:
    """A rank that has an error contributes nothing again."""
    if not getattr(self, "failed", False):
        return _RESUME(self, epoch, agent, base, window, now)
    self.epoch, self._agent, self._base, self._sent = epoch, agent, base, self.contributed
    return Output()


def _notes_errors(self: EpochAgent, events: Any) -> list[Any]:
    self.failed = any(isinstance(e, CellFailed) for e in events) or getattr(self, "failed", False)  # type: ignore[attr-defined]
    return _TRANSLATE(self, events)


@contextmanager
def _failed_is_gone() -> Iterator[None]:
    with (
        mock.patch.object(EpochAgent, "resume", _stops_at_an_error),
        mock.patch.object(EpochAgent, "_translate", _notes_errors),
    ):
        yield


def _empty_handed(self: EpochAgent, epoch: int, agent: Any, base: int, window: int, now: float) -> Output:
    """Contributes NULL cells in place of what it has delivered."""
    cells, first = self._history._cells, self._history.first
    for number in range(first, self.delivered):
        cells[number - first] = Cell(cells[number - first].imm, bytes(4))
    return _RESUME(self, epoch, agent, base, window, now)


mutant("keep", "apart", History, "delivered", _keeps_one_less)
mutant("agree", "apart", EpochAgent, "resume", _resumes_where_it_is)
mutant("lowest", "apart", EpochWorld, "base", staticmethod(lambda reports: max(reports.values())))
mutant("epoch_clock", "apart", EpochAgent, "resume", _counts_all_epochs)
mutant("once", "apart", EpochAgent, "_translate", _delivers_twice)
MUTANTS["epoch_at_rank"] = ("changed_again_before_all_know", _late)
mutant("numbers", "changed_again_before_all_know", EpochAgent, "_translate", _numbers_of_the_epoch)
mutant("told_twice", "told_twice", EpochAgent, "prepare", _starts_again)
mutant(
    "repeats_once", "apart", EpochAgent, "_follow", lambda self, output, now: _only_translate(self, output)
)
MUTANTS["failed_is_gone"] = ("error_before_the_change", _failed_is_gone)
mutant("unlike_before", "apart", EpochAgent, "resume", _empty_handed)


def _only_translate(self: EpochAgent, output: Output) -> Output:
    output.events = self._translate(output.events)
    return output
