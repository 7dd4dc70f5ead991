"""The manager: groups of jobs, their leases, and the engines' installs. Sans-I/O: time is an argument.

Every method that changes something is one change: the book is changed, groups take the steps that they can take, the
store is written in one transaction, and only then calls and events go out (store first). What fails changes nothing.
After any other error than RefusedError the manager refuses everything: start it again on its store.

Whoever drives it makes the calls of `take_calls` and hands their outcomes to `engine_done`, hands on the events of
`take_events`, and calls `poll` at `next_deadline`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from epic_host.fabric.agreement import host_terms
from epic_host.fabric.decision import Reason
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.topology import Fabric
from epic_host.manager import requests
from epic_host.manager.addresses import allocate, transport_of
from epic_host.manager.deadlines import SOON, Deadlines
from epic_host.manager.effects import Ended, EngineCall, Event, Granted, Lost, Outcome, Prepare, Verdict
from epic_host.manager.engines import Engines
from epic_host.manager.errors import (
    EPOCH,
    EXISTS,
    INVALID,
    NO_RESOURCE,
    NOT_FOUND,
    NOT_YOURS,
    STATE,
    STOPPING,
    WHO,
    RefusedError,
    refused,
)
from epic_host.manager.explain import Explainer, Explanation, GroupState, Topology
from epic_host.manager.faults import Faults
from epic_host.manager.groups import Groups, report_time
from epic_host.manager.leases import Beat, BeatAnswer, Notice
from epic_host.manager.paths import Paths
from epic_host.manager.records import (
    ABSENT,
    ACTIVE,
    CHANGING,
    ENDED,
    FORMING,
    JOINED,
    Group,
    Member,
    Node,
    Out,
)
from epic_host.manager.records import LOST as MEMBER_LOST
from epic_host.manager.settings import Settings
from epic_host.manager.state import State
from epic_host.manager.store import Store
from epic_spec.errors import ConfigError

log = logging.getLogger(__name__)

# So late the manager may be; beyond it, deadlines that others are to keep are moved.
_STALL: Final = 0.5
_OTHERS: Final = frozenset({"member", "forming", "report", "install", "freeing", "waiting", "call"})
# Characters of a text that a member sends.
_TEXT: Final = 256
# Cells are counted in 63 bits: what the store's integers have.
_COUNT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Joined:
    """What a member gets: its token, its address, the configuration of its transport, its lease in seconds."""

    token: str
    address: str
    transport: dict[str, object]
    lease: float
    world_size: int


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a survivor becomes: rank `rank` of `group`. New rank i is `survivors[i]` of the old group."""

    group: str
    join_token: str
    rank: int
    world_size: int
    survivors: tuple[int, ...]


