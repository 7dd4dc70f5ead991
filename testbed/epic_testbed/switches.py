"""What the switches of a run can be, and what each kind offers to a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SwitchKind:
    """A realization that `epic run --switch NAME` uses.

    `process` is what `epic_testbed.child` runs for each switch, `engine` the name of its engine for a mode. `offers`
    gives its capabilities; None: all that the specification knows.
    """

    name: str
    modes: tuple[int, ...]
    process: str
    engine: Callable[[int], str]
    offers: Callable[[], EngineCapabilities] | None = None
    transports: tuple[str, ...] = ("udp", "netns")
    # Raises ConfigError when a program that the kind needs is missing: what, where looked, how to get it.
    require: Callable[[], None] | None = None


def _v1model() -> EngineCapabilities:
    from epic_testbed.p4 import V1MODEL

    return V1MODEL


def _bmv2() -> EngineCapabilities:
    from epic_testbed.p4 import BMV2

    return BMV2


def _tna() -> EngineCapabilities:
    from epic_testbed.p4 import TNA

    return TNA


def _need_bmv2() -> None:
    from epic_testbed import bmv2

    bmv2.require()


SWITCHES: Final = {
    kind.name: kind
    for kind in (
        SwitchKind("soft", (1, 2, 3), "switch", "reference-m{}".format),
        SwitchKind("p4", (3,), "switch", lambda _: "p4-v1model", _v1model),
        SwitchKind("p4-tna", (3,), "switch", lambda _: "p4-tna", _tna),
        SwitchKind("bmv2", (3,), "bmv2", lambda _: "bmv2", _bmv2, ("netns",), _need_bmv2),
    )
}


def choose(name: str, mode: int, transport: str) -> SwitchKind:
    """The kind of that name. Raises ConfigError for one that is unknown or does not fit mode or transport."""
    kind = SWITCHES.get(name)
    if kind is None:
        raise ConfigError(f"switch = {name!r}, expected one of {', '.join(SWITCHES)}")
    if mode not in kind.modes:
        modes = " or ".join(map(str, kind.modes))
        raise ConfigError(f"mode = {mode} with switch = {name}, expected mode {modes}")
    if transport not in kind.transports:
        raise ConfigError(
            f"transport = {transport} with switch = {name}, expected {' or '.join(kind.transports)}"
        )
    if kind.require is not None:
        kind.require()
    return kind
