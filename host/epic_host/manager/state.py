"""What all parts of the core share: the book, the volatile rest, and the effects of the change that is being made.

Volatile are: who was heard when (`leases`), how engines and links are (`fleet`), which calls are out (`outbox`), what
was seen of a step that is not over (`seen`), and a few back-offs. A manager that starts again has lost them, and finds
them out again; nothing that anybody was told rests on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from epic_host.fabric.decision import Decision, Path, Reason
from epic_host.fabric.topology import Fabric
from epic_host.manager.book import Book, Key
from epic_host.manager.effects import Decided, Event
from epic_host.manager.fleet import Fleet
from epic_host.manager.leases import Leases
from epic_host.manager.outbox import Outbox
from epic_host.manager.placing import Placing
from epic_host.manager.records import JOINED, Group, Install, Member, Quarantined, Reasoned
from epic_host.manager.settings import Settings
from epic_host.manager.store import Store
from epic_host.manager.timers import Timers
from epic_host.manager.tokens import Secrets

log = logging.getLogger(__name__)


class State:
    """The manager's state. `unix` is the wall-clock time at `now`."""

    def __init__(
        self, fabric: Fabric, store: Store, settings: Settings, seed: bytes | None, now: float, unix: float
    ) -> None:
        self.fabric = fabric
        self.settings = settings
        self.book = Book(store)
        self.tokens = Secrets(store.secret(seed))
        self.fleet = Fleet(fabric, settings, now)
        self.placing = Placing(fabric, self.fleet)
        self.leases = Leases()
        self.timers = Timers()
        self.outbox = Outbox(settings.call_timeout, settings.retry_interval)
        # Installs seen done, with the engine's instance, and the newest call when they were seen.
        self.seen: dict[Key, tuple[str, int]] = {}
        # Entries of engines that the store does not know.
        self.strays: dict[str, set[tuple[int, int]]] = {}
        # (group, engine): until when the engine is not offered the group again; tries at an epoch.
        self.avoid: dict[tuple[str, str], float] = {}
        self.attempts: dict[str, int] = {}
        # Something became free, or may be used again, since groups that wait for the network were looked at.
        self.room = True
        # Groups to look at before the change is over.
        self.touched: set[str] = set()
        self.events: list[Event] = []
        self._offset = unix - now

    def unix(self, now: float) -> float:
        """Wall-clock time."""
        return now + self._offset

    def emit(self, event: Event) -> None:
        """Tell whom it concerns, once the change is in the store."""
        self.events.append(event)

    # ---------------------------------------------------------------------------------------- records

    def take(self, install: Install) -> None:
        """Slots of an engine are given away."""
        self.book.put(install)
        self.placing.take(install)

    def release(self, install: Install) -> None:
        """The engine was seen without it: its slots are free."""
        self.book.drop(install)
        self.placing.give(install)
        self.seen.pop(install.key, None)
        self.outbox.forget((install.engine, "install", install.number, install.epoch))
        self.outbox.forget((install.engine, "remove", install.number, install.epoch))
        self.touched.add(install.group)
        self.room = True

    def joined(self, group: str) -> list[Member]:
        """Members that are there."""
        return [member for member in self.book.members(group).values() if member.state == JOINED]

    def dismiss(self, member: Member, now: float) -> Member:
        """The member is there no more: its address goes into quarantine. Returns it without one."""
        self.timers.clear(("member", member.group, member.rank))
        if member.address:
            self.book.put(Quarantined(member.address))
            self.timers.set(("quarantine", member.address), now + self.settings.quarantine)
        return Member(
            member.group,
            member.rank,
            member.host,
            "",
            member.state,
            member.incarnation,
            member.reported,
            member.delivered,
        )

    def decide(
        self,
        group: Group,
        path: Path,
        reason: Reason,
        text: str,
        now: float,
        about: dict[str, str] | None = None,
    ) -> None:
        """Record a decision; the oldest beyond the bound are forgotten."""
        decision = Decision(group.name, group.epoch, path, reason, text, dict(about or {}), self.unix(now))
        self.book.put(Reasoned(self.book.draw("decision"), group.name, decision))
        known = self.book.reasons(group.name)
        for old in known[: max(0, len(known) - self.settings.keep_decisions)]:
            self.book.drop(old)
        self.emit(Decided(group.name, decision))

    def avoid_engine(self, group: str, engine: str, now: float) -> None:
        """The engine is not offered the group for a while."""
        until = self.avoid[group, engine] = now + self.settings.avoid
        self.timers.set(("hold", engine), until)

    def avoided(self, group: str, now: float) -> frozenset[str]:
        """Engines that refused the group a moment ago."""
        return frozenset(e for (g, e), until in self.avoid.items() if g == group and now < until)

    def unusable_links(self, now: float, group: str = "") -> frozenset[str]:
        """Links that no tree may have now, or none of this group."""
        known = self.fabric.link_names
        return frozenset(
            link for link in self.fleet.held(now, group) | self.book.out("link") if link in known
        )

    # ------------------------------------------------------------------------------------ volatile rest

    def recount(self) -> None:
        """Count anew what is given away: after a change that did not come about, or what engines and nodes said."""
        mtus = {node.host: node.mtu for node in self.book.nodes.values() if node.mtu}
        self.placing.refresh(self.book.installs.values(), mtus)

    def log_decisions(self, events: Iterable[Event]) -> None:
        """One line a decision, once it is in the store."""
        for event in events:
            if isinstance(event, Decided):
                log.info("%s", event.decision.line())
