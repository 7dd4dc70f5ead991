"""The way to a real device's control plane: install, remove, counters, status, capabilities, reset.

`GrpcControl` speaks `epic.v1.Engine`; `HookControl` (in `hook.py`) runs a command of the vendor's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from epic_host.control import EngineClient, EngineUnreachableError
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError
from epic_spec.tables import CAPABILITIES
from epic_testbed.dut import DutError

T = TypeVar("T")


class Control(Protocol):
    """What the suite asks of a device beside its ports. Each call ends within a deadline.

    Every method raises DutError when the device does not answer or its answer cannot be read.
    """

    def capabilities(self) -> EngineCapabilities:
        """What the device offers."""

    def install(self, group: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError when it is refused."""

    def remove(self, group: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""

    def counters(self) -> Mapping[str, int]:
        """Counters by the names of epic.toml."""

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""

    def reset(self) -> None:
        """Remove every group."""

    def close(self) -> None:
        """Give back what is held."""


class GrpcControl:
    """A device with the Engine service of `engine.proto`, such as the software switch."""

    def __init__(self, address: str, timeout: float) -> None:
        """`address` as gRPC takes it (unix:/path, host:port); `timeout` in seconds bounds each call."""
        self._client = EngineClient(address, timeout)

    def capabilities(self) -> EngineCapabilities:
        """What the engine offers."""
        return self._ask(self._client.capabilities)

    def install(self, group: EngineGroup) -> None:
        """Install a group."""
        self._ask(lambda: self._client.install(group))

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._ask(lambda: self._client.remove(group))

    def counters(self) -> Mapping[str, int]:
        """The engine's counters."""
        return self._ask(self._client.counters)

    def status(self, group: int) -> GroupStatus:
        """The group's slots."""
        return self._ask(lambda: self._client.status(group))

    def reset(self) -> None:
        """Remove every group that `Health` lists."""
        _, _, groups = self._ask(self._client.health)
        for group in groups:
            self.remove(group)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @staticmethod
    def _ask(call: Callable[[], T]) -> T:
        try:
            return call()
        except EngineUnreachableError as error:
            raise DutError(str(error)) from None


def offered(capabilities: EngineCapabilities, mode: int) -> EngineCapabilities:
    """What a device offers of the capabilities that mean something in its mode.

    Raises ConfigError when its mode is another than was asked for.
    """
    if capabilities.mode != mode:
        raise ConfigError(f"mode = {mode}, but the device realizes mode {capabilities.mode}")
    unused = {
        name: False
        for name in ("ack_reflection", "window_guard", "conflict_record", "ordered", "ecn")
        if mode not in CAPABILITIES[name]["modes"]
    }
    return replace(capabilities, **unused)  # type: ignore[arg-type]


def check_mode(mode: object) -> int:
    """The mode as a number. Raises ConfigError."""
    if mode not in (1, 2, 3):
        raise ConfigError(f"mode = {mode!r}, expected 1, 2 or 3")
    assert isinstance(mode, int)
    return mode


def number(text: object, name: str, low: float, high: float) -> float:
    """An option's value as a number. Raises ConfigError naming the option and its range."""
    try:
        value = float(str(text))
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise ConfigError(f"option {name} = {text!r}, expected a number from {low:g} to {high:g}")
    return value
