"""`rtl`: the engine in Verilog, simulated in this process, frame by frame and in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError
from epic_testbed.dut import Dut, DutTraits, Received
from epic_testbed.rtl.device import RtlDevice


class RtlDut(Dut):
    """A Mode III engine has no timers: each frame is taken to its end, and time is a number that only grows."""

    def __init__(self, mode: int, **parameters: int | str) -> None:
        if mode != 3:
            raise ConfigError(f"mode = {mode!r} with dut rtl, expected 3")
        self._device = RtlDevice(parameters)
        self._now = 0.0
        self._sent: deque[Received] = deque()
        shape = self._device.shape
        self._traits = DutTraits(
            "rtl",
            self._device.offers,
            ports=shape.ports,
            details={"top": "epic_mode3", "data_width": str(8 * shape.bytes), "ports": str(shape.ports)},
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
        self._sent += [Received(out, sent) for out, sent in self._device.process(port, frame or bytes(1))]

    def receive(self, timeout: float) -> Received | None:
        """What was sent already."""
        if self._sent:
            return self._sent.popleft()
        self._now += timeout
        return None

    def advance(self, seconds: float) -> None:
        """Time passes, nothing happens."""
        self._now += seconds

    def clock(self) -> float:
        """Virtual now."""
        return self._now

    def counters(self) -> Mapping[str, int]:
        """The engine's counters."""
        return self._device.counters()

    def status(self, group: int) -> GroupStatus:
        """The engine's slots."""
        return self._device.status(group)

    def reset(self) -> None:
        """A device without groups."""
        self._device.reset()
        self._sent.clear()

    def close(self) -> None:
        """Ends the simulation."""
        self._device.close()


def open_rtl(mode: int, **parameters: int | str) -> Dut:
    """The simulated RTL of a mode; `parameters` are those of its top module. Raises ConfigError for mode 1."""
    if mode == 2:
        from epic_testbed.adapters.rtl2 import Mode2RtlDut

        return Mode2RtlDut(mode, **{name: int(value) for name, value in parameters.items()})
    if mode != 3:
        raise ConfigError(f"mode = {mode!r} with dut rtl, expected 2 or 3")
    return RtlDut(mode, **parameters)
