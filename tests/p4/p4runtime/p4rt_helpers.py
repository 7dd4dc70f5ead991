"""What the tests of P4Runtime share: the small program's pipeline, a server, and a client made of bare stubs."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import pytest
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status

from epic_p4.p4runtime.bundle import load, pack
from epic_p4.p4runtime.device import Device
from epic_p4.p4runtime.server import P4RuntimeServer

HERE = Path(__file__).resolve().parent
SMALL = HERE / "small.p4"
SECONDS = 10
STREAM_SECONDS = 120
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

# Ids of small.p4.
HOSTS, ROUTES, CLASSES, FIXED = 0x02010001, 0x02010002, 0x02010003, 0x02010004
DROP, FORWARD, UNKNOWN, ROUTE, CLASSIFY, SPREAD = range(0x01010001, 0x01010007)
ARRIVALS, LAST_CLASS, HOST_HITS = 0x12010001, 0x16010001, 0x13010001


@cache
def small_document() -> bytes:
    """The device config of small.p4."""
    return pack(SMALL)


@cache
def small_info() -> p4i.P4Info:
    """The P4Info of small.p4."""
    return load(small_document()).info


def device(*, started: bool = True) -> Device:
    """A device, with small.p4 running or with nothing."""
    made = Device(load)
    if started:
        made.start(load(small_document()), small_document())
    return made


class RawClient:
    """A P4Runtime client of bare stubs. Every wait ends."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self.stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._outbox: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self.stream: Iterator[p4r.StreamMessageResponse] = iter(())
        self.election = 0

    def open(self) -> None:
        """Open the stream."""
        self.stream = self.stub.StreamChannel(iter(self._outbox.get, None), timeout=STREAM_SECONDS)

    def say(self, request: p4r.StreamMessageRequest) -> None:
        """Send a stream message."""
        self._outbox.put(request)

    def arbitrate(self, election: int, device_id: int = 1) -> int:
        """Send an arbitration update on a stream, which is opened first; the status that comes back."""
        if self.election == 0:
            self.open()
        self.election = election
        update = p4r.MasterArbitrationUpdate(device_id=device_id, election_id=U128.encode(election))
        self.say(p4r.StreamMessageRequest(arbitration=update))
        return self.hear().arbitration.status.code

    def hear(self) -> p4r.StreamMessageResponse:
        """The next stream message."""
        return next(self.stream)

    def hang_up(self) -> None:
        """End the stream."""
        self._outbox.put(None)

    def write(self, *updates: p4r.Update, atomicity: int = 0, election: int | None = None) -> None:
        """Write a batch."""
        request = p4r.WriteRequest(
            device_id=1,
            election_id=U128.encode(self.election if election is None else election),
            updates=updates,
            atomicity=atomicity,  # type: ignore[arg-type]
        )
        self.stub.Write(request, timeout=SECONDS)

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        """Read a batch."""
        request = p4r.ReadRequest(device_id=1, entities=entities)
        responses = self.stub.Read(request, timeout=SECONDS)
        return [entity for response in responses for entity in response.entities]

    def set_pipeline(
        self, action: int, config: p4r.ForwardingPipelineConfig | None, election: int | None = None
    ) -> None:
        """Set the pipeline."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1,
            election_id=U128.encode(self.election if election is None else election),
            action=action,  # type: ignore[arg-type]
            config=config,
        )
        self.stub.SetForwardingPipelineConfig(request, timeout=SECONDS)

    def get_pipeline(self, kind: int = 0) -> p4r.GetForwardingPipelineConfigResponse:
        """Get the pipeline."""
        request = p4r.GetForwardingPipelineConfigRequest(device_id=1, response_type=kind)  # type: ignore[arg-type]
        return self.stub.GetForwardingPipelineConfig(request, timeout=SECONDS)

    def close(self) -> None:
        """Leave."""
        self.hang_up()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(made: Device, most_clients: int = 8) -> P4RuntimeServer:
    """A server on a free port."""
    return P4RuntimeServer(made, "127.0.0.1:0", most_clients=most_clients)


def refusal(error: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    """The code and message of a call that failed."""
    return error.value.code(), error.value.details()  # type: ignore[attr-defined]


def batch_codes(error: pytest.ExceptionInfo[grpc.RpcError]) -> list[int]:
    """The canonical code of each element of a batch."""
    return [e.canonical_code for e in batch_errors(error)]


def batch_errors(error: pytest.ExceptionInfo[grpc.RpcError]) -> list[p4r.Error]:
    """The p4.v1.Error of each element of a batch."""
    assert error.value.code() is grpc.StatusCode.UNKNOWN, error.value  # type: ignore[attr-defined]
    metadata = dict(error.value.trailing_metadata())  # type: ignore[attr-defined]
    status = rpc_status.Status.FromString(metadata["grpc-status-details-bin"])
    assert status.code == 2
    errors = []
    for detail in status.details:
        one = p4r.Error()
        assert detail.Unpack(one)
        errors.append(one)
    return errors


def exact(field: int, value: bytes) -> p4r.FieldMatch:
    """An exact match."""
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=value))


def lpm(field: int, value: bytes, prefix: int) -> p4r.FieldMatch:
    """A prefix."""
    return p4r.FieldMatch(field_id=field, lpm=p4r.FieldMatch.LPM(value=value, prefix_len=prefix))


def ternary(field: int, value: bytes, mask: bytes) -> p4r.FieldMatch:
    """A value and mask."""
    return p4r.FieldMatch(field_id=field, ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def between(field: int, low: bytes, high: bytes) -> p4r.FieldMatch:
    """A range."""
    return p4r.FieldMatch(field_id=field, range=p4r.FieldMatch.Range(low=low, high=high))


def table_entry(
    table: int,
    match: Sequence[p4r.FieldMatch] = (),
    action: int = 0,
    params: Sequence[bytes] = (),
    **fields: object,
) -> p4r.Entity:
    """An entry; no action when it is 0."""
    entry = p4r.TableEntry(table_id=table, match=match, **fields)  # type: ignore[arg-type]
    if action:
        entry.action.action.action_id = action
        for number, value in enumerate(params, 1):
            entry.action.action.params.add(param_id=number, value=value)
    return p4r.Entity(table_entry=entry)


def host(mac: int, port: int = 1) -> p4r.Entity:
    """An entry of the table of hosts."""
    return table_entry(HOSTS, [exact(1, bytes([mac]))], FORWARD, [bytes([port])])


def group(number: int, *replicas: tuple[int, int]) -> p4r.Entity:
    """A multicast group."""
    entry = p4r.MulticastGroupEntry(multicast_group_id=number)
    for port, instance in replicas:
        entry.replicas.add(egress_port=port, instance=instance)
    return p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
    )


def update(kind: int, entity: p4r.Entity) -> p4r.Update:
    """An update."""
    return p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]


def frame(dst: int, ether_type: int = 0x1234, src: int = 9, payload: bytes = b"payload") -> bytes:
    """An Ethernet frame."""
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ether_type.to_bytes(2, "big") + payload
