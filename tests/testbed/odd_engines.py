"""Engines that misbehave, served by the software switch in tests of the conformance suite's adapters."""

from __future__ import annotations

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import Output
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.packets import Packet


class Floods(Mode3Engine):
    """Sends its first result again and again, as long as the group is installed."""

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        super().__init__(capabilities)
        self._flood: list[tuple[int, Packet]] = []

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """As the parent does, and begin."""
        output = super().receive(port, packet, now)
        self._flood = self._flood or list(output.sends)
        return output

    def poll(self, now: float) -> Output:
        """Again."""
        return Output(sends=self._flood * 20)

    def next_deadline(self) -> float | None:
        """At once."""
        return 0.0 if self._flood else None

    def remove(self, group: int) -> None:
        """The end of it."""
        self._flood = []
        super().remove(group)


class CountsNothing(Mode3Engine):
    """Its counters stay 0: `rx_frames` does not account for what was sent to it."""

    def counters(self) -> dict[str, int]:
        """All 0."""
        return dict.fromkeys(super().counters(), 0)


class HangsAtInstall(Mode3Engine):
    """Never comes back from the installation of group 7."""

    def install(self, entry: EngineGroup, now: float) -> None:
        """For ever."""
        while entry.params.group == 7:
            pass
        super().install(entry, now)
