"""From a grant to the agent that a rank runs for one epoch: on a tree, dealt over several, or on the host path."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from epic_host.fallback.plan import make_host_agent, packet_bytes
from epic_host.fallback.striped import StripedAgent
from epic_host.fast.ranks import agent_on
from epic_host.grants import Grant
from epic_host.transport.base import PACKET_OVERHEAD, Transport, check_fit
from epic_models.reference.group import Edge
from epic_models.reference.interfaces import Agent
from epic_spec.errors import ConfigError


@runtime_checkable
class GrantAgent(Agent, Protocol):
    """An agent that says how far it is, in cells of its epoch."""

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""


def make_agents(grant: Grant, rank: int, datapath: str = "reference") -> GrantAgent:
    """The agent of a rank, its cells counted from 0 whatever `grant.resume` is.

    `datapath` fast: a fast agent, where the path is one tree of a mode that has one. Of the grant it needs the rank's
    part only. Raises ConfigError when the rank has none.
    """
    edges(grant, rank)
    if grant.host is not None:
        return make_host_agent(grant.host, rank)
    groups = [tree.ranks[rank] for tree in grant.trees]
    agent = agent_on(datapath, groups[0]) if len(groups) == 1 else StripedAgent(groups)
    assert isinstance(agent, GrantAgent)
    return agent


def edges(grant: Grant, rank: int) -> tuple[Edge, ...]:
    """A rank's ends of all edges that the grant gives it. Raises ConfigError when it gives none to the rank."""
    where = f"grant of group {grant.group}, epoch {grant.epoch}"
    if grant.host is not None:
        if rank not in grant.host.edges:
            raise ConfigError(f"{where}: rank = {rank}, expected one of {sorted(grant.host.edges)}")
        return tuple(grant.host.edges[rank].values())
    for tree in grant.trees:
        if rank not in tree.ranks:
            raise ConfigError(f"{where}: rank = {rank}, expected one of {sorted(tree.ranks)}")
    return tuple(tree.ranks[rank].edge for tree in grant.trees)


def check_transport(grant: Grant, rank: int, transport: Transport) -> None:
    """Refuse a grant whose packets are too long for a port or whose edges lead nowhere. Raises ConfigError."""
    check_fit(grant.params, edges(grant, rank), transport)
    if grant.host is None:
        return
    needed = packet_bytes(grant.params) + PACKET_OVERHEAD
    if needed > transport.mtu:
        most = grant.params.payload_bytes - (needed - transport.mtu)
        raise ConfigError(
            f"group {grant.group}: payload_bytes = {grant.params.payload_bytes}, expected at most {most} "
            f"on the host path with an MTU of {transport.mtu} bytes"
        )
