"""The gRPC server of an engine: every request runs in the data-plane loop's thread, between two packets."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar

import grpc

from epic_host.control import messages
from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_host.proto.epic.v1 import engine_pb2_grpc
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import AbortedError, ConfigError, EpicError, ResourceError

# What a request without a deadline of its own waits for the loop.
DEFAULT_TIMEOUT: Final = 5.0
# What part of a client's deadline a request waits for the loop.
_PATIENCE: Final = 0.8
_WORKERS: Final = 4
# Bytes of sun_path, less the terminating zero.
_UNIX_PATH_LIMIT: Final = 107

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

    `address` is `unix:/path` or `127.x.y.z:port`. Raises ConfigError when it is neither, or in use.
    """

    def __init__(self, address: str, engine: ControlledEngine) -> None:
        self._path = _claim(address)
        # Without SO_REUSEPORT, so that a second server on the same port is an error and not a lottery.
        self._server = grpc.server(
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="control"), options=[("grpc.so_reuseport", 0)]
        )
        engine_pb2_grpc.add_EngineServicer_to_server(_Servicer(engine), self._server)  # type: ignore[no-untyped-call]
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            raise ConfigError(f"control: address {address} cannot be bound, expected a free one") from None
        self._server.start()

    def close(self) -> None:
        """Stop serving, giving running requests a moment to end, and remove the socket file."""
        self._server.stop(grace=0.2).wait(1.0)
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _claim(address: str) -> Path | None:
    """Check an address; the socket file that it names, freed when a killed process left it behind."""
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        try:
            if ipaddress.IPv4Address(host).is_loopback and 0 < int(port) < 65536:
                return None
        except ValueError:
            pass
        raise ConfigError(f"control: address {address!r}, expected unix:/path or 127.x.y.z:port")
    path = Path(address.removeprefix("unix:"))
    if not path.is_absolute() or len(str(path)) > _UNIX_PATH_LIMIT:
        raise ConfigError(
            f"control: path {path}, expected an absolute one of at most {_UNIX_PATH_LIMIT} bytes"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"control: folder {path.parent} does not exist, expected one for the socket")
    if path.exists() and not path.is_socket():
        raise ConfigError(f"control: {path} is not a socket, expected a free path")
    if path.is_socket():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise ConfigError(f"control: {path} is in use by another process, expected a free path")
        path.unlink(missing_ok=True)
    return path


class _Servicer(engine_pb2_grpc.EngineServicer):
    """The methods of the service; names are those of the .proto file."""

    def __init__(self, engine: ControlledEngine) -> None:
        self._engine = engine

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
            entry = messages.group_value(request.group)
            group = entry.params.group
            if group in self._engine.groups():
                raise _InstalledError(
                    f"group {group}: already installed, expected a group number that is free"
                )
            self._engine.install(entry)

        self._run(context, install)
        return pb.InstallGroupResponse()

    def RemoveGroup(  # noqa: N802
        self, request: pb.RemoveGroupRequest, context: grpc.ServicerContext
    ) -> pb.RemoveGroupResponse:
        self._run(context, lambda: self._engine.remove(self._known(request.group)))
        return pb.RemoveGroupResponse()

    def GetStatus(self, request: pb.GetStatusRequest, context: grpc.ServicerContext) -> pb.GroupStatus:  # noqa: N802
        status = self._run(context, lambda: self._engine.status(self._known(request.group)))
        return messages.status_message(status)

    def GetCounters(self, request: pb.GetCountersRequest, context: grpc.ServicerContext) -> pb.Counters:  # noqa: N802
        return pb.Counters(counters=self._run(context, self._engine.counters))

    def _known(self, group: int) -> int:
        if group not in self._engine.groups():
            raise _NotInstalledError(
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


class _InstalledError(ConfigError):
    pass


class _NotInstalledError(ConfigError):
    pass


# The first row whose kind fits.
_STATUS: Final[tuple[tuple[type[Exception], Any, str], ...]] = (
    (_InstalledError, grpc.StatusCode.ALREADY_EXISTS, "already_installed"),
    (_NotInstalledError, grpc.StatusCode.NOT_FOUND, "not_installed"),
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
