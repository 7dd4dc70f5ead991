"""A P4 switch in this process with the groups that are installed on it: frames in, frames out."""

from __future__ import annotations

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_p4.control.backend import DirectBackend
from epic_p4.control.controller import GroupController
from epic_p4.control.program import ProgramModel
from epic_p4.control.schema import schema_of
from epic_p4.p4info import generate
from epic_p4.switch import P4Switch
from epic_testbed.p4 import group_status
from epic_testbed.p4.program import TARGETS, compiled


class P4Device:
    """The program of a target, run by the executor of epic_p4."""

    def __init__(self, name: str) -> None:
        program = compiled(name)
        self.target = TARGETS[name]
        self.switch = P4Switch(program)
        self._model = ProgramModel.of(schema_of(generate(program)))
        self._controller = GroupController(DirectBackend(self.switch), self._model)

    def reset(self) -> None:
        """Back to a switch that has just been started."""
        self.switch.reset()
        self._controller = GroupController(DirectBackend(self.switch), self._model)

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because `frame` came in on `port`."""
        return self.switch.process(port, frame)

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError; nothing has changed then."""
        self._controller.install(entry)

    def remove(self, group: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        self._controller.remove(group)

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return self._controller.groups()

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""
        return self._controller.counters()

    def status(self, group: int) -> GroupStatus:
        """The live slots of a group; a Mode III engine knows no edge in error."""
        return group_status(self._controller.status(group))
