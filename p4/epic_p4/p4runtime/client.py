"""The driver: groups on any P4Runtime switch, through finsy. It runs finsy's event loop in a thread of its own.

Every call ends within `deadline` seconds, and a failure is one line that names the switch, the thing and the reason.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import finsy
import grpc
from finsy.p4client import P4Client, P4ClientError
from finsy.p4entity import decode_entity, encode_entities
from finsy.p4schema import P4RuntimeVersion, P4Schema
from finsy.proto import U128, p4i, p4r
from google.protobuf import text_format

from epic_p4.control.backend import BackendError
from epic_p4.control.entries import MulticastGroup, RegisterFill, Stage, Write
from epic_p4.control.schema import Schema, schema_of
from epic_p4.p4runtime.status import Code
from epic_p4.p4runtime.tables import to_message

DEFAULT_DEADLINE = 10.0
_UPDATES_PER_REQUEST = 400
_Result = TypeVar("_Result")


class RegisterReader(Protocol):
    """Another way to read registers, for targets whose P4Runtime cannot (BMv2: see bmv2.py)."""

    def registers(self, names: Sequence[str], first: int, count: int) -> Sequence[Sequence[int]]:
        """Consecutive cells of several registers."""

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register."""


@dataclass(frozen=True)
class PipelineConfig:
    """A pipeline to load: its P4Info, and what the target calls its binary."""

    info: p4i.P4Info
    device_config: bytes

    @classmethod
    def from_files(cls, info: Path, device_config: Path) -> PipelineConfig:
        """From a P4Info in text form and a binary. Raises BackendError."""
        try:
            parsed = text_format.Parse(info.read_text(encoding="utf-8"), p4i.P4Info())
            return cls(parsed, device_config.read_bytes())
        except OSError as error:
            raise BackendError(f"{error.filename}: {error.strerror}, expected a readable file") from None
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise BackendError(f"{info}: not a P4Info in text form ({error})") from None


