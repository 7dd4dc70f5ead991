"""A manager process: the store, the core, its runner, the gRPC server on every address, metrics; up, and down again."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

# Before grpc: it sets what grpc prints.
import epic_host.control  # noqa: F401  # isort: skip
import grpc
import grpc.aio

from epic_host.fabric.topology import Fabric
from epic_host.manager.access import Access, admin_token_of
from epic_host.manager.calls import OpenDriver, grpc_driver
from epic_host.manager.config import ManagerConfig
from epic_host.manager.core import Core
from epic_host.manager.handlers import handlers
from epic_host.manager.runner import Runner
from epic_host.manager.service import Service
from epic_host.manager.store import Store
from epic_host.manager.watch import Watchers
from epic_host.security.listen import claim
from epic_spec.errors import ConfigError, EpicError

log = logging.getLogger(__name__)

# Seconds that calls which are under way get at the end.
_GRACE: Final = 0.5
# Calls at once beyond the watches.
_CALLS: Final = 4096


class FailedError(EpicError):
    """The manager cannot go on; a new process begins from what its store has."""


class ManagerServer:
    """A running manager, from `start` to `stop`. Raises ConfigError for what it cannot be started with."""

    def __init__(self, config: ManagerConfig, opened: OpenDriver | None = None) -> None:
        self.config = config
        self._opened = opened or grpc_driver(config.tls)
        self._undo = contextlib.AsyncExitStack()
        self.runner: Runner
        self.service: Service

    async def start(self) -> None:
        """Bring everything up; on an error what is up comes down again."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def wait(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped`. Raises FailedError when the manager cannot go on."""
        waiting = asyncio.ensure_future(stopped.wait())
        try:
            both: set[asyncio.Future[Any]] = {waiting, self.runner.failure}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.runner.failure.done():
            error = self.runner.failure.result()
            raise FailedError(f"manager: {type(error).__name__}: {error}; start it again")

    async def stop(self) -> None:
        """Bring everything down."""
        await self._undo.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        config = self.config
        fabric = Fabric.from_toml(_text(config.fabric), str(config.fabric))
        store = Store(config.database)
        self._undo.callback(store.close)
        if config.placement == "exact":
            # Here, for no group and no heartbeat shall wait for its import.
            importlib.import_module("epic_host.fabric.milp")
        core = Core(
            fabric,
            store,
            config.policy,
            placement=config.placement,
            seed=_seed(config.seed),
            now=Runner.now(),
            unix=time.time(),
            settings=config.times,
        )
        limits = config.limits
        watchers = Watchers(limits.watches, limits.client_watches, limits.watch_events)
        self.runner = Runner(core, watchers, self._opened, limits.engine_calls)
        self._undo.push_async_callback(self.runner.stop)
        access = Access(limits, admin_token_of(config.admin_token), Runner.now)
        self.service = Service(self.runner, access)
        server = self._server()
        server.add_generic_rpc_handlers((handlers(self.service),))
        for address in config.listen:
            self._bind(server, address)
        self.runner.start()
        await server.start()
        self._undo.push_async_callback(server.stop, _GRACE)
        self._undo.callback(watchers.end)
        if config.metrics is not None:
            from epic_host.manager.metrics import Metrics

            self._undo.callback(Metrics(self.service, self.runner).serve(config.metrics))

    def _server(self) -> Any:
        limits = self.config.limits
        return grpc.aio.server(
            options=[
                # A second manager on the same port is an error and not a lottery.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_metadata_size", 16384),
                # Clients whose machine is gone are noticed; theirs may ask as often as ours does.
                ("grpc.keepalive_time_ms", 10000),
                ("grpc.keepalive_timeout_ms", 5000),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 2000),
            ],
            maximum_concurrent_rpcs=limits.watches + _CALLS,
        )

    def _bind(self, server: Any, address: str) -> None:
        tls = self.config.tls
        path = claim(address, "listen", secure=tls is not None)
        if path is not None:
            self._undo.callback(path.unlink, missing_ok=True)
        try:
            if tls is None:
                server.add_insecure_port(address)
                log.warning("manager: plain text on %s: whoever is on this machine may call", address)
            else:
                server.add_secure_port(address, tls.server_credentials())
        except RuntimeError:
            raise ConfigError(f"listen: address {address} cannot be bound, expected a free one") from None


def run(config: ManagerConfig, ready: Callable[[], object]) -> None:
    """Run a manager in this process until SIGTERM or SIGINT; `ready` is called when it serves.

    Raises ConfigError for what it cannot be started with, FailedError when it cannot go on.
    """
    asyncio.run(_run(config, ready))


async def _run(config: ManagerConfig, ready: Callable[[], object]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ManagerServer(config) as server:
        ready()
        await server.wait(stopped)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: {reason}, expected the TOML file of a fabric") from None


def _seed(number: int | None) -> bytes | None:
    if number is None:
        return None
    log.warning("manager: seed = %d: tokens can be guessed, expected no seed but for tests", number)
    return f"seed {number}".encode()
