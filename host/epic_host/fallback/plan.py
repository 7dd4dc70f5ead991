"""Plans of the host path: who is connected with whom, with QPNs and PSN bases from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from epic_host.fallback.agent import HostAgent
from epic_host.fallback.doubling import DoublingAgent, partners
from epic_host.fallback.edge import edge_params
from epic_host.fallback.ring import RingAgent
from epic_host.grants import ALGORITHMS, HostPlan
from epic_models.reference.group import Edge, Endpoint, GroupParams
from epic_models.reference.tree import FREE_QPNS, LinkEnd
from epic_spec import psn
from epic_spec.errors import ConfigError

# Messages a cell and direction of an edge, at most, and windows of cells whose messages may be unacknowledged.
_MESSAGES: Final = 2
_WINDOWS: Final = 2


def neighbours(algorithm: str, rank: int, n: int) -> tuple[int, ...]:
    """The ranks that a rank is connected with, ascending. Raises ConfigError for an unknown algorithm."""
    if algorithm == "ring":
        return tuple(sorted({(rank - 1) % n, (rank + 1) % n} - {rank}))
    if algorithm == "doubling":
        return tuple(sorted(partners(rank, n)))
    raise ConfigError(f"host plan: algorithm = {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")


def host_edge_name(a: int, b: int) -> str:
    """The name of the connection of two ranks, equal at both ends: `r0-r1`."""
    return f"r{min(a, b)}-r{max(a, b)}"


def host_plan(params: GroupParams, ends: Sequence[LinkEnd], algorithm: str, seed: int) -> HostPlan:
    """The connections that an algorithm needs; `ends[r]` is where rank r is attached.

    All QPNs of the plan differ; `ranks` of an edge is the rank at its other end. Raises ConfigError when there are not
    as many ends as ranks, the algorithm is unknown, or the window has more packets than PSNs can tell apart.
    """
    n = params.world_size
    if len(ends) != n:
        raise ConfigError(f"host plan: {len(ends)} ends, expected one for each of {n} ranks")
    _check_psns(params)
    rng = random.Random(f"host plan {seed}")
    links = [(a, b) for a in range(n) for b in neighbours(algorithm, a, n) if a < b]
    qpns = iter(rng.sample(FREE_QPNS, 2 * len(links)))
    edges: dict[int, dict[int, Edge]] = {rank: {} for rank in range(n)}
    for a, b in links:
        one = Endpoint(ends[a].ip, next(qpns), ends[a].mac)
        other = Endpoint(ends[b].ip, next(qpns), ends[b].mac)
        up, down = rng.randrange(psn.MODULUS), rng.randrange(psn.MODULUS)
        sport = 0xC000 | rng.randrange(1 << 14)
        name = host_edge_name(a, b)
        edges[a][b] = Edge(name, ends[a].port, one, other, up, down, (b,), sport=sport)
        edges[b][a] = Edge(name, ends[b].port, other, one, down, up, (a,), sport=sport)
    return HostPlan(params, algorithm, edges)


def make_host_agent(plan: HostPlan, rank: int) -> HostAgent:
    """A rank's agent; of `plan.edges` it needs those of the rank only. Raises ConfigError for a rank not in it."""
    return {"ring": RingAgent, "doubling": DoublingAgent}[plan.algorithm](plan, rank)


def packet_bytes(params: GroupParams) -> int:
    """The largest payload of a packet between ranks: payload_bytes and the header of a message."""
    return edge_params(params).payload_bytes


def _check_psns(params: GroupParams) -> None:
    longer = edge_params(params)
    packets = -(-longer.message_bytes // longer.payload_bytes) * params.window * _WINDOWS * _MESSAGES
    if packets >= psn.HALF:
        raise ConfigError(
            f"group {params.group}: window x packets of a message = {packets // 4}, expected below "
            f"{psn.HALF // 4} on the host path (an eighth of the PSNs)"
        )
