"""Which data path a group runs on. Needs nothing compiled, so that commands which only ask import nothing heavy."""

from __future__ import annotations

from typing import Final

from epic_host.fast import DATAPATHS
from epic_spec.errors import ConfigError

# Modes that have a fast data path.
MODES: Final = (2, 3)


def choose(asked: str | None, mode: int, *, recorded: bool = False, transport: str = "udp") -> str:
    """The data path asked for; without a wish the fast one, where there is one.

    `recorded`: nodes record what they do (`--trace`), which the reference path alone can. `transport`: batches cross
    UDP sockets only. Raises ConfigError for an unknown one, and for `fast` where there is none.
    """
    if asked is not None and asked not in DATAPATHS:
        raise ConfigError(f"datapath = {asked!r}, expected one of {', '.join(DATAPATHS)}")
    reasons = {
        "trace": recorded,
        f"mode = {mode}": mode not in MODES,
        f"transport = {transport}": transport != "udp",
    }
    reason = next((name for name, holds in reasons.items() if holds), None)
    if asked == "fast" and reason:
        raise ConfigError(f"datapath = fast with {reason}, expected reference")
    return asked or ("reference" if reason else "fast")


def engine_of(datapath: str, mode: int) -> str:
    """The software engine of a data path, by its name in `epic.engines`."""
    return f"{datapath}-m{mode}"


def engine_on(asked: str, engine: str) -> str:
    """`engine` on the data path asked for, whichever it names. Raises ConfigError for one that has no other."""
    path, _, mode = engine.rpartition("-m")
    if asked not in DATAPATHS:
        raise ConfigError(f"datapath = {asked!r}, expected one of {', '.join(DATAPATHS)}")
    if path not in DATAPATHS or not mode.isdecimal():
        raise ConfigError(
            f"datapath = {asked} with engine {engine}, expected an engine reference-mN or fast-mN"
        )
    return engine_of(choose(asked, int(mode)), int(mode))
