"""A device with a limit around it: every call is timed, traced, and answers for its own exceptions.

The runner gives a case its device wrapped in one of these. A device that is slow, floods or raises something of its own
then ends the case with one line, whatever the case or the bench does meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from epic_models.reference.group import EngineGroup, GroupPlan
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import EpicError
from epic_testbed.dut import AgentDut, Dut, DutError, DutTraits, Received

P = ParamSpec("P")
R = TypeVar("R")

# More frames than any case can ask for: a result goes to at most 64 children, and is repeated a few times.
FLOOD_FRAMES, FLOOD_PER_FRAME = 20_000, 200
TRACE_FRAMES = 50_000
LINE = 400


class Overrun(BaseException):
    """A case must stop: its time is over or its device floods. No case may catch it, hence no Exception."""


class Frame(NamedTuple):
    """A frame that crossed: seconds since the device was reset, the port, whether it came from the device."""

    time: float
    port: int
    sent_by_device: bool
    data: bytes


def one_line(error: BaseException | str) -> str:
    """A message as one line of bounded length; the exception's type where it says nothing or is a bug's."""
    text = " ".join(str(error).split())
    if isinstance(error, BaseException) and (not text or not isinstance(error, EpicError)):
        text = f"{type(error).__name__}{': ' if text else ''}{text}"
    return text if len(text) <= LINE else text[: LINE - 1] + "…"


class Limits:
    """The clock of one case and the trace of what crossed. `calling` names the call that is under way."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calling = ""
        self.cancelled = False
        self.raised: EpicError | None = None  # by the adapter, last
        self.trace: list[Frame] = []
        self._end = time.monotonic() + seconds
        self.restart(0.0)

    def restart(self, now: float) -> None:
        """The device was reset: what crossed before is of no interest. `now` is the time on its clock."""
        self.trace.clear()
        self._started = now
        self._sent = self._received = 0

    def check(self) -> None:
        """Raises Overrun when the time of the case is over."""
        if self.cancelled or time.monotonic() > self._end:
            self.cancelled = True
            raise Overrun(f"the case did not end within {self.seconds:g} s")

    def call(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the adapter. Whatever it raises that is no error of EPIC is a DutError with its name."""
        self.check()
        self.calling = name
        try:
            result = function(*args, **kwargs)
        except EpicError as error:
            self.raised = error
            raise
        except Exception as error:
            self.raised = DutError(f"{name}: {one_line(error)}")
            raise self.raised from error
        self.calling = ""
        self.check()
        return result

    def crossed(self, now: float, port: int, data: bytes, *, sent_by_device: bool) -> None:
        """Note a frame. Raises Overrun when the device floods."""
        # Frames of one instant of virtual time are kept apart by a microsecond, in the order they crossed.
        last = self.trace[-1].time if self.trace else -1.0
        if len(self.trace) < TRACE_FRAMES:
            self.trace.append(Frame(max(now - self._started, last + 1e-6), port, sent_by_device, data))
        if not sent_by_device:
            self._sent += 1
            return
        self._received += 1
        if self._received > FLOOD_FRAMES + FLOOD_PER_FRAME * self._sent:
            raise Overrun(f"the device floods: {self._received} frames for {self._sent} that it was sent")


class GuardedDut(Dut):
    """An engine within limits."""

    def __init__(self, inner: Dut, limits: Limits) -> None:
        self._inner = inner
        self._limits = limits

    def traits(self) -> DutTraits:
        """As the device says."""
        return self._limits.call("traits", self._inner.traits)

    def addresses(self, port: int) -> tuple[str, str]:
        """As the device says."""
        return self._limits.call("addresses", self._inner.addresses, port)

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """As the device says."""
        return self._limits.call("peer_addresses", self._inner.peer_addresses, port)

    def configure(self, group: EngineGroup) -> None:
        """Install a group."""
        self._limits.call("configure", self._inner.configure, group)

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._limits.call("remove", self._inner.remove, group)

    def send(self, port: int, frame: bytes) -> None:
        """A frame towards the device."""
        self._limits.crossed(self._inner.clock(), port, frame, sent_by_device=False)
        self._limits.call("send", self._inner.send, port, frame)

    def receive(self, timeout: float) -> Received | None:
        """A frame of the device."""
        got = self._limits.call("receive", self._inner.receive, timeout)
        if got is not None:
            self._limits.crossed(self._inner.clock(), got.port, got.frame, sent_by_device=True)
        return got

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._limits.call("advance", self._inner.advance, seconds)

    def clock(self) -> float:
        """As the device says."""
        return self._limits.call("clock", self._inner.clock)

    def counters(self) -> Mapping[str, int]:
        """As the device says."""
        return self._limits.call("counters", self._inner.counters)

    def status(self, group: int) -> GroupStatus:
        """As the device says."""
        return self._limits.call("status", self._inner.status, group)

    def reset(self) -> None:
        """A device without groups."""
        self._limits.call("reset", self._inner.reset)
        self._limits.restart(self._inner.clock())

    def close(self) -> None:
        """Nothing: the device is the runner's to close."""


class GuardedAgentDut(AgentDut):
    """A host within limits."""

    def __init__(self, inner: AgentDut, limits: Limits) -> None:
        self._inner = inner
        self._limits = limits
        self._virtual = inner.traits().virtual_time
        self._waited = 0.0

    def traits(self) -> DutTraits:
        """As the host says."""
        return self._limits.call("traits", self._inner.traits)

    def addresses(self) -> tuple[str, str]:
        """As the host says."""
        return self._limits.call("addresses", self._inner.addresses)

    def peer_addresses(self) -> tuple[str, str]:
        """As the host says."""
        return self._limits.call("peer_addresses", self._inner.peer_addresses)

    def join(self, rank: int, plan: GroupPlan) -> None:
        """Make the host a rank."""
        self._limits.call("join", self._inner.join, rank, plan)

    def call(self, primitive: str, **arguments: Any) -> int:
        """Start a collective."""
        return self._limits.call("call", self._inner.call, primitive, **arguments)

    def abort(self) -> None:
        """End the rank's collectives."""
        self._limits.call("abort", self._inner.abort)

    def answer(self, ask: Callable[[int], GroupStatus | None]) -> None:
        """What the suite's engine says when the host asks."""
        self._limits.call("answer", self._inner.answer, ask)

    def outcome(self, handle: int) -> Any:
        """How a collective ended."""
        return self._limits.call("outcome", self._inner.outcome, handle)

    def send(self, frame: bytes) -> None:
        """A frame towards the host."""
        self._limits.crossed(self._now(), 0, frame, sent_by_device=False)
        self._limits.call("send", self._inner.send, frame)

    def receive(self, timeout: float) -> bytes | None:
        """A frame of the host."""
        got = self._limits.call("receive", self._inner.receive, timeout)
        if got is None:
            self._waited += timeout
        else:
            self._limits.crossed(self._now(), 0, got, sent_by_device=True)
        return got

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._limits.call("advance", self._inner.advance, seconds)
        self._waited += seconds

    def counters(self) -> Mapping[str, int]:
        """As the host says."""
        return self._limits.call("counters", self._inner.counters)

    def reset(self) -> None:
        """Leave the group."""
        self._limits.call("reset", self._inner.reset)
        self._limits.restart(self._now())

    def close(self) -> None:
        """Nothing: the host is the runner's to close."""

    def _now(self) -> float:
        """Seconds of the host's clock, for a virtual one those that the suite let pass."""
        return self._waited if self._virtual else time.monotonic()


def guarded(device: Dut | AgentDut, limits: Limits) -> Dut | AgentDut:
    """The device of a case within the case's limits."""
    return GuardedDut(device, limits) if isinstance(device, Dut) else GuardedAgentDut(device, limits)
