"""The engines `rtl-m2` and `rtl-m3`: the simulated RTL behind the interface that every engine has.

A switch process (`epic switch serve`) hands over packets one after another; what arrives together goes into the engine
together, on all its ports side by side, when the process has emptied its sockets and polls. So `receive` returns
nothing: what a packet causes comes from the next `poll`, which is due at once.

A Mode II engine runs in virtual time, and `poll` tells it this machine's. Frames that wait go in before a timer that
became due meanwhile: what it waits for may be among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import EdgeFailed, Event, GroupStatus, Output
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet
from epic_testbed.rtl.device import open_device

# Frames that a poll lets in, so that one of many does not keep the process from its other work for long.
_AT_ONCE: Final = 32
# A timer that stays due must not keep the process busy.
_TICK: Final = 1e-4


class RtlEngine:
    """The engine of a mode in Verilog. `parameters` are those of its top module in place of the defaults."""

    MODE: ClassVar[int]

    def __init__(
        self,
        capabilities: EngineCapabilities | None = None,
        parameters: Mapping[str, int | str] | None = None,
    ) -> None:
        """Raises ConfigError for parameters that the top does not have and for missing tools."""
        if capabilities is not None and capabilities.mode != self.MODE:
            raise ConfigError(f"engine rtl-m{self.MODE}: mode = {capabilities.mode}, expected {self.MODE}")
        self.device = open_device(self.MODE, parameters)
        self.capabilities = capabilities or self.device.offers
        self._waiting: list[tuple[int, bytes]] = []
        self._since: float | None = None  # when the first of them arrived
        self._start: float | None = None  # this machine's time when the engine's clock was 0
        self._told_us = 0
        self._due: float | None = None  # of the engine's next timer
        self._failed: set[tuple[int, str]] = set()
        self._errors = 0

    def close(self) -> None:
        """Ends the simulation."""
        self.device.close()

    def install(self, entry: EngineGroup, now: float) -> None:
        """Install a group. Raises ConfigError or ResourceError; on an error nothing has changed."""
        self.capabilities.check(entry)
        self.device.install(entry)

    def remove(self, group: int) -> None:
        """Remove a group and free all it held. Raises ConfigError when it is not installed."""
        self.device.remove(group)
        self._failed = {failure for failure in self._failed if failure[0] != group}

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return self.device.groups()

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`. One whose ICRC was wrong gets a wrong one again."""
        return self.receive_frame(port, codec.encode(packet, icrc=packet.icrc_ok), now)

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived on `port`: it goes in with the next `poll`."""
        self._waiting.append((port, frame))
        if self._since is None:
            self._since = now
        return Output()

    def poll(self, now: float) -> Output:
        """Let what has arrived go in, the first of it where that is much, and run the timers that are due."""
        passed = self._passed(now)
        sent: list[tuple[int, bytes]] = []
        if self._waiting:
            # Until a timer is due, not more.
            timer = self.device.next_timer()
            before = passed if timer is None else min(passed, max(timer - 1, 0))
            sent += self._tell(before)
            sent += self.device.process_all(self._waiting[:_AT_ONCE])
            del self._waiting[:_AT_ONCE]
            self._since = now if self._waiting else None
            passed -= before
        sent += self._tell(passed)
        timer = self.device.next_timer()
        self._due = None if timer is None else now + max(timer * 1e-6, _TICK)
        packets = [(port, codec.decode(frame, icrc="check")) for port, frame in sent]
        return Output(packets, self._new_failures())

    def next_deadline(self) -> float | None:
        """Now, while frames wait to go in; else when the engine's next timer is due."""
        return self._due if self._since is None else self._since

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml; all names are present."""
        return self.device.counters()

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""
        return self.device.status(group)

    def _passed(self, now: float) -> int:
        """Microseconds that the engine has not been told of."""
        if self._start is None:
            self._start = now
        return max(0, int((now - self._start) * 1e6) - self._told_us)

    def _tell(self, microseconds: int) -> list[tuple[int, bytes]]:
        self._told_us += microseconds
        return self.device.pass_time(microseconds)

    def _new_failures(self) -> list[Event]:
        """The edges that went into error since the last look; their number is counted by the engine."""
        errors = self.device.counter("edge_errors")
        if errors == self._errors:
            return []
        self._errors = errors
        failed = {(group, edge) for group in self.groups() for edge in self.device.failed_edges(group)}
        new = sorted(failed - self._failed)
        self._failed = failed
        return [EdgeFailed(group, edge, "the peer does not acknowledge, or refuses") for group, edge in new]


class RtlMode2Engine(RtlEngine):
    """rtl/src/epic_mode2.v."""

    MODE = 2


class RtlMode3Engine(RtlEngine):
    """rtl/src/epic_mode3.v."""

    MODE = 3
