"""Refusals in words: which engine, link or capability stands in the way of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from epic_host.fabric.candidates import Candidate, Obstacle, Room, View, grow, ranks_by_host
from epic_host.fabric.decision import Reason
from epic_host.fabric.negotiate import negotiate
from epic_host.fabric.placement import Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Demand
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Fabric

if TYPE_CHECKING:
    from epic_host.fabric.state import FabricState

_LACKING: Final = {
    "slot_bytes": Reason.NO_SLOTS,
    "slots": Reason.NO_SLOTS,
    "groups": Reason.NO_GROUPS,
    "multicast": Reason.NO_MULTICAST,
    "rate_gbps": Reason.NO_RATE,
    "children": Reason.FAN_IN,
}


def no_room(
    obstacle: Obstacle, demand: Demand, free: Capacity, link_free_gbps: float, edges_gbps: float
) -> Refusal:
    """A tree has no room: at an engine with `free` left for `demand`, or on a link."""
    if obstacle.link is not None:
        name = obstacle.link.name
        text = f"link {name}: rate_gbps = {link_free_gbps:g} free, expected {edges_gbps:g}"
        return Refusal(Reason.NO_RATE, text, {"link": name})
    field = demand.lacking(free) or "groups"
    left, asked = getattr(free, field), getattr(demand, field)
    text = f"engine {obstacle.engine}: {field} = {left:g} free, expected {asked:g}"
    if isinstance(left, int):
        text = f"engine {obstacle.engine}: {field} = {left} free, expected {asked}"
    return Refusal(_LACKING[field], text, {"engine": obstacle.engine, "lacks": field})


def no_tree(fabric: Fabric, state: FabricState, request: GroupRequest, terms: Terms | None) -> Refusal:
    """No working engines and links that offer what is asked for reach all hosts: which, and what they lack.

    In turn: the links do not join the hosts at all; they would without the losses; engines have not said what they
    offer; those of the best tree do not offer what is asked for.
    """
    ranks = ranks_by_host(request.hosts)
    every = frozenset(fabric.engines)
    cabled = View(fabric, every, frozenset(fabric.link_names))
    if not cabled.roots(ranks):
        return _not_joined(cabled, ranks)
    working = View(fabric, every - state.lost_engines, frozenset(fabric.link_names) - state.lost_links)
    if not working.roots(ranks):
        return _cut_off(cabled, state, ranks)
    told = View(fabric, working.engines & state.offers.keys(), working.usable)
    if not told.roots(ranks):
        silent = sorted(working.engines - state.offers.keys())
        text = (
            f"engine {silent[0]} has not said what it offers, expected an answer of {', '.join(silent[:4])}"
        )
        return Refusal(Reason.NO_CAPABILITY, text, {"engine": silent[0]})
    candidate = _any_tree(told, ranks)
    if isinstance(candidate, Obstacle):
        text = f"engine {candidate.engine}: fan-in {candidate.children}, expected a tree with less"
        return Refusal(Reason.FAN_IN, text, {"engine": candidate.engine})
    offers = {engine: state.offers[engine] for engine in candidate.width}
    found = negotiate(request, offers, tuple(candidate.uplinks.values()), terms)
    if isinstance(found, Refusal):
        return found
    return Refusal(Reason.NO_TREE, f"group {request.name}: no tree of its hosts serves it, expected one", {})


def _any_tree(view: View, ranks: dict[str, tuple[int, ...]]) -> Candidate | Obstacle:
    many = sum(map(len, ranks.values()))
    room = Room(lambda engine: many, None, lambda engine: 0.0)
    return grow(view, view.roots(ranks)[0], ranks, room)


def _not_joined(view: View, ranks: dict[str, tuple[int, ...]]) -> Refusal:
    alone = view.unreached(ranks)
    if alone:
        text = f"host {alone[0]} has no link to an engine, expected one"
        return Refusal(Reason.NO_TREE, text, {"host": alone[0]})
    hosts = ", ".join(list(ranks)[:4])
    return Refusal(
        Reason.NO_TREE, f"no engine is above all of {hosts}{', …' * (len(ranks) > 4)}, expected one", {}
    )


def _cut_off(cabled: View, state: FabricState, ranks: dict[str, tuple[int, ...]]) -> Refusal:
    """Which loss it is: engines and links in the cones of roots that would do."""
    lost_engines: list[str] = []
    lost_links: list[str] = []
    hosts = set(ranks)
    for root in cabled.roots(ranks):
        cone, seen, level = cabled.cone(root), {root}, list(hosts)
        while level:
            links = [link for node in level for link in cabled.leading(node, cone)]
            lost_links += [link.name for link in links if link.name in state.lost_links]
            level = list({link.high for link in links} - seen)
            seen.update(level)
        lost_engines += [engine for engine in sorted(seen) if engine in state.lost_engines]
    if lost_engines:
        names = list(dict.fromkeys(lost_engines))
        text = f"engine {names[0]} is lost, expected a working one in every tree of the hosts"
        return Refusal(Reason.ENGINE_LOST, text, {"engine": names[0], "lost": ",".join(names[:8])})
    names = list(dict.fromkeys(lost_links))
    text = f"link {names[0]} is lost, expected a working one in every tree of the hosts"
    return Refusal(Reason.LINK_LOST, text, {"link": names[0], "lost": ",".join(names[:8])})
