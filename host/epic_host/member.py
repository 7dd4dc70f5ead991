"""One rank's membership of a group at the manager: joining, signs of life, changes of epoch, faults, leaving.

The data path does not need the manager: while it is away, collectives go on, and signs of life, reports and the
watch are tried again until it is back. It counts leases from its restart. What a rank cannot have meanwhile is
another path: if its own stops then, it waits for the manager as long as its patience lasts (see `epoch_runtime`).
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from epic_host.agents import GrantAgent, check_transport, make_agents
from epic_host.epoch_agent import EpochAgent
from epic_host.epoch_runtime import EpochRuntime
from epic_host.grants import Grant
from epic_host.manager import errors
from epic_host.manager.client import ManagerClient
from epic_host.manager.errors import ManagerUnreachableError, RefusedError
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.security.tls import Tls
from epic_host.transport import Transport
from epic_models.reference.interfaces import Agent
from epic_spec.errors import AbortedError, ConfigError, DeadlineError, EpicError, PeerLostError

log = logging.getLogger(__name__)

# Signs of life in a lease.
BEATS: Final = 3
# Leases after which a manager that was away knows again who is lost.
_SURE_LEASES: Final = 1.5
# A call to the manager takes no longer than a lease, nor less than this.
_LEAST_TIMEOUT: Final = 1.0
_RETRY: Final = 0.1
_LEAVE_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 2.0
_KEPT_DECISIONS: Final = 64
# Refusals that say nothing about the request.
_AGAIN: Final = (errors.RATE, errors.BUSY, errors.STOPPING, errors.SLOW, errors.FAILED)


def create_group(
    manager: str,
    *,
    hosts: Sequence[str],
    name: str = "",
    credentials: Tls | None = None,
    timeout: float = 10.0,
    **request: Any,
) -> tuple[str, str]:
    """Create a group whose rank r is on `hosts[r]`; its name, and the token with which its ranks join.

    `name`: "" lets the manager choose one. `request` has fields of `epic_host.fabric.request.GroupRequest`, such as
    `modes`, `datatypes`, `path`, `deadline`; None is as if it were not said. `timeout` in seconds bounds the wait
    for a manager that is just being started.

    Raises ConfigError for a field that there is not or that cannot be, ResourceError when path = "network" cannot
    be had, RefusedError as the manager refuses, ManagerUnreachableError.
    """
    known = set(pb.GroupSpec.DESCRIPTOR.fields_by_name) - {"name", "hosts"}
    for field in request:
        if field not in known:
            raise ConfigError(f"group: unknown field {field!r}, expected some of {', '.join(sorted(known))}")
    said = {field: value for field, value in request.items() if value is not None}
    try:
        spec = pb.GroupSpec(name=name, hosts=list(hosts), **said)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"group: {error}, expected fields as of GroupRequest") from None
    with ManagerClient(manager, credentials, timeout, patient=True) as client:
        answer = client.create_group(spec=spec, request_id=secrets.token_hex(8))
    return answer.group, answer.join_token


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that this rank took part in: where it began, its path, and why. `after` in seconds since joining."""

    epoch: int
    path: str
    resume: int
    reason: str
    after: float

    @classmethod
    def of(cls, grant: Grant, after: float) -> Epoch:
        """What a grant says."""
        return cls(grant.epoch, path_of(grant), grant.resume, grant.reason, round(after, 3))


def path_of(grant: Grant) -> str:
    """ "network" or "host"."""
    return "network" if grant.host is None else "host"


