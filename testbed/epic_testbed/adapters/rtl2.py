"""`rtl` in Mode II: the engine in Verilog, simulated in this process and in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError
from epic_testbed.dut import Dut, DutTraits, Received
from epic_testbed.rtl.device2 import Mode2Device

# Time passes in steps: a twentieth of what is waited for, so that a timer is late by little of it.
SHORTEST_US, LONGEST_US, PARTS = 10, 500, 20


class Mode2RtlDut(Dut):
    """Frames take no time; while time passes, what is due is found at every step."""

    def __init__(self, mode: int, **parameters: int) -> None:
        if mode != 2:
            raise ConfigError(f"mode = {mode!r}, expected 2")
        self._device = Mode2Device(trace=None, **parameters)
        self._now = 0.0
        self._started = 0.0
        self._sent: deque[Received] = deque()
        shape = self._device.shape
        self._traits = DutTraits(
            "rtl",
            self._device.offers,
            ports=shape.ports,
            details={"top": "epic_mode2", "data_width": str(8 * shape.bytes), "ports": str(shape.ports)},
        )

    def traits(self) -> DutTraits:
        """What the engine is built to offer."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The engine's address on a port."""
        return f"10.78.{port}.1", f"02:00:4e:00:{port:02x}:01"

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        return f"10.78.{port}.2", f"02:00:4e:00:{port:02x}:02"

    def configure(self, group: EngineGroup) -> None:
        """Install a group, checked as one that comes over a control plane is."""
        self._device.install(EngineGroup.from_dict(group.to_dict()))

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._device.remove(group)

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        # A stream has no frame without a byte; the shortest is as truncated as that.
        self._keep(self._device.process(port, frame or bytes(1)))

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
        passed = int((self._now - self._started) * 1e6) - self._device.now_us
        if passed > 0:
            self._keep(self._device.pass_time(passed))

    def clock(self) -> float:
        """Virtual now."""
        return self._now

    def counters(self) -> Mapping[str, int]:
        """The engine's counters."""
        return self._device.counters()

    def status(self, group: int) -> GroupStatus:
        """The engine's slots and edges in error."""
        return self._device.status(group)

    def reset(self) -> None:
        """A device without groups."""
        self._device.reset()
        self._started = self._now
        self._sent.clear()

    def close(self) -> None:
        """Ends the simulation."""
        self._device.close()

    def _keep(self, frames: list[tuple[int, bytes]]) -> None:
        self._sent += [Received(port, frame) for port, frame in frames]
