"""A group as its installation describes it: parameters, edges, and the part that each engine and rank gets.

Plain values with checks; `to_dict`/`from_dict` give the JSON form that files and the control plane carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from epic_spec import psn
from epic_spec.errors import ConfigError
from epic_spec.packets import ECN_ECT0, Aeth, Packet
from epic_spec.tables import CAPABILITIES, PARAMETERS, Opcode


def check_value(name: str, value: object, where: str) -> None:
    """Check a capability or parameter against its range in epic.toml.

    Raises ConfigError naming `where`, the value and what was expected.
    """
    row = CAPABILITIES.get(name) or PARAMETERS[name]
    kind = row["kind"]
    if kind == "int":
        low, high = row["range"]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{where}: {name} = {value!r}, expected a whole number from {low} to {high}")
        if row.get("power_of_two") and value & (value - 1):
            raise ConfigError(f"{where}: {name} = {value}, expected a power of two")
        multiple = row.get("multiple_of", 1)
        if value % multiple:
            raise ConfigError(f"{where}: {name} = {value}, expected a multiple of {multiple}")
    elif kind == "bool":
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {name} = {value!r}, expected true or false")
    elif kind == "choice":
        if value not in row["values"]:
            raise ConfigError(f"{where}: {name} = {value!r}, expected one of {', '.join(row['values'])}")
    else:
        if isinstance(value, str) or not set(value) <= set(row["values"]):  # type: ignore[call-overload]
            raise ConfigError(f"{where}: {name} = {value!r}, expected some of {', '.join(row['values'])}")


def _from_mapping(cls: type, data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Keyword arguments for `cls` from `data`, refusing unknown keys by name."""
    known = {f.name for f in fields(cls)}
    for key in data:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(sorted(known))}")
    return dict(data)


