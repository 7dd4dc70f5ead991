"""What devices in this process and in virtual time have in common: a frame goes in, frames come out at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_testbed.dut import Dut, DutTraits, Received


class Device(Protocol):
    """An engine with its control plane."""

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because `frame` came in on `port`."""

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError."""

    def remove(self, group: int, /) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""

    def status(self, group: int, /) -> GroupStatus:
        """Slots and failed edges of a group."""

    def reset(self) -> None:
        """Back to a device that has just been started."""


class VirtualDut(Dut):
    """A device without timers: time is a number that only grows. One that has some overrides `receive` and `advance`.

    `net` is the device's own part of the addresses: the second byte of the IP, the third of the MAC.
    """

    def __init__(self, device: Device, traits: DutTraits, net: tuple[int, int]) -> None:
        self._device = device
        self._traits = traits
        self._net = net
        self._now = 0.0
        self._sent: deque[Received] = deque()

    def traits(self) -> DutTraits:
        """What the device offers."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The device's address on a port."""
        return self._address(port, 1)

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        return self._address(port, 2)

    def _address(self, port: int, end: int) -> tuple[str, str]:
        ip, mac = self._net
        return f"10.{ip}.{port}.{end}", f"02:00:{mac:02x}:00:{port:02x}:{end:02x}"

    def configure(self, group: EngineGroup) -> None:
        """Install a group, checked as one that comes over a control plane is."""
        self._device.install(EngineGroup.from_dict(group.to_dict()))

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._device.remove(group)

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        self._keep(self._device.process(port, frame))

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
        """The device's counters."""
        return self._device.counters()

    def status(self, group: int) -> GroupStatus:
        """The device's slots."""
        return self._device.status(group)

    def reset(self) -> None:
        """A device that has just been started."""
        self._device.reset()
        self._sent.clear()

    def _keep(self, frames: Iterable[tuple[int, bytes]]) -> None:
        self._sent += [Received(port, frame) for port, frame in frames]
