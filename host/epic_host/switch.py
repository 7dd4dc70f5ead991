"""The software switch: one engine, one transport, one thread; and the control service beside it.

An engine of the fast data path (`fast-m2`, `fast-m3`) gets whole batches from a UDP socket, and packets from all else.

{"name": "s0", "engine": "reference-m3", "control": "unix:/run/epic/s0",
 "transport": {"kind": "udp", "address": "127.0.0.10", "ports": {"127.0.0.11": 0}},
 "capabilities": {"window": 64}, "trace": "/tmp/s0.ndjson"}

`trace` is for a recording of what the engine does (`epic check tla --trace`); `parameters`, {"FP32": 0}, is for an
engine that is built with some (`rtl-m2`, `rtl-m3`). `profile`, true, is for counters `profile_*_us` of where a fast
switch's processor time goes. `tls`, {"ca": FILE, "certificate": FILE, "key": FILE} of role
engine, closes the control service to all but the manager and admins. They and `capabilities` may be left out.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from epic_host.driver import Driver
from epic_host.engines import make_engine
from epic_host.transport import Transport, TransportConfig, UdpConfig, open_transport, transport_config
from epic_host.transport.base import check_fit
from epic_host.transport.config import take
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import EdgeFailed, Event, GroupStatus
from epic_models.reference.recorder import FileRecorder
from epic_spec.errors import AbortedError, ConfigError

if TYPE_CHECKING:
    from epic_host.fast.driver import BatchDriver, BatchNode
    from epic_host.fast.profile import Profile
    from epic_host.security.tls import Tls

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """What a switch is started with; `control` is `unix:/path` or `127.x.y.z:port`, any IPv4 address with `tls`."""

    name: str
    engine: str
    control: str
    transport: TransportConfig
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    trace: str | None = None
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    profile: bool = False
    tls: Tls | None = None

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = take(
            data,
            "switch",
            ("name", "engine", "control", "transport"),
            ("capabilities", "trace", "parameters", "profile", "tls"),
        )
        for key in ("name", "engine", "control"):
            if not isinstance(values[key], str) or not values[key]:
                raise ConfigError(f"switch: {key} = {values[key]!r}, expected a text")
        trace = values.get("trace")
        if trace is not None and (not isinstance(trace, str) or not trace):
            raise ConfigError(f"switch: trace = {trace!r}, expected a file name")
        capabilities = values.get("capabilities") or {}
        if not isinstance(capabilities, Mapping):
            raise ConfigError(f"switch: capabilities = {capabilities!r}, expected an object")
        parameters = values.get("parameters") or {}
        if not isinstance(parameters, Mapping):
            raise ConfigError(f"switch: parameters = {parameters!r}, expected an object")
        if not isinstance(values.get("profile", False), bool):
            raise ConfigError(f"switch: profile = {values['profile']!r}, expected true or false")
        values |= {"capabilities": capabilities, "parameters": parameters}
        values["transport"] = transport_config(values["transport"])
        if values.get("tls") is not None:
            # Here, so that a switch without certificates is made before anything of gRPC is imported.
            from epic_host.security.tls import Tls

            values["tls"] = Tls.from_dict(values["tls"], "switch: tls")
        return cls(**values)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """From a JSON file. Raises ConfigError naming the file."""
        try:
            return cls.from_dict(json.loads(path.read_text()))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}, expected a JSON file") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not JSON ({error}), expected a switch configuration") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None


class Switch:
    """A running switch. Construction opens everything; `run` returns after `stop`; then `close` it.

    Raises ConfigError for an unknown engine or capability, or an address, interface or file that is missing.
    """

    def __init__(self, config: SwitchConfig) -> None:
        self.name = config.name
        self.engine_name = config.engine
        self._engine = make_engine(config.engine, config.capabilities, config.parameters)
        self._profile: Profile | None = None
        batches = hasattr(self._engine, "receive_batch")
        if batches and config.trace is not None:
            raise ConfigError(
                f"switch {config.name}: trace with engine {config.engine}, expected none: it does not record"
            )
        if config.profile and not (batches and isinstance(config.transport, UdpConfig)):
            raise ConfigError(
                f"switch {config.name}: profile with engine {config.engine}, expected a fast one over udp"
            )
        self._recorder = FileRecorder(Path(config.trace)) if config.trace is not None else None
        if self._recorder is not None:
            self._recorder.put_on_engine(config.name, self._engine)
        self._driver: Driver | BatchDriver
        if batches and isinstance(config.transport, UdpConfig):
            # Here, so that a switch of packets never imports numba.
            from epic_host.fast.driver import BatchDriver
            from epic_host.fast.udp import FastUdpTransport

            transport = FastUdpTransport(config.transport)
            try:
                self._driver = BatchDriver(cast("BatchNode", self._engine), transport, self._on_events)
                self._driver.load()
            except BaseException:
                transport.close()
                raise
            self._transport: Transport = transport
            if config.profile:
                from epic_host.fast.profile import Profile

                self._profile = Profile(self._engine, transport)
        else:
            if batches:
                from epic_host.fast.driver import load

                load(cast("BatchNode", self._engine))
            self._transport = open_transport(config.transport)
            self._driver = Driver(self._engine, self._transport, self._on_events)
        self._lock = threading.Lock()
        self._requests: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._stopping = False
        # Here, so that a rank that never has to ask an engine never imports grpc.
        from epic_host.control import ControlServer

        try:
            self._control = ControlServer(config.control, self, config.tls)
        except BaseException:
            self._driver.close()
            self._transport.close()
            raise

    def run(self) -> None:
        """Drive the engine until `stop`."""
        try:
            while not self._stopping:
                self._driver.step()
                self._answer()
        finally:
            self._stopping = True
            self._refuse()

    def stop(self) -> None:
        """End `run` soon. From any thread or signal handler."""
        self._stopping = True
        self._driver.wake()

    def close(self) -> None:
        """Close the control service, the sockets and the capture; after `run`."""
        self._stopping = True
        self._refuse()
        self._control.close()
        self._driver.close()
        self._transport.close()
        if self._recorder is not None:
            self._recorder.close()

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """Run `work` in the loop's thread and give its outcome.

        Raises what `work` raises, TimeoutError when the loop has not come to it in time (it is then not run),
        AbortedError when the switch is being shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._stopping:
                raise AbortedError(f"switch {self.name} is shutting down")
            self._requests.append((work, future))
            self._driver.wake()
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.cancel():
                raise TimeoutError(f"switch {self.name} is busy, no answer within {timeout:g} s") from None
            return future.result(timeout)

    # What the control service asks, in the loop's thread.

    def capabilities(self) -> EngineCapabilities:
        """What the engine offers."""
        return self._engine.capabilities

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return self._engine.groups()

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError, also for packets or edges that do not fit."""
        check_fit(entry.params, entry.edges, self._transport)
        self._engine.install(entry, time.monotonic())

    def remove(self, group: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        self._engine.remove(group)

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""
        return self._engine.status(group)

    def counters(self) -> dict[str, int]:
        """The engine's counters with what its transport dropped, what was sent, and the injected faults."""
        counters = self._engine.counters()
        carried = self._transport.counters()
        # Frames that the transport dropped never reached the engine's own count.
        dropped = {name: count for name, count in carried.items() if name.startswith("drop_")}
        for name, count in dropped.items():
            counters[name] = counters.get(name, 0) + count
        counters["rx_frames"] += sum(dropped.values())
        counters |= {name: carried[name] for name in ("tx_frames", "tx_failed")}
        if self._profile is not None:
            counters |= {f"profile_{k}_us": round(1e6 * v) for k, v in self._profile.total().items()}
        return counters | {f"fault_{name}": count for name, count in self._transport.faults().items()}

    def _answer(self) -> None:
        while self._requests:
            work, future = self._requests.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

    def _refuse(self) -> None:
        with self._lock:
            while self._requests:
                _, future = self._requests.popleft()
                if future.set_running_or_notify_cancel():
                    future.set_exception(AbortedError(f"switch {self.name} is shutting down"))

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, EdgeFailed):
                log.warning(
                    "switch %s: group %d: edge %s: %s", self.name, event.group, event.edge, event.reason
                )
