"""The fabric of a run, for its manager: the topology's hosts, switches and links with the addresses of the plan.

What a switch offers is narrowed to the run's options (`--icrc none`, `--window`, …), so that what the manager agrees on
is what was asked for. Over udp any host reaches any other, and a member's MAC address follows from its IP address; over
netns hosts reach switches only, and ports have the MAC addresses of their interfaces.
"""

from __future__ import annotations

from dataclasses import replace

from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_models.reference.endpoint import EngineCapabilities
from epic_testbed.addressing import DEFAULT_MTU
from epic_testbed.options import Setup


def fabric_of(setup: Setup, control: dict[str, str]) -> Fabric:
    """The fabric of a setup whose switches have these control addresses."""
    plan, offer = setup.plan, offer_of(setup)
    members: dict[str, list[int]] = {}
    for rank, host in plan.hosts.items():
        members.setdefault(host, []).append(rank)
    hosts = {
        host: HostNode(host, ",".join(plan.addresses[rank] for rank in ranks))
        for host, ranks in members.items()
    }
    engines = {
        name: EngineNode(name, control[name], plan.addresses[name], offer=offer) for name in plan.switches
    }
    links = []
    for link in setup.topology.used_links(setup.ranks):
        child = members[link.child][0] if link.child in members else link.child
        low, high = plan.ends[child, link.parent]
        made = Link(link.child, link.parent, low.port, high.port, mtu=link.mtu or default_mtu(setup))
        if link.rate_gbps is not None:
            made = replace(made, rate_gbps=link.rate_gbps)
        if setup.transport == "netns":
            made = replace(made, low_mac=low.mac, high_mac=high.mac)
        links.append(made)
    return Fabric(hosts, engines, tuple(links), source="the run's fabric")


def default_mtu(setup: Setup) -> int:
    """MTU of links whose topology does not say."""
    return setup.mtu or DEFAULT_MTU[setup.transport]


def offer_of(setup: Setup) -> EngineCapabilities:
    """What the switches offer to this run."""
    kind, params = setup.switch, setup.params
    offers = (
        kind.offers(params.mode, setup.parameters)
        if kind.offers is not None
        else EngineCapabilities(params.mode)
    )
    return replace(
        offers,
        window=params.window,
        slots=params.slots,
        payload_bytes=params.payload_bytes,
        message_bytes=params.message_bytes,
        message_buffers=params.message_buffers,
        operators=params.operators,
        datatypes=params.datatypes,
        byte_order=(params.byte_order,),
        icrc=(params.icrc,),
        partial_format=(params.partial_format,),
        ack_reflection=params.ack_reflection,
        window_guard=params.window_guard,
        conflict_record=params.conflict_record,
        ordered=params.ordered,
        ecn=params.ecn,
    )
