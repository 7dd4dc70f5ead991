"""The manager and its engines: what to call them for, what their answers say, and how what differs is put right.

What an engine has is seen by the answer to `install` or `remove`, or in the list that it gives when it is looked at.
What is in the list and not in the store is removed; what is in the store and not in the list is lost to its group.
"""

from __future__ import annotations

from epic_host.control.fence import Installed
from epic_host.fabric.decision import Reason
from epic_host.manager.effects import CallDone, CallFailed, EngineCall, Outcome
from epic_host.manager.fleet import LOST, UP, EngineView
from epic_host.manager.groups import Groups
from epic_host.manager.outbox import Purpose
from epic_host.manager.records import FREEING, INSTALLED, INSTALLING, Install
from epic_host.manager.state import State
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup

# Words of an engine that did not, or could not, look at the call.
_SILENT = frozenset({"unreachable", "busy", "stopping"})


class Engines:
    """Calls engines and takes their answers; each method is part of a change that the core then commits."""

    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._groups = groups

    # ------------------------------------------------------------------------------------------- calls

    def look(self, name: str, now: float) -> None:
        """Ask an engine what it has, and come again."""
        state, view = self._state, self._state.fleet.engines[name]
        self._call((name, "installed", 0, 0), now)
        busy = bool(state.book.of_engine(name)) or view.state != UP
        settings = state.settings
        state.timers.set(("look", name), now + (settings.probe_interval if busy else settings.idle_interval))

    def look_soon(self, name: str, now: float) -> None:
        """Something is not clear: ask now, or when that may be done again."""
        when = self._state.outbox.when((name, "installed", 0, 0))
        self._state.timers.sooner(("look", name), max(now, when))

    def call_open(self, now: float) -> None:
        """Call the engines for each step that is not seen done, again and again."""
        state = self._state
        for engine, open_installs in state.book.open.items():
            view = state.fleet.engines.get(engine)
            if view is None or view.state != UP:
                continue
            for install in open_installs.values():
                if install.step == FREEING:
                    self._call((engine, "remove", install.number, install.epoch), now)
                elif install.key not in state.seen:
                    purpose: Purpose = (engine, "install", install.number, install.epoch)
                    self._call(purpose, now, self._entry(install), view.instance)
        for engine, strays in state.strays.items():
            if state.fleet.engines[engine].failures == 0:
                for number, epoch in tuple(strays):
                    self._call((engine, "remove", number, epoch), now)

    def ask_status(self, engine: str, number: int, epoch: int, now: float) -> None:
        """Ask for the state of a group's part."""
        purpose: Purpose = (engine, "status", number, epoch)
        # At once: what an answer of a moment ago said may not be so any more.
        self._state.outbox.forget(purpose)
        self._call(purpose, now)

    def _entry(self, install: Install) -> EngineGroup | None:
        granting = self._state.book.granting(install.group)
        assert granting is not None
        return granting.grant.trees[install.tree].engines[install.engine]

    def _call(
        self, purpose: Purpose, now: float, entry: EngineGroup | None = None, instance: str = ""
    ) -> None:
        state = self._state
        control = state.fleet.engines[purpose[0]].node.control
        if state.outbox.make(purpose, control, now, entry=entry, instance=instance):
            # When its time is over.
            state.timers.set(("call", purpose), state.outbox.when(purpose))

    def call_over(self, purpose: Purpose, now: float) -> None:
        """A call had its time, or may be made again."""
        if self._state.outbox.expired(purpose, now):
            self._silent(purpose, now)
        self._state.outbox.forget(purpose)

    # ----------------------------------------------------------------------------------------- answers

    def done(self, call: EngineCall, outcome: Outcome, now: float) -> None:
        """An answer, perhaps late, perhaps one of several to the same call."""
        state = self._state
        if call.engine not in state.fleet.engines:
            return
        state.outbox.done(call)
        purpose: Purpose = (call.engine, call.kind, call.number, call.epoch)
        if isinstance(outcome, CallFailed):
            # When it may be made again.
            state.timers.set(("call", purpose), max(now, state.outbox.when(purpose)))
            if outcome.reason in _SILENT or call.kind == "installed":
                self._silent(purpose, now)
                return
        view = state.fleet.answered(call.engine, now)
        value = outcome.value if isinstance(outcome, CallDone) else None
        if isinstance(outcome, CallFailed):
            self._refused(call, outcome, now)
        elif call.kind == "installed" and isinstance(value, Installed):
            self._compare(view, value, call.id, now)
        elif call.kind == "capabilities" and isinstance(value, EngineCapabilities):
            self._offers(view, value, now)
        elif call.kind in ("install", "remove") and isinstance(value, str):
            self._carried_out(view, call, value, now)

    def _silent(self, purpose: Purpose, now: float) -> None:
        """No answer. Looks that fail in a row decide, however many other calls fail meanwhile."""
        state, (engine, kind, _, _) = self._state, purpose
        if kind == "installed" and state.fleet.failed(engine):
            node = state.fleet.engines[engine].node
            text = f"engine {engine} does not answer at {node.control}"
            self._groups.engine_failed(engine, Reason.ENGINE_LOST, text, now)
        if state.fleet.engines[engine].state != LOST:
            self.look_soon(engine, now)

    def _carried_out(self, view: EngineView, call: EngineCall, instance: str, now: float) -> None:
        """The engine says that it has, or does not have, what the call was about."""
        state = self._state
        if instance != view.instance:
            # Another process of it than was known: what it has, its list will say.
            self.look_soon(view.name, now)
            return
        install = state.book.installs.get((call.number, call.engine, call.epoch))
        if call.kind == "remove":
            self._stray_gone(view, call.number, call.epoch)
            if install is not None and install.step == FREEING:
                state.release(install)
        elif install is not None and install.step == INSTALLING:
            self._see(install, instance)

    def _see(self, install: Install, instance: str) -> None:
        state = self._state
        state.seen[install.key] = instance, state.outbox.newest
        state.touched.add(install.group)

    def _refused(self, call: EngineCall, failure: CallFailed, now: float) -> None:
        """The engine looked at the call and did not carry it out."""
        state = self._state
        self.look_soon(call.engine, now)
        install = state.book.installs.get((call.number, call.engine, call.epoch))
        if call.kind != "install" or install is None or install.step != INSTALLING:
            return
        if failure.reason in ("already_installed", "other_instance"):
            return  # its list says what that means
        text = f"engine {call.engine} refused the group: {failure.text}"
        if failure.reason != "fenced":
            state.avoid_engine(install.group, call.engine, now)
        self._groups.part_lost(install, Reason.INSTALL_FAILED, text, now)

    def _offers(self, view: EngineView, offer: EngineCapabilities, now: float) -> None:
        if view.node.offer is None and view.offer != offer:
            view.offer = offer
            self._state.placing.offer(view.name, offer)
        self._here(view)
        self.look_soon(view.name, now)

    def _here(self, view: EngineView) -> None:
        """It answers, what it offers is known, and it has nothing that nobody knows."""
        if (
            view.offer is not None
            and view.instance
            and view.state != UP
            and not self._state.strays.get(view.name)
        ):
            view.state = UP
            self._state.room = True
            self._state.touched.update(name for (name,) in self._state.book.groups)

    # ------------------------------------------------------------------------------------- comparison

    def _compare(self, view: EngineView, listed: Installed, call_id: int, now: float) -> None:
        """The list against the store."""
        state = self._state
        restarted = view.instance not in ("", listed.instance)
        view.instance, view.kind, view.highest = listed.instance, listed.engine, listed.highest
        entries = set(listed.entries)
        if view.node.offer is None and (view.offer is None or restarted):
            self._call((view.name, "capabilities", 0, 0), now)
        known = set()
        for install in state.book.of_engine(view.name):
            known.add((install.number, install.epoch))
            self._compare_one(install, listed, entries, call_id, now)
        state.strays.pop(view.name, None)
        if entries - known:
            state.strays[view.name] = entries - known
        self._here(view)

    def _stray_gone(self, view: EngineView, number: int, epoch: int) -> None:
        strays = self._state.strays.get(view.name)
        if strays is None:
            return
        strays.discard((number, epoch))
        if not strays:
            del self._state.strays[view.name]
            self._here(view)

    def _compare_one(
        self, install: Install, listed: Installed, entries: set[tuple[int, int]], call_id: int, now: float
    ) -> None:
        state, key = self._state, install.key
        there = (install.number, install.epoch) in entries
        seen = state.seen.get(key)
        if install.step == INSTALLING and seen is None:
            if there:
                self._see(install, listed.instance)
            return
        if install.step == FREEING:
            return
        instance, when = (install.instance, 0) if install.step == INSTALLED else ("", 0)
        if seen is not None:
            instance, when = seen
        if call_id <= when:
            return  # asked before it was seen: says nothing
        if not there or listed.instance != instance:
            text = f"engine {install.engine} has lost the group: it was started again"
            self._groups.part_lost(install, Reason.ENGINE_LOST, text, now)
