"""`reference-agent`: the golden agent of a mode with the collectives of a rank, in this process, in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from epic_models.reference.collectives import Operation, describe_mismatch
from epic_models.reference.diagnosis import diagnose
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import (
    Agent,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Event,
    GroupStatus,
    Output,
)
from epic_models.reference.registry import make_agent
from epic_spec import codec
from epic_spec.errors import AbortedError, ConfigError, EpicError, MismatchError, PeerLostError
from epic_testbed.adapters.host_calls import Array, operation
from epic_testbed.dut import AgentDut, DutError, DutTraits

# A virtual millisecond is far longer than the agent ever waits without a timer.
QUIET = 1e-3
ADDRESS = ("10.78.0.2", "02:00:4e:00:00:02")
SWITCH = ("10.78.0.1", "02:00:4e:00:00:01")


@dataclass(slots=True)
class _Started:
    """A collective and how it ended (None while it runs)."""

    operation: Operation | None
    result: Array | None
    outcome: tuple[str, Any] | None = None


class Rank:
    """One rank's collectives over one agent: cells out in the order of calls, results in, errors for all."""

    def __init__(
        self, agent: Agent, rank: int, plan: GroupPlan, ask: Callable[[int], GroupStatus | None]
    ) -> None:
        self.agent = agent
        self._ask = ask
        self._rank = rank
        self._plan = plan
        self._started: list[_Started] = []
        self._outgoing: deque[_Started] = deque()
        self._incoming: deque[_Started] = deque()
        self._calls = 0
        self._failure: EpicError | None = None
        self._verdict: tuple[float, int] | None = None  # when to say who is missing, about which cell

    def call(self, primitive: str, arguments: Mapping[str, Any]) -> int:
        """Queue a collective; what is refused at once is its outcome."""
        started = _Started(None, None)
        self._started.append(started)
        try:
            if self._failure is not None:
                raise self._failure
            started.operation, started.result = operation(
                primitive, self._rank, self._plan.params, self._calls, **arguments
            )
        except EpicError as error:
            started.outcome = ("error", error)
        else:
            self._calls += 1
            self._outgoing.append(started)
            self._incoming.append(started)
        return len(self._started) - 1

    def outcome(self, handle: int) -> tuple[str, Any] | None:
        """How a collective ended."""
        return self._started[handle].outcome

    def fail(self, error: EpicError) -> None:
        """End all collectives; the first error stays."""
        if self._failure is not None:
            return
        self._failure = error
        for started in self._incoming:
            started.outcome = ("error", error)
        self._incoming.clear()
        self._outgoing.clear()

    def fill(self, now: float) -> Output:
        """Contribute what the window takes."""
        output = Output()
        while self._outgoing and self.agent.room():
            work = self._outgoing[0].operation
            assert work is not None
            cell = work.pull()
            if cell is not None:
                output.extend(self.agent.submit([cell], now))
            if work.pulled_all:
                self._outgoing.popleft()
            elif cell is None:
                break
        return output

    def take(self, events: list[Event], now: float) -> None:
        """What the agent reports."""
        for event in events:
            if self._failure is not None:
                return
            if isinstance(event, CellDelivered):
                self._verdict = None
                self._deliver(event)
            elif isinstance(event, CellFailed):
                work = self._incoming[0].operation
                assert work is not None
                line = describe_mismatch(work.description, event.sent, event.held, event.record)
                self.fail(MismatchError(line))
            elif isinstance(event, EdgeFailed):
                self.fail(PeerLostError(f"edge {event.edge}: {event.reason}", edges=[event.edge]))
            else:
                deadline = self._plan.params.deadline_us * 1e-6
                self._verdict = self._verdict or (now - event.seconds + deadline, event.cell)

    def _deliver(self, event: CellDelivered) -> None:
        started = self._incoming[0]
        assert started.operation is not None
        try:
            started.operation.deliver(event.payload)
        except MismatchError as error:
            self.fail(error)
            return
        if started.operation.finished:
            self._incoming.popleft()
            started.outcome = ("ok", started.result)

    def poll(self, now: float) -> None:
        """Say who is missing, when it is time."""
        if self._verdict is None or self._verdict[0] > now:
            return
        cell, self._verdict = self._verdict[1], None
        if self._incoming:
            found = diagnose(self._plan, {self._plan.root: self._ask(self._plan.params.group)}, cell)
            self.fail(PeerLostError(f"no result in time, {found.text}", found.ranks, found.edges))

    def next_deadline(self) -> float | None:
        """When `poll` has something to say."""
        return None if self._verdict is None else self._verdict[0]


