"""The engines as the manager sees them, and the links it does not use for now. A restart finds all of it out anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from epic_host.fabric.topology import EngineNode, Fabric
from epic_host.manager.settings import Settings
from epic_models.reference.endpoint import EngineCapabilities

UNKNOWN: Final = "unknown"
UP: Final = "up"
LOST: Final = "lost"


@dataclass(slots=True)
class EngineView:
    """One engine. `instance`: its process; `failures`: calls in a row that it did not answer.

    `highest`: group numbers above this one are new to it (see `epic_host.control.fence`).
    """

    node: EngineNode
    state: str = UNKNOWN
    instance: str = ""
    kind: str = ""
    offer: EngineCapabilities | None = None
    failures: int = 0
    answered: float | None = None
    highest: int = -1

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.node.name


@dataclass(slots=True)
class _Hold:
    until: float
    length: float


class Fleet:
    """Views of all engines, and holds of links."""

    def __init__(self, fabric: Fabric, settings: Settings, now: float) -> None:
        self._settings = settings
        self._begin = now
        self.engines = {name: EngineView(node, offer=node.offer) for name, node in fabric.engines.items()}
        self._holds: dict[tuple[str, str], _Hold] = {}

    def is_up(self, name: str) -> bool:
        """Whether calls to it make sense."""
        view = self.engines.get(name)
        return view is not None and view.state == UP

    def settled(self, now: float) -> bool:
        """Whether each engine has answered or had its time to: before that, nobody is told that there is no network."""
        grace = self._settings.call_timeout * self._settings.lost_after
        return now >= self._begin + grace or all(view.state != UNKNOWN for view in self.engines.values())

    def settles(self) -> float:
        """When `settled` is true at the latest."""
        return self._begin + self._settings.call_timeout * self._settings.lost_after

    def unusable(self, out: frozenset[str]) -> frozenset[str]:
        """Engines that no tree may have now."""
        return out | {name for name, view in self.engines.items() if view.state != UP}

    def offers(self) -> dict[str, EngineCapabilities]:
        """What engines offer, as far as they were ever heard of."""
        return {name: view.offer for name, view in self.engines.items() if view.offer is not None}

    def answered(self, name: str, now: float) -> EngineView:
        """The engine answered a call."""
        view = self.engines[name]
        view.failures = 0
        view.answered = now
        return view

    def failed(self, name: str) -> bool:
        """The engine did not answer a call. Whether it is lost by that."""
        view = self.engines[name]
        view.failures += 1
        if view.state == LOST or view.failures < self._settings.lost_after:
            return False
        view.state = LOST
        return True

    # ------------------------------------------------------------------------------------------- links

    def hold(self, link: str, now: float, group: str = "") -> float:
        """Do not use a link for a while, longer each time that it comes soon after the last. Until when.

        With a group: not for this group, for only its members say that the link is bad; other jobs do not take their
        word.
        """
        last = self._holds.get((group, link))
        length = self._settings.link_hold
        if last is not None and now < last.until:
            return last.until
        if last is not None and now < last.until + last.length:
            length = min(2 * last.length, self._settings.link_hold_limit)
        self._holds[group, link] = _Hold(now + length, length)
        return now + length

    def release(self, link: str) -> None:
        """An admin says that the link is good."""
        for key in [key for key in self._holds if key[1] == link]:
            del self._holds[key]

    def held(self, now: float, group: str = "") -> frozenset[str]:
        """Links that are not to be used now, for a group or for all."""
        return frozenset(
            link for (g, link), hold in self._holds.items() if g in ("", group) and now < hold.until
        )

    def forget_group(self, group: str) -> None:
        """The group is no more."""
        for key in [key for key in self._holds if group and key[0] == group]:
            del self._holds[key]

    def forget_holds(self, now: float) -> None:
        """Holds that are over for so long that they say nothing any more."""
        for key in [key for key, hold in self._holds.items() if now >= hold.until + hold.length]:
            del self._holds[key]
