"""Faults of buffers and slots: what fills, keeps and frees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from epic_models.reference import mode1, mode2, rc
from epic_models.reference.interfaces import Output
from epic_models.reference.rc import Message
from epic_spec.tables import Opcode
from testbed.rc_mutants.order import acknowledge_the_refused
from testbed.rc_mutants.table import Patch, attribute, both, mutant

_SEND = rc.Requester.send
_POLL = rc.Requester.poll
_TRANSMIT = rc.Requester._transmit
_IMPLICIT = rc.Requester.acknowledge_messages


def _forget_when_sent(first_time: str) -> Callable[[Any, Message, float], Output]:
    def send(self: Any, message: Message, now: float) -> Output:
        output = _SEND(self, message, now)
        if self._first_time == first_time:
            self._pending.clear()
        return output

    return send


def _one_too_many(self: Any, count: int, now: float) -> None:
    _IMPLICIT(self, count + 1, now)


def _not_from(first_time: str) -> Callable[[Any, int, float], None]:
    def implicit(self: Any, count: int, now: float) -> None:
        if self._first_time != first_time:
            _IMPLICIT(self, count, now)

    return implicit


def _wait_for_one_child(self: Any) -> bool:
    oldest = self._passed - self.params.message_buffers
    return any(e.requester.acknowledged_messages > oldest for e in self._children)


def _acked_ignoring_failure(self: Any) -> bool:
    """Also a child whose edge is in error is waited for."""
    oldest = self._passed - self.params.message_buffers
    return oldest < 0 or not any(
        e.requester.failed or e.requester.acknowledged_messages <= oldest for e in self._children
    )


def _when_the_first_has_contributed(group: type) -> Patch:
    """A cell is complete when its first contribution is in; later ones are too late."""

    def of_first(self: Any) -> int:
        return 1

    return lambda: mock.patch.object(
        group, "_full", property(of_first, lambda self, value: None), create=True
    )


def _take_any_result(group: type) -> Patch:
    """A result is taken as soon as one child has contributed its cell."""
    on_parent = getattr(group, "on_parent")  # noqa: B009 - of either mode

    def take(self: Any, packet: Any, now: float) -> Output:
        slot = self._agg[self._passed % len(self._agg)]
        full, self._full = self._full, slot.bitmap if slot is not None else self._full
        output: Output = on_parent(self, packet, now)
        self._full = full
        return output

    return attribute(group, "on_parent", take)


def _unknown_results_acknowledged(group: type) -> Patch:
    """A result that is dropped is acknowledged."""
    on_parent = getattr(group, "on_parent")  # noqa: B009 - of either mode

    def acknowledge(self: Any, packet: Any, now: float) -> Output:
        before = self.count["drop_unexpected"]
        output: Output = on_parent(self, packet, now)
        if packet.opcode is not Opcode.ACK and self.count["drop_unexpected"] > before:
            output.extend(acknowledge_the_refused(self._parent.responder))
        return output

    return attribute(group, "on_parent", acknowledge)


_REFUSAL = mode2.Mode2Group._refusal
_PUBLISH = mode2.Mode2Group._publish


def _overrun(self: Any, edge: Any, packet: Any) -> str | None:
    reason = _REFUSAL(self, edge, packet)
    if reason != "window":
        return reason
    index = edge.responder.expected % self.params.window
    # What an engine without the guard would do: the slot serves the newer cell from now on.
    self._agg[index] = None
    return None


def _overrun_acknowledged(self: Any, edge: Any, packet: Any) -> str | None:
    reason = _REFUSAL(self, edge, packet)
    if reason == "window":
        edge.responder.accept(completes=True, ackreq=False)
    return reason


_ON_CHILD = mode2.Mode2Group.on_child


def _acknowledged_before_stored(self: Any, child: int, packet: Any, now: float) -> Output:
    before = [self.count[f"drop_{reason}"] for reason in ("oversize", "element", "window")]
    output = _ON_CHILD(self, child, packet, now)
    if before != [self.count[f"drop_{reason}"] for reason in ("oversize", "element", "window")]:
        output.extend(acknowledge_the_refused(self._children[child].responder))
    return output


def _refused_aloud(self: Any, child: int, packet: Any, now: float) -> Output:
    before = self.count["drop_window"]
    output = _ON_CHILD(self, child, packet, now)
    if self.count["drop_window"] > before:
        output.extend(self._children[child].responder.not_ready())
    return output


def _all_but_the_last_child(self: Any, message: Message, now: float) -> Output:
    *_, last = self._children
    with mock.patch.object(last.requester, "send", lambda message, now: Output(), create=True):
        return _PUBLISH(self, message, now)


def _no_timer_for_partials(self: Any, now: float) -> Output:
    if self._first_time == "tx_partial":
        self._deadline = None
        return Output()
    return _POLL(self, now)


def _other_content_when_repeated(self: Any, pending: Any) -> Output:
    """What is repeated is read from the agg slot again, which the next contribution has overwritten."""
    packets = list(pending)
    for segment in packets:
        if segment.transmissions and segment.payload and self._first_time == "tx_result":
            segment.payload = bytes(len(segment.payload))
    return _TRANSMIT(self, packets)


mutant(
    "partials before all messages are whole",
    "EPIC-M1-14",
    1,
    "m1_messages/nothing-goes-up-before-every-message-is-whole",
    _when_the_first_has_contributed(mode1.Mode1Group),
)
mutant(
    "partials before all contributions are in",
    "EPIC-M2-07",
    2,
    "m2_slots/the-last-contribution-sends-the-partial",
    _when_the_first_has_contributed(mode2.Mode2Group),
)
both(
    "results forgotten when sent",
    ("EPIC-M1-15", "EPIC-M2-09"),
    (
        "m1_buffers/a-result-is-kept-until-acknowledged",
        "m2_slots/a-lost-last-result-is-repeated-by-the-timer",
    ),
    attribute(rc.Requester, "send", _forget_when_sent("tx_result")),
)
both(
    "results overwritten while kept",
    ("EPIC-M1-15", "EPIC-M2-09"),
    (
        "m1_buffers/a-kept-result-outlives-its-aggregation-buffer",
        "m2_slots/results-are-kept-while-others-go-on",
    ),
    attribute(rc.Requester, "_transmit", _other_content_when_repeated),
)
mutant(
    "results not held back (root)",
    "EPIC-M1-16",
    1,
    "m1_buffers/a-root-holds-a-result-back",
    attribute(mode1.Mode1Group, "_bcast_free", lambda self: True),
)
mutant(
    "results not held back (inner)",
    "EPIC-M1-16",
    1,
    "m1_buffers/an-inner-engine-answers-the-parent-rnr-nak",
    attribute(mode1.Mode1Group, "_bcast_free", lambda self: True),
)
mutant(
    "results wait for one child only",
    "EPIC-M1-16",
    1,
    "m1_buffers/a-root-holds-a-result-back",
    attribute(mode1.Mode1Group, "_bcast_free", _wait_for_one_child),
)
mutant(
    "results wait for a child in error",
    "EPIC-M1-16",
    1,
    "m1_buffers/a-child-in-error-holds-nothing-back",
    attribute(mode1.Mode1Group, "_bcast_free", _acked_ignoring_failure),
)
both(
    "contributions acknowledge no results",
    ("EPIC-M1-17", "EPIC-M2-10"),
    ("m1_buffers/a-message-acknowledges-results", "m2_slots/a-contribution-acknowledges-results"),
    attribute(rc.Requester, "acknowledge_messages", _not_from("tx_result")),
)
both(
    "results acknowledge no partials",
    ("EPIC-M1-17", "EPIC-M2-11"),
    ("m1_buffers/a-result-acknowledges-partials", "m2_slots/a-result-acknowledges-partials"),
    attribute(rc.Requester, "acknowledge_messages", _not_from("tx_partial")),
)
both(
    "a contribution acknowledges one result too many",
    ("EPIC-M1-17", "EPIC-M2-10"),
    ("m1_buffers/a-message-acknowledges-results", "m2_slots/a-contribution-acknowledges-results"),
    attribute(rc.Requester, "acknowledge_messages", _one_too_many),
)
both(
    "a result acknowledges one partial too many",
    ("EPIC-M1-17", "EPIC-M2-11"),
    ("m1_buffers/a-result-acknowledges-partials", "m2_slots/a-result-acknowledges-partials"),
    attribute(rc.Requester, "acknowledge_messages", _one_too_many),
)
mutant(
    "results of incomplete cells taken (I)",
    "EPIC-M1-18",
    1,
    "m1_buffers/a-result-before-its-cell-is-complete",
    _take_any_result(mode1.Mode1Group),
)
mutant(
    "results of incomplete cells taken (II)",
    "EPIC-M2-13",
    2,
    "m2_slots/a-result-before-its-cell-is-complete",
    _take_any_result(mode2.Mode2Group),
)
mutant(
    "results of incomplete cells acknowledged (I)",
    "EPIC-M1-18",
    1,
    "m1_buffers/a-result-before-its-cell-is-complete",
    _unknown_results_acknowledged(mode1.Mode1Group),
)
mutant(
    "results of incomplete cells acknowledged (II)",
    "EPIC-M2-13",
    2,
    "m2_slots/a-result-before-its-cell-is-complete",
    _unknown_results_acknowledged(mode2.Mode2Group),
)
mutant(
    "a window overrun destroys a cell",
    "EPIC-M2-06",
    2,
    "m2_slots/a-child-that-overruns-its-window",
    attribute(mode2.Mode2Group, "_refusal", _overrun),
)
mutant(
    "a window overrun is forgotten but numbered",
    "EPIC-M2-06",
    2,
    "m2_slots/a-child-that-overruns-its-window",
    attribute(mode2.Mode2Group, "_refusal", _overrun_acknowledged),
)
mutant(
    "what is dropped is acknowledged (II)",
    "EPIC-M2-04",
    2,
    "m2_edges/what-is-not-stored-is-not-acknowledged",
    attribute(mode2.Mode2Group, "on_child", _acknowledged_before_stored),
)
mutant(
    "a window overrun is answered with an RNR NAK",
    "EPIC-M2-06",
    2,
    "m2_slots/an-inner-slot-is-free-when-its-result-has-passed",
    attribute(mode2.Mode2Group, "on_child", _refused_aloud),
)
mutant(
    "results to all children but the last",
    "EPIC-M2-08",
    2,
    "m2_slots/a-result-goes-to-every-child",
    attribute(mode2.Mode2Group, "_publish", _all_but_the_last_child),
)
mutant(
    "partials never repeated",
    "EPIC-M2-12",
    2,
    "m2_slots/a-lost-last-partial-is-repeated-from-agg",
    attribute(rc.Requester, "poll", _no_timer_for_partials),
)
mutant(
    "partials forgotten when sent",
    "EPIC-M2-12",
    2,
    "m2_slots/a-lost-last-partial-is-repeated-from-agg",
    attribute(rc.Requester, "send", _forget_when_sent("tx_partial")),
)
