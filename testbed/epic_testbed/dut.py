"""What a device under test is to the conformance suite: ports, an installed group, frames in and out, time.

An adapter makes one realization a `Dut` (architecture rule 5) and registers its class in the entry point group
`epic.duts`; the suite knows nothing else of it. Devices in virtual time and in real time run the same cases: `advance`
and the timeouts of `receive` are in seconds of the device's own clock.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup, GroupPlan
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError, EpicError


class DutError(EpicError):
    """The device, or the way to it, failed: it died, does not answer, or cannot be set up."""


@dataclass(frozen=True, slots=True)
class Received:
    """A frame that the device sent: the port it left by and its bytes, Ethernet to ICRC."""

    port: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class DutTraits:
    """What an adapter declares. Each limit that makes a case not applicable is named here, never assumed.

    `binding` "ethernet": whole frames reach the device; "udp": only UDP payloads do, so that headers below UDP
    cannot be varied. `virtual_time`: the clock moves only by `advance` and `receive`. `quiet`: seconds of its clock
    after which nothing more is expected of a device that has nothing to do. `ports`: how many can be used.
    """

    name: str
    capabilities: EngineCapabilities
    binding: str = "ethernet"
    virtual_time: bool = True
    quiet: float = 0.001
    ports: int = 65
    reads_counters: bool = True
    reads_status: bool = True
    # A host that asks the engines of its tree who is missing (EPIC-F-03), by way of `AgentDut.answer`.
    asks_engines: bool = False
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> int:
        """The mode the device realizes."""
        return self.capabilities.mode


class Dut(ABC):
    """An engine under test."""

    @abstractmethod
    def traits(self) -> DutTraits:
        """What the device offers."""

    @abstractmethod
    def addresses(self, port: int) -> tuple[str, str]:
        """(IP, MAC) that the device uses on a port: a group's edges must have them as their local end."""

    @abstractmethod
    def peer_addresses(self, port: int) -> tuple[str, str]:
        """(IP, MAC) that the suite must use behind a port."""

    @abstractmethod
    def configure(self, group: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError when refused, DutError when the device fails."""

    @abstractmethod
    def remove(self, group: int) -> None:
        """Remove a group."""

    @abstractmethod
    def send(self, port: int, frame: bytes) -> None:
        """Let a frame arrive on a port. Raises DutError when the device is gone."""

    @abstractmethod
    def receive(self, timeout: float) -> Received | None:
        """The next frame from any port, waiting at most `timeout` seconds of the device's clock."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let time pass; frames sent meanwhile are kept for `receive`."""

    def clock(self) -> float:
        """Now, in seconds of the device's clock: this machine's for a device in real time. Virtual ones override it."""
        return time.monotonic()

    @abstractmethod
    def counters(self) -> Mapping[str, int]:
        """Counters by the names of epic.toml."""

    @abstractmethod
    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group."""

    @abstractmethod
    def reset(self) -> None:
        """Back to a device without groups; frames under way are discarded."""

    def close(self) -> None:  # noqa: B027 - not every adapter holds something
        """Give back what the adapter holds. Called once, also after errors."""

    def __enter__(self) -> Dut:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AgentDut(ABC):
    """A host under test: the suite plays the switch above it."""

    @abstractmethod
    def traits(self) -> DutTraits:
        """What the host offers; the fields of engines that do not apply are ignored."""

    @abstractmethod
    def addresses(self) -> tuple[str, str]:
        """(IP, MAC) of the host."""

    @abstractmethod
    def peer_addresses(self) -> tuple[str, str]:
        """(IP, MAC) that the suite must use as the switch."""

    @abstractmethod
    def join(self, rank: int, plan: GroupPlan) -> None:
        """Make the host a rank of a group. What a rank is given is `plan.ranks[rank]`; the rest names the tree."""

    @abstractmethod
    def call(self, primitive: str, **arguments: Any) -> int:
        """Start a collective, with the arguments of `Communicator`'s method of that name; returns a handle number.

        What the host refuses at once becomes the outcome of the handle, as any error does.
        """

    @abstractmethod
    def abort(self) -> None:
        """End all collectives of the rank with AbortedError."""

    @abstractmethod
    def answer(self, ask: Callable[[int], GroupStatus | None]) -> None:
        """What the suite's engine says when the host asks for the status of a group; None: it does not answer.

        A host that asks nobody (trait `asks_engines`) ignores it.
        """

    @abstractmethod
    def outcome(self, handle: int) -> Any:
        """None while the collective runs, else ("ok", array or None) or ("error", exception)."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Let a frame arrive at the host."""

    @abstractmethod
    def receive(self, timeout: float) -> bytes | None:
        """The next frame the host sends, waiting at most `timeout` seconds of its clock."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def counters(self) -> Mapping[str, int]:
        """Counters by the names of epic.toml."""

    @abstractmethod
    def reset(self) -> None:
        """Leave the group; a new one can be joined."""

    def close(self) -> None:  # noqa: B027 - not every adapter holds something
        """Give back what the adapter holds. Called once, also after errors."""

    def __enter__(self) -> AgentDut:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


Factory = Callable[..., Dut | AgentDut]


def open_dut(name: str, mode: int, options: Mapping[str, Any]) -> Dut | AgentDut:
    """The adapter registered as `name` in `epic.duts`, made with `mode` and its own options.

    Raises ConfigError for an unknown name or options that the adapter does not take.
    """
    found = {e.name: e for e in entry_points(group="epic.duts")}
    if name not in found:
        raise ConfigError(f"dut {name!r}: unknown, expected one of {', '.join(sorted(found))}")
    factory: Factory = found[name].load()
    _check_options(name, factory, options)
    return factory(mode, **options)


def _check_options(name: str, factory: Factory, options: Mapping[str, Any]) -> None:
    """An adapter's options are its keyword arguments: all but the first, which is the mode."""
    parameters = list(inspect.signature(factory).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    listed = ", ".join(p.name for p in parameters) or "none"
    unknown = [option for option in options if option not in {p.name for p in parameters}]
    if unknown:
        raise ConfigError(f"dut {name!r}: no option {unknown[0]!r}, its options are {listed}")
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in options]
    if missing:
        raise ConfigError(f"dut {name!r}: option {missing[0]!r} is missing, its options are {listed}")
