"""What is wrong when a member sees an edge in error or no result: the engines are asked, then it is decided.

A member's word alone takes a link from its own group only; what an engine says of a link counts for all groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from epic_host.fabric.decision import Reason
from epic_host.manager.effects import Answered, CallDone, EngineCall, Outcome, Verdict
from epic_host.manager.engines import Engines
from epic_host.manager.groups import Groups
from epic_host.manager.records import ACTIVE, ENDED, JOINED, Group
from epic_host.manager.records import LOST as MEMBER_LOST
from epic_host.manager.state import State
from epic_models.reference.diagnosis import Diagnosis, diagnose
from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import GroupStatus

# A finding that rests on what members say of themselves is looked at once more after this part of the time.
_SECOND_LOOK = 0.3
# Epochs in a row on the hosts that ended with an edge in error and no cell delivered, before its other end is given up.
_FRUITLESS = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a member saw: it has `delivered` cells (of all epochs); `edge` is in error, or "" for no result in time."""

    ticket: int
    rank: int
    delivered: int
    edge: str
    what: str


@dataclass(slots=True)
class _Inquiry:
    """Engines that were asked, by tree: None until they answer. `second`: this is the second look."""

    epoch: int
    until: float
    reports: list[Report] = field(default_factory=list)
    statuses: dict[tuple[int, str], GroupStatus | None] = field(default_factory=dict)
    second: bool = False
    pausing: bool = False


