"""The gRPC server in front of a device: threads, streams, deadlines, and how errors go out.

with P4RuntimeServer(device, "127.0.0.1:9559") as server:
    server.process(port, frame)
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NoReturn, Self, TypeVar

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_status

from epic_p4.p4runtime.arbitration import Notices
from epic_p4.p4runtime.device import Device
from epic_p4.p4runtime.status import BatchRefusal, Code, Refusal
from epic_spec.errors import ConfigError, EpicError

DEFAULT_ADDRESS = "127.0.0.1:9559"
# A stream keeps a thread for as long as it is open; the others are for calls.
_CALL_THREADS = 4
_ENTITIES_PER_RESPONSE = 200
# A pipeline's sources go over in one message.
_MOST_BYTES = 64 << 20

_Outbox = queue.SimpleQueue[p4r.StreamMessageResponse | Refusal | None]
_Response = TypeVar("_Response")


class P4RuntimeServer(p4r_grpc.P4RuntimeServicer):
    """Serves one device. `lock` is held during every call, and by `process`."""

    def __init__(self, device: Device, address: str = DEFAULT_ADDRESS, *, most_clients: int = 8) -> None:
        self.lock = threading.RLock()
        self._device = device
        self._most_streams = most_clients
        self._sessions = itertools.count(1)
        self._outboxes: dict[Hashable, _Outbox] = {}
        self._server = grpc.server(
            ThreadPoolExecutor(most_clients + 1 + _CALL_THREADS, thread_name_prefix="p4runtime"),
            options=[("grpc.max_receive_message_length", _MOST_BYTES), ("grpc.so_reuseport", 0)],
        )
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError:
            self.port = 0
        if self.port == 0:
            raise ConfigError(
                f"P4Runtime address {address!r}: cannot listen there, expected a free HOST:PORT"
            )
        self.address = f"{address.rpartition(':')[0]}:{self.port}"

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self, grace: float = 1.0) -> None:
        """End all streams and calls, those under way after `grace` seconds at the latest."""
        stopped = self._server.stop(grace)
        with self.lock:
            for outbox in self._outboxes.values():
                outbox.put(None)
        stopped.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """A frame arrived: the frames that leave. None leave before a pipeline is committed."""
        with self.lock:
            switch = self._device.switch
            return [] if switch is None else switch.process(port, frame)

    # -------------------------------------------------------------------------------------------- streams

    def StreamChannel(  # noqa: N802 - named by the service
        self, request_iterator: Iterator[p4r.StreamMessageRequest], context: grpc.ServicerContext
    ) -> Iterator[p4r.StreamMessageResponse]:
        """One client's stream: a thread of its own takes what it sends, this one gives it what it is told."""
        session = next(self._sessions)
        outbox: _Outbox = queue.SimpleQueue()
        with self.lock:
            if len(self._outboxes) >= self._most_streams:
                _abort(
                    context,
                    Refusal(
                        Code.RESOURCE_EXHAUSTED,
                        f"{self._most_streams} streams are open, expected at most {self._most_streams}",
                    ),
                )
            self._outboxes[session] = outbox
        context.add_callback(lambda: outbox.put(None))
        reader = threading.Thread(
            target=self._receive,
            args=(session, request_iterator, outbox),
            name=f"p4runtime-stream-{session}",
            daemon=True,
        )
        reader.start()
        try:
            while (message := outbox.get()) is not None:
                if isinstance(message, Refusal):
                    _abort(context, message)
                yield message
        finally:
            with self.lock:
                del self._outboxes[session]
                self._tell(self._device.leave(session))

    def _receive(
        self, session: Hashable, requests: Iterator[p4r.StreamMessageRequest], outbox: _Outbox
    ) -> None:
        try:
            for request in requests:
                with self.lock:
                    self._tell(self._device.stream(session, request))
        except Refusal as refusal:
            outbox.put(refusal)
        except grpc.RpcError:
            return  # the client is gone; the callback of its context has ended the stream
        finally:
            outbox.put(None)

    def _tell(self, notices: Notices) -> None:
        for session, message in notices:
            if session in self._outboxes:
                self._outboxes[session].put(message)

    # ---------------------------------------------------------------------------------------------- calls

    def SetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Set the pipeline. It is compiled without the lock, for that takes seconds."""
        self._call(context, lambda: self._device.check_pipeline(request))
        try:
            prepared = self._device.prepare(request)
        except Refusal as refusal:
            _abort(context, refusal)
        self._call(context, lambda: self._device.set_pipeline(request, prepared))
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """Say the pipeline."""
        return self._call(context, lambda: self._device.get_pipeline(request))

    def Write(  # noqa: N802
        self, request: p4r.WriteRequest, context: grpc.ServicerContext
    ) -> p4r.WriteResponse:
        """Change entities."""
        self._call(context, lambda: self._device.write(request))
        return p4r.WriteResponse()

    def Read(  # noqa: N802
        self, request: p4r.ReadRequest, context: grpc.ServicerContext
    ) -> Iterator[p4r.ReadResponse]:
        """Say entities. They are collected under the lock and sent without it: a slow client holds nobody up."""
        found: list[p4r.Entity] = []
        error: EpicError | None = None
        with self.lock:
            try:
                found.extend(self._device.read(request))
            except (Refusal, BatchRefusal) as refusal:
                error = refusal
        for first in range(0, len(found), _ENTITIES_PER_RESPONSE):
            yield p4r.ReadResponse(entities=found[first : first + _ENTITIES_PER_RESPONSE])
        if error is not None:
            _abort(context, error)

    def Capabilities(  # noqa: N802
        self, request: p4r.CapabilitiesRequest, context: grpc.ServicerContext
    ) -> p4r.CapabilitiesResponse:
        """Say which version of P4Runtime this is."""
        return self._call(context, lambda: self._device.capabilities(request))

    def _call(self, context: grpc.ServicerContext, work: Callable[[], _Response]) -> _Response:
        try:
            with self.lock:
                return work()
        except (Refusal, BatchRefusal) as error:
            _abort(context, error)


class _Status(grpc.Status):
    """A status with the details of a batch."""

    def __init__(self, status: rpc_status.Status) -> None:
        self.code = _STATUS_CODES[status.code]
        self.details = status.message
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


def _abort(context: grpc.ServicerContext, error: EpicError) -> NoReturn:
    """End a call with an error. gRPC's abort raises."""
    if isinstance(error, BatchRefusal):
        context.abort_with_status(_Status(error.status()))
    elif isinstance(error, Refusal):
        context.abort(_STATUS_CODES[int(error.code)], error.message)
    raise AssertionError(f"not an error of a call: {error}")
