"""Planted faults of the host path: each breaks one rule and names the scenario that must see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from epic_host.fallback import agent, doubling, edge, message, ring, value
from epic_host.fallback.agent import HostAgent
from epic_host.fallback.doubling import DoublingAgent
from epic_host.fallback.edge import PeerRequester, RankEdge
from epic_host.fallback.ring import RingAgent
from epic_host.fallback.value import Partial
from epic_models.reference.interfaces import CellDelivered, CellFailed, Output
from epic_spec import psn
from epic_spec.packets import AGREEMENT_MASK

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (scenario that must fail, how)
MUTANTS: dict[str, tuple[str, Patch]] = {}


def mutant(name: str, scenario: str, *patches: tuple[Any, str, Any]) -> None:
    """Replace attributes of classes or modules."""

    def patch() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for target, attribute, changed in patches:
            stack.enter_context(mock.patch.object(target, attribute, changed))
        return stack

    MUTANTS[name] = (scenario, patch)


def everywhere(name: str, changed: Any) -> tuple[tuple[Any, str, Any], ...]:
    """A function of value.py, in every module that uses it."""
    return tuple((m, name, changed) for m in (value, message, agent, ring, doubling) if hasattr(m, name))


# ------------------------------------------------------------------------------------------------- agreement

_MERGE = value.merge
_CONTRIBUTION = value.contribution


def _lengths_ignored(params: Any, first: Partial, second: Partial) -> Partial:
    return _MERGE(params, first, replace(second, length=first.length))


def _descriptors_ignored(params: Any, first: Partial, second: Partial) -> Partial:
    return _MERGE(params, first, replace(second, held=first.held))


def _err_forgotten(params: Any, first: Partial, second: Partial) -> Partial:
    return _MERGE(params, replace(first, err=False), second)


def _record_forgotten(params: Any, first: Partial, second: Partial) -> Partial:
    return replace(_MERGE(params, first, second), record=None)


def _marks_forgotten(params: Any, first: Partial, second: Partial) -> Partial:
    return replace(_MERGE(params, first, second), congested=first.congested)


def _computes_all(params: Any, rank: int, cell: Any) -> Partial:
    from models.worlds import ALL_TYPES

    wider = replace(params, datatypes=ALL_TYPES)
    return _CONTRIBUTION(wider, rank, cell)


def _zeros_have_no_length(params: Any, rank: int, cell: Any) -> Partial:
    own = _CONTRIBUTION(params, rank, cell)
    return own if own.payload is not None else replace(own, length=0)


def _record_of_all(self: Any, result: Partial, now: float) -> CellDelivered | CellFailed:
    event = _DELIVER(self, result, now)
    return replace(event, record=result.record) if isinstance(event, CellFailed) else event


_DELIVER = HostAgent._deliver


def _own_first(self: Any, cell: int, output: Output, now: float) -> None:
    state = self._cells[cell]
    while state.step < len(self._order):
        theirs = self._early.pop((cell, self._order[state.step]), None)
        if theirs is None:
            return
        if self.rank >= self._base:
            self._fold_out(cell, theirs)
            return
        state.value = _MERGE(self.params, state.value, theirs)
        state.step += 1
        self._enter(cell, output, now)
    self._finish(cell, output, now)


mutant(
    "a rank's own partial is held first",
    "disagreement_about_the_descriptor_fails_all",
    (DoublingAgent, "_advance", _own_first),
)
mutant(
    "lengths are not compared",
    "lengths_of_a_broadcast_are_compared_in_its_last_cell",
    *everywhere("merge", _lengths_ignored),
)
mutant(
    "descriptors are not compared",
    "disagreement_about_a_root_fails_all",
    *everywhere("merge", _descriptors_ignored),
)
mutant("ERR is not passed on", "a_rank_that_gives_up_fails_all", *everywhere("merge", _err_forgotten))
mutant(
    "the record is lost on the way",
    "disagreement_about_the_length_fails_all",
    *everywhere("merge", _record_forgotten),
)
mutant(
    "congestion is lost on the way", "congestion_reaches_every_rank", *everywhere("merge", _marks_forgotten)
)
mutant(
    "what the group lacks is computed",
    "what_the_group_cannot_compute_fails_all",
    *everywhere("contribution", _computes_all),
)
mutant(
    "halves are as long as a cell",
    "a_cell_that_is_too_long_fails_all",
    *everywhere("contribution", lambda p, r, c: _CONTRIBUTION(replace(p, payload_bytes=128), r, c)),
)
mutant(
    "zeros of a Broadcast say no length",
    "lengths_of_a_broadcast_are_compared_in_its_last_cell",
    *everywhere("contribution", _zeros_have_no_length),
)
mutant(
    "records although there are none",
    "without_conflict_records_none_is_told",
    (HostAgent, "_deliver", _record_of_all),
)
mutant(
    "anybody's Broadcast data is taken",
    "data_in_a_broadcast_of_another_fails_all",
    (value, "any", lambda data: False),
)

# -------------------------------------------------------------------------------------------------- numerics


mutant(
    "partials are rounded at each step",
    "wide_partials_are_rounded_once",
    *everywhere("is_wide_partial", lambda params, held: False),
)


def _added_twice(self: Any, cell: int, output: Output, now: float) -> None:
    """Adds what a partner of a later round has sent as soon as it is here, and then again."""
    state = self._cells[cell]
    here = [peer for peer in self._order[state.step :] if (cell, peer) in self._early]
    for peer in here:
        if peer != self._order[state.step] and self._order.index(peer) > 0 and self.rank < self._base:
            state.value = value.merge(self.params, state.value, self._early[cell, peer])
    _ADVANCE(self, cell, output, now)


_ADVANCE = DoublingAgent._advance
_POSITION = RingAgent._position

mutant(
    "a round is added twice",
    "doubling_adds_in_the_same_order_in_every_cell",
    (DoublingAgent, "_advance", _added_twice),
)
mutant(
    "the ring has one owner",
    "ring_loads_every_link_with_2_n_minus_1_over_n",
    (RingAgent, "_position", lambda self, rank, cell: _POSITION(self, rank, 0)),
)
mutant(
    "the ring starts elsewhere",
    "ring_adds_from_behind_the_owner",
    (RingAgent, "_position", lambda self, rank, cell: _POSITION(self, rank, cell + 1)),
)

# ------------------------------------------------------------------------------------------------------ load

mutant(
    "Broadcast data goes round to its source",
    "payloads_of_reduce_and_broadcast_cross_a_ring_once",
    (RingAgent, "_is_needed_from", lambda self, position, held, cell: True),
)
mutant(
    "a Reduce's data goes the whole first pass",
    "payloads_of_reduce_and_broadcast_cross_a_ring_once",
    (RingAgent, "_joins_late", lambda self, held, cell: False),
)
mutant(
    "a Reduce's data goes to every partner",
    "reduce_of_doubling_moves_a_payload_a_rank",
    (DoublingAgent, "_is_needed_by", lambda self, peer, held: True),
)
mutant(
    "every rank receives a Reduce",
    "payload_of_a_reduce_comes_only_to_its_destination",
    (HostAgent, "_receives", lambda self, held: True),
)
mutant(
    "packets are no longer than the group's",
    "a_cell_is_one_packet_and_null_has_no_payload",
    (edge, "HEADER_BYTES", 0),
)

# ------------------------------------------------------------------------------------------- order, memory


def _flush_as_they_come(self: Any, output: Output, now: float) -> None:
    for cell in list(self._results):
        ready = self._results.pop(cell)
        output.events.append(replace(_DELIVER(self, ready, now), cell=cell))


def _forget_early(
    self: Any, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float
) -> None:
    if step == ring.FIRST and cell not in self._first:
        return
    _RING_ARRIVED(self, peer, cell, step, partial, output, now)


def _forget_early_rounds(
    self: Any, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float
) -> None:
    if cell in self._cells:
        _DOUBLING_ARRIVED(self, peer, cell, step, partial, output, now)


def _submit_and_flush(self: Any, cells: Any, now: float) -> Output:
    output = _SUBMIT(self, cells, now)
    self._flush(output, now)
    return output


def _window_twice(self: Any) -> int:
    return int(2 * self.params.window - self.outstanding)


def _two_windows(self: Any, one: RankEdge, arrived: Any, output: Output, now: float) -> None:
    params = self.params
    self.params = replace(params, window=2 * params.window, slots=4 * params.window)
    try:
        _TAKE(self, one, arrived, output, now)
    finally:
        self.params = params


_RING_ARRIVED, _DOUBLING_ARRIVED = RingAgent._arrived, DoublingAgent._arrived
_SUBMIT, _TAKE = HostAgent.submit, HostAgent._take

mutant(
    "results are delivered as they come", "results_come_in_order", (HostAgent, "_flush", _flush_as_they_come)
)
mutant("submit delivers", "results_come_from_receive_and_poll_only", (HostAgent, "submit", _submit_and_flush))
mutant("no window", "window_is_the_result_clock", (HostAgent, "room", _window_twice))
mutant(
    "early cells of a ring are dropped", "ranks_may_be_a_window_ahead", (RingAgent, "_arrived", _forget_early)
)
mutant(
    "early rounds are dropped",
    "ranks_may_be_a_window_ahead",
    (DoublingAgent, "_arrived", _forget_early_rounds),
)
mutant(
    "cells two windows ahead are kept",
    "what_is_not_waited_for_is_refused",
    (HostAgent, "_take", _two_windows),
)
mutant(
    "a ring takes a cell twice",
    "what_is_not_waited_for_is_refused",
    (RingAgent, "_expects", lambda self, peer, cell, step: step in (0, 1)),
)
mutant(
    "a round is taken twice",
    "what_is_not_waited_for_is_refused",
    (DoublingAgent, "_expects", lambda self, peer, cell, step: step == self._steps[peer]),
)
mutant(
    "payloads are not looked at",
    "a_payload_that_does_not_fit_its_descriptor_is_refused",
    (
        message.Arrived,
        "partial",
        lambda self, params, result: Partial(self.imm & AGREEMENT_MASK, self.length, self.body or None),
    ),
)
mutant(
    "cell numbers are not unwrapped",
    "cell_numbers_wrap_at_2_to_the_24",
    (psn, "nearest", lambda number, around: number),
)
mutant(
    "address and port are not looked at",
    "frames_of_others_change_nothing",
    (agent, "misfit", lambda *_: None),
)


def _passed_on_uncontributed(
    self: Any, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float
) -> None:
    """A rank that has not contributed hands the first pass on as if it had."""
    if (
        step == ring.FIRST
        and cell not in self._first
        and self._position(self.rank, cell) < self.world_size - 1
    ):
        self._second[cell] = partial
        self._send(self._after, cell, ring.FIRST, partial, output, now)
        return
    _RING_ARRIVED(self, peer, cell, step, partial, output, now)


def _one_round_less(self: Any, cell: int, own: Partial, output: Output, now: float) -> None:
    if self.rank < self._base:
        self._order = self._order[: self._base.bit_length() - 2]
    _DOUBLING_CONTRIBUTED(self, cell, own, output, now)


_DOUBLING_CONTRIBUTED = DoublingAgent._contributed

mutant(
    "the first pass does not wait for a rank",
    "ranks_may_be_a_window_ahead",
    (RingAgent, "_arrived", _passed_on_uncontributed),
)
mutant(
    "a round is left out",
    "null_contributions_add_nothing",
    (DoublingAgent, "_contributed", _one_round_less),
)

# ------------------------------------------------------------------------------------- edges, who is missing


def _next_message_lost(self: Any) -> Output:
    """Accepts without an acknowledgement and without counting."""
    return self._responder.acknowledge()  # type: ignore[no-any-return]


mutant(
    "an accepted message is not counted",
    "doubling_repairs_every_fault",
    (RankEdge, "accept", _next_message_lost),
)
mutant(
    "no timer",
    "every_lost_frame_is_repaired",
    (RankEdge, "poll", lambda self, now: Output()),
    (RankEdge, "next_deadline", lambda self: None),
)
mutant(
    "a cell passes as soon as it is sent",
    "every_lost_frame_is_repaired",
    (RankEdge, "passed", lambda self, cell, now: self._requester.acknowledge_messages(self._messages, now)),
)
mutant(
    "nothing passes by a result",
    "acknowledgements_may_all_be_lost_while_results_come",
    (RankEdge, "passed", lambda self, cell, now: None),
)
mutant(
    "a rank that is not there yet is given up",
    "a_rank_that_starts_late_is_waited_for",
    (edge, "PeerRequester", lambda *a, patient, **k: PeerRequester(*a, patient=False, **k)),
)
mutant(
    "no edge is ever given up",
    "a_rank_that_dies_puts_its_edges_in_error",
    (PeerRequester, "heard", lambda self: None),
)
mutant(
    "nobody says for whom it waits",
    "every_rank_names_who_is_missing",
    (
        HostAgent,
        "_tell_neighbours",
        lambda self, output, now: setattr(self, "_told", (self._delivered, frozenset())),
    ),
)
mutant(
    "what others say is not believed",
    "several_missing_ranks_are_all_missing",
    (message.Arrived, "note", lambda self: frozenset()),
)
mutant("no stall clock", "members_of_a_stalled_group_get_peer_lost", (agent, "STALL_FRACTION", 100.0))
mutant(
    "settled although not acknowledged",
    "an_agent_is_settled_when_all_is_acknowledged",
    (RankEdge, "unacknowledged", 0),
)
