"""What stands between the control service and an engine: calls that come late change nothing (tla/Manager.tla).

A client repeats a call whose answer it did not get, and a call may be carried out long after that. So an engine
remembers the newest epoch of each group that it was told to remove and refuses installs up to it, and a removal of an
epoch leaves a later one alone. It forgets only when its process ends; then `instance` is another one, and installs
that were meant for the one before are refused.

The memory is bounded: of more than `limit` numbers the ones least recently used are forgotten, and the largest number
that was forgotten takes their place: managed installs of numbers up to it are refused, but of those still remembered.
So nothing that was refused can ever be accepted again; a manager that is told `fenced` draws a number above `highest`.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError

# Numbers remembered: some 2 MB.
LIMIT: Final = 16384


class AlreadyInstalledError(ConfigError):
    """The group number is in use."""


class NotInstalledError(ConfigError):
    """No such group."""


class FencedError(ConfigError):
    """The epoch, or a later one, was removed before, or the number is too old to know."""


class OtherInstanceError(ConfigError):
    """The call was meant for an engine process that has ended."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is installed: (group, epoch) each. `highest`: the largest number that was ever installed for an instance,
    or -1.
    """

    name: str
    engine: str
    instance: str
    entries: tuple[tuple[int, int], ...]
    highest: int


class FencedEngine(Protocol):
    """What a fence needs of an engine."""

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError."""

    def remove(self, group: int) -> None:
        """Remove a group."""

    def status(self, group: int) -> GroupStatus:
        """State of a group."""


class Fence:
    """In front of one engine; used in the thread of the engine's loop."""

    def __init__(
        self,
        engine: FencedEngine,
        limit: int = LIMIT,
        make_instance: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._engine = engine
        self._limit = limit
        self.instance: Final = make_instance()
        # Newest epoch removed, by group number; the least recently used number first.
        self._removed: OrderedDict[int, int] = OrderedDict()
        # Epochs of what was installed by way of this fence: asking a device for a whole status may be slow.
        self._epochs: dict[int, int] = {}
        self._forgotten = -1
        self.highest = -1

    def install(self, entry: EngineGroup, instance: str = "") -> None:
        """Install a group; `instance` is the engine process that it is meant for, "" for any.

        Raises OtherInstanceError, AlreadyInstalledError, FencedError, or what the engine raises.
        """
        group, epoch = entry.params.group, entry.params.epoch
        if instance and instance != self.instance:
            raise OtherInstanceError(
                f"group {group}: meant for engine instance {instance}, this is {self.instance}"
            )
        if group in self._engine.groups():
            raise AlreadyInstalledError(
                f"group {group}: already installed, expected a group number that is free"
            )
        newest = self._removed.get(group)
        if newest is not None and epoch <= newest:
            raise FencedError(
                f"group {group}: epoch = {epoch}, expected one after {newest}, which was removed"
            )
        if instance:
            if newest is None and group <= self._forgotten:
                raise FencedError(f"group {group}: too old, expected a number above {self._forgotten}")
            self.highest = max(self.highest, group)
        self._engine.install(entry)
        self._epochs[group] = epoch
        if newest is not None:
            self._removed.move_to_end(group)

    def remove(self, group: int, epoch: int | None = None) -> None:
        """Remove a group. With an epoch: that one and all before it, for good, whether installed or not.

        Raises NotInstalledError when no epoch is given and there is no such group, or what the engine raises.
        """
        if epoch is None:
            if group not in self._engine.groups():
                raise NotInstalledError(
                    f"group {group}: not installed, expected one of {sorted(self._engine.groups())}"
                )
            self._engine.remove(group)
            self._epochs.pop(group, None)
            return
        # First: should the engine fail, a late install is refused all the same.
        self._remember(group, epoch)
        if group in self._engine.groups() and self._epoch(group) <= epoch:
            self._engine.remove(group)
            self._epochs.pop(group, None)

    def installed(self) -> list[tuple[int, int]]:
        """Group and epoch of what is installed, by number."""
        return [(group, self._epoch(group)) for group in sorted(self._engine.groups())]

    def _epoch(self, group: int) -> int:
        return self._epochs[group] if group in self._epochs else self._engine.status(group).epoch

    def _remember(self, group: int, epoch: int) -> None:
        # Of a number that was forgotten an epoch after this one may have been removed: it stays among the refused.
        if group <= self._forgotten and group not in self._removed:
            return
        self._removed[group] = max(epoch, self._removed.get(group, epoch))
        self._removed.move_to_end(group)
        while len(self._removed) > self._limit:
            self._forgotten = max(self._forgotten, self._removed.popitem(last=False)[0])