class Member:
    """A rank that has joined. `follow` ties it to its runtime; `leave` ends it."""

    def __init__(self, client: ManagerClient, group: str, rank: int, join_token: str, timeout: float) -> None:
        """Joins, trying for `timeout` seconds to reach the manager. Raises RefusedError, ManagerUnreachableError."""
        self.client = client
        self.group = group
        self.rank = rank
        self.began = time.monotonic()
        self._closed = threading.Event()
        # One for all attempts: an answer that came too late was to this process.
        incarnation = secrets.token_hex(8)
        answer: pb.JoinGroupResponse = self._persist(
            lambda: client.join_group(group=group, rank=rank, join_token=join_token, incarnation=incarnation),
            self.began + timeout,
        )
        self.token = answer.token
        self.lease = answer.lease
        self.world_size = answer.world_size
        self.transport: dict[str, Any] = json.loads(answer.transport)
        self.address = answer.address
        client.timeout = max(_LEAST_TIMEOUT, answer.lease)
        self.epochs: list[Epoch] = []
        self.decisions: deque[str] = deque(maxlen=_KEPT_DECISIONS)
        self.lost: tuple[int, ...] = ()
        self.grant: Grant | None = None
        self._runtime: EpochRuntime | None = None
        self._transport: Transport | None = None
        self._made: Callable[[Grant, Agent], None] = lambda grant, agent: None
        self._datapath = "reference"
        self._settled = threading.Event()
        self._away = float("-inf")
        self._threads: list[threading.Thread] = []

    def follow(
        self,
        runtime: EpochRuntime,
        transport: Transport,
        made: Callable[[Grant, Agent], None],
        datapath: str = "reference",
    ) -> None:
        """Keep the lease, and let `runtime` follow the manager. `made` hears of each epoch's agent before it begins.

        `datapath` is that of the agents.
        """
        self._runtime, self._transport, self._made, self._datapath = runtime, transport, made, datapath
        self._stream = self.client.watch(
            group=self.group, rank=self.rank, token=self.token, patience=float("inf")
        )
        for what, work in (("watch", self._watch), ("beat", self._beat)):
            thread = threading.Thread(target=work, name=f"epic {what} {self.group}/{self.rank}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def first_grant(self, timeout: float) -> Grant:
        """Wait for the first epoch.

        Raises DeadlineError saying what the group waits for, or what ended the group.
        """
        if not self._settled.wait(timeout):
            raise DeadlineError(f"group {self.group}: no path within {timeout:g} s, {self._waits_for()}")
        assert self._runtime is not None
        if self._runtime.failure is not None:
            raise self._runtime.failure.with_traceback(None)
        assert self.grant is not None
        return self.grant

    def leave(self) -> None:
        """Tell the manager, if it is there, and end the threads. More than one call is allowed."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._threads:
            self._stream.close()
        self.client.timeout = _LEAVE_SECONDS
        try:
            self.client.leave_group(group=self.group, rank=self.rank, token=self.token)
        except EpicError as error:
            # Its lease will end.
            log.debug("leaving %s: %s", self.group, error)
        self.client.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)

    def sure(self) -> bool:
        """Whether the manager has answered all of the last lease and a half: then it knows which ranks are lost."""
        return time.monotonic() - self._away > _SURE_LEASES * self.lease

    def report_fault(self, edge: str, what: str) -> pb.ReportFaultResponse | None:
        """The manager's verdict, None where it gave none."""
        epochs = self._epochs()
        try:
            return self.client.report_fault(
                group=self.group, rank=self.rank, token=self.token,
                epoch=epochs.epoch, delivered=epochs.delivered, edge=edge, what=what,
            )  # fmt: skip
        except EpicError as error:
            self._missed("fault report", error)
            return None

    def shrink(self, timeout: float) -> pb.ShrinkGroupResponse:
        """The survivors' group; as long as the manager does not hold any rank to be lost it is asked again.

        Raises RefusedError, ManagerUnreachableError after `timeout` seconds.
        """
        answer: pb.ShrinkGroupResponse = self._persist(
            lambda: self.client.shrink_group(group=self.group, rank=self.rank, token=self.token),
            time.monotonic() + timeout,
            (*_AGAIN, errors.STATE),
        )
        return answer

    # ---------------------------------------------------------------------- threads

    def _watch(self) -> None:
        try:
            for event in self._stream:
                self._take(event)
        except EpicError as error:
            self._fail(error)
        except Exception as error:
            log.exception("watch of group %s", self.group)
            self._fail(EpicError(f"group {self.group}: what the manager sent cannot be used: {error!r}"))

    def _take(self, event: pb.WatchEvent) -> None:
        kind = event.WhichOneof("what")
        assert self._runtime is not None
        if kind == "prepare":
            self._prepare(event.prepare.epoch)
        elif kind == "granted":
            self._granted(Grant.from_dict(json.loads(event.granted.grant)))
        elif kind == "lost":
            self.lost = tuple(event.lost.ranks)
            self._fail(PeerLostError(event.lost.text, self.lost))
        elif kind == "ended":
            self._fail(
                AbortedError(f"group {self.group} has ended ({event.ended.reason}): {event.ended.text}")
            )
        elif kind == "decision":
            self.decisions.append(event.decision)

    def _prepare(self, epoch: int) -> None:
        assert self._runtime is not None
        delivered = self._runtime.prepare(epoch)
        if delivered is None:
            return
        try:
            self._persist(
                lambda: self.client.report_epoch(
                    group=self.group, rank=self.rank, token=self.token, epoch=epoch, delivered=delivered
                ),
                float("inf"),
            )
        except RefusedError as error:
            # The group is somewhere else by now; the watch says where.
            if error.reason not in (errors.EPOCH, errors.STATE):
                raise

    def _granted(self, grant: Grant) -> None:
        assert self._runtime is not None
        assert self._transport is not None
        epochs = self._runtime.epochs
        if grant.epoch < epochs.epoch or (grant.epoch == epochs.epoch and epochs.agent is not None):
            return
        if self.grant is not None:
            _check_same(self.grant, grant)
        check_transport(grant, self.rank, self._transport)
        agent: GrantAgent = make_agents(grant, self.rank, self._datapath)
        self._made(grant, agent)
        params = grant.params
        self._runtime.resume(grant.epoch, agent, grant.resume, params.window, params.deadline_us * 1e-6)
        self.epochs.append(Epoch.of(grant, time.monotonic() - self.began))
        self.grant = grant
        self._settled.set()

    def _beat(self) -> None:
        while not self._closed.wait(self.lease / BEATS):
            try:
                answer = self.client.heartbeat(members=[self._sign()])
            except EpicError as error:
                # Away, or busy: the next one is soon.
                self._missed("heartbeat", error)
                continue
            if any(notice.what == "gone" for notice in answer.notices):
                text = f"group {self.group}: the manager does not know rank {self.rank} any more"
                self._fail(AbortedError(f"{text}: its lease ended, or the group"))
                return

    def _sign(self) -> pb.MemberBeat:
        epochs = self._epochs()
        return pb.MemberBeat(
            group=self.group,
            rank=self.rank,
            token=self.token,
            epoch=max(0, epochs.epoch),
            delivered=epochs.delivered,
            contributed=epochs.contributed,
            retransmissions=epochs.counters().get("tx_retransmission", 0),
            payload_bytes=epochs.payload_bytes,
        )

    # ---------------------------------------------------------------------- inside

    def _missed(self, what: str, error: EpicError) -> None:
        self._away = time.monotonic()
        log.debug("%s of group %s, rank %d: %s", what, self.group, self.rank, error)

    def _epochs(self) -> EpochAgent:
        assert self._runtime is not None
        return self._runtime.epochs

    def _fail(self, error: EpicError) -> None:
        if self._runtime is not None:
            self._runtime.fail(error)
        self._settled.set()

    def _persist(self, ask: Callable[[], Any], until: float, again: tuple[str, ...] = _AGAIN) -> Any:
        """The answer of the manager, as often as it takes. Raises the last error at the time `until`."""
        while True:
            try:
                return ask()
            except EpicError as error:
                passing = isinstance(error, ManagerUnreachableError) or (
                    isinstance(error, RefusedError) and error.reason in again
                )
                if not passing or time.monotonic() + _RETRY >= until:
                    raise
                if self._closed.wait(_RETRY):
                    raise AbortedError(f"group {self.group}: this rank has left") from None

    def _waits_for(self) -> str:
        try:
            found = self.client.explain(group=self.group)
        except EpicError as error:
            return f"and nobody says why: {error}"
        return f"it waits for {', '.join(found.waits_for) or 'nothing that it names'} ({found.group.text})"


def _check_same(before: Grant, now: Grant) -> None:
    """Refuse an epoch whose cells would be others. Raises EpicError."""
    for name in (
        "world_size",
        "cell_bytes",
        "byte_order",
        "datatypes",
        "operators",
        "partial_format",
        "ordered",
    ):
        old, new = getattr(before.params, name), getattr(now.params, name)
        if old != new:
            raise EpicError(
                f"group {now.group}, epoch {now.epoch}: {name} = {new!r}, expected {old!r} as in the epochs before"
            )


def check_host(client: ManagerClient, group: str, rank: int, host: str) -> None:
    """Refuse to be a rank that the group has on another host than `host`. Raises ConfigError."""
    for member in client.explain(group=group).group.members:
        if member.rank == rank and member.host != host:
            raise ConfigError(
                f"host = {host!r} for rank {rank} of group {group}, expected {member.host!r} as it was created"
            )
