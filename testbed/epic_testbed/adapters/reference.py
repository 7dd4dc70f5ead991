"""`reference`: the golden engine of a mode, in this process and in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from epic_models.reference.endpoint import EngineBase
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus, Output
from epic_models.reference.registry import make_engine
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_testbed.dut import Dut, DutTraits, Received

# What stands in for the wire: a virtual millisecond is far longer than the engine ever waits without a timer.
QUIET = 1e-3
TICK = 1e-5


class ReferenceDut(Dut):
    """An engine object whose clock moves only when the suite says so."""

    def __init__(
        self, mode: int, *, engine: Callable[[], EngineBase] | None = None, name: str = "reference"
    ) -> None:
        if mode not in (1, 2, 3):
            raise ConfigError(f"mode = {mode!r}, expected 1, 2 or 3")
        self._make = engine or (lambda: make_engine(mode))
        self._engine = self._make()
        self._now = 0.0
        self._polled = -1.0
        self._sent: deque[Received] = deque()
        offered = self._engine.capabilities
        if mode != 1:
            offered = replace(offered, ordered=False)
        if mode != 3:
            offered = replace(offered, ack_reflection=False, window_guard=False)
        self._traits = DutTraits(name, offered, quiet=QUIET, ports=offered.children + 1)

    def traits(self) -> DutTraits:
        """What the engine offers."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The engine's address on a port."""
        return f"10.77.{port}.1", f"02:00:4d:00:{port:02x}:01"

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        return f"10.77.{port}.2", f"02:00:4d:00:{port:02x}:02"

    def configure(self, group: EngineGroup) -> None:
        """Install a group, checked as one that comes over a control plane is."""
        self._engine.install(EngineGroup.from_dict(group.to_dict()), self._now)

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._engine.remove(group)

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        self._keep(self._engine.receive_frame(port, frame, self._now))

    def receive(self, timeout: float) -> Received | None:
        """What was sent already, or what timers send within `timeout`."""
        end = self._now + timeout
        while not self._sent:
            if not self._run_timer(end):
                self._now = end
                return None
        return self._sent.popleft()

    def advance(self, seconds: float) -> None:
        """Run every timer that is due until then."""
        end = self._now + seconds
        while self._run_timer(end):
            pass
        self._now = end

    def _run_timer(self, end: float) -> bool:
        """Run the next timer; False when none is due by `end`."""
        due = self._engine.next_deadline()
        if due is None:
            return False
        # A broken engine whose expired timer stays due must not stop the clock.
        at = max(self._now, due if due > self._polled else self._polled + TICK)
        if at > end:
            return False
        self._now = self._polled = at
        self._keep(self._engine.poll(at))
        return True

    def clock(self) -> float:
        """Virtual now."""
        return self._now

    def counters(self) -> Mapping[str, int]:
        """The engine's counters."""
        return self._engine.counters()

    def status(self, group: int) -> GroupStatus:
        """The engine's slots."""
        return self._engine.status(group)

    def reset(self) -> None:
        """A new engine."""
        self._engine = self._make()
        self._sent.clear()

    def _keep(self, output: Output) -> None:
        for port, packet in output.sends:
            self._sent.append(Received(port, codec.encode(packet, icrc=packet.icrc_ok)))
