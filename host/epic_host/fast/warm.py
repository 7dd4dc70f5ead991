"""Compile the kernels of a mode, or load them, before processes start that would each do it for themselves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from epic_host.engines import make_engine
from epic_host.fast import fixed, pump, sockets
from epic_host.fast.agent import FastAgent
from epic_host.fast.blocks import Block
from epic_host.fast.engine import FastEngine
from epic_host.fast.frames import departures
from epic_host.fast.packets import departed
from epic_host.fast.ranks import agent_on
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell
from epic_models.reference.tree import Tree, build_group
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import Operator, Primitive

_SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM).pack()
_LATE = 1e3


def warm(mode: int, *, reflection: bool) -> None:
    """One rank below two engines reduces two cells, in a block and as cells; then every timer runs."""
    params = GroupParams(group=1, mode=mode, world_size=1, window=2, slots=4, ack_reflection=reflection)
    plan = build_group(Tree("s", {"s": ("a",), "a": (0,)}), params)
    agent = agent_on("fast", plan.ranks[0])
    assert isinstance(agent, FastAgent)
    nodes: dict[str, FastEngine | FastAgent] = {plan.ranks[0].edge.local.ip: agent}
    for entry in plan.engines.values():
        engine = make_engine(f"fast-m{mode}")
        assert isinstance(engine, FastEngine)
        engine.install(entry, 0.0)
        for edge in (*entry.children, *([entry.parent] if entry.parent else [])):
            nodes[edge.local.ip] = engine
    queue = departures(agent.burst)
    values = np.zeros(4, np.int32)
    address = values.ctypes.data
    agent.submit_block(Block(_SUM, 1, 16, 16, address, 4, address, 4, expect=True), queue, 0.0)
    sends = departed(queue, agent.edges)
    sends += agent.submit([Cell(_SUM, bytes(16))], 0.0).sends
    _carry(nodes, [packet for _, packet in sends])
    assert agent.delivered == 2
    agent.submit([Cell(_SUM, bytes(16))], 0.0)
    for node in nodes.values():
        node.poll(_LATE)
        node.kernels(departures(node.burst))


def _carry(nodes: dict[str, FastEngine | FastAgent], packets: list[Packet]) -> None:
    """Let packets, and what they cause, arrive until nothing is under way."""
    while packets:
        packet = packets.pop(0)
        node = nodes[packet.dst_ip]
        edge = node.edges.edges[node.edges.find(packet.qpn)]
        assert edge is not None
        packets += [sent for _, sent in node.receive(edge.port, packet, 0.0).sends]


def prepare(modes: Iterable[int]) -> None:
    """See `epic_host.fast.prepare`."""
    fixed.load()
    sockets.load()
    pump.load()
    for mode in modes:
        warm(mode, reflection=False)
        if mode == 3:
            warm(mode, reflection=True)
