"""Engines and agents by mode: the one place that turns a mode number into a class."""

from __future__ import annotations

from epic_models.reference.endpoint import EngineBase, EngineCapabilities
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import Agent
from epic_models.reference.mode1 import Mode1Agent, Mode1Engine
from epic_models.reference.mode2 import Mode2Agent, Mode2Engine
from epic_models.reference.mode3 import Mode3Agent, Mode3Engine

ENGINES: dict[int, type[EngineBase]] = {1: Mode1Engine, 2: Mode2Engine, 3: Mode3Engine}


def make_engine(mode: int, capabilities: EngineCapabilities | None = None) -> EngineBase:
    """The reference engine of a mode."""
    return ENGINES[mode](capabilities)


def make_agent(group: RankGroup) -> Agent:
    """The reference agent of a rank. With ACK reflection a Mode III host is the RC endpoint of Mode II."""
    if group.params.mode == 1:
        return Mode1Agent(group)
    if group.params.mode == 2 or group.params.ack_reflection:
        return Mode2Agent(group)
    return Mode3Agent(group)
