"""Fabrics, offers and requests for the tests of this folder, by hand and at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from epic_host.fabric.builders import Cables, fat_tree, single, spine_leaf, tree
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import PlacedTree, Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Usage
from epic_host.fabric.state import FabricState
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.registry import make_engine
from epic_models.reference.tree import build_group
from epic_spec.errors import ConfigError

SOFT = EngineCapabilities(mode=3)
# As the P4 program for Tofino offers (p4/README.md), in what matters here.
TOFINO = EngineCapabilities(
    mode=3,
    window=128,
    slots=256,
    payload_bytes=256,
    children=32,
    groups=64,
    datatypes=("INT32",),
    byte_order=("big",),
    icrc=("none",),
    partial_format=("input",),
    ack_reflection=True,
    ordered=False,
    ecn=True,
)


def engines(capacity: Capacity | None = None, offer: EngineCapabilities | None = SOFT) -> Any:
    """What a builder makes engines with."""
    return partial(EngineNode, capacity=capacity or Capacity(), offer=offer)


def state_of(fabric: Fabric, **offers: EngineCapabilities) -> FabricState:
    return FabricState(Usage(fabric), offers=offers)


def ask(*hosts: str, name: str = "g", **limits: Any) -> GroupRequest:
    return GroupRequest(name, hosts, **limits)


def placed(state: FabricState, request: GroupRequest, **options: Any) -> Placement:
    found = place(state.usage.fabric, state, request, **options)
    assert isinstance(found, Placement), found
    return found


def refused(state: FabricState, request: GroupRequest, **options: Any) -> Refusal:
    found = place(state.usage.fabric, state, request, **options)
    assert isinstance(found, Refusal), found
    return found


def take(state: FabricState, request: GroupRequest, **options: Any) -> Placement:
    """Placed and given away."""
    found = placed(state, request, **options)
    state.usage.add(found)
    return found


def check_tree(state: FabricState, request: GroupRequest, tree_: PlacedTree) -> None:
    """A tree is one: it reaches each rank once over working links, and real engines take their part of it."""
    fabric = state.usage.fabric
    parents: dict[str, str] = {}
    for name in tree_.links:
        link = fabric.link(name)
        assert name not in state.lost_links
        assert link.low not in parents, f"{link.low} has two parents"
        assert link.mtu >= tree_.terms.payload_bytes + 48
        parents[link.low] = link.high
    used = set(tree_.tree.engines())
    assert used == set(tree_.demand) and not used & state.lost_engines
    for rank, host in enumerate(request.hosts):
        assert rank in tree_.tree.children[parents[host]]
    for engine in used - {tree_.tree.root}:
        assert engine in tree_.tree.children[parents[engine]]
    assert parents.keys() == set(request.hosts) | (used - {tree_.tree.root})
    plan = build_group(tree_.tree, tree_.terms.params(request, 7, 3))
    for name, entry in plan.engines.items():
        offer = state.offers[name]
        # A real engine refuses what it does not offer (EPIC-E-18).
        make_engine(offer.mode, offer).install(entry, 0.0)
        children = len(entry.children)
        demand = tree_.demand[name]
        assert demand.children == children
        rate = 0.0 if request.rate_gbps is None else demand.rate_gbps / children
        assert demand == tree_.terms.demand(children, rate)


def check_placement(state: FabricState, request: GroupRequest, placement: Placement) -> None:
    for tree_ in placement.trees:
        check_tree(state, request, tree_)
    assert 1 <= len(placement.trees) <= request.trees
    assert len({tree_.terms for tree_ in placement.trees}) == 1
    assert len({frozenset(tree_.links) for tree_ in placement.trees}) == len(placement.trees)
    assert state.usage.obstacle(placement) is None


# ------------------------------------------------------------------------------------------------- at random

OFFERS: Sequence[EngineCapabilities] = (
    SOFT,
    TOFINO,
    replace(SOFT, window=16, slots=32, children=4),
    EngineCapabilities(mode=2),
    EngineCapabilities(mode=2, payload_bytes=512, datatypes=("INT32", "FP32"), byte_order=("little",)),
    EngineCapabilities(mode=1, message_bytes=4096, message_buffers=16),
    EngineCapabilities(mode=1, ordered=False, operators=("SUM",), icrc=("full",), partial_format=("fp32",)),
    EngineCapabilities(mode=3, icrc=("full",), ecn=False, conflict_record=False),
)


def some_capacity(rng: Random) -> Capacity:
    return Capacity(
        slot_bytes=rng.choice([50_000, 200_000, 1 << 20, 1 << 62]),
        slots=rng.choice([64, 256, 1 << 62]),
        groups=rng.choice([1, 2, 8]),
        children=rng.choice([2, 4, 64]),
        multicast=rng.choice([4, 16, 1 << 62]),
        rate_gbps=rng.choice([25.0, 100.0, float("inf")]),
    )


def shapes(make: Mapping[str, Any]) -> Sequence[Any]:
    return (
        partial(single, 4, **make),
        partial(tree, (2, 2), **make),
        partial(tree, (2, 2, 2), **make),
        partial(spine_leaf, 2, 3, 2, **make),
        partial(spine_leaf, 3, 2, 3, **make),
        partial(fat_tree, 4, **make),
    )


def some_dag(rng: Random, engine: Any) -> Fabric:
    """Hosts below one or two engines, engines below some of a higher tier; links may skip tiers."""
    names = [[f"t{t}e{i}" for i in range(rng.randint(1, 3))] for t in range(rng.randint(1, 3))]
    hosts = [f"h{i}" for i in range(rng.randint(1, 6))]
    ports: dict[str, int] = {}
    links = []

    def connect(low: str, high: str) -> None:
        ends = [ports.get(low, 0), ports.get(high, 0)]
        ports[low], ports[high] = ends[0] + 1, ends[1] + 1
        links.append(Link(low, high, *ends, mtu=rng.choice([1500, 1500, 9000, 600])))

    for low in hosts:
        for high in rng.sample(names[0], rng.randint(1, min(2, len(names[0])))):
            connect(low, high)
    for t, tier in enumerate(names[:-1]):
        above = [name for higher in names[t + 1 :] for name in higher]
        for low in tier:
            for high in rng.sample(above, rng.randint(0, min(3, len(above)))):
                connect(low, high)
    every = [name for tier in names for name in tier]
    return Fabric({h: HostNode(h) for h in hosts}, {e: engine(e) for e in every}, tuple(links))


def some_state(rng: Random, *, uniform: bool = False, regular: bool = False) -> FabricState:
    """A fabric with random capacities, offers and losses; `regular`: one of the usual shapes."""
    shared = rng.choice(OFFERS) if uniform or rng.random() < 0.5 else None

    def engine(name: str) -> EngineNode:
        return EngineNode(name, capacity=some_capacity(rng), offer=shared or rng.choice(OFFERS))

    if regular or rng.random() < 0.5:
        cables = Cables(mtu=rng.choice([1500, 9000]), rate_gbps=rng.choice([10.0, 100.0]))
        fabric = rng.choice(shapes({"engine": engine, "cables": cables}))()
    else:
        fabric = some_dag(rng, engine)
    state = FabricState(Usage(fabric))
    if rng.random() < 0.3:
        state.lose(some(rng, fabric.engines, 1), some(rng, fabric.link_names, 2))
    return state


def some(rng: Random, names: Iterable[str], most: int) -> set[str]:
    """Up to `most` of them."""
    return set(rng.sample(sorted(names), min(rng.randint(0, most), len(list(names)))))


def some_request(rng: Random, fabric: Fabric, *, plain: bool = False) -> GroupRequest:
    """A group on some of its hosts; `plain`: one tree, anything goes."""
    ranks = tuple(rng.choices(sorted(fabric.hosts), k=rng.randint(1, min(8, 2 * len(fabric.hosts)))))
    rate = rng.choice([None, None, 2.5, 10.0])
    if plain:
        return GroupRequest("g", tuple(dict.fromkeys(ranks)), operators=("SUM",), rate_gbps=rate)
    return GroupRequest(
        "g",
        ranks,
        modes=rng.choice([(), (), (), (), (3,), (2, 3), (1,)]),
        payload_bytes=rng.choice([None, None, 100, 512]),
        window=rng.choice([None, None, 4, 100]),
        datatypes=rng.choice([("INT32",), ("INT32",), ("INT32",), ("FP32",), ("INT32", "FP16")]),
        operators=rng.choice([("SUM",), ("SUM", "MAX", "MIN")]),
        byte_order=rng.choice([None, None, None, "big", "little"]),
        reproducible=rng.random() < 0.5,
        ack_reflection=rng.random() < 0.1,
        rate_gbps=rate,
        trees=rng.randint(1, 3),
    )


def error_of(text: str) -> str:
    """What is said of a fabric's file that is wrong."""
    try:
        Fabric.from_toml(text, "f.toml")
    except ConfigError as error:
        return str(error)
    raise AssertionError(f"taken: {text}")
