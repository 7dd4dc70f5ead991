"""One P4Runtime device: its pipeline, its clients, and what each request does. No sockets, no threads.

`server.py` calls it under one lock, which the packet loop takes too; so a batch is atomic for packets, and a primary
is not changed while its write is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from epic_p4.control.schema import Schema, schema_of
from epic_p4.p4runtime.arbitration import Arbitration, Notices
from epic_p4.p4runtime.forwarding import Forwarding
from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.switch import P4Switch
from epic_spec.errors import EpicError

API_VERSION = "1.4.1"


@dataclass(frozen=True)
class Pipeline:
    """A program that can run: the P4Info that the front end makes of it, and how to make a switch with it."""

    info: p4i.P4Info
    make_switch: Callable[[], P4Switch]


# Turns a p4_device_config into a pipeline. Raises EpicError when it cannot be realized.
Loader = Callable[[bytes], Pipeline]


@dataclass
class Prepared:
    """A configuration that was verified, with a switch of its own unless it is to keep the running one's state."""

    message: p4r.ForwardingPipelineConfig
    schema: Schema
    forwarding: Forwarding | None


def _prepared(message: p4r.ForwardingPipelineConfig, schema: Schema, pipeline: Pipeline) -> Prepared:
    kept = p4r.ForwardingPipelineConfig()
    kept.CopyFrom(message)
    return Prepared(kept, schema, Forwarding(pipeline.make_switch(), schema))


