"""Broken hosts: the clause that each breaks, a mode, and the case that must see it.

Each is a patch of the reference agents, of their collectives, or of the adapter's host around them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from epic_models.reference import (
    agent,
    coding,
    endpoint,
    fixedpoint,
    mode3,
    operation,
    planner,
    rc,
    window,
)
from epic_models.reference.arithmetic import Arithmetic
from epic_models.reference.call import Call
from epic_models.reference.coding import Native
from epic_models.reference.diagnosis import Diagnosis
from epic_models.reference.endpoint import EdgeEnd, ack_aeth, misfit
from epic_models.reference.interfaces import CellDelivered, EdgeFailed, Output
from epic_models.reference.rto import RetransmissionTimeout
from epic_spec import codec, psn
from epic_spec.packets import NULL_BIT
from epic_spec.tables import Operator, Primitive
from epic_testbed.adapters import host_calls, reference_agent

Patch = Callable[[], AbstractContextManager[Any]]
# name -> (clause that is broken, mode, case that must fail, how)
MUTANTS: dict[str, tuple[str, int, str, Patch]] = {}


def mutant(name: str, clause: str, mode: int, case: str, patch: Patch) -> None:
    assert name not in MUTANTS
    MUTANTS[name] = (clause, mode, case, patch)


def attribute(target: Any, name: str, value: Any) -> Patch:
    """Replace an attribute of a class or module."""
    return lambda: mock.patch.object(target, name, value)


def wrapped(target: Any, name: str, wrapper: Callable[..., Any]) -> Patch:
    """Replace a function by `wrapper(original, *arguments)`."""
    original = getattr(target, name)
    return attribute(target, name, lambda *args, **kwargs: wrapper(original, *args, **kwargs))


# ------------------------------------------------------------------------------------------------ the window


def _room_of_two_windows(self: Any) -> int:
    return max(0, 2 * self.params.window - self.outstanding)


def _room_by_any_result(self: Any) -> int:
    return max(0, self.params.window - self.outstanding + len(self._early))


class _NoSerialArithmetic:
    """`psn` for a host that takes numbers as they are."""

    @staticmethod
    def add(number: int, more: int) -> int:
        return number + more

    @staticmethod
    def nearest(value: int, around: int) -> int:
        return value


def _to_nothing(self: Any, cell: int, next_cell: int, *, congested: bool) -> None:
    self._size = self._size / 2 if congested else self._size


@contextmanager
def _early_contributions() -> Iterator[None]:
    """A host that contributes to a barrier that nobody has called yet."""
    join = reference_agent.ReferenceAgentDut.join

    def joined(self: Any, rank: int, plan: Any) -> None:
        join(self, rank, plan)
        self.call("barrier")

    with mock.patch.object(reference_agent.ReferenceAgentDut, "join", joined):
        yield


mutant(
    "two windows outstanding",
    "EPIC-A-01",
    3,
    "host_window/no-more-than-a-window-without-results",
    attribute(agent.AgentBase, "room", _room_of_two_windows),
)
mutant(
    "window spans collectives no more (II)",
    "EPIC-A-01",
    2,
    "host_window/the-window-spans-collectives",
    attribute(agent.AgentBase, "room", _room_of_two_windows),
)
mutant(
    "results out of order open the window",
    "EPIC-A-01",
    3,
    "host_window/results-out-of-order-do-not-open-the-window",
    attribute(mode3.Mode3Agent, "room", _room_by_any_result),
)
mutant(
    "contributes before the call",
    "EPIC-A-04",
    3,
    "host_window/nothing-is-contributed-before-the-call",
    _early_contributions,
)
mutant(
    "no serial arithmetic",
    "EPIC-W-15",
    3,
    "host_window/numbers-wrap-around-in-both-directions",
    attribute(mode3, "psn", _NoSerialArithmetic()),
)
mutant(
    "congestion ignored",
    "EPIC-H-08",
    2,
    "host_window/congestion-halves-the-window",
    attribute(window.CongestionWindow, "delivered", lambda self, cell, next_cell, congested: None),
)
mutant(
    "congestion closes the window",
    "EPIC-H-08",
    3,
    "host_window/congestion-never-closes-the-window",
    attribute(window.CongestionWindow, "delivered", _to_nothing),
)

# ------------------------------------------------------------------------------------------------ primitives

_RUN = operation.Run


def _without_end(original: Any, *args: Any) -> Any:
    runs = original(*args)
    return runs[:-1] if runs[-1].coding is None else runs


def _end_with_operator(self: Any) -> Any:
    return _RUN(self.imm(Primitive.ALLREDUCE, Operator.SUM, self.datatype, self.root))


def _full_cells_of_halves(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **(kwargs | {"partial_bytes": 0}))


def _data_in_place_of_null(original: Any, self: Any) -> Any:
    cell = original(self)
    if cell is None or cell.payload is not None or cell.imm >> 12 & 3 == 0:
        return cell
    return replace(cell, imm=cell.imm & ~NULL_BIT, payload=bytes(64))


mutant(
    "no explicit identity",
    "EPIC-D-08",
    3,
    "host_primitives/broadcast-elsewhere",
    attribute(planner, "Run", lambda *a, **k: _RUN(*a, **k)._replace(identity=False)),
)
mutant(
    "no end cell after full cells",
    "EPIC-D-10",
    2,
    "host_primitives/all-reduce-of-full-cells-has-an-end-cell",
    wrapped(planner, "_reduce_runs", _without_end),
)
mutant(
    "empty collectives name their operator",
    "EPIC-D-09",
    1,
    "host_primitives/collectives-without-elements",
    attribute(Call, "end", _end_with_operator),
)
mutant(
    "tags modulo 32",
    "EPIC-H-02",
    3,
    "host_primitives/the-tag-counts-collectives-modulo-64",
    attribute(host_calls, "TAG_MODULUS", 32),
)
mutant(
    "data where NULL belongs",
    "EPIC-H-03",
    3,
    "host_primitives/broadcast-elsewhere",
    wrapped(operation.Operation, "pull", _data_in_place_of_null),
)
mutant(
    "no room for wide partials",
    "EPIC-H-09",
    2,
    "host_primitives/halves-leave-room-for-wide-partials",
    wrapped(Native, "__init__", _full_cells_of_halves),
)
mutant(
    "packets of half the size",
    "EPIC-M1-02",
    1,
    "host_primitives/messages-are-segmented",
    wrapped(rc, "segments", lambda original, message, mtu: original(message, mtu // 2)),
)

# ------------------------------------------------------------------------------------------------- numerics


@contextmanager
def _blocks_of_32() -> Iterator[None]:
    with mock.patch.object(coding, "BLOCK", 32), mock.patch.object(fixedpoint, "BLOCK", 32):
        yield


mutant(
    "no announcement",
    "EPIC-D-11",
    3,
    "host_numerics/min-by-complement",
    attribute(Arithmetic, "direct", property(lambda self: True)),
)
mutant(
    "blocks of 32",
    "EPIC-N-08",
    3,
    "host_numerics/blocks-of-64-elements",
    _blocks_of_32,
)
mutant(
    "infinities lost",
    "EPIC-N-08",
    1,
    "host_numerics/infinities-and-nans-in-a-fixed-point-sum",
    attribute(coding.FixedSum, "apply_classes", lambda self, values, start, stop: None),
)
mutant(
    "signature not compared",
    "EPIC-N-08",
    2,
    "host_numerics/counts-that-differ-in-a-fixed-point-sum",
    attribute(coding.Exponents, "_signature", lambda self: [0, 0, 0]),
)

# -------------------------------------------------------------------------------------------------- results


def _deliver_as_it_comes(self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
    if self._outstanding.pop(number, None) is None:
        return Output()
    event = self._deliver(packet.imm, packet.payload or None, congested=False, now=now)
    return Output(events=[replace(event, cell=number)])


def _replace_kept(original: Any, self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
    if number in self._early:
        self._early[number] = packet
    output: Output = original(self, packet, now)
    return output


def _keep_what_was_not_contributed(original: Any, self: Any, packet: Any, now: float) -> Output:
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
    if number >= self._next:
        self._early[number] = packet
        return Output()
    if number in self._early and number in self._outstanding:
        del self._early[number]
    output: Output = original(self, packet, now)
    while self._delivered in self._early and self._sent:
        ready = self._early.pop(self._delivered)
        self._outstanding.pop(self._delivered, None)
        output.events.append(self._deliver(ready.imm, ready.payload, congested=False, now=now))
    return output


def _acknowledge(original: Any, self: Any, packet: Any, now: float) -> Output:
    output: Output = original(self, packet, now)
    number = psn.nearest(psn.add(packet.psn, -self._end.edge.psn_rx), self._delivered)
    output.sends.append(self._end.ack(number, ack_aeth(0)))
    return output


def _take_older(original: Any, self: Any, packet: Any) -> Any:
    arrival = original(self, packet)
    return rc.Arrival.EXPECTED if arrival is rc.Arrival.DUPLICATE else arrival


def _no_delivery(original: Any, self: Any, imm: int, payload: Any, **more: Any) -> Any:
    """Takes the room of every second result that comes at once, but acknowledges it."""
    return original(self, imm, payload if self._delivered % 2 == 0 else None, **more)


mutant(
    "results delivered as they come",
    "EPIC-M3-22",
    3,
    "host_results/results-out-of-order-are-kept",
    attribute(mode3.Mode3Agent, "_admitted", _deliver_as_it_comes),
)
mutant(
    "kept results replaced",
    "EPIC-M3-23",
    3,
    "host_results/a-kept-result-is-not-replaced",
    wrapped(mode3.Mode3Agent, "_admitted", _replace_kept),
)
mutant(
    "results kept that were not asked for",
    "EPIC-M3-23",
    3,
    "host_results/a-result-beyond-the-window-is-dropped",
    wrapped(mode3.Mode3Agent, "_admitted", _keep_what_was_not_contributed),
)
mutant(
    "acknowledgements in Mode III",
    "EPIC-M3-25",
    3,
    "host_results/no-acknowledgement-without-reflection",
    wrapped(mode3.Mode3Agent, "_admitted", _acknowledge),
)
mutant(
    "older results delivered",
    "EPIC-A-03",
    2,
    "host_results/a-repeated-result-is-not-delivered-again",
    wrapped(rc.Responder, "classify", _take_older),
)
mutant(
    "acknowledged but not kept",
    "EPIC-M2-22",
    2,
    "host_results/a-window-of-results-at-once",
    wrapped(agent.AgentBase, "_deliver", _no_delivery),
)

# ------------------------------------------------------------------------------------------------- recovery


def _start_timers_again(self: Any, now: float) -> Output:
    for waiting in self._outstanding.values():
        waiting.last_sent = now
    return Output()


def _repeat_other_content(original: Any, self: Any, number: int, waiting: Any, now: float) -> Any:
    port, packet = original(self, number, waiting, now)
    return port, packet.but(payload=bytes(len(packet.payload)))


def _sample_of_any(original: Any, self: Any, number: int, waiting: Any, now: float) -> Any:
    sent = original(self, number, waiting, now)
    waiting.resent = False
    return sent


def _below_the_minimum(original: Any, self: Any, rtt: float) -> None:
    self._minimum = 0.0
    original(self, rtt)


def _give_up(original: Any, self: Any, now: float) -> Output:
    self.tries = getattr(self, "tries", 0) + 1
    output: Output = original(self, now)
    if self.tries > self.params.retry_limit:
        output.events.append(EdgeFailed(1, self._end.edge.name, "no result"))
    return output


mutant(
    "contributions never repeated",
    "EPIC-M3-20",
    3,
    "host_recovery/a-lost-contribution-is-repeated-unchanged",
    attribute(mode3.Mode3Agent, "_timers", _start_timers_again),
)
mutant(
    "repeated with other content",
    "EPIC-H-04",
    3,
    "host_recovery/a-lost-contribution-is-repeated-unchanged",
    wrapped(mode3.Mode3Agent, "_resend", _repeat_other_content),
)
mutant(
    "timeout does not double",
    "EPIC-F-01",
    2,
    "host_recovery/the-timeout-doubles",
    attribute(RetransmissionTimeout, "expired", lambda self: None),
)
mutant(
    "timeout does not adapt",
    "EPIC-F-06",
    3,
    "host_recovery/the-timeout-follows-the-round-trip",
    attribute(RetransmissionTimeout, "sample", lambda self, rtt: None),
)
mutant(
    "Karn's rule broken",
    "EPIC-F-06",
    3,
    "host_recovery/repeated-contributions-give-no-sample",
    wrapped(mode3.Mode3Agent, "_resend", _sample_of_any),
)
mutant(
    "timeout below rto_min",
    "EPIC-F-01",
    1,
    "host_recovery/the-timeout-is-never-below-rto-min",
    wrapped(RetransmissionTimeout, "sample", _below_the_minimum),
)
mutant(
    "timeout above rto_max",
    "EPIC-F-06",
    3,
    "host_recovery/the-timeout-doubles",
    attribute(RetransmissionTimeout, "value", property(lambda self: self._base * 2 ** (self._backoff - 1))),
)
mutant(
    "no fast retransmission",
    "EPIC-M3-21",
    3,
    "host_recovery/an-overtaken-contribution-is-repeated-at-once",
    attribute(mode3.Mode3Agent, "REORDER_THRESHOLD", 1 << 20),
)
mutant(
    "gives up before the deadline",
    "EPIC-M3-24",
    3,
    "host_recovery/silence-is-no-error-before-the-deadline",
    wrapped(mode3.Mode3Agent, "_timers", _give_up),
)

# --------------------------------------------------------------------------------------------------- errors


def _deliver_anything(original: Any, self: Any, imm: int, payload: Any, **more: Any) -> Any:
    cell = self._delivered
    original(self, imm, payload, **more)
    return CellDelivered(cell, imm, payload)


def _no_comparison(original: Any, self: Any, imm: int, payload: Any, **more: Any) -> Any:
    return original(self, (imm & 0x40) | (self._sent[0] & ~0x40), payload, **more)


@contextmanager
def _lengths_not_compared() -> Iterator[None]:
    original = operation.Operation.deliver

    def deliver(self: Any, payload: Any) -> None:
        part = copy.copy(self._incoming).take(1)
        wanted = part.length if part.run.receives else None
        original(self, None if wanted is None else (payload or b"")[:wanted].ljust(wanted, b"\0"))

    with mock.patch.object(operation.Operation, "deliver", deliver):
        yield


@contextmanager
def _errors_forgotten() -> Iterator[None]:
    original = reference_agent.Rank.fail

    def fail(self: Any, error: Any) -> None:
        original(self, error)
        self._failure = None

    with mock.patch.object(reference_agent.Rank, "fail", fail):
        yield


def _progress_never_counts(original: Any, self: Any, *args: Any, **more: Any) -> Any:
    before = self._progress
    event = original(self, *args, **more)
    self._progress = before
    return event


def _abort_waits(self: Any) -> None:
    """Takes note of the abort, and ends nothing before the next result."""


mutant(
    "ERR ignored",
    "EPIC-D-07",
    3,
    "host_errors/an-err-result-with-a-conflict-record",
    wrapped(agent.AgentBase, "_deliver", _deliver_anything),
)
mutant(
    "descriptors not compared",
    "EPIC-D-07",
    1,
    "host_errors/a-result-of-another-operator",
    wrapped(agent.AgentBase, "_deliver", _no_comparison),
)
mutant(
    "lengths not compared",
    "EPIC-D-07",
    2,
    "host_errors/a-result-that-is-shorter",
    _lengths_not_compared,
)
mutant(
    "NULL not compared",
    "EPIC-D-07",
    3,
    "host_errors/a-payload-where-null-is-expected",
    _lengths_not_compared,
)
mutant(
    "errors forgotten",
    "EPIC-H-05",
    3,
    "host_errors/an-error-ends-what-follows",
    _errors_forgotten,
)
mutant(
    "abort waits",
    "EPIC-H-06",
    2,
    "host_errors/abort-is-immediate-and-silent",
    attribute(reference_agent.ReferenceAgentDut, "abort", _abort_waits),
)
mutant(
    "no deadline",
    "EPIC-F-03",
    3,
    "host_errors/no-result-until-the-deadline",
    attribute(agent, "STALL_FRACTION", 1e6),
)
mutant(
    "deadline of the first contribution",
    "EPIC-F-03",
    2,
    "host_errors/a-delivery-starts-the-deadline-anew",
    wrapped(agent.AgentBase, "_deliver", _progress_never_counts),
)
mutant(
    "nobody named",
    "EPIC-F-03",
    1,
    "host_errors/the-error-names-the-missing-ranks",
    attribute(reference_agent, "diagnose", lambda plan, status, cell: Diagnosis((), (), "too late")),
)

# --------------------------------------------------------------------------------------------------- frames


def _ignoring(*fields: str) -> Patch:
    """An admission check that takes some fields of a packet as right."""

    def check(edge: Any, params: Any, port: int, packet: Any) -> str | None:
        right = {"src_ip": edge.peer.ip, "dst_ip": edge.local.ip, "pkey": params.pkey}
        right |= {"src_mac": edge.peer.mac, "dst_mac": edge.local.mac}
        return misfit(edge, params, port, packet.but(**{f: right[f] for f in fields}))

    return attribute(agent, "misfit", check)


def _any_qpn(original: Any, self: Any, port: int, packet: Any, now: float) -> Output:
    output: Output = original(self, port, packet.but(qpn=self._end.edge.local.qpn), now)
    return output


def _answer_strays(original: Any, self: Any, port: int, frame: bytes, now: float) -> Output:
    """Counts a frame twice that it cannot use."""
    before = dict(self._count)
    output: Output = original(self, port, frame, now)
    for name, value in self._count.items():
        if name.startswith("drop_") and value > before[name]:
            self._count[name] += 1
    return output


def _no_ackreq(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    return original(self, *args, **(kwargs | {"ackreq": False}))


def _numbers_from_one(original: Any, self: Any, opcode: Any, number: int, *args: Any, **kwargs: Any) -> Any:
    return original(self, opcode, number + 1, *args, **kwargs)


class _Unverified:
    """`codec` for a host that looks at no ICRC."""

    def __getattr__(self, name: str) -> Any:
        return self.take if name == "decode" else getattr(codec, name)

    @staticmethod
    def take(frame: bytes, icrc: str) -> Any:
        return codec.decode(frame, icrc="ignore").but(icrc_ok=True)


mutant("P_Key not checked", "EPIC-W-10", 3, "host_frames/bth-fields-that-do-not-fit", _ignoring("pkey"))
mutant(
    "QPN not checked",
    "EPIC-H-01",
    2,
    "host_frames/bth-fields-that-do-not-fit",
    wrapped(agent.AgentBase, "receive", _any_qpn),
)
mutant(
    "IP addresses not checked",
    "EPIC-H-01",
    1,
    "host_frames/addresses-of-others",
    _ignoring("src_ip", "dst_ip"),
)
mutant(
    "ICRC not verified",
    "EPIC-W-11",
    3,
    "host_frames/a-wrong-icrc",
    attribute(endpoint, "codec", _Unverified()),
)
mutant(
    "drops counted twice",
    "EPIC-W-21",
    2,
    "host_frames/frames-that-end-early",
    wrapped(agent.AgentBase, "receive_frame", _answer_strays),
)
mutant(
    "AckReq not set",
    "EPIC-W-22",
    3,
    "host_frames/frames-of-the-host",
    wrapped(EdgeEnd, "data", _no_ackreq),
)
mutant(
    "numbers from base + 1",
    "EPIC-W-16",
    2,
    "host_frames/frames-of-the-host",
    wrapped(EdgeEnd, "data", _numbers_from_one),
)
