"""Faults of timers, the retry limit and edges in error."""

from __future__ import annotations

from typing import Any

from epic_models.reference import mode1, mode2, rc, rto
from epic_models.reference.interfaces import Output
from testbed.rc_mutants.table import Patch, attribute, attributes, both, mutant

_POLL = rc.Requester.poll
_TRANSMIT = rc.Requester._transmit
_ACKNOWLEDGE_BEFORE = rc.Requester._acknowledge

_RTO = rto.RetransmissionTimeout.__init__
F01 = ("EPIC-F-01", "EPIC-F-01")
F02 = ("EPIC-F-02", "EPIC-F-02")


def _unbounded(self: Any) -> None:
    self._backoff *= 2


def _without_minimum(self: Any, params: Any) -> None:
    _RTO(self, params)
    self._base = params.rto_initial_us * 1e-6
    self._minimum = 0.0


def _sample_of_all(self: Any, before: int, now: float) -> None:
    for segment in self._pending:
        segment.transmissions = min(segment.transmissions, 1)
    _ACKNOWLEDGE_BEFORE(self, before, now)


def _sample_of_the_repeat(self: Any, pending: Any) -> Output:
    packets = list(pending)
    output = _TRANSMIT(self, packets)
    for segment in packets:
        if segment.transmissions > 1:
            segment.sent, segment.transmissions = self._deadline - self._timeout.value, 1
    return output


def _never_gives_up(self: Any, now: float) -> Output:
    self._retries = 0
    return _POLL(self, now)


def _gives_up_early(self: Any, now: float) -> Output:
    due = self.next_deadline()
    if due is not None and due <= now and self._not_ready_until is None:
        self._retries += 1
    return _POLL(self, now)


def _counts_all_timeouts(self: Any, before: int, now: float) -> None:
    retries = self._retries
    _ACKNOWLEDGE_BEFORE(self, before, now)
    self._retries = retries


def _fails_in_silence(self: Any, reason: str) -> Output:
    self.failed = True
    self._pending.clear()
    return Output()


def _listens_on(group: type) -> Patch:
    """What comes over an edge in error is still taken."""
    on_child = getattr(group, "on_child")  # noqa: B009 - of either mode

    def listen(self: Any, child: int, packet: Any, now: float) -> Output:
        requester = self._children[child].requester
        failed, requester.failed = requester.failed, False
        output: Output = on_child(self, child, packet, now)
        requester.failed = requester.failed or failed
        return output

    return attribute(group, "on_child", listen)


def _one_timer_for_all(group: type) -> Patch:
    """When the timer of one edge expires, all edges repeat."""
    poll = getattr(group, "poll")  # noqa: B009 - of either mode

    def poll_all(self: Any, now: float) -> Output:
        output: Output = poll(self, now)
        if output.sends:
            for edge in self._children:
                output.extend(edge.requester._go_back(now))
        return output

    return attribute(group, "poll", poll_all)


both(
    "the timeout does not double",
    F01,
    "rc_timers/the-timeout-of-a-result-doubles",
    attribute(rto.RetransmissionTimeout, "expired", lambda self: None),
)
both(
    "no largest timeout",
    F01,
    "rc_timers/the-timeout-of-a-result-doubles",
    attributes(
        (rto.RetransmissionTimeout, "expired", _unbounded),
        (rto.RetransmissionTimeout, "value", property(lambda self: self._base * self._backoff)),
    ),
)
both(
    "no least timeout",
    F01,
    "rc_timers/the-initial-timeout-is-held-within-the-bounds",
    attribute(rto.RetransmissionTimeout, "__init__", _without_minimum),
)
both(
    "nothing learnt from round trips",
    F01,
    "rc_timers/quick-acknowledgements-shorten-the-timeout",
    attribute(rto.RetransmissionTimeout, "sample", lambda self, rtt: None),
)
both(
    "no variance in the timeout",
    F01,
    "rc_timers/slow-acknowledgements-lengthen-the-timeout",
    attribute(rto, "K", 0),
)
both(
    "samples of repeated packets",
    F01,
    "rc_timers/repeated-packets-give-no-sample",
    attribute(rc.Requester, "_acknowledge", _sample_of_all),
)
both(
    "samples from the last repeat",
    F01,
    "rc_timers/repeated-packets-give-no-sample",
    attribute(rc.Requester, "_transmit", _sample_of_the_repeat),
)
both(
    "progress does not end the backoff",
    F01,
    "rc_timers/repeated-packets-give-no-sample",
    attribute(rto.RetransmissionTimeout, "progress", lambda self: None),
)
both(
    "the edge never fails",
    F02,
    "rc_timers/the-retry-limit-of-a-child",
    attribute(rc.Requester, "poll", _never_gives_up),
)
both(
    "the edge fails a timeout early",
    F02,
    "rc_timers/the-retry-limit-of-a-child",
    attribute(rc.Requester, "poll", _gives_up_early),
)
both(
    "progress does not reset the retries",
    F02,
    "rc_timers/progress-starts-the-count-anew",
    attribute(rc.Requester, "_acknowledge", _counts_all_timeouts),
)
both(
    "an edge in error is not counted",
    F02,
    "rc_timers/the-retry-limit-of-the-parent",
    attribute(rc.Requester, "_fail", _fails_in_silence),
)
mutant(
    "an edge in error is not shown (I)",
    "EPIC-F-04",
    1,
    "rc_timers/the-retry-limit-of-a-child",
    attribute(mode1.Mode1Group, "failed_edges", lambda self: ()),
)
mutant(
    "an edge in error is not shown (II)",
    "EPIC-F-04",
    2,
    "rc_timers/the-retry-limit-of-a-child",
    attribute(mode2.Mode2Group, "failed_edges", lambda self: ()),
)
mutant(
    "an edge in error is listened to (I)",
    "EPIC-F-02",
    1,
    "rc_timers/the-retry-limit-of-a-child",
    _listens_on(mode1.Mode1Group),
)
mutant(
    "an edge in error is listened to (II)",
    "EPIC-F-02",
    2,
    "rc_timers/the-retry-limit-of-a-child",
    _listens_on(mode2.Mode2Group),
)
mutant(
    "one timer for all edges (II)",
    "EPIC-M2-12",
    2,
    "rc_timers/each-edge-has-a-timer-of-its-own",
    _one_timer_for_all(mode2.Mode2Group),
)
