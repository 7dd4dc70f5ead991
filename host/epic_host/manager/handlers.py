"""The service's methods as gRPC's handlers: bytes that are no message are refused with a word, like any other mistake.

gRPC's own handlers would log a traceback for each of them, and end the call without a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from epic_host.manager.service import Service
from epic_host.proto.epic.v1 import manager_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Manager"]


class Malformed:
    """What bytes are read as that are no message."""


def handlers(service: Service) -> grpc.GenericRpcHandler:
    """All methods of the .proto file."""
    made = {}
    for method in SERVICE.methods:
        checked = _checked(method.name, service, getattr(service, method.name))
        reads = _reader(GetMessageClass(method.input_type))
        kind = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        made[method.name] = kind(checked, reads, _write)
    return grpc.method_handlers_generic_handler(SERVICE.full_name, made)


def _reader(kind: type[Message]) -> Callable[[bytes], Message | Malformed]:
    def read(request: bytes) -> Message | Malformed:
        try:
            return kind.FromString(request)
        except DecodeError:
            return Malformed()

    return read


def _write(answer: Message) -> bytes:
    return answer.SerializeToString()


def _checked(
    name: str, service: Service, method: Callable[[Any, Any], Awaitable[Any]]
) -> Callable[[Any, Any], Awaitable[Any]]:
    async def checked(request: Any, context: Any) -> Any:
        if isinstance(request, Malformed):
            await service.malformed(name, context)
        return await method(request, context)

    return checked
