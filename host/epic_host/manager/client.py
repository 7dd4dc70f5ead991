"""Client of the manager: one method an RPC, EPIC's errors, a deadline on every call, a watch that reconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

# Before grpc: it sets what grpc prints.
import epic_host.control  # noqa: F401  # isort: skip
import grpc

from epic_host.manager import errors
from epic_host.manager.errors import ManagerUnreachableError, refused
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.proto.epic.v1 import manager_pb2_grpc
from epic_host.security.tls import Tls, open_channel
from epic_spec.errors import EpicError

# Metadata with which an admin is known where there are no certificates.
ADMIN_TOKEN: Final = "epic-admin-token"  # noqa: S105 (the name, not a token)
# Seconds between attempts to reach a manager that is away.
_RETRY: Final = 0.1
# A manager may be restarted: try again soon. A peer whose machine is gone is noticed within two keepalives.
_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 3000),
    # A channel of its own, not one shared with other clients of the process: closing it closes the connection.
    ("grpc.use_local_subchannel_pool", 1),
)


class ManagerClient:
    """Calls the manager at `address` (`unix:/path`, `127.x.y.z:port`, others with `credentials`).

    `timeout` in seconds bounds each call. A `patient` client waits that long for a manager that is being restarted, and
    asks again where a connection broke: every request may be made twice with the same effect. `admin_token` is what an
    admin shows where there are no certificates.

    Methods take the fields of the request's message and give the answer's message. They raise RefusedError (of which
    InvalidRequestError is a ConfigError, NoResourceError a ResourceError) with the manager's word as `reason`, and
    ManagerUnreachableError when no answer came. From any thread.
    """

    def __init__(
        self,
        address: str,
        credentials: Tls | None = None,
        timeout: float = 5.0,
        *,
        patient: bool = False,
        admin_token: str | None = None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._patient = patient
        self._metadata = () if admin_token is None else ((ADMIN_TOKEN, admin_token),)
        self._channel = open_channel(address, credentials, "manager", options=_OPTIONS)
        self._stub: Any = manager_pb2_grpc.ManagerStub(self._channel)  # type: ignore[no-untyped-call]

    def register_node(self, *, host: str, mtu: int = 0, version: str = "") -> pb.RegisterNodeResponse:
        """Register a host; its lease."""
        request = pb.RegisterNodeRequest(host=host, mtu=mtu, version=version)
        return self._call(self._stub.RegisterNode, request)  # type: ignore[no-any-return]

    def heartbeat(self, *, host: str = "", members: Iterable[pb.MemberBeat] = ()) -> pb.HeartbeatResponse:
        """Keep the leases of a node and of members."""
        return self._call(self._stub.Heartbeat, pb.HeartbeatRequest(host=host, members=members))  # type: ignore[no-any-return]

    def create_group(self, *, spec: pb.GroupSpec, request_id: str = "") -> pb.CreateGroupResponse:
        """Ask for a group; its name and what members show to join."""
        request = pb.CreateGroupRequest(spec=spec, request_id=request_id)
        return self._call(self._stub.CreateGroup, request)  # type: ignore[no-any-return]

    def join_group(
        self, *, group: str, rank: int, join_token: str, incarnation: str = ""
    ) -> pb.JoinGroupResponse:
        """Join a group as one of its ranks."""
        request = pb.JoinGroupRequest(group=group, rank=rank, join_token=join_token, incarnation=incarnation)
        return self._call(self._stub.JoinGroup, request)  # type: ignore[no-any-return]

    def report_epoch(
        self, *, group: str, rank: int, token: str, epoch: int, delivered: int
    ) -> pb.ReportEpochResponse:
        """Say what is delivered, at the change of an epoch."""
        request = pb.ReportEpochRequest(group=group, rank=rank, token=token, epoch=epoch, delivered=delivered)
        return self._call(self._stub.ReportEpoch, request)  # type: ignore[no-any-return]

    def report_fault(
        self,
        *,
        group: str,
        rank: int,
        token: str,
        epoch: int,
        delivered: int,
        edge: str = "",
        what: str = "",
    ) -> pb.ReportFaultResponse:
        """Say that an edge is in error or that no result came; the manager's verdict."""
        request = pb.ReportFaultRequest(
            group=group, rank=rank, token=token, epoch=epoch, delivered=delivered, edge=edge, what=what
        )
        return self._call(self._stub.ReportFault, request)  # type: ignore[no-any-return]

    def leave_group(self, *, group: str, rank: int, token: str) -> pb.LeaveGroupResponse:
        """Leave a group."""
        request = pb.LeaveGroupRequest(group=group, rank=rank, token=token)
        return self._call(self._stub.LeaveGroup, request)  # type: ignore[no-any-return]

    def destroy_group(self, *, group: str, token: str = "") -> pb.DestroyGroupResponse:
        """End a group."""
        return self._call(self._stub.DestroyGroup, pb.DestroyGroupRequest(group=group, token=token))  # type: ignore[no-any-return]

    def shrink_group(self, *, group: str, rank: int, token: str) -> pb.ShrinkGroupResponse:
        """The group of the survivors."""
        request = pb.ShrinkGroupRequest(group=group, rank=rank, token=token)
        return self._call(self._stub.ShrinkGroup, request)  # type: ignore[no-any-return]

    def list_groups(self) -> pb.ListGroupsResponse:
        """The groups that the caller may see."""
        return self._call(self._stub.ListGroups, pb.ListGroupsRequest())  # type: ignore[no-any-return]

    def explain(self, *, group: str) -> pb.ExplainResponse:
        """Why a group is as it is."""
        return self._call(self._stub.Explain, pb.ExplainRequest(group=group))  # type: ignore[no-any-return]

    def get_topology(self) -> pb.Topology:
        """Hosts, engines and links, with what is given away of them."""
        return self._call(self._stub.GetTopology, pb.GetTopologyRequest())  # type: ignore[no-any-return]

    def set_usable(self, *, engine: str = "", link: str = "", usable: bool) -> pb.SetUsableResponse:
        """Take an engine or a link out of use, or into it again."""
        request = pb.SetUsableRequest(engine=engine, link=link, usable=usable)
        return self._call(self._stub.SetUsable, request)  # type: ignore[no-any-return]

    def watch(
        self, *, group: str = "", rank: int = 0, token: str = "", patience: float = 30.0
    ) -> WatchStream:
        """Events of a group for its member, or of the whole fabric for an admin; see WatchStream."""
        request = pb.WatchRequest(group=group, rank=rank, token=token)
        return WatchStream(self, self._stub.Watch, request, patience)

    def close(self) -> None:
        """Close the connection; streams of `watch` end."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        end = time.monotonic() + self.timeout
        while True:
            try:
                return method(
                    request,
                    timeout=max(end - time.monotonic(), 0.001),
                    metadata=self._metadata,
                    wait_for_ready=self._patient,
                )
            except grpc.RpcError as error:
                if not self._patient or not _away(error) or time.monotonic() + _RETRY >= end:
                    raise self._error(error) from None
            except ValueError:  # what a closed channel says
                raise ManagerUnreachableError(f"manager at {self.address}: this client is closed") from None
            time.sleep(_RETRY)

    def _error(self, error: Any) -> EpicError:
        """EPIC's error for a status code and reason."""
        reason = _reason(error)
        if reason:
            return refused(reason, f"manager at {self.address}: {error.details()}")
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            what = f"no answer within {self.timeout:g} s"
        else:
            what = f"{error.code().name.lower()} ({_short(error.details())}), expected a running manager"
        return ManagerUnreachableError(f"manager at {self.address}: {what}")


