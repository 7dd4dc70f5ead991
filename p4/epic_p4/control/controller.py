"""Installs groups on a switch and reads back what the data plane did: the only part that has state.

controller = GroupController(DirectBackend(switch), ProgramModel.of(schema_of(p4info)))
controller.install(engine_group)
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass

from epic_p4.control.backend import Backend
from epic_p4.control.build import build
from epic_p4.control.description import EdgeLike, GroupLike
from epic_p4.control.entries import Installation, Stage
from epic_p4.control.program import FIRST_CHILDREN, GROUP_TABLES, LAST_CHILDREN, ProgramModel
from epic_p4.control.ranges import Numbers, SlotRanges
from epic_p4.control.readback import SlotReading, read_counters, read_slots
from epic_spec.errors import ConfigError, EpicError, ResourceError

GENERATIONS = 1 << 32


@dataclass(frozen=True, slots=True)
class Reading:
    """What the switch says about a group: its live slots."""

    group: int
    epoch: int
    slots: tuple[SlotReading, ...]


class GroupController:
    """The groups of one switch.

    `first_generation` (1 to 2^32 - 1) should not repeat one that was used on the same running switch not long ago: a
    slot whose owner has the generation of a new group is taken as that group's own. A controller that does not
    outlive its switch can use 1; others give something like the seconds of the clock.
    """

    def __init__(self, backend: Backend, program: ProgramModel, *, first_generation: int = 1) -> None:
        if not 1 <= first_generation < GENERATIONS:
            raise ConfigError(f"first_generation = {first_generation}, expected 1 to {GENERATIONS - 1}")
        self.program = program
        self._backend = backend
        self._generation = first_generation
        self._installed: dict[int, Installation] = {}
        self._slots = SlotRanges(program.cells)
        self._groups = Numbers(1, program.last_group, "group numbers of the switch")
        self._edges = Numbers(1, program.last_edge, "edge numbers of the switch")
        self._multicasts = Numbers(FIRST_CHILDREN, LAST_CHILDREN, "multicast numbers of the switch")

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._installed)

    def installation(self, group: int) -> Installation:
        """What was taken and written for a group. Raises ConfigError when it is not installed."""
        try:
            return self._installed[group]
        except KeyError:
            raise ConfigError(
                f"group {group}: not installed, expected one of {sorted(self._installed)}"
            ) from None

    def install(self, group: GroupLike) -> Installation:
        """Install a group. Raises ConfigError or ResourceError, or what the switch says; nothing has changed then."""
        self._check(group)
        installation = self._take(group)
        written: list[Stage] = []
        try:
            for stage in installation.stages:
                written.append(stage)
                self._backend.write(stage)
        except BaseException:
            self._undo(written)
            self._give_back(installation)
            raise
        self._installed[group.params.group] = installation
        return installation

    def remove(self, group: int) -> None:
        """Remove a group, edges first. Raises ConfigError when it is not installed.

        When the switch fails the group stays installed here, and `remove` can be called again.
        """
        installation = self.installation(group)
        for stage in reversed(installation.stages):
            self._backend.erase(stage)
        del self._installed[group]
        self._give_back(installation)

    def reset(self) -> None:
        """Remove all groups from the switch, also those that another controller left."""
        self._backend.wipe(GROUP_TABLES, range(1, LAST_CHILDREN + 1))
        for installation in self._installed.values():
            self._give_back(installation)
        self._installed.clear()

    def counters(self) -> dict[str, int]:
        """All counters by the names of epic.toml."""
        return read_counters(self._backend, self.program)

    def status(self, group: int) -> Reading:
        """The live slots of a group. Raises ConfigError when it is not installed."""
        installation = self.installation(group)
        slots = read_slots(self._backend, self.program, installation)
        return Reading(group, installation.epoch, slots)

    def _check(self, group: GroupLike) -> None:
        number = group.params.group
        if number in self._installed:
            raise ConfigError(f"group {number}: already installed, expected a group number that is free")
        capabilities = self.program.capabilities
        if len(self._installed) >= capabilities.groups:
            raise ResourceError(f"group {number}: no room, this switch offers {capabilities.groups} groups")
        capabilities.check(group)
        used = {qpn for installation in self._installed.values() for qpn in installation.qpns}
        for edge in edges_of(group):
            qpn = edge.local.qpn
            if qpn in used:
                raise ConfigError(f"group {number}: QPN {qpn:#x} is in use, expected one that is free")
            used.add(qpn)
        for table, needed in self.program.entries_needed(group).items():
            size = self.program.table_sizes[table]
            there = sum(
                getattr(item, "table", None) == table
                for installation in self._installed.values()
                for stage in installation.stages
                for item in stage
            )
            if there + needed > size:
                raise ResourceError(
                    f"group {number}: needs {needed} entries of table {table}, "
                    f"expected at most {size - there} (free of {size})"
                )

    def _take(self, group: GroupLike) -> Installation:
        who = f"group {group.params.group}"
        with ExitStack() as taken:
            base = self._slots.take(group.params.slots, who)
            taken.callback(self._slots.give_back, base)
            (number,) = groups = self._groups.take(1, who)
            taken.callback(self._groups.give_back, groups)
            edges = self._edges.take(len(edges_of(group)), who)
            taken.callback(self._edges.give_back, edges)
            (multicast,) = multicasts = self._multicasts.take(1, who)
            taken.callback(self._multicasts.give_back, multicasts)
            installation = build(group, self.program, number, self._generation, base, edges, multicast)
            taken.pop_all()
        self._generation = self._generation % (GENERATIONS - 1) + 1
        return installation

    def _give_back(self, installation: Installation) -> None:
        self._slots.give_back(installation.slot_base)
        self._groups.give_back((installation.program_group,))
        self._edges.give_back(installation.edges)
        self._multicasts.give_back((installation.children_multicast,))

    def _undo(self, written: list[Stage]) -> None:
        """Best effort: the error that made it necessary is the one to tell."""
        for stage in reversed(written):
            with suppress(EpicError):
                self._backend.erase(stage)


def edges_of(group: GroupLike) -> list[EdgeLike]:
    """The edges of a group: children in order, then the parent's unless it is the root."""
    return [*group.children, *([] if group.parent is None else [group.parent])]
