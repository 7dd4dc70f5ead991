"""Planted faults: each breaks one rule of the library and names the scenario that must see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from epic_host.fabric import (
    agreement,
    batch,
    candidates,
    heuristic,
    milp,
    negotiate,
    resources,
    state,
    window,
)
from epic_host.fabric.policies import base, best_effort, queue, spatial, temporal
from epic_host.fabric.resources import Capacity, Demand, Usage
from epic_host.fabric.terms import Terms

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (scenario that must fail, how)
MUTANTS: dict[str, tuple[str, Patch]] = {}


def mutant(name: str, scenario: str, target: Any, attribute: str, value: Any) -> None:
    MUTANTS[name] = (scenario, lambda: mock.patch.object(target, attribute, value))


# --------------------------------------------------------------------------------------------------- resources

_DEMAND = Terms.demand

mutant(
    "group entries not counted",
    "groups_are_taken_in_until_entries_are_gone_and_again_when_one_is_given_back",
    Terms,
    "demand",
    lambda self, children, rate: replace(_DEMAND(self, children, rate), groups=0),
)
mutant(
    "memory for one of the two kinds of slots",
    "memory_is_counted_as_section_11_of_the_specification_says",
    Terms,
    "demand",
    lambda self, children, rate: replace(
        _DEMAND(self, children, rate), slot_bytes=_DEMAND(self, children, rate).slot_bytes // 2
    ),
)
mutant(
    "messages being reassembled not counted",
    "memory_is_counted_as_section_11_of_the_specification_says",
    Terms,
    "demand",
    lambda self, children, rate: replace(
        _DEMAND(self, children, rate), slot_bytes=_DEMAND(self, 0, rate).slot_bytes
    ),
)
mutant(
    "nothing is free again",
    "groups_are_taken_in_until_entries_are_gone_and_again_when_one_is_given_back",
    Usage,
    "remove",
    lambda self, placement: None,
)
mutant(
    "usage takes anything",
    "usage_refuses_what_does_not_fit_and_what_was_not_added",
    Usage,
    "obstacle",
    lambda self, placement: None,
)
mutant(
    "links have bandwidth without end",
    "a_named_rate_is_kept_free_on_links_and_an_unnamed_one_is_not",
    heuristic.Search,
    "_edges",
    lambda self, link: 1 << 20,
)
mutant(
    "an edge for each host, not each rank",
    "several_ranks_of_a_host_count_each_in_fan_in_and_bandwidth",
    heuristic.Search,
    "_rates",
    lambda self, candidate: {link.name: self.set_aside for link in candidate.uplinks.values()},
)
mutant(
    "engines aggregate without end",
    "an_engine_aggregates_no_more_than_its_rate",
    Demand,
    "fits",
    lambda self, free: Demand.lacking(replace(self, rate_gbps=0.0), free) is None,
)
mutant(
    "rates added as floating point",
    "usage_is_given_back_to_the_last_bit",
    resources,
    "_plus",
    lambda a, b, sign: Demand(
        a.slot_bytes + sign * b.slot_bytes,
        a.slots + sign * b.slots,
        a.groups + sign * b.groups,
        0,
        a.multicast + sign * b.multicast,
        a.rate_gbps + sign * b.rate_gbps,
    ),
)

# -------------------------------------------------------------------------------------------------- placement

_SCORED = heuristic.Search._scored
_SIZES = heuristic.Search._sizes


mutant(
    "no window is halved",
    "a_window_is_halved_where_memory_is_short_and_a_group_refused_below_the_least",
    heuristic.Search,
    "_sizes",
    lambda self, *given: replace(_SIZES(self, *given), least=_SIZES(self, *given).wanted),
)
mutant(
    "windows are halved down to one",
    "a_window_is_halved_where_memory_is_short_and_a_group_refused_below_the_least",
    window,
    "LEAST_WINDOW",
    1,
)
mutant(
    "a chain is left on top of a tree",
    "several_trees_of_a_group_share_no_more_than_they_must",
    candidates.Growth,
    "_trimmed",
    lambda self, root: root,
)
mutant(
    "the first root is the best",
    "groups_spread_over_roots",
    Usage,
    "load",
    lambda self, engine: 0.0,
)
mutant(
    "fan-in is not looked at",
    "children_are_shared_out_where_one_engine_has_too_little_fan_in",
    heuristic.Search,
    "_largest_fan_in",
    lambda self, free: self.request.world_size,
)
mutant(
    "any fan-in is agreed to",
    "too_large_a_fan_in_is_refused_by_the_engine_and_its_limit",
    Capacity,
    "under",
    lambda self, groups, children: self,
)
mutant(
    "lost engines are used",
    "a_lost_engine_or_link_is_gone_around_or_named",
    state.FabricState,
    "lose",
    lambda self, engines=(), links=(): self._set_lost(self.lost_engines, self.lost_links | frozenset(links)),
)
mutant(
    "lost links are used",
    "a_lost_engine_or_link_is_gone_around_or_named",
    state.FabricState,
    "lose",
    lambda self, engines=(), links=(): self._set_lost(
        self.lost_engines | frozenset(engines), self.lost_links
    ),
)
mutant(
    "what was derived before a loss is kept",
    "a_lost_engine_or_link_is_gone_around_or_named",
    state.FabricState,
    "_set_lost",
    lambda self, engines, links: self.__dict__.update(_lost_engines=engines, _lost_links=links),
)
mutant(
    "all trees are the same tree",
    "several_trees_of_a_group_share_no_more_than_they_must",
    heuristic.Search,
    "_scored",
    lambda self, candidate: _SCORED(_Alone(self), candidate),
)
mutant(
    "nearest before largest window",
    "a_group_prefers_a_large_window_to_a_near_engine_that_is_nearly_full",
    heuristic.Scored,
    "key",
    lambda self: (0, 0, -len(self.demand), self.fullest),
)
mutant(
    "windows are not sized",
    "the_window_covers_the_bandwidth_delay_product",
    window,
    "covering",
    lambda rate_gbps, rtt_us, cell_wire_bytes: 1,
)
mutant(
    "the round trip is one way",
    "the_window_covers_the_bandwidth_delay_product",
    candidates,
    "hop_us",
    lambda link, cell_wire_bytes: (link.delay_us + 8e-3 * cell_wire_bytes / link.rate_gbps) / 2,
)


class _Alone:
    """A search that knows of no other tree of the group."""

    def __init__(self, search: Any) -> None:
        self._search = search
        self.chosen: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)


# ------------------------------------------------------------------------------------------------- negotiation

_AGREED = negotiate._agreed
_SERVED = negotiate.Choice.served_by

mutant(
    "the mode is that of the first engine",
    "engines_of_different_modes_are_in_no_tree_together",
    negotiate.Choice,
    "served_by",
    lambda self, offer: _SERVED(replace(self, mode=offer.mode), offer),
)
MUTANTS["no value in common is none the matter"] = (
    "engines_that_have_no_value_in_common_are_refused_by_name",
    lambda: mock.patch.multiple(
        negotiate,
        _disagreement=lambda request, offers: None,
        _common=lambda capability, engines, fixed: getattr(engines[0], capability)[0],
    ),
)
mutant(
    "one engine speaks for all",
    "a_tofino_leaf_below_a_software_root_gets_what_both_have",
    negotiate,
    "_agreed",
    lambda request, offers, links, terms: _AGREED(request, dict(list(offers.items())[-1:]), links, terms),
)
mutant(
    "what an engine lacks is not looked at",
    "what_one_engine_does_not_offer_is_refused_by_name_value_and_expected",
    negotiate,
    "_unable",
    lambda request, name, offer, terms: None,
)
mutant(
    "reproducible is a word",
    "reproducible_floating_point_is_added_in_order_or_by_the_hosts",
    negotiate,
    "adds_in_order",
    lambda request: False,
)
mutant(
    "any payload is good for a stock NIC",
    "stock_nics_get_a_path_mtu_of_theirs",
    negotiate,
    "NIC_PAYLOADS",
    tuple(range(8192, 0, -64)),
)
mutant(
    "no room for the header between hosts",
    "the_largest_payload_that_a_whole_tree_carries_is_taken",
    negotiate,
    "AROUND_PAYLOAD",
    48,
)
mutant(
    "links carry any packet",
    "the_largest_payload_that_a_whole_tree_carries_is_taken",
    negotiate.Choice,
    "carried_by",
    lambda self, link: True,
)
mutant(
    "each epoch agrees anew",
    "a_later_epoch_keeps_the_cells_and_coding_of_the_first",
    state.FabricState,
    "_options",
    lambda self, request, terms: _OPTIONS(self, request, None),
)
_OPTIONS = state.FabricState._options
mutant(
    "silent engines are as those that speak",
    "an_engine_that_has_not_said_what_it_offers_is_not_used",
    state.FabricState,
    "offer",
    lambda self, engine, offer: _OFFER(self, engine, offer or self.offers[engine]),
)
_OFFER = state.FabricState.offer
mutant(
    "any request is taken",
    "a_request_that_makes_no_sense_is_refused_with_its_name",
    agreement,
    "check_request",
    lambda fabric, request: _CHECK(
        fabric, replace(request, modes=(), window=None, trees=1, rate_gbps=None, datatypes=("INT32",))
    ),
)
_CHECK = agreement.check_request

# ------------------------------------------------------------------------------------------------------- exact

mutant(
    "weights are all alike",
    "the_exact_choice_is_better_than_first_come_first_served",
    milp.Objective,
    "weight",
    lambda self, name: 1.0,
)
mutant(
    "one stage is enough",
    "the_exact_choice_gives_the_largest_windows_and_then_the_fewest_bytes",
    milp._Problem,
    "_costs",
    lambda self, stage: _COSTS(self, "weight"),
)
_COSTS = milp._Problem._costs

mutant(
    "windows stay small",
    "the_exact_choice_gives_the_largest_windows_and_then_the_fewest_bytes",
    batch._Batch,
    "_widen",
    lambda self: False,
)
mutant(
    "nobody is exchanged",
    "the_exact_choice_is_better_than_first_come_first_served",
    batch._Batch,
    "__init__",
    lambda self, fabric, state, requests, weights: _backwards(self, fabric, state, requests, weights),
)
_BATCH = batch._Batch.__init__


def _backwards(self: Any, *given: Any) -> None:
    """The widest first, and no second thoughts."""
    _BATCH(self, *given)
    self._order.reverse()
    self._exchange = lambda: False


# ---------------------------------------------------------------------------------------------------- policies

_WAITING = queue.waiting

mutant(
    "nobody moves up",
    "the_last_of_slots_plus_one_groups_is_on_its_hosts_and_moves_up_when_one_ends",
    best_effort,
    "waiting",
    lambda groups: [],
)
mutant(
    "everybody waits",
    "a_job_that_takes_the_network_or_nothing_is_queued_or_refused_as_the_policy_says",
    base,
    "elsewhere",
    lambda request, refusal, *, waits: _ELSEWHERE(request, refusal, waits=True),
)
_ELSEWHERE = base.elsewhere


mutant(
    "who comes late may overtake",
    "a_group_that_waits_is_not_overtaken_under_spatial_and_is_under_best_effort",
    queue.Queue,
    "obstructed",
    lambda self, placement: False,
)
mutant(
    "who waits stops everybody",
    "a_late_group_that_is_in_nobodys_way_does_not_wait",
    queue.Queue,
    "obstructed",
    lambda self, placement: bool(self._claims),
)
mutant(
    "no turn is ever over",
    "groups_take_turns_of_a_quantum_under_temporal",
    temporal._Turn,
    "_make_way",
    lambda self, group: [],
)
mutant(
    "turns go round in the order of names",
    "groups_take_turns_of_a_quantum_under_temporal",
    temporal,
    "waiting",
    lambda groups: sorted(_WAITING(groups), key=lambda group: group.name),
)
mutant(
    "a turn is over at once",
    "groups_take_turns_of_a_quantum_under_temporal",
    temporal._Turn,
    "__init__",
    lambda self, quantum, *given: _TURN(self, 0.0, *given),
)
_TURN = temporal._Turn.__init__
mutant(
    "who asks for its hosts waits all the same",
    "nobody_makes_way_for_a_group_that_does_not_fit_even_then",
    base.GroupView,
    "waits",
    property(lambda self: self.path.value != "network"),
)
mutant(
    "spatial shares by smaller windows",
    "under_best_effort_memory_is_shared_by_smaller_windows_and_under_spatial_it_is_not",
    spatial,
    "at_rate",
    window.halved,
)
