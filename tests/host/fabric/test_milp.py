"""The exact program against every choice there is, tried one by one, and against the heuristic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.fabric.agreement import agree
from epic_host.fabric.batch import place_batch
from epic_host.fabric.bench import some_instance
from epic_host.fabric.builders import spine_leaf, tree
from epic_host.fabric.heuristic import place
from epic_host.fabric.milp import Objective, place_exact, solve
from epic_host.fabric.placement import PlacedTree, Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_models.reference.tree import Node, Tree
from epic_spec.errors import ConfigError
from host.fabric.fabrics import ask, check_placement, engines, state_of

SEEDS = st.integers(0, 2**32 - 1)
FEWER = settings(max_examples=max(1, settings().max_examples // 5))


def every_tree(state: FabricState, request: GroupRequest, terms: Terms) -> Iterator[Placement]:
    """All trees and windows of a request, by brute force: each host and engine with each of its links up, or none."""
    fabric = state.usage.fabric
    hosts = dict.fromkeys(request.hosts)
    up = {
        node: [link for link in fabric.up[node] if link.name not in state.lost_links]
        for node in (*hosts, *fabric.engines)
    }
    for chosen in product(*(up[host] for host in hosts), *([None, *up[engine]] for engine in fabric.engines)):
        parents = {link.low: link.high for link in chosen if link is not None}
        used = set(parents.values()) | (parents.keys() - hosts)
        roots = used - parents.keys()
        if (
            len(roots) != 1
            or used & state.lost_engines
            or not parents.keys() - hosts <= set(parents.values())
        ):
            continue
        children: dict[str, list[Node]] = {engine: [] for engine in used}
        for rank, host in enumerate(request.hosts):
            children[parents[host]].append(rank)
        for engine in parents.keys() - hosts:
            children[parents[engine]].append(engine)
        tree_ = Tree(roots.pop(), {engine: tuple(below) for engine, below in children.items()})
        links = tuple(link.name for link in chosen if link is not None)
        for window in (8, 16, 32, 64):
            sized = terms.with_window(window)
            demand = {engine: sized.demand(len(below), 0.0) for engine, below in children.items()}
            yield Placement((PlacedTree(tree_, links, demand, sized),))


def best_of(state: FabricState, options: Sequence[Sequence[Placement]]) -> tuple[int, int, int]:
    """The most groups, of those the largest sum of log2 windows, of those the fewest bytes (negative)."""
    best = (0, 0, 0)

    def go(i: int, count: int, windows: int, size: int) -> None:
        nonlocal best
        if i == len(options):
            best = max(best, (count, windows, -size))
            return
        go(i + 1, count, windows, size)
        for option in options[i]:
            if state.usage.obstacle(option) is None:
                state.usage.add(option)
                log = option.trees[0].terms.window.bit_length() - 1
                go(i + 1, count + 1, windows + log, size + option.slot_bytes)
                state.usage.remove(option)

    go(0, 0, 0, 0)
    return best


@FEWER
@given(SEEDS)
def test_the_exact_choice_is_the_best_of_all(seed: int) -> None:
    rng = Random(seed)
    make = engines(Capacity(slot_bytes=2 * 1408 * rng.choice([16, 24, 40]), groups=rng.choice([1, 2])))
    fabric = rng.choice([spine_leaf(2, 2, 2, engine=make), tree((2, 2), engine=make)])
    state = state_of(fabric)
    if rng.random() < 0.3:
        state.lose(links=[rng.choice([link.name for link in fabric.links if link.low in fabric.engines])])
    hosts = sorted(fabric.hosts)
    requests = [ask(*rng.sample(hosts, rng.randint(2, 3)), name=f"g{i}") for i in range(3)]
    options = []
    for request in requests:
        terms = agree(fabric, state, request)
        options.append([] if isinstance(terms, Refusal) else list(every_tree(state, request, terms)))
    expected = best_of(state, options)
    found = solve(fabric, state, requests)
    windows = [placement.trees[0].terms.window.bit_length() - 1 for placement in found.placements.values()]
    size = sum(placement.slot_bytes for placement in found.placements.values())
    assert found.optimal and (len(windows), sum(windows), -size) == expected
    assert found.weight == pytest.approx(found.bound)


@FEWER
@given(SEEDS)
def test_the_heuristic_is_never_better_and_all_fit_together(seed: int) -> None:
    state, requests = some_instance(Random(seed))
    requests = requests[:8]
    fabric = state.usage.fabric
    weights = {request.name: float(1 + i % 3) for i, request in enumerate(requests)}
    best = solve(fabric, state, requests, Objective(weights))
    batch = place_batch(fabric, state, requests, weights)
    online: dict[str, Placement] = {}
    usage = state.usage.copy()
    for request in requests:
        found = place(fabric, state.with_usage(usage), request)
        if isinstance(found, Placement):
            usage.add(found)
            online[request.name] = found
    together = {name: found for name, found in batch.items() if isinstance(found, Placement)}
    by_name = {request.name: request for request in requests}
    for placements in (best.placements, together, online):
        assert sum(weights[name] for name in placements) <= best.bound + 1e-6
        trial = state.with_usage(state.usage.copy())
        for name, placement in placements.items():
            check_placement(trial, by_name[name], placement)
            trial.usage.add(placement)
    assert best.placements.keys() | best.refusals.keys() == batch.keys() == by_name.keys()
    assert not best.placements.keys() & best.refusals.keys()


def test_exact_placement_of_one_group_is_as_that_of_the_heuristic() -> None:
    state = state_of(spine_leaf(2, 2, 2, engine=engines()))
    exact, quick = (look(state.usage.fabric, state, ask("h0", "h2")) for look in (place_exact, place))
    assert isinstance(exact, Placement) and isinstance(quick, Placement)
    assert exact.slot_bytes == quick.slot_bytes and exact.trees[0].terms == quick.trees[0].terms
    several = place_exact(state.usage.fabric, state, ask("h0", "h2", trees=2))
    assert isinstance(several, Placement) and len(several.trees) == 2


def test_what_the_program_does_not_take_is_refused() -> None:
    state = state_of(spine_leaf(2, 2, 2, engine=engines()))
    with pytest.raises(ConfigError, match="group g: trees = 2, expected 1 for exact placement"):
        solve(state.usage.fabric, state, [ask("h0", trees=2)])
    with pytest.raises(ConfigError, match="group g: there twice, expected a name of its own"):
        solve(state.usage.fabric, state, [ask("h0"), ask("h1")])
    with pytest.raises(ConfigError, match="objective: stage 'speed', expected some of weight, window, bytes"):
        Objective(stages=("weight", "speed"))
    with pytest.raises(ConfigError, match="expected weight first"):
        Objective(stages=("bytes",))
