"""The options that `epic run` and `epic testbed up` share, and the group parameters that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from epic_host.fast.datapath import choose
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import GroupParams
from epic_spec.errors import ConfigError
from epic_testbed import addressing, netns, registry, switches, topology
from epic_testbed.switches import SwitchKind
from epic_testbed.topology import Topology

TRANSPORTS = ("udp", "netns")
GROUP = 1
# Processes that share a few cores wait for each other for longer than the protocol's default of 5 ms; with it most
# timeouts would be spurious.
RTO_MIN_US = 20_000

# What the engines of a run are asked to compute: what they offer, where they say so. The software switch could do all
# of it in every mode; in Mode III it stands for a match-action pipeline: integers only, so that floating point takes
# the hosts' fixed-point path there.
INTEGERS = ("INT32", "INT8", "INT16", "INT64")
FLOATS = ("FP32", "FP16", "BF16", "FP64")
DATATYPES = {1: INTEGERS + FLOATS, 2: INTEGERS + FLOATS, 3: INTEGERS}


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates of injected faults, each from 0 to 1, applied by every node to the frames that it sends."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder", "corrupt"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 1):
                raise ConfigError(f"{name} = {value}, expected a probability from 0 to 1")
            if name in ("loss", "corrupt") and value == 1:
                raise ConfigError(f"{name} = {value}, expected less than 1: no frame would ever arrive whole")

    def of(self, node: str, seed: int) -> dict[str, Any]:
        """The transport configuration's part for a node:
        each node's decisions differ and repeat with the seed.
        """
        # The name's bytes as a number keep nodes apart without the salt of hash().
        own = seed * 0x1_0000_0000 + int.from_bytes(node.encode(), "big") % 0xFFFF_FFFB
        return {
            "loss": self.loss,
            "duplicate": self.duplicate,
            "reorder": self.reorder,
            "corrupt": self.corrupt,
            "seed": own,
        }

    @property
    def any(self) -> bool:
        """Whether any rate is above 0."""
        return bool(self.loss or self.duplicate or self.reorder or self.corrupt)


@dataclass(frozen=True, slots=True)
class Setup:
    """A tree of switches and ranks and the group on it, checked: what `session.Session` brings up."""

    topology: Topology
    ranks: int
    transport: str
    plan: addressing.Plan
    params: GroupParams
    faults: Faults
    seed: int
    switch: SwitchKind
    capture: str | None = None
    trace: str | None = None
    parameters: switches.Parameters = field(default_factory=dict)
    # Of links whose topology does not say.
    mtu: int | None = None
    # Of the ranks, and of software switches.
    datapath: str = "reference"
    # Whether ranks and software switches say where their time goes (`epic bench --profile`).
    profile: bool = False

    @property
    def engine(self) -> str:
        """The engine of every switch, by its name in `epic.engines`."""
        return self.switch.engine(self.params.mode, self.datapath)

    @property
    def link_gbps(self) -> float | None:
        """Rate of the slowest link in use whose rate the topology file gives, Gb/s."""
        rates = [link.rate_gbps for link in self.topology.used_links(self.ranks) if link.rate_gbps]
        return min(rates, default=None)


def make_setup(
    *,
    mode: int = 3,
    topology_name: str = "1-2-4",
    ranks: int | None = None,
    transport: str = "udp",
    faults: Faults | None = None,
    seed: int = 0,
    mtu: int | None = None,
    payload: int | None = None,
    window: int | None = None,
    subnet: str | None = None,
    deadline: float = 5.0,
    byte_order: str = "big",
    icrc: str | None = None,
    ack_reflection: bool = False,
    reproducible: bool = False,
    capture: str | None = None,
    trace: str | None = None,
    switch: str = "soft",
    parameters: switches.Parameters | None = None,
    datapath: str | None = None,
) -> Setup:
    """Check options and turn them into a Setup. Raises ConfigError in one line for what cannot be."""
    if transport not in TRANSPORTS:
        raise ConfigError(f"transport = {transport!r}, expected one of {', '.join(TRANSPORTS)}")
    if mode not in DATATYPES:
        raise ConfigError(f"mode = {mode}, expected 1, 2 or 3")
    kind = switches.choose(switch, mode, transport, parameters or {}, trace=trace is not None)
    path = choose(datapath, mode, recorded=trace is not None, transport=transport)
    if ack_reflection and mode != 3:
        raise ConfigError(
            f"ack_reflection with mode = {mode}, expected mode 3: Modes I and II acknowledge themselves"
        )
    if not 0 <= seed < 1 << 32:
        raise ConfigError(f"seed = {seed}, expected 0 to {(1 << 32) - 1}")
    if not math.isfinite(deadline) or not 0.1 <= deadline <= 3600:
        raise ConfigError(f"deadline = {deadline} s, expected 0.1 to 3600 seconds")
    if mtu is not None:
        topology.check_mtu(mtu, "option")
    if ranks is None and topology_name in topology.BUILT_IN:
        ranks = 4
    chosen, count = topology.load(topology_name, ranks)
    if transport == "netns":
        netns.require()
    elif subnet is None:
        subnet = registry.free_subnet()
    plan = addressing.plan(chosen, count, transport, subnet, mtu)
    size = addressing.payload_for(plan.mtu, payload)
    outstanding = kind.window if window is None else window
    params = _params(
        mode, count, size, outstanding, deadline, byte_order, icrc or "full", ack_reflection, reproducible
    )
    if kind.rto_min_us is not None:
        params = replace(params, rto_min_us=kind.rto_min_us)
    if kind.offers is not None:
        offered = kind.offers(mode, parameters or {})
        params = _within(
            replace(params, datatypes=INTEGERS + FLOATS),
            offered,
            explicit={"payload_bytes": payload, "icrc": icrc},
            name=switch,
        )
    if params.icrc == "none" and faults is not None and faults.corrupt:
        raise ConfigError(
            f"corrupt = {faults.corrupt} with icrc = none, expected icrc = full, which detects it"
        )
    return Setup(
        chosen,
        count,
        transport,
        plan,
        params,
        faults or Faults(),
        seed,
        kind,
        capture,
        trace,
        dict(parameters or {}),
        mtu,
        path,
    )


def _within(
    params: GroupParams, offered: EngineCapabilities, explicit: dict[str, Any], name: str
) -> GroupParams:
    """The parameters made to fit what the switches offer; what the user chose is not changed but refused later."""
    changes: dict[str, Any] = {
        "datatypes": tuple(d for d in params.datatypes if d in offered.datatypes),
        "operators": tuple(o for o in params.operators if o in offered.operators),
        "conflict_record": params.conflict_record and offered.conflict_record,
        "window_guard": params.window_guard and offered.window_guard,
        "ecn": params.ecn and offered.ecn,
    }
    if explicit["payload_bytes"] is None:
        changes["payload_bytes"] = min(params.payload_bytes, offered.payload_bytes)
    if explicit["icrc"] is None and params.icrc not in offered.icrc:
        changes["icrc"] = offered.icrc[0]
    fitted = replace(params, **changes)
    for option in ("payload_bytes", "window", "slots"):
        asked, most = getattr(fitted, option), getattr(offered, option)
        if asked > most:
            raise ConfigError(f"{option} = {asked} with switch = {name}, expected at most {most}")
    for option in ("icrc", "byte_order"):
        if getattr(fitted, option) not in getattr(offered, option):
            raise ConfigError(
                f"{option} = {getattr(fitted, option)} with switch = {name}, expected"
                f" {' or '.join(getattr(offered, option))}"
            )
    return fitted


def _params(
    mode: int,
    ranks: int,
    payload: int,
    window: int | None,
    deadline: float,
    byte_order: str,
    icrc: str,
    ack_reflection: bool,
    reproducible: bool,
) -> GroupParams:
    defaults = GroupParams(group=GROUP, mode=mode, world_size=ranks)
    window = defaults.window if window is None else window
    return GroupParams(
        group=GROUP,
        mode=mode,
        world_size=ranks,
        window=window,
        slots=max(2, 2 * window),
        payload_bytes=payload,
        message_bytes=max(defaults.message_bytes, payload),
        message_buffers=min(defaults.message_buffers, window) if mode == 1 else defaults.message_buffers,
        datatypes=DATATYPES[mode],
        byte_order=byte_order,
        icrc=icrc,
        ack_reflection=ack_reflection,
        # Only Mode I engines can add in rank order; elsewhere `reproducible` is the communicator's business.
        ordered=reproducible and mode == 1,
        deadline_us=round(deadline * 1e6),
        rto_min_us=RTO_MIN_US,
    )
