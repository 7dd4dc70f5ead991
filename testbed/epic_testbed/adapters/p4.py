"""`p4-v1model` and `p4-tna`: epic.p4 run by the executor, frame by frame, in this process and in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError
from epic_testbed.dut import Dut, DutTraits, Received
from epic_testbed.p4.device import P4Device
from epic_testbed.p4.program import TARGETS


class P4Dut(Dut):
    """A P4 program that answers at once: a pipeline has no timers, so time is a number that only grows."""

    TARGET: str

    def __init__(self, mode: int) -> None:
        if mode != 3:
            raise ConfigError(f"mode = {mode!r} with dut {self.TARGET}, expected 3")
        self._device = P4Device(self.TARGET)
        self._now = 0.0
        self._sent: deque[Received] = deque()
        offers = TARGETS[self.TARGET].offers
        self._traits = DutTraits(
            self.TARGET,
            offers,
            ports=offers.children + 1,
            details={
                "program": TARGETS[self.TARGET].path.name,
                "architecture": self.TARGET.partition("-")[2],
            },
        )

    def traits(self) -> DutTraits:
        """What the program offers."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The switch's address on a port."""
        return f"10.77.{port}.1", f"02:00:4d:00:{port:02x}:01"

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        return f"10.77.{port}.2", f"02:00:4d:00:{port:02x}:02"

    def configure(self, group: EngineGroup) -> None:
        """Install a group, checked as one that comes over a control plane is."""
        self._device.install(EngineGroup.from_dict(group.to_dict()))

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._device.remove(group)

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        self._sent += [Received(out, sent) for out, sent in self._device.process(port, frame)]

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
        """The program's counters."""
        return self._device.counters()

    def status(self, group: int) -> GroupStatus:
        """The program's slots."""
        return self._device.status(group)

    def reset(self) -> None:
        """A switch that has just been started."""
        self._device.reset()
        self._sent.clear()


class P4V1modelDut(P4Dut):
    """p4/bmv2/epic.p4."""

    TARGET = "p4-v1model"


class P4TnaDut(P4Dut):
    """p4/tofino/epic.p4."""

    TARGET = "p4-tna"
