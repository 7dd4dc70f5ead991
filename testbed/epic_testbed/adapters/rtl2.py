"""`rtl` in Mode II: the engine in Verilog, simulated in this process and in virtual time."""

from __future__ import annotations

from epic_spec.errors import ConfigError
from epic_testbed.adapters.rtl import SimulatedDut
from epic_testbed.dut import Received
from epic_testbed.rtl.device2 import Mode2Device

# Time passes in steps: a twentieth of what is waited for, so that a timer is late by little of it.
SHORTEST_US, LONGEST_US, PARTS = 10, 500, 20


class Mode2RtlDut(SimulatedDut):
    """Frames take no time; while time passes, what is due is found at every step."""

    def __init__(self, mode: int, **parameters: int) -> None:
        if mode != 2:
            raise ConfigError(f"mode = {mode!r}, expected 2")
        self._engine = Mode2Device(trace=None, **parameters)
        self._started = 0.0
        super().__init__(self._engine, "epic_mode2")

    def receive(self, timeout: float) -> Received | None:
        """What was sent already, or what timers send within `timeout`."""
        end = self._now + timeout
        while not self._sent and self._now < end:
            self._step(end)
        return self._sent.popleft() if self._sent else None

    def advance(self, seconds: float) -> None:
        """Run every timer that is due until then."""
        end = self._now + seconds
        while self._now < end:
            self._step(end)

    def _step(self, end: float) -> None:
        """Some of the time until `end`, all of it when that is little."""
        left = (end - self._now) * 1e6
        step = min(max(left / PARTS, SHORTEST_US), LONGEST_US)
        self._now = end if step >= left else self._now + step * 1e-6
        passed = int((self._now - self._started) * 1e6) - self._engine.now_us
        if passed > 0:
            self._keep(self._engine.pass_time(passed))

    def reset(self) -> None:
        """A device without groups."""
        super().reset()
        self._started = self._now
