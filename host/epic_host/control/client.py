"""Client of an engine's control service: plain values in and out, EPIC's errors, a deadline on every call."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import grpc

from epic_host.control import messages
from epic_host.control.fence import Installed
from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_host.proto.epic.v1 import engine_pb2_grpc
from epic_host.security.tls import Tls, open_channel
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError, EpicError, ResourceError


class EngineUnreachableError(EpicError):
    """An engine's control service did not answer in time, or is not there."""


_KINDS: Final[dict[str, type[EpicError]]] = {
    "invalid": ConfigError,
    "already_installed": ConfigError,
    "not_installed": ConfigError,
    "fenced": ConfigError,
    "other_instance": ConfigError,
    "no_resource": ResourceError,
    # A certificate that may not call it, or is nobody's.
    "not_yours": ConfigError,
    "who": ConfigError,
    "failed": EngineUnreachableError,
}


class EngineClient:
    """Calls one engine. `timeout` in seconds bounds each call. With `tls` the engine must show a certificate of the
    role engine, and of `name` where given.

    Every method raises ConfigError or ResourceError as the engine did, with `reason` set to the word of the
    service's table, and EngineUnreachableError when no answer came.
    """

    def __init__(
        self, address: str, timeout: float = 5.0, tls: Tls | None = None, name: str | None = None
    ) -> None:
        self.address = address
        self.timeout = timeout
        # An engine may come up after its client: try again soon.
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = open_channel(address, tls, "engine", name, options)
        self._stub: Any = engine_pb2_grpc.EngineStub(self._channel)  # type: ignore[no-untyped-call]

    def health(self) -> tuple[str, str, tuple[int, ...]]:
        """Name, engine and installed groups, once the engine's loop has answered."""
        answer: pb.HealthResponse = self._call(self._stub.Health, pb.HealthRequest())
        return answer.name, answer.engine, tuple(answer.groups)

    def capabilities(self) -> EngineCapabilities:
        """What the engine offers."""
        answer = self._call(self._stub.GetCapabilities, pb.GetCapabilitiesRequest())
        return messages.capabilities_value(answer)

    def installed(self) -> Installed:
        """What is installed, and in which process of the engine."""
        answer: pb.Installed = self._call(self._stub.GetInstalled, pb.GetInstalledRequest())
        entries = tuple((entry.group, entry.epoch) for entry in answer.groups)
        return Installed(answer.name, answer.engine, answer.instance, entries, answer.highest)

    def install(self, entry: EngineGroup, instance: str = "") -> str:
        """Install a group in the engine process `instance` ("": any). Returns the instance that has it."""
        request = pb.InstallGroupRequest(group=messages.group_message(entry), instance=instance)
        return str(self._call(self._stub.InstallGroup, request).instance)

    def remove(self, group: int, epoch: int | None = None) -> str:
        """Remove a group; with an epoch, that one and all before it for good. Returns the engine's instance."""
        request = pb.RemoveGroupRequest(group=group, epoch=epoch)
        return str(self._call(self._stub.RemoveGroup, request).instance)

    def status(self, group: int) -> GroupStatus:
        """Live slots and failed edges of a group."""
        return messages.status_value(self._call(self._stub.GetStatus, pb.GetStatusRequest(group=group)))

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""
        answer: pb.Counters = self._call(self._stub.GetCounters, pb.GetCountersRequest())
        return dict(answer.counters)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> EpicError:
        """EPIC's error for a status code and reason."""
        reason = dict(error.trailing_metadata() or ()).get("epic-reason", "")
        kind = _KINDS.get(reason)
        if kind is None:
            what = f"no answer within {self.timeout:g} s"
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                what = f"{error.code().name.lower()}, expected a running switch"
            return EngineUnreachableError(f"engine at {self.address}: {what}")
        raised = kind(f"engine at {self.address}: {error.details()}")
        raised.reason = reason  # type: ignore[attr-defined]
        return raised
