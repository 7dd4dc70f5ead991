"""The gRPC server of an engine: every request runs in the data-plane loop's thread, between two packets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn, Protocol, TypeVar

import grpc

from epic_host.control import messages
from epic_host.control.fence import (
    AlreadyInstalledError,
    Fence,
    FencedError,
    NotInstalledError,
    OtherInstanceError,
)
from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_host.proto.epic.v1 import engine_pb2_grpc
from epic_host.security.listen import claim
from epic_host.security.roles import ENGINE_ROLES
from epic_host.security.server import RoleInterceptor
from epic_host.security.tls import Tls
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import AbortedError, ConfigError, EpicError, ResourceError

# What a request without a deadline of its own waits for the loop.
DEFAULT_TIMEOUT: Final = 5.0
# What part of a client's deadline a request waits for the loop.
_PATIENCE: Final = 0.8
_WORKERS: Final = 4

T = TypeVar("T")


class ControlledEngine(Protocol):
    """What the server controls; the methods are called in the loop's thread only."""

    name: str
    engine_name: str

    def capabilities(self) -> EngineCapabilities:
        """What the engine offers."""

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError."""

    def remove(self, group: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""

    def status(self, group: int) -> GroupStatus:
        """State of a group. Raises ConfigError when it is not installed."""

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """Run `work` in the loop's thread. Raises its error, TimeoutError, or AbortedError at the end."""


class ControlServer:
    """Serves `epic.v1.Engine` on `address` from construction to `close`.

    `address` is `unix:/path` or `127.x.y.z:port`. With `tls` it may be any IPv4 address and port, and only a manager or
    an admin may call. Raises ConfigError for another address, or one in use.
    """

    def __init__(self, address: str, engine: ControlledEngine, tls: Tls | None = None) -> None:
        self._path = claim(address, "control", secure=tls is not None)
        # Without SO_REUSEPORT, so that a second server on the same port is an error and not a lottery.
        self._server = grpc.server(
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="control"),
            interceptors=[] if tls is None else [RoleInterceptor(ENGINE_ROLES, f"engine {engine.name}")],
            options=[("grpc.so_reuseport", 0)],
        )
        engine_pb2_grpc.add_EngineServicer_to_server(_Servicer(engine), self._server)  # type: ignore[no-untyped-call]
        try:
            if tls is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, tls.server_credentials())
        except RuntimeError:
            raise ConfigError(f"control: address {address} cannot be bound, expected a free one") from None
        self._server.start()

    def close(self) -> None:
        """Stop serving, giving running requests a moment to end, and remove the socket file."""
        self._server.stop(grace=0.2).wait(1.0)
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _Servicer(engine_pb2_grpc.EngineServicer):
    """The methods of the service; names are those of the .proto file."""

    def __init__(self, engine: ControlledEngine) -> None:
        self._engine = engine
        self._fence = Fence(engine)

    def Health(self, request: pb.HealthRequest, context: grpc.ServicerContext) -> pb.HealthResponse:  # noqa: N802
        groups = self._run(context, self._engine.groups)
        return pb.HealthResponse(name=self._engine.name, engine=self._engine.engine_name, groups=groups)

    def GetCapabilities(  # noqa: N802
        self, request: pb.GetCapabilitiesRequest, context: grpc.ServicerContext
    ) -> pb.Capabilities:
        return messages.capabilities_message(self._run(context, self._engine.capabilities))

    def InstallGroup(  # noqa: N802
        self, request: pb.InstallGroupRequest, context: grpc.ServicerContext
    ) -> pb.InstallGroupResponse:
        def install() -> None:
            self._fence.install(messages.group_value(request.group), request.instance)

        self._run(context, install)
        return pb.InstallGroupResponse(instance=self._fence.instance)

    def RemoveGroup(  # noqa: N802
        self, request: pb.RemoveGroupRequest, context: grpc.ServicerContext
    ) -> pb.RemoveGroupResponse:
        epoch = request.epoch if request.HasField("epoch") else None
        self._run(context, lambda: self._fence.remove(request.group, epoch))
        return pb.RemoveGroupResponse(instance=self._fence.instance)

    def GetInstalled(self, request: pb.GetInstalledRequest, context: grpc.ServicerContext) -> pb.Installed:  # noqa: N802
        entries = self._run(context, self._fence.installed)
        return pb.Installed(
            name=self._engine.name,
            engine=self._engine.engine_name,
            instance=self._fence.instance,
            groups=[pb.InstalledGroup(group=group, epoch=epoch) for group, epoch in entries],
            highest=self._fence.highest,
        )

    def GetStatus(self, request: pb.GetStatusRequest, context: grpc.ServicerContext) -> pb.GroupStatus:  # noqa: N802
        status = self._run(context, lambda: self._engine.status(self._known(request.group)))
        return messages.status_message(status)

    def GetCounters(self, request: pb.GetCountersRequest, context: grpc.ServicerContext) -> pb.Counters:  # noqa: N802
        return pb.Counters(counters=self._run(context, self._engine.counters))

    def _known(self, group: int) -> int:
        if group not in self._engine.groups():
            raise NotInstalledError(
                f"group {group}: not installed, expected one of {sorted(self._engine.groups())}"
            )
        return group

    def _run(self, context: grpc.ServicerContext, work: Callable[[], T]) -> T:
        """The outcome of `work`; an error ends the call with its status code and reason."""
        remaining = context.time_remaining()
        # Gives up before the client does, so that no client is told of a timeout whose request then runs all the same.
        timeout = DEFAULT_TIMEOUT if remaining is None else min(remaining * _PATIENCE, DEFAULT_TIMEOUT)
        try:
            return self._engine.call(work, timeout)
        except Exception as error:
            for kind, code, reason in _STATUS:
                if isinstance(error, kind):
                    _abort(context, code, reason, str(error))
            raise


# The first row whose kind fits.
_STATUS: Final[tuple[tuple[type[Exception], Any, str], ...]] = (
    (AlreadyInstalledError, grpc.StatusCode.ALREADY_EXISTS, "already_installed"),
    (NotInstalledError, grpc.StatusCode.NOT_FOUND, "not_installed"),
    (FencedError, grpc.StatusCode.FAILED_PRECONDITION, "fenced"),
    (OtherInstanceError, grpc.StatusCode.FAILED_PRECONDITION, "other_instance"),
    (ConfigError, grpc.StatusCode.INVALID_ARGUMENT, "invalid"),
    (ResourceError, grpc.StatusCode.RESOURCE_EXHAUSTED, "no_resource"),
    (AbortedError, grpc.StatusCode.UNAVAILABLE, "stopping"),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED, "busy"),
    # A driver whose device refuses or does not answer says so in one line.
    (EpicError, grpc.StatusCode.INTERNAL, "failed"),
)


def _abort(context: grpc.ServicerContext, code: Any, reason: str, details: str) -> NoReturn:
    context.set_trailing_metadata((("epic-reason", reason),))
    context.abort(code, details)
    raise AssertionError("abort returns never")
