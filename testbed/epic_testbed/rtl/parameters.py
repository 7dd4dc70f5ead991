"""The parameters that a simulated engine is built with unless it is told otherwise, and what an engine then offers.

One set a mode for everything that runs one (`epic run --switch rtl`, `epic switch serve`, `epic conformance --dut
rtl`), so that one library a mode is built. They hold the main job: payloads up to 4096 bytes, windows up to 128, 8
ports, 64 children, 64 ranks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError
from epic_testbed.rtl.sources import sources_of

TOPS: Final = {2: "epic_mode2", 3: "epic_mode3"}

_BOTH: Final = {
    "DATA_W": 128, "PORTS": 8, "MTU": 4096, "EDGES": 128, "GROUPS": 16, "CHILDREN": 64, "RANKS": 64, "FP32": 1,
}  # fmt: skip
DEFAULTS: Final[Mapping[int, Mapping[str, int]]] = {
    # Virtual time: the simulation is as fast as it is, and who runs it says what time it is.
    2: {**_BOTH, "SLOTS": 128, "WINDOW": 128, "CLOCK_MHZ": 0},
    # A core as wide as four ports: what comes in on several ports at once waits little.
    3: {**_BOTH, "SLOTS": 256, "ROWS": 64, "CORE_W": 512},
}


def top_of(mode: int) -> str:
    """The top module of a mode. Raises ConfigError for one that is not built in Verilog."""
    if mode not in TOPS:
        raise ConfigError(f"mode = {mode!r}, expected {' or '.join(map(str, TOPS))}: the RTL has no other")
    return TOPS[mode]


def complete(mode: int, chosen: Mapping[str, int | str]) -> dict[str, int]:
    """The defaults with what is chosen in their place.

    Raises ConfigError for a parameter that the top does not have, a value that is no whole number, or another clock:
    whether a value is possible is for the design itself to say when it is built.
    """
    top = top_of(mode)
    (source,) = (path for path in sources_of(top) if path.stem == top)
    known = re.findall(r"^\s*parameter (?:integer )?(\w+) =", source.read_text(), re.MULTILINE)
    values = dict(DEFAULTS[mode])
    for name, value in chosen.items():
        if name not in known:
            raise ConfigError(f"{top}: no parameter {name!r}, expected one of {', '.join(known)}")
        if not re.fullmatch(r"\d{1,9}", str(value)):
            raise ConfigError(f"{top}: {name} = {value!r}, expected a whole number")
        values[name] = int(value)
    if values.get("CLOCK_MHZ"):
        raise ConfigError(
            f"{top}: CLOCK_MHZ = {values['CLOCK_MHZ']}, expected 0: a simulation runs in virtual time"
        )
    if "DATA_W" in chosen and "CORE_W" not in chosen and "CORE_W" in values:
        values["CORE_W"] = max(values["CORE_W"], values["DATA_W"])
    return values


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is built with, as its registers say it. `rows` is Mode III's, `window` Mode II's."""

    mode: int
    ports: int
    bytes: int
    fp32: bool
    slots: int
    mtu: int
    edges: int
    groups: int
    children: int
    ranks: int
    rows: int = 0
    window: int = 0
    fp16: bool = False  # and BF16

    @classmethod
    def planned(cls, mode: int, values: Mapping[str, int]) -> Self:
        """Of an engine with these parameters (all of them, see `complete`)."""
        return cls(
            mode=mode, ports=values["PORTS"], bytes=values["DATA_W"] // 8, fp32=bool(values["FP32"]),
            slots=values["SLOTS"], mtu=values["MTU"], edges=values["EDGES"], groups=values["GROUPS"],
            children=values["CHILDREN"], ranks=values["RANKS"], rows=values.get("ROWS", 0),
            window=values.get("WINDOW", 0), fp16=bool(values.get("FP16", 0)),
        )  # fmt: skip

    def offers(self) -> EngineCapabilities:
        """What that means in the words of the spec; what Mode III alone has, Mode II does not offer."""
        floats = (*(("FP32",) if self.fp32 else ()), *(("FP16", "BF16") if self.fp16 else ()))
        return EngineCapabilities(
            mode=self.mode, window=self.window or min(4096, self.slots // 2), slots=self.slots,
            payload_bytes=self.mtu, children=self.children, groups=self.groups,
            datatypes=("INT32", *floats), byte_order=("big", "little"),
            icrc=("full", "none"), partial_format=("input",), ack_reflection=self.mode == 3,
            window_guard=self.mode == 3, conflict_record=True, ordered=False, ecn=True,
        )  # fmt: skip