class Core:
    """See the module. `now` in seconds, of one clock; `unix` is the wall-clock time at the first `now`."""

    def __init__(
        self,
        fabric: Fabric,
        store: Store,
        policy: str = "best_effort",
        *,
        placement: str = "heuristic",
        seed: bytes | None = None,
        now: float,
        unix: float = 0.0,
        settings: Settings | None = None,
    ) -> None:
        self._state = State(fabric, store, settings or Settings(), seed, now, unix)
        self._paths = Paths(self._state, policy, placement)
        self._groups = Groups(self._state, self._paths)
        self._engines = Engines(self._state, self._groups)
        self._faults = Faults(self._state, self._groups, self._engines)
        self._deadlines = Deadlines(self._state, self._groups, self._engines, self._faults, self._paths)
        self._explainer = Explainer(self._state, policy)
        self._calls: list[EngineCall] = []
        self._events: list[Event] = []
        self._broken: str | None = None
        self._forgiven = now
        with self._change(now):
            self._recover(now)

    # ----------------------------------------------------------------------------------------- changes

    @contextmanager
    def _change(self, now: float) -> Iterator[None]:
        """One change: all of it, or nothing."""
        if self._broken is not None:
            raise refused(STOPPING, self._broken)
        state = self._state
        try:
            yield
            self._settle(now)
            self._store()
        except BaseException as error:
            state.book.rollback()
            state.events.clear()
            state.outbox.calls.clear()
            state.touched.clear()
            state.recount()
            if not isinstance(error, RefusedError):
                # What is volatile may have gone half the way; what is in the store is whole.
                self._broken = f"the manager must be started again: {type(error).__name__}: {error}"
            raise
        self._release()

    def _store(self) -> None:
        self._state.book.commit()

    def _release(self) -> None:
        """Effects leave only after the store has what they rest on."""
        state = self._state
        state.log_decisions(state.events)
        self._events += state.events
        self._calls += state.outbox.calls
        state.events.clear()
        state.outbox.calls.clear()

    def _settle(self, now: float) -> None:
        state = self._state
        while state.touched:
            name = min(state.touched)
            state.touched.discard(name)
            self._groups.advance(name, now)
            self._faults.settle(name)
        self._engines.call_open(now)
        if state.room:
            # Groups that wait are looked at soon, once for much that became free together.
            state.timers.sooner(("policy",), now + SOON)

    def _recover(self, now: float) -> None:
        """After a start: what the store says is true; leases begin anew; every engine is looked at."""
        state = self._state
        for install in list(state.book.installs.values()):
            if install.engine in state.fleet.engines:
                continue
            # Not of this fabric any more: nobody can reach it, nobody counts on it.
            state.book.drop(install)
            self._groups.part_lost(install, Reason.ENGINE_LOST, f"engine {install.engine} was taken out", now)
        state.recount()
        for name in state.fleet.engines:
            self._engines.look(name, now)
        for node in state.book.nodes.values():
            state.leases.node(node.host, state.settings.node_lease, now)
        for quarantined in state.book.quarantine.values():
            state.timers.set(("quarantine", quarantined.address), now + state.settings.quarantine)
        for group in list(state.book.groups.values()):
            gone = set(group.request.hosts) - state.fabric.hosts.keys()
            if gone and group.state != ENDED:
                text = f"host {', '.join(sorted(gone))} is not of the fabric any more"
                self._groups.end(group, Reason.DESTROYED, text, now)
            self._resume_group(state.book.groups[group.key], now)
        state.timers.set(("policy",), now + state.settings.policy_interval)

    def _resume_group(self, group: Group, now: float) -> None:
        state, deadline = self._state, now + group.request.deadline
        for member in state.joined(group.name):
            self._renew(group, member.rank, now)
        if group.state == FORMING:
            state.timers.set(("forming", group.name), deadline)
        elif group.state == CHANGING:
            state.timers.set(("report", group.name), now + report_time(group))
            if group.placed:
                state.timers.set(("install", group.name), now + state.settings.install_timeout)
        elif group.state == ENDED:
            state.timers.set(("forget", group.name), now + state.settings.keep_ended)
        state.touched.add(group.name)

    # ------------------------------------------------------------------------------------------- nodes

    def register_node(self, host: str, mtu: int, version: str, *, now: float) -> float:
        """A host is there. `mtu`: bytes of the largest IP packet that its links carry, 0: not known. Returns its
        lease.
        """
        state = self._state
        if host not in state.fabric.hosts:
            raise refused(INVALID, f"host {host!r} is not of the fabric, expected one of its hosts")
        if mtu and not 112 <= mtu <= 0xFFFF:
            raise refused(INVALID, f"host {host}: mtu = {mtu}, expected 0 or 112 to 65535 bytes")
        with self._change(now):
            text = "".join(c for c in version[:64] if c.isprintable())
            node, known = Node(host, mtu, text), state.book.nodes.get((host,))
            if node != known:
                state.book.put(node)
                before = known.mtu if known is not None else 0
                if mtu != before and (
                    state.placing.narrower(host, mtu) or state.placing.narrower(host, before)
                ):
                    state.recount()
            state.leases.node(host, state.settings.node_lease, now)
        return state.settings.node_lease

    def heartbeat(self, host: str, beats: Sequence[Beat], *, job: str = "", now: float) -> BeatAnswer:
        """Renew the leases of a node ("": none) and of members."""
        self._forgive(now)
        state = self._state
        lease, notices = state.settings.node_lease, []
        known = (host,) in state.book.nodes
        if known:
            state.leases.node(host, lease, now)
        for beat in beats:
            group = state.book.group(beat.group)
            member = state.book.members(beat.group).get(beat.rank)
            if group is None or member is None or not self._is_member(group, member, beat.token, job):
                notices.append(Notice(beat.group, beat.rank, "gone"))
                continue
            if not self._renew(group, beat.rank, now, beat):
                notices.append(Notice(beat.group, beat.rank, "gone"))
                continue
            lease = min(lease, group.request.lease)
            if beat.epoch < group.epoch:
                notices.append(Notice(beat.group, beat.rank, "epoch", group.epoch))
        return BeatAnswer(lease, known, tuple(notices))

    def _renew(self, group: Group, rank: int, now: float, beat: Beat | None = None) -> bool:
        """The member was heard. False when its lease has ended before."""
        state, lease = self._state, group.request.lease
        pulse = state.leases.members.get((group.name, rank))
        if beat is not None and pulse is not None and pulse.until <= now:
            return False
        if beat is None:
            state.leases.renew(group.name, rank, lease, now)
        else:
            state.leases.beat(beat, lease, now)
        state.timers.set(("member", group.name, rank), now + lease)
        return True

    # ------------------------------------------------------------------------------------------ groups

    def create_group(
        self, request: GroupRequest, *, job: str = "", request_id: str = "", now: float
    ) -> tuple[str, str]:
        """A new group, or that of the same request before. Returns its name and the token to join it with."""
        known = self._of_request(job, request_id)
        if known is not None:
            wanted = replace(request, name=known.name) if not request.name else request
            if known.request != wanted:
                raise refused(
                    EXISTS, f"request {request_id!r} made group {known.name}, expected the same request again"
                )
            return known.name, self._join_token(known)
        with self._change(now):
            group = self._create(request, job, request_id, now)
        return group.name, self._join_token(group)

    def _create(self, request: GroupRequest, job: str, request_id: str, now: float) -> Group:
        state = self._state
        uid = state.book.draw("uid")
        if not request.name:
            request = replace(request, name=f"group-{uid}")
        requests.check(state.fabric, request, self._paths.policies)
        old = state.book.group(request.name)
        if old is not None and not (old.state == ENDED and (self._groups.forget(old.name, now))):
            raise refused(
                EXISTS,
                f"group {request.name} exists ({self._explainer.stage(old)}), expected another name, or to wait "
                f"until the leases of its members have ended ({old.request.lease:g} s)",
            )
        for host in dict.fromkeys(request.hosts):
            if state.leases.node_is_lost(host, now):
                raise refused(NO_RESOURCE, f"host {host} has gone silent, expected one that is up")
        group = Group(request.name, uid, job, request_id, request, state.unix(now))
        try:
            host_terms(state.placing.fabric, request)
        except ConfigError as error:
            raise refused(INVALID, str(error)) from None
        if request.path == "network" and state.fleet.settled(now):
            refusal = self._paths.refusal(group, now)
            if refusal is not None:
                raise refused(NO_RESOURCE, f"group {request.name}: {refusal.reason.value}: {refusal.text}")
        state.book.put(group)
        for rank, address in enumerate(allocate(state.fabric, request.hosts, state.book.has_address)):
            state.book.put(Member(group.name, rank, request.hosts[rank], address))
        state.timers.set(("forming", group.name), now + request.deadline)
        return group

    def _of_request(self, job: str, request_id: str) -> Group | None:
        if not request_id:
            return None
        groups = self._state.book.groups.values()
        return next((g for g in groups if g.job == job and g.request_id == request_id), None)

    def join(
        self, group: str, rank: int, join_token: str, incarnation: str, *, job: str = "", now: float
    ) -> Joined:
        """A process becomes a rank; the same process gets the same answer again."""
        found = self._group(group, job)
        if not self._state.tokens.is_token(join_token, "join", found.uid):
            raise refused(WHO, f"group {group}: not its join token")
        member = self._state.book.members(group).get(rank)
        if member is None:
            raise refused(
                INVALID, f"group {group}: rank = {rank}, expected 0 to {found.request.world_size - 1}"
            )
        if not incarnation or len(incarnation) > 128:
            raise refused(
                INVALID, f"group {group}: incarnation = {incarnation!r}, expected 1 to 128 characters"
            )
        if member.state == JOINED and member.incarnation != incarnation:
            raise refused(EXISTS, f"group {group}: rank {rank} is another process, which is alive")
        if member.state != JOINED and (found.state != FORMING or member.state != ABSENT):
            raise refused(
                STATE, f"group {group}: {found.state}, rank {rank} {member.state}: too late to join"
            )
        with self._change(now):
            if member.state != JOINED:
                member = self._state.book.put(replace(member, state=JOINED, incarnation=incarnation))
                self._state.touched.add(group)
            self._renew(found, rank, now)
        transport = transport_of(self._state.fabric, member.host, member.address)
        token = self._member_token(found, member)
        return Joined(token, member.address, transport, found.request.lease, found.request.world_size)

    def report_epoch(
        self, group: str, rank: int, token: str, epoch: int, delivered: int, *, job: str = "", now: float
    ) -> None:
        """A member is ready for an epoch, and has delivered so many cells in all epochs before."""
        found, member = self._member(group, rank, token, job)
        if epoch < found.epoch or found.state not in (CHANGING, ACTIVE):
            raise refused(EPOCH, f"group {group}: epoch = {epoch}, expected {found.epoch} ({found.state})")
        if epoch > found.epoch:
            raise refused(INVALID, f"group {group}: epoch = {epoch}, expected {found.epoch}")
        if not found.resume <= delivered < _COUNT:
            raise refused(
                INVALID,
                f"group {group}: delivered = {delivered}, expected at least {found.resume}, as before",
            )
        with self._change(now):
            self._renew(found, rank, now)
            if member.reported < epoch:
                self._state.book.put(replace(member, reported=epoch, delivered=delivered))
                self._state.touched.add(group)

    def report_fault(
        self,
        group: str,
        rank: int,
        token: str,
        epoch: int,
        delivered: int,
        edge: str,
        what: str,
        *,
        job: str = "",
        now: float,
    ) -> Verdict | int:
        """A member saw an edge in error, or ("") no result in time. A verdict, or a ticket for one (event Answered)."""
        found, _ = self._member(group, rank, token, job)
        if not 0 <= delivered < _COUNT:
            raise refused(INVALID, f"group {group}: delivered = {delivered}, expected 0 to 2^63 - 1")
        if len(edge) > _TEXT or not edge.isprintable():
            raise refused(INVALID, f"group {group}: edge = {edge[:80]!r}, expected child-parent or nothing")
        # One line, for it is logged.
        what = "".join(c if c.isprintable() else " " for c in what[:_TEXT])
        with self._change(now):
            self._renew(found, rank, now)
            return self._faults.report(found, rank, epoch, delivered, edge, what, now)

    def leave(self, group: str, rank: int, token: str, *, job: str = "", now: float) -> None:
        """A member is done; its address is free after the quarantine. The last one ends the group."""
        found, _ = self._member(group, rank, token, job)
        with self._change(now):
            self._groups.leave(found, rank, now)
            self._state.touched.add(group)

    def destroy(self, group: str, token: str, *, job: str = "", admin: bool = False, now: float) -> None:
        """End a group: by an admin, with the join token, or with a member's."""
        found = self._group(group, "" if admin else job)
        members = self._state.book.members(group).values()
        if (
            not admin
            and not self._state.tokens.is_token(token, "join", found.uid)
            and not any(self._is_member(found, member, token, job) for member in members)
        ):
            raise refused(WHO, f"group {group}: neither its join token nor a member's")
        with self._change(now):
            if found.state == ENDED:
                for member in self._state.joined(group):
                    self._groups.leave(found, member.rank, now)
            self._groups.end(found, Reason.DESTROYED, "destroyed by an admin" if admin else "destroyed", now)

    def shrink(self, group: str, rank: int, token: str, *, job: str = "", now: float) -> Shrunk:
        """The survivors of a group that ended become a new one; each asks, and all get the same answer."""
        found, _ = self._member(group, rank, token, job)
        if found.state != ENDED:
            raise refused(STATE, f"group {group}: {found.state}, expected one that has lost ranks")
        if not found.successor:
            with self._change(now):
                found = self._succeed(found, now)
        if rank not in found.survivors:
            raise refused(
                STATE, f"group {group}: rank {rank} is not of {found.successor}, which was made before"
            )
        successor = self._state.book.group(found.successor)
        if successor is None:
            raise refused(NOT_FOUND, f"group {found.successor}, which {group} became, has ended")
        return Shrunk(
            successor.name,
            self._join_token(successor),
            found.survivors.index(rank),
            len(found.survivors),
            found.survivors,
        )

    def _succeed(self, group: Group, now: float) -> Group:
        survivors = tuple(sorted(member.rank for member in self._state.joined(group.name)))
        base, _, number = group.name.rpartition("~")
        name = f"{base}~{int(number) + 1}" if base and number.isdecimal() else f"{group.name}~1"
        if self._state.book.group(name) is not None:
            name = f"{name}.{group.uid}"
        hosts = tuple(group.request.hosts[rank] for rank in survivors)
        request = replace(group.request, name=name, hosts=hosts)
        self._create(request, group.job, f"shrink:{group.uid}", now)
        return self._state.book.put(replace(group, successor=name, survivors=survivors))

    # -------------------------------------------------------------------------------------- who asks

    def _group(self, name: str, job: str) -> Group:
        group = self._state.book.group(name)
        if group is None:
            raise refused(NOT_FOUND, f"group {name!r} is not known, expected one that was created")
        if job and group.job != job:
            raise refused(NOT_YOURS, f"group {name} is another job's")
        return group

    def _member(self, name: str, rank: int, token: str, job: str) -> tuple[Group, Member]:
        """The group and member that a token is for; one that is lost or has left is told so."""
        group = self._group(name, job)
        member = self._state.book.members(name).get(rank)
        if member is None or not self._is_token(group, member, token):
            raise refused(WHO, f"group {name}: not the token of rank {rank}")
        if member.state != JOINED:
            raise refused(
                STATE, f"group {name}: rank {rank} is {member.state}, expected joined: {group.text}"
            )
        return group, member

    def _is_member(self, group: Group, member: Member, token: str, job: str) -> bool:
        mine = not job or group.job == job
        return mine and member.state == JOINED and self._is_token(group, member, token)

    def _is_token(self, group: Group, member: Member, token: str) -> bool:
        purpose = ("member", group.uid, member.rank, member.incarnation)
        return bool(member.incarnation) and self._state.tokens.is_token(token, *purpose)

    def _member_token(self, group: Group, member: Member) -> str:
        return self._state.tokens.token("member", group.uid, member.rank, member.incarnation)

    def _join_token(self, group: Group) -> str:
        return self._state.tokens.token("join", group.uid)

    # ----------------------------------------------------------------------------------------- looking

    def watch(self, group: str, rank: int, token: str, *, job: str = "", now: float) -> list[Event]:
        """What is true now for a member: what a stream of events begins with."""
        found = self._group(group, job)
        member = self._state.book.members(group).get(rank)
        if member is None or not self._is_token(found, member, token):
            raise refused(WHO, f"group {group}: not the token of rank {rank}")
        granting = self._state.book.granting(group)
        if found.state == ENDED:
            lost = [m.rank for m in self._state.book.members(group).values() if m.state == MEMBER_LOST]
            if found.reason == Reason.RANK_LOST.value:
                return [Lost(group, tuple(sorted(lost)), found.text)]
            return [Ended(group, found.reason, found.text)]
        if found.state == ACTIVE and granting is not None:
            return [Granted(group, granting.grant)]
        if found.state == CHANGING and found.epoch > 1:
            return [Prepare(group, found.epoch, found.reason, found.text)]
        return []

    def groups(self, now: float, job: str = "") -> list[GroupState]:
        """All groups, or those of a job, oldest first."""
        found = sorted(self._state.book.groups.values(), key=lambda group: group.uid)
        return [self._explainer.group(group, now) for group in found if not job or group.job == job]

    def explain(self, group: str, now: float, job: str = "") -> Explanation:
        """Why a group is as it is."""
        return self._explainer.explain(self._group(group, job), now)

    def topology(self, now: float) -> Topology:
        """Hosts, engines and links as they are."""
        return self._explainer.topology(now)

    def set_usable(self, *, engine: str = "", link: str = "", usable: bool, now: float) -> None:
        """An admin takes an engine or a link out of use, or into it again."""
        state = self._state
        if bool(engine) == bool(link):
            raise refused(INVALID, f"engine {engine!r}, link {link!r}: expected one of the two")
        if engine and engine not in state.fabric.engines:
            raise refused(NOT_FOUND, f"engine {engine!r} is not of the fabric")
        if link and link not in state.fabric.link_names:
            raise refused(NOT_FOUND, f"link {link!r} is not of the fabric, expected low-high")
        out = Out("engine", engine) if engine else Out("link", link)
        with self._change(now):
            if usable:
                state.book.drop(out)
                state.fleet.release(link)
                state.room = True
            else:
                state.book.put(out)
                self._take_out(out, now)

    def _take_out(self, out: Out, now: float) -> None:
        text = f"{out.kind} {out.name} was taken out of use"
        if out.kind == "engine":
            self._groups.engine_failed(out.name, Reason.ENGINE_LOST, text, now)
            return
        for group in list(self._state.book.groups.values()):
            if out.name in self._groups.links_of(group):
                self._groups.change(group, Reason.LINK_LOST, text, now, about={"link": out.name})

    # -------------------------------------------------------------------------------------------- time

    def engine_done(self, call: EngineCall, outcome: Outcome, now: float) -> None:
        """The outcome of a call; at any time, any number of times."""
        with self._change(now):
            self._engines.done(call, outcome, now)
            if call.kind == "status":
                self._faults.answered(call, outcome, now)

    def poll(self, now: float) -> None:
        """Do what is due."""
        self._forgive(now)
        with self._change(now):
            for name in self._state.timers.due(now):
                self._deadlines.ring(name, now)

    def _forgive(self, now: float) -> None:
        """What the manager did not run for is not counted against others: what they sent waits to be read."""
        due = self.next_deadline()
        late = 0.0 if due is None else now - max(due, self._forgiven)
        if late > _STALL:
            self._forgiven = now
            self._state.leases.extend(late)
            self._state.timers.delay(_OTHERS, late)
            log.warning("the manager did not run for %.1f s; leases and deadlines are moved by that", late)

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called."""
        return self._state.timers.next()

    def take_calls(self) -> list[EngineCall]:
        """Calls to make, each once."""
        taken, self._calls = self._calls, []
        return taken

    def take_events(self) -> list[Event]:
        """What has happened, in order."""
        taken, self._events = self._events, []
        return taken
