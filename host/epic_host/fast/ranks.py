"""A rank on either data path: which it is, its transport, its agent.

Compiled code is imported for the fast one only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from epic_host.fast.datapath import MODES, choose
from epic_host.transport import Transport, UdpConfig, open_transport, transport_config
from epic_models.reference.group import GroupParams, RankGroup
from epic_models.reference.interfaces import Agent, Cell
from epic_models.reference.registry import make_agent
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import ConfigError
from epic_spec.packets import NULL_BIT


def rank_path(
    asked: str | None, mode: int, transport: Transport | Mapping[str, Any], *, recorded: bool = False
) -> str:
    """The data path of a rank: what is asked for, by default the fast one where mode and transport have it.

    Raises ConfigError for an unknown one, and for `fast` where there is none.
    """
    path = choose(asked, mode, recorded=recorded)
    if path == "fast" and not _batches(transport):
        if asked is not None:
            raise ConfigError(f"datapath = fast over {_name(transport)}, expected transport kind udp")
        return "reference"
    return path


def open_on(path: str, config: Mapping[str, Any]) -> Transport:
    """Open the transport of a configuration for a data path. Raises ConfigError as `open_transport`."""
    if path == "reference":
        return open_transport(config)
    from epic_host.fast.udp import FastUdpTransport

    checked = transport_config(config)
    assert isinstance(checked, UdpConfig)
    return FastUdpTransport(checked)


def agent_on(path: str, group: RankGroup) -> Agent:
    """The agent of a rank for a data path; a mode that has no fast one gets the reference."""
    params = group.params
    if path == "reference" or params.mode == 1:
        return make_agent(group)
    if params.mode == 2 or params.ack_reflection:
        from epic_host.fast.rc_agent import FastRcAgent

        return FastRcAgent(group)
    from epic_host.fast.mode3_agent import FastMode3Agent

    return FastMode3Agent(group)


@cache
def load_agent(mode: int, *, reflection: bool = False) -> None:
    """Load, or compile, what the first cells of a rank would otherwise wait for: a rank of no tree runs all of it.

    Once compiled it takes a moment; the first time, and after a change, seconds to minutes.
    """
    from epic_host.fast import pump, sockets
    from epic_host.fast.agent import FastAgent
    from epic_host.fast.blocks import Block
    from epic_host.fast.frames import Arrivals, departures

    params = GroupParams(group=1, mode=mode, world_size=1, window=2, slots=4, ack_reflection=reflection)
    agent = agent_on("fast", build_group(Tree("s", {"s": (0,)}), params).ranks[0])
    assert isinstance(agent, FastAgent)
    queue = departures(agent.burst)
    agent.submit_block(Block(NULL_BIT, 1, 1, 1), queue, 0.0)
    agent.submit_cells([Cell(NULL_BIT, None)], queue, 0.0)
    queue.clear()
    agent.receive_batch(Arrivals(1, 64), 0, queue, 0.0)
    agent.poll_batch(queue, agent.params.rto_max_us * 1e-6)
    agent.kernels(queue)
    sockets.load()
    pump.load()


def load_agents() -> None:
    """`load_agent` of every mode that there is."""
    for mode in MODES:
        load_agent(mode)
    load_agent(3, reflection=True)


def _batches(transport: Transport | Mapping[str, Any]) -> bool:
    if isinstance(transport, Mapping):
        return transport.get("kind") == "udp"
    return hasattr(transport, "send_batch")


def _name(transport: Transport | Mapping[str, Any]) -> str:
    return (
        f"transport kind {transport.get('kind')}"
        if isinstance(transport, Mapping)
        else type(transport).__name__
    )