class P4RuntimeBackend:
    """A switch behind P4Runtime, of which this client must be the primary.

    With `pipeline`, that pipeline is loaded unless the switch says by its cookie that it runs it already; without, the
    switch must run one. Raises BackendError when the switch cannot be reached or another client is primary.
    """

    def __init__(
        self,
        address: str,
        *,
        device_id: int = 1,
        election_id: int = 10,
        pipeline: PipelineConfig | None = None,
        registers: RegisterReader | None = None,
        deadline: float = DEFAULT_DEADLINE,
    ) -> None:
        self._where = f"switch {address}"
        self._deadline = deadline
        self._registers = registers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"p4runtime-client-{address}", daemon=True
        )
        self._thread.start()
        self._device_id = device_id
        self._election_id = election_id
        self._client: P4Client | None = None
        self._schema = P4Schema()
        try:
            self._call("connect", self._open(address, pipeline))
        except BaseException:
            self.close()
            raise
        self.info: p4i.P4Info = self._schema.p4info
        self.schema: Schema = schema_of(self.info)

    async def _open(self, address: str, pipeline: PipelineConfig | None) -> None:
        self._client = client = P4Client(address, wait_for_ready=False)
        await client.open(complete_request=self._sign)
        await self._become_primary(client)
        await self._agree_on_version(client)
        if pipeline is not None:
            await self._load(client, pipeline)
        running = await self._running(client, p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE)
        if not running.HasField("p4info"):
            raise BackendError(f"{self._where}: it runs no pipeline, expected one, or one to load")
        self._schema.set_p4info(running.p4info)

    def _sign(self, request: Any) -> None:
        """Only requests that change something carry the election id."""
        if isinstance(request, p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest):
            request.election_id.CopyFrom(U128.encode(self._election_id))

    async def _become_primary(self, client: P4Client) -> None:
        answer = await self._bid(client)
        if answer.status.code == Code.NOT_FOUND:
            # The last primary is gone, and nobody follows it with less than its election id.
            self._election_id = U128.decode(answer.election_id)
            answer = await self._bid(client)
        if answer.status.code != Code.OK:
            highest = U128.decode(answer.election_id)
            raise BackendError(
                f"{self._where}: another client is primary (election id {highest}), expected none or one with "
                f"an election id below {self._election_id}"
            )

    async def _bid(self, client: P4Client) -> p4r.MasterArbitrationUpdate:
        update = p4r.MasterArbitrationUpdate(
            device_id=self._device_id, election_id=U128.encode(self._election_id)
        )
        await client.send(p4r.StreamMessageRequest(arbitration=update))
        while True:
            response = await client.receive()
            if response.HasField("arbitration"):
                return response.arbitration

    async def _agree_on_version(self, client: P4Client) -> None:
        """Replicas are written in another way from version 1.5 on."""
        try:
            answer = await client.request(p4r.CapabilitiesRequest())
        except P4ClientError as error:
            if error.code != finsy.GRPCStatusCode.UNIMPLEMENTED:
                raise
            return
        version = P4RuntimeVersion.parse(answer.p4runtime_api_version)
        self._schema.set_p4runtime_version(version)

    async def _load(self, client: P4Client, pipeline: PipelineConfig) -> None:
        wanted = P4Schema(pipeline.info, pipeline.device_config).get_pipeline_config()
        running = await self._running(client, p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY)
        if running.HasField("cookie") and running.cookie == wanted.cookie:
            return
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        await client.request(
            p4r.SetForwardingPipelineConfigRequest(device_id=self._device_id, action=action, config=wanted)
        )

    async def _running(
        self, client: P4Client, kind: p4r.GetForwardingPipelineConfigRequest.ResponseType.ValueType
    ) -> p4r.ForwardingPipelineConfig:
        try:
            answer = await client.request(
                p4r.GetForwardingPipelineConfigRequest(device_id=self._device_id, response_type=kind)
            )
        except P4ClientError as error:
            if not error.is_pipeline_missing:
                raise
            return p4r.ForwardingPipelineConfig()
        return answer.config

    def close(self) -> None:
        """Leave the switch; what was installed stays."""
        if self._loop.is_closed():
            return
        client, self._client = self._client, None
        try:
            if client is not None:
                self._call("disconnect", client.close())
        except BackendError:
            pass  # the switch is gone already
        finally:
            with suppress(concurrent.futures.TimeoutError):
                asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(self._deadline)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._deadline)
            if not self._thread.is_alive():
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --------------------------------------------------------------------------------------------- backend

    def write(self, stage: Stage) -> None:
        """Insert entries and groups and set register cells. Raises BackendError."""
        for part in _parts([item for item in stage if not isinstance(item, RegisterFill)]):
            self._call(f"insert {_named(part)}", self._write(p4r.Update.INSERT, self._entities(part)), part)
        cells = [
            finsy.P4RegisterEntry(item.register, index=index, data=value)
            for item in stage
            if isinstance(item, RegisterFill)
            for index, value in enumerate(item.values, item.first)
        ]
        for first in range(0, len(cells), _UPDATES_PER_REQUEST):
            some = cells[first : first + _UPDATES_PER_REQUEST]
            self._call(f"write register {some[0].register_id}", self._write(p4r.Update.MODIFY, some))

    def erase(self, stage: Stage) -> None:
        """Remove the entries and groups of a stage; one that is absent is no error. Raises BackendError."""
        for part in _parts([item for item in stage if not isinstance(item, RegisterFill)]):
            self._call(f"delete {_named(part)}", self._delete(self._entities(part)), part)

    def wipe(self, tables: Sequence[str], multicast: range) -> None:
        """Remove all entries of these tables and all multicast groups of these numbers. Raises BackendError."""
        for name in tables:
            query = p4r.Entity(table_entry=p4r.TableEntry(table_id=self.schema.table_named(name).id))
            self._delete_all(
                f"entries of table {name}", self._call(f"read table {name}", self._read([query]))
            )
        groups = self._call("read multicast groups", self._read([finsy.P4MulticastGroupEntry()]))
        self._delete_all("multicast groups", [g for g in groups if g.multicast_group_id in multicast])

    def _delete_all(self, what: str, entities: Sequence[Any]) -> None:
        for first in range(0, len(entities), _UPDATES_PER_REQUEST):
            self._call(f"delete {what}", self._delete(entities[first : first + _UPDATES_PER_REQUEST]))

    def counter(self, name: str, size: int) -> Sequence[int]:
        """The packet counts of a counter's cells. Raises BackendError."""
        found = self._call(f"read counter {name}", self._read([finsy.P4CounterEntry(name)]))
        values = [0] * size
        for cell in found:
            if cell.index is not None and cell.index < size:
                values[cell.index] = cell.packet_count
        return values

    def registers(self, names: Sequence[str], first: int, count: int) -> Sequence[Sequence[int]]:
        """Consecutive cells of several registers. Raises BackendError where the target cannot read registers."""
        if self._registers is not None:
            return self._registers.registers(names, first, count)
        return [self.register(name, first, count) for name in names]

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register. Raises BackendError where the target cannot read registers."""
        if self._registers is not None:
            return self._registers.register(name, first, count, field)
        cells = range(first, first + count)
        queries = [finsy.P4RegisterEntry(name, index=index) for index in cells]
        found = self._call(f"read register {name}", self._read(queries))
        values = {cell.index: cell.data for cell in found}
        missing = [index for index in cells if index not in values]
        if missing:
            raise BackendError(f"{self._where}: register {name}: no cell {missing[0]} in the answer")
        return [values[index][field] if field else values[index] for index in cells]

    # --------------------------------------------------------------------------------------------- helpers

    def _entities(self, items: Sequence[Write]) -> list[Any]:
        entities: list[Any] = []
        for item in items:
            if isinstance(item, MulticastGroup):
                entities.append(finsy.P4MulticastGroupEntry(item.number, replicas=item.replicas))
            elif not isinstance(item, RegisterFill):
                message = to_message(item, self.schema.table_named(item.table), self.schema)
                entities.append(p4r.Entity(table_entry=message))
        return entities

    async def _write(self, kind: p4r.Update.Type.ValueType, entities: Sequence[Any]) -> None:
        messages = encode_entities(entities, self._schema)
        updates = [p4r.Update(type=kind, entity=message) for message in messages]
        await self._live().request(p4r.WriteRequest(device_id=self._device_id, updates=updates))

    async def _delete(self, entities: Sequence[Any]) -> None:
        try:
            await self._write(p4r.Update.DELETE, entities)
        except P4ClientError as error:
            if not (error.details and error.is_not_found_only):
                raise

    async def _read(self, queries: Sequence[Any]) -> list[Any]:
        entities = encode_entities(queries, self._schema)
        request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
        return [
            decode_entity(entity, self._schema)
            async for response in self._live().request_iter(request)
            for entity in response.entities
        ]

    def _live(self) -> P4Client:
        if self._client is None:
            raise BackendError(f"{self._where}: the connection is closed")
        return self._client

    def _call(self, what: str, work: Coroutine[Any, Any, _Result], items: Sequence[Write] = ()) -> _Result:
        """Run on the loop and wait, not longer than the deadline."""
        if self._loop.is_closed():
            work.close()
            raise BackendError(f"{self._where}: {what}: the connection is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._deadline)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise BackendError(f"{self._where}: {what}: no answer within {self._deadline:g} s") from None
        except P4ClientError as error:
            raise BackendError(f"{self._where}: {what}: {_explain(error, items)}") from None
        except concurrent.futures.CancelledError:
            raise BackendError(f"{self._where}: {what}: the connection was lost") from None
        except (RuntimeError, ValueError, AssertionError, OSError, grpc.aio.BaseError) as error:
            # finsy's own complaints: an end of the stream, a value that does not fit its schema.
            reason = str(error) or type(error).__name__
            raise BackendError(f"{self._where}: {what}: {' '.join(reason.split())}") from None


async def _cancel_others() -> None:
    """End what finsy has left running, a connection that was never made for instance."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _parts(items: Sequence[Write]) -> Iterator[Sequence[Write]]:
    for first in range(0, len(items), _UPDATES_PER_REQUEST):
        yield items[first : first + _UPDATES_PER_REQUEST]


def _named(items: Sequence[Write]) -> str:
    names = [_name(item) for item in items]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _name(item: Write) -> str:
    if isinstance(item, MulticastGroup):
        return f"multicast group {item.number}"
    if isinstance(item, RegisterFill):
        return f"register {item.register}"
    return f"an entry of table {item.table}"


def _explain(error: P4ClientError, items: Sequence[Write]) -> str:
    """The first refused update and why, or the call's own error."""
    for index, detail in sorted(error.details.items()):
        name = f"{_name(items[index])}: " if index < len(items) else ""
        return f"{name}{detail.canonical_code.name}: {' '.join(detail.message.split())}"
    return f"{error.code.name}: {' '.join(error.message.split())}"
