"""What the switches of a run can be, and what each kind offers to a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epic_host.fast.datapath import engine_of
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError
from epic_testbed.forked import NurseryCall

# What a switch is built with, by name, in place of the defaults: as on the command line, or as numbers.
Parameters = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class SwitchKind:
    """A realization that `epic run --switch NAME` uses.

    `process` is what `epic_testbed.child` runs for each switch, `engine` the name of its engine for a mode, on a data
    path where it has several. `offers` gives its capabilities in a mode; None: all that the specification knows.
    """

    name: str
    modes: tuple[int, ...]
    process: str
    engine: Callable[[int, str], str]
    offers: Callable[[int, Parameters], EngineCapabilities] | None = None
    transports: tuple[str, ...] = ("udp", "netns")
    # Raises ConfigError when a program that the kind needs is missing: what, where looked, how to get it.
    require: Callable[[], None] | None = None
    # Whether it is built with parameters, and what is done once before the switches of a run start.
    has_parameters: bool = False
    prepare: Callable[[int, Parameters], None] | None = None
    # For a kind that is slow by its nature: what a rank has outstanding unless the user says otherwise, so that no more
    # waits in the sockets than the switch works off, and the least time until something is sent again.
    window: int | None = None
    rto_min_us: int | None = None
    # What loads, before its processes are forked, what each would load.
    calls: tuple[NurseryCall, ...] = ()
    # Whether its engine works a packet through as it comes, so that it can be recorded (`--trace`).
    records: bool = True


def _v1model(mode: int, parameters: Parameters) -> EngineCapabilities:
    from epic_testbed.p4 import V1MODEL

    return V1MODEL


def _bmv2(mode: int, parameters: Parameters) -> EngineCapabilities:
    from epic_testbed.p4 import BMV2

    return BMV2


def _tna(mode: int, parameters: Parameters) -> EngineCapabilities:
    from epic_testbed.p4 import TNA

    return TNA


def _need_bmv2() -> None:
    from epic_testbed import bmv2

    bmv2.require()


def _rtl(mode: int, parameters: Parameters) -> EngineCapabilities:
    from epic_testbed.rtl.parameters import Shape, complete

    return Shape.planned(mode, complete(mode, parameters)).offers()


def _need_rtl() -> None:
    from epic_testbed.rtl import build

    build.require()


def _build_rtl(mode: int, parameters: Parameters) -> None:
    from epic_testbed.rtl import build
    from epic_testbed.rtl.parameters import complete, top_of

    build.library(top_of(mode), complete(mode, parameters))


_COMPILED: Final = "epic_testbed.p4.program:compiled"

SWITCHES: Final = {
    kind.name: kind
    for kind in (
        SwitchKind("soft", (1, 2, 3), "switch", lambda mode, path: engine_of(path, mode)),
        SwitchKind(
            "p4", (3,), "switch", lambda *_: "p4-v1model", _v1model, calls=((_COMPILED, "p4-v1model"),)
        ),
        SwitchKind("p4-tna", (3,), "switch", lambda *_: "p4-tna", _tna, calls=((_COMPILED, "p4-tna"),)),
        SwitchKind("bmv2", (3,), "bmv2", lambda *_: "bmv2", _bmv2, ("netns",), _need_bmv2, records=False),
        SwitchKind(
            "rtl",
            (2, 3),
            "switch",
            lambda mode, _: f"rtl-m{mode}",
            _rtl,
            require=_need_rtl,
            has_parameters=True,
            prepare=_build_rtl,
            window=16,
            rto_min_us=200_000,
            records=False,
        ),
    )
}


def parse(words: Sequence[str]) -> dict[str, str]:
    """Parameters from NAME=VALUE words. Raises ConfigError for a word of another form, or a name given twice."""
    parameters: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or name in parameters:
            raise ConfigError(f"set = {word!r}, expected NAME=VALUE, each name once")
        parameters[name] = value
    return parameters


def choose(
    name: str, mode: int, transport: str, parameters: Parameters, *, trace: bool = False
) -> SwitchKind:
    """The kind of that name. Raises ConfigError for one that is unknown or does not fit the rest."""
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
    if parameters and not kind.has_parameters:
        raise ConfigError(
            f"set = {', '.join(parameters)} with switch = {name}, expected none: it has no parameters"
        )
    if trace and not kind.records:
        raise ConfigError(f"trace with switch = {name}, expected none: it does not record what it does")
    if kind.require is not None:
        kind.require()
    return kind