class ReferenceAgentDut(AgentDut):
    """An agent object whose clock moves only when the suite says so."""

    def __init__(self, mode: int, *, name: str = "reference-agent") -> None:
        if mode not in (1, 2, 3):
            raise ConfigError(f"mode = {mode!r}, expected 1, 2 or 3")
        self._now = 0.0
        self._sent: deque[bytes] = deque()
        self._rank: Rank | None = None
        self._ask: Callable[[int], GroupStatus | None] = lambda _group: None
        capabilities = EngineCapabilities(mode, ack_reflection=mode == 3, window_guard=mode == 3)
        self._traits = DutTraits(
            name, capabilities, quiet=QUIET, ports=1, reads_status=False, asks_engines=True
        )

    def traits(self) -> DutTraits:
        """An agent of any parameters."""
        return self._traits

    def addresses(self) -> tuple[str, str]:
        """The rank's address."""
        return ADDRESS

    def peer_addresses(self) -> tuple[str, str]:
        """The engine's address."""
        return SWITCH

    def join(self, rank: int, plan: GroupPlan) -> None:
        """A new agent."""
        self._rank = Rank(make_agent(plan.ranks[rank]), rank, plan, lambda group: self._ask(group))

    def call(self, primitive: str, **arguments: Any) -> int:
        """Start a collective."""
        handle = self._joined.call(primitive, arguments)
        self._handle(Output())
        return handle

    def outcome(self, handle: int) -> Any:
        """How a collective ended."""
        return self._joined.outcome(handle)

    def abort(self) -> None:
        """End the rank's collectives."""
        self._joined.fail(AbortedError("the rank aborted the communicator"))

    def answer(self, ask: Callable[[int], GroupStatus | None]) -> None:
        """Whom the rank asks at its deadline."""
        self._ask = ask

    def send(self, frame: bytes) -> None:
        """A frame arrives now."""
        self._handle(self._joined.agent.receive_frame(0, frame, self._now))

    def receive(self, timeout: float) -> bytes | None:
        """What was sent already, or what timers send within `timeout`."""
        until = self._now + timeout
        while not self._sent:
            if not self._run_next(until):
                self._now = until
                return None
        return self._sent.popleft()

    def advance(self, seconds: float) -> None:
        """Run every timer that is due until then."""
        until = self._now + seconds
        while self._run_next(until):
            pass
        self._now = until

    def counters(self) -> Mapping[str, int]:
        """The agent's counters."""
        return self._joined.agent.counters()

    def reset(self) -> None:
        """No group, nothing under way."""
        self._rank = None
        self._sent.clear()

    @property
    def _joined(self) -> Rank:
        if self._rank is None:
            raise DutError("the host has not joined a group")
        return self._rank

    def _run_next(self, until: float) -> bool:
        """Run the timers of the next moment at which one is due, if that is not after `until`."""
        rank = self._joined
        due = min(
            (d for d in (rank.agent.next_deadline(), rank.next_deadline()) if d is not None), default=None
        )
        if due is None or due > until:
            return False
        self._now = max(self._now, due)
        self._handle(rank.agent.poll(self._now))
        rank.poll(self._now)
        return True

    def _handle(self, output: Output) -> None:
        rank = self._joined
        rank.take(output.events, self._now)
        following = rank.fill(self._now)
        for _, packet in (*output.sends, *following.sends):
            self._sent.append(codec.encode(packet, icrc=packet.icrc_ok))