@dataclass(frozen=True, slots=True)
class GroupParams:
    """What all members of a group agree on. Ranges and defaults are those of epic.toml."""

    group: int
    mode: int
    world_size: int
    epoch: int = 0
    window: int = 64
    slots: int = 128
    payload_bytes: int = 1024
    message_bytes: int = 16384
    message_buffers: int = 64
    operators: tuple[str, ...] = ("SUM", "MAX", "MIN")
    datatypes: tuple[str, ...] = ("INT32",)
    byte_order: str = "big"
    icrc: str = "full"
    ack_reflection: bool = False
    window_guard: bool = True
    conflict_record: bool = True
    ordered: bool = False
    partial_format: str = "input"
    ecn: bool = True
    pkey: int = 0xFFFF
    rto_initial_us: int = 50_000
    rto_min_us: int = 20_000
    rto_max_us: int = 1_000_000
    retry_limit: int = 12
    rnr_timer_us: int = 1_000
    deadline_us: int = 5_000_000

    def __post_init__(self) -> None:
        where = f"group {self.group}"
        for f in fields(self):
            if f.name in CAPABILITIES or f.name in PARAMETERS:
                check_value(f.name, getattr(self, f.name), where)
        if not 1 <= self.world_size <= 0xFFFF:
            raise ConfigError(f"{where}: world_size = {self.world_size}, expected 1 to 65535")
        if self.mode == 3 and self.slots < 2 * self.window:
            raise ConfigError(
                f"{where}: slots = {self.slots}, expected at least 2 x window = {2 * self.window}"
            )
        if self.mode == 1 and self.message_buffers > self.window:
            raise ConfigError(
                f"{where}: message_buffers = {self.message_buffers}, expected at most window = {self.window}"
            )

        packets = -(-self.message_bytes // self.payload_bytes) * self.window
        if self.mode == 1 and packets >= psn.HALF:
            raise ConfigError(
                f"{where}: window x packets of a message = {packets}, expected below {psn.HALF} (half the PSNs)"
            )

    @property
    def cell_bytes(self) -> int:
        """Largest payload of one cell: a message in Mode I, a packet in Modes II and III."""
        return self.message_bytes if self.mode == 1 else self.payload_bytes

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = _from_mapping(cls, data, "group")
        for key in ("operators", "datatypes"):
            if key in values:
                values[key] = tuple(values[key])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of an edge."""

    ip: str
    qpn: int
    mac: str = "02:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class Edge:
    """A child-parent link of a tree as one of its ends sees it.

    `psn_tx` and `psn_rx` are the PSNs of cell 0 (of packet 0 in Mode I) that this end sends and receives.
    `ranks` are the ranks at or below the child end; `name` is `child-parent`, equal at both ends.
    """

    name: str
    port: int
    local: Endpoint
    peer: Endpoint
    psn_tx: int
    psn_rx: int
    ranks: tuple[int, ...] = ()
    peer_is_engine: bool = False
    sport: int = 0xC000

    def packet(
        self,
        opcode: Opcode,
        number: int,
        *,
        imm: int | None = None,
        payload: bytes = b"",
        aeth: Aeth | None = None,
        ackreq: bool = False,
        pkey: int = 0xFFFF,
        ecn: int = ECN_ECT0,
    ) -> Packet:
        """A packet from this end to the other, its PSN `number` after the base of what this end sends.

        An ACK answers data that was received, so its PSN counts from `psn_rx` (EPIC-W-18).
        """
        base = self.psn_rx if opcode is Opcode.ACK else self.psn_tx
        return Packet(
            opcode=opcode,
            src_ip=self.local.ip,
            dst_ip=self.peer.ip,
            qpn=self.peer.qpn,
            psn=psn.add(base, number),
            payload=payload,
            imm=imm,
            aeth=aeth,
            ackreq=ackreq,
            pkey=pkey,
            src_mac=self.local.mac,
            dst_mac=self.peer.mac,
            sport=self.sport,
            ecn=ecn,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = _from_mapping(cls, data, "edge")
        values["local"] = Endpoint(**_from_mapping(Endpoint, values["local"], "edge local"))
        values["peer"] = Endpoint(**_from_mapping(Endpoint, values["peer"], "edge peer"))
        values["ranks"] = tuple(values.get("ranks", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """What is installed on one engine: its edges. Child i of the bitmap is `children[i]`."""

    params: GroupParams
    children: tuple[Edge, ...]
    parent: Edge | None = None

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, that to the parent last."""
        return self.children if self.parent is None else (*self.children, self.parent)

    @property
    def is_root(self) -> bool:
        """Whether this engine is the root of the tree."""
        return self.parent is None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = _from_mapping(cls, data, "engine group")
        parent = values.get("parent")
        return cls(
            params=GroupParams.from_dict(values["params"]),
            children=tuple(Edge.from_dict(c) for c in values["children"]),
            parent=None if parent is None else Edge.from_dict(parent),
        )


@dataclass(frozen=True, slots=True)
class RankGroup:
    """What one rank gets: its number and its edge to the tree."""

    params: GroupParams
    rank: int
    edge: Edge

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = _from_mapping(cls, data, "rank group")
        return cls(
            params=GroupParams.from_dict(values["params"]),
            rank=values["rank"],
            edge=Edge.from_dict(values["edge"]),
        )


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A whole tree: what goes to each engine (by name) and each rank. Made by `tree.build_group`."""

    params: GroupParams
    root: str
    engines: dict[str, EngineGroup] = field(default_factory=dict)
    ranks: dict[int, RankGroup] = field(default_factory=dict)
    # For each engine, its children in bitmap order: a rank number or an engine name.
    children: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    # Control addresses of engines (gRPC targets), where there is a control plane.
    control: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        values = _from_mapping(cls, data, "group plan")
        return cls(
            params=GroupParams.from_dict(values["params"]),
            root=values["root"],
            engines={k: EngineGroup.from_dict(v) for k, v in values["engines"].items()},
            ranks={int(k): RankGroup.from_dict(v) for k, v in values["ranks"].items()},
            children={k: tuple(v) for k, v in values["children"].items()},
            control=dict(values.get("control", {})),
        )
