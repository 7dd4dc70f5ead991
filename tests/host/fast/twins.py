"""Nodes that are two: the reference, and the fast one that must do the same for the same calls.

A twin stands in a world in place of a node. Every call goes to both; what they give, their counters, timers and status
are compared each time, and what the fast one gives is what the world gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from epic_host.fast.agent import FastAgent
from epic_host.fast.engine import FastEngine
from epic_host.fast.mode2_engine import FastMode2Engine
from epic_host.fast.mode3_agent import FastMode3Agent
from epic_host.fast.mode3_engine import FastMode3Engine
from epic_host.fast.rc_agent import FastRcAgent
from epic_models.reference import registry
from epic_models.reference.endpoint import EngineBase, EngineCapabilities
from epic_models.reference.group import EngineGroup, RankGroup
from epic_models.reference.interfaces import Agent, Cell, GroupStatus, Output
from epic_spec.packets import Packet

ENGINES = {2: FastMode2Engine, 3: FastMode3Engine}
make_reference_engine, make_reference_agent = registry.make_engine, registry.make_agent


def make_fast_agent(group: RankGroup) -> FastAgent:
    """The fast agent of a rank in Mode II or III."""
    rc = group.params.mode == 2 or group.params.ack_reflection
    return FastRcAgent(group) if rc else FastMode3Agent(group)


def same(fast: Output, reference: Output) -> Output:
    """The output that both gave."""
    assert fast.sends == reference.sends
    assert [p.icrc_ok for _, p in fast.sends] == [p.icrc_ok for _, p in reference.sends]
    assert fast.events == reference.events
    return fast


class TwinEngine:
    """An engine of Mode II or III, twice."""

    def __init__(self, mode: int, capabilities: EngineCapabilities | None = None) -> None:
        self.reference: EngineBase = make_reference_engine(mode, capabilities)
        self.fast: FastEngine = ENGINES[mode](capabilities)

    def install(self, entry: EngineGroup, now: float) -> None:
        for engine in (self.reference, self.fast):
            engine.install(entry, now)

    def remove(self, group: int) -> None:
        for engine in (self.reference, self.fast):
            engine.remove(group)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        return self._both(*(e.receive(port, packet, now) for e in (self.fast, self.reference)))

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        return self._both(*(e.receive_frame(port, frame, now) for e in (self.fast, self.reference)))

    def poll(self, now: float) -> Output:
        return self._both(*(e.poll(now) for e in (self.fast, self.reference)))

    def next_deadline(self) -> float | None:
        return self.fast.next_deadline()

    def counters(self) -> dict[str, int]:
        return self.fast.counters()

    def groups(self) -> tuple[int, ...]:
        return self.fast.groups()

    def status(self, group: int) -> GroupStatus:
        return self.fast.status(group)

    def _both(self, fast: Output, reference: Output) -> Output:
        assert self.fast.counters() == self.reference.counters()
        assert self.fast.next_deadline() == self.reference.next_deadline()
        assert self.fast.groups() == self.reference.groups()
        for group in self.fast.groups():
            assert self.fast.status(group) == self.reference.status(group)
        return same(fast, reference)


class TwinAgent:
    """An agent of Mode II or III, twice."""

    def __init__(self, group: RankGroup) -> None:
        self.group, self.params = group, group.params
        self.reference: Agent = make_reference_agent(group)
        self.fast = make_fast_agent(group)

    def room(self) -> int:
        return self.fast.room()

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        return self._both(*(a.submit(cells, now) for a in (self.fast, self.reference)))

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        return self._both(*(a.receive(port, packet, now) for a in (self.fast, self.reference)))

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        return self._both(*(a.receive_frame(port, frame, now) for a in (self.fast, self.reference)))

    def poll(self, now: float) -> Output:
        return self._both(*(a.poll(now) for a in (self.fast, self.reference)))

    def next_deadline(self) -> float | None:
        return self.fast.next_deadline()

    def counters(self) -> dict[str, int]:
        return self.fast.counters()

    def _both(self, fast: Output, reference: Output) -> Output:
        for name in ("delivered", "outstanding"):
            assert getattr(self.fast, name) == getattr(self.reference, name)
        assert self.fast.room() == self.reference.room()
        assert self.fast.counters() == self.reference.counters()
        assert self.fast.next_deadline() == self.reference.next_deadline()
        return same(fast, reference)


def _engine(mode: int, capabilities: EngineCapabilities | None = None) -> EngineBase | TwinEngine:
    return TwinEngine(mode, capabilities) if mode in ENGINES else make_reference_engine(mode, capabilities)


def _agent(group: RankGroup) -> Agent:
    return TwinAgent(group) if group.params.mode in ENGINES else make_reference_agent(group)


@contextmanager
def twins_everywhere() -> Iterator[None]:
    """Worlds and benches made inside have twins for nodes of Modes II and III."""
    with (
        mock.patch("epic_models.reference.network.make_engine", _engine),
        mock.patch("models.bench.make_engine", _engine),
        mock.patch("models.worlds.make_agent", _agent),
    ):
        yield