class WatchStream:
    """The events of a watch, in order, over as many connections as it takes.

    A new connection begins with what is true now: an event may come again. Iteration ends after `ended`, and after
    `close` (from any thread); it raises ManagerUnreachableError when there was no connection for `patience` seconds,
    and RefusedError when the manager refuses the watch.
    """

    def __init__(self, client: ManagerClient, method: Any, request: pb.WatchRequest, patience: float) -> None:
        self._client = client
        self._method = method
        self._request = request
        self._patience = patience
        self._lock = threading.Lock()
        self._call: Any = None
        self._closed = threading.Event()
        self._over = False
        self._lost_at = time.monotonic()
        self.connections = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pb.WatchEvent:
        while not self._closed.is_set() and not self._over:
            try:
                call = self._connected()
                event: pb.WatchEvent = next(call)
            except StopIteration:
                # The manager closes a stream without `ended` when it stops.
                self._dropped(None)
            except grpc.RpcError as error:
                self._dropped(error)
            except ValueError:  # what a closed channel says
                break
            else:
                self._lost_at = time.monotonic()
                self._over = bool(self._request.group) and event.WhichOneof("what") == "ended"
                return event
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed.set()
        with self._lock:
            if self._call is not None:
                self._call.cancel()

    def _connected(self) -> Any:
        with self._lock:
            if self._call is None:
                # What `close` has set before this is seen by the loop: it cancels or is seen.
                self._call = self._method(
                    self._request, metadata=self._client._metadata, wait_for_ready=False
                )
                self.connections += 1
                if self._closed.is_set():
                    self._call.cancel()
            return self._call

    def _dropped(self, error: Any) -> None:
        """Prepare the next attempt, or raise."""
        with self._lock:
            self._call = None
        if self._closed.is_set():
            return
        if error is not None and not _away(error) and _reason(error) not in _AGAIN:
            raise self._client._error(error) from None
        if time.monotonic() - self._lost_at > self._patience:
            raise ManagerUnreachableError(
                f"manager at {self._client.address}: no connection for {self._patience:g} s, "
                "expected a running manager"
            )
        self._closed.wait(_RETRY)


# A stream that was cut for these is opened again.
_AGAIN: Final = (errors.SLOW, errors.RATE, errors.BUSY, errors.STOPPING)


def _reason(error: Any) -> str:
    return str(dict(error.trailing_metadata() or ()).get("epic-reason", ""))


def _away(error: Any) -> bool:
    """Whether the manager is not there (being restarted, or the connection broke)."""
    return error.code() is grpc.StatusCode.UNAVAILABLE


def _short(details: str | None) -> str:
    """The first words of gRPC's own text, which can be long."""
    text = " ".join((details or "no details").split())
    return text if len(text) <= 120 else f"{text[:117]}..."
