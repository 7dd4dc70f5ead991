"""The methods of `epic.v1.Manager`: who may, what is asked, the core's answer as a message, an error as code and word.

Everything runs in one event loop's thread, the core too; a method that waits (a watch, a verdict) holds nothing up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import grpc
import grpc.aio

from epic_host.manager import errors, messages
from epic_host.manager.access import Access
from epic_host.manager.effects import Decided, Event
from epic_host.manager.errors import RefusedError, refused
from epic_host.manager.leases import Beat
from epic_host.manager.messages import explanation_message, message, request_value
from epic_host.manager.runner import Runner
from epic_host.manager.watch import ALL, Watcher
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.security.roles import Caller, Role
from epic_host.security.server import REASON
from epic_spec.errors import ConfigError, EpicError, ResourceError

log = logging.getLogger(__name__)

T = TypeVar("T")

_CODES: Final[dict[str, grpc.StatusCode]] = {
    errors.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    errors.EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    errors.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    errors.NOT_YOURS: grpc.StatusCode.PERMISSION_DENIED,
    errors.WHO: grpc.StatusCode.UNAUTHENTICATED,
    errors.NO_RESOURCE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.RATE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.SLOW: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.STATE: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EPOCH: grpc.StatusCode.ABORTED,
    errors.STOPPING: grpc.StatusCode.UNAVAILABLE,
    errors.BUSY: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.FAILED: grpc.StatusCode.INTERNAL,
}
# Seconds that a verdict may take where the caller sets no deadline, and what part of a deadline it may take.
_VERDICT: Final = 5.0
_PATIENCE: Final = 0.8
# Characters of an error's text.
_TEXT: Final = 600


class Service:
    """The methods of the service; names are those of the .proto file."""

    def __init__(self, runner: Runner, access: Access) -> None:
        self._runner = runner
        self._core = runner.core
        self._access = access
        self._sequence = 0
        # Calls that ended, by method and code; those refused, by method and word; seconds spent, by method.
        self.calls: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    # ------------------------------------------------------------------------------------------------ nodes

    async def RegisterNode(self, request: pb.RegisterNodeRequest, context: Any) -> pb.RegisterNodeResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.RegisterNodeResponse:
            self._access.need_host(caller, request.host)
            lease = self._core.register_node(request.host, request.mtu, request.version, now=now)
            return pb.RegisterNodeResponse(lease=lease)

        return await self._run("RegisterNode", context, work)

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatResponse:  # noqa: N802
        beats = tuple(
            Beat(
                beat.group,
                beat.rank,
                beat.token,
                beat.epoch,
                beat.delivered,
                beat.contributed,
                beat.retransmissions,
                beat.payload_bytes,
            )
            for beat in request.members
        )

        def work(caller: Caller, now: float) -> pb.HeartbeatResponse:
            if caller.role is Role.NODE:
                self._access.need_host(caller, request.host)
                if beats:
                    raise refused(
                        errors.NOT_YOURS, f"members: {caller} may not, expected a certificate of their job"
                    )
            elif caller.role is Role.JOB and request.host:
                raise refused(
                    errors.NOT_YOURS,
                    f"host = {request.host!r}: {caller} may not, expected a node's certificate",
                )
            answer = self._core.heartbeat(request.host, beats, job=caller.job, now=now)
            return message(pb.HeartbeatResponse, answer)

        return await self._run("Heartbeat", context, work)

    # --------------------------------------------------------------------------------------------- members

    async def CreateGroup(self, request: pb.CreateGroupRequest, context: Any) -> pb.CreateGroupResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.CreateGroupResponse:
            group, join_token = self._core.create_group(
                request_value(request.spec), job=caller.job, request_id=request.request_id, now=now
            )
            return pb.CreateGroupResponse(group=group, join_token=join_token)

        return await self._run("CreateGroup", context, work)

    async def JoinGroup(self, request: pb.JoinGroupRequest, context: Any) -> pb.JoinGroupResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.JoinGroupResponse:
            joined = self._core.join(
                request.group, request.rank, request.join_token, request.incarnation, job=caller.job, now=now
            )
            return messages.joined_message(joined)

        return await self._run("JoinGroup", context, work)

    async def ReportEpoch(self, request: pb.ReportEpochRequest, context: Any) -> pb.ReportEpochResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.ReportEpochResponse:
            self._core.report_epoch(
                request.group,
                request.rank,
                request.token,
                request.epoch,
                request.delivered,
                job=caller.job,
                now=now,
            )
            return pb.ReportEpochResponse()

        return await self._run("ReportEpoch", context, work)

    async def ReportFault(self, request: pb.ReportFaultRequest, context: Any) -> pb.ReportFaultResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> Any:
            return self._core.report_fault(
                request.group,
                request.rank,
                request.token,
                request.epoch,
                request.delivered,
                request.edge,
                request.what,
                job=caller.job,
                now=now,
            )

        verdict = await self._run("ReportFault", context, work)
        if isinstance(verdict, int):
            remaining = context.time_remaining()
            timeout = _VERDICT if remaining is None else min(remaining * _PATIENCE, _VERDICT)
            try:
                verdict = await self._runner.verdict(verdict, timeout)
            except RefusedError as error:
                await self._abort("ReportFault", context, error)
        return message(pb.ReportFaultResponse, verdict)

    async def LeaveGroup(self, request: pb.LeaveGroupRequest, context: Any) -> pb.LeaveGroupResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.LeaveGroupResponse:
            self._core.leave(request.group, request.rank, request.token, job=caller.job, now=now)
            return pb.LeaveGroupResponse()

        return await self._run("LeaveGroup", context, work)

    async def DestroyGroup(self, request: pb.DestroyGroupRequest, context: Any) -> pb.DestroyGroupResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.DestroyGroupResponse:
            self._core.destroy(request.group, request.token, job=caller.job, admin=caller.admin, now=now)
            return pb.DestroyGroupResponse()

        return await self._run("DestroyGroup", context, work)

    async def ShrinkGroup(self, request: pb.ShrinkGroupRequest, context: Any) -> pb.ShrinkGroupResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.ShrinkGroupResponse:
            shrunk = self._core.shrink(request.group, request.rank, request.token, job=caller.job, now=now)
            return message(pb.ShrinkGroupResponse, shrunk)

        return await self._run("ShrinkGroup", context, work)

    # ----------------------------------------------------------------------------------------------- seeing

    async def ListGroups(self, request: pb.ListGroupsRequest, context: Any) -> pb.ListGroupsResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.ListGroupsResponse:
            seen = self._core.groups(now, caller.job)
            return pb.ListGroupsResponse(groups=[message(pb.GroupState, state) for state in seen])

        return await self._run("ListGroups", context, work)

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.ExplainResponse:
            return explanation_message(self._core.explain(request.group, now, caller.job))

        return await self._run("Explain", context, work)

    async def GetTopology(self, request: pb.GetTopologyRequest, context: Any) -> pb.Topology:  # noqa: N802
        return await self._run(
            "GetTopology", context, lambda caller, now: message(pb.Topology, self._core.topology(now))
        )

    async def Watch(self, request: pb.WatchRequest, context: Any) -> None:  # noqa: N802
        def work(caller: Caller, now: float) -> Watcher:
            def first() -> list[Event]:
                if request.group != ALL:
                    return list(
                        self._core.watch(request.group, request.rank, request.token, job=caller.job, now=now)
                    )
                self._access.need_admin(caller, "watch of the whole fabric")
                return self._newest_decisions(now)

            return self._runner.watchers.open(
                request.group, self._access.client(caller), first, bounded=caller.role is not None
            )

        watcher = await self._run("Watch", context, work)
        rank = None if request.group == ALL else request.rank
        try:
            async with asyncio.timeout(self._access.seconds_left(context)):
                await self._stream(watcher, rank, context)
        except RefusedError as error:
            why = error
        except TimeoutError:
            why = refused(errors.WHO, "watch: its certificate has ended, expected a new one; watch again")
        finally:
            self._runner.watchers.close(watcher)
        # Not before: a reader that does not read has this behind what it has not read, for as long as it likes.
        await self._abort("Watch", context, why)

    # ------------------------------------------------------------------------------------------------ admin

    async def SetUsable(self, request: pb.SetUsableRequest, context: Any) -> pb.SetUsableResponse:  # noqa: N802
        def work(caller: Caller, now: float) -> pb.SetUsableResponse:
            self._access.need_admin(caller, "use of engines and links")
            self._core.set_usable(engine=request.engine, link=request.link, usable=request.usable, now=now)
            return pb.SetUsableResponse()

        return await self._run("SetUsable", context, work)

    # ------------------------------------------------------------------------------------------- all methods

    async def malformed(self, method: str, context: Any) -> NoReturn:
        """A call of a method with bytes that are no message of its kind."""

        def work(caller: Caller, now: float) -> None:
            raise refused(
                errors.INVALID, f"{method}: the request cannot be read, expected the message of its kind"
            )

        await self._run(method, context, work)
        raise AssertionError("the call was refused")

    async def _run(self, method: str, context: Any, work: Callable[[Caller, float], T]) -> T:
        """The outcome of `work` for a caller who may; an error ends the call with its code and word."""
        started = time.perf_counter()
        try:
            caller = self._access.admit(method, context)
            outcome = self._runner.run(lambda now: work(caller, now))
        except RefusedError as error:
            await self._abort(method, context, error)
        except ConfigError as error:
            await self._abort(method, context, refused(errors.INVALID, str(error)))
        except ResourceError as error:
            await self._abort(method, context, refused(errors.NO_RESOURCE, str(error)))
        except EpicError as error:
            await self._abort(method, context, refused(errors.STATE, str(error)))
        except Exception:
            # A fault of the manager: told in its log, and no more of it to the caller than that.
            log.exception("manager: %s failed", method)
            await self._abort(
                method, context, refused(errors.FAILED, f"{method}: the manager failed, its log tells how")
            )
        self.seconds[method] += time.perf_counter() - started
        self.calls[method, "OK"] += 1
        return outcome

    async def _abort(self, method: str, context: Any, error: RefusedError) -> NoReturn:
        code = _CODES.get(error.reason, grpc.StatusCode.UNKNOWN)
        self.calls[method, code.name] += 1
        self.refusals[method, error.reason] += 1
        text = " ".join(str(error).split())
        # A caller's own words come back in it: no longer than metadata may be.
        text = text if len(text) <= _TEXT else f"{text[:_TEXT]}..."
        await context.abort(code, text, trailing_metadata=((REASON, error.reason),))
        raise AssertionError("abort returns never")

    async def _stream(self, watcher: Watcher, rank: int | None, context: Any) -> None:
        """Write what the watcher gets until the reader goes away; RefusedError when the stream is ended."""
        cut = asyncio.ensure_future(watcher.cut.wait())
        try:
            while True:
                event = await watcher.next()
                self._sequence += 1
                write = asyncio.ensure_future(
                    context.write(messages.event_message(self._sequence, event, rank))
                )
                await asyncio.wait({write, cut}, return_when=asyncio.FIRST_COMPLETED)
                if not write.done():
                    write.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await write
                    continue
                await write
        finally:
            cut.cancel()

    def _newest_decisions(self, now: float) -> list[Event]:
        newest: list[Event] = []
        for state in self._core.groups(now):
            decisions = self._core.explain(state.group, now).decisions
            newest += [Decided(state.group, decision) for decision in decisions[-1:]]
        return newest
