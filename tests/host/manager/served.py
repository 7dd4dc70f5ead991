"""Managers for the tests of this folder: in a thread of this process, over real gRPC, with simulated engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_host.control import EngineUnreachableError
from epic_host.control.fence import Fence, Installed
from epic_host.manager.calls import OpenDriver
from epic_host.manager.client import ManagerClient
from epic_host.manager.config import ManagerConfig
from epic_host.manager.core import Core
from epic_host.manager.server import ManagerServer
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus


class SimulatedEngine:
    """Holds groups, and the fence before them; `up` False: does not answer."""

    def __init__(self) -> None:
        self.entries: dict[int, EngineGroup] = {}
        self.fence = Fence(self)
        self.up = True
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda _: None

    def groups(self) -> tuple[int, ...]:
        return tuple(self.entries)

    def install(self, entry: EngineGroup) -> None:
        self.entries[entry.params.group] = entry

    def remove(self, group: int) -> None:
        del self.entries[group]

    def status(self, group: int) -> GroupStatus:
        return GroupStatus(group, self.entries[group].params.epoch, (), ())


class SimulatedDriver:
    """What the manager calls of a simulated engine."""

    def __init__(self, name: str, engine: SimulatedEngine, timeout: float) -> None:
        self.name = name
        self.engine = engine
        self.timeout = timeout

    def _called(self, kind: str) -> None:
        self.engine.calls.append(kind)
        self.engine.before(kind)
        if not self.engine.up:
            raise EngineUnreachableError(f"engine {self.name}: is not there")

    def installed(self) -> Installed:
        self._called("installed")
        fence = self.engine.fence
        return Installed(self.name, "simulated", fence.instance, tuple(fence.installed()), fence.highest)

    def capabilities(self) -> EngineCapabilities:
        self._called("capabilities")
        return EngineCapabilities(mode=3)

    def install(self, entry: EngineGroup, instance: str = "") -> str:
        self._called("install")
        self.engine.fence.install(entry, instance)
        return self.engine.fence.instance

    def remove(self, group: int, epoch: int | None = None) -> str:
        self._called("remove")
        self.engine.fence.remove(group, epoch)
        return self.engine.fence.instance

    def status(self, group: int) -> GroupStatus:
        self._called("status")
        return self.engine.status(group)

    def close(self) -> None:
        pass


@dataclass
class Engines:
    """Simulated engines by name, made when they are first called; they outlive managers."""

    known: dict[str, SimulatedEngine] = field(default_factory=dict)

    def __getitem__(self, name: str) -> SimulatedEngine:
        return self.known.setdefault(name, SimulatedEngine())

    def opened(self, engine: str, control: str, timeout: float) -> SimulatedDriver:
        return SimulatedDriver(engine, self[engine], timeout)


FABRIC = """
[hosts.h0]
pool = "127.200.1.0/28"
[hosts.h1]
pool = "127.200.2.0/28"
[engines.s0]
control = "unix:/nowhere/s0"
address = "127.200.0.1"
[[links]]
low = "h0"
high = "s0"
low_port = 0
high_port = 0
[[links]]
low = "h1"
high = "s0"
low_port = 0
high_port = 1
"""


def write_fabric(folder: Path, text: str = FABRIC) -> Path:
    path = folder / "fabric.toml"
    path.write_text(text)
    return path


def config_of(folder: Path, **changes: Any) -> ManagerConfig:
    """A configuration with everything in a folder."""
    write_fabric(folder)
    values: dict[str, Any] = {
        "fabric": "fabric.toml",
        "listen": [f"unix:{folder}/m.sock"],
        "database": "m.db",
        "admin_token": "admin.token",
    }
    return ManagerConfig.from_dict(values | changes, folder)


@dataclass
class Running:
    """A manager that runs."""

    config: ManagerConfig
    server: ManagerServer
    engines: Engines
    # What it ended with, once it has.
    failures: list[BaseException]

    @property
    def core(self) -> Core:
        return self.server.runner.core

    def client(self, **options: Any) -> ManagerClient:
        return ManagerClient(self.config.listen[0], **options)

    def admin(self) -> ManagerClient:
        assert self.config.admin_token is not None
        return self.client(admin_token=self.config.admin_token.read_text().strip())

    def do(self, work: Callable[[float], Any]) -> Any:
        """Run something in the manager's loop."""
        return self.server.runner.from_thread(work, 5.0)


@contextmanager
def managed(
    config: ManagerConfig, engines: Engines | None = None, opened: OpenDriver | None = None
) -> Iterator[Running]:
    """A manager in a thread with a loop of its own; its engines are simulated unless `opened` opens others."""
    engines = engines or Engines()
    started = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    failures: list[BaseException] = []
    server = ManagerServer(config, opened or engines.opened)

    async def main() -> None:
        stopped = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stopped))
        try:
            async with server:
                started.set()
                await server.wait(stopped)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            started.set()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if not failures:
                failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(20)
    if failures:
        thread.join(10)
        raise failures[0]
    try:
        yield Running(config, server, engines, failures)
    finally:
        loop, stopped = loops[0]
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        assert not thread.is_alive()


def spec(*hosts: str, **fields: Any) -> pb.GroupSpec:
    return pb.GroupSpec(hosts=hosts or ("h0", "h1"), **fields)


def beats(members: Mapping[int, str], group: str, **fields: Any) -> list[pb.MemberBeat]:
    return [pb.MemberBeat(group=group, rank=rank, token=token, **fields) for rank, token in members.items()]
