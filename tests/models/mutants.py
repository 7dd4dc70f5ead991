"""Planted faults: each breaks one rule of an engine or agent and names the scenario that must see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from epic_models.reference import agent, cells, endpoint, mode1, mode2, mode3, rc
from epic_models.reference.interfaces import Output
from epic_spec import psn
from epic_spec.packets import ERR_BIT

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (clause that is broken, scenario that must fail, how)
MUTANTS: dict[str, tuple[str, str, Patch]] = {}


def mutant(name: str, clause: str, scenario: str, patch: Patch) -> None:
    MUTANTS[name] = (clause, scenario, patch)


def attribute(target: Any, name: str, value: Any) -> Patch:
    """Replace an attribute of a class or module."""
    return lambda: mock.patch.object(target, name, value)


def created(target: type, name: str, value: Any) -> Patch:
    """Put a property over what instances set themselves."""
    return lambda: mock.patch.object(target, name, value, create=True)


# ------------------------------------------------------------------------------------------- Mode III, engine


def _tagless_age(cell: int, tag: int) -> int:
    """Without a tag an open slot takes whatever maps to it."""
    frame: Any = __import__("sys")._getframe(1)
    slot = frame.f_locals["slot"]
    return 0 if not slot.done else psn.diff(cell, tag)


class _TaglessPsn:
    """`psn` as an engine without epoch tags would use it."""

    def __getattr__(self, name: str) -> Any:
        return _tagless_age if name == "diff" else getattr(psn, name)


def _few_slots(self: Any, entry: Any, counters: Any) -> None:
    params = replace(entry.params, window_guard=False)
    object.__setattr__(params, "slots", params.window)
    _M3_INIT(self, replace(entry, params=params), counters)


_M3_INIT = mode3.Mode3Group.__init__
_M3_DUPLICATE = mode3.Mode3Group._duplicate


def _count_again(self: Any, child: int, cell: int, slot: Any) -> Output:
    if slot.done or slot.value is None:
        return _M3_DUPLICATE(self, child, cell, slot)
    imm, payload = slot.value.partial()
    slot.value.add(child, self._children[child].edge, imm, payload)
    return Output()


def _replay_to_all(self: Any, child: int, cell: int, slot: Any) -> Output:
    if slot.done and slot.result is not None:
        return Output([self._result(c, cell, slot) for c in range(len(self._children))])
    return _M3_DUPLICATE(self, child, cell, slot)


def _resend_for_any(self: Any, child: int, cell: int, slot: Any) -> Output:
    return _M3_DUPLICATE(self, 0 if not slot.done else child, cell, slot)


def _never_resend(self: Any, child: int, cell: int, slot: Any) -> Output:
    return _M3_DUPLICATE(self, child, cell, slot) if slot.done else Output()


def _never_replay(self: Any, child: int, cell: int, slot: Any) -> Output:
    return Output() if slot.done else _M3_DUPLICATE(self, child, cell, slot)


def _accept_any_result(self: Any, packet: Any, now: float) -> Output:
    cell = (packet.psn - self._parent.edge.psn_rx) & psn.MASK
    return self._finish(cell, self._slot(cell), packet.imm, packet.payload or None)


def _no_guard(self: Any, entry: Any, counters: Any) -> None:
    _M3_INIT(self, replace(entry, params=replace(entry.params, window_guard=False)), counters)


mutant(
    "no epoch tag",
    "EPIC-M3-02",
    "m3_late_duplicate_of_an_older_cell_is_not_counted",
    attribute(mode3, "psn", _TaglessPsn()),
)
mutant(
    "N = W",
    "EPIC-M3-01",
    "m3_slow_rank_still_gets_its_result_by_replay",
    attribute(mode3.Mode3Group, "__init__", _few_slots),
)
mutant(
    "no dedup",
    "EPIC-E-14",
    "m3_repeated_contribution_is_counted_once",
    attribute(mode3.Mode3Group, "_duplicate", _count_again),
)
mutant(
    "replay to all",
    "EPIC-M3-08",
    "m3_slow_rank_still_gets_its_result_by_replay",
    attribute(mode3.Mode3Group, "_duplicate", _replay_to_all),
)
mutant(
    "any child resends",
    "EPIC-M3-09",
    "m3_lost_partial_is_resent_for_the_lowest_child_only",
    attribute(mode3.Mode3Group, "_duplicate", _resend_for_any),
)
mutant(
    "no child resends",
    "EPIC-M3-09",
    "m3_every_lost_frame_is_repaired",
    attribute(mode3.Mode3Group, "_duplicate", _never_resend),
)
mutant(
    "no replay",
    "EPIC-M3-08",
    "m3_every_lost_frame_is_repaired",
    attribute(mode3.Mode3Group, "_duplicate", _never_replay),
)
mutant(
    "any result accepted",
    "EPIC-M3-11",
    "m3_result_is_accepted_once_and_only_for_a_complete_cell",
    attribute(mode3.Mode3Group, "on_parent", _accept_any_result),
)
mutant(
    "no window guard",
    "EPIC-M3-04",
    "m3_child_that_overruns_its_window_destroys_nothing",
    attribute(mode3.Mode3Group, "__init__", _no_guard),
)
mutant(
    "tags compared as plain numbers",
    "EPIC-W-15",
    "m3_cell_numbers_wrap_at_2_to_the_24",
    attribute(psn, "diff", lambda a, b: a - b),
)
mutant(
    "ACK reflected without translation",
    "EPIC-M3-15",
    "m3_acknowledgement_of_a_result_is_reflected_to_its_sender",
    attribute(
        mode3.Mode3Group, "_reflect", lambda self, end, packet: Output([end.ack(packet.psn, packet.aeth)])
    ),
)
mutant(
    "ACKs not reflected",
    "EPIC-M3-15",
    "m3_acknowledgement_of_a_result_is_reflected_to_its_sender",
    attribute(mode3.Mode3Group, "_reflect", lambda self, end, packet: Output()),
)


# -------------------------------------------------------------------------------------------- Mode III, agent


def _deliver_as_it_comes(self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
    if self._outstanding.pop(number, None) is None:
        return Output()
    event = self._deliver(packet.imm, packet.payload or None, congested=False, now=now)
    return Output(events=[replace(event, cell=number)])


def _start_timers_again(self: Any, now: float) -> Output:
    for waiting in self._outstanding.values():
        waiting.last_sent = now
    return Output()


mutant(
    "results delivered as they come",
    "EPIC-M3-22",
    "m3_results_out_of_order_are_delivered_in_order",
    attribute(mode3.Mode3Agent, "_admitted", _deliver_as_it_comes),
)
mutant(
    "contributions never repeated",
    "EPIC-M3-20",
    "m3_every_lost_frame_is_repaired",
    attribute(mode3.Mode3Agent, "_timers", _start_timers_again),
)
mutant(
    "window by sends, not results",
    "EPIC-A-01",
    "window_follows_results_not_sends",
    attribute(agent.AgentBase, "room", lambda self: 1),
)
mutant(
    "no stall clock",
    "EPIC-F-03",
    "a_rank_that_never_calls_is_named_within_the_deadline",
    attribute(agent, "STALL_FRACTION", 1e9),
)
mutant(
    "congestion marks ignored",
    "EPIC-H-08",
    "congestion_marks_narrow_the_window_of_an_agent",
    attribute(agent.CongestionWindow, "delivered", lambda self, cell, next_cell, congested: None),
)


# --------------------------------------------------------------------------------------------- Modes I and II

_REFUSAL = mode2.Mode2Group._refusal
_SEND = rc.Requester.send


def _acknowledge_unstored(self: Any, edge: Any, packet: Any) -> str | None:
    reason = _REFUSAL(self, edge, packet)
    if reason == "window":
        edge.responder.accept(completes=True, ackreq=True)
    return reason


def _forget_when_sent(self: Any, message: Any, now: float) -> Output:
    output = _SEND(self, message, now)
    self._pending.clear()
    return output


def _nak_every(self: Any, arrival: Any) -> Output:
    self._nak_sent = False
    return _OUT_OF_ORDER(self, arrival)


_OUT_OF_ORDER = rc.Responder.out_of_order
_RECEIVE = mode1.Mode1Group._receive


@contextmanager
def _impatient_root() -> Iterator[None]:
    with mock.patch.object(mode1.Mode1Group, "_bcast_free", lambda self: True):
        yield


mutant(
    "early agg release (II)",
    "EPIC-M2-06",
    "m2_contribution_without_a_slot_is_not_acknowledged",
    attribute(mode2.Mode2Group, "_refusal", lambda self, edge, packet: None),
)
mutant(
    "ACK before store (II)",
    "EPIC-M2-04",
    "m2_contribution_without_a_slot_is_not_acknowledged",
    attribute(mode2.Mode2Group, "_refusal", _acknowledge_unstored),
)
mutant(
    "early bcast release (II)",
    "EPIC-M2-09",
    "m2_lost_result_is_repeated_from_the_engine",
    attribute(rc.Requester, "send", _forget_when_sent),
)
mutant(
    "early bcast release under loss (II)",
    "EPIC-M2-09",
    "m2_every_lost_frame_is_repaired",
    attribute(rc.Requester, "send", _forget_when_sent),
)
mutant(
    "early release under loss (I)",
    "EPIC-M1-15",
    "m1_every_lost_frame_is_repaired",
    attribute(rc.Requester, "send", _forget_when_sent),
)
mutant(
    "no implicit ACK of results (II)",
    "EPIC-M2-10",
    "m2_ack_lost_for_good_does_not_matter",
    attribute(rc.Requester, "acknowledge_messages", lambda self, count, now: None),
)
mutant(
    "no implicit ACK of partials (II)",
    "EPIC-M2-11",
    "m2_result_acknowledges_partials",
    attribute(rc.Requester, "acknowledge_messages", lambda self, count, now: None),
)
mutant(
    "a NAK for every packet",
    "EPIC-M2-03",
    "m2_gap_is_answered_with_one_nak",
    attribute(rc.Responder, "out_of_order", _nak_every),
)
mutant(
    "old packets not acknowledged",
    "EPIC-M2-02",
    "m2_repeated_contribution_is_acknowledged_again",
    attribute(rc.Responder, "out_of_order", lambda self, arrival: Output()),
)
mutant(
    "gap accepted",
    "EPIC-M2-01",
    "m2_late_duplicates_meet_reused_slots",
    attribute(rc.Responder, "classify", lambda self, packet: rc.Arrival.EXPECTED),
)
mutant(
    "result before completion taken (II)",
    "EPIC-M2-13",
    "m2_result_before_completion_is_not_taken",
    created(mode2.Mode2Group, "_full", property(lambda self: 1, lambda self, value: None)),
)
mutant(
    "no retry limit",
    "EPIC-F-02",
    "m2_silent_edge_ends_in_error",
    attribute(rc.Requester, "_fail", lambda self, reason: Output()),
)
mutant(
    "packet numbers do not wrap (II)",
    "EPIC-W-15",
    "m2_packet_numbers_wrap_at_2_to_the_24",
    attribute(psn, "nearest", lambda value, around: value),
)
mutant(
    "packet numbers do not wrap (I)",
    "EPIC-W-15",
    "m1_packet_numbers_wrap_at_2_to_the_24",
    attribute(psn, "nearest", lambda value, around: value),
)
mutant(
    "no RNR NAK",
    "EPIC-M1-13",
    "m1_message_without_a_buffer_gets_an_rnr_nak",
    attribute(
        mode1.Mode1Group, "_receive", lambda self, edge, packet, room: _RECEIVE(self, edge, packet, room=True)
    ),
)
mutant(
    "RNR NAK read as ACK",
    "EPIC-M1-10",
    "m1_few_buffers_still_make_progress",
    attribute(
        rc.Requester,
        "_not_ready",
        lambda self, aeth, number, now: self._acknowledge(number + 1, now) or Output(),
    ),
)
mutant("bcast not waited for", "EPIC-M1-16", "m1_result_waits_until_bcast_has_room", _impatient_root)
mutant(
    "broken messages accepted",
    "EPIC-M1-05",
    "m1_broken_messages_are_refused",
    attribute(rc.Reassembly, "fault", lambda self, packet: None),
)
mutant(
    "ACK before the message is whole",
    "EPIC-M1-08",
    "m1_message_is_acknowledged_after_it_is_whole",
    attribute(
        rc.Responder,
        "accept",
        lambda self, completes, ackreq: _ACCEPT(self, completes=completes, ackreq=True),
    ),
)
mutant(
    "added as they come",
    "EPIC-N-05",
    "m1_ordered_sum_does_not_depend_on_arrival",
    attribute(cells.CellValue, "_fold", lambda self: _fold_in_arrival_order(self)),
)
_ACCEPT = rc.Responder.accept


def _fold_in_arrival_order(self: Any) -> None:
    order = list(self._parts)
    self._parts = {i: self._parts[child] for i, child in enumerate(order)}
    _FOLD(self)


_FOLD = cells.CellValue._fold


# --------------------------------------------------------------------------------------------------- all modes


def _agree_on_all(self: Any, descriptor: int, length: int | None) -> None:
    self._held = descriptor if self._held is None else self._held
    self._length = length if self._length is None else self._length


def _agree_on_descriptor(self: Any, descriptor: int, length: int | None) -> None:
    _AGREE(self, descriptor, self._length if self._length is not None else length)


@contextmanager
def _first_length_wins() -> Iterator[None]:
    def combine(self: Any, child: int, imm: int, payload: bytes, wide: bool) -> None:
        _COMBINE(self, child, imm, payload[: self._length].ljust(self._length, b"\0"), wide)

    with (
        mock.patch.object(cells.CellValue, "_agree", _agree_on_descriptor),
        mock.patch.object(cells.CellValue, "_combine", combine),
    ):
        yield


_COMBINE = cells.CellValue._combine
_AGREE = cells.CellValue._agree
_OUTPUT = cells.CellValue._output
_ADD = cells.CellValue.add


def _without_err(self: Any, *, between_engines: bool) -> tuple[int, bytes | None]:
    imm, payload = _OUTPUT(self, between_engines=between_engines)
    return imm & ~ERR_BIT, payload


def _without_record(self: Any, *, between_engines: bool) -> tuple[int, bytes | None]:
    self._record = None
    return _OUTPUT(self, between_engines=between_engines)


def _err_not_taken(
    self: Any, child: int, edge: Any, imm: int, payload: Any, *, congested: bool = False
) -> None:
    _ADD(self, child, edge, imm & ~ERR_BIT, payload, congested=congested)


def _ce_lost(self: Any, child: int, edge: Any, imm: int, payload: Any, *, congested: bool = False) -> None:
    _ADD(self, child, edge, imm, payload)


def _but_one(self: Any) -> int:
    return self.__dict__["full"] & (self.__dict__["full"] >> 1)


def _early(group: Any) -> Patch:
    return created(
        group, "_full", property(_but_one, lambda self, value: self.__dict__.__setitem__("full", value))
    )


def _ignoring(*fields: str) -> Patch:
    """An admission check that takes some fields of a packet as right."""

    def check(edge: Any, params: Any, port: int, packet: Any) -> str | None:
        right = {
            "src_ip": edge.peer.ip,
            "dst_ip": edge.local.ip,
            "src_mac": edge.peer.mac,
            "dst_mac": edge.local.mac,
            "pkey": params.pkey,
        }
        fixed = packet.but(**{f: right[f] for f in fields if f in right})
        return _MISFIT(edge, params, edge.port if "port" in fields else port, fixed)

    return attribute(endpoint, "misfit", check)


_MISFIT = endpoint.misfit
SENT = "ranks_that_call_different_things_all_learn_what_each_said"

mutant(
    "descriptor not compared",
    "EPIC-D-02",
    "disagreement_poisons_the_cell_for_every_child",
    attribute(cells.CellValue, "_agree", _agree_on_all),
)
mutant("length not compared", "EPIC-D-02", "other_length_poisons_the_cell", _first_length_wins)
mutant(
    "descriptor not compared, whole group",
    "EPIC-D-02",
    SENT,
    attribute(cells.CellValue, "_agree", _agree_on_all),
)
mutant(
    "ERR not sent",
    "EPIC-D-04",
    "disagreement_poisons_the_cell_for_every_child",
    attribute(cells.CellValue, "_output", _without_err),
)
mutant(
    "ERR of a child not taken",
    "EPIC-D-03",
    "poison_of_a_child_reaches_every_rank",
    attribute(cells.CellValue, "add", _err_not_taken),
)
mutant(
    "no conflict record",
    "EPIC-D-06",
    "disagreement_poisons_the_cell_for_every_child",
    attribute(cells.CellValue, "_output", _without_record),
)
mutant(
    "results not suppressed (III)",
    "EPIC-E-06",
    "null_contributions_add_nothing_and_suppressed_results_have_no_payload",
    attribute(mode3, "for_child", lambda edge, imm, payload: (imm, payload)),
)
mutant(
    "Broadcast added as floats",
    "EPIC-E-16",
    "null_contributions_add_nothing_and_suppressed_results_have_no_payload",
    attribute(cells, "primitive", lambda imm: 0),
)
mutant(
    "unknown arithmetic ignored",
    "EPIC-E-12",
    "arithmetic_the_group_lacks_poisons_the_cell",
    attribute(cells.CellValue, "_combine", lambda self, child, imm, payload, wide: None),
)
mutant("early result (I)", "EPIC-E-15", "result_waits_for_every_child", _early(mode1.Mode1Group))
mutant("early result (II)", "EPIC-E-15", "result_waits_for_every_child", _early(mode2.Mode2Group))
mutant("early result (III)", "EPIC-E-15", "result_waits_for_every_child", _early(mode3.Mode3Group))
mutant(
    "congestion not carried",
    "EPIC-E-08",
    "congestion_reaches_partial_and_result",
    attribute(cells.CellValue, "add", _ce_lost),
)
mutant("port not checked", "EPIC-E-01", "frames_that_are_not_the_edges_change_nothing", _ignoring("port"))
mutant(
    "IP addresses not checked",
    "EPIC-E-01",
    "frames_that_are_not_the_edges_change_nothing",
    _ignoring("src_ip", "dst_ip"),
)
mutant(
    "MAC addresses not checked",
    "EPIC-E-01",
    "frames_that_are_not_the_edges_change_nothing",
    _ignoring("src_mac", "dst_mac"),
)
mutant("P_Key not checked", "EPIC-W-10", "frames_that_are_not_the_edges_change_nothing", _ignoring("pkey"))
mutant(
    "sizes not checked (III)",
    "EPIC-E-10",
    "sizes_that_do_not_fit_are_not_added",
    attribute(mode3.Mode3Group, "_malformed", lambda self, end, imm, payload: None),
)
mutant(
    "partials rounded at every level",
    "EPIC-N-06",
    "wide_partials_are_rounded_once",
    attribute(cells, "is_wide", lambda params, imm, between_engines: False),
)
mutant(
    "ICRC not verified",
    "EPIC-W-11",
    "frame_with_a_wrong_icrc_is_dropped",
    lambda: mock.patch.object(endpoint.codec, "decode", lambda frame, icrc: _DECODE(frame, icrc="ignore")),
)
_DECODE = endpoint.codec.decode
