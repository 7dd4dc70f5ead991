"""The engines `p4-v1model` and `p4-tna`: epic.p4 behind the interface that every engine has.

A switch process (`epic switch serve`) hands over packets; the program gets the frame that such a packet is and what it
sends is decoded again, so that transports with and without headers below UDP work alike.
"""

from __future__ import annotations

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus, Output
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet
from epic_testbed.p4.device import P4Device
from epic_testbed.p4.program import TARGETS


class P4Engine:
    """A P4 program as an engine of Mode III."""

    TARGET: str

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        self._device = P4Device(self.TARGET)
        offers = TARGETS[self.TARGET].offers
        if capabilities is not None and capabilities.mode != offers.mode:
            raise ConfigError(f"engine {self.TARGET}: mode = {capabilities.mode}, expected {offers.mode}")
        self.capabilities = capabilities or offers

    def install(self, entry: EngineGroup, now: float) -> None:
        """Install a group. Raises ConfigError or ResourceError; on an error nothing has changed."""
        self.capabilities.check(entry)
        self._device.install(entry)

    def remove(self, group: int) -> None:
        """Remove a group and free all it held. Raises ConfigError when it is not installed."""
        self._device.remove(group)

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return self._device.groups()

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`. One whose ICRC was wrong gets a wrong one again."""
        return self.receive_frame(port, codec.encode(packet, icrc=packet.icrc_ok), now)

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived on `port`."""
        return Output(
            [(out, codec.decode(sent, icrc="check")) for out, sent in self._device.process(port, frame)]
        )

    def poll(self, now: float) -> Output:
        """A pipeline has no timers."""
        return Output()

    def next_deadline(self) -> float | None:
        """Never."""
        return None

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml; all names are present."""
        return self._device.counters()

    def status(self, group: int) -> GroupStatus:
        """Slots of a group. Raises ConfigError when it is not installed."""
        return self._device.status(group)


class P4V1modelEngine(P4Engine):
    """p4/bmv2/epic.p4."""

    TARGET = "p4-v1model"


class P4TnaEngine(P4Engine):
    """p4/tofino/epic.p4."""

    TARGET = "p4-tna"
