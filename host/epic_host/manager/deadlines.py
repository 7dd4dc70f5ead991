"""What happens when a timer rings: leases that end, members and engines waited for in vain, turns of policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from epic_host.fabric.decision import Reason
from epic_host.manager.engines import Engines
from epic_host.manager.faults import Faults
from epic_host.manager.groups import Groups, report_time
from epic_host.manager.paths import Paths
from epic_host.manager.records import CHANGING, FORMING, JOINED
from epic_host.manager.state import State

# Seconds in which several things that become free are looked at together.
SOON: Final = 0.02


class Deadlines:
    """One method a kind of timer, by the first part of its name; each is part of a change that the core commits."""

    def __init__(self, state: State, groups: Groups, engines: Engines, faults: Faults, paths: Paths) -> None:
        self._state = state
        self._groups = groups
        self._engines = engines
        self._faults = faults
        self._paths = paths

    def ring(self, name: tuple[object, ...], now: float) -> None:
        """Do what a timer of this name is for."""
        bells: dict[str, Callable[..., object]] = {
            "look": self._engines.look,
            "call": self._engines.call_over,
            "member": self._member_silent,
            "forming": self._forming_over,
            "report": self._report_over,
            "install": self._install_over,
            "freeing": self._freeing_over,
            "waiting": self._waiting_over,
            "settled": self._touch,
            "inquiry": self._faults.time_is_up,
            "quarantine": self._quarantine_over,
            "forget": self._groups.forget,
            "hold": self._hold_over,
            "policy": self._policy,
        }
        bells[str(name[0])](*name[1:], now)

    def _touch(self, group: str, now: float) -> None:
        self._state.touched.add(group)

    def _member_silent(self, name: str, rank: int, now: float) -> None:
        """Leases that ended: of one rank, and of all others of the group that went silent with it."""
        state, group = self._state, self._state.book.group(name)
        if group is None:
            return
        silent = [
            member.rank
            for member in state.joined(name)
            if (pulse := state.leases.members.get((name, member.rank))) is None or pulse.until <= now
        ]
        if group.state == FORMING:
            for gone in silent:
                self._groups.unjoin(group, gone)
        elif silent:
            words = f"rank{'s' if len(silent) > 1 else ''} {', '.join(map(str, silent))}"
            self._groups.lose(group, silent, f"{words} not heard for {group.request.lease:g} s", now)
        state.touched.add(name)

    def _forming_over(self, name: str, now: float) -> None:
        group = self._state.book.group(name)
        if group is None or group.state != FORMING:
            return
        members = self._state.book.members(name).values()
        missing = [f"{member.rank} on {member.host}" for member in members if member.state != JOINED]
        text = f"ranks {', '.join(missing)} have not joined within {group.request.deadline:g} s"
        self._groups.end(group, Reason.MEMBERS_MISSING, text, now, shrinkable=True)

    def _report_over(self, name: str, now: float) -> None:
        group = self._state.book.group(name)
        if group is None or group.state != CHANGING:
            return
        silent = [m.rank for m in self._state.joined(name) if m.reported < group.epoch]
        if silent:
            text = f"ranks {', '.join(map(str, silent))} have not reported for epoch {group.epoch}"
            self._groups.lose(group, silent, f"{text} within {report_time(group):g} s", now)

    def _install_over(self, name: str, now: float) -> None:
        """Engines that answer, but have not installed their part in time."""
        state, group = self._state, self._state.book.group(name)
        if group is None or group.state != CHANGING or not group.placed:
            return
        slow = [i for i in state.book.wanted(name) if i.key not in state.seen]
        for install in slow:
            state.avoid_engine(name, install.engine, now)
        if slow:
            engines = ", ".join(sorted({install.engine for install in slow}))
            text = f"engine {engines} did not install the group within {state.settings.install_timeout:g} s"
            self._groups.change(group, Reason.INSTALL_FAILED, text, now, about={"engine": engines})

    def _freeing_over(self, name: str, now: float) -> None:
        self._groups.stop_waiting(name)
        self._state.touched.add(name)

    def _waiting_over(self, name: str, now: float) -> None:
        group = self._state.book.group(name)
        if group is not None and group.state == CHANGING and not group.placed:
            self._groups.end(
                group, Reason(group.reason), f"{group.text}, for {group.request.deadline:g} s", now
            )

    def _quarantine_over(self, address: str, now: float) -> None:
        quarantined = self._state.book.quarantine.get((address,))
        if quarantined is not None:
            self._state.book.drop(quarantined)

    def _hold_over(self, link_or_engine: str, now: float) -> None:
        self._state.fleet.forget_holds(now)
        self._state.room = True

    def _policy(self, now: float) -> None:
        """Groups that wait for the network, and those whose turn is over."""
        state = self._state
        state.timers.set(("policy",), now + state.settings.policy_interval)
        for name, target, reason, text in self._paths.moves(now):
            self._groups.move(name, target, reason, text, now)
        turn = self._paths.next_turn(now)
        if turn is not None:
            state.timers.sooner(("policy",), max(turn, now + SOON))
        for group in list(state.book.groups.values()):
            if group.state == CHANGING and not group.placed:
                state.touched.add(group.name)
