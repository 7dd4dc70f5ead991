"""Load on a manager, over real gRPC: nodes that register and keep their leases, and groups that are made and used.

Engines are served here too, each its own control service that installs and removes without a data plane.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

# Before grpc: it sets what grpc prints.
from epic_host.control import ControlServer  # isort: skip
import grpc
import grpc.aio

from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.proto.epic.v1 import manager_pb2_grpc
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import EpicError

T = TypeVar("T")

_CHANNELS: Final = 16
_TIMEOUT: Final = 60.0
# Requests that are under way at once while nodes register.
_REGISTERING: Final = 32


class LoadError(EpicError):
    """The manager did not do what it was asked; the figures would not be of what they say."""


class LightEngine:
    """An engine without a data plane: what its control service needs."""

    engine_name = "light"

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[int, EngineGroup] = {}
        self.installs = 0
        self._lock = threading.Lock()

    def capabilities(self) -> EngineCapabilities:
        """Mode III, everything at its default."""
        return EngineCapabilities(mode=3)

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self.entries)

    def install(self, entry: EngineGroup) -> None:
        """Install a group."""
        self.entries[entry.params.group] = entry
        self.installs += 1

    def remove(self, group: int) -> None:
        """Remove a group."""
        del self.entries[group]

    def status(self, group: int) -> GroupStatus:
        """Nothing is ever under way."""
        return GroupStatus(group, self.entries[group].params.epoch, (), ())

    def counters(self) -> dict[str, int]:
        """None."""
        return {}

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """Run `work`, one at a time."""
        with self._lock:
            return work()


@contextlib.contextmanager
def light_engines(names: Sequence[str], folder: Path) -> Iterator[dict[str, LightEngine]]:
    """Serve engines at `unix:FOLDER/NAME`."""
    engines = {name: LightEngine(name) for name in names}
    with contextlib.ExitStack() as stack:
        for name, engine in engines.items():
            server = ControlServer(f"unix:{folder}/{name}", engine)
            stack.callback(server.close)
        yield engines


@dataclass(slots=True)
class Samples:
    """Seconds that things took."""

    create: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    freed: list[float] = field(default_factory=list)
    heartbeat: list[float] = field(default_factory=list)
    register_rate: float = 0.0
    group_seconds: float = 0.0


class Load:
    """`nodes` hosts that stay registered, and `groups` groups of `ranks` ranks, `at_once` of them at a time."""

    def __init__(self, address: str, nodes: Sequence[str], ranks: int, seed: int) -> None:
        self._address = address
        self._nodes = nodes
        self._ranks = ranks
        self._random = random.Random(seed)
        self._stubs: list[Any] = []
        self.samples = Samples()

    async def run(self, groups: int, at_once: int, progress: Callable[[str, int, int], None]) -> Samples:
        """Register, keep the leases, and meanwhile make the groups. Raises LoadError."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(_CHANNELS):
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(self._address, options=options)
                )
                self._stubs.append(manager_pb2_grpc.ManagerStub(channel))  # type: ignore[no-untyped-call]
            try:
                lease = await self._register(progress)
                beats = [asyncio.create_task(self._beat(node, lease / 3)) for node in self._nodes]
                try:
                    await self._make(groups, at_once, progress, beats)
                finally:
                    for beat in beats:
                        beat.cancel()
                    await asyncio.gather(*beats, return_exceptions=True)
            except grpc.aio.AioRpcError as error:
                raise LoadError(
                    f"manager at {self._address}: {error.code().name}: {error.details()}"
                ) from None
        return self.samples

    def _stub(self) -> Any:
        return self._random.choice(self._stubs)

    async def _register(self, progress: Callable[[str, int, int], None]) -> float:
        started, leases = time.perf_counter(), []
        pending = iter(self._nodes)

        async def some() -> None:
            for node in pending:
                answer = await self._stub().RegisterNode(
                    pb.RegisterNodeRequest(host=node, mtu=1500, version="bench"), timeout=_TIMEOUT
                )
                leases.append(answer.lease)
                progress("nodes", len(leases), len(self._nodes))

        await asyncio.gather(*(some() for _ in range(_REGISTERING)))
        self.samples.register_rate = len(self._nodes) / (time.perf_counter() - started)
        return float(min(leases))

    async def _beat(self, node: str, interval: float) -> None:
        await asyncio.sleep(self._random.random() * interval)
        while True:
            started = time.perf_counter()
            answer = await self._stub().Heartbeat(pb.HeartbeatRequest(host=node), timeout=_TIMEOUT)
            self.samples.heartbeat.append(time.perf_counter() - started)
            if not answer.node_known:
                raise LoadError(f"node {node}: the manager does not know it, expected it to stay registered")
            await asyncio.sleep(max(0.0, interval - (time.perf_counter() - started)))

    async def _make(
        self,
        groups: int,
        at_once: int,
        progress: Callable[[str, int, int], None],
        beats: Sequence[asyncio.Task[None]],
    ) -> None:
        pending, done = iter(range(groups)), 0
        started = time.perf_counter()

        async def some() -> None:
            nonlocal done
            for number in pending:
                await self._group(number)
                done += 1
                progress("groups", done, groups)

        makers = [asyncio.create_task(some()) for _ in range(at_once)]
        try:
            await _all(makers, beats)
        finally:
            for maker in makers:
                maker.cancel()
            await asyncio.gather(*makers, return_exceptions=True)
        self.samples.group_seconds = time.perf_counter() - started

    async def _group(self, number: int) -> None:
        """A group's life: made, joined, granted to every rank, left, and gone."""
        stub, hosts = self._stub(), self._random.sample(self._nodes, self._ranks)
        started = time.perf_counter()
        spec = pb.GroupSpec(hosts=hosts, path="network", deadline=_TIMEOUT, lease=_TIMEOUT)
        made = await stub.CreateGroup(pb.CreateGroupRequest(spec=spec), timeout=_TIMEOUT)
        self.samples.create.append(time.perf_counter() - started)
        tokens = await asyncio.gather(*(self._join(made, rank) for rank in range(self._ranks)))
        streams = [
            stub.Watch(pb.WatchRequest(group=made.group, rank=rank, token=token), timeout=_TIMEOUT)
            for rank, token in enumerate(tokens)
        ]
        await asyncio.gather(*(_until(stream, "granted", made.group) for stream in streams))
        self.samples.ready.append(time.perf_counter() - started)
        started = time.perf_counter()
        await asyncio.gather(
            *(
                stub.LeaveGroup(
                    pb.LeaveGroupRequest(group=made.group, rank=rank, token=token), timeout=_TIMEOUT
                )
                for rank, token in enumerate(tokens)
            )
        )
        await asyncio.gather(*(_until(stream, "ended", made.group) for stream in streams))
        self.samples.freed.append(time.perf_counter() - started)

    async def _join(self, made: pb.CreateGroupResponse, rank: int) -> str:
        request = pb.JoinGroupRequest(
            group=made.group, rank=rank, join_token=made.join_token, incarnation=f"bench-{rank}"
        )
        return str((await self._stub().JoinGroup(request, timeout=_TIMEOUT)).token)


async def _until(stream: Any, what: str, group: str) -> None:
    async for event in stream:
        kind = event.WhichOneof("what")
        if kind == what:
            if what == "ended":
                stream.cancel()
            return
        if kind in ("lost", "ended"):
            raise LoadError(f"group {group}: {kind}, expected {what}")
    raise LoadError(f"group {group}: its watch ended, expected {what}")


async def _all(makers: Sequence[asyncio.Task[None]], beats: Sequence[asyncio.Task[None]]) -> None:
    """Until all makers are done; the first error of any task is raised."""
    waiting = set(makers)
    while waiting:
        done, _ = await asyncio.wait(waiting | set(beats), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        waiting -= done


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of its own."""
    return asyncio.run(work)