class Device:
    """A switch behind P4Runtime."""

    def __init__(self, load: Loader, *, device_id: int = 1, most_clients: int = 8) -> None:
        self._load = load
        self._arbitration = Arbitration(device_id, most_clients)
        self._running: Prepared | None = None
        self._saved: Prepared | None = None

    @property
    def switch(self) -> P4Switch | None:
        """The switch that processes packets, None before a pipeline is committed."""
        if self._running is None or self._running.forwarding is None:
            return None
        return self._running.forwarding.switch

    def start(self, pipeline: Pipeline, device_config: bytes = b"") -> None:
        """Run a pipeline that did not come through P4Runtime; it has no cookie then."""
        message = p4r.ForwardingPipelineConfig(p4info=pipeline.info, p4_device_config=device_config)
        self._running = _prepared(message, schema_of(pipeline.info), pipeline)
        self._saved = None

    # --------------------------------------------------------------------------------------------- streams

    def stream(self, session: Hashable, request: p4r.StreamMessageRequest) -> Notices:
        """What to send to whom because a client sent a stream message. Raises Refusal: its stream ends."""
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            return self._arbitration.update(session, request.arbitration)
        response = p4r.StreamMessageResponse()
        error = response.error
        error.canonical_code = Code.UNIMPLEMENTED
        if kind == "packet":
            error.message = "packet out: packet I/O is not supported, the program has no controller headers"
            error.packet_out.packet_out.CopyFrom(request.packet)
        elif kind == "digest_ack":
            error.message = "digest acknowledgement: digests are not supported"
            error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
        elif kind == "other":
            error.message = f"stream message {request.other.type_url!r}: not supported"
            error.other.other.CopyFrom(request.other)
        else:
            error.canonical_code = Code.INVALID_ARGUMENT
            error.message = "stream message: it is empty, expected an arbitration update"
            error.other.SetInParent()
        return [(session, response)]

    def leave(self, session: Hashable) -> Notices:
        """What to send to whom because a stream has ended."""
        return self._arbitration.leave(session)

    # ------------------------------------------------------------------------------------------- pipelines

    def check_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Refuse a SetForwardingPipelineConfig for what can be said before compiling anything. Raises Refusal."""
        self._arbitration.check_primary(request.device_id, request.role, request.election_id)
        kind = p4r.SetForwardingPipelineConfigRequest
        if request.action not in kind.Action.values() or request.action == kind.UNSPECIFIED:
            raise Refusal(Code.INVALID_ARGUMENT, f"action {request.action}: unknown, expected 1 to 5")
        if request.action == kind.COMMIT:
            if request.HasField("config"):
                raise Refusal(Code.INVALID_ARGUMENT, "config: given, expected none for COMMIT")
        elif not request.HasField("config"):
            raise Refusal(Code.INVALID_ARGUMENT, "config: missing, expected a P4Info and a p4_device_config")
        elif not request.config.HasField("p4info"):
            raise Refusal(Code.INVALID_ARGUMENT, "config.p4info: missing, expected the program's P4Info")

    def prepare(self, request: p4r.SetForwardingPipelineConfigRequest) -> Prepared | None:
        """Compile and verify what a request brings. It touches no state, and needs no lock: packets go on meanwhile.

        Raises Refusal. None for COMMIT, which brings nothing.
        """
        kind = p4r.SetForwardingPipelineConfigRequest
        if request.action == kind.COMMIT:
            return None
        try:
            pipeline = self._load(request.config.p4_device_config)
        except EpicError as error:
            raise Refusal(Code.INVALID_ARGUMENT, f"config.p4_device_config: {error}") from None
        schema = schema_of(pipeline.info)
        difference = schema.difference(schema_of(request.config.p4info))
        if difference is not None:
            raise Refusal(Code.INVALID_ARGUMENT, f"config.p4info is not that of the program: {difference}")
        if request.action == kind.RECONCILE_AND_COMMIT:
            return Prepared(request.config, schema, None)
        try:
            return _prepared(request.config, schema, pipeline)
        except EpicError as error:
            raise Refusal(Code.INVALID_ARGUMENT, f"config.p4_device_config: {error}") from None

    def set_pipeline(
        self, request: p4r.SetForwardingPipelineConfigRequest, prepared: Prepared | None
    ) -> None:
        """SetForwardingPipelineConfig, with what `prepare` made of it. Raises Refusal; nothing has changed then."""
        self.check_pipeline(request)
        kind = p4r.SetForwardingPipelineConfigRequest
        if prepared is None:
            self._commit()
        elif request.action == kind.RECONCILE_AND_COMMIT:
            self._reconcile(prepared)
        elif request.action == kind.VERIFY_AND_SAVE:
            self._saved = prepared
        elif request.action == kind.VERIFY_AND_COMMIT:
            self._running, self._saved = prepared, None

    def _commit(self) -> None:
        if self._saved is None:
            raise Refusal(
                Code.NOT_FOUND, "COMMIT: no configuration is saved, expected VERIFY_AND_SAVE before"
            )
        # What was written since the save went to the saved switch: making it the running one replays it all.
        self._running, self._saved = self._saved, None

    def _reconcile(self, prepared: Prepared) -> None:
        """The same program again keeps its state; state cannot be carried to another one."""
        running = self._running
        if running is None:
            raise Refusal(Code.INVALID_ARGUMENT, "RECONCILE_AND_COMMIT: no configuration is running")
        same = prepared.message.p4_device_config == running.message.p4_device_config
        if not same or prepared.schema != running.schema:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                "RECONCILE_AND_COMMIT: the program differs, and state cannot be kept for another one",
            )
        running.message.CopyFrom(prepared.message)
        self._saved = None

    def get_pipeline(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """GetForwardingPipelineConfig. Raises Refusal."""
        self._arbitration.check_device(request.device_id)
        response = p4r.GetForwardingPipelineConfigResponse()
        if self._running is None:
            return response
        kept, kind = self._running.message, p4r.GetForwardingPipelineConfigRequest
        response.config.SetInParent()
        if kept.HasField("cookie"):
            response.config.cookie.CopyFrom(kept.cookie)
        if request.response_type in (kind.ALL, kind.P4INFO_AND_COOKIE):
            response.config.p4info.CopyFrom(kept.p4info)
        if request.response_type in (kind.ALL, kind.DEVICE_CONFIG_AND_COOKIE):
            response.config.p4_device_config = kept.p4_device_config
        return response

    # -------------------------------------------------------------------------------------- write and read

    def write(self, request: p4r.WriteRequest) -> None:
        """Write. Raises Refusal, or BatchRefusal for single updates."""
        self._arbitration.check_primary(request.device_id, request.role, request.election_id)
        self._forwarding().write(request.updates, request.atomicity)

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.Entity]:
        """Read. Raises Refusal, or BatchRefusal after the last entity."""
        self._arbitration.check_device(request.device_id)
        if request.role:
            raise Refusal(Code.NOT_FOUND, f"role {request.role!r}: unknown, expected the default role")
        return self._forwarding().read(request.entities)

    def _forwarding(self) -> Forwarding:
        config = self._saved or self._running
        if config is None or config.forwarding is None:
            raise Refusal(
                Code.FAILED_PRECONDITION,
                f"device {self._arbitration.device_id}: no forwarding pipeline config is set",
            )
        return config.forwarding

    def capabilities(self, request: p4r.CapabilitiesRequest) -> p4r.CapabilitiesResponse:
        """Capabilities. Raises Refusal."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)
