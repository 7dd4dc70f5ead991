"""Epochs of groups: every change of a group's path is one, and all go the same way (tla/Manager.tla, tla/Failover.tla).

1. Members are told to prepare; each drops what it has of older epochs and reports what it has delivered.
2. What the group had in engines is taken back; when engines that answer were seen without it, the epoch is placed: in
the
   network or on the hosts. The store has the installs before any engine is called.
3. When all engines were seen with their part, and all members have reported, the epoch begins at the lowest cell that
some
   member has not delivered, and members get their grants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from epic_host.fabric.decision import Path, Reason
from epic_host.grants import Grant
from epic_host.manager.effects import Ended, Granted, Lost, Prepare
from epic_host.manager.paths import Chosen, Paths
from epic_host.manager.placing import Seat, qpns_of
from epic_host.manager.records import (
    ABSENT,
    ACTIVE,
    CHANGING,
    ENDED,
    FORMING,
    FREEING,
    INSTALLED,
    JOINED,
    LEFT,
    LOST,
    Granting,
    Group,
    Install,
    Record,
)
from epic_host.manager.state import State
from epic_models.reference.group import GroupPlan

# Tries at QPNs that are free on all engines of a tree.
_DRAWS = 64


class Groups:
    """What happens to groups; each method is part of a change that the core then commits."""

    def __init__(self, state: State, paths: Paths) -> None:
        self._state = state
        self._paths = paths

    def advance(self, name: str, now: float) -> None:
        """Take the steps that the group can take now."""
        while (group := self._state.book.group(name)) is not None and self._step(group, now):
            pass

    def _step(self, group: Group, now: float) -> bool:
        if group.state == FORMING:
            return self._form(group)
        if group.state == CHANGING:
            return self._activate(group, now) if group.placed else self._place(group, now)
        return False

    # ------------------------------------------------------------------------------------------- steps

    def _form(self, group: Group) -> bool:
        """All ranks are there: the first epoch. What they report for it is known."""
        state = self._state
        members = state.book.members(group.name).values()
        if any(member.state != JOINED for member in members):
            return False
        for member in members:
            state.book.put(replace(member, reported=1, delivered=0))
        state.timers.clear(("forming", group.name))
        state.book.put(replace(group, state=CHANGING, epoch=1))
        return True

    def _place(self, group: Group, now: float) -> bool:
        state = self._state
        if self._is_freeing(group, now):
            return False
        if not state.fleet.settled(now):
            state.timers.sooner(("settled", group.name), state.fleet.settles())
            return False
        chosen = self._paths.choose(group, now)
        if chosen.path is Path.NONE:
            return self._wait_or_end(group, chosen, now)
        if chosen.placement is not None:
            self._place_in_network(chosen, now)
        else:
            self._place_on_hosts(chosen, now)
        placed = state.book.group(group.name)
        assert placed is not None
        state.decide(placed, chosen.path, chosen.reason, chosen.text, now, chosen.about)
        return True

    def _is_freeing(self, group: Group, now: float) -> bool:
        """Whether an engine that answers still has an older part of the group; waited for within bounds."""
        state, name = self._state, ("freeing", group.name)
        slow = [
            i
            for i in state.book.of_group(group.name)
            if i.step == FREEING and state.fleet.is_up(i.engine) and i.number in group.numbers
        ]
        if not slow:
            state.timers.clear(name)
            return False
        if name not in state.timers:
            state.timers.set(name, now + state.settings.install_timeout)
        return True

    def stop_waiting(self, name: str) -> None:
        """Engines did not free the group's parts in time: it goes on under other numbers, without those slots."""
        group = self._state.book.group(name)
        if group is not None and group.state == CHANGING and not group.placed:
            self._state.book.put(replace(group, numbers=()))

    def _wait_or_end(self, group: Group, chosen: Chosen, now: float) -> bool:
        """It takes nothing but the network, and there is none: wait for a while."""
        state, name = self._state, ("waiting", group.name)
        if chosen.waits:
            if name not in state.timers:
                limit = state.settings.queue_limit if chosen.queued else group.request.deadline
                state.timers.set(name, now + limit)
                state.book.put(replace(group, reason=chosen.reason.value, text=chosen.text))
                state.decide(group, Path.NONE, chosen.reason, chosen.text, now, chosen.about)
            return False
        self.end(group, chosen.reason, chosen.text, now)
        return True

    def _place_in_network(self, chosen: Chosen, now: float) -> None:
        state, group, placement = self._state, chosen.group, chosen.placement
        assert placement is not None
        numbers = group.numbers[: len(placement.trees)]
        largest = max((view.highest for view in state.fleet.engines.values()), default=-1)
        while len(numbers) < len(placement.trees):
            numbers = (*numbers, state.book.draw("number", max(1, largest + 1)))
        seats = self._seats(group)
        installs = state.placing.installs(placement, group.name, numbers, group.epoch)
        # QPNs that no edge of these engines has, nor an edge of the group's last epoch (EPIC-F-05).
        used = self._qpns_in_use(group, {install.engine for install in installs})
        plans: list[GroupPlan] = []
        for tree, number in zip(placement.trees, numbers, strict=True):
            for draw in range(_DRAWS):
                seed = state.tokens.seed("tree", group.uid, number, group.epoch, draw)
                plan = state.placing.tree_plan(tree, group.request, seats, number, group.epoch, seed)
                if used.isdisjoint(qpns_of(plan)):
                    break
            used |= qpns_of(plan)
            plans.append(plan)
        for install in installs:
            state.take(install)
        state.timers.set(("install", group.name), now + state.settings.install_timeout)
        grant = Grant(
            group.name, group.epoch, 0, chosen.reason.value, group.request.lease, trees=tuple(plans)
        )
        kept = (*numbers, *group.numbers[len(numbers) :])
        self._placed(replace(group, numbers=kept), chosen, grant, now)

    def _place_on_hosts(self, chosen: Chosen, now: float) -> None:
        state, group = self._state, chosen.group
        assert group.terms is not None
        params = group.terms.params(group.request, group.numbers[0] if group.numbers else 0, group.epoch)
        used = self._qpns_in_use(group, set())
        for draw in range(_DRAWS):
            seed = state.tokens.seed("host", group.uid, group.epoch, draw)
            plan = state.placing.host_plan(params, self._seats(group), chosen.algorithm, seed)
            if used.isdisjoint(qpns_of(plan)):
                break
        grant = Grant(group.name, group.epoch, 0, chosen.reason.value, group.request.lease, host=plan)
        self._placed(group, chosen, grant, now)

    def _placed(self, group: Group, chosen: Chosen, grant: Grant, now: float) -> None:
        self._state.book.put(Granting(group.name, grant))
        self._state.timers.clear(("waiting", group.name))
        self._state.book.put(
            replace(
                group,
                placed=True,
                path=chosen.path.value,
                reason=chosen.reason.value,
                text=chosen.text,
                target="",
                since=group.since if group.path == chosen.path.value else self._state.unix(now),
            )
        )
        # Policies look again: others may have to make way for it, or its turn begins.
        self._state.room = True

    def _seats(self, group: Group) -> list[Seat]:
        members = self._state.book.members(group.name)
        return [Seat(members[rank].host, members[rank].address) for rank in range(group.request.world_size)]

    def _qpns_in_use(self, group: Group, engines: set[str]) -> set[int]:
        book, used = self._state.book, set()
        names = {install.group for engine in engines for install in book.of_engine(engine)} | {group.name}
        for name in names:
            granting = book.granting(name)
            if granting is not None:
                plans = granting.grant.trees or (granting.grant.host,)
                used |= {qpn for plan in plans if plan is not None for qpn in qpns_of(plan)}
        return used

    def _activate(self, group: Group, now: float) -> bool:
        """All engines have their part and all members have reported: the epoch begins."""
        state = self._state
        wanted = state.book.wanted(group.name)
        members = state.book.members(group.name).values()
        if any(install.key not in state.seen for install in wanted):
            return False
        if any(member.reported < group.epoch for member in members):
            return False
        resume = min(member.delivered for member in members)
        granting = state.book.granting(group.name)
        assert granting is not None
        grant = replace(granting.grant, resume=resume)
        for install in wanted:
            state.book.put(replace(install, step=INSTALLED, instance=state.seen[install.key][0]))
        state.book.put(Granting(group.name, grant))
        state.book.put(replace(group, state=ACTIVE, resume=resume))
        for what in ("install", "report"):
            state.timers.clear((what, group.name))
        state.attempts.pop(group.name, None)
        state.emit(Granted(group.name, grant))
        return True

    # ----------------------------------------------------------------------------------------- changes

    def change(
        self,
        group: Group,
        reason: Reason,
        text: str,
        now: float,
        *,
        target: str = "",
        about: dict[str, str] | None = None,
    ) -> None:
        """The epoch is over, or the one being prepared cannot be as it was placed."""
        if group.state == CHANGING and group.placed:
            self._place_again(group, reason, text, now, about)
        if group.state != ACTIVE:
            return
        state = self._state
        gone = [m.rank for m in state.book.members(group.name).values() if m.state != JOINED]
        if gone:
            # Nobody contributes their cells again.
            self.lose(group, gone, f"{text}, and {_ranks(gone)} had left", now)
            return
        self._take_back(group)
        changed = state.book.put(
            replace(
                group,
                state=CHANGING,
                epoch=group.epoch + 1,
                placed=False,
                target=target,
                reason=reason.value,
                text=text,
                since=state.unix(now) if target == "host" else group.since,
            )
        )
        state.timers.set(("report", group.name), now + report_time(group))
        state.attempts.pop(group.name, None)
        state.decide(changed, Path.NONE, reason, text, now, about)
        state.emit(Prepare(group.name, changed.epoch, reason.value, text))
        state.touched.add(group.name)

    def move(self, name: str, target: str, reason: Reason, text: str, now: float) -> None:
        """A policy moves a running group. To the network only if that takes this very group now."""
        group = self._state.book.group(name)
        if group is None or len(self._state.joined(name)) < group.request.world_size:
            return
        if group.state == CHANGING and group.target and not target:
            group = self._state.book.put(replace(group, target=""))
            self.advance(name, now)
        if group.state != ACTIVE:
            return
        if not target and self._paths.admit(group, now).placement is None:
            return
        self.change(group, reason, text, now, target=target)
        # At once, so that the next one does not count on the same room.
        self.advance(name, now)

    def _place_again(
        self, group: Group, reason: Reason, text: str, now: float, about: dict[str, str] | None
    ) -> None:
        """Other engines, and other numbers: those that were removed at this epoch are refused from now on."""
        state = self._state
        self._take_back(group)
        tries = state.attempts[group.name] = state.attempts.get(group.name, 0) + 1
        target = "host" if tries >= state.settings.attempts else group.target
        state.book.put(replace(group, placed=False, numbers=(), target=target))
        state.timers.clear(("install", group.name))
        state.decide(group, Path.NONE, reason, text, now, about)
        state.touched.add(group.name)

    def _take_back(self, group: Group) -> None:
        for install in self._state.book.wanted(group.name):
            self._state.seen.pop(install.key, None)
            self._state.book.put(replace(install, step=FREEING))
            self._state.outbox.forget((install.engine, "install", install.number, install.epoch))

    def lose(self, group: Group, ranks: Iterable[int], text: str, now: float) -> None:
        """Members are gone. The others are told, and the group is over; they may become a new one."""
        state = self._state
        lost = tuple(sorted(ranks))
        for rank in lost:
            member = state.book.members(group.name)[rank]
            state.book.put(replace(state.dismiss(member, now), state=LOST if member.state != LEFT else LEFT))
        if group.state != ENDED:
            group = self._over(group, Reason.RANK_LOST, text, now, {"ranks": ",".join(map(str, lost))})
        state.emit(Lost(group.name, lost, text))
        self._tidy(group, now)

    def unjoin(self, group: Group, rank: int) -> None:
        """A rank went away before the group began: it may come again."""
        member = self._state.book.members(group.name)[rank]
        self._state.book.put(replace(member, state=ABSENT, incarnation=""))

    def end(self, group: Group, reason: Reason, text: str, now: float, *, shrinkable: bool = False) -> None:
        """The group is over. Unless it may be shrunk, so are its members."""
        if group.state == ENDED:
            return
        group = self._over(group, reason, text, now)
        for member in self._state.book.members(group.name).values():
            if not shrinkable or member.state != JOINED:
                left = LEFT if member.state == JOINED else member.state
                self._state.book.put(replace(self._state.dismiss(member, now), state=left))
        self._state.emit(Ended(group.name, reason.value, text))
        self._tidy(group, now)

    def leave(self, group: Group, rank: int, now: float) -> None:
        """A member has all it wanted. The last one ends the group."""
        state = self._state
        member = state.book.members(group.name)[rank]
        if group.state == FORMING:
            self.unjoin(group, rank)
            return
        state.book.put(replace(state.dismiss(member, now), state=LEFT))
        if not state.joined(group.name):
            self.end(group, Reason.DESTROYED, "all members have left", now)
        elif group.state == CHANGING:
            self.lose(
                group, [rank], f"rank {rank} has left while epoch {group.epoch} was being prepared", now
            )
        self._tidy(group, now)

    def _over(
        self, group: Group, reason: Reason, text: str, now: float, about: dict[str, str] | None = None
    ) -> Group:
        state = self._state
        self._take_back(group)
        for what in ("forming", "install", "report", "freeing", "waiting", "settled"):
            state.timers.clear((what, group.name))
        granting = state.book.granting(group.name)
        if granting is not None:
            state.book.drop(granting)
        state.attempts.pop(group.name, None)
        ended = replace(
            group,
            state=ENDED,
            placed=False,
            path=Path.NONE.value,
            reason=reason.value,
            text=text,
            ended=state.unix(now),
        )
        state.decide(ended, Path.NONE, reason, text, now, about)
        return state.book.put(ended)

    # ---------------------------------------------------------------------------------------- oblivion

    def _tidy(self, group: Group, now: float) -> None:
        self._state.timers.sooner(("forget", group.name), now + self._state.settings.keep_ended)
        self.forget_old(now)

    def forget_old(self, now: float) -> None:
        """Of groups that ended the last ones are remembered."""
        book, keep = self._state.book, self._state.settings.keep_groups
        over = [group for group in book.groups.values() if group.state == ENDED]
        for group in sorted(over, key=lambda group: (group.ended, group.uid))[: max(0, len(over) - keep)]:
            self.forget(group.name, now)

    def forget(self, name: str, now: float) -> bool:
        """Forget a group that ended and whose survivors have gone. Whether it is forgotten."""
        state = self._state
        group = state.book.group(name)
        if group is None:
            return True
        if group.state != ENDED:
            return False
        if state.joined(name):
            self._state.timers.set(("forget", name), now + state.settings.keep_ended)
            return False
        for install in state.book.of_group(name):
            # What a dead engine has is taken back when it is there again; whose it was does not matter.
            state.book.put(replace(install, group=""))
        old: list[Record] = [*state.book.members(name).values(), *state.book.reasons(name), group]
        for record in old:
            state.book.drop(record)
        state.leases.forget(name)
        state.fleet.forget_group(name)
        for key in [key for key in state.avoid if key[0] == name]:
            del state.avoid[key]
        state.timers.clear(("forget", name))
        return True

    # ------------------------------------------------------------------------------------------ faults

    def links_of(self, group: Group) -> set[str]:
        """Links that the trees of its epoch run over."""
        granting = self._state.book.granting(group.name)
        if granting is None:
            return set()
        members = self._state.book.members(group.name)
        return {
            f"{members[child].host if isinstance(child, int) else child}-{parent}"
            for tree in granting.grant.trees
            for parent, children in tree.children.items()
            for child in children
        }

    def engine_failed(self, engine: str, reason: Reason, text: str, now: float) -> None:
        """All groups that have, or are to have, a part on this engine must do without it."""
        for install in self._state.book.of_engine(engine):
            if install.step != FREEING:
                self.part_lost(install, reason, text, now)

    def part_lost(self, install: Install, reason: Reason, text: str, now: float) -> None:
        """The group must do without this part."""
        group = self._state.book.group(install.group)
        if group is not None:
            self.change(group, reason, text, now, about={"engine": install.engine})


def report_time(group: Group) -> float:
    """Seconds that members have to report for an epoch: at least a lease, for they may have to find the manager."""
    return max(group.request.deadline, group.request.lease)


def _ranks(ranks: Iterable[int]) -> str:
    ranks = sorted(ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
