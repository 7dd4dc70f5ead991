"""`rtl`: the engine of Mode II or III in Verilog, simulated in this process and in virtual time.

Frames take no time. Options are the parameters of the mode's top module, such as `--option FP32=0`.
"""

from __future__ import annotations

from epic_testbed.adapters.virtual import VirtualDut
from epic_testbed.dut import DutTraits, Received
from epic_testbed.rtl.device import open_device

# A timer that stays due must not stop the clock.
_TICK_US = 10


class RtlDut(VirtualDut):
    """A Verilated engine. Mode III has no timers; those of Mode II run when they are due."""

    def __init__(self, mode: int, **parameters: int | str) -> None:
        """Raises ConfigError for mode 1, for parameters that the top does not have, and for missing tools."""
        self._engine = open_device(mode, parameters)
        self._told_us = 0
        shape = self._engine.shape
        traits = DutTraits(
            "rtl",
            self._engine.offers,
            ports=shape.ports,
            details={"top": self._engine.top, "data_width": str(8 * shape.bytes), "ports": str(shape.ports)},
        )
        super().__init__(self._engine, traits, net=(78, 0x4E))

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        # A stream has no frame without a byte; the shortest is as truncated as that.
        super().send(port, frame or bytes(1))

    def receive(self, timeout: float) -> Received | None:
        """What was sent already, or what timers send within `timeout`."""
        end = self._now + timeout
        while not self._sent and self._now < end:
            self._pass(end)
        return self._sent.popleft() if self._sent else None

    def advance(self, seconds: float) -> None:
        """Run every timer that is due until then."""
        end = self._now + seconds
        while self._now < end:
            self._pass(end)

    def reset(self) -> None:
        """A device without groups."""
        super().reset()
        self._told_us = int(self._now * 1e6)

    def close(self) -> None:
        """Ends the simulation."""
        self._engine.close()

    def _pass(self, end: float) -> None:
        """Time passes until the next timer, at most until `end`."""
        left = int(end * 1e6) - self._told_us
        due = self._engine.next_timer()
        step = left if due is None else min(left, max(due, _TICK_US))
        self._told_us += step
        self._now = end if step == left else self._told_us * 1e-6
        self._keep(self._engine.pass_time(step))