class Faults:
    """One inquiry a group at a time; each method is part of a change that the core then commits."""

    def __init__(self, state: State, groups: Groups, engines: Engines) -> None:
        self._state = state
        self._groups = groups
        self._engines = engines
        self._tickets = itertools.count(1)
        self._inquiries: dict[str, _Inquiry] = {}
        # group: cell at which epochs end again and again, and how many have.
        self._fruitless: dict[str, tuple[int, int]] = {}

    def report(
        self, group: Group, rank: int, epoch: int, delivered: int, edge: str, what: str, now: float
    ) -> Verdict | int:
        """A verdict where it is clear, else a ticket for one."""
        early = self._known(group, epoch)
        if early is not None:
            return early
        report = Report(next(self._tickets), rank, delivered, edge, what)
        granting = self._state.book.granting(group.name)
        assert granting is not None
        if not granting.grant.trees:
            return self._on_hosts(group, report, now)
        inquiry = self._inquiries.get(group.name)
        if inquiry is None or inquiry.epoch != epoch:
            inquiry = _Inquiry(epoch, now + self._state.settings.inquiry_timeout)
            self._inquiries[group.name] = inquiry
            self._state.timers.set(("inquiry", group.name), inquiry.until)
            inquiry.reports.append(report)
            self._ask(group, inquiry, granting.grant.trees, now)
        else:
            inquiry.reports.append(report)
        return report.ticket

    def answered(self, call: EngineCall, outcome: Outcome, now: float) -> None:
        """An engine's status, or none."""
        for name, inquiry in list(self._inquiries.items()):
            group = self._state.book.group(name)
            if group is None or call.epoch != inquiry.epoch or call.number not in group.numbers:
                continue
            key = group.numbers.index(call.number), call.engine
            if key in inquiry.statuses and isinstance(outcome, CallDone):
                if isinstance(outcome.value, GroupStatus):
                    inquiry.statuses[key] = outcome.value
                if not inquiry.pausing and all(s is not None for s in inquiry.statuses.values()):
                    self._judge(group, inquiry, now, final=False)

    def time_is_up(self, name: str, now: float) -> None:
        """Time for the second look, or for an answer whatever is known."""
        inquiry, group = self._inquiries.get(name), self._state.book.group(name)
        if inquiry is None:
            return
        if group is None:
            self._close(name)
            return
        granting = self._state.book.granting(name)
        if inquiry.pausing and now < inquiry.until and granting is not None and group.epoch == inquiry.epoch:
            inquiry.pausing, inquiry.second = False, True
            self._state.timers.set(("inquiry", name), inquiry.until)
            self._ask(group, inquiry, granting.grant.trees, now)
            return
        self._judge(group, inquiry, now, final=True)

    def settle(self, name: str) -> None:
        """The group changed, perhaps: reports of an epoch that is over are answered."""
        inquiry, group = self._inquiries.get(name), self._state.book.group(name)
        if inquiry is None:
            return
        verdict = Verdict("lost") if group is None else self._known(group, inquiry.epoch)
        if verdict is not None:
            self._answer(name, inquiry, dict.fromkeys((r.ticket for r in inquiry.reports), verdict))

    # ----------------------------------------------------------------------------------------- asking

    def _ask(self, group: Group, inquiry: _Inquiry, trees: tuple[GroupPlan, ...], now: float) -> None:
        inquiry.statuses = {(t, engine): None for t, tree in enumerate(trees) for engine in tree.engines}
        for t, engine in inquiry.statuses:
            self._engines.ask_status(engine, group.numbers[t], group.epoch, now)

    def _known(self, group: Group, epoch: int) -> Verdict | None:
        """The verdict where the group is not, or not any more, in this epoch."""
        if group.state == ENDED:
            members = self._state.book.members(group.name).values()
            lost = tuple(member.rank for member in members if member.state == MEMBER_LOST)
            return Verdict("lost", lost, (), group.text)
        if group.state != ACTIVE or group.epoch != epoch:
            return Verdict("epoch", (), (), group.text or f"epoch {group.epoch}")
        return None

    # ---------------------------------------------------------------------------------------- judging

    def _judge(self, group: Group, inquiry: _Inquiry, now: float, *, final: bool) -> None:
        verdicts: dict[int, Verdict] = {}
        for report in inquiry.reports:
            verdict = self._verdict(group, inquiry, report, now, final)
            if verdict is None:
                # Looked at once more, so that what was only on its way is there.
                inquiry.pausing = True
                pause = _SECOND_LOOK * self._state.settings.inquiry_timeout
                self._state.timers.set(("inquiry", group.name), min(now + pause, inquiry.until))
                return
            verdicts[report.ticket] = verdict
            if verdict.verdict == "epoch":
                break
        self._answer(group.name, inquiry, verdicts)

    def _answer(self, name: str, inquiry: _Inquiry, verdicts: dict[int, Verdict]) -> None:
        last = next(reversed(verdicts.values()))
        for report in inquiry.reports:
            self._state.emit(Answered(name, report.ticket, verdicts.get(report.ticket, last)))
        self._close(name)

    def _close(self, name: str) -> None:
        self._inquiries.pop(name, None)
        self._state.timers.clear(("inquiry", name))

    def _verdict(
        self, group: Group, inquiry: _Inquiry, report: Report, now: float, final: bool
    ) -> Verdict | None:
        """What is to be said to one report; None: after a second look."""
        granting = self._state.book.granting(group.name)
        if granting is None or self._known(group, inquiry.epoch) is not None:
            return self._known(group, inquiry.epoch)
        trees = granting.grant.trees
        silent = sorted({engine for (_, engine), s in inquiry.statuses.items() if s is None})
        if silent:
            # Lost or not is decided by looking at them, and then the epoch changes.
            return Verdict("wait", (), tuple(silent), f"engine {', '.join(silent)} has not answered yet")
        failed = sorted({e for s in inquiry.statuses.values() if s for e in s.failed_edges})
        for edge in failed:
            return self._avoid(group, edge, f"edge {edge} is in error", now, for_all=True)
        cell = max(0, report.delivered - granting.grant.resume)
        t = cell % len(trees)
        statuses = {engine: s for (tree, engine), s in inquiry.statuses.items() if tree == t}
        found = diagnose(trees[t], statuses, cell // len(trees))
        for edge in found.edges:
            if not inquiry.second and not final:
                return None
            return self._avoid(group, edge, found.text, now, for_all=True)
        if report.edge:
            text = f"rank {report.rank} reports edge {report.edge}: {report.what}"
            return self._avoid(group, report.edge, text, now, for_all=False)
        return self._silent_edge(group, inquiry, report, trees[t], found, now, final)

    def _silent_edge(
        self,
        group: Group,
        inquiry: _Inquiry,
        report: Report,
        plan: GroupPlan,
        found: Diagnosis,
        now: float,
        final: bool,
    ) -> Verdict | None:
        """No engine knows of an edge in error: ranks are late, or the edge of one loses what it sends or gets."""
        pulses = self._state.leases.members
        losing = [
            rank
            for rank in found.ranks
            if (pulse := pulses.get((group.name, rank))) and pulse.contributed > report.delivered
        ]
        if not found.ranks:
            pulse = pulses.get((group.name, report.rank))
            if pulse is not None and pulse.delivered > report.delivered:
                return Verdict("wait", (), (), found.text)
            losing = [report.rank]
        late = tuple(rank for rank in found.ranks if rank not in losing)
        if late or not losing:
            return Verdict("wait", late, (), found.text)
        if not inquiry.second and not final:
            return None
        edge = plan.ranks[losing[0]].edge.name
        return self._avoid(group, edge, f"edge {edge} loses what is sent: {found.text}", now, for_all=False)

    def _avoid(self, group: Group, edge: str, text: str, now: float, *, for_all: bool) -> Verdict:
        """A new epoch without the link of this edge."""
        state, link = self._state, self._link(group, edge)
        if link is not None:
            until = state.fleet.hold(link, now, "" if for_all else group.name)
            state.timers.set(("hold", link), until)
        about = {"edge": edge} | ({"link": link} if link is not None else {})
        self._groups.change(group, Reason.LINK_LOST, text, now, about=about)
        return Verdict("epoch", (), (edge,), text)

    def _link(self, group: Group, edge: str) -> str | None:
        """The link that an edge of a tree runs over."""
        members = self._state.book.members(group.name)
        for low, high in _ends(edge):
            rank = low[1:]
            if low.startswith("r") and rank.isdecimal() and int(rank) in members:
                low = members[int(rank)].host
            if f"{low}-{high}" in self._state.fabric.link_names:
                return f"{low}-{high}"
        return None

    def _on_hosts(self, group: Group, report: Report, now: float) -> Verdict:
        """No engine to ask: what members say of themselves, and the edge that one saw fail."""
        leases = self._state.leases.members
        if report.edge:
            cell, times = self._fruitless.get(group.name, (-1, 0))
            times = times + 1 if cell == group.resume else 1
            self._fruitless = {g: v for g, v in self._fruitless.items() if self._state.book.group(g)}
            self._fruitless[group.name] = group.resume, times
            text = f"rank {report.rank} reports edge {report.edge}: {report.what}"
            peers = [int(end[1:]) for ends in _ends(report.edge) for end in ends if end[1:].isdecimal()]
            gone = [
                peer for peer in peers if peer != report.rank and peer in self._state.book.members(group.name)
            ]
            if times > _FRUITLESS and gone:
                self._groups.lose(group, gone[:1], f"{text}, in {times} epochs without a result", now)
                return Verdict("lost", (gone[0],), (report.edge,), text)
            # New connections: one in error sends nothing more.
            self._groups.change(
                group, Reason.LINK_LOST, text, now, target="host", about={"edge": report.edge}
            )
            return Verdict("epoch", (), (report.edge,), text)
        late = tuple(
            member.rank
            for member in self._state.book.members(group.name).values()
            if member.state == JOINED
            and (pulse := leases.get((group.name, member.rank))) is not None
            and pulse.contributed <= report.delivered
        )
        ranks = ", ".join(map(str, late)) or "none"
        return Verdict("wait", late, (), f"cell {report.delivered}: ranks that have not contributed: {ranks}")


def _ends(edge: str) -> Iterator[tuple[str, str]]:
    """The ways to read `child-parent`: names of engines have no hyphen, those of hosts may."""
    parts = edge.split("-")
    for i in range(1, len(parts)):
        yield "-".join(parts[:i]), "-".join(parts[i:])
