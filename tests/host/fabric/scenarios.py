"""Directed situations, each a function that passes on the right library and raises on a broken one.

`test_scenarios.py` runs each; `test_mutants.py` shows for each planted fault a scenario here that sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from epic_host.fabric.agreement import agree
from epic_host.fabric.batch import place_batch
from epic_host.fabric.builders import Cables, fat_tree, single, spine_leaf, tree
from epic_host.fabric.decision import Path, Reason
from epic_host.fabric.heuristic import place
from epic_host.fabric.milp import Objective, solve
from epic_host.fabric.negotiate import negotiate
from epic_host.fabric.placement import Placement, Refusal
from epic_host.fabric.policies import load
from epic_host.fabric.resources import Capacity, Usage
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError, ResourceError
from host.fabric.fabrics import (
    SOFT,
    TOFINO,
    ask,
    check_placement,
    engines,
    placed,
    refused,
    state_of,
    take,
)
from host.fabric.policy_world import PolicyWorld

SCENARIOS: dict[str, Callable[[], None]] = {}

FLOAT1 = EngineCapabilities(mode=1)
MODE2 = EngineCapabilities(mode=2)


def scenario(check: Callable[[], None]) -> Callable[[], None]:
    SCENARIOS[check.__name__] = check
    return check


# --------------------------------------------------------------------------------------------------- resources


@scenario
def groups_are_taken_in_until_entries_are_gone_and_again_when_one_is_given_back() -> None:
    state = state_of(single(2, engine=engines(Capacity(groups=3))))
    kept = [take(state, ask("h0", "h1", name=f"g{i}")) for i in range(3)]
    no = refused(state, ask("h0", "h1"))
    assert no.reason is Reason.NO_GROUPS
    assert no.text == "engine s0: groups = 0 free, expected 1" and no.about["engine"] == "s0"
    state.usage.remove(kept[1])
    take(state, ask("h0", "h1"))


@scenario
def a_window_is_halved_where_memory_is_short_and_a_group_refused_below_the_least() -> None:
    # Two slots of 1408 bytes a cell of the window: room for 64, then 32, then 4, which is below the least.
    memory = 2 * 1408 * (64 + 32 + 4)
    state = state_of(single(2, engine=engines(Capacity(slot_bytes=memory))))
    windows = [take(state, ask("h0", "h1", name=f"g{i}")).trees[0].terms.window for i in range(2)]
    assert windows == [64, 32]
    no = refused(state, ask("h0", "h1"))
    assert no.reason is Reason.NO_SLOTS
    assert no.text == f"engine s0: slot_bytes = {2 * 1408 * 4} free, expected {2 * 1408 * 8}"


@scenario
def memory_is_counted_as_section_11_of_the_specification_says() -> None:
    def bytes_of(offer: EngineCapabilities, **limits: int) -> int:
        state = state_of(single(3, engine=engines(offer=offer)))
        return placed(state, ask("h0", "h1", "h2", **limits)).trees[0].demand["s0"].slot_bytes

    assert bytes_of(SOFT) == 128 * 1408
    assert bytes_of(MODE2) == 2 * 64 * 1408
    assert bytes_of(FLOAT1) == (2 * 64 + 3) * 16384
    assert bytes_of(replace(FLOAT1, message_buffers=4, message_bytes=1024), window=32) == (2 * 4 + 3) * 1024


@scenario
def usage_refuses_what_does_not_fit_and_what_was_not_added() -> None:
    state = state_of(single(2, engine=engines(Capacity(groups=1))))
    one = placed(state, ask("h0", "h1"))
    state.usage.add(one)
    for change, kind in ((state.usage.add, ResourceError), (state.usage.remove, ConfigError)):
        before = state.usage.copy()
        if change == state.usage.remove:
            state.usage.remove(one)
            before = state.usage.copy()
        try:
            change(one)
        except kind as error:
            assert "engine s0" in str(error) and "expected" in str(error)
        else:
            raise AssertionError("it was taken")
        assert state.usage == before


@scenario
def several_ranks_of_a_host_count_each_in_fan_in_and_bandwidth() -> None:
    state = state_of(single(2, engine=engines()))
    found = take(state, ask("h0", "h0", "h0", "h1", rate_gbps=3.0)).trees[0]
    assert found.demand["s0"].children == 4 and found.demand["s0"].rate_gbps == 12.0
    assert found.rates == {"h0-s0": 9.0, "h1-s0": 3.0}
    assert state.usage.link_free("h0-s0") == 1.0


@scenario
def a_named_rate_is_kept_free_on_links_and_an_unnamed_one_is_not() -> None:
    state = state_of(single(4, engine=engines()))
    take(state, ask("h0", "h1", rate_gbps=6.0))
    no = refused(state, ask("h1", "h2", rate_gbps=6.0))
    assert no.reason is Reason.NO_RATE
    assert no.text == "link h1-s0: rate_gbps = 4 free, expected 6" and no.about == {"link": "h1-s0"}
    take(state, ask("h2", "h3", rate_gbps=6.0))
    take(state, ask("h1", "h2"))


@scenario
def an_engine_aggregates_no_more_than_its_rate() -> None:
    state = state_of(single(4, engine=engines(Capacity(rate_gbps=30.0))))
    take(state, ask("h0", "h1", rate_gbps=10.0))
    no = refused(state, ask("h2", "h3", rate_gbps=8.0))
    assert no.reason is Reason.NO_RATE and "engine s0: rate_gbps = 10 free, expected 16" in no.text
    take(state, ask("h2", "h3", rate_gbps=5.0))


# -------------------------------------------------------------------------------------------------------- trees


@scenario
def the_tree_of_hosts_below_one_engine_is_that_engine() -> None:
    state = state_of(fat_tree(4, engine=engines()))
    assert dict(placed(state, ask("h0", "h1")).trees[0].tree.children) == {"e0": (0, 1)}
    pod = placed(state, ask("h0", "h2")).trees[0]
    assert pod.tree.root in ("a0", "a1") and set(pod.demand) == {"e0", "e1", pod.tree.root}
    wide = placed(state, ask("h0", "h4")).trees[0]
    assert wide.tree.root.startswith("c") and len(wide.demand) == 5


@scenario
def groups_spread_over_roots() -> None:
    state = state_of(spine_leaf(4, 2, 2, engine=engines(Capacity(groups=4))))
    roots = {take(state, ask("h0", "h2", name=f"g{i}")).trees[0].tree.root for i in range(4)}
    assert roots == {"p0", "p1", "p2", "p3"}


@scenario
def children_are_shared_out_where_one_engine_has_too_little_fan_in() -> None:
    few, hosts = engines(Capacity(children=2)), [f"h{i}" for i in range(4)]
    links = [
        Link(host, leaf, low, high)
        for high, host in enumerate(hosts)
        for low, leaf in enumerate(("l0", "l1"))
    ]
    links += [Link("l0", "p0", 9, 0), Link("l1", "p0", 9, 1)]
    fabric = Fabric({h: HostNode(h) for h in hosts}, {e: few(e) for e in ("l0", "l1", "p0")}, tuple(links))
    state = state_of(fabric)
    found = placed(state, ask(*hosts))
    check_placement(state, ask(*hosts), found)
    assert sorted(len(children) for children in found.trees[0].tree.children.values()) == [2, 2, 2]


@scenario
def too_large_a_fan_in_is_refused_by_the_engine_and_its_limit() -> None:
    state = state_of(single(4, engine=engines(offer=replace(SOFT, children=3))))
    no = refused(state, ask("h0", "h1", "h2", "h3"))
    assert no.reason is Reason.FAN_IN and "engine s0" in no.text and "at most 3" in no.text


@scenario
def a_lost_engine_or_link_is_gone_around_or_named() -> None:
    state = state_of(spine_leaf(2, 2, 2, engine=engines()))
    request = ask("h0", "h2")
    terms = agree(state.usage.fabric, state, request)
    assert isinstance(terms, Terms)
    first = placed(state, request, terms=terms).trees[0].tree.root
    other = {"p0": "p1", "p1": "p0"}[first]
    state.lose([first])
    assert placed(state, request, terms=terms).trees[0].tree.root == other
    state.lose(links=[f"l0-{other}"])
    assert refused(state, request, terms=terms).reason in (Reason.ENGINE_LOST, Reason.LINK_LOST)
    state.restore([first])
    assert placed(state, request, terms=terms).trees[0].tree.root == first
    state.restore(links=[f"l0-{other}"])
    state.lose(["l0"])
    no = refused(state, request, terms=terms)
    assert no.reason is Reason.ENGINE_LOST and no.about["engine"] == "l0" and "l0" in no.text
    state.restore(["l0"])
    state.lose(links=["h2-l1"])
    no = refused(state, request, terms=terms)
    assert no.reason is Reason.LINK_LOST and no.about["link"] == "h2-l1" and "h2-l1" in no.text


@scenario
def several_trees_of_a_group_share_no_more_than_they_must() -> None:
    state = state_of(spine_leaf(3, 2, 2, engine=engines()))
    request = ask("h0", "h1", "h2", "h3", trees=3, rate_gbps=6.0)
    found = take(state, request)
    check_placement(state_of(state.usage.fabric), request, found)
    assert {tree_.tree.root for tree_ in found.trees} == {"p0", "p1", "p2"}
    assert state.usage.link_used("l0-p0") == 2.0 and state.usage.link_used("h0-l0") == 6.0
    # Where there are fewer ways there are fewer trees.
    assert len(placed(state, replace(request, trees=5, rate_gbps=None)).trees) == 3
    assert len(placed(state_of(single(4, engine=engines())), replace(request, trees=2)).trees) == 1
    assert len(placed(state, ask("h0", "h1", trees=2)).trees) == 1


@scenario
def a_group_prefers_a_large_window_to_a_near_engine_that_is_nearly_full() -> None:
    state = state_of(spine_leaf(2, 2, 2, engine=engines(Capacity(slot_bytes=2 * 1408 * 100))))
    first = take(state, ask("h0", "h2"))
    state.usage.remove(first)
    # 36 cells of window are left at p0, all of p1.
    only_p0 = state.with_usage(state.usage)
    squeeze = replace(first.trees[0], demand={"p0": first.trees[0].demand["p0"]}, rates={})
    only_p0.usage.add(Placement((squeeze,)))
    found = placed(state, ask("h0", "h2")).trees[0]
    assert found.tree.root == "p1" and found.terms.window == 64


# ------------------------------------------------------------------------------------------------- negotiation


@scenario
def a_tofino_leaf_below_a_software_root_gets_what_both_have() -> None:
    def engine(name: str) -> EngineNode:
        return EngineNode(name, offer=SOFT if name == "s0" else TOFINO)

    state = state_of(tree((2, 2), engine=engine))
    request = ask("h0", "h1", "h2", "h3", window=512)
    found = placed(state, request)
    check_placement(state, request, found)
    terms = found.trees[0].terms
    assert (terms.mode, terms.payload_bytes, terms.icrc, terms.window, terms.slots) == (
        3,
        256,
        "none",
        128,
        256,
    )
    assert terms.datatypes == ("INT32",) and terms.byte_order == "big" and terms.partial_format == "input"
    no = refused(state, replace(request, datatypes=("FP32",)))
    assert no.reason is Reason.NO_CAPABILITY
    assert no.text == "engine s1: datatypes = INT32, expected FP32 among them"


@scenario
def engines_of_different_modes_are_in_no_tree_together() -> None:
    offers = {"s0": SOFT, "s1": MODE2, "s2": SOFT}
    state = state_of(tree((2, 2), engine=engines(offer=None)), **offers)
    no = refused(state, ask("h0", "h2"))
    assert no.reason is Reason.MIXED_TREE
    assert no.text == "engine s2: mode = 3, expected 2 as engine s1: a tree has one mode"
    assert no.about == {"engine": "s2", "capability": "mode"}
    placed(state, ask("h2", "h3"))


@scenario
def engines_that_have_no_value_in_common_are_refused_by_name() -> None:
    pairs = {
        "icrc": (replace(SOFT, icrc=("full",)), replace(SOFT, icrc=("none",))),
        "byte_order": (replace(SOFT, byte_order=("big",)), replace(SOFT, byte_order=("little",))),
        "partial_format": (replace(SOFT, partial_format=("input",)), replace(SOFT, partial_format=("fp32",))),
    }
    link = Link("h0", "s0")
    for capability, (one, other) in pairs.items():
        no = negotiate(ask("h0"), {"s0": one, "s1": other}, [link])
        assert isinstance(no, Refusal) and no.reason is Reason.MIXED_TREE
        theirs, first = getattr(other, capability)[0], getattr(one, capability)[0]
        assert no.text.startswith(f"engine s1: {capability} = {theirs}, expected {first}")
        yes = negotiate(ask("h0"), {"s0": one, "s1": SOFT}, [link])
        assert isinstance(yes, Terms) and getattr(yes, capability) == first


@scenario
def what_one_engine_does_not_offer_is_refused_by_name_value_and_expected() -> None:
    link, big = Link("h0", "s0"), EngineCapabilities(mode=1, ordered=False, datatypes=("FP32",))
    cases = [
        (ask("h0", modes=(1, 2)), SOFT, "engine s0: mode = 3, expected 1 or 2"),
        (
            ask("h0", operators=("MAX",)),
            replace(SOFT, operators=("SUM", "MIN")),
            "engine s0: operators = SUM, MIN, expected MAX among them",
        ),
        (
            ask("h0", byte_order="little"),
            replace(SOFT, byte_order=("big",)),
            "engine s0: byte_order = big, expected little among them",
        ),
        (
            ask("h0", ack_reflection=True),
            replace(SOFT, ack_reflection=False),
            "engine s0: ack_reflection = False, expected true",
        ),
        (ask("h0", ack_reflection=True), MODE2, "engine s0: mode = 2, expected 3"),
        (
            ask("h0", ack_reflection=True, payload_bytes=200),
            SOFT,
            "engine s0: payload_bytes = 8192, expected at least 256 (the request allows 200)",
        ),
        (
            ask("h0", datatypes=("FP32",), reproducible=True),
            big,
            "engine s0: ordered = False, expected true, or INT32, SUM and MAX for hosts to add reproducibly",
        ),
    ]
    for request, offer, text in cases:
        no = negotiate(request, {"s0": offer}, [link])
        assert isinstance(no, Refusal) and no.reason is Reason.NO_CAPABILITY
        assert no.text == text, no.text
    no = negotiate(ask("h0"), {"s0": SOFT}, [Link("h0", "s0", mtu=123)])
    assert isinstance(no, Refusal) and no.text == "link h0-s0: mtu = 123, expected at least 124"


@scenario
def reproducible_floating_point_is_added_in_order_or_by_the_hosts() -> None:
    request = ask("h0", "h1", datatypes=("FP32",), operators=("SUM",), reproducible=True)
    ordered = placed(state_of(single(2, engine=engines(offer=FLOAT1))), request).trees[0].terms
    assert ordered.ordered and ordered.mode == 1 and ordered.datatypes == ("FP32",)
    emulated = placed(state_of(single(2, engine=engines())), request).trees[0].terms
    assert not emulated.ordered
    assert emulated.datatypes == ("FP32", "INT32") and emulated.operators == ("SUM", "MAX")
    exact = placed(state_of(single(2, engine=engines())), replace(request, datatypes=("INT32",)))
    assert exact.trees[0].terms.operators == ("SUM",)


@scenario
def stock_nics_get_a_path_mtu_of_theirs() -> None:
    state = state_of(single(2, engine=engines()))
    request = ask("h0", "h1", ack_reflection=True)
    assert placed(state, request).trees[0].terms.payload_bytes == 1024
    assert placed(state, replace(request, payload_bytes=1000)).trees[0].terms.payload_bytes == 512
    assert placed(state, replace(request, ack_reflection=False)).trees[0].terms.payload_bytes == 1408


@scenario
def the_largest_payload_that_a_whole_tree_carries_is_taken() -> None:
    wide = spine_leaf(2, 2, 1, engine=engines(), cables=Cables(mtu=9000))
    narrow = [replace(link, mtu=1500) if link.high == "p0" else link for link in wide.links]
    found = placed(state_of(Fabric(wide.hosts, wide.engines, tuple(narrow))), ask("h0", "h1")).trees[0]
    assert found.tree.root == "p1" and found.terms.payload_bytes == 8192
    # Room for the 12 bytes more that messages between hosts have.
    single_ = state_of(single(2, engine=engines(), cables=Cables(mtu=1024 + 59)))
    assert placed(single_, ask("h0", "h1")).trees[0].terms.payload_bytes == 960


@scenario
def a_later_epoch_keeps_the_cells_and_coding_of_the_first() -> None:
    offers = {"l0": SOFT, "l1": SOFT, "p0": SOFT, "p1": TOFINO}
    fabric = spine_leaf(2, 2, 1, engine=engines(offer=None))
    state = state_of(fabric, **offers)
    request = ask("h0", "h1")
    terms = agree(fabric, state, request)
    assert isinstance(terms, Terms) and terms.payload_bytes == 1408 and terms.icrc == "full"
    assert placed(state, request, terms=terms).trees[0].tree.root == "p0"
    state.lose(["p0"])
    no = refused(state, request, terms=terms)
    assert no.reason is Reason.NO_CAPABILITY
    assert no.text == "engine p1: payload_bytes = 256, expected at least 1408, the group's cells"
    state.offer("p1", replace(TOFINO, payload_bytes=2048, window=32, slots=64))
    again = placed(state, request, terms=terms).trees[0].terms
    assert (again.payload_bytes, again.icrc, again.window) == (1408, "none", 32)
    # Messages of Mode I are cells too: another mode will do where they are of one size.
    for leaf in ("l0", "l1", "p1"):
        state.offer(leaf, FLOAT1)
    assert placed(state, request, terms=terms).trees[0].terms.cell_bytes == 1408


@scenario
def an_engine_that_has_not_said_what_it_offers_is_not_used() -> None:
    state = state_of(spine_leaf(2, 2, 1, engine=engines(offer=None)), l0=SOFT, l1=SOFT, p1=SOFT)
    assert placed(state, ask("h0", "h1")).trees[0].tree.root == "p1"
    state.offer("p1", None)
    no = refused(state, ask("h0", "h1"))
    assert no.reason is Reason.NO_CAPABILITY and no.about["engine"] == "p0" and "has not said" in no.text


@scenario
def the_window_covers_the_bandwidth_delay_product() -> None:
    cables = Cables(rate_gbps=100.0, delay_us=50.0, mtu=1500)
    state = state_of(spine_leaf(1, 2, 1, engine=engines(), cables=cables))
    # Two hops of 50 us and 1494 bytes at 100 Gbit/s, there and back: 200.5 us, 1678 cells in flight.
    assert placed(state, ask("h0", "h1")).trees[0].terms.window == 2048
    assert placed(state, ask("h0", "h1", window=1000)).trees[0].terms.window == 512
    assert placed(state, ask("h0", "h1", rate_gbps=1.0)).trees[0].terms.window == 64
    assert placed(state, ask("h0", "h1", rate_gbps=1.0, window=200)).trees[0].terms.window == 128


# ------------------------------------------------------------------------------------------------------- exact


@scenario
def the_exact_choice_is_better_than_first_come_first_served() -> None:
    # A wide group takes an entry of every leaf, so four narrow ones are lost.
    fabric = spine_leaf(2, 4, 2, engine=engines(Capacity(groups=1)))
    state = state_of(fabric)
    wide = ask("h0", "h2", "h4", "h6", name="wide")
    narrow = [ask(f"h{2 * i}", f"h{2 * i + 1}", name=f"n{i}") for i in range(4)]
    greedy = state.usage.copy()
    first = place(fabric, state.with_usage(greedy), wide)
    assert isinstance(first, Placement)
    greedy.add(first)
    assert all(isinstance(place(fabric, state.with_usage(greedy), r), Refusal) for r in narrow)
    best = solve(fabric, state, [wide, *narrow])
    assert (
        best.optimal
        and best.weight == best.bound == 4.0
        and set(best.placements) == {f"n{i}" for i in range(4)}
    )
    assert best.refusals["wide"].reason is Reason.NO_GROUPS
    heavy = solve(fabric, state, [wide, *narrow], Objective({"wide": 5.0}))
    assert heavy.weight == 5.0 and set(heavy.placements) == {"wide"}
    batch = place_batch(fabric, state, [wide, *narrow])
    assert sum(isinstance(found, Placement) for found in batch.values()) == 4


@scenario
def the_exact_choice_gives_the_largest_windows_and_then_the_fewest_bytes() -> None:
    memory = 2 * 1408 * 96
    state = state_of(spine_leaf(2, 2, 2, engine=engines(Capacity(slot_bytes=memory))))
    pair = [ask("h0", "h2", name="a"), ask("h0", "h2", name="b")]
    best = solve(state.usage.fabric, state, pair)
    assert sorted(p.trees[0].terms.window for p in best.placements.values()) == [32, 64]
    batch = place_batch(state.usage.fabric, state, pair).values()
    assert sorted(p.trees[0].terms.window for p in batch if isinstance(p, Placement)) == [32, 64]
    least = solve(state.usage.fabric, state, pair, Objective(stages=("weight", "bytes")))
    assert [p.trees[0].terms.window for p in least.placements.values()] == [8, 8]


# ---------------------------------------------------------------------------------------------------- policies


def _one_place() -> PolicyWorld:
    return PolicyWorld(state_of(single(6, engine=engines(Capacity(groups=1)))), load("spatial"))


@scenario
def the_last_of_slots_plus_one_groups_is_on_its_hosts_and_moves_up_when_one_ends() -> None:
    for policy in ("spatial", "temporal", "best_effort"):
        state = state_of(single(6, engine=engines(Capacity(groups=2))))
        world = PolicyWorld(state, load(policy))
        for i in range(3):
            world.create(ask("h0", "h1", name=f"g{i}"))
        last = world.lives["g2"].verdict
        assert world.on_network() == {"g0", "g1"} and world.path("g2") is Path.HOST
        assert last.reason is Reason.NO_GROUPS and last.queued and "engine s0" in last.text
        assert not world.step()
        world.destroy("g0")
        assert [(move.group, move.to, move.reason) for move in world.step()] == [
            ("g2", Path.NETWORK, Reason.UPGRADED)
        ]
        assert world.on_network() == {"g1", "g2"}


@scenario
def a_job_that_takes_the_network_or_nothing_is_queued_or_refused_as_the_policy_says() -> None:
    for policy, queued in (("spatial", True), ("temporal", True), ("best_effort", False)):
        world = _one_place()
        world.policy = load(policy)
        world.create(ask("h0", "h1", name="first"))
        verdict = world.create(ask("h0", "h1", name="second", path="network"))
        assert verdict.path is Path.NONE and verdict.queued is queued and verdict.reason is Reason.NO_GROUPS
        assert world.create(ask("h0", "h1", name="third", path="host")).reason is Reason.ASKED_FOR_HOST
        # What no empty fabric could serve does not wait.
        hopeless = world.policy.admit(world.state, ask("h0", "h1", modes=(1,), path="network"), 0.0)
        assert hopeless.path is Path.NONE and not hopeless.queued
        assert hopeless.reason is Reason.NO_CAPABILITY


@scenario
def a_group_that_waits_is_not_overtaken_under_spatial_and_is_under_best_effort() -> None:
    for policy, overtakes in (("spatial", False), ("temporal", False), ("best_effort", True)):
        # The wide group waits for l0, which "left" has; "right" has l1. A late one at l1 would keep the wide one out.
        state = state_of(spine_leaf(1, 2, 2, engine=engines(Capacity(groups=1))))
        world = PolicyWorld(state, load(policy))
        world.create(ask("h0", "h1", name="left"))
        world.now = 0.1
        wide = world.create(ask("h0", "h2", name="wide"))
        assert wide.path is Path.HOST and wide.queued
        world.now = 0.2
        late = world.create(ask("h2", "h3", name="late"))
        assert (late.path is Path.NETWORK) is overtakes
        assert (late.reason is Reason.QUEUED) is not overtakes
        world.destroy("left")
        world.step()
        assert ("wide" in world.on_network()) is not overtakes


@scenario
def a_late_group_that_is_in_nobodys_way_does_not_wait() -> None:
    for policy in ("spatial", "temporal"):
        state = state_of(spine_leaf(1, 3, 2, engine=engines(Capacity(groups=1))))
        world = PolicyWorld(state, load(policy))
        world.create(ask("h0", "h1", name="left"))
        world.now = 0.1
        world.create(ask("h0", "h2", name="wide"))
        world.now = 0.2
        assert world.create(ask("h4", "h5", name="elsewhere")).path is Path.NETWORK


@scenario
def groups_take_turns_of_a_quantum_under_temporal() -> None:
    world = _one_place()
    world.policy, world.change = load("temporal", quantum=1.0), 0.25
    for name in ("a", "b", "c"):
        world.create(ask("h0", "h1", name=name))
        world.now += 0.01
    world.run(12.0)
    order = [move.group for _, move in world.moves if move.to is Path.NETWORK]
    assert order[:6] == ["b", "c", "a", "b", "c", "a"]
    for name in ("a", "b", "c"):
        turns = world.lives[name].turns
        # Each turn is a quantum: whoever is next starts as soon as its place is free.
        assert all(0.99 < until - since < 1.3 for since, until in turns[:-1] if until < 12.0), turns
        starts = [since for since, _ in turns]
        assert all(later - earlier < 3 * (1.0 + 0.25) + 0.1 for earlier, later in pairwise(starts))
    over = [move for _, move in world.moves if move.to is Path.HOST]
    assert over and all(move.reason is Reason.TURN_OVER and "waits" in move.text for move in over)


@scenario
def nobody_makes_way_for_a_group_that_does_not_fit_even_then() -> None:
    fabric = single(6, engine=engines(Capacity(groups=1)))
    world = PolicyWorld(state_of(fabric), load("temporal", quantum=1.0))
    world.create(ask("h0", "h1", name="a"))
    verdict = world.create(ask("h0", "h1", name="b", path="host"))
    assert verdict.path is Path.HOST
    world.run(10.0)
    assert not world.moves and world.on_network() == {"a"}


@scenario
def under_best_effort_memory_is_shared_by_smaller_windows_and_under_spatial_it_is_not() -> None:
    cables = Cables(rate_gbps=100.0, delay_us=10.0)
    for policy, paths in (
        ("spatial", [Path.NETWORK, Path.HOST]),
        ("best_effort", [Path.NETWORK, Path.NETWORK]),
    ):
        # 100 Gbit/s and 20 us need 256 cells; there is memory for 256 and 64.
        memory = Capacity(slot_bytes=2 * 1408 * (256 + 64))
        world = PolicyWorld(state_of(single(4, engine=engines(memory), cables=cables)), load(policy))
        assert [world.create(ask("h0", "h1", name=name)).path for name in ("a", "b")] == paths


# ---------------------------------------------------------------------------------------------------- requests


@scenario
def a_request_that_makes_no_sense_is_refused_with_its_name() -> None:
    state = state_of(single(2, engine=engines()))
    cases = [
        (ask(), "group g: no hosts, expected one for each rank"),
        (ask("h9"), "group g: host 'h9' is not of the fabric"),
        (ask("h0", modes=(4,)), "group g: mode 4, expected 1, 2 or 3"),
        (ask("h0", window=0), "group g: window = 0, expected at least 1"),
        (ask("h0", trees=0), "group g: trees = 0, expected at least 1"),
        (ask("h0", rate_gbps=-1.0), "group g: rate_gbps = -1.0, expected Gbit/s above 0"),
        (ask("h0", datatypes=("INT31",)), "group g: datatypes has 'INT31', expected some of"),
    ]
    for request, text in cases:
        for look in (place, agree):
            try:
                look(state.usage.fabric, state, request)
            except ConfigError as error:
                assert str(error).startswith(text), error
            else:
                raise AssertionError(f"taken: {request}")


@scenario
def usage_is_given_back_to_the_last_bit() -> None:
    state = state_of(fat_tree(4, engine=engines(Capacity(rate_gbps=99.9))))
    kept = [take(state, ask("h0", "h5", name=f"g{i}", rate_gbps=0.1 * i)) for i in range(1, 8)]
    for placement in kept:
        state.usage.remove(placement)
    assert state.usage == Usage(state.usage.fabric)
    assert state.usage.link_used("h0-e0") == 0.0
